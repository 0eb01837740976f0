//! Reads the last bucket of chains back, by majority.
//!
//! One `aggregate` with a branch a chain: with 1,000 chains of 5 buckets it took a quarter of the time and 40 % of the
//! server's CPU of as many `find`s (mongod 6.0.5); 10 to 100 branches made no difference.

use std::sync::Arc;

use futures_util::future::join_all;
use mongodb::bson::{Bson, Document};

use super::body::Body;
use super::call::Caller;
use super::counts::add;
use super::encode::write_chain;
use super::outcome::{Again, Answer};
use super::reply::whole;
use crate::code::{Code, Failure};
use crate::config::{Config, FieldNames};
use crate::engine::plan::{ChainKey, Tail};
use crate::record::Position;

const MAX_BRANCHES: usize = 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadLevel {
    /// May be old, never wrong.
    Majority,
    /// Not old either: a primary that has been replaced without knowing it cannot answer.
    Linearizable,
}

/// A chain's tail, `None` without a bucket; the error says what makes the chain unusable.
pub type Found = Result<Option<Tail>, Failure>;

#[derive(Clone, Debug)]
pub struct TailReader {
    caller: Caller,
    database: String,
    collection: String,
    fields: FieldNames,
    timeout_ms: i32,
}

impl TailReader {
    pub fn new(caller: Caller, config: &Config) -> Self {
        Self {
            caller,
            database: config.mongo.database.clone(),
            collection: config.mongo.collection.clone(),
            fields: config.fields.clone(),
            timeout_ms: i32::try_from(config.mongo.write_timeout_ms).unwrap_or(i32::MAX),
        }
    }

    /// One answer a key, in their order; keys are distinct. Tries until the store answers.
    pub async fn read(&self, keys: &[&ChainKey], level: ReadLevel) -> Vec<Found> {
        let n_branches = match level {
            ReadLevel::Majority => MAX_BRANCHES,
            ReadLevel::Linearizable => 1,
        };
        add(&self.caller.counts().tail_reads, keys.len());
        join_all(keys.chunks(n_branches).map(|chunk| self.read_chunk(chunk, level))).await.concat()
    }

    async fn read_chunk(&self, keys: &[&ChainKey], level: ReadLevel) -> Vec<Found> {
        let mut backoff = self.caller.backoff();
        loop {
            let (answer, said) = match self.caller.call(self.body(keys, level)).await {
                Ok(reply) => {
                    if let Some(found) = self.found(keys, &reply) {
                        return found;
                    }
                    (Answer::Resend(Again::Server, "tails do not fit into one reply".to_owned()), String::new())
                }
                Err(error) => (error.clone().judge(1), error.to_string()),
            };
            let Answer::Resend(again, reason) = answer else {
                let message = format_args!("the last buckets of chains cannot be read: {said}");
                return vec![Err(Failure::new(Code::MongoRefused, message)); keys.len()];
            };
            self.caller.pause(&mut backoff, again, &reason).await;
        }
    }

    fn body(&self, keys: &[&ChainKey], level: ReadLevel) -> Vec<u8> {
        Body::document(1024 * keys.len(), |b| {
            b.string(&["aggregate"], &self.collection);
            b.array(&["pipeline"], |b| {
                let n_stages = self.branch(b, keys[0]);
                for (i, key) in keys[1..].iter().enumerate() {
                    b.element(n_stages + i, |b| {
                        b.embed(&["$unionWith"], |b| {
                            b.string(&["coll"], &self.collection);
                            b.array(&["pipeline"], |b| _ = self.branch(b, key));
                        });
                    });
                }
            });
            b.embed(&["cursor"], |b| b.int32(&["batchSize"], keys.len() as i32 + 1));
            b.embed(&["readConcern"], |b| b.string(&["level"], level.name()));
            b.int32(&["maxTimeMS"], self.timeout_ms);
        })
    }

