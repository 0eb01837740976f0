//! Contract text: round trip, stable fingerprint, refusals.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn formats() -> impl Strategy<Value = Vec<TimestampFormat>> {
    use TimestampFormat::{Iso8601, Unix, UnixMs, UnixNs, UnixUs};
    vec(proptest::sample::select(vec![Unix, UnixMs, UnixUs, UnixNs, Iso8601]), 0..3)
}

fn tables() -> impl Strategy<Value = DecoderTable> {
    let texts = || vec(".{0,8}", 0..3);
    let paths = (texts(), texts(), formats(), any::<bool>(), ".{0,8}");
    let lists = (texts(), texts(), texts(), texts(), proptest::option::of(".{0,8}"));
    (".{0,8}", texts(), paths, lists).prop_map(|(name, topics, paths, lists)| DecoderTable {
        name,
        topics,
        device_path: paths.0,
        timestamp_path: paths.1,
        timestamp_format: paths.2,
        timestamp_missing_kafka: paths.3,
        fields_path: paths.4,
        include: lists.0,
        exclude: lists.1,
        meta: lists.2,
        stats: lists.3,
        explode: lists.4,
    })
}

fn contracts() -> impl Strategy<Value = Contract> {
    (tables(), any::<[i64; 4]>(), any::<[u32; 2]>(), any::<[String; 3]>()).prop_map(
        |(decoder, [length, offset, past, future], [max_readings, max_sample_bytes], [level, time, info])| Contract {
            decoder_version: DECODER_VERSION,
            decoder,
            window_length_ms: length,
            window_offset_ms: offset,
            plausible_past_ms: past,
            plausible_future_ms: future,
            max_readings,
            max_sample_bytes,
            isolation_level: level,
            time_name: time,
            info_name: info,
        },
    )
}

proptest! {
    #[test]
    fn text_reads_back_as_the_same(contract in contracts()) {
        let text = contract.text();
        prop_assert_eq!(Contract::parse(&text), Ok(contract.clone()));
        prop_assert_eq!(Contract::parse(&text).unwrap().fingerprint(), contract.fingerprint());
    }

    #[test]
    fn other_contracts_have_other_fingerprints(a in contracts(), b in contracts()) {
        prop_assert_eq!(a == b, a.fingerprint() == b.fingerprint());
    }
}

fn plain() -> Contract {
    let config = crate::config::Config::from_toml(crate::config::tests::MINIMAL).unwrap();
    config.contract_for("readings").unwrap()
}

/// A change of this value closes the streams of every installation. Raise `DECODER_VERSION`, or undo what changed it.
#[test]
fn fingerprint_is_the_same_in_every_release() {
    assert_eq!(plain().fingerprint(), "193b8733432b8a538c5d5f73a8bc3888");
}

#[test]
fn another_decoder_version_is_refused_by_number() {
    let text = plain().text().replace("\"decoder_version\":1", "\"decoder_version\":7");
    assert_eq!(Contract::parse(&text), Err(ContractError::UnknownDecoder { found: 7 }));
    let message = Contract::parse(&text).unwrap_err().to_string();
    assert!(message.contains("version 7") && message.contains("version 1"), "{message}");
}

#[test]
fn unknown_members_are_refused() {
    let text = plain().text().replacen('{', "{\"rounding\":\"up\",", 1);
    assert!(matches!(Contract::parse(&text), Err(ContractError::Malformed(_))));
}
