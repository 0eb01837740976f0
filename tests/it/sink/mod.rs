//! Plans against a real MongoDB: what is stored, and what is reported of it.

use std::sync::Arc;

use mongodb::bson::{DateTime, Document, doc};
use mongodb::{Client, Database};
use sakia::config::Config;
use sakia::engine::plan::{ChainKey, DeadLetter, Delta, Outcome, Plan, Report, Tail, Write};
use sakia::engine::samples::Samples;
use sakia::record::{Assignment, EventTime, Origin, Position, StreamId};
use sakia::sink::bucket::BucketSink;
use tokio::sync::watch;

use crate::proxy::{Fault, Proxy};

mod fixture;
mod store;
mod trouble;
