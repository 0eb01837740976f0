//! A look at both servers before `sakia run` starts: mistakes that would otherwise make it wait without a word, or store
//! on a server that forgets. `sakia check` sees more; this is what must never be started with.

use std::time::Duration;

use mongodb::bson::doc;

use crate::clock::Clock;
use crate::code::{Code, Failure};
use crate::commands::check::kafka::{names, topic_missing};
use crate::commands::check::mongo::{LookError, reach, rights};
use crate::commands::init::steps::Names;
use crate::commands::server::CommandError;
use crate::config::Config;
use crate::source::SourceError;
use crate::source::asking::Asker;

/// Servers that start together with this process have so long.
const KAFKA_WAIT: Duration = Duration::from_secs(15);
const MONGO_WAIT_MS: u64 = 15_000;

/// A topic that was just made takes a moment to be known.
const TOPIC_PATIENCE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(500);

const UNAUTHORIZED: i32 = 13;

/// Blocks for a moment; for as long as it waits above where a server does not answer.
pub(super) fn preflight(config: &Config, until_caught_up: bool) -> Result<(), Failure> {
    kafka(config, until_caught_up)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::new(Code::Failed, format_args!("cannot start a runtime: {error}")))?;
    runtime.block_on(mongo(config))
}

/// The client waits for ever, and in silence, for a topic that does not exist. One of several may be made later, and
/// must not keep the others from being read; but who waits for the end of all of them would wait for ever.
fn kafka(config: &Config, until_caught_up: bool) -> Result<(), Failure> {
    let topics = &config.kafka.topics;
    let named: Vec<_> = topics.iter().filter(|name| !name.starts_with('^')).cloned().collect();
    let asked = Asker::new(&config.kafka).and_then(|asker| asker.metadata_of(&named, KAFKA_WAIT, TOPIC_PATIENCE));
    let metadata = asked.map_err(|error| {
        let code = if matches!(error, SourceError::Unreachable { .. }) { Code::KafkaUnreachable } else { Code::Failed };
        Failure::new(code, error)
    })?;
    let visible: Vec<_> = metadata.topics().iter().filter(|topic| !topic.partitions().is_empty()).collect();
    let exists = |name: &str| visible.iter().any(|topic| topic.name() == name);
    let missing: Vec<_> = named.iter().filter(|name| !exists(name)).collect();
    let failures = missing.iter().map(|name| topic_missing(name, &names(&metadata)));
    if until_caught_up || missing.len() == topics.len() {
        return failures.into_iter().next().map_or(Ok(()), Err);
    }
    for failure in failures {
        tracing::warn!(code = %failure.code, reason = failure.message, "topic is not read until it is there");
    }
    Ok(())
}

async fn mongo(config: &Config) -> Result<(), Failure> {
    let clock = Clock::start();
    let mut looks = tokio::time::interval(LOOK);
    let server = loop {
        looks.tick().await;
        match reach(config, "run").await {
            Ok((server, _)) => break server,
            // A server that is being started, or between two primaries.
            Err(LookError::Unreachable { .. } | LookError::NotPrimary(_)) if clock.now().0 < MONGO_WAIT_MS => {}
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
        return denied(format!("{}; {}", rights::NO_USER, rights::GIVE_USER));
    }
    let status = server.run_admin(doc! { "connectionStatus": 1, "showPrivileges": true }).await;
    let missing = rights::missing(&status.unwrap_or_default(), config);
    if missing.is_empty() {
        return Ok(());
    }
    denied(format!("the user of mongo.uri may not: {}; {}", missing.join(", "), rights::GRANT))
}

impl From<LookError> for Failure {
    fn from(error: LookError) -> Self {
        let code = match error {
            LookError::Unreachable { .. } => Code::MongoUnreachable,
            LookError::Login { .. } => Code::MongoRefused,
            LookError::Uri { .. } => Code::MongoUri,
            LookError::Unsuitable(_) | LookError::NotPrimary(_) => Code::MongoUnsuitable,
        };
        Self::new(code, error)
    }
}
