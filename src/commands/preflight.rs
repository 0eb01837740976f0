//! A look at both servers before `sakia run` starts: mistakes that would otherwise make it wait without a word, or store
//! on a server that forgets. `sakia check` sees more; this is what must never be started with.

use std::time::Duration;

use mongodb::bson::doc;

use crate::clock::Clock;
use crate::code::{Code, Failure};
use crate::commands::check::kafka::{names, topic_missing};
use crate::commands::check::mongo::rights;
use crate::commands::init::steps::Names;
use crate::commands::reach::{ReachError, reach_primary, runtime};
use crate::commands::server::{CommandError, UNAUTHORIZED};
use crate::config::Config;
use crate::config::topics::{Unrouted, found_by, is_pattern};
use crate::sink::privileges::{GIVE_USER, NO_USER};
use crate::source::SourceError;
use crate::source::asking::Asker;

/// Servers that start together with this process have so long.
const KAFKA_WAIT: Duration = Duration::from_secs(15);
const MONGO_WAIT_MS: u64 = 15_000;

/// A topic that was just made takes a moment to be known.
const TOPIC_PATIENCE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(500);

/// Blocks for a moment; for as long as it waits above where a server does not answer.
pub(super) fn preflight(config: &Config, until_caught_up: bool) -> Result<(), Failure> {
    kafka(config, until_caught_up)?;
    runtime()?.block_on(mongo(config))
}

/// The client waits for ever, and in silence, for a topic that does not exist. One of several may be made later, and
/// must not keep the others from being read, and a pattern is there for topics to come; but who waits for the end of all
/// of them would wait for ever.
fn kafka(config: &Config, until_caught_up: bool) -> Result<(), Failure> {
    let named = config.named_topics();
    let asked = Asker::new(&config.kafka).and_then(|asker| asker.metadata_of(&named, KAFKA_WAIT, TOPIC_PATIENCE));
    let metadata = asked.map_err(|error| {
        let code = if matches!(error, SourceError::Unreachable { .. }) { Code::KafkaUnreachable } else { Code::Failed };
        Failure::new(code, error)
    })?;
    let visible = names(&metadata);
    let is_there = |name: &String| visible.contains(name);
    let topics = config.topics_among(&visible);
    let absent: Vec<_> =
        named.iter().filter(|name| !is_there(name)).map(|name| topic_missing(name, &visible)).collect();
    let empty = config.kafka.topics.iter().filter(|entry| is_pattern(entry) && found_by(entry, &visible).is_empty());
    let empty: Vec<_> = empty.map(|entry| pattern_without_topic(entry)).collect();
    let is_in_vain = if topics.iter().any(is_there) {
        until_caught_up && !absent.is_empty()
    } else {
        until_caught_up || empty.is_empty()
    };
    let missing = absent.into_iter().chain(empty);
    if is_in_vain {
        return missing.into_iter().next().map_or(Ok(()), Err);
    }
    for failure in missing {
        tracing::warn!(code = %failure.code, reason = failure.message, "topic is not read until it is there");
    }
    for topic in topics {
        if let Err(reason @ Unrouted::Ambiguous { .. }) = config.decoder_for(&topic) {
            tracing::warn!(code = %Code::TopicWithoutDecoder, %reason, "topic is not read");
        }
    }
    Ok(())
}

fn pattern_without_topic(pattern: &str) -> Failure {
    let mend = "create one, or check the pattern and this user's rights";
    Failure::new(Code::TopicMissing, format_args!("no topic on this cluster matches the pattern {pattern:?}; {mend}"))
}

async fn mongo(config: &Config) -> Result<(), Failure> {
    let clock = Clock::start();
    let mut looks = tokio::time::interval(LOOK);
    let server = loop {
        looks.tick().await;
        match reach_primary(&config.mongo, "run").await {
            Ok((server, _)) => break server,
            // A server that is being started, or between two primaries.
            Err(ReachError::Unreachable { .. } | ReachError::NotPrimary(_)) if clock.now().0 < MONGO_WAIT_MS => {}
            Err(error) => return Err(error.into()),
        }
    };
    let names = Names::of(config);
    let denied = |message: String| Err(Failure::new(Code::RightsMissing, message));
    // A user without a name is told nothing of its rights; only asking shows whether it has any.
    let any = doc! { "find": &names.ledger, "limit": 1, "singleBatch": true };
    if let Err(CommandError::Refused { code: UNAUTHORIZED, .. }) = server.run(any).await
        && server.options().credential.is_none()
    {
        return denied(format!("{NO_USER}; {GIVE_USER}"));
    }
    let status = server.run_admin(doc! { "connectionStatus": 1, "showPrivileges": true }).await;
    let missing = rights::missing(&status.unwrap_or_default(), config);
    if missing.is_empty() {
        return Ok(());
    }
    denied(format!("the user of mongo.uri may not: {}; {}", missing.join(", "), rights::GRANT))
}
