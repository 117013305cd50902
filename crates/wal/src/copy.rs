//! A copy of an owner's most precious records in a file of its own, `users.copy`. Damage in the log does not reach it.
//!
//! ```text
//!  0       8         12      20       28        28 + length
//!  | magic | version | boots | length | content | check |
//!  | 8     | u32     | u64   | u64    |         | u32   |
//! ```
//!
//! Little-endian. The first 12 bytes keep their place in every later version. Bytes after `check` have no meaning.
//!
//! * `magic`: `SluiceCp`. `version`: [`VERSION`].
//! * `boots`: the number of the start that wrote the copy or took it over; see [`Identity`](crate::Identity).
//! * `content`: what the owner gave. Only the owner knows what it means.
//! * `check`: CRC-32C over everything before it.
//!
//! An old copy would be worse than none: it would bring back what was deleted since. So a copy counts only if it is
//! certainly the newest:
//!
//! * The owner answers a change when [`CopyFile::replace`] has ended. Then the copy has the change, or there is no copy:
//!   one that cannot be replaced is removed.
//! * A start adopts a copy of the start before it. It gives the copy its own number before it counts itself, so a start that
//!   fails or is interrupted loses nothing: the copy has the number of the last start that counted, or of the next one. A
//!   program that knows no copies also counts its starts, so a copy from before it is not adopted.
//!
//! The next copy is written over `users.copy.new` and renamed. That file is allocated in advance, so replacing the copy
//! takes no more space, and works on a full disk.

use std::fmt;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::Arc;

use crate::checksum::{Proof, crc32c};
use crate::disk::{Disk, read_all, write_all};
use crate::file::u64_at;
use crate::worker::{Inbox, Worker};

/// The name of the file.
pub const COPY_FILE: &str = "users.copy";
/// The name of the file that will replace it.
pub(crate) const NEW_NAME: &str = "users.copy.new";

/// The version of the file. A copy of a newer version is not used: it is replaced, as a damaged one is.
const VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"SluiceCp";

/// The length of what precedes the content, in bytes.
const HEADER: usize = 8 + 4 + 8 + 8;

/// The length of the check, in bytes.
const CHECK: usize = 4;

/// The unit in which the next copy is allocated, in bytes. There is always at least half of it more than the copy takes, so
/// that a copy may grow on a full disk.
const ROOM: u64 = 64 * 1024;

/// The most content of a copy, in bytes: more than a million users. A file that claims more is not read, because a damaged
/// length could be anything.
const CONTENT_MAX: u64 = 256 * 1024 * 1024;

/// What is known of the copy in a directory.
#[derive(Debug, PartialEq, Eq)]
pub enum FoundCopy {
    /// There is none.
    Nothing,
    /// The file is damaged, or newer than this program.
    Unreadable,
    /// A whole copy, and the start that it is of.
    Whole { boots: u64, content: Vec<u8> },
}

impl FoundCopy {
    /// Reads the copy in a directory and changes nothing.
    ///
    /// # Errors
    /// The disk failed.
    pub fn look<D: Disk>(disk: &mut D) -> io::Result<Self> {
        let mut file = match disk.open(COPY_FILE) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::Nothing),
            opened => opened?,
        };
        // The file may be longer than the copy in it.
        let len = disk.len(&mut file)?.min(CONTENT_MAX + 2 * ROOM);
        let mut bytes = vec![0; usize::try_from(len).unwrap_or_default()];
        let read = read_all(disk, &mut file, 0, &mut bytes)?;
        bytes.truncate(read);
        Ok(decode(bytes).unwrap_or(Self::Unreadable))
    }
}

/// The copy of one directory. The caller must hold the lock of the directory.
pub struct CopyFile<D: Disk> {
    disk: D,
    boots: u64,
}

/// A copy that counts.
#[derive(Debug, PartialEq, Eq)]
pub struct Adopted {
    pub content: Vec<u8>,
    /// False if it could not be given the number of this start. This start has what it needs, but the next one will not
    /// adopt the file.
    pub is_of_this_start: bool,
}

