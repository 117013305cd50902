//! A directory that is read and never changed: what a recovery would change is kept in memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use crate::disk::{Disk, PendingSync, boot_id, locked};
use crate::files::LOCK;
use crate::note::BootId;

/// A directory for looking at what a recovery would do. Files that are created, cut, renamed or removed change only in memory.
/// A file of the directory itself cannot be written.
#[derive(Debug)]
pub struct PreviewDisk {
    path: PathBuf,
    /// The files as the recovery sees them, by their names.
    files: BTreeMap<String, Entry>,
    lock: Option<File>,
}

/// A name of a [`PreviewDisk`].
#[derive(Clone, Debug)]
enum Entry {
    /// A file of the directory, and the length to which it was cut.
    Real(PathBuf, Arc<AtomicU64>),
    New(Bytes),
}

/// The contents of a file that was created in memory.
type Bytes = Arc<Mutex<Vec<u8>>>;

/// An open file of a [`PreviewDisk`].
#[derive(Clone, Debug)]
pub enum PreviewFile {
    /// A file of the directory, and the length to which it was cut.
    Real(Arc<File>, Arc<AtomicU64>),
    /// A file that was created in memory.
    New(Arc<Mutex<Vec<u8>>>),
}

impl PreviewDisk {
    /// Opens the directory at `path`, which must exist.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn new(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref().to_path_buf();
        let mut files = BTreeMap::new();
        for entry in std::fs::read_dir(&path)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            if entry.file_type()?.is_file() {
                files.insert(name, Entry::Real(entry.path(), Arc::new(AtomicU64::new(u64::MAX))));
            }
        }
        Ok(Self { path, files, lock: None })
    }

    /// Returns an empty directory that exists in memory only.
    pub fn nothing() -> Self {
        Self { path: PathBuf::new(), files: BTreeMap::new(), lock: None }
    }
}

/// Nobody panics while holding one of these locks.
fn contents(bytes: &Bytes) -> std::sync::MutexGuard<'_, Vec<u8>> {
    bytes.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Disk for PreviewDisk {
    type File = PreviewFile;

    /// Locks the directory if it has a lock file. Where no broker has ever been, nobody can be in the way.
    fn lock(&mut self) -> io::Result<()> {
        if self.lock.is_some() || !self.files.contains_key(LOCK) {
            return Ok(());
        }
        self.lock = Some(locked(File::open(self.path.join(LOCK))?)?);
        Ok(())
    }

    fn boot_id(&mut self) -> Option<BootId> {
        boot_id()
    }

    fn read_notes(&mut self) -> io::Result<Vec<u8>> {
        match std::fs::read(self.path.join(LOCK)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            read => read,
        }
    }

    fn list(&mut self) -> io::Result<Vec<String>> {
        Ok(self.files.keys().cloned().collect())
    }

    fn create(&mut self, name: &str) -> io::Result<PreviewFile> {
        if self.files.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let bytes = Bytes::default();
        self.files.insert(name.to_owned(), Entry::New(bytes.clone()));
        Ok(PreviewFile::New(bytes))
    }

    fn open(&mut self, name: &str) -> io::Result<PreviewFile> {
        Ok(match self.files.get(name).ok_or(io::ErrorKind::NotFound)? {
            Entry::Real(path, cut) => PreviewFile::Real(File::open(path)?.into(), cut.clone()),
            Entry::New(bytes) => PreviewFile::New(bytes.clone()),
        })
    }

    fn write_vectored_at(
        &mut self,
        file: &mut PreviewFile,
        offset: u64,
        pieces: &[IoSlice<'_>],
    ) -> io::Result<usize> {
        let PreviewFile::New(bytes) = file else { return Err(io::ErrorKind::ReadOnlyFilesystem.into()) };
        let (mut bytes, piece) = (contents(bytes), pieces.first().map_or(&[][..], |piece| &piece[..]));
        let offset = usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let end = offset + piece.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[offset..end].copy_from_slice(piece);
        Ok(piece.len())
    }

    fn begin_sync(&mut self, _file: &mut PreviewFile) -> PendingSync {
        Box::new(|| Ok(()))
    }

    fn begin_sync_dir(&mut self) -> PendingSync {
        Box::new(|| Ok(()))
    }

    fn read_at(&mut self, file: &mut PreviewFile, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        match file {
            PreviewFile::Real(file, cut) => {
                let left = cut.load(Relaxed).saturating_sub(offset);
                let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(into.len());
                file.read_at(&mut into[..wanted], offset)
            }
            PreviewFile::New(bytes) => {
                let bytes = contents(bytes);
                let rest =
                    usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)).unwrap_or_default();
                let read = rest.len().min(into.len());
                into[..read].copy_from_slice(&rest[..read]);
                Ok(read)
            }
        }
    }

    fn len(&mut self, file: &mut PreviewFile) -> io::Result<u64> {
        Ok(match file {
            PreviewFile::Real(file, cut) => file.metadata()?.len().min(cut.load(Relaxed)),
            PreviewFile::New(bytes) => contents(bytes).len() as u64,
        })
    }

    fn truncate(&mut self, file: &mut PreviewFile, to: u64) -> io::Result<()> {
        match file {
            PreviewFile::Real(_, cut) => _ = cut.fetch_min(to, Relaxed),
            PreviewFile::New(bytes) => contents(bytes).resize(usize::try_from(to).unwrap_or(usize::MAX), 0),
        }
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let file = self.files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        self.files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.files.remove(name).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn reserve(&mut self, _name: &str, _bytes: u64) -> io::Result<()> {
        Ok(())
    }
}
