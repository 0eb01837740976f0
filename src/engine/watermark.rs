//! The least offset of a partition that is not yet durable as samples, dead letters or counted skips.

use std::collections::BTreeMap;

/// Everything below `committable` is done with. Holders (chains, dead letters) hold the offset of their first open
/// position; the next offset to be polled bounds it from above.
#[derive(Clone, Debug)]
pub struct Watermark {
    next: i64,
    held: BTreeMap<i64, u32>,
}

impl Watermark {
    pub fn new(next: i64) -> Self {
        Self { next, held: BTreeMap::new() }
    }

    /// All offsets below `next` were handed on.
    pub fn polled(&mut self, next: i64) {
        self.next = self.next.max(next);
    }

    /// Nothing at or past `to` counts any more.
    pub fn cut(&mut self, to: i64) {
        self.next = self.next.min(to);
    }

    pub fn next(&self) -> i64 {
        self.next
    }

    pub fn hold(&mut self, offset: i64) {
        *self.held.entry(offset).or_insert(0) += 1;
    }

    pub fn release(&mut self, offset: i64) {
        let count = self.held.get_mut(&offset).expect("invariant: only what is held is released");
        *count -= 1;
        if *count == 0 {
            self.held.remove(&offset);
        }
    }

    pub fn committable(&self) -> i64 {
        self.held.first_key_value().map_or(self.next, |(first, _)| (*first).min(self.next))
    }

    pub fn is_clear(&self) -> bool {
        self.held.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against the definition: a set of open offsets.
        #[test]
        fn committable_is_the_least_open_offset(ops in prop::collection::vec((0i64..20, any::<bool>()), 0..200)) {
            let mut mark = Watermark::new(0);
            let mut open: Vec<i64> = Vec::new();
            let mut next = 0;
            for (offset, hold) in ops {
                if hold {
                    next = next.max(offset + 1);
                    mark.polled(next);
                    mark.hold(offset);
                    open.push(offset);
                } else if let Some(at) = open.iter().position(|o| *o == offset) {
                    open.swap_remove(at);
                    mark.release(offset);
                }
                let expected = open.iter().copied().min().unwrap_or(next);
                prop_assert_eq!(mark.committable(), expected);
                prop_assert_eq!(mark.is_clear(), open.is_empty());
            }
        }
    }
}
