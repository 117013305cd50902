//! Disks that the kernel has mounted: what programs see of direct writes, slow syncs and cuts.
//!
//! The test runs itself again in a mount namespace. If the system allows no namespace or has no `/dev/fuse`, it says so and passes.

use std::fs::{File, OpenOptions};
use std::io::{IoSlice, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use false_disk::{Namespace, Options, SyncTime};
use rustix::fs::OFlags;
use rustix::io::{Errno, ReadWriteFlags, pwritev2};

/// The variables that tell the second run of this program where its disk is, and what it is to do there.
const DISK: &str = "FALSE_DISK";
const SCENE: &str = "FALSE_DISK_SCENE";
const SECTOR: usize = 512;
const FOUR: u64 = 4 * SECTOR as u64;
/// So long that no test sees its end.
const FOREVER: Duration = Duration::from_hours(24);

type Scene = (&'static str, Options, fn(&Path));

fn scenes() -> [Scene; 6] {
    let forgets = Options { forgets: true, ..Options::default() };
    let slow = SyncTime { each: FOREVER, stalls: None };
    [
        ("durable writes", forgets, durable_writes),
        ("syncs", forgets, syncs),
        ("direct IO", Options::default(), direct_io),
        ("no direct IO", Options { refuses_direct: true, ..Options::default() }, no_direct_io),
        ("slow syncs", Options { sync_time: slow, ..forgets }, slow_syncs),
        ("syncs that stand still", forgets, held_syncs),
    ]
}

#[test]
fn programs_see_what_the_disk_promises() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("false-disk-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let Some(namespace) = Namespace::find(&directory, "true") else {
        writeln!(std::io::stderr(), "skipped: no file system in user space can be mounted here").unwrap();
        return;
    };
    for (name, options, _) in scenes() {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "on_the_disk", "--include-ignored", "--nocapture"]);
        command.env(DISK, &directory).env(SCENE, name);
        let outcome = namespace.run(options, &directory, "true", &command).unwrap();
        assert!(outcome.status.success(), "{name}");
    }
    std::fs::remove_dir(&directory).unwrap();
}

