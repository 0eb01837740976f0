//! The state machine between records and plans.

pub mod plan;
pub mod samples;
