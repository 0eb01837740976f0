//! `sakia dead replay`: decodes letters again and stores what is good now, each reading once.
//!
//! A run claims its letters, gets streams of its own, and goes through the letters in position order. It may be killed
//! at any point and resumed under its id; the protocol stands in ARCHITECTURE.md.

mod drive;
mod feed;
mod judge;
mod report;

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use mongodb::Database;
use mongodb::bson::{Document, doc};
use tokio::sync::watch;

use self::drive::Drive;
use self::feed::Feed;
use self::judge::{Lane, Verdict};
use self::report::Tally;
use super::Letters;
use super::filter::{FilterArgs, StateArg};
use crate::cli::LayerArgs;
use crate::clock::wall_ms;
use crate::code::{Code, Failure};
use crate::commands::stdout::written;
use crate::config::{Config, Contract};
use crate::crash;
use crate::decode::{Decoder, Scratch};
use crate::engine::FlushPolicy;
use crate::pipeline::{self, bounds};
use crate::record::{EventTime, Origin, StreamId};
use crate::sink::bucket::BucketSink;
use crate::sink::ledger::Ledger;
use crate::sink::ledger::replays::{Replay, ReplayError, ReplayState};
use crate::telemetry::log::{self, Format};
use crate::telemetry::progress::Line;

/// No stream of a replay is ever appended to later, so samples wait for their bucket to fill, but not without end: what
/// waits is decoded again after a kill.
const FLUSH_AGE_MS: u64 = 30_000;
/// Claims that are taken over before their run begins, as happens when several start at once.
const MAX_CLAIMS: u32 = 5;

const EXAMPLES: &str = "\
Examples:
  sakia dead replay --dry-run --reason missing_time
  sakia dead replay --reason missing_time
  sakia dead replay --resume 5d1f0c2ab9e87346";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ReplayArgs {
    /// Decode and count; write nothing
    #[arg(long)]
    dry_run: bool,
    /// Go on with a run that was interrupted, under the mapping that it was begun with
    #[arg(
        long, value_name = "RUN",
        conflicts_with_all = ["topic", "partition", "reason", "from", "to", "offsets", "dry_run"]
    )]
    resume: Option<String>,
    /// Report as one JSON document
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    pub(super) layer: LayerArgs,
}

