//! Which errors are worth another try, and how long to wait before it.

/// What an error code of the server says about trying again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// The same command may succeed later; whether it has had an effect is not known.
    Transient,
    /// A unique index has an entry like this.
    Duplicate,
    /// No statement of ours will be taken until somebody mends something.
    All,
    /// This statement will never be taken as it is. Also every code not listed: most of the server's codes name a
    /// document that it cannot store (a validator, an index that cannot be built from it, its size or nesting).
    Statement,
}

impl ErrorClass {
    pub fn of(code: i32) -> Self {
        if code == 11_000 || code == 11_001 || code == 12_582 {
            Self::Duplicate
        } else if TRANSIENT.binary_search(&code).is_ok() {
            Self::Transient
        } else if ALL.binary_search(&code).is_ok() {
            Self::All
        } else {
            Self::Statement
        }
    }
}

/// Ascending. The server's `error_codes.yml` has the names.
const TRANSIENT: &[i32] = &[
    6,      // HostUnreachable
    7,      // HostNotFound
    24,     // LockTimeout
    43,     // CursorNotFound
    46,     // LockBusy
    50,     // MaxTimeMSExpired
    63,     // StaleShardVersion
    64,     // WriteConcernTimeout
    70,     // ShardNotFound, while a shard is being added or removed
    89,     // NetworkTimeout
    91,     // ShutdownInProgress
    100,    // UnsatisfiableWriteConcern: too few members are up
    112,    // WriteConflict
    117,    // ConflictingOperationInProgress
    133,    // FailedToSatisfyReadPreference
    134,    // ReadConcernMajorityNotAvailableYet
    150,    // StaleEpoch
    175,    // QueryPlanKilled
    189,    // PrimarySteppedDown
    202,    // NetworkInterfaceExceededTimeLimit
    237,    // CursorKilled
    246,    // SnapshotUnavailable
    249,    // StaleChunkHistory
    262,    // ExceededTimeLimit
    279,    // ClientDisconnect
    290,    // TransactionExceededLifetimeLimitSeconds
    314,    // ObjectIsBusy
    355,    // InterruptedDueToStorageChange
    384,    // ConnectionError
    391,    // ReauthenticationRequired
    462,    // IngressRequestRateLimitExceeded
    9_001,  // SocketException
    10_058, // LegacyNotPrimary
    10_107, // NotWritablePrimary
    11_600, // InterruptedAtShutdown
    11_601, // Interrupted
    11_602, // InterruptedDueToReplStateChange
    13_388, // StaleConfig
    13_435, // NotPrimaryNoSecondaryOk
    13_436, // NotPrimaryOrSecondary
    14_031, // OutOfDiskSpace: room can be made while we wait
];

/// Ascending.
const ALL: &[i32] = &[
    11,     // UserNotFound
    13,     // Unauthorized
    18,     // AuthenticationFailed
    20,     // IllegalOperation
    33,     // AuthSchemaIncompatible
    59,     // CommandNotFound
    61,     // ShardKeyNotFound
    72,     // InvalidOptions
    73,     // InvalidNamespace
    79,     // UnknownReplWriteConcern
    115,    // CommandNotSupported
    166,    // CommandNotSupportedOnView
    238,    // NotImplemented
    322,    // APIVersionError
    323,    // APIStrictError
    8_000,  // AtlasError: quota or privileges
    10_003, // CannotGrowDocumentInCappedNamespace
];

/// Delays that double up to a ceiling, each drawn from its upper half so that many writers do not come back at once.
#[derive(Clone, Debug)]
pub struct Backoff {
    random: fastrand::Rng,
    n_tries: u32,
}

impl Backoff {
    const FIRST_MS: u64 = 50;
    const CEILING_MS: u64 = 5_000;

    pub fn new(seed: u64) -> Self {
        Self { random: fastrand::Rng::with_seed(seed), n_tries: 0 }
    }

    /// How often a delay was asked for.
    pub fn n_tries(&self) -> u32 {
        self.n_tries
    }

    /// Milliseconds to wait before the next try.
    pub fn next_ms(&mut self) -> u64 {
        let whole = (Self::FIRST_MS << self.n_tries.min(10)).min(Self::CEILING_MS);
        self.n_tries = self.n_tries.saturating_add(1);
        whole / 2 + self.random.u64(0..=whole / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_code_is_found() {
        assert!(TRANSIENT.is_sorted() && ALL.is_sorted());
        assert!(TRANSIENT.iter().all(|code| ErrorClass::of(*code) == ErrorClass::Transient));
        assert!(ALL.iter().all(|code| ErrorClass::of(*code) == ErrorClass::All));
        let refusals = [2, 9, 14, 121, 10_334, 17_420, 16_755];
        assert!(refusals.iter().all(|code| ErrorClass::of(*code) == ErrorClass::Statement));
    }

    #[test]
    fn delays_double_up_to_the_ceiling() {
        let mut backoff = Backoff::new(7);
        let delays: Vec<_> = (0..100).map(|_| backoff.next_ms()).collect();
        assert!((25..=50).contains(&delays[0]) && (50..=100).contains(&delays[1]));
        assert!(delays[7..].iter().all(|ms| (2_500..=5_000).contains(ms)));
        let mut again = Backoff::new(7);
        assert!(delays.iter().all(|ms| *ms == again.next_ms()), "the seed decides");
    }
}
