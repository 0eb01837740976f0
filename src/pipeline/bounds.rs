//! Finds out what the engines have to keep to: how much of the server's cache is theirs, and which windows are past
//! their time to live.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use mongodb::Database;
use mongodb::bson::{Bson, Document, doc};

use crate::config::Config;
use crate::record::EventTime;
use crate::shard::BoundsBoard;
use crate::source::SourceCounts;

/// Half the cache of a server that was given 1 GiB: what is assumed where the server does not say.
const UNKNOWN_CACHE_SHARE: u64 = 512 << 20;
const DAY_MS: i64 = 86_400_000;

/// Bytes of open tails that somebody may keep in the server's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CacheBudget {
    /// This process.
    Member(u64),
    /// All members of the group together.
    Group(u64),
}

impl CacheBudget {
    /// This process's part. Members are told apart by nothing but the partitions they own, and these are what the open
    /// tails come from, so each has the share of its partitions.
    fn of_member(self, n_owned: u64, n_partitions: u64) -> u64 {
        match self {
            Self::Member(bytes) => bytes,
            Self::Group(bytes) => bytes / n_partitions.max(n_owned).max(1) * n_owned.max(1),
        }
    }
}

#[derive(Debug)]
pub(super) struct Bounds {
    pub(super) board: Arc<BoundsBoard>,
    cache: CacheBudget,
    ttl_days: Option<u32>,
    n_shards: u64,
    /// This process's part, for metrics.
    pub(super) member_bytes: AtomicU64,
}

impl Bounds {
    /// Asks the server. One that says nothing is no reason not to start.
    pub(super) async fn find_out(config: &Config, db: &Database) -> Self {
        let cache = match config.flow.cache_budget_bytes {
            Some(bytes) => CacheBudget::Member(bytes),
            None => CacheBudget::Group(half_of_cache(db).await),
        };
        let bounds = Self {
            board: Arc::default(),
            cache,
            ttl_days: config.storage.ttl_days,
            n_shards: u64::from(config.flow.shards),
            member_bytes: AtomicU64::new(0),
        };
        if let Ok(hello) = db.run_command(doc! { "hello": 1 }).await {
            bounds.note_time(&hello);
        }
        bounds
    }

    /// Takes the time from an answer to `hello`.
    pub(super) fn note_time(&self, hello: &Document) {
        if let Some(horizon) = horizon(self.ttl_days, hello) {
            self.board.raise_horizon(horizon);
        }
    }

    /// Shares the cache out anew among the shards, by the partitions that are owned now.
    pub(super) fn share_out(&self, source: &SourceCounts) {
        let n_owned = source.n_live.load(Relaxed);
        let bytes = self.cache.of_member(n_owned, source.n_partitions.load(Relaxed));
        self.member_bytes.store(bytes, Relaxed);
        self.board.set_cache(bytes / n_owned.clamp(1, self.n_shards));
    }
}

/// Windows that start before it are past their time to live, by an answer to `hello`. The server's clock is the one that
/// deletes, so it is the one that judges: with a clock of our own that is fast, readings would be skipped that the server
/// would have kept.
pub(crate) fn horizon(ttl_days: Option<u32>, hello: &Document) -> Option<EventTime> {
    let now = hello.get_datetime("localTime").ok()?.timestamp_millis();
    Some(EventTime(now.saturating_sub(i64::from(ttl_days?) * DAY_MS)))
}

async fn half_of_cache(db: &Database) -> u64 {
    let command = doc! { "serverStatus": 1, "repl": 0, "metrics": 0, "locks": 0, "tcmalloc": 0 };
    let status = db.run_command(command).await;
    let said = status.as_ref().ok().and_then(|status| {
        let cache = status.get_document("wiredTiger").ok()?.get_document("cache").ok()?;
        match cache.get("maximum bytes configured")? {
            Bson::Int32(bytes) => u64::try_from(*bytes).ok(),
            Bson::Int64(bytes) => u64::try_from(*bytes).ok(),
            Bson::Double(bytes) => Some(*bytes as u64),
            _ => None,
        }
    });
    if let Some(bytes) = said {
        tracing::info!(bytes = bytes / 2, "open buckets may take half of the server's cache, shared by all members");
        return bytes / 2;
    }
    let why = status.err().map_or_else(|| "it names no WiredTiger cache".to_owned(), |error| error.to_string());
    tracing::info!(
        bytes = UNKNOWN_CACHE_SHARE,
        why,
        "the server does not say how large its cache is, which takes the role clusterMonitor; open buckets of all \
         members may take so much, unless flow.cache_budget is set"
    );
    UNKNOWN_CACHE_SHARE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_has_the_share_of_its_partitions() {
        let group = CacheBudget::Group(1 << 30);
        assert_eq!(group.of_member(4, 16), 1 << 28);
        assert_eq!(group.of_member(16, 16), 1 << 30);
        assert_eq!(group.of_member(3, 0), (1 << 30) / 3 * 3, "the topic's size is not known yet");
        assert_eq!(group.of_member(0, 16), 1 << 26, "partitions that are just coming find some room");
        assert_eq!(CacheBudget::Member(5).of_member(1, 16), 5);
    }
}
