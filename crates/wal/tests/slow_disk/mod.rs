//! A disk whose syncs take as long as the test wants.

use std::io::{self, IoSlice};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};

use wal::{BootId, Disk, PendingSync};
use wal_testing::{FalseFile, SimDisk};

/// A disk whose syncs wait for a message.
pub(crate) struct SlowDisk {
    disk: SimDisk,
    go: Arc<Mutex<Receiver<()>>>,
}

impl SlowDisk {
    /// Creates the disk. Each message to `go` lets one sync of a file continue. When the sender is dropped,
    /// all syncs continue.
    pub(crate) fn new(disk: &SimDisk, go: Receiver<()>) -> Self {
        Self { disk: disk.clone(), go: Arc::new(Mutex::new(go)) }
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
        self.disk.truncate(file, length)
    }
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }
    fn reserve(&mut self, name: &str, bytes: u64) -> io::Result<()> {
        self.disk.reserve(name, bytes)
    }
}
