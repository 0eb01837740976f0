//! Which dead letters are meant: options to a filter.

use clap::{Args, ValueEnum};
use mongodb::bson::{Bson, DateTime, Document, doc};

use crate::commands::when::{When, parse_when};

/// Which letters
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Filters")]
pub(super) struct FilterArgs {
    /// Of this topic; may be repeated
    #[arg(long)]
    topic: Vec<String>,
    /// Of this partition; may be repeated
    #[arg(long)]
    partition: Vec<i32>,
    /// With this reason, such as `missing_time`; may be repeated
    #[arg(long)]
    reason: Vec<String>,
    /// Of records with this Kafka timestamp or a later one: RFC 3339, a date, or before now such as -2d
    #[arg(long, value_name = "TIME", value_parser = parse_when, allow_hyphen_values = true)]
    from: Option<When>,
    /// Of records with an earlier Kafka timestamp. Letters of refused samples have none, and never match a time
    #[arg(long, value_name = "TIME", value_parser = parse_when, allow_hyphen_values = true)]
    to: Option<When>,
    /// Of offsets from A up to, not including, B
    #[arg(long, value_name = "A..B", value_parser = parse_offsets)]
    offsets: Option<Offsets>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Offsets {
    from: Option<i64>,
    to: Option<i64>,
}

/// What became of a letter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum StateArg {
    /// Waits for a replay
    #[default]
    Pending,
    /// Belongs to a replay that has not ended
    Claimed,
    /// Its readings are in buckets
    Done,
    /// Its readings were past their time to live when it was replayed
    Expired,
    All,
}

impl FilterArgs {
    pub(super) fn document(&self, now_ms: i64) -> Document {
        let mut filter = Document::new();
        for (name, values) in [("topic", &self.topic), ("reason", &self.reason)] {
            if !values.is_empty() {
                filter.insert(name, doc! { "$in": values });
            }
        }
        if !self.partition.is_empty() {
            filter.insert("partition", doc! { "$in": &self.partition });
        }
        let time = |when: When| Bson::DateTime(DateTime::from_millis(when.ms(now_ms)));
        insert_range(&mut filter, "timestamp", self.from.map(time), self.to.map(time));
        if let Some(Offsets { from, to }) = self.offsets {
            insert_range(&mut filter, "offset", from.map(Bson::Int64), to.map(Bson::Int64));
        }
        filter
    }
}

impl StateArg {
    pub(super) fn document(self) -> Document {
        match self {
            Self::Pending => doc! { "replay": { "$exists": false } },
            Self::Claimed => doc! { "replay.state": { "$in": ["claimed", "writing"] } },
            Self::Done => doc! { "replay.state": "done" },
            Self::Expired => doc! { "replay.state": "expired" },
            Self::All => Document::new(),
        }
    }
}

fn insert_range(filter: &mut Document, name: &str, from: Option<Bson>, to: Option<Bson>) {
    let bounds = [("$gte", from), ("$lt", to)];
    let range: Document = bounds.into_iter().filter_map(|(op, bound)| Some((op.to_owned(), bound?))).collect();
    if !range.is_empty() {
        filter.insert(name, range);
    }
}

fn parse_offsets(text: &str) -> Result<Offsets, String> {
    let (from, to) = text.split_once("..").ok_or("write A..B, A.. or ..B")?;
    let number = |part: &str| match part {
        "" => Ok(None),
        digits => digits.parse::<i64>().map(Some).map_err(|_| format!("{digits:?} is not an offset")),
    };
    let (from, to) = (number(from)?, number(to)?);
    if let (Some(from), Some(to)) = (from, to)
        && from >= to
    {
        return Err(format!("{from}..{to} holds no offset; the second is not included"));
    }
    Ok(Offsets { from, to })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_half_open_and_may_lack_an_end() {
        assert_eq!(parse_offsets("3..7"), Ok(Offsets { from: Some(3), to: Some(7) }));
        assert_eq!(parse_offsets("..7"), Ok(Offsets { from: None, to: Some(7) }));
        for wrong in ["3", "7..3", "3..3", "a..b", "3..=4"] {
            assert!(parse_offsets(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_is_not_said_does_not_filter() {
        assert_eq!(FilterArgs::default().document(7), doc! {});
        let args = FilterArgs {
            topic: vec!["t".into()],
            partition: vec![1, 2],
            from: Some(When::Ago(2)),
            offsets: parse_offsets("..9").ok(),
            ..FilterArgs::default()
        };
        let expected = doc! {
            "topic": { "$in": ["t"] }, "partition": { "$in": [1, 2] },
            "timestamp": { "$gte": DateTime::from_millis(5) }, "offset": { "$lt": 9_i64 },
        };
        assert_eq!(args.document(7), expected);
    }
}
