//! A log file that is renamed when it has become large.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A log file, and the older ones beside it: `NAME.0` is the newest of them.
///
/// Each line is written with one system call, so that another program that reads the file sees whole lines.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    /// The size at which it is rotated, in bytes. 0 means never.
    rotation_bytes: u64,
    /// The number of older files that are kept.
    rotation_count: u32,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: File,
    /// The bytes in the file, or since the last rotation that failed.
    bytes: u64,
}

impl State {
    fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { file, bytes })
    }
}

impl LogFile {
    /// Opens the file, and creates it and its directory if they do not exist.
    ///
    /// # Errors
    /// It cannot be opened for writing.
    pub fn open(path: PathBuf, rotation_bytes: u64, rotation_count: u32) -> io::Result<Self> {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        let state = Mutex::new(State::open(&path)?);
        Ok(Self { path, rotation_bytes, rotation_count, state })
    }

    /// Opens the file of this name again, after another program has renamed it.
    ///
    /// # Errors
    /// It cannot be opened. Then the log goes on in the file that is open.
    pub fn reopen(&self) -> io::Result<()> {
        // No rotation may come between, which would make the opened file an older one.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = State::open(&self.path)?;
        Ok(())
    }

    fn older(&self, n: u32) -> PathBuf {
        let mut name = OsString::from(&self.path);
        name.push(format!(".{n}"));
        name.into()
    }

    /// Renames each file to the next older name, and begins a new one. If the file itself is missing, because it was renamed
    /// and no new one could be opened, only that is tried again.
    fn rotate(&self) -> io::Result<State> {
        if !self.path.try_exists()? {
            return State::open(&self.path);
        }
        for n in (1..self.rotation_count).rev() {
            match std::fs::rename(self.older(n - 1), self.older(n)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        match self.rotation_count {
            0 => std::fs::remove_file(&self.path)?,
            _ => std::fs::rename(&self.path, self.older(0))?,
        }
        State::open(&self.path)
    }
}

impl Write for &LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = self.rotation_bytes > 0 && state.bytes + line.len() as u64 > self.rotation_bytes;
        if is_full && state.bytes > 0 {
            match self.rotate() {
                Ok(new) => *state = new,
                // The file goes on growing: a log that is too long is better than none. It is tried again when the file has
                // grown by as much again.
                Err(_) => state.bytes = 0,
            }
        }
        let written = state.file.write(line)?;
        state.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("sluice-log-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        /// Returns the names and contents of the files.
        fn files(&self) -> Vec<(String, String)> {
            let mut files: Vec<_> = std::fs::read_dir(&self.0)
                .unwrap()
                .map(|entry| {
                    let entry = entry.unwrap();
                    let text = std::fs::read_to_string(entry.path()).unwrap();
                    (entry.file_name().into_string().unwrap(), text)
                })
                .collect();
            files.sort();
            files
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    fn pairs(files: &[(&str, &str)]) -> Vec<(String, String)> {
        files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn a_full_file_is_renamed_and_the_oldest_is_deleted() {
        let directory = Directory::new("rotation");
        let log = LogFile::open(directory.0.join("a.log"), 6, 2).unwrap();
        let write = |line: &str| (&log).write_all(line.as_bytes()).unwrap();
        ["1\n", "2\n", "3\n"].into_iter().for_each(write);
        assert_eq!(directory.files(), pairs(&[("a.log", "1\n2\n3\n")]));
        write("4\n");
        assert_eq!(directory.files(), pairs(&[("a.log", "4\n"), ("a.log.0", "1\n2\n3\n")]));
        // A line that is longer than a file has one of its own.
        ["5 is long\n", "6\n"].into_iter().for_each(write);
        assert_eq!(
            directory.files(),
            pairs(&[("a.log", "6\n"), ("a.log.0", "5 is long\n"), ("a.log.1", "4\n")])
        );
        // The size of a file that exists counts.
        let log = LogFile::open(directory.0.join("a.log"), 6, 0).unwrap();
        (&log).write_all(b"7\n8\n9\n").unwrap();
        assert_eq!(directory.files()[0], ("a.log".to_owned(), "7\n8\n9\n".to_owned()));
    }

    #[test]
    fn a_rotation_that_fails_destroys_nothing() {
        let directory = Directory::new("failing");
        let path = directory.0.join("a.log");
        let log = LogFile::open(path.clone(), 4, 2).unwrap();
        let write = |line: &str| (&log).write_all(line.as_bytes()).unwrap();
        write("1\n2\n");
        // The older file cannot be renamed: a directory does not replace a file.
        std::fs::create_dir(directory.0.join("a.log.0")).unwrap();
        std::fs::write(directory.0.join("a.log.1"), "old").unwrap();
        ["3\n", "4\n", "5\n"].into_iter().for_each(write);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "1\n2\n3\n4\n5\n");
        // The file was renamed, and no new one could be opened.
        std::fs::remove_dir(directory.0.join("a.log.0")).unwrap();
        std::fs::rename(&path, directory.0.join("a.log.0")).unwrap();
        ["6\n", "7\n"].into_iter().for_each(write);
        assert_eq!(
            directory.files(),
            pairs(&[("a.log", "7\n"), ("a.log.0", "1\n2\n3\n4\n5\n6\n"), ("a.log.1", "old")])
        );
    }

    #[test]
    fn a_renamed_file_is_opened_again() {
        let directory = Directory::new("reopened");
        let log = LogFile::open(directory.0.join("new/a.log"), 0, 2).unwrap();
        let (path, moved) = (directory.0.join("new/a.log"), directory.0.join("new/moved"));
        (&log).write_all(b"1\n").unwrap();
        std::fs::rename(&path, &moved).unwrap();
        (&log).write_all(b"2\n").unwrap();
        log.reopen().unwrap();
        (&log).write_all(b"3\n").unwrap();
        assert_eq!(std::fs::read_to_string(moved).unwrap(), "1\n2\n");
        assert_eq!(std::fs::read_to_string(path).unwrap(), "3\n");
    }
}
