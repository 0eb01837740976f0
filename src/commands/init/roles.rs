//! `sakia init --print-roles`: the commands that make roles with the least privileges, and logins that hold them.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::config::Config;
use crate::sink::privileges::{Privilege, Purpose, Resource, needed};

/// Only roles of this database may speak of others, of the cluster and of its own collections of names.
const HOME: &str = "admin";

/// Nothing is asked of the server: whoever may make roles is seldom who runs sakia.
pub(super) fn print(out: &mut impl Write, config: &Config, is_json: bool) -> io::Result<()> {
    let roles = Purpose::ALL.map(|purpose| (role_name(config, purpose), privileges(config, purpose)));
    if is_json {
        let roles = roles.map(|(name, privileges)| json!({"createRole": name, "privileges": privileges, "roles": []}));
        let names = Purpose::ALL.map(|purpose| role_name(config, purpose));
        let users = names.map(|name| json!({"createUser": &name, "roles": [&name]}));
        return writeln!(out, "{}", json!({"database": HOME, "roles": roles, "users": users}));
    }
    writeln!(out, "// For mongosh, as somebody who may make roles and logins. A login may hold several of the roles;")?;
    writeln!(
        out,
        "// leave out what you have no use for. Where a role exists already, call updateRole(name, {{...}})."
    )?;
    writeln!(out, "const {HOME} = db.getSiblingDB({HOME:?});")?;
    for ((name, privileges), purpose) in roles.into_iter().zip(Purpose::ALL) {
        writeln!(out, "\n// {}", what_for(purpose))?;
        let privileges: Vec<_> = privileges.iter().map(|privilege| format!("    {privilege}")).collect();
        writeln!(out, "{HOME}.createRole({{\n  role: {name:?}, roles: [], privileges: [")?;
        writeln!(out, "{},\n  ],\n}});", privileges.join(",\n"))?;
        writeln!(out, "{HOME}.createUser({{ user: {name:?}, pwd: passwordPrompt(), roles: [{name:?}] }});")?;
    }
    Ok(())
}

fn role_name(config: &Config, purpose: Purpose) -> String {
    format!("{}_{}_{}", config.mongo.database, config.mongo.collection, purpose.name())
}

fn what_for(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Run => "sakia run: stores readings",
        Purpose::Init => "sakia init: makes and changes collections and indexes",
        Purpose::Read => "sakia read, ledger, dead list, count and show, and whatever else reads the samples",
        Purpose::Check => "sakia check: looks at everything and changes nothing",
        Purpose::Mend => "sakia dead replay, ledger skip, incarnation and rebuild: changes what is stored",
    }
}

fn privileges(config: &Config, purpose: Purpose) -> Vec<Value> {
    needed(config, purpose).iter().map(document).collect()
}

fn document(privilege: &Privilege) -> Value {
    let resource = match &privilege.resource {
        Resource::Collection { database, collection } => json!({"db": database, "collection": collection}),
        Resource::Database(database) => json!({"db": database, "collection": ""}),
        Resource::Cluster => json!({"cluster": true}),
    };
    json!({"resource": resource, "actions": privilege.actions})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(is_json: bool) -> String {
        let config = "kafka.brokers = \"h:1\"\nmongo.uri = \"mongodb://h/?replicaSet=rs0\"\nmongo.collection = \"r\"\n\
                      decoder = [{ topics = \"t\", device_path = \"@key\", timestamp_missing = \"kafka\" }]\n";
        let mut out = Vec::new();
        print(&mut out, &Config::from_toml(config).unwrap(), is_json).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_script_for_people() {
        let script = printed(false);
        assert_eq!(script.matches("admin.createRole({\n").count(), 5, "{script}");
        let is_dead = |line: &&str| line.contains(r#""collection":"r_dead""#) && line.contains(r#"["find","insert"]"#);
        assert_eq!(script.lines().filter(is_dead).count(), 1, "{script}");
        assert!(script.contains("user: \"sakia_r_run\", pwd: passwordPrompt(), roles: [\"sakia_r_run\"]"), "{script}");
    }

    #[test]
    fn commands_for_machines() {
        let printed: Value = serde_json::from_str(&printed(true)).unwrap();
        assert_eq!(printed["roles"][0]["createRole"], "sakia_r_run");
        assert_eq!(printed["users"][3], json!({"createUser": "sakia_r_check", "roles": ["sakia_r_check"]}));
        assert_eq!(printed["roles"][3]["privileges"][4]["resource"], json!({"cluster": true}));
    }
}
