//! What the user has to be allowed to do. Pure.

use std::collections::BTreeSet;

use mongodb::bson::Document;

use crate::config::Config;
use crate::sink::privileges::{self, Purpose, Resource};

pub(in crate::commands) const GRANT: &str =
    "grant these actions to the user; `sakia init --print-roles` prints a role that has them all";

/// Rights of `sakia run` that are not there, as `action on database.collection`. `status` is the answer to
/// `connectionStatus` with `showPrivileges`. A user without a name is anybody, on a server that lets anybody in or on one
/// that asks later: then nothing can be said here.
pub(in crate::commands) fn missing(status: &Document, config: &Config) -> Vec<String> {
    let Ok(info) = status.get_document("authInfo") else { return Vec::new() };
    if info.get_array("authenticatedUsers").map_or(0, Vec::len) == 0 {
        return Vec::new();
    }
    let privileges = info.get_array("authenticatedUserPrivileges").cloned().unwrap_or_default();
    let privileges: Vec<_> = privileges.iter().filter_map(|privilege| privilege.as_document()).collect();
    let mut missing = Vec::new();
    for needed in privileges::needed(config, Purpose::Run) {
        let Resource::Collection { database, collection } = &needed.resource else { continue };
        let granted: BTreeSet<&str> = privileges
            .iter()
            .filter(|privilege| covers(privilege, database, collection))
            .filter_map(|privilege| privilege.get_array("actions").ok())
            .flat_map(|actions| actions.iter().filter_map(|action| action.as_str()))
            .collect();
        let lacking = needed.actions.iter().filter(|action| !granted.contains(**action));
        let lacking = lacking.filter(|_| !granted.contains("anyAction"));
        missing.extend(lacking.map(|action| format!("{action} on {database}.{collection}")));
    }
    missing
}

/// An empty name in a privilege stands for all databases, or all ordinary collections.
fn covers(privilege: &Document, database: &str, collection: &str) -> bool {
    let Ok(resource) = privilege.get_document("resource") else { return false };
    if resource.get_bool("anyResource").unwrap_or(false) {
        return true;
    }
    let is = |key: &str, name: &str| resource.get_str(key).is_ok_and(|found| found.is_empty() || found == name);
    is("db", database) && is("collection", collection)
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{Document, doc};

    use super::*;

    fn config() -> Config {
        let minimal = "kafka.brokers = \"h:1\"\nmongo.uri = \"mongodb://h/?replicaSet=rs0\"\n\
                       decoder = [{ topics = \"t\", device_path = \"@key\", timestamp_missing = \"kafka\" }]\n";
        Config::from_toml(minimal).unwrap()
    }

    fn check(privileges: Vec<Document>, expected: &[&str]) {
        let users = vec![doc! { "user": "u", "db": "admin" }];
        let info = doc! { "authenticatedUsers": users, "authenticatedUserPrivileges": privileges };
        assert_eq!(missing(&doc! { "authInfo": info }, &config()), expected);
    }

    fn on(db: &str, collection: &str, actions: &[&str]) -> Document {
        doc! { "resource": { "db": db, "collection": collection }, "actions": actions.to_vec() }
    }

    #[test]
    fn rights_are_summed_over_all_that_cover_a_collection() {
        let all = ["find", "insert", "update"];
        check(vec![on("sakia", "", &all)], &[]);
        check(vec![on("", "", &all)], &[]);
        check(vec![doc! { "resource": { "anyResource": true }, "actions": ["anyAction"] }], &[]);
        let each = ["readings", "readings_ledger", "readings_dead"].map(|name| on("sakia", name, &all[..2]));
        let update = ["update on sakia.readings", "update on sakia.readings_ledger"];
        check(each.to_vec(), &update);
        check([&each[..], &[on("", "readings", &all[2..])]].concat(), &update[1..]);
    }

    #[test]
    fn rights_elsewhere_do_not_count() {
        let elsewhere = [on("other", "", &["find", "insert", "update"]), doc! { "resource": { "cluster": true } }];
        let info = doc! { "authenticatedUsers": ["u"], "authenticatedUserPrivileges": elsewhere.to_vec() };
        assert_eq!(missing(&doc! { "authInfo": info }, &config()).len(), 8);
        let anybody = doc! { "authenticatedUsers": [], "authenticatedUserPrivileges": [] };
        assert!(missing(&doc! { "authInfo": anybody }, &config()).is_empty());
    }
}
