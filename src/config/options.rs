//! Options of the two client libraries that the write protocol owns. Set by hand they would lose or double readings
//! without a word, so each is refused with the reason.

/// `(names, reason)`; aliases of librdkafka are listed with the option they stand for.
const KAFKA_OWNED: [(&[&str], &str); 12] = [
    (&["bootstrap.servers", "metadata.broker.list"], "is the key kafka.brokers"),
    (&["group.id"], "is the key kafka.group"),
    (
        &["enable.auto.commit", "auto.commit.enable", "auto.commit.interval.ms", "offset.store.method"],
        "belongs to the protocol: an offset is committed once its readings are durable, never on a timer",
    ),
    (
        &["enable.auto.offset.store", "offset.store.sync.interval.ms"],
        "belongs to the protocol: an offset stored before its readings are durable is a loss on the next restart",
    ),
    (&["auto.offset.reset"], "belongs to the protocol: the ledger says where a partition starts"),
    (&["isolation.level"], "belongs to the protocol: it decides which readings exist, so it is part of the contract"),
    (
        &["partition.assignment.strategy"],
        "belongs to the protocol: members with different strategies cannot be in one group; it is cooperative-sticky",
    ),
    (
        &["group.protocol", "group.remote.assignor"],
        "belongs to the protocol: the revocation is written for the classic group protocol",
    ),
    (&["enable.partition.eof"], "belongs to the protocol: the end of a partition is known from its high watermark"),
    (
        &["queued.max.messages.kbytes", "queued.min.messages"],
        "is derived from flow.memory_budget: a queue of its own size would break the budget",
    ),
    (
        &["fetch.max.bytes", "fetch.message.max.bytes", "max.partition.fetch.bytes"],
        "is derived from flow.memory_budget: a response under way counts in the budget",
    ),
    (&["statistics.interval.ms"], "is set by sakia: lag and memory figures come from the statistics"),
];

/// Options of the connection string; the driver compares them without regard to case.
const MONGO_OWNED: [(&[&str], &str); 5] = [
    (
        &["w", "j", "journal", "wtimeout", "wtimeoutms", "safe"],
        "belongs to the protocol: every write is acknowledged by a majority, with mongo.write_timeout as its limit",
    ),
    (&["readconcernlevel"], "belongs to the protocol: what is believed about a bucket is read by majority"),
    (
        &["readpreference", "readpreferencetags", "maxstalenessseconds"],
        "belongs to the protocol: a secondary may not know yet what was written",
    ),
    (&["maxpoolsize", "minpoolsize"], "is the key mongo.connections"),
    (&["timeoutms", "waitqueuetimeoutms"], "is the key mongo.write_timeout"),
];

/// Why a librdkafka option may not be set.
pub(super) fn kafka_refusal(name: &str) -> Option<&'static str> {
    refusal(&KAFKA_OWNED, &name.to_ascii_lowercase())
}

fn refusal(owned: &[(&[&str], &'static str)], name: &str) -> Option<&'static str> {
    owned.iter().find(|(names, _)| names.contains(&name)).map(|(_, reason)| *reason)
}

/// What is wrong with a connection string. Never repeats the string: it may hold a password.
pub(super) fn check_mongo_uri(uri: &str) -> Result<(), String> {
    let rest = uri.strip_prefix("mongodb://").or_else(|| uri.strip_prefix("mongodb+srv://"));
    let rest = rest.ok_or("must start with mongodb:// or mongodb+srv://")?;
    let (hosts, query) = rest.split_once('?').unwrap_or((rest, ""));
    if hosts.trim_matches('/').is_empty() {
        return Err("names no host; write mongodb://host:port/?replicaSet=name".into());
    }
    for option in query.split('&') {
        let name = option.split('=').next().unwrap_or_default();
        if let Some(reason) = refusal(&MONGO_OWNED, &name.to_ascii_lowercase()) {
            return Err(format!("the option {name} {reason}; take it out"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocol_options_are_refused_and_others_pass() {
        for name in ["enable.auto.commit", "Group.Id", "isolation.level", "max.partition.fetch.bytes"] {
            assert!(kafka_refusal(name).is_some(), "{name}");
        }
        for name in ["security.protocol", "session.timeout.ms", "client.id", "fetch.min.bytes"] {
            assert_eq!(kafka_refusal(name), None, "{name}");
        }
    }

    #[test]
    fn connection_string() {
        for right in ["mongodb://h/?retryWrites=true&replicaSet=rs0", "mongodb+srv://u:p@h", "mongodb://h:1,i/"] {
            assert_eq!(check_mongo_uri(right), Ok(()), "{right}");
        }
        let message = check_mongo_uri("mongodb://u:secret@h/?replicaSet=rs0&W=1").unwrap_err();
        assert!(message.contains("W belongs") && !message.contains("secret"), "{message}");
        for wrong in ["h:27017", "mongodb://", "mongodb://?w=1", "mongodb://h/?readConcernLevel=local"] {
            assert!(check_mongo_uri(wrong).is_err(), "{wrong}");
        }
    }
}
