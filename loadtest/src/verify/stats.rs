//! The totals that a bucket keeps, computed again from its samples.

use mongodb::bson::{RawBsonRef, RawDocument};

/// Sums of doubles depend on their order a little.
const TOLERANCE: f64 = 1e-9;

#[derive(Debug)]
struct Total<'a> {
    name: &'a str,
    claimed: Option<&'a RawDocument>,
    min: f64,
    max: f64,
    sum: f64,
    sum_of_magnitudes: f64,
    n: i64,
}

/// One total for each field that has one or must have one.
#[derive(Debug)]
pub struct Totals<'a>(Vec<Total<'a>>);

impl<'a> Totals<'a> {
    /// `required`: fields whose totals every bucket keeps that has numbers in them.
    pub fn new(stats: Option<RawBsonRef<'a>>, required: &'a [String]) -> Result<Self, String> {
        let mut totals = Vec::new();
        if let Some(stats) = stats {
            for element in stats.as_document().ok_or("stats is not a document")? {
                let (name, claimed) = element.map_err(|e| e.to_string())?;
                let claimed = claimed.as_document().ok_or_else(|| format!("stats.{name} is not a document"))?;
                totals.push(Total::new(name.as_str(), Some(claimed)));
            }
        }
        for name in required {
            if !totals.iter().any(|t: &Total<'_>| t.name == name) {
                totals.push(Total::new(name, None));
            }
        }
        Ok(Self(totals))
    }

    pub fn add(&mut self, name: &str, value: RawBsonRef<'_>) {
        if self.0.is_empty() {
            return;
        }
        let (Some(value), Some(total)) = (number(value), self.0.iter_mut().find(|t| t.name == name)) else { return };
        total.min = total.min.min(value);
        total.max = total.max.max(value);
        total.sum += value;
        total.sum_of_magnitudes += value.abs();
        total.n += 1;
    }

    pub fn faults(&self) -> Vec<String> {
        self.0.iter().filter_map(Total::fault).collect()
    }
}

impl<'a> Total<'a> {
    fn new(name: &'a str, claimed: Option<&'a RawDocument>) -> Self {
        let (min, max) = (f64::INFINITY, f64::NEG_INFINITY);
        Self { name, claimed, min, max, sum: 0.0, sum_of_magnitudes: 0.0, n: 0 }
    }

    fn fault(&self) -> Option<String> {
        let name = self.name;
        let Some(claimed) = self.claimed else {
            return (self.n > 0).then(|| format!("stats.{name} is missing"));
        };
        let part = |part: &str| claimed.get(part).ok().flatten().and_then(number);
        if self.n == 0 {
            return Some(format!("stats.{name} is there, but no sample has such a number"));
        }
        let sum_is_right = part("sum").is_some_and(|s| (s - self.sum).abs() <= TOLERANCE * self.sum_of_magnitudes);
        #[allow(
            clippy::float_cmp,
            reason = "minimum, maximum and count are copied, never computed: they are equal or wrong"
        )]
        let right = part("n") == Some(self.n as f64)
            && part("min") == Some(self.min)
            && part("max") == Some(self.max)
            && sum_is_right;
        (!right).then(|| {
            format!(
                "stats.{name} is {claimed:?}; the samples give min {} max {} sum {} n {}",
                self.min, self.max, self.sum, self.n
            )
        })
    }
}

fn number(value: RawBsonRef<'_>) -> Option<f64> {
    match value {
        RawBsonRef::Double(v) => Some(v),
        RawBsonRef::Int32(v) => Some(v.into()),
        RawBsonRef::Int64(v) => Some(v as f64),
        _ => None,
    }
}
