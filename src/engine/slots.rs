//! Slots that never move: a vector that grew by copying would need three times its size while it does.

use std::ops::{Index, IndexMut};

const CHUNK: usize = 1_024;

/// All chunks but the last are full.
#[derive(Debug)]
pub(super) struct Slots<T>(Vec<Vec<T>>);

impl<T> Slots<T> {
    pub(super) fn new() -> Self {
        Self(Vec::new())
    }

    pub(super) fn len(&self) -> usize {
        self.0.last().map_or(0, |last| (self.0.len() - 1) * CHUNK + last.len())
    }

    pub(super) fn push(&mut self, value: T) {
        match self.0.last_mut() {
            Some(last) if last.len() < CHUNK => last.push(value),
            _ => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(value);
                self.0.push(chunk);
            }
        }
    }

    pub(super) fn get(&self, i: usize) -> Option<&T> {
        self.0.get(i / CHUNK)?.get(i % CHUNK)
    }

    pub(super) fn get_mut(&mut self, i: usize) -> Option<&mut T> {
        self.0.get_mut(i / CHUNK)?.get_mut(i % CHUNK)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten()
    }
}

impl<T> Index<usize> for Slots<T> {
    type Output = T;

    fn index(&self, i: usize) -> &T {
        &self.0[i / CHUNK][i % CHUNK]
    }
}

impl<T> IndexMut<usize> for Slots<T> {
    fn index_mut(&mut self, i: usize) -> &mut T {
        &mut self.0[i / CHUNK][i % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_vector() {
        let mut slots = Slots::new();
        assert_eq!((slots.len(), slots.get(0)), (0, None));
        for i in 0..3 * CHUNK {
            assert_eq!(slots.len(), i);
            slots.push(i);
        }
        slots[CHUNK] = 7;
        assert_eq!((slots[CHUNK - 1], slots[CHUNK], slots.get(3 * CHUNK)), (CHUNK - 1, 7, None));
        slots.get_mut(CHUNK).map(|slot| *slot = CHUNK).unwrap();
        assert!(slots.iter().copied().eq(0..3 * CHUNK));
    }
}
