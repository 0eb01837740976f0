//! Slots in an order that can be changed at any place in constant time: the least recently used stands in front.

/// Not in the order.
const ABSENT: u32 = u32::MAX;
/// No neighbour on this side.
const END: u32 = u32::MAX - 1;

#[derive(Clone, Copy, Debug)]
struct Link {
    before: u32,
    after: u32,
}

/// A linked list through a table of slots, so that looking for the coldest chain never scans the table.
#[derive(Debug)]
pub(super) struct Order {
    links: Vec<Link>,
    first: u32,
    last: u32,
    len: usize,
}

impl Default for Order {
    fn default() -> Self {
        Self { links: Vec::new(), first: END, last: END, len: 0 }
    }
}

impl Order {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn first(&self) -> Option<u32> {
        (self.first != END).then_some(self.first)
    }

    /// To the back, from wherever it was.
    pub(super) fn push_back(&mut self, slot: u32) {
        self.remove(slot);
        let at = slot as usize;
        if at >= self.links.len() {
            self.links.resize(at + 1, Link { before: ABSENT, after: ABSENT });
        }
        self.links[at] = Link { before: self.last, after: END };
        self.join(self.last, slot);
        self.last = slot;
        self.len += 1;
    }

    /// No effect where the slot is not in the order.
    pub(super) fn remove(&mut self, slot: u32) {
        let Some(link) = self.links.get_mut(slot as usize).filter(|link| link.before != ABSENT) else { return };
        let Link { before, after } = std::mem::replace(link, Link { before: ABSENT, after: ABSENT });
        self.join(before, after);
        if after == END {
            self.last = before;
        } else {
            self.links[after as usize].before = before;
        }
        self.len -= 1;
    }

    fn join(&mut self, before: u32, after: u32) {
        if before == END {
            self.first = after;
        } else {
            self.links[before as usize].after = after;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn listed(order: &Order) -> Vec<u32> {
        let after = |slot: &u32| Some(order.links[*slot as usize].after).filter(|next| *next != END);
        std::iter::successors(order.first(), after).collect()
    }

    proptest! {
        /// Against the definition: a list that is searched from the front.
        #[test]
        fn is_a_list(steps in prop::collection::vec((0_u32..9, any::<bool>()), 0..80)) {
            let (mut order, mut model) = (Order::default(), Vec::new());
            for (slot, goes_in) in steps {
                model.retain(|s| *s != slot);
                if goes_in {
                    model.push(slot);
                    order.push_back(slot);
                } else {
                    order.remove(slot);
                }
                prop_assert_eq!(listed(&order), model.clone());
                prop_assert_eq!((order.len(), order.first()), (model.len(), model.first().copied()));
            }
        }
    }
}
