//! `fixture` makes records and stores them the plain way; `checker` shows that each fault is found, without services;
//! `services` runs the program itself against a real Kafka and a real MongoDB.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod checker;
mod fixture;
mod services;
