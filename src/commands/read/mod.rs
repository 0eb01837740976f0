//! `sakia read`: the samples of some devices and a span of time in order of time, or the newest sample of each device.

mod explain;
mod merge;
mod newest;
mod output;
mod query;
mod range;
mod source;
mod windows;

use std::io::{self, BufWriter, ErrorKind, StdoutLock, Write};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use mongodb::bson::RawDocument;

use crate::cli::LayerArgs;
use crate::clock::{Clock, wall_ms};
use crate::code::{Code, Failure};
use crate::commands::reach::{ReachError, reach, runtime};
use crate::commands::server::CommandError;
use crate::commands::when::{When, parse_when, time_text};
use crate::config::{Config, parse_size};
use merge::Waiting;
use output::{Form, Output};
use query::Span;
use range::Wanted;
use source::Source;

const EXAMPLES: &str = "\
Examples:
  sakia read --device dev-000123 --from -2d
  sakia read --device a --device b --from 2026-11-28 --to 2026-11-30T12:00:00+01:00 --format csv > two-days.csv
  sakia read --last                       the newest sample of every device
  sakia read --last --from -1h --device a  ... of one, if it is not older than an hour";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ReadArgs {
    /// Device to read; may be repeated
    #[arg(long = "device", value_name = "ID", required_unless_present = "last")]
    devices: Vec<String>,
    /// Samples of this time and later: RFC 3339, a date, or before now such as -2d [default: the oldest]
    #[arg(long, value_name = "TIME", value_parser = parse_when, allow_hyphen_values = true)]
    from: Option<When>,
    /// Samples before this time [default: the newest]
    #[arg(long, value_name = "TIME", value_parser = parse_when, allow_hyphen_values = true, conflicts_with = "last")]
    to: Option<When>,
    /// The newest sample of each device given, or of all devices; --from says how far back to look
    #[arg(long)]
    last: bool,
    /// JSON lines or CSV
    #[arg(long, value_enum, default_value_t = Format::Jsonl)]
    format: Format,
    /// Columns of the CSV, with commas between [default: all fields that occur, which takes a pass of its own]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    fields: Vec<String>,
    /// Most bytes of samples held; beyond it the server sorts
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "64MiB")]
    memory: u64,
    /// Show the queries' bounds in the index instead of samples
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    pub(crate) layer: LayerArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Jsonl,
    Csv,
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("{0}")]
    Misuse(String),
    #[error("{0}")]
    Unreached(#[from] ReachError),
    #[error("the readings cannot be read: {0}")]
    Command(#[from] CommandError),
    #[error(
        "bucket {id} of {namespace} cannot be read: {reason}. It was not written by sakia, or was changed since; restore or \
         remove it"
    )]
    Unreadable { id: String, namespace: String, reason: String },
    #[error("cannot write the samples: {0}")]
    Output(#[from] io::Error),
}

impl ReadError {
    fn unreadable(source: &Source, bucket: &RawDocument, reason: &str) -> Self {
        let id = bucket.get("_id").ok().flatten().map_or_else(|| "without _id".to_owned(), |id| format!("{id:?}"));
        Self::Unreadable { id, namespace: source.namespace(), reason: reason.to_owned() }
    }
}

impl From<mongodb::error::Error> for ReadError {
    fn from(error: mongodb::error::Error) -> Self {
        Self::Command(error.into())
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        let code = match error {
            ReadError::Unreached(error) => return error.into(),
            ReadError::Command(_) => Code::MongoRefused,
            ReadError::Unreadable { .. } => Code::BucketUnusable,
            _ => Code::Failed,
        };
        Self::new(code, error)
    }
}

pub fn run(config: &Config, args: &ReadArgs) -> Result<ExitCode, Failure> {
    match runtime()?.block_on(read(config, args)) {
        // Whoever took the output, such as `head`, has had enough.
        Err(ReadError::Output(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        read => read.map(|()| ExitCode::SUCCESS).map_err(Failure::from),
    }
}

async fn read(config: &Config, args: &ReadArgs) -> Result<(), ReadError> {
    let clock = Clock::start();
    let span = span(args)?;
    let source = open(config).await?;
    let opened = clock.now();
    let devices = devices(args);
    let out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let wanted = Wanted { devices: &devices, span, memory: usize::try_from(args.memory).unwrap_or(usize::MAX) };
    let given = (!devices.is_empty()).then_some(devices.as_slice());
    let n_samples = match (args.explain, args.last) {
        (true, true) => return print(out, &explain::newest(&source, given, span.from).await?),
        (true, false) => return print(out, &explain::range(&source, wanted).await?),
        (false, true) => write_newest(args, out, &newest::find(&source, given, span.from).await?)?,
        (false, false) => {
            let names = match args.format {
                Format::Csv if args.fields.is_empty() => range::names(&source, wanted).await?,
                _ => args.fields.clone(),
            };
            let mut output = Output::new(out, form(args, names))?;
            let n_samples = range::read(&source, wanted, &mut output).await?;
            output.flush()?;
            n_samples
        }
    };
    let connecting = opened.0;
    let reading = clock.now().since(opened);
    note(&format!("read {n_samples} samples in {reading} ms, after {connecting} ms to connect"));
    if n_samples == 0 {
        let namespace = source.namespace();
        note(&format!("{namespace} holds nothing of that; check the device's id, the times, database and collection"));
    }
    Ok(())
}

fn span(args: &ReadArgs) -> Result<Span, ReadError> {
    let now = wall_ms();
    let ms = |when: Option<When>, otherwise| when.map_or(otherwise, |when| when.ms(now));
    let span = Span { from: ms(args.from, i64::MIN), to: ms(args.to, i64::MAX) };
    if span.from >= span.to {
        let (from, to) = (time_text(span.from), time_text(span.to));
        return Err(ReadError::Misuse(format!("--from {from} is not before --to {to}")));
    }
    if args.format == Format::Jsonl && !args.fields.is_empty() {
        return Err(ReadError::Misuse("--fields names the columns of --format csv; JSON lines have all fields".into()));
    }
    Ok(span)
}

async fn open(config: &Config) -> Result<Source, ReadError> {
    let (server, _) = reach(&config.mongo, "read").await?;
    Ok(Source::open(server, config).await?)
}

/// Each once: a device asked for twice has its samples once.
fn devices(args: &ReadArgs) -> Vec<String> {
    let mut devices = args.devices.clone();
    devices.sort_unstable();
    devices.dedup();
    devices
}

fn form(args: &ReadArgs, names: Vec<String>) -> Form {
    match args.format {
        Format::Jsonl => Form::Lines,
        Format::Csv => Form::Csv(names),
    }
}

fn write_newest(args: &ReadArgs, out: impl Write, samples: &[Waiting]) -> Result<u64, ReadError> {
    let names = if args.fields.is_empty() { output::names(samples) } else { args.fields.clone() };
    let mut output = Output::new(out, form(args, names))?;
    for sample in samples {
        output.write(&sample.sample())?;
    }
    output.flush()?;
    Ok(samples.len() as u64)
}

fn print(mut out: BufWriter<StdoutLock<'_>>, text: &str) -> Result<(), ReadError> {
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// For people, beside the samples; where standard error is closed there is nobody to tell.
fn note(text: &str) {
    writeln!(io::stderr(), "{text}").ok();
}

#[cfg(test)]
mod tests;
