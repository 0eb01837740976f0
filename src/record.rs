//! The vocabulary of a record's place and time. No behaviour beyond arithmetic.

/// One Kafka message, borrowed from the batch that carries it.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    pub topic: &'a str,
    pub partition: i32,
    pub offset: i64,
    /// Kafka's own timestamp in milliseconds since 1970; `None` where the broker gave none.
    pub timestamp: Option<i64>,
    pub key: Option<&'a [u8]>,
    /// `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    pub headers: Headers<'a>,
}

/// Kafka headers in the packed form that a batch keeps: per header the length of the name (u32, little endian), the
/// name, the length of the value (i32, -1 for null) and the value.
#[derive(Clone, Copy, Debug, Default)]
pub struct Headers<'a>(pub &'a [u8]);

impl<'a> Headers<'a> {
    /// Appends one header in packed form to `out`.
    pub fn pack(out: &mut Vec<u8>, name: &str, value: Option<&[u8]>) {
        out.extend_from_slice(&(name.len() as u32).to_le_bytes());
        out.extend_from_slice(name.as_bytes());
        let length = value.map_or(-1, |v| v.len() as i32);
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(value.unwrap_or_default());
    }

    pub fn iter(self) -> HeaderIter<'a> {
        HeaderIter(self.0)
    }
}

/// Walks packed headers as `(name, value)`; stops at the first byte that is not well formed.
#[derive(Clone, Debug)]
pub struct HeaderIter<'a>(&'a [u8]);

impl<'a> Iterator for HeaderIter<'a> {
    type Item = (&'a str, Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        let (length, rest) = self.0.split_first_chunk::<4>()?;
        let (name, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let length = i32::from_le_bytes(*length);
        let (value, rest) = rest.split_at_checked(length.max(0) as usize)?;
        self.0 = rest;
        Some((std::str::from_utf8(name).ok()?, (length >= 0).then_some(value)))
    }
}

/// Order of a reading in its partition: offset x 65,536 + index within the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub i64);

impl Position {
    /// Readings a record may hold: index 65,536 would be index 0 of the next offset, and the next record would be
    /// taken as already applied.
    pub const PER_RECORD: i64 = 65_536;
    /// Below every real position.
    pub const NONE: Self = Self(-1);

    pub fn new(offset: i64, index: u16) -> Self {
        debug_assert!((0..1 << 47).contains(&offset));
        Self(offset * Self::PER_RECORD + i64::from(index))
    }

    pub fn offset(self) -> i64 {
        self.0.div_euclid(Self::PER_RECORD)
    }

    pub fn index(self) -> u16 {
        self.0.rem_euclid(Self::PER_RECORD) as u16
    }
}

/// Id of a stream: a random 63-bit number given by the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub i64);

/// Event time or window start in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventTime(pub i64);

/// Monotonic time in milliseconds since the process started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tick(pub u64);

impl Tick {
    #[must_use]
    pub fn after(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// One hand-over of one partition to this process. Never reused, so whatever still travels for an earlier one is
/// recognised and dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Assignment(pub u32);

/// Where readings come from: the key of a partition's ledger entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    /// Kafka's cluster id.
    pub cluster: String,
    pub topic: String,
    /// 0, and one more each time an operator accepts that the topic was recreated.
    pub incarnation: i32,
    pub partition: i32,
}

/// A fixed span of event time, aligned to the epoch plus `offset_ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub length_ms: i64,
    pub offset_ms: i64,
}

impl Window {
    /// Start of the window that holds `at`.
    pub fn start(self, at: EventTime) -> EventTime {
        let shifted = at.0 + self.offset_ms;
        EventTime(shifted - shifted.rem_euclid(self.length_ms) - self.offset_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_keeps_order_and_parts() {
        let p = Position::new(7, 65_535);
        assert_eq!((p.offset(), p.index()), (7, 65_535));
        assert!(p < Position::new(8, 0));
        assert!(Position::NONE < Position::new(0, 0));
    }

    #[test]
    fn headers_round_trip() {
        let mut packed = Vec::new();
        Headers::pack(&mut packed, "a", Some(b"xy"));
        Headers::pack(&mut packed, "", None);
        let read: Vec<_> = Headers(&packed).iter().collect();
        assert_eq!(read, vec![("a", Some(b"xy".as_slice())), ("", None)]);
        assert_eq!(Headers(&packed[..packed.len() - 1]).iter().count(), 1);
    }

    #[test]
    fn window_starts_before_1970_and_with_an_offset() {
        let day = Window { length_ms: 86_400_000, offset_ms: 0 };
        assert_eq!(day.start(EventTime(-1)), EventTime(-86_400_000));
        // Reference article: second 1573833152 is 2019-11-15, whatever a `date` field beside it says.
        assert_eq!(day.start(EventTime(1_573_833_152_000)), EventTime(1_573_776_000_000));
        let east = Window { length_ms: 86_400_000, offset_ms: 3_600_000 };
        assert_eq!(east.start(EventTime(-3_600_000)), EventTime(-3_600_000));
    }
}
