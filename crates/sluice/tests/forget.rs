//! The built program on a disk that forgets. Before each start of a broker, the power is cut: what it did not sync may be lost,
//! sector by sector and name by name, and the machine has another boot id.
//!
//! The rounds are those of [`crate::kill`] whose queues promise to survive a loss of power: classic queues and streams with
//! `x-fsync`, quorum queues, and transactions. Each kills its broker several times.
//!
//! The disk is of the crate `false_disk`, and this program serves it to the kernel. The rounds run on a disk that permits direct writes
//! (`O_DIRECT`), and on one that refuses them. A test runs itself again in a new mount namespace, as
//! [`crate::small_disk`] does. If the system allows no namespace or has no `/dev/fuse`, the test says so and passes.
//!
//! ```text
//! FORGET_ROUNDS=50 FORGET_SEED=.. cargo test --profile ci -p sluice --test program forget:: -- --nocapture
//! ```
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use false_disk::{Namespace, Options};
use random::Random;

use crate::broker::Directory;
use crate::kill::power_round;

/// The variable that tells the second run of this program where its disk is.
const DISK: &str = "SLUICE_FORGETFUL_DISK";
/// The number of messages of a round.
const MESSAGES: u64 = 5_000;
/// The number of rounds without `FORGET_ROUNDS`: one of each kind.
const ROUNDS: u64 = 6;

/// Replaces the boot id of the machine by the one beside the disk.
const BOOT: &str = "mount --bind \"$0/../boot_id\" /proc/sys/kernel/random/boot_id";

/// The file with the boot id of the machine.
fn boot_file(disk: &Path) -> PathBuf {
    disk.with_file_name("boot_id")
}

#[test]
fn a_broker_keeps_what_it_confirmed_on_a_disk_that_forgets() {
    run_on(Options { forgets: true, ..Options::default() });
}

#[test]
fn a_broker_keeps_what_it_confirmed_on_a_disk_that_forgets_and_refuses_direct_writes() {
    run_on(Options { forgets: true, refuses_direct: true, ..Options::default() });
}

/// Runs the rounds on a new disk.
fn run_on(options: Options) {
    let directory = Directory::new("forget");
    let disk = directory.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    std::fs::write(boot_file(&disk), boot_id(0)).unwrap();
    let Some(namespace) = Namespace::find(&disk, BOOT) else {
        say("skipped: no file system in user space can be mounted here");
        return;
    };
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "forget::on_the_forgetful_disk", "--include-ignored", "--nocapture"]);
    let outcome = namespace.run(options, &disk, BOOT, command.env(DISK, &disk)).unwrap();
    let direct = if options.refuses_direct { "refuses" } else { "permits" };
    let disk = outcome.disk;
    say(&format!(
        "forget: the disk, which {direct} direct writes, has lost {} sectors and names; {} writes were direct",
        disk.lost, disk.direct
    ));
    assert!(outcome.status.success());
    assert!(disk.lost > 0, "nothing was lost, so that the test proves nothing");
    assert_eq!(disk.direct > 0, !options.refuses_direct, "the log writes directly if it can");
}

#[test]
#[ignore = "needs the disk that the other tests mount"]
fn on_the_forgetful_disk() {
    let rounds = number("FORGET_ROUNDS").unwrap_or(ROUNDS);
    let seed = number("FORGET_SEED").unwrap_or(1);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut seeds = Random(seed);
    let mut failed = 0;
    for number in 0..rounds {
        let result = runtime.block_on(power_round(number, seeds.next(), MESSAGES));
        failed += u64::from(result.is_err());
        let said = result.unwrap_or_else(|why| format!("FAILED: {why}"));
        say(&format!("forget: FORGET_SEED={seed}, round {number}: {said}"));
    }
    assert_eq!(failed, 0);
}

fn say(line: &str) {
    let mut out = std::io::stderr();
    writeln!(out, "{line}").unwrap();
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} must be a number, not '{text}'")))
}

fn boot_id(number: u64) -> String {
    format!("{number:08x}-0000-4000-8000-000000000000\n")
}

/// Returns the forgetful disk, if this is the run on it.
pub(crate) fn disk() -> Option<PathBuf> {
    std::env::var_os(DISK).map(PathBuf::from)
}

/// The settings of a broker in the run on the forgetful disk. Every second broker has publishers that wait for few confirms at a time. So
/// its log has little but syncs to do, and writes directly.
pub(crate) fn settings() -> &'static [&'static str] {
    static BROKERS: AtomicU64 = AtomicU64::new(0);
    // This disk is not among those that are known to sync direct writes.
    const HEAVY: [&str; 1] = ["data_dir.direct_writes=true"];
    const LIGHT: [&str; 3] = [HEAVY[0], "amqp10.link_credit=fixed", "amqp10.max_link_credit=4"];
    match disk() {
        None => &[],
        Some(_) if BROKERS.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) => &LIGHT,
        Some(_) => &HEAVY,
    }
}

/// Cuts the power of the forgetful disk, if this is the run on it. The next broker runs in another boot.
pub(crate) fn cut() {
    static CUTS: AtomicU64 = AtomicU64::new(1);
    let Some(disk) = disk() else { return };
    let cut = CUTS.fetch_add(1, Ordering::Relaxed);
    std::fs::write(boot_file(&disk), boot_id(cut)).unwrap();
    let seed = number("FORGET_SEED").unwrap_or(1).wrapping_mul(1_000_003).wrapping_add(cut);
    // The file system has no such name: to look it up cuts the power.
    drop(std::fs::metadata(disk.join(format!(".cut-{seed}"))));
}
