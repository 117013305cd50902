//! Answers the requests of the kernel. Answers to syncs leave when the syncs have ended.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice, Read as _, Write as _};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::Options;
use crate::disk::{Disk, Refused, Ticket};
use crate::protocol::{HEADER, Outcome, Request, WRITE_MAX, handle};

/// How often a server tries whether its file system is mounted, and how long it waits between two tries.
const MOUNT_TRIES: u32 = 5_000;
const MOUNT_INTERVAL: Duration = Duration::from_millis(1);
/// The size of the header of an answer.
const ANSWER_HEADER: usize = 16;

/// Opens the device over which the kernel sends requests, for one file system.
///
/// # Errors
/// The system has no FUSE, or this user may not use it.
pub fn device() -> io::Result<File> {
    let device = File::options().read(true).write(true).open("/dev/fuse")?;
    rustix::fs::fcntl_setfl(&device, OFlags::NONBLOCK)?;
    Ok(device)
}

/// A disk and the syncs that it has not answered.
pub struct FalseDisk {
    disk: Disk,
    options: Options,
    started: Instant,
    syncs: VecDeque<Waiting>,
}

/// A sync whose answer waits.
struct Waiting {
    /// When it ends, as a time since the start of the disk.
    end: Duration,
    ticket: Ticket,
    unique: u64,
    answer: Vec<u8>,
}

/// What has happened on a disk.
#[derive(Clone, Copy, Debug)]
pub struct Served {
    /// The number of sectors and changes of names that cuts have lost.
    pub lost: u64,
    /// The number of direct writes that had to be durable.
    pub direct: u64,
}

impl FalseDisk {
    /// Returns an empty disk.
    pub fn new(options: Options) -> Self {
        Self { disk: Disk::new(options.forgets), options, started: Instant::now(), syncs: VecDeque::new() }
    }

    /// Answers requests until the file system is unmounted.
    ///
    /// `device` comes from [`device`]. It may be mounted some seconds later.
    pub fn serve(mut self, mut device: File) -> Served {
        let (mut request, mut waited) = (vec![0; HEADER + WRITE_MAX as usize + 4096], 0);
        loop {
            self.end_syncs(&device);
            let length = match device.read(&mut request) {
                Ok(length) => length,
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::AGAIN) => {
                        self.wait(&device);
                        continue;
                    }
                    // It is not mounted yet.
                    Some(Errno::PERM) if waited < MOUNT_TRIES => {
                        waited += 1;
                        std::thread::sleep(MOUNT_INTERVAL);
                        continue;
                    }
                    // The request was interrupted.
                    Some(Errno::NOENT | Errno::INTR) => continue,
                    _ => return Served { lost: self.disk.lost, direct: self.disk.direct },
                },
            };
            let request = Request::new(&request[..length]);
            match handle(&mut self.disk, &self.options, &request) {
                Ok(Outcome::Answer(answer)) => send(&device, request.unique, Ok(answer)),
                Ok(Outcome::WhenSynced(ticket, answer)) => {
                    let end = self.options.sync_time.end(self.started.elapsed());
                    self.syncs.push_back(Waiting { end, ticket, unique: request.unique, answer });
                }
                Ok(Outcome::Synced(ticket)) => {
                    let ended = self.disk.end_sync(ticket);
                    send(&device, request.unique, ended.map(|()| Vec::new()));
                }
                Ok(Outcome::Nothing) => {}
                Err(refused) => send(&device, request.unique, Err(refused)),
            }
        }
    }

    /// Ends the syncs whose time has come, and those that a cut has made fail. They end in the order of their beginning.
    fn end_syncs(&mut self, device: &File) {
        let Self { disk, started, .. } = &*self;
        let is_due =
            |sync: &Waiting| disk.is_cut(sync.ticket) || (!disk.holds_syncs && sync.end <= started.elapsed());
        let due = self.syncs.iter().take_while(|sync| is_due(sync)).count();
        for sync in self.syncs.drain(..due) {
            let ended = self.disk.end_sync(sync.ticket);
            send(device, sync.unique, ended.map(|()| sync.answer));
        }
    }

    /// Waits for a request, or until a sync ends.
    fn wait(&self, device: &File) {
        let until = self
            .syncs
            .front()
            .filter(|_| !self.disk.holds_syncs)
            .map(|sync| sync.end.saturating_sub(self.started.elapsed()));
        let timeout = until
            .map(|until| Timespec { tv_sec: until.as_secs() as i64, tv_nsec: until.subsec_nanos().into() });
        // If this fails, the next read says why.
        let _ = poll(&mut [PollFd::new(device, PollFlags::IN)], timeout.as_ref());
    }
}

fn send(mut device: &File, unique: u64, answer: Result<Vec<u8>, Refused>) {
    let (error, body) =
        answer.map_or_else(|refused| (-errno(refused).raw_os_error(), Vec::new()), |body| (0, body));
    let mut header = [0; ANSWER_HEADER];
    header[..4].copy_from_slice(&((ANSWER_HEADER + body.len()) as u32).to_le_bytes());
    header[4..8].copy_from_slice(&error.to_le_bytes());
    header[8..].copy_from_slice(&unique.to_le_bytes());
    // The request may have been interrupted.
    drop(device.write_vectored(&[IoSlice::new(&header), IoSlice::new(&body)]));
}

fn errno(refused: Refused) -> Errno {
    match refused {
        Refused::Missing => Errno::NOENT,
        Refused::Exists => Errno::EXIST,
        Refused::NotEmpty => Errno::NOTEMPTY,
        Refused::Invalid => Errno::INVAL,
        Refused::Unknown => Errno::NOSYS,
        Refused::Unsupported => Errno::OPNOTSUPP,
        Refused::Cut => Errno::IO,
    }
}
