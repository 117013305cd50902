//! Recovery: from disks to what is on them. A start, `sluice doctor` and the simulations use the same function, [`recover`]. An offline
//! command needs the log only, and uses the first part of it, [`recover_log`].
//!
//! ```text
//!   the log, names of copies and streams ──> unknown owners ──> quarantine ──> copies ──> packs, streams ──> Recovered
//! ```
//!
//! Each step needs those before it:
//!
//! | step | why it comes here |
//! |---|---|
//! | 1. list the copies of unclaimed records ([`unclaimed`]) | step 2 skips the records of an owner with a copy: step 3 reads the copy first, then what the log has beyond it |
//! | 2. read the log | it says what else there must be |
//! | 3. divide the unknown owners: deleted, or unclaimed; read the copies of those that are known again | the whole catalog is known |
//! | 4. find what is damaged, and close the queues concerned ([`crate::quarantine`]) | no record was written yet: a start that is refused changes none. Unclaimed queues are closed, too |
//! | 5. keep the damaged files | later the log may delete its own files |
//! | 6. write which queues are closed, and sync it | they stay closed, even if the next step fails |
//! | 7. copy the records of unclaimed owners aside, and sync them | the copies have everything up to step 6, and the log still has all of its files |
//! | 8. if definitions are missing, and that is accepted: note that the damage was handled, in one batch with the new base of the catalog | with the new base, incarnations prove again that a queue was deleted, so the copies of step 7 must be there |
//! | 9. write what each start makes, as an entry of the catalog's group: what the start ends, used incarnations, the first users, the exchanges of settings | no queue may have the id of an unclaimed owner, and nobody can log in before users are synced |
//! | 10. open the packs, and remove those that nobody owns | the owners are known, the unclaimed ones, too |
//! | 11. remove the streams that nobody owns, and look for missing parts | as for packs |
//!
//! Steps 1 to 9 are [`recover_log`]. An offline command that needs no messages does steps 1 to 8. `sluice doctor` looks only: it does the
//! steps 1 to 4, 10 and 11 on disks that keep every change in memory ([`wal::PreviewDisk`]).

pub mod unclaimed;

use std::collections::HashSet;
use std::fmt;
use std::io;

use catalog::DeclareRules;
use catalog::access::{Access, Users};
use catalog::categories::QUEUE;
use catalog::ids::{NodeNumber, Origin, QueueId};
use wal::{
    Cut, Disk, Handover, Log, OpenError, Options, PackError, PackOptions, Packs, Records, Recovery,
    StreamError, StreamFlaw, Streams, WriteError,
};

use crate::facts::{NotAlone, Restored, RestoredQueue};
use crate::quarantine::{self, DefinitionsLost, Quarantined};
use unclaimed::Copies;

/// The directory of the packs, inside the data directory.
pub(crate) const PACKS_DIR: &str = "packs";

/// The directory of the streams, inside the data directory.
pub(crate) const STREAMS_DIR: &str = "streams";

/// Called once the damage is known, before anything is written: keeps copies of the damaged files.
pub type KeepDamaged<'a> = dyn FnMut(&Restored, &Recovery) -> io::Result<()> + 'a;

/// Opens a folder of the data directory. If it does not exist, it is made if the argument is true, else there is none. Nothing is made
/// before it is certain that the start is not refused.
pub type OpenFolder<'a, D> = dyn FnMut(bool) -> io::Result<Option<D>> + 'a;

/// What is read.
pub struct Disks<'a, D> {
    pub log: D,
    pub packs: &'a mut OpenFolder<'a, D>,
    pub streams: &'a mut OpenFolder<'a, D>,
    /// The copies of unclaimed records.
    pub unclaimed: &'a mut OpenFolder<'a, D>,
    pub log_options: Options,
    pub pack_options: PackOptions,
    pub keep_damaged: &'a mut KeepDamaged<'a>,
    /// The start of the node that reads, or the next one if it does not start.
    pub origin: Origin,
    /// The number of the node in its cluster. `None` if it is in none.
    pub in_cluster: Option<NodeNumber>,
    /// A mistake that a test wants.
    pub mutation: Option<Mutation>,
}

/// A deliberate mistake, which tests must find. A program without debug assertions makes none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Data that nobody claims is deleted.
    DeleteUnclaimed,
    /// Queues that may have lost records are not closed.
    ForgetQuarantine,
    /// A group whose records are missing is founded again.
    FoundAgain,
    /// Queues that may have lost records are closed, but only until the next start: it is not written.
    ForgetClosed,
}

