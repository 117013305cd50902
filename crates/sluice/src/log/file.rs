//! A log file that is renamed when it has become large, or at certain times.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use wal::files::{self, Sharing};
use wal::tighten::tighten_log_file;

use crate::config::{Rotation, Schedule};

/// A log file, and the older ones beside it: `NAME.0` is the newest of them.
///
/// Each line is written with one system call, so that another program that reads the file sees whole lines.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    rotation: Rotation,
    sharing: Sharing,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: File,
    /// The bytes in the file, or since the last rotation that failed.
    bytes: u64,
    /// When it is rotated next, in seconds since the epoch.
    due_s: u64,
}

impl State {
    /// Opens the file. What was written to it before the last time of the schedule goes into an older file with the next line.
    fn open(path: &Path, schedule: Option<Schedule>, sharing: Sharing) -> io::Result<Self> {
        let file = files::open_or_create(OpenOptions::new().append(true), path, sharing.log_file())?;
        let metadata = file.metadata()?;
        let bytes = metadata.len();
        let due_s = match schedule {
            Some(schedule) if bytes > 0 => schedule.next(seconds(metadata.modified()?)),
            Some(schedule) => schedule.next(seconds(SystemTime::now())),
            None => u64::MAX,
        };
        Ok(Self { file, bytes, due_s })
    }
}

/// Returns the seconds since the epoch.
fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl LogFile {
    /// Opens the file, and creates it and its directory if they do not exist.
    ///
    /// # Errors
    /// It cannot be opened for writing.
    pub fn open(path: PathBuf, rotation: Rotation, sharing: Sharing) -> io::Result<Self> {
        if let Some(directory) = path.parent() {
            files::create_directory(directory, sharing.log_directory())?;
        }
        tighten_log_file(&path, sharing);
        let state = Mutex::new(State::open(&path, rotation.schedule, sharing)?);
        Ok(Self { path, rotation, sharing, state })
    }

    /// Opens the file of this name again, after another program has renamed it.
    ///
    /// # Errors
    /// It cannot be opened. Then the log goes on in the file that is open.
    pub fn reopen(&self) -> io::Result<()> {
        // No rotation may come between, which would make the opened file an older one.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = State::open(&self.path, self.rotation.schedule, self.sharing)?;
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
            return State::open(&self.path, self.rotation.schedule, self.sharing);
        }
        for n in (1..self.rotation.count).rev() {
            match std::fs::rename(self.older(n - 1), self.older(n)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        match self.rotation.count {
            0 => std::fs::remove_file(&self.path)?,
            _ => std::fs::rename(&self.path, self.older(0))?,
        }
        State::open(&self.path, self.rotation.schedule, self.sharing)
    }

    /// Writes a line at this time, in seconds since the epoch.
    fn write_at(&self, line: &[u8], now_s: u64) -> io::Result<usize> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let max = self.rotation.bytes;
        let is_full = max > 0 && state.bytes + line.len() as u64 > max;
        let is_due = now_s >= state.due_s;
        if (is_full || is_due) && state.bytes > 0 {
            match self.rotate() {
                Ok(new) => *state = new,
                // The file goes on growing: a log that is too long is better than none. It is tried again when the file has
                // grown by as much again, or at the next time.
                Err(_) => state.bytes = 0,
            }
        }
        if let Some(schedule) = self.rotation.schedule.filter(|_| is_due) {
            state.due_s = schedule.next(now_s);
        }
        let written = state.file.write(line)?;
        state.bytes += written as u64;
        Ok(written)
    }
}

impl Write for &LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.write_at(line, seconds(SystemTime::now()))
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

    fn rotation(bytes: u64, count: u32) -> Rotation {
        Rotation { bytes, count, schedule: None }
    }

    fn pairs(files: &[(&str, &str)]) -> Vec<(String, String)> {
        files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn a_full_file_is_renamed_and_the_oldest_is_deleted() {
        let directory = Directory::new("rotation");
        let log = LogFile::open(directory.0.join("a.log"), rotation(6, 2), Sharing::Owner).unwrap();
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
        let log = LogFile::open(directory.0.join("a.log"), rotation(6, 0), Sharing::Owner).unwrap();
        (&log).write_all(b"7\n8\n9\n").unwrap();
        assert_eq!(directory.files()[0], ("a.log".to_owned(), "7\n8\n9\n".to_owned()));
    }

    #[test]
    fn a_file_is_renamed_at_the_times_of_its_schedule() {
        const DAY: u64 = 24 * 3600;
        let directory = Directory::new("schedule");
        let each_midnight = Rotation { schedule: Schedule::parse("$D0").ok(), ..rotation(0, 2) };
        let open = || LogFile::open(directory.0.join("a.log"), each_midnight, Sharing::Owner).unwrap();
        let log = open();
        let now_s = seconds(SystemTime::now());
        let midnight = now_s / DAY * DAY;
        let write = |line: &str, at_s| log.write_at(line.as_bytes(), at_s).unwrap();
        // At a time without lines there is nothing to rename.
        write("1\n", midnight + DAY);
        write("2\n", midnight + 2 * DAY - 1);
        assert_eq!(directory.files(), pairs(&[("a.log", "1\n2\n")]));
        write("3\n", midnight + 3 * DAY + 5);
        write("4\n", midnight + 4 * DAY - 1);
        assert_eq!(directory.files(), pairs(&[("a.log", "3\n4\n"), ("a.log.0", "1\n2\n")]));
        // The broker did not run at midnight.
        let file = OpenOptions::new().append(true).open(directory.0.join("a.log")).unwrap();
        file.set_modified(UNIX_EPOCH + std::time::Duration::from_secs(midnight - 1)).unwrap();
        (&open()).write_all(b"5\n").unwrap();
        assert_eq!(directory.files()[0], ("a.log".to_owned(), "5\n".to_owned()));
        assert_eq!(directory.files()[1], ("a.log.0".to_owned(), "3\n4\n".to_owned()));
    }

    #[test]
    fn a_rotation_that_fails_destroys_nothing() {
        let directory = Directory::new("failing");
        let path = directory.0.join("a.log");
        let log = LogFile::open(path.clone(), rotation(4, 2), Sharing::Owner).unwrap();
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
        let log = LogFile::open(directory.0.join("new/a.log"), rotation(0, 2), Sharing::Owner).unwrap();
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
