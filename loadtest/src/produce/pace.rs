//! How many readings may have been sent by now.

use std::time::Duration;

/// A steady rate without catching up in one burst: after a stall at most a tenth of a second's worth is owed.
#[derive(Debug)]
pub(super) struct Pace {
    rate: Option<f64>,
    owed: f64,
    last: Duration,
}

impl Pace {
    pub(super) fn new(rate: Option<f64>) -> Self {
        Self { rate, owed: 0.0, last: Duration::ZERO }
    }

    /// Readings that may be sent now, `elapsed` after the start.
    pub(super) fn allowance(&mut self, elapsed: Duration) -> u64 {
        let Some(rate) = self.rate else { return u64::MAX };
        self.owed += elapsed.saturating_sub(self.last).as_secs_f64() * rate;
        self.owed = self.owed.min((rate / 10.0).max(1.0));
        self.last = elapsed;
        self.owed.max(0.0) as u64
    }

    pub(super) fn spend(&mut self, readings: u64) {
        if self.rate.is_some() {
            self.owed -= readings as f64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_kept_and_a_stall_is_not_made_up_for() {
        let mut pace = Pace::new(Some(1_000.0));
        let mut sent = 0;
        for ms in 1..=1_000 {
            let n = pace.allowance(Duration::from_millis(ms));
            pace.spend(n);
            sent += n;
        }
        assert!((995..=1_000).contains(&sent), "{sent}");
        assert!(pace.allowance(Duration::from_mins(1)) <= 100);
    }

    #[test]
    fn a_record_larger_than_the_allowance_is_paid_off() {
        let mut pace = Pace::new(Some(100.0));
        assert_eq!(pace.allowance(Duration::from_millis(10)), 1);
        pace.spend(50);
        assert_eq!(pace.allowance(Duration::from_millis(400)), 0);
        assert!(pace.allowance(Duration::from_millis(600)) > 0);
    }

    #[test]
    fn without_a_rate_there_is_no_limit() {
        let mut pace = Pace::new(None);
        pace.spend(1 << 40);
        assert_eq!(pace.allowance(Duration::ZERO), u64::MAX);
    }
}
