//! A directory that is read and never changed: what a recovery would change is kept in memory.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::disk::{Disk, LOCK, PendingSync};
use crate::note::BootId;

/// A directory for looking at what a recovery would do. Files that are created, cut, renamed or removed change only in memory.
/// A file of the directory itself cannot be written.
#[derive(Debug)]
pub struct PreviewDisk {
    path: PathBuf,
    /// The files as the recovery sees them, by their names.
    files: BTreeMap<String, PreviewFile>,
    lock: Option<File>,
}

/// A file of a [`PreviewDisk`].
#[derive(Clone, Debug)]
pub enum PreviewFile {
    /// A file of the directory, and its length.
    Real { path: Arc<Path>, length: Arc<Mutex<u64>> },
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
            let metadata = entry.metadata()?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            if metadata.is_file() {
                let length = Arc::new(Mutex::new(metadata.len()));
                files.insert(name, PreviewFile::Real { path: entry.path().into(), length });
            }
        }
        Ok(Self { path, files, lock: None })
    }

    fn file(&self, name: &str) -> io::Result<PreviewFile> {
        self.files.get(name).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Nobody panics while holding one of these locks, and each value is valid at any time.
fn locked<T>(value: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Disk for PreviewDisk {
    type File = PreviewFile;

    /// Locks the directory if it has a lock file. Where no broker has ever been, nobody can be in the way.
    fn lock(&mut self) -> io::Result<()> {
        if self.lock.is_some() || !self.files.contains_key(LOCK) {
            return Ok(());
        }
        let file = File::open(self.path.join(LOCK))?;
        match file.try_lock() {
            Ok(()) => {
                self.lock = Some(file);
                Ok(())
            }
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn boot_id(&mut self) -> Option<BootId> {
        crate::disk::boot_id()
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
        let file = PreviewFile::New(Arc::default());
        self.files.insert(name.to_owned(), file.clone());
        Ok(file)
    }

    fn open(&mut self, name: &str) -> io::Result<PreviewFile> {
        self.file(name)
    }

    fn write_vectored_at(
        &mut self,
        file: &mut PreviewFile,
        offset: u64,
        pieces: &[IoSlice<'_>],
    ) -> io::Result<usize> {
        let PreviewFile::New(bytes) = file else { return Err(io::ErrorKind::ReadOnlyFilesystem.into()) };
        let (mut bytes, piece) = (locked(bytes), pieces.first().map_or(&[][..], |piece| &piece[..]));
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
            PreviewFile::Real { path, length } => {
                let left = locked(length).saturating_sub(offset);
                let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(into.len());
                File::open(path)?.read_at(&mut into[..wanted], offset)
            }
            PreviewFile::New(bytes) => {
                let bytes = locked(bytes);
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
            PreviewFile::Real { length, .. } => *locked(length),
            PreviewFile::New(bytes) => locked(bytes).len() as u64,
        })
    }

    fn truncate(&mut self, file: &mut PreviewFile, to: u64) -> io::Result<()> {
        match file {
            PreviewFile::Real { length, .. } => {
                let mut length = locked(length);
                *length = to.min(*length);
            }
            PreviewFile::New(bytes) => locked(bytes).resize(usize::try_from(to).unwrap_or(usize::MAX), 0),
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
