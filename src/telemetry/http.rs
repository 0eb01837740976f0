//! `/metrics`, `/live` and `/ready` over plain HTTP.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use prometheus_client::encoding::prometheus_text;
use tokio::net::TcpListener;

use super::health::Health;
use super::metrics::Metrics;
use crate::clock::Clock;
use crate::code::{Code, Failure};

/// What the pages are made of.
#[derive(Clone, Debug)]
pub struct Pages {
    pub metrics: Metrics,
    pub health: Arc<Health>,
    pub clock: Clock,
}

#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error(
        "cannot serve metrics on {listen}: the port is in use; stop what listens there or set `telemetry.listen` to \
         another port"
    )]
    InUse { listen: SocketAddr },
    #[error("cannot serve metrics on {listen}: {source}; check `telemetry.listen`")]
    Other { listen: SocketAddr, source: io::Error },
}

impl From<ListenError> for Failure {
    fn from(error: ListenError) -> Self {
        Self::new(Code::ListenFailed, error)
    }
}

/// Opens the port before anything else starts, so that a second copy on one machine fails at once and not in an hour.
pub async fn listen(listen: SocketAddr) -> Result<TcpListener, ListenError> {
    TcpListener::bind(listen).await.map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => ListenError::InUse { listen },
        _ => ListenError::Other { listen, source },
    })
}

/// The address that is served, and the server: it runs until `shutdown`, and does not wait for slow readers then.
pub fn serve(
    listener: TcpListener,
    pages: Pages,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<(SocketAddr, impl Future<Output = io::Result<()>> + Send)> {
    let address = listener.local_addr()?;
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/live", get(live))
        .route("/ready", get(ready))
        .fallback(async || (StatusCode::NOT_FOUND, "there is /metrics, /live and /ready\n"))
        .with_state(pages);
    let server = async move {
        tokio::select! {
            ended = async { axum::serve(listener, router).await } => ended,
            () = shutdown => Ok(()),
        }
    };
    Ok((address, server))
}

async fn metrics(State(pages): State<Pages>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, prometheus_text::CONTENT_TYPE)], pages.metrics.page())
}

async fn live(State(pages): State<Pages>) -> impl IntoResponse {
    answer("live", &pages.health.not_live(pages.clock.now()))
}

async fn ready(State(pages): State<Pages>) -> impl IntoResponse {
    answer("ready", &pages.health.not_ready(pages.clock.now()))
}

/// 200 with one word, or 503 with one reason a line.
fn answer(word: &str, reasons: &[String]) -> (StatusCode, String) {
    if reasons.is_empty() {
        return (StatusCode::OK, format!("{word}\n"));
    }
    (StatusCode::SERVICE_UNAVAILABLE, reasons.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use tokio::runtime::Runtime;
    use tokio::sync::oneshot;

    use super::*;

    const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

    struct Served {
        address: SocketAddr,
        health: Arc<Health>,
        stop: oneshot::Sender<()>,
        server: tokio::task::JoinHandle<io::Result<()>>,
        runtime: Runtime,
    }

    fn served(stale_after_ms: u64) -> Served {
        let runtime = Runtime::new().unwrap();
        let clock = Clock::start();
        let health = Arc::new(Health::new(1, stale_after_ms, clock.now()));
        let pages = Pages { metrics: Metrics::new(1), health: health.clone(), clock };
        let (stop, stopped) = oneshot::channel();
        let (address, server) = runtime.block_on(async {
            let listener = listen(LOOPBACK).await.unwrap();
            let (address, server) = serve(listener, pages, async { drop(stopped.await) }).unwrap();
            (address, tokio::spawn(server))
        });
        Served { address, health, stop, server, runtime }
    }

    /// Whole answer to a GET, over a real socket.
    fn get(served: &Served, path: &str) -> String {
        let mut stream = TcpStream::connect(served.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn metrics_are_served_as_prometheus_text() {
        let answer = get(&served(60_000), "/metrics");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains("content-type: text/plain; version=0.0.4"), "{answer}");
        assert!(answer.contains("\nsakia_records_total 0\n"), "{answer}");
    }

    #[test]
    fn ready_gives_one_reason_a_line_and_live_does_not_mind() {
        let served = served(60_000);
        assert!(get(&served, "/live").ends_with("\r\n\r\nlive\n"));
        let answer = get(&served, "/ready");
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        let body = answer.split("\r\n\r\n").nth(1).unwrap();
        let codes: Vec<_> = body.lines().map(|line| line.split(':').next().unwrap()).collect();
        assert_eq!(codes, ["group-not-joined", "mongo-unreachable"]);
        served.health.set_group_joined(true);
        served.health.sink_answered();
        assert!(get(&served, "/ready").ends_with("\r\n\r\nready\n"));
    }

    #[test]
    fn a_silent_thread_is_not_live() {
        let served = served(0);
        let deadline = Clock::start();
        let answer = loop {
            let answer = get(&served, "/live");
            if !answer.starts_with("HTTP/1.1 200") || deadline.now().0 > 10_000 {
                break answer;
            }
        };
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        assert!(answer.contains("poll thread has made no progress"), "{answer}");
    }

    #[test]
    fn other_paths_name_those_there_are() {
        assert!(get(&served(60_000), "/metric").contains("there is /metrics"));
    }

    #[test]
    fn a_port_in_use_is_a_clear_error() {
        let served = served(60_000);
        let error = served.runtime.block_on(listen(served.address)).unwrap_err();
        assert!(matches!(error, ListenError::InUse { .. }));
        assert!(error.to_string().contains(&format!("{}: the port is in use", served.address)));
    }

    #[test]
    fn shutdown_does_not_wait_for_an_idle_connection() {
        let served = served(60_000);
        let idle = TcpStream::connect(served.address).unwrap();
        served.stop.send(()).unwrap();
        served.runtime.block_on(served.server).unwrap().unwrap();
        drop(idle);
    }
}
