//! What of a configuration must never be printed: not in logs, not by `--print-config`, not in an error message.

const MASK: &str = "***";

/// Whether the value of this librdkafka option is a secret.
pub(super) fn is_secret_option(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    // `ssl.key.pem` and its kin hold the key itself, `ssl.key.location` only the way to it. The configuration of the
    // OAUTHBEARER login is free text that holds credentials.
    let holds_key = name.split('.').next_back() == Some("pem");
    holds_key || name == "sasl.oauthbearer.config" || ["password", "secret"].iter().any(|s| name.contains(s))
}

/// The connection string without its password and without secret options.
pub fn redact_uri(uri: &str) -> String {
    let (scheme, rest) = uri.split_once("://").unwrap_or(("", uri));
    let separator = if uri.contains("://") { "://" } else { "" };
    // The last `@`, wherever it stands: a password that holds `/`, `?` or `@` unescaped is not a valid URI, and is the
    // very text that an error message would print.
    let (login, rest) = match rest.rsplit_once('@') {
        Some((login, rest)) => (mask_after(login, ':') + "@", rest),
        None => (String::new(), rest),
    };
    let (hosts, query) = rest.split_once('?').map_or((rest, None), |(hosts, query)| (hosts, Some(query)));
    let options = query.map(|query| {
        let options = query.split('&').map(|option| match option.split_once('=') {
            Some((name, _)) if is_secret_uri_option(name) => format!("{name}={MASK}"),
            _ => option.to_owned(),
        });
        format!("?{}", options.collect::<Vec<_>>().join("&"))
    });
    format!("{scheme}{separator}{login}{hosts}{}", options.unwrap_or_default())
}

fn is_secret_uri_option(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name == "authmechanismproperties" || ["password", "secret", "token"].iter().any(|s| name.contains(s))
}

fn mask_after(text: &str, mark: char) -> String {
    text.split_once(mark).map_or_else(|| text.to_owned(), |(before, _)| format!("{before}{mark}{MASK}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(uri: &str, shown: &str) {
        assert_eq!(redact_uri(uri), shown);
    }

    #[test]
    fn uri_keeps_all_but_secrets() {
        check("mongodb://h1:27017,h2/?replicaSet=rs0", "mongodb://h1:27017,h2/?replicaSet=rs0");
        check("mongodb+srv://u:p%40ss@h/", "mongodb+srv://u:***@h/");
        check("mongodb://u@h/", "mongodb://u@h/");
        check("mongodb://u:p/s?s@d@h/?w=1", "mongodb://u:***@h/?w=1");
        check("u:p@h", "u:***@h");
        check(
            "mongodb://h/?tlsCertificateKeyFilePassword=x&authMechanismProperties=AWS_SESSION_TOKEN:t&a=b",
            "mongodb://h/?tlsCertificateKeyFilePassword=***&authMechanismProperties=***&a=b",
        );
    }

    #[test]
    fn options_that_hold_secrets() {
        for name in ["sasl.password", "ssl.key.password", "ssl.key.pem", "sasl.oauthbearer.client.secret"] {
            assert!(is_secret_option(name), "{name}");
        }
        for name in ["sasl.username", "ssl.key.location", "client.id"] {
            assert!(!is_secret_option(name), "{name}");
        }
    }

    proptest! {
        #[test]
        fn no_password_survives(user in "[a-z]{1,5}", password in "[a-z/?&=:@,]{0,12}", host in "[a-z]{1,5}") {
            let shown = redact_uri(&format!("mongodb://{user}:SECRET{password}@{host}/?appName=x"));
            prop_assert!(!shown.contains("SECRET"), "{}", shown);
        }
    }
}
