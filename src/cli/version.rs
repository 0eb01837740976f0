//! What this program is made of, for bug reports and for whoever wonders which one is running.

use std::sync::LazyLock;

use crate::config::contract::DECODER_VERSION;
use crate::sink::ledger::HEADER_SCHEMA;

/// "unknown" in a build from a source without git, "debug build" in one for development.
pub const COMMIT: &str = env!("BUILD_COMMIT");

/// `-V`.
pub(super) const SHORT: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("BUILD_COMMIT"), ")");

/// `--version`: also what decides what is stored, and the libraries that talk to the servers.
pub(super) fn long() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let (_, librdkafka) = rdkafka::util::get_rdkafka_version();
        [
            SHORT.to_owned(),
            format!("decoder version {DECODER_VERSION}, ledger schema {HEADER_SCHEMA}"),
            format!("librdkafka {librdkafka}, mongodb driver {}", env!("BUILD_DRIVER")),
            format!("{}, {}, {}", env!("BUILD_TARGET"), env!("BUILD_PROFILE"), env!("BUILD_RUSTC")),
        ]
        .join("\n")
    });
    &TEXT
}
