//! Named places at which the kill tests end the process, without unwinding, flushing or farewell.
//!
//! Only with the feature `crash-points`; else every call is nothing.

/// Ends the process if `SAKIA_CRASH_AT` is `name:count` and this is the count-th pass.
#[cfg(feature = "crash-points")]
pub fn point(name: &str) {
    use std::sync::atomic::{AtomicU64, Ordering};

    static N_PASSES: AtomicU64 = AtomicU64::new(0);
    if let Some((armed, count)) = armed()
        && armed == name
        && N_PASSES.fetch_add(1, Ordering::SeqCst) + 1 == *count
    {
        std::process::abort();
    }
}

/// Whether the process is to end at this place.
#[cfg(feature = "crash-points")]
pub fn is_armed(name: &str) -> bool {
    armed().is_some_and(|(armed, _)| armed == name)
}

#[cfg(feature = "crash-points")]
fn armed() -> Option<&'static (String, u64)> {
    static ARMED: std::sync::OnceLock<Option<(String, u64)>> = std::sync::OnceLock::new();
    let read = || {
        let text = std::env::var("SAKIA_CRASH_AT").ok()?;
        let (name, count) = text.rsplit_once(':').expect("SAKIA_CRASH_AT is name:count");
        Some((name.to_owned(), count.parse().expect("SAKIA_CRASH_AT ends in a number")))
    };
    ARMED.get_or_init(read).as_ref()
}

#[cfg(not(feature = "crash-points"))]
#[inline]
pub fn point(_name: &str) {}

#[cfg(not(feature = "crash-points"))]
#[inline]
pub fn is_armed(_name: &str) -> bool {
    false
}
