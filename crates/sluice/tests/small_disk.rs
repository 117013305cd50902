//! A full disk: a real file system of 64 MiB in memory, mounted for this test only. Emptying queues of any type is enough to
//! go on, with and without a crash before.
//!
//! The test runs itself again in a new mount namespace, so that nothing has to be unmounted. If the system
//! allows no namespace, the test says so and passes, except in CI.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use amqp10::DeliveryState;
use client::{Connection, Options, ReceiverOptions, Sender, SenderOptions};
use tokio::sync::mpsc;

use crate::broker::{Broker, Directory, Starting};
use crate::kill::content::{Id, identify, message};
use crate::kill::reading::read_all;

const SEED: u64 = 7;
const DISK_BYTES: u64 = 64 * 1024 * 1024;
const OTHER_BYTES: usize = 8 * 1024 * 1024;
/// The number of messages. It is more than the disk can hold, because each takes about 400 bytes.
const MESSAGES: u64 = 500_000;
/// The size of the segments of a stream, and what its retention keeps.
const SEGMENT: &str = "x-stream-max-segment-size-bytes=1000000";
const KEPT_BYTES: u64 = 10_000_000;
/// A publisher without credit or outcome for this long counts as stopped if the broker says so. A queue that
/// delivers nothing for this long counts as empty.
const STALL: Duration = Duration::from_secs(1);
/// The time within which the broker must notice that there is space again.
const PATIENCE: Duration = Duration::from_secs(20);

/// The variable that tells the second run of this program where its disk is.
const DISK: &str = "SLUICE_SMALL_DISK";

/// Commands that make a mount namespace: as a user with user namespaces, as root, and on CI machines.
const NAMESPACES: [&[&str]; 3] =
    [&["unshare", "-rm"], &["unshare", "-m"], &["sudo", "-n", "-E", "unshare", "-m"]];

#[test]
fn a_full_disk_loses_nothing_and_is_not_the_end() {
    let directory = Directory::new("small-disk");
    let disk = directory.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mount = format!("mount -t tmpfs -o size={DISK_BYTES} sluice \"$0\" && exec \"$@\"");
    let run = |namespace: &[&str], words: &[&str]| {
        let mut command = Command::new(namespace[0]);
        command.args(&namespace[1..]).args(["sh", "-c", &mount]).arg(&disk).args(words);
        command.env(DISK, &disk).stdin(Stdio::null());
        command
    };
    let works = |namespace: &&&[&str]| {
        let probe = run(namespace, &["true"]).stderr(Stdio::null()).status();
        probe.is_ok_and(|status| status.success())
    };
    let Some(namespace) = NAMESPACES.iter().find(works) else {
        assert!(std::env::var_os("CI").is_none(), "no small disk can be mounted here");
        writeln!(std::io::stderr(), "skipped: no small disk can be mounted here").unwrap();
        return;
    };
    let program = std::env::current_exe().unwrap();
    let again = ["--exact", "small_disk::on_the_small_disk", "--include-ignored", "--nocapture"];
    let words: Vec<&str> = [program.to_str().unwrap()].into_iter().chain(again).collect();
    assert!(run(namespace, &words).status().unwrap().success());
}

#[test]
#[ignore = "needs the disk that the other test mounts"]
fn on_the_small_disk() {
    let disk = std::env::var(DISK).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (off, alarm) = ("disk_free_limit.absolute=0", "disk_free_limit.absolute=24MiB");
    let pages = "classic_queue.backlog_memory=1MiB";
    for (kind, sets, killed, relief) in [
        (Kind::Classic, &[off][..], true, Relief::Take),
        (Kind::Classic, &[off], false, Relief::OtherFile),
        (Kind::Classic, &[off, pages], true, Relief::OtherFile),
        (Kind::Classic, &[off, pages], false, Relief::Take),
        (Kind::Classic, &[alarm, pages], true, Relief::Take),
        (Kind::Classic, &[alarm, pages], false, Relief::Purge),
        (Kind::Quorum, &[off], true, Relief::Take),
        (Kind::Quorum, &[off, pages], false, Relief::Purge),
        (Kind::Quorum, &[alarm, pages], true, Relief::Purge),
        (Kind::Quorum, &[alarm], false, Relief::Take),
        (Kind::Stream, &[off], true, Relief::Retention),
        (Kind::Stream, &[off], false, Relief::Delete),
        (Kind::Stream, &[alarm], true, Relief::Delete),
        (Kind::Stream, &[alarm], false, Relief::Retention),
    ] {
        let directory = Directory::within(disk.as_ref(), "data");
        writeln!(std::io::stderr(), "{kind:?}, {sets:?}, killed: {killed}, {relief:?}").unwrap();
        runtime.block_on(round(&directory, kind, sets, killed, relief));
    }
}

