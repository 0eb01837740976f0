//! Plans into MongoDB, and reports back: `encode` and `dead` write command bodies, `outcome` and `retry` judge the
//! answers (pure); `call` sends one command, `settle` sends until each statement has a fate, `tails` reads chains back,
//! `bucket` ties them together. `ledger` says which offsets are covered.

pub mod body;
pub mod dead;
pub mod encode;
pub mod ledger;
pub mod outcome;
pub mod privileges;
pub mod retry;

#[cfg(feature = "service")]
pub mod bucket;
#[cfg(feature = "service")]
pub mod call;
#[cfg(feature = "service")]
pub mod counts;
#[cfg(feature = "service")]
pub mod reply;
#[cfg(feature = "service")]
mod settle;
#[cfg(feature = "service")]
pub mod tails;
