//! Which names databases, collections, stored fields and topics may have.

/// Longest name of a database or collection; what sakia appends to a collection's name counts.
const MAX_NAME: usize = 64;
const SUFFIX: &str = "_samples";

pub(super) fn check_database(name: &str) -> Result<(), String> {
    check_name(name, MAX_NAME - 1)?;
    if ["admin", "config", "local"].contains(&name) {
        return Err(format!("{name:?} is the server's own; choose another database"));
    }
    Ok(())
}

pub(super) fn check_collection(name: &str) -> Result<(), String> {
    check_name(name, MAX_NAME - SUFFIX.len())
}

/// Lower case, digits and underscore: the same name then works in every shell, driver and file system.
fn check_name(name: &str, max: usize) -> Result<(), String> {
    let right = format!("write lower-case letters, digits and underscores, at most {max}");
    if name.is_empty() || name.len() > max {
        return Err(format!("has {} characters; {right}", name.len()));
    }
    if let Some(c) = name.chars().find(|c| !matches!(c, 'a'..='z' | '0'..='9' | '_')) {
        return Err(format!("{name:?} holds {c:?}; {right}"));
    }
    if name.starts_with(|c: char| c.is_ascii_digit()) || name.starts_with("system") {
        return Err(format!("{name:?} must not start with a digit or with `system`"));
    }
    Ok(())
}

/// A field name that can stand in an update path. Dots and dollars would make it another path or an operator.
pub(super) fn check_field(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("is empty; a field needs a name".into());
    }
    if name.len() > 128 {
        return Err("is longer than 128 bytes".into());
    }
    if let Some(c) = name.chars().find(|c| matches!(c, '.' | '$') || c.is_control()) {
        return Err(format!("{name:?} holds {c:?}: the server would take it for a path or an operator"));
    }
    if name == "_id" {
        return Err("`_id` is the bucket's key; choose another name".into());
    }
    Ok(())
}

pub(super) fn check_topic_name(name: &str) -> Result<(), String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() || name.len() > 249 || name == "." || name == ".." || !name.chars().all(allowed) {
        return Err(format!("{name:?} is no topic name: letters, digits, `.`, `_` and `-`, at most 249"));
    }
    Ok(())
}

/// A comma-separated list of `host` or `host:port`.
pub(super) fn check_brokers(brokers: &str) -> Result<(), String> {
    for broker in brokers.split(',').map(str::trim) {
        let port = broker.rsplit_once(':').map(|(_, port)| port).filter(|port| !port.contains(']'));
        let is_wrong = broker.is_empty()
            || broker.starts_with(':')
            || broker.contains(char::is_whitespace)
            || port.is_some_and(|port| port.parse::<u16>().is_err());
        if is_wrong {
            return Err(format!("{broker:?} is no broker; write host:port, several with commas between"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: fn(&str) -> Result<(), String>, right: &[&str], wrong: &[&str]) {
        for name in right {
            assert_eq!(rule(name), Ok(()), "{name:?}");
        }
        for name in wrong {
            assert!(rule(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn names_of_databases_and_collections() {
        let long = "a".repeat(57);
        check(
            check_collection,
            &["readings", "_r2", &long[1..]],
            &["", "Readings", "a-b", "a.b", "2a", "systems", &long],
        );
        check(check_database, &["sakia"], &["admin", "local", "config", "a$b", &"a".repeat(64)]);
    }

    #[test]
    fn names_of_fields() {
        check(check_field, &["deviceid", "Geräte-Id", "_x"], &["", "a.b", "$a", "a$", "_id", "a\0", &"a".repeat(129)]);
    }

    #[test]
    fn names_of_topics_and_brokers() {
        check(check_topic_name, &["a.b_c-D9"], &["", ".", "..", "^tele", "a b", "ä", &"a".repeat(250)]);
        check(
            check_brokers,
            &["h", "h:9092,i:1", "[::1]:9092", "SSL://h:9"],
            &["", "h:", "h:x", ":9", "h,,i", "h i:1"],
        );
    }
}
