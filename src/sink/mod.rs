//! From plans to MongoDB and back.

pub mod ledger;