fn has(mutation: Option<Mutation>, mistake: Mutation) -> bool {
    cfg!(debug_assertions) && mutation == Some(mistake)
}

/// What a recovery is for.
#[derive(Clone, Copy, Debug)]
pub enum Purpose<'a> {
    /// To look only. Nothing is written, and lost definitions are no error.
    Look,
    /// To change the directory of a broker that does not run.
    Offline,
    /// To start.
    Start(Start<'a>),
}

/// How a start recovers.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// True to start even if definitions may be lost.
    pub accept_lost_definitions: bool,
    /// The users if definitions are lost. `None` if there is no copy of them.
    pub users: Option<&'a Users>,
    /// The rules of the settings: they ask for exchanges.
    pub rules: &'a DeclareRules,
    /// The first users.
    pub access: &'a Access,
}

/// What was in the log.
pub struct RecoveredLog<D: Disk> {
    pub restored: Restored,
    pub log: Log<D>,
    /// The streams, if their folder exists. None was removed or checked.
    pub streams: Option<Streams<D>>,
    /// What the log says about its own files.
    pub recovery: Recovery,
    /// True if definitions were lost, and the users are those of their copy.
    pub took_users: bool,
    /// Why a start would be refused. Always `None` after a start.
    pub lost: Option<DefinitionsLost>,
}

/// What was on the disks. For the fields without a comment see [`RecoveredLog`].
pub struct Recovered<D: Disk> {
    pub restored: Restored,
    pub log: Log<D>,
    pub packs: Packs<D>,
    pub streams: Streams<D>,
    pub recovery: Recovery,
    /// Missing parts of streams.
    pub flaws: Vec<StreamFlaw>,
    pub took_users: bool,
    pub lost: Option<DefinitionsLost>,
}

/// Why there is no recovery.
#[derive(Debug)]
pub enum RecoverError {
    /// The log cannot be opened.
    Log(OpenError),
    /// The log may have lost definitions, and that is not accepted.
    Definitions(DefinitionsLost),
    /// The log of a member of a cluster may have lost definitions. That cannot be accepted: see [`recover_log`].
    OfMember(DefinitionsLost),
    /// The damaged files cannot be kept.
    Keep(io::Error),
    /// The log cannot be written.
    Write(io::Error),
    /// A folder cannot be opened.
    Folder { folder: &'static str, error: io::Error },
    /// The packs cannot be opened.
    Packs(PackError),
    /// The streams cannot be opened.
    Streams(StreamError),
    /// A copy of unclaimed records cannot be read.
    Unclaimed(io::Error),
    /// The directory is one of a cluster.
    NotAlone(NotAlone),
}

impl fmt::Display for RecoverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log(error) => write!(f, "cannot open the log: {error}"),
            Self::Definitions(lost) | Self::OfMember(lost) => write!(f, "{lost}"),
            Self::Keep(error) => write!(f, "cannot keep copies of the damaged log files: {error}"),
            Self::Write(error) => write!(f, "cannot write to the log: {error}"),
            Self::Folder { folder, error } => write!(f, "cannot open the directory {folder}: {error}"),
            Self::Packs(error) => write!(f, "cannot open the packs: {error}"),
            Self::Streams(error) => write!(f, "cannot open the streams: {error}"),
            Self::NotAlone(error) => write!(f, "{error}"),
            Self::Unclaimed(error) => write!(f, "cannot read the copies of unclaimed records: {error}"),
        }
    }
}

impl std::error::Error for RecoverError {}

