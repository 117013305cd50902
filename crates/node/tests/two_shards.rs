//! Simulations from a seed, in one thread: one to three shards, their mail, the real log on a simulated disk, and
//! clients of both protocols, built from our own endpoints. They include crashes and failing disks.

use crate::world::World;
use wal_testing::Crash;

/// Returns the seeds of a test. `SLUICE_SOAK` multiplies the number of runs.
fn seeds(runs: u64) -> impl Iterator<Item = u64> {
    let factor: u64 = std::env::var("SLUICE_SOAK").ok().and_then(|f| f.parse().ok()).unwrap_or(1);
    let base: u64 = std::env::var("SLUICE_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    base..base + runs * factor
}

/// Runs one simulation. Returns the number of: log files deleted, runs paged out, packs reported as sparse,
/// connections that followed their queue to another shard, handovers that a shard wrote itself, messages that were never written,
/// checkpoints, and direct writes of the log.
fn run(seed: u64, crash: Crash, fsync: bool, disk_errors: bool) -> [u64; 8] {
    // A failure is repeated with SLUICE_SEED=seed SLUICE_SOAK=1.
    run_in(World::new, seed, crash, fsync, disk_errors)
}

fn run_in(made: fn(u64, bool) -> World, seed: u64, crash: Crash, fsync: bool, disk_errors: bool) -> [u64; 8] {
    let result = std::panic::catch_unwind(|| {
        let mut world = made(seed, fsync);
        let lives = 1 + world.random.below(4);
        for _ in 0..lives {
            let steps = 50 + world.random.below(1500);
            for _ in 0..steps {
                world.step(disk_errors);
            }
            world.crash(crash);
        }
        world.drain_and_check();
        let at_once = world.at_once[0];
        let checkpoints = world.checkpoints.get();
        [
            world.forgotten,
            world.paged_out,
            world.sparse,
            world.followed,
            at_once,
            world.never_written,
            checkpoints,
            world.written_directly,
        ]
    });
    match result {
        Ok(done) => done,
        Err(panic) => {
            let why = panic.downcast_ref::<String>().map_or("see above", |s| s);
            panic!("seed {seed}: {why}");
        }
    }
}

#[test]
fn nothing_confirmed_is_lost() {
    let done: Vec<[u64; 8]> = seeds(250).map(|seed| run(seed, Crash::Process, false, false)).collect();
    let some = |what: usize| done.iter().any(|counts| counts[what] > 0);
    assert!(some(0), "log files were deleted in some of the runs");
    assert!(some(1), "messages were paged out in some of the runs");
    assert!(some(2), "packs were emptied in some of the runs");
    assert!(some(3), "connections followed their queues in some of the runs");
    assert!(some(4), "shards wrote records themselves in some of the runs");
    assert!(some(5), "messages were settled before they were written in some of the runs");
}

#[test]
fn nothing_confirmed_with_fsync_is_lost_with_the_power() {
    let directly = |seed| run(seed, Crash::Power, true, false)[7];
    assert!(seeds(250).map(directly).sum::<u64>() > 0, "the log wrote directly in some of the runs");
}

#[test]
fn nothing_confirmed_is_lost_on_a_failing_disk() {
    seeds(250).for_each(|seed| _ = run(seed, Crash::Process, false, true));
}

#[test]
fn nothing_confirmed_with_fsync_is_lost_with_the_power_on_a_failing_disk() {
    seeds(250).for_each(|seed| _ = run(seed, Crash::Power, true, true));
}

#[test]
fn nothing_confirmed_is_lost_on_its_way_to_another_queue() {
    for seed in seeds(80) {
        for (crash, fsync) in [(Crash::Process, false), (Crash::Power, true)] {
            for disk_errors in [false, true] {
                run_in(World::with_dead_letters, seed, crash, fsync, disk_errors);
            }
        }
    }
}

/// A confirm of a quorum queue always means a sync, and every accepted message survives.
#[test]
fn nothing_confirmed_by_a_quorum_queue_is_lost() {
    let mut some = [false; 8];
    for seed in seeds(160) {
        for crash in [Crash::Process, Crash::Power] {
            for disk_errors in [false, true] {
                let counts = run_in(World::with_quorum_queue, seed, crash, false, disk_errors);
                (0..some.len()).for_each(|what| some[what] |= counts[what] > 0);
            }
        }
    }
    assert!(some[0], "log files were deleted in some of the runs");
    assert!(some[1], "messages were paged out in some of the runs");
    assert!(some[2], "packs were emptied in some of the runs");
    assert!(some[6], "checkpoints were written in some of the runs");
    assert!(some[7], "the log wrote directly in some of the runs");
}

#[test]
fn nothing_confirmed_by_a_quorum_queue_is_lost_on_its_way_to_another_one() {
    for seed in seeds(30) {
        for crash in [Crash::Process, Crash::Power] {
            for disk_errors in [false, true] {
                run_in(World::with_quorum_dead_letters, seed, crash, false, disk_errors);
            }
        }
    }
}

#[test]
fn log_files_are_deleted_even_if_the_deciding_shard_writes_nothing() {
    // There are two shards. All the work is on the second one, and the first one is the node shard.
    let forgotten = seeds(10).map(|seed| {
        let mut world = World::new(3 * seed + 1, false);
        world.all_on = Some(1);
        (0..6000).for_each(|_| world.step(false));
        world.drain_and_check();
        world.forgotten
    });
    assert!(forgotten.sum::<u64>() > 0);
}

#[test]
fn settling_frees_a_full_disk() {
    let (mut full, mut forgotten) = (0, 0);
    for seed in seeds(60) {
        let result = std::panic::catch_unwind(|| {
            let mut world = World::new(seed, seed % 2 == 0);
            world.limit(700 * 1024, 500 * 1024);
            let mut full = false;
            for _ in 0..1 + world.random.below(3) {
                for _ in 0..500 + world.random.below(3000) {
                    world.step(false);
                    full |= world.is_on_reserve();
                }
                if world.random.one_in(3) {
                    world.crash(Crash::Process);
                }
            }
            world.drain_and_check();
            world.publish_again();
            (full, world.forgotten)
        });
        let Ok(done) = result else { panic!("seed {seed}: see above") };
        full += u64::from(done.0);
        forgotten += done.1;
    }
    assert!(full > 5, "{full} times the disk was full");
    assert!(forgotten > 0);
}

#[test]
fn publishers_are_rejected_when_the_backlog_cannot_be_paged_out() {
    for seed in seeds(10) {
        let result = std::panic::catch_unwind(|| {
            let mut world = World::new(seed, seed % 2 == 0);
            world.fill_packs();
            let filled = world.paged_out;
            world.empty_packs();
            world.publish_again();
            assert!(world.paged_out > filled, "the backlog is paged out again");
            world.drain_and_check();
        });
        assert!(result.is_ok(), "seed {seed}: see above");
    }
}

/// Runs one simulation with streams. Returns the number of: removals by retention, messages read back at the
/// end, opens that reported damage, and appends that a shard did itself.
fn run_streams(seed: u64, crash: Crash, fsync: bool, disk_errors: bool) -> [u64; 4] {
    let result = std::panic::catch_unwind(|| {
        let mut world = World::new(seed, fsync);
        world.add_streams(fsync);
        for _ in 0..1 + world.random.below(4) {
            for _ in 0..100 + world.random.below(4000) {
                world.step(disk_errors);
            }
            if world.random.one_in(2) {
                world.answer_publishers();
            }
            world.crash(crash);
        }
        world.read_and_check();
        world.drain_and_check();
        let (streams, at_once) = (world.streams.expect("there are streams"), world.at_once[1]);
        [streams.taken, streams.shown, streams.damaged, at_once]
    });
    result.unwrap_or_else(|panic| {
        let why = panic.downcast_ref::<String>().map_or("see above", |why| why);
        panic!("seed {seed}: {why}")
    })
}

fn run_all_streams(crash: Crash, fsync: bool, disk_errors: bool) {
    let done: Vec<_> = seeds(100).map(|seed| run_streams(seed, crash, fsync, disk_errors)).collect();
    let sum = |what: usize| done.iter().map(|counts| counts[what]).sum::<u64>();
    assert!(sum(0) > 0, "retention took something");
    assert!(sum(1) > 1000, "{} messages were read back", sum(1));
    assert_eq!(sum(3) > 0, !fsync, "{} appends were done at once", sum(3));
    // What a power failure leaves can nearly always be distinguished from damage.
    assert!(sum(2) * 20 <= done.len() as u64, "{} opens named damage", sum(2));
}

#[test]
fn streams_keep_what_they_confirmed() {
    run_all_streams(Crash::Process, false, false);
}

#[test]
fn streams_keep_what_they_confirmed_with_fsync_when_power_is_lost() {
    run_all_streams(Crash::Power, true, false);
}

#[test]
fn streams_keep_what_they_confirmed_on_a_failing_disk() {
    run_all_streams(Crash::Process, false, true);
    run_all_streams(Crash::Process, true, true);
}

#[test]
fn streams_keep_what_they_confirmed_with_fsync_when_power_is_lost_on_a_failing_disk() {
    run_all_streams(Crash::Power, true, true);
}
