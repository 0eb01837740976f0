//! What is wrong with a configuration: all of it at once, each with its place.

use std::fmt;

/// One thing that is wrong. Never holds a secret value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// `sakia.toml:12`, the name of a variable or a flag; empty where a key is set nowhere.
    pub place: String,
    /// The key, such as `bucket.max_samples`; empty where the whole place is meant.
    pub key: String,
    /// What is wrong and what is right.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in [&self.place, &self.key].into_iter().filter(|part| !part.is_empty()) {
            write!(f, "{part}: ")?;
        }
        f.write_str(&self.message)
    }
}

/// Everything that is wrong, one a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.iter().enumerate() {
            write!(f, "{}{problem}", if i == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

/// The name among `known` that `typed` was probably meant to be.
pub(crate) fn did_you_mean<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known.into_iter().map(|name| (strsim::damerau_levenshtein(typed, name), name));
    let (distance, name) = scored.min()?;
    // A third of the letters: above that the suggestion is noise.
    (distance * 3 <= typed.len().max(name.len())).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_the_near_and_only_the_near() {
        let known = ["bucket.max_samples", "bucket.min_fill"];
        assert_eq!(did_you_mean("bucket.max_sample", known), Some("bucket.max_samples"));
        assert_eq!(did_you_mean("bucket.mni_fill", known), Some("bucket.min_fill"));
        assert_eq!(did_you_mean("colour", known), None);
    }

    #[test]
    fn a_line_leaves_out_what_is_unknown() {
        let problem = Problem { place: String::new(), key: "mongo.uri".into(), message: "is not set".into() };
        assert_eq!(problem.to_string(), "mongo.uri: is not set");
    }
}
