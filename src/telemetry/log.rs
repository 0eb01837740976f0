//! Where log events go and how they look: standard error, as text for people or as JSON lines, times in UTC.

use std::io::{self, IsTerminal};

use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use super::progress::{AroundLine, Line};
use crate::code::{Code, Failure};

/// Shown when neither the command line nor the environment asks for more or less.
pub const DEFAULT_FILTER: &str = "info";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    #[default]
    Text,
    Json,
}

#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error(
        "log level `{filter}` is not understood: {source}; use a level (error, warn, info, debug, trace) or a list such \
         as `info,sakia=debug`"
    )]
    Filter { filter: String, source: ParseError },
    #[error("logging was set up twice")]
    Twice(#[from] TryInitError),
}

impl From<LogError> for Failure {
    fn from(error: LogError) -> Self {
        let code = match error {
            LogError::Filter { .. } => Code::Configuration,
            LogError::Twice(_) => Code::Failed,
        };
        Self::new(code, error)
    }
}

/// Sets up logging for the whole process; also what libraries say through the `log` crate, librdkafka's lines among it.
///
/// `filter` is the command line's level or else that of the environment; `None` is the default.
pub fn init(format: Format, filter: Option<&str>, line: Line) -> Result<(), LogError> {
    let colours = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let writer = AroundLine { line, inner: io::stderr };
    subscriber(format, filter.unwrap_or(DEFAULT_FILTER), colours, writer)?.try_init()?;
    Ok(())
}

fn subscriber<W>(
    format: Format,
    filter: &str,
    colours: bool,
    writer: W,
) -> Result<Box<dyn Subscriber + Send + Sync>, LogError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let parsed =
        EnvFilter::builder().parse(filter).map_err(|source| LogError::Filter { filter: filter.to_owned(), source })?;
    let builder = tracing_subscriber::fmt().with_env_filter(parsed).with_writer(writer);
    Ok(match format {
        Format::Text => Box::new(builder.with_ansi(colours).finish()),
        // Flat: fields stand beside `message`, where log stores look for them.
        Format::Json => Box::new(builder.json().flatten_event(true).finish()),
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What two events, at info and at debug, look like.
    fn written(format: Format, filter: &str) -> String {
        let sink = Sink::default();
        let shared = sink.clone();
        let writer = AroundLine { line: Line::hidden(), inner: move || shared.clone() };
        let subscriber = subscriber(format, filter, false, writer).unwrap();
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(partition = 3, "assigned");
            tracing::debug!("details");
        });
        String::from_utf8(sink.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn json_is_one_flat_object_a_line_with_utc_time() {
        let text = written(Format::Json, "info");
        let event: serde_json::Value = serde_json::from_str(text.trim_end()).unwrap();
        assert_eq!((&event["level"], &event["message"]), (&"INFO".into(), &"assigned".into()));
        assert_eq!(event["partition"], 3);
        assert!(event["timestamp"].as_str().unwrap().ends_with('Z'));
    }

    #[test]
    fn text_carries_fields_and_no_colour_codes() {
        let text = written(Format::Text, "debug");
        assert_eq!(text.lines().count(), 2);
        assert!(text.contains("INFO") && text.contains("assigned partition=3"), "{text}");
        assert!(!text.contains('\u{1b}'));
    }

    #[test]
    fn filters_by_level_and_by_module() {
        assert_eq!(written(Format::Text, "warn"), "");
        assert_eq!(written(Format::Text, "warn,sakia=debug").lines().count(), 2);
    }

    #[test]
    fn a_bad_filter_says_what_to_type() {
        let Err(error) = subscriber(Format::Text, "sakia=loud", false, io::sink) else { panic!("accepted") };
        let text = error.to_string();
        assert!(text.contains("`sakia=loud`") && text.contains("`info,sakia=debug`"), "{text}");
    }
}
