//! Plans into MongoDB, and reports back: `encode` and `dead` write command bodies, `outcome` and `retry` judge the
//! answers (pure); `call` sends one command, `tails` reads chains back, `bucket` ties them together. `ledger` says which
//! offsets are covered.

pub mod body;
pub mod dead;
pub mod encode;
pub mod ledger;
pub mod outcome;
pub mod retry;

#[cfg(feature = "service")]
pub mod call;
#[cfg(feature = "service")]
pub mod reply;
