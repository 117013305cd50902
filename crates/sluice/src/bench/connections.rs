//! Idle connections: how fast they open, and whether they stay.

use std::sync::Arc;
use std::time::Duration;

use client::{Connection, Session};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use super::clock::{cpu_ns, now_ns};
use super::load::histogram;
use super::report::{Idle, Report, thousands};
use super::{Bench, Protocol, say};
use crate::amqp::block_on;
use crate::failure::Failure;

/// The number of connections, unless `--connections` is given.
const CONNECTIONS: u32 = 1000;

/// The number of connections that are opened at the same time. It is smaller than the smallest listen
/// backlog.
const AT_ONCE: usize = 64;

/// The time for which idle connections are held, unless `--duration` is given.
const HELD: Duration = Duration::from_secs(1);

/// The time that all connections together may take to close.
const CLOSE: Duration = Duration::from_secs(10);

/// Opens the connections, holds them, and closes them.
///
/// # Errors
/// The broker's error for the first connection that it refuses.
pub(super) fn run(bench: Bench) -> Result<Report, Failure> {
    let bench = Arc::new(bench);
    let mut report = None;
    block_on(async {
        let idle = hold(&bench).await?;
        report = Some(Report::of_idle(&bench, &idle));
        Ok(())
    })?;
    report.ok_or_else(|| Failure::failed("nothing was measured"))
}

/// An open connection.
struct Open {
    held: Opened,
    took_ns: u64,
}

enum Opened {
    /// The sessions end when they are dropped.
    Amqp10 { connection: Connection, _sessions: Vec<Session> },
    /// A task that serves the connection until the run stops.
    Amqp091(JoinHandle<()>),
}

impl Opened {
    fn is_lost(&self) -> bool {
        match self {
            Self::Amqp10 { connection, .. } => connection.error().is_some(),
            Self::Amqp091(task) => task.is_finished(),
        }
    }

    /// Closes the connection. Those of AMQP 0.9.1 close by themselves, because the run stops.
    async fn close(self) {
        // The connections are already counted, so the way in which they end does not change the result.
        match self {
            Self::Amqp10 { connection, .. } => drop(connection.close().await),
            Self::Amqp091(task) => drop(task.await),
        }
    }
}

async fn hold(bench: &Arc<Bench>) -> Result<Idle, Failure> {
    let (start, cpu) = (Instant::now(), cpu_ns());
    let (mut opening, mut open) = (JoinSet::new(), Vec::new());
    let mut latencies = histogram()?;
    let mut told = start;
    let mut left = bench.connections.unwrap_or(CONNECTIONS);
    let (stop, stopped) = watch::channel(false);
    loop {
        while left > 0 && opening.len() < AT_ONCE {
            left -= 1;
            opening.spawn(open_one(Arc::clone(bench), stopped.clone()));
        }
        let Some(opened) = opening.join_next().await else { break };
        let opened: Open = opened.map_err(|e| Failure::failed(e.to_string()))??;
        latencies.saturating_record(opened.took_ns);
        open.push(opened);
        if told.elapsed().as_secs() >= 1 {
            told = Instant::now();
            say(&format!("{:>4} s  {} open", start.elapsed().as_secs(), thousands(open.len() as u64)));
        }
    }
    let took = start.elapsed();
    say(&format!("{} open", thousands(open.len() as u64)));
    let held = bench.duration.map_or(HELD, |s| Duration::from_secs(s.into()));
    tokio::select! {
        () = tokio::time::sleep(held) => {}
        // The user has interrupted the run.
        _ = tokio::signal::ctrl_c() => {}
    }
    let held = start.elapsed().saturating_sub(took);
    let lost = open.iter().filter(|o| o.held.is_lost()).count();
    let idle = Idle { opened: open.len(), latencies, took, held, lost, cpu_ns: cpu_ns() - cpu };
    stop.send_replace(true);
    let closing: JoinSet<_> = open.into_iter().map(|o| o.held.close()).collect();
    drop(tokio::time::timeout(CLOSE, closing.join_all()).await);
    Ok(idle)
}

async fn open_one(bench: Arc<Bench>, stopped: watch::Receiver<bool>) -> Result<Open, Failure> {
    let began_ns = now_ns();
    let held = match bench.protocol {
        Protocol::Amqp10 => open_10(&bench).await?,
        Protocol::Amqp091 => open_091(&bench, stopped).await?,
    };
    Ok(Open { held, took_ns: now_ns() - began_ns })
}

async fn open_10(bench: &Bench) -> Result<Opened, Failure> {
    let (connection, place) = bench.connect().await?;
    let mut sessions = Vec::new();
    for _ in 0..bench.sessions() {
        let session = connection.session().await;
        sessions.push(session.map_err(|e| place.failed("begin", "a session", &e))?);
    }
    Ok(Opened::Amqp10 { connection, _sessions: sessions })
}

async fn open_091(bench: &Bench, mut stopped: watch::Receiver<bool>) -> Result<Opened, Failure> {
    let (mut connection, place) = bench.connect_091().await?;
    for channel in 1..=bench.sessions() {
        let channel = u16::try_from(channel).unwrap_or(u16::MAX);
        let opened = connection.open_channel(channel).await;
        opened.map_err(|e| place.failed("open", "a channel", &e))?;
    }
    Ok(Opened::Amqp091(tokio::spawn(async move {
        tokio::select! {
            // The connection is lost.
            _ = connection.closed() => return,
            // An error means that the run has ended.
            _ = stopped.wait_for(|stopped| *stopped) => {}
        }
        drop(connection.close().await);
    })))
}
