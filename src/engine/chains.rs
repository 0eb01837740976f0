//! The table of chains: slots that stay put while a delta is under way, found by device, window and stream.

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::{BuildHasher, Hash, Hasher};

use super::chain::Chain;
use super::plan::ChainKey;
use super::slots::Slots;
use crate::record::{Assignment, EventTime, StreamId};

#[derive(Debug)]
pub(super) struct Chains {
    slots: Slots<Option<Chain>>,
    free: Vec<u32>,
    index: HashTable<u32>,
    /// Fixed seed: the order of everything that the engine does must repeat.
    hasher: FixedState,
    /// Where the search for idle chains goes on.
    hand: usize,
}

impl Default for Chains {
    fn default() -> Self {
        Self {
            slots: Slots::new(),
            free: Vec::new(),
            index: HashTable::new(),
            hasher: FixedState::with_seed(0x5a_41_4b_49_41),
            hand: 0,
        }
    }
}

fn hash_of(hasher: &FixedState, device: &str, window: EventTime, stream: StreamId) -> u64 {
    let mut state = hasher.build_hasher();
    state.write(device.as_bytes());
    window.hash(&mut state);
    stream.hash(&mut state);
    state.finish()
}

fn key_hash(hasher: &FixedState, key: &ChainKey) -> u64 {
    hash_of(hasher, &key.device, key.window, key.stream)
}

impl Chains {
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    pub(super) fn get(&self, slot: u32) -> Option<&Chain> {
        self.slots.get(slot as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut Chain> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    /// Slot of the chain, made if there is none. The second value tells whether it is new.
    pub(super) fn find_or_make(
        &mut self,
        device: &str,
        window: EventTime,
        stream: StreamId,
        assignment: Assignment,
        span: usize,
    ) -> (u32, bool) {
        let hash = hash_of(&self.hasher, device, window, stream);
        let slots = &self.slots;
        let same = |slot: &u32| {
            slots[*slot as usize]
                .as_ref()
                .is_some_and(|c| c.key.stream == stream && c.key.window == window && *c.key.device == *device)
        };
        if let Some(slot) = self.index.find(hash, same) {
            return (*slot, false);
        }
        let chain = Chain::new(ChainKey { device: device.into(), window, stream }, assignment, span);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as u32
        });
        self.slots[slot as usize] = Some(chain);
        let (slots, hasher) = (&self.slots, &self.hasher);
        let rehash = |slot: &u32| slots[*slot as usize].as_ref().map_or(0, |c| key_hash(hasher, &c.key));
        self.index.insert_unique(hash, slot, rehash);
        (slot, true)
    }

    pub(super) fn remove(&mut self, slot: u32) -> Option<Chain> {
        let chain = self.slots.get_mut(slot as usize)?.take()?;
        let hash = key_hash(&self.hasher, &chain.key);
        if let Ok(entry) = self.index.find_entry(hash, |s| *s == slot) {
            entry.remove();
        }
        self.free.push(slot);
        Some(chain)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Chain)> {
        self.slots.iter().enumerate().filter_map(|(slot, chain)| Some((slot as u32, chain.as_ref()?)))
    }

    pub(super) fn of(&self, assignment: Assignment) -> Vec<u32> {
        self.iter().filter(|(_, c)| c.assignment == assignment).map(|(slot, _)| slot).collect()
    }

    /// Forgets up to two idle chains among the next few slots, so that the table shrinks back while new ones come.
    pub(super) fn forget_idle(&mut self) {
        const LOOK_AT: usize = 16;
        let mut forgotten = 0;
        for _ in 0..LOOK_AT.min(self.slots.len()) {
            self.hand = (self.hand + 1) % self.slots.len();
            if self.slots[self.hand].as_ref().is_some_and(Chain::is_idle) {
                self.remove(self.hand as u32);
                forgotten += 1;
            }
            if forgotten == 2 {
                return;
            }
        }
    }
}
