//! The only place that reads a clock; everything else takes time as an argument.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
#[allow(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Time since it was started.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    #[allow(clippy::disallowed_methods, reason = "the one place that reads the monotonic clock")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    #[allow(clippy::disallowed_methods, reason = "the one place that reads the monotonic clock")]
    pub fn elapsed(self) -> Duration {
        Instant::now().duration_since(self.0)
    }
}
