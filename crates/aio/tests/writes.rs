//! Writes to a real file. Where the kernel forbids AIO, or the file system knows no direct writes, the tests say so and pass.
#![cfg(target_os = "linux")]

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::Arc;

use aio::{BLOCK, Blocks, Writes};
use rustix::event::{PollFd, PollFlags, poll};

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn folder(name: &str) -> Folder {
    let path = std::env::temp_dir().join(format!("sluice-aio-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    Folder(path)
}

/// Returns a file of zeros that was opened for direct writes.
fn direct(folder: &Folder, blocks: usize) -> Option<Arc<File>> {
    let path = folder.0.join("file");
    std::fs::write(&path, vec![0; blocks * BLOCK]).unwrap();
    let made = File::open(&path).unwrap();
    made.sync_all().unwrap();
    rustix::fs::fadvise(&made, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let opened = OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(path);
    if opened.is_err() {
        std::io::stderr().write_all(b"skipped: no direct writes here\n").unwrap();
    }
    opened.ok().map(Arc::new)
}

fn writes(bells: usize) -> Option<Writes> {
    let writes = Writes::new(bells);
    if writes.is_err() {
        std::io::stderr().write_all(b"skipped: no AIO here\n").unwrap();
    }
    writes.ok()
}

fn blocks(byte: u8, count: usize) -> Blocks {
    let mut blocks = Blocks::default();
    blocks.clear(count * BLOCK);
    blocks.push(&vec![byte; count * BLOCK]);
    blocks
}

#[test]
fn a_write_rings_its_bell_and_is_in_the_file() {
    let folder = folder("bell");
    let (Some(file), Some(mut writes)) = (direct(&folder, 8), writes(2)) else { return };
    let bells = writes.bells().to_vec();
    let mut expected = vec![0; 8 * BLOCK];
    for round in 1..=20_u8 {
        let (bell, block) = (usize::from(round % 2), usize::from(round % 6));
        writes.submit(&file, (block * BLOCK) as u64, blocks(round, 2), bell).unwrap();
        poll(&mut [PollFd::new(&*bells[bell], PollFlags::IN)], None).unwrap();
        let mut rung = [0; 8];
        rustix::io::read(&*bells[bell], &mut rung).unwrap();
        assert_eq!(u64::from_ne_bytes(rung), 1);
        assert!(rustix::io::read(&*bells[1 - bell], &mut rung).is_err(), "the other did not ring");
        let ended = writes.ended().expect("its bell has rung");
        ended.result.unwrap();
        assert_eq!(ended.blocks.bytes(), vec![round; 2 * BLOCK]);
        assert!(writes.ended().is_none() && writes.wait().is_none());
        expected[block * BLOCK..(block + 2) * BLOCK].fill(round);
    }
    assert!(std::fs::read(folder.0.join("file")).unwrap() == expected);
}

#[test]
fn one_write_is_in_flight_and_a_refused_one_returns_its_memory() {
    let folder = folder("refused");
    let (Some(file), Some(mut writes)) = (direct(&folder, 2), writes(1)) else { return };
    writes.submit(&file, 0, blocks(1, 1), 0).unwrap();
    let (error, back) = writes.submit(&file, 0, blocks(2, 1), 0).unwrap_err();
    assert_eq!((error.kind(), back.bytes()), (std::io::ErrorKind::ResourceBusy, &[2; BLOCK][..]));
    writes.wait().expect("it is in flight").result.unwrap();
    let read_only = Arc::new(File::open(folder.0.join("file")).unwrap());
    let (_, back) = writes.submit(&read_only, 0, blocks(3, 1), 0).unwrap_err();
    assert_eq!(back.bytes(), [3; BLOCK]);
    let odd = writes.submit(&file, 7, blocks(4, 1), 0).map(|()| writes.wait().expect("in flight").result);
    assert!(!matches!(odd, Ok(Ok(()))), "an offset within a block is refused");
    writes.submit(&file, 0, blocks(5, 1), 0).unwrap();
    writes.wait().expect("it is in flight").result.unwrap();
}

#[test]
fn a_write_over_pages_of_the_page_cache_is_what_readers_see() {
    let folder = folder("cached");
    let (Some(file), Some(mut writes)) = (direct(&folder, 2), writes(1)) else { return };
    File::options()
        .write(true)
        .open(folder.0.join("file"))
        .unwrap()
        .write_all_at(&[9; 2 * BLOCK], 0)
        .unwrap();
    writes.submit(&file, 0, blocks(1, 1), 0).unwrap();
    writes.wait().expect("it is in flight").result.unwrap();
    let expected = [[1; BLOCK], [9; BLOCK]].concat();
    assert!(std::fs::read(folder.0.join("file")).unwrap() == expected);
}

#[test]
fn dropping_waits_for_the_write() {
    let folder = folder("dropped");
    let (Some(file), Some(mut writes)) = (direct(&folder, 8), writes(1)) else { return };
    writes.submit(&file, 0, blocks(7, 8), 0).unwrap();
    drop(writes);
    let mut found = vec![0; 8 * BLOCK];
    File::open(folder.0.join("file")).unwrap().read_exact_at(&mut found, 0).unwrap();
    assert_eq!(found, vec![7; 8 * BLOCK]);
}