    /// Stages that give the chain's last bucket, in fixed names and without its samples; returns their number.
    fn branch(&self, b: &mut Body, key: &ChainKey) -> usize {
        let f = &self.fields;
        b.element(0, |b| {
            b.embed(&["$match"], |b| {
                b.embed(&["_id"], |b| {
                    b.embed(&["$gte"], |b| {
                        write_chain(b, key);
                        b.min_key(&["n"]);
                    });
                    b.embed(&["$lte"], |b| {
                        write_chain(b, key);
                        b.max_key(&["n"]);
                    });
                });
                b.string(&[&f.deviceid], &key.device);
                b.date(&[&f.date], key.window);
            });
        });
        b.element(1, |b| b.embed(&["$sort"], |b| b.int32(&["_id"], -1)));
        b.element(2, |b| b.int32(&["$limit"], 1));
        b.element(3, |b| {
            b.embed(&["$project"], |b| {
                for (name, path) in [("count", &f.count), ("open", &f.open), ("meta", &f.meta)] {
                    b.string(&[name], &format!("${path}"));
                }
                b.string(&["hi"], &format!("${}.hi", f.pos));
                b.embed(&["bytes"], |b| b.string(&["$bsonSize"], "$$ROOT"));
            });
        });
        4
    }

    /// `None` if the reply does not hold all of the answer.
    fn found(&self, keys: &[&ChainKey], reply: &Document) -> Option<Vec<Found>> {
        let cursor = reply.get_document("cursor").ok()?;
        if cursor.get("id").and_then(whole)? != 0 {
            return None;
        }
        let mut found = vec![Ok(None); keys.len()];
        for tail in cursor.get_array("firstBatch").ok()? {
            let tail = tail.as_document()?;
            let id = tail.get_document("_id").ok()?;
            let place = keys.iter().position(|key| names_chain(id, key))?;
            found[place] = self.tail(id, tail).map(Some);
        }
        Some(found)
    }

    fn tail(&self, id: &Document, tail: &Document) -> Result<Tail, Failure> {
        // Another number type would compare equal in a filter today and differ after 2^53; -1 for a missing one would
        // write all that the bucket holds a second time.
        let Some(Bson::Int64(hi)) = tail.get("hi") else {
            return Err(self.unusable(id, &format!("no Int64 {:?}", format!("{}.hi", self.fields.pos))));
        };
        let number = |document: &Document, name| {
            let value = document.get(name).and_then(whole).and_then(|v| u32::try_from(v).ok());
            value.ok_or_else(|| self.unusable(id, &format!("no usable {name:?}")))
        };
        let meta = match tail.get("meta") {
            None => None,
            Some(Bson::Document(meta)) => {
                Some(Arc::from(meta.to_vec().map_err(|e| self.unusable(id, &e.to_string()))?))
            }
            Some(_) => return Err(self.unusable(id, "a meta that is no document")),
        };
        Ok(Tail {
            n: number(id, "n")?,
            hi: Position(*hi),
            count: number(tail, "count")?,
            bytes: number(tail, "bytes")?,
            open: tail.get_bool("open").unwrap_or(false),
            meta,
        })
    }

    fn unusable(&self, id: &Document, what: &str) -> Failure {
        let message = format_args!(
            "bucket {id} of {}.{} has {what}: it was not written by this program under these field names, or was \
             changed since; restore or remove its whole chain",
            self.database, self.collection
        );
        Failure::new(Code::BucketUnusable, message)
    }
}

impl ReadLevel {
    fn name(self) -> &'static str {
        match self {
            Self::Majority => "majority",
            Self::Linearizable => "linearizable",
        }
    }
}

fn names_chain(id: &Document, key: &ChainKey) -> bool {
    id.get_datetime("w").is_ok_and(|w| w.timestamp_millis() == key.window.0)
        && id.get_str("d").is_ok_and(|d| d == &*key.device)
        && id.get_i64("s").is_ok_and(|s| s == key.stream.0)
}
