//! `fixture` makes records and stores them the plain way; `checker` shows that each fault is found, without services;
//! `services` runs the program itself against a real Kafka and a real MongoDB.

mod checker;
mod fixture;
mod services;
