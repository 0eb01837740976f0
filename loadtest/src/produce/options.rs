//! What a run of `produce` may be asked for.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use jiff::{SpanRelativeTo, Timestamp};

use crate::reading::{BASE_SAMPLE_BYTES, Shape};

/// Readings a second that the event-time span of a run with no other measure is planned for.
const NOMINAL_RATE: f64 = 300_000.0;

#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Kafka bootstrap servers
    #[arg(long, env = "SAKIA_KAFKA")]
    pub brokers: String,
    /// Topic; created with unlimited retention if it is not there
    #[arg(long)]
    pub topic: String,
    /// Partitions of the topic [default: 4 for a new topic, any number for an existing one]
    #[arg(long)]
    pub partitions: Option<i32>,
    /// Number of devices
    #[arg(long, default_value_t = 3_000)]
    pub devices: u32,
    /// Readings to send [default: 1000000, or no limit with --seconds]
    #[arg(long)]
    pub total: Option<u64>,
    /// Stop after so many seconds
    #[arg(long)]
    pub seconds: Option<f64>,
    /// Readings a second [default: as fast as they go]
    #[arg(long)]
    pub rate: Option<f64>,
    /// Seed of devices' order and of all values
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Share of readings whose event time is a little out of order
    #[arg(long, default_value_t = 0.0)]
    pub disorder: f64,
    /// Share of readings one to three days late: another window
    #[arg(long, default_value_t = 0.0)]
    pub late: f64,
    /// Share of readings with the event time of their device's reading before
    #[arg(long, default_value_t = 0.0)]
    pub equal_times: f64,
    /// Share of readings that can never be stored: not JSON, no device, no time, implausible time, in turn
    #[arg(long, default_value_t = 0.0)]
    pub poison: f64,
    /// Readings a record; above 1 the value is {"readings": [...]}
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub readings_per_record: u16,
    /// Event time of the first reading, RFC 3339 or milliseconds since 1970 [default: so that the span ends now]
    #[arg(long, value_parser = parse_time, allow_hyphen_values = true)]
    pub start: Option<i64>,
    /// Event time that the run covers, such as 3d, 36h or 20s
    #[arg(long, default_value = "3d", value_parser = parse_span)]
    pub span: Duration,
    /// Bytes of a stored sample
    #[arg(long, default_value_t = BASE_SAMPLE_BYTES)]
    pub sample_bytes: u32,
    /// Add a field "fw" that changes after so many records of a device; 0 adds none
    #[arg(long, default_value_t = 0)]
    pub tag_every: u32,
    /// Folder of the manifests; those of a topic are in a folder of its name below
    #[arg(long, default_value = ".local/manifests")]
    pub manifest_dir: PathBuf,
    /// Print the summary as JSON
    #[arg(long)]
    pub json: bool,
}

/// When a run ends and how fast it goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub readings: Option<u64>,
    pub time: Option<Duration>,
    pub rate: Option<f64>,
}

impl Options {
    pub(super) fn check(&self) -> Result<()> {
        ensure!(self.devices > 0, "--devices must be at least 1");
        ensure!(self.partitions.is_none_or(|n| n > 0), "--partitions must be at least 1");
        ensure!(self.rate.is_none_or(|r| r > 0.0), "--rate must be above 0");
        ensure!(self.seconds.is_none_or(|s| s > 0.0 && s.is_finite()), "--seconds must be above 0");
        let shares = [self.disorder, self.late, self.equal_times, self.poison];
        ensure!(
            shares.iter().all(|s| (0.0..=1.0).contains(s)) && shares[..3].iter().sum::<f64>() <= 1.0,
            "--disorder, --late, --equal-times and --poison are shares from 0 to 1, the first three at most 1 together"
        );
        ensure!(
            (BASE_SAMPLE_BYTES..=1 << 20).contains(&self.sample_bytes),
            "--sample-bytes must be from {BASE_SAMPLE_BYTES} (the five fields of a sample) to {}",
            1 << 20
        );
        Ok(())
    }

    pub(super) fn limits(&self) -> Limits {
        let unmeasured = self.total.is_none() && self.seconds.is_none();
        Limits {
            readings: self.total.or(unmeasured.then_some(1_000_000)),
            time: self.seconds.map(Duration::from_secs_f64),
            rate: self.rate,
        }
    }

    pub(super) fn shape(&self, run: u32, now_ms: i64) -> Shape {
        let by_time = self.seconds.map(|s| (s * self.rate.unwrap_or(NOMINAL_RATE)) as u64);
        let span_ms = self.span.as_millis() as i64;
        Shape {
            seed: self.seed,
            run,
            devices: self.devices,
            nominal: self.limits().readings.or(by_time).unwrap_or_default().max(1),
            per_record: self.readings_per_record,
            start_ms: self.start.unwrap_or(now_ms - span_ms),
            span_ms,
            disorder: self.disorder,
            late: self.late,
            equal_times: self.equal_times,
            poison: self.poison,
            sample_bytes: self.sample_bytes,
            tag_every: self.tag_every,
        }
    }
}

fn parse_time(text: &str) -> Result<i64, String> {
    if let Ok(ms) = text.parse::<i64>() {
        return Ok(ms);
    }
    let time: Timestamp = text.parse().map_err(|e| format!("neither milliseconds nor RFC 3339: {e}"))?;
    Ok(time.as_millisecond())
}

fn parse_span(text: &str) -> Result<Duration, String> {
    let span: jiff::Span = text.parse().map_err(|e| format!("not a span such as 3d, 36h or 20s: {e}"))?;
    let length = span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|e| e.to_string())?;
    Duration::try_from(length).map_err(|_| "a span cannot be negative".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        options: Options,
    }

    fn options(args: &[&str]) -> Result<Options, clap::Error> {
        let fixed = ["produce", "--brokers", "b", "--topic", "t"];
        Ok(Cli::try_parse_from(fixed.iter().chain(args))?.options)
    }

    #[test]
    fn spans_and_times_are_read() {
        assert_eq!(parse_span("3d").unwrap(), Duration::from_hours(72));
        assert_eq!(parse_span("1h 30m").unwrap(), Duration::from_mins(90));
        assert!(parse_span("-3d").is_err() && parse_span("soon").is_err());
        assert_eq!(parse_time("2023-11-14T22:13:20Z").unwrap(), 1_700_000_000_000);
        assert_eq!(parse_time("-5").unwrap(), -5);
        assert!(parse_time("2023-11-14").is_err());
    }

    #[test]
    fn by_default_a_run_is_a_million_readings_that_end_now() {
        let options = options(&[]).unwrap();
        options.check().unwrap();
        let shape = options.shape(1, 1_700_000_000_000);
        assert_eq!(shape.nominal, 1_000_000);
        assert_eq!(shape.start_ms + shape.span_ms, 1_700_000_000_000);
    }

    #[test]
    fn a_run_by_time_has_no_other_limit() {
        let options = options(&["--seconds", "20", "--rate", "50"]).unwrap();
        assert_eq!(options.limits().readings, None);
        assert_eq!(options.shape(1, 0).nominal, 1_000);
    }

    #[test]
    fn impossible_shares_are_refused() {
        for args in [["--late", "1.5"], ["--poison", "-0.1"], ["--sample-bytes", "10"], ["--devices", "0"]] {
            assert!(options(&[&args.join("=")]).unwrap().check().is_err(), "{args:?}");
        }
        assert!(options(&["--late", "0.6", "--disorder", "0.6"]).unwrap().check().is_err());
    }
}