/// Reads the disks. The order of its steps is explained in the module.
///
/// # Errors
/// See [`RecoverError`].
pub fn recover<D: Disk>(disks: Disks<'_, D>, purpose: Purpose<'_>) -> Result<Recovered<D>, RecoverError> {
    let Disks {
        log,
        packs,
        streams,
        unclaimed,
        log_options,
        pack_options,
        keep_damaged,
        origin,
        in_cluster,
        mutation,
    } = disks;
    let of_log = Disks {
        log,
        packs: &mut *packs,
        streams: &mut *streams,
        unclaimed,
        log_options,
        pack_options: pack_options.clone(),
        keep_damaged,
        origin,
        in_cluster,
        mutation,
    };
    let RecoveredLog { restored, log, streams: listed, recovery, took_users, lost } =
        recover_log(of_log, purpose)?;
    // A pack or stream that the catalog does not know may belong to a damaged record.
    let keep_unknown = !recovery.damage.is_empty() || restored.has_damaged();
    let packs = made(PACKS_DIR, packs)?;
    let packs =
        Packs::open(packs, pack_options, restored.extents(), keep_unknown).map_err(RecoverError::Packs)?;
    let mut streams = match listed {
        Some(streams) => streams,
        None => Streams::new(made(STREAMS_DIR, streams)?).map_err(RecoverError::Streams)?,
    };
    if !keep_unknown {
        let known = restored.catalog.queues().map(|record| record.id);
        let known: HashSet<u64> = known.chain(restored.unclaimed.keys().copied()).map(|id| id.0).collect();
        streams.keep(|stream| known.contains(&stream));
    }
    let flaws = streams.check();
    if let Purpose::Start(_) = purpose {
        unclaimed::report(&restored);
        report_flaws(&flaws, &restored);
    }
    Ok(Recovered { restored, log, packs, streams, recovery, flaws, took_users, lost })
}

/// Opens a folder, and makes it if it does not exist.
fn made<D>(folder: &'static str, open: &mut OpenFolder<'_, D>) -> Result<D, RecoverError> {
    let opened = open(true).and_then(|disk| disk.ok_or_else(|| io::ErrorKind::NotFound.into()));
    opened.map_err(|error| RecoverError::Folder { folder, error })
}

/// Recovers the log. These are the first steps of [`recover`]. Opens no packs, and makes no folder but that of the copies. The start of a member of a
/// cluster never accepts that definitions are lost: the other nodes have them.
///
/// # Errors
/// See [`RecoverError`].
pub fn recover_log<D: Disk>(
    disks: Disks<'_, D>,
    purpose: Purpose<'_>,
) -> Result<RecoveredLog<D>, RecoverError> {
    let Disks { log, streams, unclaimed, log_options, keep_damaged, origin, in_cluster, mutation, .. } =
        disks;
    let mut copies = Copies::list(unclaimed)?;
    let mut restored = Restored::default();
    in_cluster.into_iter().for_each(|number| restored.enter_cluster(number));
    let opened = Log::open(log, log_options, &mut |record| {
        if !copies.comes_later(&record) {
            restored.handle_record(record);
        }
    });
    let (mut log, recovery) = opened.map_err(RecoverError::Log)?;
    let streams = streams(false).map_err(|error| RecoverError::Folder { folder: STREAMS_DIR, error })?;
    let mut streams = streams.map(Streams::new).transpose().map_err(RecoverError::Streams)?;
    if in_cluster.is_some() {
        restored.prove_declarations(|queue| streams.as_ref().is_some_and(|streams| streams.has(queue.0)));
    }
    restored.finish_definitions(origin, !recovery.damage.is_empty());
    restored.check_alone().map_err(RecoverError::NotAlone)?;
    let listed = streams.as_mut();
    let sorted = unclaimed::sort(&mut restored, &mut log, &recovery, &mut copies, listed, mutation)?;
    if let Purpose::Start(_) = purpose {
        report(&recovery, &restored);
    }

    let (accept, users) = match &purpose {
        // A member of a cluster would forget its votes and what it has acknowledged. The founder could even begin definitions of its own, because it
        // does not know any more that others vote.
        Purpose::Start(start) => (start.accept_lost_definitions && in_cluster.is_none(), start.users),
        Purpose::Look | Purpose::Offline => (false, None),
    };
    let (mut lost, mut took_users) = (None, false);
    if has(mutation, Mutation::FoundAgain) {
        restored.forget_founded();
    }
    let found = match has(mutation, Mutation::ForgetQuarantine) {
        true => Ok(Quarantined { records: Records::new(), noted: Records::new(), definitions_lost: false }),
        false => quarantine::quarantine(&mut restored, &recovery, accept),
    };
    match (found, purpose) {
        (Ok(_), Purpose::Look) => {}
        (Err(found), Purpose::Look) => lost = Some(found),
        (Err(found), _) if in_cluster.is_some() => return Err(RecoverError::OfMember(found)),
        (Err(found), _) => return Err(RecoverError::Definitions(found)),
        (Ok(Quarantined { mut records, mut noted, definitions_lost }), _) => {
            if has(mutation, Mutation::ForgetClosed) {
                (records, noted) = Default::default();
            }
            if definitions_lost {
                took_users = users.is_some();
                restored.accept_definitions();
                replace_users(&mut restored, users);
            }
            keep_damaged(&restored, &recovery).map_err(RecoverError::Keep)?;
            write_synced(&mut log, records)?;
            let records = sorted.write(&mut restored, &log, copies)?;
            write_synced(&mut log, records)?;
            if definitions_lost {
                // Once it is noted that the damage was handled, it must have been. With the new base, incarnations prove deletions again, so the
                // copies come first.
                restored.add_changes(&mut noted).map_err(RecoverError::NotAlone)?;
            }
            write_synced(&mut log, noted)?;
        }
    }
    if let Purpose::Start(Start { rules, access, .. }) = purpose
        && restored.is_alone()
    {
        // They are created once in the life of a data directory: a user that is deleted stays deleted.
        restored.catalog.set_rules(rules.clone());
        let records = restored.begin(access).map_err(RecoverError::NotAlone)?;
        if let Err(refused) = try_write_synced(&mut log, records) {
            // On a full disk, queues must be emptied. What a start ends is ended in memory, and its records are the first that are written as
            // soon as there is space: no later change is committed before.
            if refused.records.is_empty() || restored.has_made_users() {
                return Err(RecoverError::Write(io::Error::other(refused.to_string())));
            }
            tracing::error!("what the start has changed cannot be written yet: {refused}");
            restored.write_later(refused.records);
        }
    }
    Ok(RecoveredLog { restored, log, streams, recovery, took_users, lost })
}