/// The type of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Classic,
    Quorum,
    Stream,
}

/// What makes space on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relief {
    /// A file of another program is deleted.
    OtherFile,
    /// Consumers take the messages.
    Take,
    Purge,
    /// The stream is deleted.
    Delete,
    /// The stream gets a limit.
    Retention,
}

/// Fills the disk, to the last byte if there is no alarm, and kills the broker if `killed`. It makes space. Then it
/// publishes again, kills the broker, and finds every confirmed message that is not gone.
async fn round(directory: &Directory, kind: Kind, sets: &[&str], killed: bool, relief: Relief) {
    let filled = sets[0] == "disk_free_limit.absolute=0";
    let start = || Starting::spawn(directory, sets).finish();
    // This is another program's file on the disk.
    let other = directory.path().join("other");
    std::fs::write(&other, vec![1; OTHER_BYTES]).unwrap();
    let mut broker = start();
    declare(&broker, kind);
    let mut story = Story { kind, sent: 0, confirmed: BTreeSet::new(), came: BTreeSet::new() };
    story.publish_until_stopped(&broker, directory).await;
    let logged = directory.logged();
    // The log and, if messages can be paged out, the pages compete for the last byte. The one that fails
    // first is logged.
    let full = ["the disk is full: the log uses its reserve", "the backlog cannot be paged out"];
    let may_say = match kind {
        Kind::Stream => &["the stream cannot be written"],
        _ if sets.len() == 1 => &full[..1],
        _ => &full[..],
    };
    assert_eq!(may_say.iter().any(|said| logged.contains(said)), filled, "{logged}");
    assert_eq!(logged.contains("disk alarm: publishers are stopped"), !filled, "{logged}");
    if killed {
        broker.kill();
        // Another program takes the space that is left, also that of the log's reserve.
        let rest = directory.path().join("rest");
        fill(&rest);
        broker = start();
        std::fs::remove_file(&rest).unwrap();
    }
    // The remaining space, or the log's reserve, suffices to empty queues.
    match relief {
        Relief::OtherFile => std::fs::remove_file(&other).unwrap(),
        Relief::Take => story.take(&broker, story.confirmed.len()).await,
        Relief::Purge => {
            broker.verb(&["purge", "queue", "q"]).done();
            story.confirmed.clear();
        }
        Relief::Delete => {
            // A consumer has read every segment. The broker must not keep them open.
            story.take(&broker, usize::MAX).await;
            broker.verb(&["delete", "queue", "q"]).done();
            story.confirmed.clear();
            declare(&broker, kind);
        }
        Relief::Retention => {
            let kept = format!("{{\"max-length-bytes\":{KEPT_BYTES}}}");
            broker.verb(&["set", "policy", "small", "q", &kept, "--apply-to", "streams"]).done();
        }
    }
    story.publish_again(&broker, directory).await;
    broker.kill();

    let broker = start();
    story.take(&broker, usize::MAX).await;
    // Retention takes the oldest messages.
    let oldest = if relief == Relief::Retention { *story.came.first().unwrap() } else { 0 };
    let lost: Vec<_> =
        story.confirmed.range(oldest..).filter(|id| !story.came.contains(id)).take(5).collect();
    assert!(lost.is_empty(), "confirmed and lost: {lost:?} ... of {}", story.confirmed.len());
    story.publish_again(&broker, directory).await;
    assert!(broker.terminate().success());
    assert!(!directory.logged().contains("panicked"), "{}", directory.logged());
}

/// Writes a file until the disk has no byte left.
fn fill(path: &Path) {
    let mut file = std::fs::File::create(path).unwrap();
    let full = loop {
        if let Err(error) = file.write_all(&[1; 4096]) {
            break error;
        }
    };
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull, "{full}");
}

