//! Files that are overwritten in place.
//!
//! ```text
//!             forgotten                      the current file is full
//!   N.log ─────────────────▶ N.spare ───────────────────────────────────▶ M.log, over the old contents
//!                               │   ▲
//!                               │   └─ filled: again, or as a new file
//!                               └── the disk is full or short, or the log is closed or opened: removed
//! ```
//!
//! A spare already has pages in memory and blocks on the disk. A new file must be given both, one by one. For
//! large records that costs more than copying the records (docs/decisions/0016).
//!
//! Leftovers of an earlier use are never mistaken for new data: every batch carries its generation
//! (`batch.rs`), and the header of the file carries its number. When the log moves on to the next file, the
//! old one is cut where its batches end. The last file is cut when the log is closed, or else by the next
//! open.
//!
//! Only files that this process has written without a failure are overwritten. A file from before the open
//! may be damaged, or somebody may have linked it under another name. A file that failed a write or a sync
//! may have bad blocks.
//!
//! **Filled** spares consist of written and synced bytes from end to end, and none of their pages is in the page cache. So a sync of the
//! file writes neither a block's place nor the length of the file, and the file may be written directly (`direct.rs`). A forgotten
//! file is a little shorter than a full one, because it was cut after its last batch. So it is filled again. This is done on a thread
//! of its own, and only while somebody often waits for syncs: a log that is not synced gains nothing.

use std::io;

use super::direct::DirectFile;
use super::{Log, Open};
use crate::disk::{Disk, PendingSync};
use crate::file;

/// A file that will be overwritten.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spare {
    /// The number in its name.
    number: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It is as long as it was when it was forgotten.
    Forgotten,
    /// A [`FillJob`] is in flight. `new` says that the job creates the file.
    Filling { new: bool },
    /// The bytes that it consists of.
    Filled(u64),
}

impl Spare {
    /// Returns true if it takes disk space that it would give back.
    pub(super) fn has_space(self) -> bool {
        !matches!(self.state, State::Filling { new: true })
    }

    fn is_filled(self) -> bool {
        matches!(self.state, State::Filled(_))
    }

    fn is_filling(self) -> bool {
        matches!(self.state, State::Filling { .. })
    }
}

/// A file that was taken to be written.
pub(super) struct Taken<F> {
    pub handle: F,
    /// How many bytes of an earlier use it holds.
    pub former: u64,
    pub direct: DirectFile<F>,
}

/// A spare to be filled. The job may run in parallel with everything else.
#[must_use = "the log waits for the end of the job"]
pub struct FillJob {
    number: u64,
    bytes: u64,
    fill: PendingSync,
}

/// The result of a [`FillJob`].
#[derive(Debug)]
#[must_use = "the log waits for the end of the job"]
pub struct FillEnd {
    number: u64,
    bytes: u64,
    result: io::Result<()>,
}

impl FillJob {
    /// Fills the file and waits for it: some milliseconds on a fast disk.
    pub fn run(self) -> FillEnd {
        let Self { number, bytes, fill } = self;
        FillEnd { number, bytes, result: fill() }
    }
}

impl std::fmt::Debug for FillJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FillJob({}, {} bytes)", self.number, self.bytes)
    }
}

/// The default number of forgotten files that are kept (see [`Options`](super::Options)). With fewer, new
/// files are made during long syncs. Each spare takes the disk space of a file permanently, and two of them
/// replace the reserve (docs/decisions/0016).
pub const SPARE_FILES_MAX: usize = 3;

impl<D: Disk> Log<D> {
    /// Opens the file with this number, to be written from its start: a spare or a new file.
    pub(super) fn take_file(&mut self, number: u64) -> io::Result<Taken<D::File>> {
        let name = file::name(number);
        let wants_filled = self.wants_direct();
        let usable = |spare: &&Spare| !spare.is_filling();
        let chosen = self.spares.iter().position(|spare| usable(&spare) && spare.is_filled() == wants_filled);
        let chosen = chosen.or_else(|| self.spares.iter().position(|spare| usable(&spare)));
        let Some(spare) = chosen.and_then(|at| self.spares.remove(at)) else {
            let handle = self.disk.create(&name)?;
            return Ok(Taken { handle, former: 0, direct: DirectFile::new(None, 0) });
        };
        let taken = self.disk.rename(&file::spare_name(spare.number), &name).and_then(|()| {
            let (handle, filled) = match spare.state {
                State::Filled(bytes) => (self.disk.open(&name), bytes),
                State::Forgotten | State::Filling { .. } => (self.disk.open_over(&name), 0),
            };
            let mut handle = handle?;
            let former = self.disk.len(&mut handle)?;
            let direct = if filled > 0 { self.disk.open_direct(&name).ok() } else { None };
            Ok(Taken { handle, former, direct: DirectFile::new(direct, filled.min(former)) })
        });
        if taken.is_err() {
            // If the rename succeeded and the open failed, the file is a leftover under its new name.
            let _ = self.disk.remove(&file::spare_name(spare.number));
        }
        // The reserve is taken again now, before other files can take the space, because the remaining spares
        // may be too small to replace it.
        self.take_reserve();
        taken
    }

