//! Which offsets of which partition are covered, and by which stream: the only state besides the buckets themselves.
//!
//! `entry` is what the ledger keeps, `coverage` decides what a reader has to write, `settled` judges whether marks were
//! taken; all three are pure. `document` is the stored form, `store` opens the collection, `assign` and `settle` are
//! its two conversations: one when a partition is handed over, one about every second while it is written. `admin` is
//! what people do to it by `sakia ledger`, `replays` keeps the runs that try dead letters again.

pub mod coverage;
pub mod entry;
pub mod settled;

#[cfg(feature = "service")]
mod admin;
#[cfg(feature = "service")]
mod assign;
#[cfg(feature = "service")]
mod command;
#[cfg(feature = "service")]
mod document;
#[cfg(feature = "service")]
mod error;
#[cfg(feature = "service")]
pub mod replays;
#[cfg(feature = "service")]
mod settle;
#[cfg(feature = "service")]
mod store;

#[cfg(feature = "service")]
pub use admin::{Kept, KeptContract, KeptEntry, Target};
#[cfg(feature = "service")]
pub use assign::Claim;
#[cfg(feature = "service")]
pub use document::{HEADER_SCHEMA, header};
#[cfg(feature = "service")]
pub(crate) use document::{entries_range, parse_entry, parse_origin};
#[cfg(feature = "service")]
pub use error::{AssignError, OpenError, Refusal};
#[cfg(feature = "service")]
pub use store::Ledger;
