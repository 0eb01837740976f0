//! From how many samples on a delta stands alone: as configured while the open tails fit, fewer while they do not.
//!
//! Sealing a tail costs the server as much as an append, so a tail that is opened only to be sealed before anything was
//! appended is pure waste. If that is the fate of many, the live set does not fit, and smaller deltas become sealed
//! buckets at once, which costs an insert and nothing more.

use crate::record::Tick;

/// Between two looks: long enough that most chains had a delta.
const EVERY_MS: u64 = 10_000;
/// Looks without a forced seal after which larger deltas are tried again; doubling up at once would open what the next
/// look has to seal.
const QUIET: u32 = 6;

#[derive(Debug)]
pub(super) struct Fill {
    configured: u32,
    current: u32,
    looked: Tick,
    /// Since the last look: tails that became open, and tails that had to be sealed to make room.
    n_opened: u64,
    n_forced: u64,
    n_quiet: u32,
}

impl Fill {
    pub(super) fn new(configured: u32) -> Self {
        Self { configured, current: configured, looked: Tick(0), n_opened: 0, n_forced: 0, n_quiet: 0 }
    }

    pub(super) fn opened(&mut self) {
        self.n_opened += 1;
    }

    pub(super) fn forced(&mut self) {
        self.n_forced += 1;
    }

    /// Least samples of a delta that stands alone, from now on.
    pub(super) fn at(&mut self, now: Tick) -> u32 {
        if now.since(self.looked) < EVERY_MS {
            return self.current;
        }
        self.looked = now;
        // Fast down, since every look costs as many seals as there are deltas. Some seals are no sign: when a window ends, its tails are in the way of the next one's once, and most of
        // those that are opened then stay.
        if self.n_forced > 0 && 2 * self.n_forced >= self.n_opened {
            self.current = (self.current / 4).max(1);
        }
        self.n_quiet = if self.n_forced > 0 { 0 } else { self.n_quiet + 1 };
        if self.n_quiet >= QUIET {
            self.n_quiet = 0;
            self.current = self.current.saturating_mul(2).min(self.configured);
        }
        (self.n_opened, self.n_forced) = (0, 0);
        self.current
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `at` says after each look of `(opened, forced)`.
    fn check(looks: &[(u64, u64)], expected: &[u32]) {
        let mut fill = Fill::new(50);
        let mut now = Tick(0);
        let said: Vec<u32> = looks
            .iter()
            .map(|(opened, forced)| {
                (0..*opened).for_each(|_| fill.opened());
                (0..*forced).for_each(|_| fill.forced());
                assert_eq!(fill.at(now.after(EVERY_MS - 1)), fill.current, "too early to judge");
                now = now.after(EVERY_MS);
                fill.at(now)
            })
            .collect();
        assert_eq!(said, expected);
    }

    #[test]
    fn falls_while_what_is_opened_is_sealed_again() {
        check(&[(9, 9), (9, 9), (9, 5), (0, 1), (9, 9), (9, 9), (9, 9)], &[12, 3, 1, 1, 1, 1, 1]);
    }

    #[test]
    fn stays_while_few_are_sealed_or_none() {
        check(&[(100, 0), (100, 10), (100, 49), (0, 0)], &[50, 50, 50, 50]);
    }

    #[test]
    fn recovers_slowly_and_not_past_what_was_configured() {
        let mut looks = vec![(9, 9)];
        looks.extend([(9, 0); 12]);
        check(&looks, &[12, 12, 12, 12, 12, 12, 24, 24, 24, 24, 24, 24, 48]);
    }
}