pub(super) async fn run(
    config: &Config,
    db: &Database,
    letters: &Letters,
    args: &ReplayArgs,
) -> Result<ExitCode, Failure> {
    let level = Some(config.telemetry.log_level.as_str());
    log::init(Format::Text, level, Line::hidden()).map_err(|error| Failure::new(Code::Failed, error))?;
    let choice = Choice::of(config, letters, args).await?;
    let horizon = horizon(config, db).await?;
    let mut tally = if args.dry_run {
        rehearse(config, letters, &choice, horizon).await?
    } else {
        let ledger = Ledger::open(db.clone(), config, String::new()).await.map_err(Failure::from)?;
        let begun = match &args.resume {
            Some(id) => Some(resume(&ledger, letters, id).await?),
            None => begin(config, &choice, &ledger).await?,
        };
        replay(config, db, letters, begun, &Arc::new(ledger), horizon).await?
    };
    if args.resume.is_none() {
        choice.note_left_out(letters, &mut tally).await?;
    }
    let mut out = io::stdout().lock();
    written(if args.json { writeln!(out, "{}", tally.json()) } else { tally.text(&mut out) })?;
    if !tally.stopped.is_empty() {
        let run = tally.run.unwrap_or_default();
        let message = format_args!(
            "run {run} stopped before the end: {}; mend that, then go on with `sakia dead replay --resume {run}`",
            tally.stopped.join("; ")
        );
        return Err(Failure::new(Code::ReplayUnfinished, message));
    }
    Ok(if tally.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn replay(
    config: &Config,
    db: &Database,
    letters: &Letters,
    begun: Option<Replay>,
    ledger: &Arc<Ledger>,
    horizon: EventTime,
) -> Result<Tally, Failure> {
    note_open_runs(ledger, begun.as_ref()).await?;
    let Some(replay) = begun else { return Ok(Tally::default()) };
    let mut err = io::stderr();
    writeln!(err, "run {0}; should it be interrupted: sakia dead replay --resume {0}", replay.id).ok();
    let (_stop, stopped) = watch::channel(false);
    let sink = BucketSink::new(db.clone(), config, stopped);
    let mut drive = Drive::new(&replay.id, policy(config), sink, Arc::clone(ledger));
    for part in &replay.streams {
        let contract = ledger.replay_contract(&part.contract).await.map_err(|error| failed(&replay.id, error))?;
        if config.contract_for(&part.origin.topic).as_ref() != Some(&contract) {
            let topic = &part.origin.topic;
            writeln!(err, "{topic} is configured anew since the run was begun; the run keeps to what it began with")
                .ok();
        }
        let dead = ledger.replay_letters(part.stream).await.map_err(|error| failed(&replay.id, error))?;
        drive.assign(lane(part.stream, Arc::clone(&part.origin), contract, horizon)?, dead);
    }
    ledger.begin_writing(&replay.id).await.map_err(|error| failed(&replay.id, error))?;
    let mut feed = Feed::new(letters, feed::of_run(&replay.id)).await?;
    let mut tally = drive.run(&mut feed).await?;
    tally.back("this release cannot read them", feed.n_unreadable);
    // Ended, the run would keep letters that a later release can read, and nobody would hear of it.
    if tally.stopped.is_empty() && feed.n_unreadable == 0 {
        crash::point("replay_before_end");
        ledger.end_replay(&replay.id).await.map_err(|error| failed(&replay.id, error))?;
    }
    Ok(tally)
}

/// Claims what there is to replay, and makes the run. `None`: there is nothing.
async fn begin(config: &Config, choice: &Choice, ledger: &Ledger) -> Result<Option<Replay>, Failure> {
    let filter = choice.takeable();
    for _ in 0..MAX_CLAIMS {
        let id = ledger.new_replay_id();
        let free = ledger.give_up_claims().await.map_err(|error| failed(&id, error))?;
        let claimed = ledger.claim_letters(&id, &filter, &free).await.map_err(|error| failed(&id, error))?;
        if claimed.letters == 0 {
            return Ok(None);
        }
        crash::point("replay_claimed");
        let contract = |origin: Origin| Some((origin.clone(), config.contract_for(&origin.topic)?));
        let contracts = claimed.origins.into_iter().filter_map(contract).collect();
        if let Some(replay) = ledger.begin_replay(&id, contracts).await.map_err(|error| failed(&id, error))? {
            crash::point("replay_begun");
            return Ok(Some(replay));
        }
    }
    let message = "other replays keep taking over the letters that this one claims; run it again once they are done";
    Err(Failure::new(Code::Failed, message))
}

async fn resume(ledger: &Ledger, letters: &Letters, id: &str) -> Result<Replay, Failure> {
    let found = ledger.find_replay(id).await.map_err(|error| failed(id, error))?;
    let n_writing = match found {
        Some(_) => 0,
        None => letters.0.count_documents(feed::of_run(id)).await.map_err(|error| letters.failed(error))?,
    };
    match found {
        Some(replay) if replay.state != ReplayState::GivenUp => Ok(replay),
        Some(_) => {
            let message = format_args!("run {id} ended before it wrote anything, and its letters are free: start anew");
            Err(Failure::new(Code::ReplayUnknown, message))
        }
        None if n_writing > 0 => {
            let message = format_args!(
                "the ledger no longer knows run {id}, as it was lost or put back: which of the run's {n_writing} letters \
                 are stored cannot be told, so they are left alone; docs/dead-letters.md says how to mend that"
            );
            Err(Failure::new(Code::ReplayUnknown, message))
        }
        None => {
            let message = format_args!(
                "the ledger has no run {id}; if it was killed before it began, its letters are free, and a replay \
                 without --resume takes them"
            );
            Err(Failure::new(Code::ReplayUnknown, message))
        }
    }
}

/// What a replay decodes to, by letter.
async fn rehearse(config: &Config, letters: &Letters, choice: &Choice, horizon: EventTime) -> Result<Tally, Failure> {
    let pending = doc! { "$and": [choice.takeable(), StateArg::Pending.document()] };
    let mut feed = Feed::new(letters, pending).await?;
    let mut tally = Tally { is_rehearsal: true, ..Tally::default() };
    let (mut scratch, mut lanes) = (Scratch::default(), BTreeMap::<String, Lane>::new());
    while let Some(group) = feed.next_group().await? {
        let topic = &group.origin.topic;
        if !lanes.contains_key(topic) {
            let Some(contract) = config.contract_for(topic) else { continue };
            lanes.insert(topic.clone(), lane(StreamId(-1), Arc::new(group.origin.clone()), contract, horizon)?);
        }
        let Some(lane) = lanes.get(topic) else { continue };
        let (mut n_failed, mut n_back) = (0, 0);
        // By letter, whether anything of it is not expired.
        let mut lasting = BTreeMap::new();
        judge::judge(&group, lane, &mut scratch, |letter, verdict| {
            *lasting.entry(letter.id()).or_insert(false) |= !matches!(verdict, Verdict::Expired);
            match verdict {
                Verdict::Reading(..) => tally.stored += 1,
                Verdict::Expired => tally.expired += 1,
                Verdict::Skip => {}
                Verdict::Reject { reject, is_all, .. } => {
                    n_failed += u64::from(is_all);
                    *tally.reasons.entry(reject.reason.name()).or_default() += 1;
                }
                Verdict::Back(why) => {
                    n_back += 1;
                    tally.back(why, 1);
                }
            }
        });
        let n_expired = lasting.values().filter(|lasts| !**lasts).count() as u64;
        tally.failed += n_failed;
        tally.expired_letters += n_expired;
        tally.done += group.letters.len() as u64 - n_failed - n_back - n_expired;
    }
    tally.back("this release cannot read them", feed.n_unreadable);
    Ok(tally)
}

fn lane(stream: StreamId, origin: Arc<Origin>, contract: Contract, horizon: EventTime) -> Result<Lane, Failure> {
    let decoder = Decoder::new(&contract).map_err(|problem| {
        Failure::new(Code::Failed, format_args!("the mapping of {} cannot be used: {problem}", origin.topic))
    })?;
    Ok(Lane { stream, origin, contract, decoder, horizon })
}

/// What is past its time to live as the run begins.
async fn horizon(config: &Config, db: &Database) -> Result<EventTime, Failure> {
    let hello = db.run_command(doc! { "hello": 1 }).await.map_err(|error| {
        Failure::new(Code::MongoUnreachable, format_args!("the server does not tell its time: {error}; run it again"))
    })?;
    Ok(bounds::horizon(config.storage.ttl_days, &hello).unwrap_or(EventTime(i64::MIN)))
}

/// The letters that are asked for.
struct Choice {
    filter: Document,
    /// Of their topics those that a decoder reads, by name or by pattern.
    topics: Vec<String>,
}

impl Choice {
    async fn of(config: &Config, letters: &Letters, args: &ReplayArgs) -> Result<Self, Failure> {
        let filter = args.filter.document(wall_ms());
        let mut topics = letters.topics(filter.clone()).await?;
        topics.retain(|topic| config.decoder_for(topic).is_ok());
        Ok(Self { filter, topics })
    }

    /// Letters that a replay can take: of a topic that is read, and whole.
    fn takeable(&self) -> Document {
        doc! { "$and": [self.filter.clone(), { "topic": { "$in": &self.topics } }, { "$nor": [feed::is_cut()] }] }
    }

    /// Counts the letters that are never taken.
    async fn note_left_out(&self, letters: &Letters, tally: &mut Tally) -> Result<(), Failure> {
        let foreign = doc! { "topic": { "$nin": &self.topics } };
        for (why, which) in [(judge::CUT, feed::is_cut()), ("no [[decoder]] reads their topic", foreign)] {
            let wanted = doc! { "$and": [self.filter.clone(), StateArg::Pending.document(), which] };
            let n = letters.0.count_documents(wanted).await.map_err(|error| letters.failed(error))?;
            tally.back(why, n);
        }
        Ok(())
    }
}

/// Runs that somebody has to resume before their letters can be stored.
async fn note_open_runs(ledger: &Ledger, own: Option<&Replay>) -> Result<(), Failure> {
    let open = ledger.open_replays().await.map_err(|error| failed("?", error))?;
    for run in open.iter().filter(|run| own.is_none_or(|own| own.id != **run)) {
        writeln!(io::stderr(), "run {run} has not ended; unless it is still going: sakia dead replay --resume {run}")
            .ok();
    }
    Ok(())
}

/// Every delta becomes a sealed bucket: there is nothing to append later.
fn policy(config: &Config) -> FlushPolicy {
    let policy = pipeline::policy(config);
    FlushPolicy { min_fill: 1, flush_age_ms: FLUSH_AGE_MS, flush_samples: policy.max_samples, ..policy }
}

fn failed(run: &str, error: ReplayError) -> Failure {
    let (code, reason) = match error {
        ReplayError::Unavailable(reason) => (Code::MongoUnreachable, reason),
        ReplayError::Denied(reason) => (Code::MongoRefused, reason),
        ReplayError::Malformed(reason) => (Code::Failed, reason),
    };
    let advice = "nothing is lost: run it again, and resume the run if `sakia dead count --state claimed` names it";
    Failure::new(code, format_args!("replay {run}: {reason}; {advice}"))
}
