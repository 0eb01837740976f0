//! The table of chains: slots that stay put while a delta is under way, found by device, window and stream.

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::{BuildHasher, Hash, Hasher};

use super::chain::Chain;
use super::order::Order;
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
    /// Chains that hold nothing, the one that wrote last at the back.
    pub(super) resting: Order,
    /// Chains with an open tail that is not about to be sealed, the one that wrote last at the back.
    pub(super) open: Order,
    /// Bytes of devices and metas.
    text_bytes: usize,
}

/// Memory of a chain that rests, beside its device and meta: its slot, key, places in both orders and in the index,
/// and what the allocator adds.
pub(super) const RESTING_BYTES: usize = size_of::<Option<Chain>>() + size_of::<ChainKey>() + 80;
/// What it takes more while samples wait, beside these: the least that their buffer allocates.
const WAITING_BYTES: usize = 128;

impl Default for Chains {
    fn default() -> Self {
        Self {
            slots: Slots::new(),
            free: Vec::new(),
            index: HashTable::new(),
            hasher: FixedState::with_seed(0x5a_41_4b_49_41),
            resting: Order::default(),
            open: Order::default(),
            text_bytes: 0,
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
        let mut chain = Chain::new(ChainKey { device: device.into(), window, stream }, assignment, span);
        chain.text_bytes = device.len();
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as u32
        });
        self.slots[slot as usize] = Some(chain);
        let (slots, hasher) = (&self.slots, &self.hasher);
        self.text_bytes += device.len();
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
        self.resting.remove(slot);
        self.open.remove(slot);
        self.text_bytes -= chain.text_bytes;
        self.free.push(slot);
        Some(chain)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Chain)> {
        self.slots.iter().enumerate().filter_map(|(slot, chain)| Some((slot as u32, chain.as_ref()?)))
    }

    pub(super) fn of(&self, assignment: Assignment) -> Vec<u32> {
        self.iter().filter(|(_, c)| c.assignment == assignment).map(|(slot, _)| slot).collect()
    }

    /// Memory of the table, samples aside.
    pub(super) fn bytes(&self) -> usize {
        self.bytes_without(0)
    }

    /// The same without `n` of the chains that rest.
    pub(super) fn bytes_without(&self, n: usize) -> usize {
        (self.len() - n) * RESTING_BYTES + (self.len() - self.resting.len()) * WAITING_BYTES + self.text_bytes
    }

    /// Books the size of a chain's texts anew.
    pub(super) fn measure(&mut self, slot: u32) {
        let Some(chain) = self.slots.get_mut(slot as usize).and_then(Option::as_mut) else { return };
        let meta = chain.tail.as_ref().and_then(|t| t.meta.as_ref());
        let now = chain.key.device.len() + meta.map_or(0, |m| m.len());
        self.text_bytes = self.text_bytes + now - std::mem::replace(&mut chain.text_bytes, now);
    }

    /// Lets a chain rest that holds nothing.
    pub(super) fn rest(&mut self, slot: u32) {
        let Some(chain) = self.slots.get_mut(slot as usize).and_then(Option::as_mut) else { return };
        if chain.is_idle() {
            chain.runs.shrink_to_fit();
            self.resting.push_back(slot);
        }
    }
}