/// How [`CopyFile::replace`] has ended.
#[derive(Debug)]
pub enum CopyEnd {
    /// The copy is synced.
    Written,
    /// The copy could not be written, and the one before it is removed.
    Removed(io::Error),
    /// The copy could not be written, and the one before it could not be removed. It may still be there, so nobody may be
    /// told yet of changes that it does not have.
    Refused(io::Error),
}

impl<D: Disk> CopyFile<D> {
    /// Makes the writer of copies of the start with this number.
    pub fn new(disk: D, boots: u64) -> Self {
        Self { disk, boots }
    }

    /// Returns the copy if it is of the start before this one, or of a try to make this one. Called once, before the start
    /// is counted: every other start may be of a program that knows no copies. `None` if there is no such copy.
    ///
    /// # Errors
    /// The disk failed to read it.
    pub fn adopt(&mut self) -> io::Result<Option<Adopted>> {
        match FoundCopy::look(&mut self.disk)? {
            FoundCopy::Whole { boots, content } if boots == self.boots => {
                Ok(Some(Adopted { content, is_of_this_start: true }))
            }
            FoundCopy::Whole { boots, content } if boots.checked_add(1) == Some(self.boots) => {
                let is_of_this_start = self.try_replace(&content).is_ok();
                Ok(Some(Adopted { content, is_of_this_start }))
            }
            _ => Ok(None),
        }
    }

    /// Replaces the copy. It is synced when this function returns, or it is removed.
    pub fn replace(&mut self, content: &[u8]) -> CopyEnd {
        let Err(error) = self.try_replace(content) else { return CopyEnd::Written };
        match self.remove() {
            Ok(()) => CopyEnd::Removed(error),
            Err(_) => CopyEnd::Refused(error),
        }
    }

    fn try_replace(&mut self, content: &[u8]) -> io::Result<()> {
        let disk = &mut self.disk;
        if content.len() as u64 > CONTENT_MAX {
            return Err(io::Error::new(ErrorKind::FileTooLarge, "there are too many users"));
        }
        let mut file = match disk.open(NEW_NAME) {
            Err(error) if error.kind() == ErrorKind::NotFound => disk.create(NEW_NAME)?,
            opened => opened?,
        };
        let header = header(self.boots, content);
        let mut check = Proof::new([]);
        check.update(&header);
        check.update(content);
        let check = check.finish().to_le_bytes();
        let mut pieces = [IoSlice::new(&header), IoSlice::new(content), IoSlice::new(&check)];
        write_all(disk, &mut file, 0, &mut pieces)?;
        let taken = (HEADER + content.len() + CHECK) as u64;
        // What the file does not need is free for the next one.
        disk.truncate(&mut file, taken)?;
        disk.sync(&mut file)?;
        drop(file);
        disk.rename(NEW_NAME, COPY_FILE)?;
        disk.sync_dir()?;
        // Without the space in advance, the next copy may find the disk full. Then there is none until it has room.
        let _ = disk
            .reserve(NEW_NAME, (taken + ROOM / 2).next_multiple_of(ROOM))
            .or_else(|_| disk.reserve(NEW_NAME, taken));
        Ok(())
    }

    fn remove(&mut self) -> io::Result<()> {
        match self.disk.remove(COPY_FILE) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.disk.sync_dir()
    }

    /// Runs the writer on a thread. `on_done` is called there after each job.
    ///
    /// # Errors
    /// The errors of starting a thread.
    pub fn spawn(mut self, mut on_done: OnCopied) -> io::Result<CopyHandle>
    where
        D: 'static,
    {
        let run = move |inbox: &Arc<Inbox<Option<CopyJob>>>| {
            let mut next = None;
            while inbox.take(&mut next, false) {
                if let Some(content) = next.take() {
                    on_done(self.replace(&content()));
                }
            }
        };
        Worker::spawn("users", run).map(|worker| CopyHandle { worker })
    }
}

impl<D: Disk> fmt::Debug for CopyFile<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CopyFile(start {})", self.boots)
    }
}

/// Makes the content of the next copy. It is called on the thread that writes it.
pub type CopyJob = Box<dyn FnOnce() -> Vec<u8> + Send>;