    /// Returns true if a filled spare is at hand.
    pub(super) fn has_filled_spare(&self) -> bool {
        self.spares.iter().any(|spare| spare.is_filled())
    }

    /// Returns true if [`Log::begin_fill`] has something to do.
    pub fn wants_fill(&self) -> bool {
        let soon = match &self.current {
            Some(current) => !self.has_filled_file() || current.end >= self.options.file_bytes / 2,
            None => true,
        };
        let is_ready = self.spares.iter().any(|spare| spare.is_filled() || spare.is_filling());
        let may = self.keeps_spares
            && self.options.spare_files_max > 0
            && !self.is_on_reserve()
            && self.next_file >= self.no_fill_before;
        self.wants_direct() && may && soon && !is_ready
    }

    /// Begins to fill a spare for the next file, if handovers often wait for syncs and none is ready. The caller runs the job on another
    /// thread and passes its result to [`Log::end_fill`].
    pub fn begin_fill(&mut self) -> Option<FillJob> {
        if !self.wants_fill() {
            return None;
        }
        let bytes = self.options.file_bytes;
        let number = match self.spares.front_mut() {
            Some(spare) => {
                spare.state = State::Filling { new: false };
                spare.number
            }
            None => {
                let number = self.next_file;
                self.next_file += 1;
                self.spares.push_back(Spare { number, state: State::Filling { new: true } });
                number
            }
        };
        Some(FillJob { number, bytes, fill: self.disk.begin_fill(&file::spare_name(number), bytes) })
    }

    /// Takes the result of the job from [`Log::begin_fill`].
    pub fn end_fill(&mut self, FillEnd { number, bytes, result }: FillEnd) {
        let Some(at) = self.spares.iter().position(|spare| spare.number == number) else {
            // It was given up meanwhile.
            let _ = self.disk.remove(&file::spare_name(number));
            return;
        };
        match result {
            Ok(()) => {
                self.spares[at].state = State::Filled(bytes);
                self.spare_added();
            }
            Err(_) => {
                self.spares.remove(at);
                let _ = self.disk.remove(&file::spare_name(number));
                self.no_fill_before = self.next_file + 1;
                self.take_reserve();
            }
        }
    }

    /// With `false`, gives up all spares and keeps none from now on, because others need the disk space. With `true`, keeps
    /// forgotten files as spares again.
    pub fn keep_spares(&mut self, keeps: bool) {
        self.keeps_spares = keeps;
        if !keeps {
            self.drop_spares();
            // The spares may have replaced the reserve.
            self.take_reserve();
        }
    }

    /// Removes a forgotten file, or renames it to a spare if it can be overwritten.
    pub(super) fn remove_or_spare(&mut self, number: u64) -> io::Result<()> {
        let (name, spare) = (file::name(number), file::spare_name(number));
        if self.keeps_spares
            && self.spares.len() < self.options.spare_files_max
            && !self.is_on_reserve()
            && self.closed.is_sound(number)
        {
            if self.disk.rename(&name, &spare).is_ok() {
                self.spares.push_back(Spare { number, state: State::Forgotten });
                self.spare_added();
                return Ok(());
            }
            // A disk may report a failure although it has renamed the file.
            let _ = self.disk.remove(&spare);
        }
        match self.disk.remove(&name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes the spares. The next open retries those that cannot be removed.
    pub(super) fn drop_spares(&mut self) {
        for spare in self.spares.drain(..) {
            let _ = self.disk.remove(&file::spare_name(spare.number));
        }
    }
}

/// Cuts off the bytes that an earlier use of the file has left. If the disk refuses, they look like an
/// interrupted write and are ignored.
pub(super) fn cut_former<D: Disk>(disk: &mut D, open: &mut Open<D::File>) {
    if open.former > open.end {
        let _ = disk.truncate(&mut open.handle, open.end);
        open.former = 0;
        open.direct = DirectFile::new(None, 0);
    }
}
