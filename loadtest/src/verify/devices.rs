//! Device ids as small numbers.

use foldhash::quality::FixedState;
use hashbrown::HashMap;

#[derive(Debug, Default)]
pub struct Devices {
    numbers: HashMap<Box<str>, u32, FixedState>,
    names: Vec<Box<str>>,
}

impl Devices {
    /// The number of a device; a new one gets the next.
    pub fn number(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.into());
        self.numbers.insert(name.into(), number);
        number
    }

    pub fn find(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    pub fn name(&self, number: u32) -> &str {
        &self.names[number as usize]
    }
}
