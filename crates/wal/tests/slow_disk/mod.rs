//! A disk whose syncs take as long as the test wants.

use std::io::{self, IoSlice};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::ThreadId;

use wal::{Blocks, BootId, Disk, Ended, PendingSync};
use wal_testing::{FalseFile, Op, SimDisk};

/// A disk whose syncs wait for a message.
pub(crate) struct SlowDisk {
    disk: SimDisk,
    go: Arc<Mutex<Receiver<()>>>,
    gate: Gate,
}

/// Lets direct writes end or not, and knows on which thread files were made, removed and cut.
#[derive(Clone, Default)]
pub(crate) struct Gate {
    state: Arc<(Mutex<GateState>, Condvar)>,
}

#[derive(Default)]
struct GateState {
    is_shut: bool,
    file_work: Vec<(ThreadId, Op)>,
}

impl Gate {
    /// Holds the ends of direct writes back.
    pub(crate) fn shut(&self) {
        self.state.0.lock().unwrap().is_shut = true;
    }

    pub(crate) fn open(&self) {
        self.state.0.lock().unwrap().is_shut = false;
        self.state.1.notify_all();
    }

    /// What this thread has done since the last call.
    pub(crate) fn take_file_work_here(&self) -> Vec<Op> {
        let here = std::thread::current().id();
        let work = std::mem::take(&mut self.state.0.lock().unwrap().file_work);
        work.into_iter().filter(|(thread, _)| *thread == here).map(|(_, op)| op).collect()
    }

    fn note(&self, op: Op) {
        self.state.0.lock().unwrap().file_work.push((std::thread::current().id(), op));
    }
}

impl SlowDisk {
    /// Creates the disk. Each message to `go` lets one sync of a file continue. When the sender is dropped,
    /// all syncs continue.
    pub(crate) fn new(disk: &SimDisk, go: Receiver<()>) -> Self {
        Self { disk: disk.clone(), go: Arc::new(Mutex::new(go)), gate: Gate::default() }
    }
}

impl SlowDisk {
    pub(crate) fn gate(&self) -> Gate {
        self.gate.clone()
    }
}

impl Disk for SlowDisk {
    type File = FalseFile;

    fn lock(&mut self) -> io::Result<()> {
        self.disk.lock()
    }
    fn boot_id(&mut self) -> Option<BootId> {
        self.disk.boot_id()
    }
    fn read_notes(&mut self) -> io::Result<Vec<u8>> {
        self.disk.read_notes()
    }
    fn write_note(&mut self, offset: u64, note: &[u8]) -> io::Result<()> {
        self.disk.write_note(offset, note)
    }
    fn list(&mut self) -> io::Result<Vec<String>> {
        self.disk.list()
    }
    fn create(&mut self, name: &str) -> io::Result<FalseFile> {
        self.gate.note(Op::Create);
        self.disk.create(name)
    }
    fn open(&mut self, name: &str) -> io::Result<FalseFile> {
        self.disk.open(name)
    }
    fn write_vectored_at(
        &mut self,
        file: &mut FalseFile,
        offset: u64,
        pieces: &[IoSlice<'_>],
    ) -> io::Result<usize> {
        self.disk.write_vectored_at(file, offset, pieces)
    }
    fn begin_sync(&mut self, file: &mut FalseFile) -> PendingSync {
        let (go, sync) = (Arc::clone(&self.go), self.disk.begin_sync(file));
        Box::new(move || {
            let _ = go.lock().unwrap().recv();
            sync()
        })
    }
    fn begin_sync_dir(&mut self) -> PendingSync {
        self.disk.begin_sync_dir()
    }
    fn read_at(&mut self, file: &mut FalseFile, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.disk.read_at(file, offset, into)
    }
    fn len(&mut self, file: &mut FalseFile) -> io::Result<u64> {
        self.disk.len(file)
    }
    fn truncate(&mut self, file: &mut FalseFile, length: u64) -> io::Result<()> {
        self.gate.note(Op::Truncate);
        self.disk.truncate(file, length)
    }
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.gate.note(Op::Rename);
        self.disk.rename(from, to)
    }
    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.gate.note(Op::Remove);
        self.disk.remove(name)
    }
    fn reserve(&mut self, name: &str, bytes: u64) -> io::Result<()> {
        self.gate.note(Op::Reserve);
        self.disk.reserve(name, bytes)
    }
    fn begin_fill(&mut self, name: &str, bytes: u64) -> PendingSync {
        self.disk.begin_fill(name, bytes)
    }
    fn open_direct(&mut self, name: &str) -> io::Result<FalseFile> {
        self.disk.open_direct(name)
    }
    fn begin_direct(
        &mut self,
        file: &mut FalseFile,
        offset: u64,
        blocks: Blocks,
        shard: u32,
    ) -> Result<(), (io::Error, Blocks)> {
        self.disk.begin_direct(file, offset, blocks, shard)
    }
    fn end_direct(&mut self, waits: bool) -> Option<Ended> {
        let (state, opened) = &*self.gate.state;
        let mut state = state.lock().unwrap();
        while state.is_shut {
            if !waits {
                return None;
            }
            state = opened.wait(state).unwrap();
        }
        self.disk.end_direct(true)
    }
}
