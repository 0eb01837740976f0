//! The only place that asks the operating system for the time. Everywhere else time is an argument, so that tests and
//! the simulation can set it.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::record::Tick;

/// Monotonic time since the process started. Cheap to copy into every thread; all copies agree.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    #[allow(clippy::disallowed_methods, reason = "this file is the one place that may read the clock")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Milliseconds since `start`.
    pub fn now(&self) -> Tick {
        Tick(self.0.elapsed().as_millis() as u64)
    }
}

/// Milliseconds since 1970. Only for people to read and for bounds in reports: it can jump, so no deadline is made of it.
#[allow(clippy::disallowed_methods, reason = "this file is the one place that may read the clock")]
pub fn wall_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_agree_and_never_step_back() {
        let clock = Clock::start();
        let copy = clock;
        let first = clock.now();
        let second = copy.now();
        assert!(first <= second && second.since(first) < 10_000);
    }

    #[test]
    fn wall_clock_counts_milliseconds() {
        // 2024-01-01: seconds or microseconds in its place would be far off.
        assert!((1_704_067_200_000..100 * 31_557_600_000).contains(&wall_ms()));
    }
}
