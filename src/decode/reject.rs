//! Why a record or a reading cannot be used: small copyable data, since rejects are expected and not errors.

use std::fmt;

/// Why a record gives no readings at all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Whole {
    /// Nothing to store and nothing wrong: counted and passed over.
    Skip(SkipReason),
    /// One dead letter, at index 0.
    Reject(Reject),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// The record has no value.
    Tombstone,
    /// The array at the `explode` path has no elements.
    EmptyArray,
}

impl SkipReason {
    pub const ALL: [Self; 2] = [Self::Tombstone, Self::EmptyArray];

    /// Stable name, for metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tombstone => "tombstone",
            Self::EmptyArray => "empty_array",
        }
    }
}

/// What is wrong with a record or a reading, and where.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reject {
    pub reason: Reason,
    /// Offset in the record's value, where the fault has a place in it.
    pub byte: Option<u32>,
    pub detail: &'static str,
}

impl Reject {
    /// A fault at a place of the value.
    #[cold]
    pub(super) fn at(reason: Reason, byte: usize, detail: &'static str) -> Self {
        Self { reason, byte: u32::try_from(byte).ok(), detail }
    }

    /// A fault of something that is not there, or not in the value.
    #[cold]
    pub(super) fn of(reason: Reason, detail: &'static str) -> Self {
        Self { reason, byte: None, detail }
    }
}

impl fmt::Display for Reject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.detail)?;
        self.byte.map_or(Ok(()), |byte| write!(f, ", at byte {byte}"))
    }
}

/// Every way in which a record or a reading can be unusable. The names are stored in dead letters and label metrics:
/// they do not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Empty,
    Malformed,
    NotUtf8,
    NotAnObject,
    ExplodeNotArray,
    TooManyReadings,
    TooDeep,
    TooLarge,
    ForbiddenName,
    DuplicateName,
    BadNumber,
    MissingDevice,
    BadDevice,
    BadKey,
    MissingTime,
    BadTime,
    ImplausibleTime,
    NoFields,
}

impl Reason {
    pub const ALL: [Self; 18] = [
        Self::Empty,
        Self::Malformed,
        Self::NotUtf8,
        Self::NotAnObject,
        Self::ExplodeNotArray,
        Self::TooManyReadings,
        Self::TooDeep,
        Self::TooLarge,
        Self::ForbiddenName,
        Self::DuplicateName,
        Self::BadNumber,
        Self::MissingDevice,
        Self::BadDevice,
        Self::BadKey,
        Self::MissingTime,
        Self::BadTime,
        Self::ImplausibleTime,
        Self::NoFields,
    ];

    /// Stable name, for dead letters and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Malformed => "malformed",
            Self::NotUtf8 => "not_utf8",
            Self::NotAnObject => "not_an_object",
            Self::ExplodeNotArray => "explode_not_array",
            Self::TooManyReadings => "too_many_readings",
            Self::TooDeep => "too_deep",
            Self::TooLarge => "too_large",
            Self::ForbiddenName => "forbidden_name",
            Self::DuplicateName => "duplicate_name",
            Self::BadNumber => "bad_number",
            Self::MissingDevice => "missing_device",
            Self::BadDevice => "bad_device",
            Self::BadKey => "bad_key",
            Self::MissingTime => "missing_time",
            Self::BadTime => "bad_time",
            Self::ImplausibleTime => "implausible_time",
            Self::NoFields => "no_fields",
        }
    }
}
