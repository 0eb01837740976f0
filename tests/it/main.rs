//! Tests against real servers. `SAKIA_MONGO` names MongoDB; without it they fail, for a skipped test proves nothing.
#![cfg(feature = "service")]

mod ledger;
mod proxy;
mod sink;