/// Called with the end of each job.
pub type OnCopied = Box<dyn FnMut(CopyEnd) + Send>;

/// A handle to the thread of [`CopyFile::spawn`]. When the last clone is dropped, the thread finishes its work and ends.
#[derive(Clone)]
pub struct CopyHandle {
    worker: Worker<Option<CopyJob>, ()>,
}

impl CopyHandle {
    /// Hands over a job. Never waits for the disk. The caller has one job in flight at a time.
    pub fn send(&self, job: CopyJob) {
        self.worker.add(|next| *next = Some(job));
    }

    /// Waits until the thread has ended.
    ///
    /// # Errors
    /// [`ErrorKind::BrokenPipe`]: the thread has panicked.
    pub fn stop(self) -> io::Result<()> {
        self.worker.stop().map(drop)
    }
}

impl fmt::Debug for CopyHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CopyHandle")
    }
}

fn header(boots: u64, content: &[u8]) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..20].copy_from_slice(&boots.to_le_bytes());
    bytes[20..28].copy_from_slice(&(content.len() as u64).to_le_bytes());
    bytes
}

/// Returns the copy with these bytes. `None` if they are none.
fn decode(mut bytes: Vec<u8>) -> Option<FoundCopy> {
    let known = bytes.len() >= HEADER && bytes[..8] == MAGIC && bytes[8..12] == VERSION.to_le_bytes();
    if !known {
        return None;
    }
    let boots = u64_at(&bytes, 12);
    let end = usize::try_from(u64_at(&bytes, 20)).ok()?.checked_add(HEADER)?;
    let check = bytes.get(end..end.checked_add(CHECK)?)?;
    if check != crc32c(&bytes[..end]).to_le_bytes() {
        return None;
    }
    bytes.truncate(end);
    bytes.drain(..HEADER);
    Some(FoundCopy::Whole { boots, content: bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::is_full;
    use crate::testing::{Crash, SimDisk};

    fn content(disk: &SimDisk, boots: u64) -> Option<Vec<u8>> {
        CopyFile::new(disk.clone(), boots).adopt().unwrap().map(|adopted| adopted.content)
    }

    fn written(disk: &SimDisk, boots: u64, content: &[u8]) {
        let end = CopyFile::new(disk.clone(), boots).replace(content);
        assert!(matches!(end, CopyEnd::Written), "{end:?}");
    }

    #[test]
    fn a_start_adopts_the_copy_of_the_start_before_it_only() {
        let mut disk = SimDisk::new(1);
        assert_eq!(content(&disk, 1), None, "there is none yet");
        written(&disk, 1, b"anna");
        for boots in 2..5 {
            let next = disk.crash(Crash::Power);
            assert_eq!(content(&next, boots + 1), None, "another start was in between");
            assert_eq!(content(&next, boots).as_deref(), Some(&b"anna"[..]));
            assert_eq!(
                content(&next, boots).as_deref(),
                Some(&b"anna"[..]),
                "a start that was not counted is tried again"
            );
            assert_eq!(content(&next, boots + 2), None, "now it is of this start");
            disk = next;
        }
    }

    /// The start needs the copy, even if it cannot be refused to the starts after it.
    #[test]
    fn a_copy_that_cannot_be_taken_over_is_still_there() {
        for step in 0..9 {
            let disk = SimDisk::new(step);
            written(&disk, 7, b"anna");
            disk.fail_nth(step, libc::EIO);
            // Reading it fails in the first steps.
            if let Ok(adopted) = CopyFile::new(disk.clone(), 8).adopt() {
                let adopted = adopted.expect("the copy is there");
                assert_eq!(adopted.content, b"anna");
                let after = disk.crash(Crash::Power);
                assert_eq!(content(&after, 9).is_some(), adopted.is_of_this_start, "step {step}");
                assert!(content(&disk.crash(Crash::Power), 8).is_some(), "step {step}");
            }
        }
    }

    #[test]
    fn an_interrupted_replacement_leaves_the_old_or_the_new_copy() {
        let (mut old, mut new) = (0, 0);
        for seed in 0..50 {
            for step in 0..9 {
                let disk = SimDisk::new(seed);
                written(&disk, 7, b"anna");
                written(&disk, 7, &[b'b'; 2000]);
                disk.die_at(step);
                let end = CopyFile::new(disk.clone(), 7).replace(b"carl, after both");
                for how in [Crash::Process, Crash::Power] {
                    let found = content(&disk.crash(how), 8);
                    match (&end, found.as_deref()) {
                        (CopyEnd::Written, Some(b"carl, after both")) => new += 1,
                        (CopyEnd::Removed(_), None) => {}
                        (CopyEnd::Refused(_), Some(b"carl, after both")) => new += 1,
                        (CopyEnd::Refused(_), Some(found)) if found == [b'b'; 2000] => old += 1,
                        other => panic!("seed {seed}, step {step}, {how:?}: {other:?}"),
                    }
                }
            }
        }
        assert!(old > 0 && new > 0, "{old} old, {new} new");
    }

    #[test]
    fn a_copy_that_cannot_be_replaced_is_removed() {
        for step in 0..6 {
            let disk = SimDisk::new(step);
            written(&disk, 7, b"anna");
            disk.fail_nth(step, libc::EIO);
            let end = CopyFile::new(disk.clone(), 7).replace(b"nobody");
            match end {
                CopyEnd::Removed(_) => {
                    assert_eq!(content(&disk.crash(Crash::Power), 8), None, "step {step}");
                }
                // Reserving the space of the next copy may fail.
                CopyEnd::Written => assert!(step >= 5, "step {step}"),
                CopyEnd::Refused(error) => panic!("step {step}: {error}"),
            }
            disk.heal();
            written(&disk, 7, b"nobody");
            assert_eq!(content(&disk.crash(Crash::Power), 8).as_deref(), Some(&b"nobody"[..]));
        }
    }

    #[test]
    fn a_full_disk_takes_the_next_copies() {
        let disk = SimDisk::new(4);
        written(&disk, 7, &[b'a'; 40_000]);
        disk.limit(disk.taken());
        for size in [40_000, 40_001, 60_000, 1, 60_000] {
            written(&disk, 7, &vec![b'b'; size]);
            assert_eq!(content(&disk.crash(Crash::Power), 8).map(|found| found.len()), Some(size));
        }
        // There is no room for one that grows by this much. The old one would be wrong.
        let end = CopyFile::new(disk.clone(), 7).replace(&[b'c'; 400_000]);
        assert!(matches!(&end, CopyEnd::Removed(error) if is_full(error)), "{end:?}");
        assert_eq!(content(&disk.crash(Crash::Power), 8), None);
    }

    #[test]
    fn a_damaged_copy_is_not_used() {
        let disk = SimDisk::new(2);
        written(&disk, 7, b"anna");
        let sound = disk.files()[COPY_FILE].clone();
        let mut others: Vec<Vec<u8>> = (0..sound.len()).map(|length| sound[..length].to_vec()).collect();
        others.extend((0..sound.len() * 8).map(|bit| {
            let mut flipped = sound.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            flipped
        }));
        for bytes in others {
            let mut disk = SimDisk::new(3);
            disk.put(COPY_FILE, &bytes);
            assert_eq!(FoundCopy::look(&mut disk).unwrap(), FoundCopy::Unreadable, "{bytes:?}");
            assert_eq!(content(&disk, 8), None);
        }
        let mut disk = SimDisk::new(3);
        disk.put(COPY_FILE, &[&sound[..], &[7; 100]].concat());
        let whole = FoundCopy::Whole { boots: 7, content: b"anna".to_vec() };
        assert_eq!(FoundCopy::look(&mut disk).unwrap(), whole, "the rest of a longer copy may follow");
    }

    #[test]
    fn the_format_is_versioned() {
        let disk = SimDisk::new(1);
        written(&disk, 258, b"anna");
        let mut bytes = b"SluiceCp\x01\0\0\0\x02\x01\0\0\0\0\0\0\x04\0\0\0\0\0\0\0anna".to_vec();
        bytes.extend(crc32c(&bytes).to_le_bytes());
        assert_eq!(disk.files()[COPY_FILE], bytes);
    }
}
