//! Load generator and proof.
//!
//! `produce` fills a topic with seeded readings and writes down what it did in a manifest; `verify` reads the topic and
//! the collection again and accounts for every reading. Neither shares code with the program that is tested.

pub mod clock;
pub mod manifest;
pub mod produce;
pub mod reading;
pub mod verify;
