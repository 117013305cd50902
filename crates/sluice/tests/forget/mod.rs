//! The built program on a disk that forgets. Before each start of a broker, the power is cut: what it did not sync may be lost,
//! sector by sector and name by name, and the machine has another boot id.
//!
//! The rounds are those of [`crate::kill`] whose queues promise to survive a loss of power: classic queues and streams with
//! `x-fsync`, quorum queues, and transactions. Each kills its broker several times.
//!
//! The disk is [`fs`], which this program serves to the kernel. The test runs itself again in a new mount namespace, as
//! [`crate::small_disk`] does. If the system allows no namespace or has no `/dev/fuse`, the test says so and passes.
//!
//! ```text
//! FORGET_ROUNDS=50 FORGET_SEED=.. cargo test --profile ci -p sluice --test program forget:: -- --nocapture
//! ```
mod fs;

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use crate::broker::Directory;
use crate::kill::power_round;
use fs::Forgetful;
use random::Random;

/// The variable that tells the second run of this program where its disk is.
const DISK: &str = "SLUICE_FORGETFUL_DISK";
/// Commands that make a mount namespace: as a user with user namespaces, and as root.
const NAMESPACES: [&[&str]; 2] = [&["unshare", "-rm"], &["unshare", "-m"]];
/// The number of messages of a round.
const MESSAGES: u64 = 5_000;
/// The number of rounds without `FORGET_ROUNDS`: one of each kind.
const ROUNDS: u64 = 6;

/// Mounts the disk at `$0` and the boot id in the file `$1`, and runs the other words.
const MOUNT: &str = "mount -i -t fuse.forgetful -o fd=0,rootmode=40000,user_id=0,group_id=0 forgetful \"$0\" \
    && mount --bind \"$1\" /proc/sys/kernel/random/boot_id && shift && exec \"$@\" </dev/null";

/// Runs words in a namespace with a new forgetful disk. Returns the command's success and what the disk has lost.
fn run(namespace: &[&str], directory: &Path, words: &[&str], is_probe: bool) -> Option<(bool, u64)> {
    let device = File::options().read(true).write(true).open("/dev/fuse").ok()?;
    let served = device.try_clone().ok()?;
    let server: JoinHandle<u64> = std::thread::spawn(move || Forgetful::new().serve(served));
    let disk = directory.join("disk");
    let mut command = Command::new(namespace[0]);
    command.args(&namespace[1..]).args(["sh", "-c", MOUNT]).arg(&disk).arg(boot_file(&disk)).args(words);
    command.env(DISK, &disk).stdin(device);
    if is_probe {
        command.stderr(Stdio::null());
    }
    let status = command.status();
    // The command has the device as its standard input.
    drop(command);
    let status = status.ok()?;
    // If the disk was not mounted, the server waits for nothing. It ends with this program.
    let is_mounted = status.success() || !is_probe;
    Some((status.success(), if is_mounted { server.join().ok()? } else { 0 }))
}

/// The file with the boot id of the machine, beside the disk.
fn boot_file(disk: &Path) -> PathBuf {
    disk.with_file_name("boot_id")
}

#[test]
fn a_broker_keeps_what_it_confirmed_on_a_disk_that_forgets() {
    let directory = Directory::new("forget");
    let disk = directory.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    std::fs::write(boot_file(&disk), boot_id(0)).unwrap();
    let works = |namespace: &&&[&str]| {
        run(namespace, directory.path(), &["true"], true).is_some_and(|(success, _)| success)
    };
    let Some(namespace) = NAMESPACES.iter().find(works) else {
        writeln!(std::io::stderr(), "skipped: no file system in user space can be mounted here").unwrap();
        return;
    };
    let program = std::env::current_exe().unwrap();
    let again = ["--exact", "forget::on_the_forgetful_disk", "--include-ignored", "--nocapture"];
    let words: Vec<&str> = [program.to_str().unwrap()].into_iter().chain(again).collect();
    let (success, lost) = run(namespace, directory.path(), &words, false).unwrap();
    writeln!(std::io::stderr(), "forget: the disk has lost {lost} sectors and names").unwrap();
    assert!(success);
    assert!(lost > 0, "nothing was lost, so that the test proves nothing");
}

#[test]
#[ignore = "needs the disk that the other test mounts"]
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
        writeln!(std::io::stderr(), "forget: FORGET_SEED={seed}, round {number}: {said}").unwrap();
    }
    assert_eq!(failed, 0);
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
