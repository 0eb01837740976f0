//! What times a bucket may hold, known from its window's start alone. Pure.
//!
//! Windows change over time with the configuration, and the ledger keeps every contract that something was written under.

use crate::config::Contract;
use crate::record::{EventTime, Window};

/// Longest window that the configuration takes.
const LONGEST_MS: i64 = 366 * 86_400_000;

/// The windows that a collection was written in.
#[derive(Clone, Debug)]
pub(super) struct Windows {
    known: Vec<Window>,
    /// A contract did not say its window: any bucket may then be of the longest one.
    has_unknown: bool,
}

impl Windows {
    /// Of the configured window and the texts of the ledger's contracts.
    pub(super) fn of<'a>(configured: Window, contracts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut windows = Self { known: vec![configured], has_unknown: false };
        for text in contracts {
            match Contract::window_of(text) {
                Some(window) if windows.known.contains(&window) => {}
                Some(window) => windows.known.push(window),
                None => windows.has_unknown = true,
            }
        }
        windows
    }

    pub(super) fn longest_ms(&self) -> i64 {
        let known = self.known.iter().map(|window| window.length_ms).max();
        known.filter(|_| !self.has_unknown).unwrap_or(LONGEST_MS)
    }

    /// Every sample of a bucket whose window starts at `start` is before this.
    pub(super) fn end(&self, start: i64) -> i64 {
        let fitting = self.known.iter().filter(|window| window.start(EventTime(start)).0 == start);
        let length = fitting.map(|window| window.length_ms).max().filter(|_| !self.has_unknown);
        start.saturating_add(length.unwrap_or_else(|| self.longest_ms()))
    }

    /// Every sample of all windows that start at `start` or earlier is before this.
    pub(super) fn ceiling(&self, start: i64) -> i64 {
        if self.has_unknown {
            return start.saturating_add(LONGEST_MS);
        }
        let ends = self.known.iter().map(|window| window.start(EventTime(start)).0.saturating_add(window.length_ms));
        ends.max().unwrap_or(start).max(self.end(start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOUR: i64 = 3_600_000;
    const DAY: i64 = 24 * HOUR;

    fn window(length_ms: i64, offset_ms: i64) -> Window {
        Window { length_ms, offset_ms }
    }

    fn contract(length: i64, offset: i64) -> String {
        format!(r#"{{"decoder_version":9,"new":[],"window_length_ms":{length},"window_offset_ms":{offset}}}"#)
    }

    #[test]
    fn a_start_tells_which_windows_it_can_be_of() {
        let windows = Windows::of(window(HOUR, 0), [contract(DAY, 0).as_str(), &contract(7 * DAY, HOUR)]);
        assert_eq!(windows.longest_ms(), 7 * DAY);
        assert_eq!(windows.end(5 * HOUR), 6 * HOUR);
        assert_eq!(windows.end(3 * DAY), 4 * DAY);
        assert_eq!(windows.end(7 * DAY - HOUR), 14 * DAY - HOUR);
        // Of none: somebody else's, or a ledger that lost a contract.
        assert_eq!(windows.end(7), 7 + 7 * DAY);
        assert_eq!(windows.ceiling(5 * DAY + HOUR), 7 * DAY - HOUR);
    }

    #[test]
    fn a_contract_without_a_window_counts_as_the_longest() {
        for text in ["", "{}", r#"{"window_length_ms":"1d","window_offset_ms":0}"#, &contract(0, 0)] {
            let windows = Windows::of(window(HOUR, 0), [text]);
            assert_eq!((windows.longest_ms(), windows.end(HOUR)), (LONGEST_MS, HOUR + LONGEST_MS), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_sample_lies_past_its_end(
            lengths in prop::collection::vec((1_i64..200, -100_i64..100), 1..4), at in -100_000_i64..100_000, later in 0_i64..500,
        ) {
            let known: Vec<_> = lengths.iter().map(|(length, offset)| window(length * HOUR, offset * HOUR)).collect();
            let texts: Vec<_> = known[1..].iter().map(|window| contract(window.length_ms, window.offset_ms)).collect();
            let windows = Windows::of(known[0], texts.iter().map(String::as_str));
            for window in known {
                let start = window.start(EventTime(at)).0;
                prop_assert!(at < windows.end(start) && windows.end(start) <= windows.ceiling(start + later));
            }
        }
    }
}
