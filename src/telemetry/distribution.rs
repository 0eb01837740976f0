//! How values spread, recorded by one thread and added up when shown.

use hdrhistogram::Histogram;

/// Whole numbers from 0 to 2^24, to within 1 % (exact up to 255). Milliseconds reach 4.6 hours; larger values count as
/// the largest. About 20 KB, and recording allocates nothing.
#[derive(Clone, Debug)]
pub struct Distribution {
    counts: Histogram<u64>,
    /// Exact, where the histogram only knows each value to within 1 %.
    sum: u64,
}

impl Distribution {
    const MAX: u64 = 1 << 24;

    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// The same value `n` times, at the price of once.
    pub fn record_n(&mut self, value: u64, n: u64) {
        self.counts.saturating_record_n(value, n);
        self.sum = self.sum.saturating_add(value.saturating_mul(n));
    }

    pub fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts).expect("invariant: every distribution has the same bounds");
        self.sum = self.sum.saturating_add(other.sum);
    }

    pub fn count(&self) -> u64 {
        self.counts.len()
    }

    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The value that `percent` of all values do not exceed; 0 where none was recorded.
    pub fn percentile(&self, percent: f64) -> u64 {
        self.counts.value_at_percentile(percent)
    }

    /// How many values lie at or below each of `bounds` and above the one before; the last number is those above all.
    pub fn split_at(&self, bounds: &[u64]) -> Vec<u64> {
        let mut buckets = vec![0; bounds.len() + 1];
        for step in self.counts.iter_recorded() {
            let value = self.counts.lowest_equivalent(step.value_iterated_to());
            buckets[bounds.partition_point(|bound| *bound < value)] += step.count_at_value();
        }
        buckets
    }
}

impl Default for Distribution {
    fn default() -> Self {
        let counts = Histogram::new_with_bounds(1, Self::MAX, 2).expect("invariant: the bounds are valid constants");
        Self { counts, sum: 0 }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOUNDS: [u64; 4] = [0, 1, 10, 200];

    proptest! {
        #[test]
        fn buckets_agree_with_a_plain_list(values in prop::collection::vec((0u64..400, 1u64..5), 0..50)) {
            let mut distribution = Distribution::default();
            for (value, n) in &values {
                distribution.record_n(*value, *n);
            }
            let above = |bound: Option<u64>, value: u64| bound.is_none_or(|b| value > b);
            for (i, found) in distribution.split_at(&BOUNDS).into_iter().enumerate() {
                let low = i.checked_sub(1).map(|i| BOUNDS[i]);
                let high = BOUNDS.get(i).copied();
                let inside = |value: u64| above(low, value) && high.is_none_or(|h| value <= h);
                let expected: u64 = values.iter().filter(|(v, _)| inside(*v)).map(|(_, n)| n).sum();
                prop_assert_eq!(found, expected);
            }
            prop_assert_eq!(distribution.count(), values.iter().map(|(_, n)| n).sum::<u64>());
            prop_assert_eq!(distribution.sum(), values.iter().map(|(v, n)| v * n).sum::<u64>());
        }
    }

    #[test]
    fn adds_up_and_keeps_what_is_off_the_scale() {
        let mut one = Distribution::default();
        one.record(100);
        let mut other = Distribution::default();
        other.record(u64::MAX);
        one.add(&other);
        assert_eq!(one.split_at(&[100]), [1, 1]);
        assert_eq!(one.count(), 2);
        assert_eq!(one.percentile(50.0), 100);
        assert!(one.percentile(100.0) >= Distribution::MAX);
    }
}