/// The program mounts a disk, runs commands on it, and unmounts the disk when it gets SIGTERM.
#[test]
fn the_program_serves_a_disk_until_it_is_told_to_stop() {
    const SCRIPT: &str = r#"
        set -eu
        serve() {
            : >said
            "$DISK" --mount disk --socket socket "$@" >>said & disk=$!
            until grep -q 'is mounted' said; do kill -0 $disk; done
        }
        stop() {
            kill $disk
            wait $disk
            test ! -e disk/file && test ! -e socket
        }
        serve --sync-ms 0.5 --stall-ms 1 --every-ms 2
        echo content >disk/file
        "$DISK" --on socket sync disk/file disk
        stop
        # A sync that takes a day ends with an error, because the disk is gone. Meanwhile the file can be written.
        serve --sync-ms 86400000
        echo content >disk/file
        "$DISK" --on socket sync disk/file & sync=$!
        echo content >>disk/file
        # Others are not delayed.
        sync disk/file
        stop
        ! wait $sync
    "#;
    let directory =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("false-disk-program-{}", std::process::id()));
    let other = directory.join("other");
    std::fs::create_dir_all(directory.join("disk")).unwrap();
    std::fs::create_dir(&other).unwrap();
    if let Some(namespace) = Namespace::find(&other, "true") {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT]).env("DISK", env!("CARGO_BIN_EXE_false-disk"));
        let outcome = namespace.run(Options::default(), &other, "cd \"$0/..\"", &command).unwrap();
        assert!(outcome.status.success());
    } else {
        writeln!(std::io::stderr(), "skipped: no file system in user space can be mounted here").unwrap();
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
#[ignore = "needs the disk that the other test mounts"]
fn on_the_disk() {
    let (disk, scene) = (PathBuf::from(std::env::var_os(DISK).unwrap()), std::env::var(SCENE).unwrap());
    let (_, _, run) = scenes().into_iter().find(|(name, ..)| *name == scene).unwrap();
    run(&disk);
}

fn open(path: &Path, flags: OFlags) -> std::io::Result<File> {
    let flags = i32::try_from(flags.bits()).unwrap();
    OpenOptions::new().read(true).write(true).create(true).truncate(false).custom_flags(flags).open(path)
}

/// Returns a file with four durable sectors of ones, opened for buffered and for direct IO.
fn ones(path: &Path) -> (File, File) {
    let file = open(path, OFlags::empty()).unwrap();
    file.write_all_at(&[1; FOUR as usize], 0).unwrap();
    file.sync_data().unwrap();
    File::open(path.parent().unwrap()).unwrap().sync_all().unwrap();
    (file, open(path, OFlags::DIRECT).unwrap())
}

fn cut(disk: &Path, seed: u64) {
    assert!(!disk.join(format!(".cut-{seed}")).exists());
}

/// Returns the first byte of each sector, as a program reads it that opens the file after the cut.
fn sectors(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    File::open(path).unwrap().read_to_end(&mut bytes).unwrap();
    bytes.chunks(SECTOR).map(|sector| sector[0]).collect()
}

fn write_durably(file: &File, bytes: &[u8], at: u64) -> Result<usize, Errno> {
    pwritev2(file, &[IoSlice::new(bytes)], at, ReadWriteFlags::DSYNC)
}

/// A write that must be durable is durable. If it is direct, other writes are not.
fn durable_writes(disk: &Path) {
    let path = disk.join("file");
    let mut kept = [false; 2];
    for seed in 0..32 {
        let (buffered, direct) = ones(&path);
        buffered.write_all_at(&[2; SECTOR], 0).unwrap();
        direct.write_all_at(&[2; SECTOR], SECTOR as u64).unwrap();
        assert_eq!(write_durably(&direct, &[3; SECTOR], 2 * SECTOR as u64), Ok(SECTOR));
        assert_eq!(write_durably(&direct, &[3; SECTOR], FOUR), Ok(SECTOR));
        cut(disk, seed);
        let found = sectors(&path);
        assert_eq!(found[2..], [3, 1, 3]);
        kept[0] |= found[0] == 2;
        kept[1] |= found[1] == 2;
        std::fs::remove_file(&path).unwrap();
    }
    assert_eq!(kept, [true; 2], "a cut keeps some of what was not synced");

    let lost = (0..32).any(|seed| {
        let (_, direct) = ones(&path);
        direct.write_all_at(&[2; SECTOR], 0).unwrap();
        write_durably(&direct, &[3; SECTOR], 2 * SECTOR as u64).unwrap();
        cut(disk, seed);
        sectors(&path) == [1, 1, 3, 1]
    });
    assert!(lost, "a cut loses some of what was not synced");

    let by_open = open(&path, OFlags::DIRECT | OFlags::from_bits_retain(0o10_000)).unwrap();
    by_open.write_all_at(&[4; SECTOR], 0).unwrap();
    let (buffered, _) = ones(&disk.join("other"));
    write_durably(&buffered, &[4; 10], FOUR).unwrap();
    cut(disk, 1);
    assert_eq!(sectors(&path)[0], 4);
    assert_eq!(sectors(&disk.join("other")), [1, 1, 1, 1, 4]);
}

/// `fsync` and `fdatasync` make a file durable, of whichever kind the writes were.
fn syncs(disk: &Path) {
    for (seed, sync) in [File::sync_data, File::sync_all].into_iter().enumerate() {
        let path = disk.join(format!("file-{seed}"));
        let (buffered, direct) = ones(&path);
        buffered.write_all_at(&[2; 10], FOUR).unwrap();
        direct.write_all_at(&[3; SECTOR], 0).unwrap();
        sync(&direct).unwrap();
        cut(disk, seed as u64);
        assert_eq!(sectors(&path), [3, 1, 1, 1, 2]);
    }
}

fn direct_io(disk: &Path) {
    let (buffered, direct) = ones(&disk.join("file"));
    let mut sector = [0; SECTOR];
    direct.write_all_at(&[2; SECTOR], 0).unwrap();
    buffered.read_exact_at(&mut sector, 0).unwrap();
    assert_eq!(sector, [2; SECTOR], "a buffered read sees a direct write");
    buffered.write_all_at(&[3; SECTOR], 0).unwrap();
    direct.read_exact_at(&mut sector, 0).unwrap();
    assert_eq!(sector, [3; SECTOR], "a direct read sees a buffered write");
    for (bytes, at) in [(&[4; SECTOR][..], 10), (&[4; 10], 0)] {
        let refused = direct.write_at(bytes, at).unwrap_err();
        assert_eq!(Errno::from_io_error(&refused), Some(Errno::INVAL), "a part of a sector is written");
    }
    // There is no cut on this disk.
    cut(disk, 1);
    buffered.read_exact_at(&mut sector, 0).unwrap();
    assert_eq!(sector, [3; SECTOR]);
}

fn no_direct_io(disk: &Path) {
    let refused = open(&disk.join("file"), OFlags::DIRECT).unwrap_err();
    assert_eq!(Errno::from_io_error(&refused), Some(Errno::INVAL));
    let file = open(&disk.join("file"), OFlags::empty()).unwrap();
    write_durably(&file, b"buffered", 0).unwrap();
    // Linux asks no file system when an open file becomes direct.
    rustix::fs::fcntl_setfl(&file, OFlags::DIRECT).unwrap();
    let refused = file.write_at(&[1; SECTOR], 0).unwrap_err();
    assert_eq!(Errno::from_io_error(&refused), Some(Errno::INVAL));
}

/// Syncs that never end delay no other request, except writes to a file with an `fsync`. A cut makes them fail.
fn slow_syncs(disk: &Path) {
    let begin = |name: &str| open(&disk.join(name), OFlags::DIRECT).unwrap();
    let [first, second, third] = ["first", "second", "third"].map(begin);
    for file in [&first, &second] {
        file.write_all_at(&[1; FOUR as usize], 0).unwrap();
    }
    std::thread::scope(|scope| {
        let waiting = [
            scope.spawn(|| write_durably(&first, &[2; SECTOR], 0).map(drop)),
            scope.spawn(|| write_durably(&first, &[2; SECTOR], SECTOR as u64).map(drop)),
            scope.spawn(|| rustix::fs::fdatasync(&second)),
            scope.spawn(|| rustix::fs::fsync(&second)),
        ];
        // They have begun when their first effect is there; for a sync nothing shows that.
        let mut sectors = [0; 2 * SECTOR];
        while sectors != [2; 2 * SECTOR] {
            first.read_exact_at(&mut sectors, 0).unwrap();
        }
        for _ in 0..100 {
            first.write_all_at(&[3; SECTOR], 2 * SECTOR as u64).unwrap();
            third.write_all_at(&[3; SECTOR], 0).unwrap();
            second.read_exact_at(&mut sectors, 0).unwrap();
        }
        assert!(waiting.iter().all(|sync| !sync.is_finished()), "a sync takes longer");
        // A sync may begin after the first cut.
        let mut seed = 1;
        while waiting.iter().any(|sync| !sync.is_finished()) {
            cut(disk, seed);
            seed += 1;
        }
        for sync in waiting {
            assert_eq!(sync.join().unwrap(), Err(Errno::IO));
        }
    });
}

/// While syncs are held, other requests are answered. Then all syncs end.
fn held_syncs(disk: &Path) {
    let (file, _) = ones(&disk.join("file"));
    let other = open(&disk.join("other"), OFlags::empty()).unwrap();
    assert!(!disk.join(".hold-syncs").exists());
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| file.sync_data());
        for _ in 0..100 {
            other.write_all_at(&[1; SECTOR], 0).unwrap();
        }
        assert!(!waiting.is_finished(), "a held sync does not end");
        assert!(!disk.join(".let-syncs").exists());
        waiting.join().unwrap().unwrap();
    });
    file.sync_data().unwrap();
}