/// Takes the users of their copy, because the log may have lost some.
fn replace_users(restored: &mut Restored, users: Option<&Users>) {
    match users {
        Some(users) => {
            restored.replace_users(users);
            let users = users.iter().count();
            tracing::warn!(users, "users and permissions are those of their copy: none of them is lost");
        }
        None => tracing::error!(
            "there is no copy of users and permissions, so some may be lost. If nobody can log in, stop the broker and add \
             a user: sluice add user NAME --tags administrator --data-dir DIR"
        ),
    }
}

/// Writes records to the log of a node that does not run yet.
pub(crate) fn write_synced<D: Disk>(log: &mut Log<D>, records: Records) -> Result<(), RecoverError> {
    try_write_synced(log, records)
        .map_err(|refused| RecoverError::Write(io::Error::other(refused.to_string())))
}

/// As [`write_synced`]. The error has the records, if none of them was written.
fn try_write_synced<D: Disk>(log: &mut Log<D>, records: Records) -> Result<(), WriteError> {
    if records.is_empty() {
        return Ok(());
    }
    let mut done = Vec::new();
    log.append(&mut vec![Handover { shard: 0, ticket: 0, records, sync: true, urgent: true }], &mut done);
    log.sync(&mut done);
    done.into_iter().find_map(|completion| completion.result.err()).map_or(Ok(()), Err)
}

fn report(recovery: &Recovery, restored: &Restored) {
    let messages: u64 = restored.queues.values().map(RestoredQueue::len).sum();
    tracing::info!(
        clean = recovery.clean,
        files = recovery.files,
        bytes = recovery.bytes,
        records = recovery.records,
        queues = restored.catalog.queues().count(),
        messages,
        "log recovered"
    );
    if let Some(cut) = &recovery.cut {
        let Cut { file, offset, bytes, torn, kept, .. } = cut;
        let records = quarantine::count_cut(restored, cut);
        match torn {
            false => {
                tracing::info!(file, offset, bytes, "unused bytes after the end of the log were cut off")
            }
            true if kept.is_empty() => {
                tracing::warn!(
                    file,
                    offset,
                    bytes,
                    records,
                    "the torn end of the log was cut off; it could not be kept"
                );
            }
            true => {
                tracing::warn!(
                    file,
                    offset,
                    bytes,
                    records,
                    "the torn end of the log was cut off, and is kept in 'damaged'"
                );
            }
        }
    }
    for record in &restored.unreadable {
        tracing::error!("unreadable {record}");
    }
}

fn report_flaws(flaws: &[StreamFlaw], restored: &Restored) {
    for StreamFlaw { stream, error, closes } in flaws {
        let Some(stream) = stream else {
            tracing::error!("{error}: it is created again, and each stream is opened from its own files");
            continue;
        };
        let (vhost, stream) = restored.catalog.names_of(QueueId(*stream));
        match closes {
            true => tracing::error!(target: QUEUE, %stream, %vhost, "the stream is closed: {error}"),
            false => {
                tracing::warn!(target: QUEUE, %stream, %vhost, "the stream has a gap, possibly from a power failure: {error}")
            }
        }
    }
}
