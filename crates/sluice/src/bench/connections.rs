//! Idle connections: how fast they open, and whether they stay.

use std::sync::Arc;
use std::time::Duration;

use client::{Connection, Session};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::clock::{cpu_ns, now_ns};
use super::load::histogram;
use super::report::{Idle, Report, thousands};
use super::{Bench, say};
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
pub fn run(bench: Bench) -> Result<Report, Failure> {
    let bench = Arc::new(bench);
    let mut report = None;
    block_on(async {
        let idle = hold(&bench).await?;
        report = Some(Report::of_idle(&bench, &idle));
        Ok(())
    })?;
    report.ok_or_else(|| Failure::failed("nothing was measured"))
}

/// An open connection. Its sessions end when they are dropped.
struct Open {
    connection: Connection,
    _sessions: Vec<Session>,
    took_ns: u64,
}

async fn hold(bench: &Arc<Bench>) -> Result<Idle, Failure> {
    let (start, cpu) = (Instant::now(), cpu_ns());
    let (mut opening, mut open) = (JoinSet::new(), Vec::new());
    let mut latencies = histogram()?;
    let mut told = start;
    let mut left = bench.connections.unwrap_or(CONNECTIONS);
    loop {
        while left > 0 && opening.len() < AT_ONCE {
            left -= 1;
            opening.spawn(open_one(Arc::clone(bench)));
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
    let lost = open.iter().filter(|o| o.connection.error().is_some()).count();
    let idle = Idle { opened: open.len(), latencies, took, held, lost, cpu_ns: cpu_ns() - cpu };
    let closing: JoinSet<_> = open.into_iter().map(|o| o.connection.close()).collect();
    // The connections are already counted, so the way in which they end does not change the result.
    drop(tokio::time::timeout(CLOSE, closing.join_all()).await);
    Ok(idle)
}

async fn open_one(bench: Arc<Bench>) -> Result<Open, Failure> {
    let began_ns = now_ns();
    let (connection, place) = bench.connect().await?;
    let mut sessions = Vec::new();
    for _ in 0..bench.sessions() {
        let session = connection.session().await;
        sessions.push(session.map_err(|e| place.failed("begin", "a session", &e))?);
    }
    Ok(Open { connection, _sessions: sessions, took_ns: now_ns() - began_ns })
}