/// Returns the future's output, or `None` if publishing is stopped first.
async fn moving<T>(future: impl Future<Output = T>, directory: &Directory) -> Option<T> {
    let mut future = std::pin::pin!(future);
    loop {
        if let Ok(done) = tokio::time::timeout(STALL, &mut future).await {
            return Some(done);
        }
        let logged = directory.logged();
        if ["publishing is stopped", "publishers are stopped", "the stream cannot be written"]
            .iter()
            .any(|said| logged.contains(said))
        {
            return None;
        }
    }
}

fn declare(broker: &Broker, kind: Kind) {
    let (kind, more): (_, &[&str]) = match kind {
        Kind::Classic => ("classic", &[]),
        Kind::Quorum => ("quorum", &[]),
        Kind::Stream => ("stream", &["--argument", SEGMENT]),
    };
    broker.verb(&[&["declare", "queue", "q", "--type", kind], more].concat()).done();
}

struct Story {
    kind: Kind,
    sent: u64,
    confirmed: BTreeSet<u64>,
    came: BTreeSet<u64>,
}

impl Story {
    fn next(&mut self) -> bytes::Bytes {
        self.sent += 1;
        message(SEED, Id { publisher: 0, number: self.sent })
    }

    /// Publishes until a message is refused or publishing is stopped.
    async fn publish_until_stopped(&mut self, broker: &Broker, directory: &Directory) {
        let (_connection, sender) = sender(broker).await;
        let (outcomes, mut to_come) = mpsc::unbounded_channel();
        let send = async {
            while self.sent < MESSAGES {
                let message = self.next();
                let number = self.sent;
                match moving(sender.send_pipelined(message), directory).await {
                    Some(outcome) if !outcomes.is_closed() => drop(outcomes.send((number, outcome.unwrap()))),
                    _ => break,
                }
            }
            drop(outcomes);
        };
        let collect = async {
            let mut confirmed = BTreeSet::new();
            while let Some((number, outcome)) = to_come.recv().await {
                match moving(outcome, directory).await {
                    Some(Ok(DeliveryState::Accepted)) => drop(confirmed.insert(number)),
                    _ => break,
                }
            }
            to_come.close();
            confirmed
        };
        let ((), confirmed) = tokio::join!(send, collect);
        assert!(self.sent < MESSAGES, "the disk is never full");
        assert!(confirmed.len() > 1000, "{} confirmed", confirmed.len());
        self.confirmed.extend(confirmed);
    }

    /// Publishes until a message is accepted.
    async fn publish_again(&mut self, broker: &Broker, directory: &Directory) {
        let again = async {
            let (_connection, sender) = sender(broker).await;
            while sender.send(self.next()).await.unwrap() != DeliveryState::Accepted {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            self.confirmed.insert(self.sent);
        };
        let again = tokio::time::timeout(PATIENCE, again).await;
        assert!(again.is_ok(), "there is no space again: {}", directory.logged());
    }

    /// Accepts `count` messages, or all if `count` is `usize::MAX`. Reads a stream from its first message.
    async fn take(&mut self, broker: &Broker, count: usize) {
        if self.kind == Kind::Stream {
            let came = read_all(&broker.amqp_url(), "/queues/q", SEED).await.unwrap();
            self.came.extend(came.into_iter().map(|(_, id)| id.number));
            return;
        }
        let connection =
            Connection::open(&broker.amqp_url().parse().unwrap(), Options::default()).await.unwrap();
        let session = connection.session().await.unwrap();
        let receiver = session.receiver(Some("/queues/q"), ReceiverOptions::default()).await.unwrap();
        for _ in 0..count {
            let Ok(delivery) = tokio::time::timeout(STALL, receiver.recv()).await else {
                assert_eq!(count, usize::MAX, "{} were received", self.came.len());
                break;
            };
            let delivery = delivery.unwrap();
            self.came.insert(identify(SEED, &delivery.message).unwrap().number);
            delivery.accept().unwrap();
        }
        receiver.detach().await.unwrap();
        connection.close().await.unwrap();
    }
}

async fn sender(broker: &Broker) -> (Connection, Sender) {
    let connection = Connection::open(&broker.amqp_url().parse().unwrap(), Options::default()).await.unwrap();
    let session = connection.session().await.unwrap();
    let sender = session.sender(Some("/queues/q"), SenderOptions::default()).await.unwrap();
    (connection, sender)
}
