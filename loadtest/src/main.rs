//! Command line: `loadtest produce` and `loadtest verify`.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Parser, Subcommand};
use loadtest::{produce, verify};
use tokio::signal::unix::{SignalKind, signal};

#[derive(Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Fill a topic with seeded readings and write a manifest of them
    Produce(Box<produce::Options>),
    /// Read topic and collection again and account for every reading; exit code 1 unless all is right
    Verify(Box<verify::Options>),
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Cli::parse().command).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // A closed stderr leaves nobody to tell; the exit code still does.
            drop(writeln!(std::io::stderr(), "error: {error:#}"));
            ExitCode::from(2)
        }
    }
}

/// `Ok(false)`: the command worked, and what it found is not right.
async fn run(command: Command) -> anyhow::Result<bool> {
    match command {
        Command::Produce(options) => {
            let json = options.json;
            let summary = produce::run(*options, stop_on_signal()?).await?;
            let text = if json { serde_json::to_string(&summary)? } else { summary.to_string() };
            writeln!(std::io::stdout(), "{text}")?;
            Ok(true)
        }
        Command::Verify(options) => {
            let report = verify::run(*options).await?;
            writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(&report)?)?;
            Ok(report.ok)
        }
    }
}

/// Set by SIGINT and SIGTERM: a run that is stopped still delivers what it sent and completes its manifest.
fn stop_on_signal() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        flag.store(true, Ordering::Relaxed);
    });
    Ok(stop)
}
