//! The identity of a data directory: the file `identity`, with a random identifier and the number of starts.
//!
//! ```text
//!  0       8         12     28      36                           40
//!  | magic | version | node | boots | check |                            version 1: in no cluster
//!  | 8     | u32     | 16   | u64   | u32   |
//!
//!  0       8         12     28      36        52       56      60
//!  | magic | version | node | boots | cluster | number | check |         version 2: in a cluster
//!  | 8     | u32     | 16   | u64   | 16      | u32    | u32   |
//! ```
//!
//! Little-endian. The first 12 bytes keep their place in every later version.
//!
//! * `magic`: `SluiceId`. `version`: [`VERSION_ALONE`] or [`VERSION`]. A program that knows no clusters must not start on a directory of one.
//! * `node`: random. It is chosen once, at the first start, and is copied with the directory.
//! * `boots`: the number of starts of a broker on this directory. Together with `node` it names one run of a
//!   broker, and nothing else ever has the same name.
//! * `cluster`: the random identifier of the cluster. `number`: that of the node in it.
//! * `check`: CRC-32C over everything before it.
//!
//! The file is replaced as a whole: a new one is written, synced and renamed. So a crash leaves the old or
//! the new one, and any other content is damage. If the disk is full, there is no room for a second file. Then the
//! file is overwritten in place, within one sector, which a crash does not tear.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, IoSlice};

use crate::checksum::crc32c;
use crate::disk::{Disk, is_full, read_all, write_all};
use crate::file::u64_at;

/// The name of the file.
pub(crate) const NAME: &str = "identity";
/// The name of the file that will replace it.
pub(crate) const NEW_NAME: &str = "identity.new";

/// The version of the file of a node in no cluster.
const VERSION_ALONE: u32 = 1;

/// The version of the file of a node in a cluster. Files of newer versions are refused.
const VERSION: u32 = 2;

const MAGIC: [u8; 8] = *b"SluiceId";

/// The length of the file of a node in no cluster, in bytes.
const LENGTH_ALONE: usize = 40;
const _: () = assert!(LENGTH_ALONE == 8 + 4 + 16 + 8 + 4);

/// The length of the file of a node in a cluster, in bytes.
const LENGTH: usize = LENGTH_ALONE + 16 + 4;

/// The identity of a data directory, and of this start on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The random identifier of the directory.
    pub node: [u8; 16],
    /// The number of starts on this directory, including this one.
    pub boots: u64,
    /// `None` for a node in no cluster.
    pub membership: Option<Membership>,
}

/// The place of a node in its cluster. It never changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// The random identifier of the cluster.
    pub cluster: [u8; 16],
    /// The number of the node in it.
    pub number: u32,
}

/// Why the identity of a directory cannot be read or renewed.
#[derive(Debug)]
pub enum IdentityError {
    /// The file exists, and its contents are not an identity.
    Damaged,
    /// The file was written by a newer program.
    NewerFormat { version: u32 },
    /// The disk refused an operation on this file, or on the directory if the name is empty.
    Io { file: &'static str, error: io::Error },
}

impl fmt::Display for IdentityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged => write!(
                f,
                "file {NAME} is damaged; restore it from a backup, or remove it: the directory then gets a new identity"
            ),
            Self::NewerFormat { version } => {
                write!(f, "file {NAME} has format version {version}; this program knows {VERSION}")
            }
            Self::Io { file: "", error } => write!(f, "the directory: {error}"),
            Self::Io { file, error } => write!(f, "file {file}: {error}"),
        }
    }
}

impl std::error::Error for IdentityError {}

impl Identity {
    /// Reads the identity of a directory and counts one more start. A directory without an identity gets one.
    /// The result is durable when this function returns. The caller must hold the lock of the directory.
    ///
    /// # Errors
    /// The identity is damaged or newer than this program, and nothing was changed; or the disk failed.
    pub fn begin<D: Disk>(disk: &mut D) -> Result<Self, IdentityError> {
        let names = disk.list().map_err(|error| IdentityError::Io { file: "", error })?;
        let former = Self::former(disk, &names)?.unwrap_or_else(|| Self {
            node: random(),
            boots: 0,
            membership: None,
        });
        let identity = Self { boots: former.boots.saturating_add(1), ..former };
        let has = |file: &str| names.iter().any(|name| name == file);
        match identity.replace(disk, has(NEW_NAME)) {
            Err(IdentityError::Io { error, .. }) if is_full(&error) && has(NAME) => {
                // The next start removes the incomplete file if the disk does not.
                let _ = disk.remove(NEW_NAME);
                identity.overwrite(disk).map_err(|error| IdentityError::Io { file: NAME, error })?;
            }
            replaced => replaced?,
        }
        Ok(identity)
    }

    /// Notes the place of the node in its cluster. It is durable when this function returns. The caller must hold the lock of the
    /// directory.
    ///
    /// # Errors
    /// The disk failed. The file says what it said before, or has the place already.
    pub fn join<D: Disk>(self, disk: &mut D, membership: Membership) -> Result<Self, IdentityError> {
        let names = disk.list().map_err(|error| IdentityError::Io { file: "", error })?;
        let joined = Self { membership: Some(membership), ..self };
        joined.replace(disk, names.iter().any(|name| name == NEW_NAME))?;
        Ok(joined)
    }

    /// Writes the identity to a new file, which replaces the old one.
    fn replace<D: Disk>(&self, disk: &mut D, is_new_there: bool) -> Result<(), IdentityError> {
        let of = |file: &'static str| move |error| IdentityError::Io { file, error };
        if is_new_there {
            disk.remove(NEW_NAME).map_err(of(NEW_NAME))?;
        }
        let mut file = disk.create(NEW_NAME).map_err(of(NEW_NAME))?;
        write_all(disk, &mut file, 0, &mut [IoSlice::new(&self.encode())]).map_err(of(NEW_NAME))?;
        disk.sync(&mut file).map_err(of(NEW_NAME))?;
        disk.rename(NEW_NAME, NAME).map_err(of(NEW_NAME))?;
        disk.sync_dir().map_err(of(""))
    }

    /// Writes the identity over the old one. This takes no more space.
    fn overwrite<D: Disk>(&self, disk: &mut D) -> io::Result<()> {
        let mut file = disk.open(NAME)?;
        write_all(disk, &mut file, 0, &mut [IoSlice::new(&self.encode())])?;
        disk.sync(&mut file)
    }

    /// Reads the identity of a directory and changes nothing. Returns `None` if it has none yet.
    ///
    /// # Errors
    /// The identity is damaged or newer than this program, or the disk failed.
    pub fn look<D: Disk>(disk: &mut D) -> Result<Option<Self>, IdentityError> {
        let names = disk.list().map_err(|error| IdentityError::Io { file: "", error })?;
        Self::former(disk, &names)
    }

    /// Returns the identity in a directory with files of these names.
    fn former<D: Disk>(disk: &mut D, names: &[String]) -> Result<Option<Self>, IdentityError> {
        if !names.iter().any(|name| name == NAME) {
            return Ok(None);
        }
        let read = read(disk).map_err(|error| IdentityError::Io { file: NAME, error })?;
        Self::decode(&read).map(Some)
    }

    /// Returns the identifier of the directory as 32 hexadecimal digits.
    pub fn node_hex(&self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.node))
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let version = if self.membership.is_some() { VERSION } else { VERSION_ALONE };
        bytes.extend(version.to_le_bytes());
        bytes.extend(self.node);
        bytes.extend(self.boots.to_le_bytes());
        if let Some(Membership { cluster, number }) = self.membership {
            bytes.extend(cluster);
            bytes.extend(number.to_le_bytes());
        }
        let check = crc32c(&bytes);
        bytes.extend(check.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, IdentityError> {
        let (Some(magic), Some(version)) = (bytes.first_chunk::<8>(), bytes.get(8..12)) else {
            return Err(IdentityError::Damaged);
        };
        let version = u32::from_le_bytes([version[0], version[1], version[2], version[3]]);
        let lengths: &[usize] = match version {
            0 => &[],
            VERSION_ALONE => &[LENGTH_ALONE],
            VERSION => &[LENGTH],
            _ => &[LENGTH_ALONE, LENGTH],
        };
        let has_length = lengths.contains(&bytes.len());
        // The check of a newer version may be somewhere else, so its version is believed. With the length of a known version, it may be damage.
        if *magic == MAGIC && version > VERSION && !has_length {
            return Err(IdentityError::NewerFormat { version });
        }
        let is_whole = *magic == MAGIC && has_length;
        let (content, check) = bytes.split_at(bytes.len().saturating_sub(4));
        if !is_whole || check != crc32c(content).to_le_bytes() {
            return Err(IdentityError::Damaged);
        }
        if version > VERSION {
            return Err(IdentityError::NewerFormat { version });
        }
        let identifier = |at: usize| bytes[at..at + 16].try_into().expect("16 bytes");
        let membership = (version == VERSION).then(|| Membership {
            cluster: identifier(36),
            number: u32::from_le_bytes([bytes[52], bytes[53], bytes[54], bytes[55]]),
        });
        Ok(Self { node: identifier(12), boots: u64_at(bytes, 28), membership })
    }
}

/// Reads the file: all of it, if it is an identity.
fn read<D: Disk>(disk: &mut D) -> io::Result<Vec<u8>> {
    let mut file = disk.open(NAME)?;
    // One byte more, so that a longer file is noticed.
    let mut bytes = vec![0; LENGTH + 1];
    let length = read_all(disk, &mut file, 0, &mut bytes)?;
    bytes.truncate(length);
    Ok(bytes)
}

/// Returns 16 random bytes. The keys of a `RandomState` come from the system's source of randomness.
fn random() -> [u8; 16] {
    let word = || RandomState::new().hash_one(0).to_le_bytes();
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&word());
    bytes[8..].copy_from_slice(&word());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Crash, SimDisk};

    fn stored(disk: &SimDisk) -> Vec<u8> {
        disk.files()[NAME].clone()
    }

    #[test]
    fn each_start_is_counted_and_the_node_stays() {
        let mut disk = SimDisk::new(1);
        let first = Identity::begin(&mut disk).unwrap();
        assert_eq!((first.boots, first.node_hex().len()), (1, 32));
        assert_ne!(first.node, [0; 16]);
        let other = Identity::begin(&mut SimDisk::new(1)).unwrap();
        assert_ne!(other.node, first.node);
        for boots in 2..5 {
            disk = disk.crash(Crash::Power);
            assert_eq!(Identity::begin(&mut disk).unwrap(), Identity { boots, ..first });
        }
    }

    #[test]
    fn a_start_interrupted_anywhere_uses_no_number_twice() {
        for seed in 0..50 {
            for step in 0..6 {
                let mut disk = SimDisk::new(seed);
                let first = Identity::begin(&mut disk).unwrap();
                disk.die_at(step);
                let interrupted = Identity::begin(&mut disk);
                let is_complete = interrupted.is_ok();
                assert_eq!(is_complete, !disk.is_dead(), "seed {seed}, step {step}");
                for how in [Crash::Process, Crash::Power] {
                    let next = Identity::begin(&mut disk.crash(how)).unwrap();
                    assert_eq!(next.node, first.node);
                    let used = if is_complete { 2 } else { 1 };
                    assert!(next.boots > used && next.boots <= 3, "seed {seed}, step {step}: {next:?}");
                }
            }
        }
    }

    #[test]
    fn a_disk_that_fails_starts_nothing() {
        for step in 0..5 {
            let mut disk = SimDisk::new(step);
            let first = Identity::begin(&mut disk).unwrap();
            disk.fail_nth(step, 5);
            let failed = Identity::begin(&mut disk).unwrap_err();
            assert!(matches!(failed, IdentityError::Io { .. }), "{failed}");
            disk.heal();
            let next = Identity::begin(&mut disk).unwrap();
            assert!(next.node == first.node && next.boots > first.boots, "{next:?}");
        }
    }

    #[test]
    fn a_start_on_a_full_disk_is_counted() {
        for how in [Crash::Process, Crash::Power] {
            let mut disk = SimDisk::new(4);
            let first = Identity::begin(&mut disk).unwrap();
            disk.limit(disk.taken());
            for boots in 2..5 {
                disk = disk.crash(how);
                assert_eq!(Identity::begin(&mut disk).unwrap(), Identity { boots, ..first });
                assert_eq!(disk.files().len(), 1);
            }
            assert_eq!(Identity::begin(&mut disk.crash(how)).unwrap().boots, 5);
        }
        let mut empty = SimDisk::new(4);
        empty.limit(0);
        let refused = Identity::begin(&mut empty).unwrap_err();
        assert!(matches!(&refused, IdentityError::Io { error, .. } if is_full(error)), "{refused}");
    }

    const PLACE: Membership = Membership { cluster: *b"cluster-of-three", number: 3 };

    #[test]
    fn a_node_that_has_joined_a_cluster_stays_in_it() {
        let mut disk = SimDisk::new(1);
        let first = Identity::begin(&mut disk).unwrap();
        assert_eq!(first.membership, None);
        let joined = first.join(&mut disk, PLACE).unwrap();
        assert_eq!(joined, Identity { membership: Some(PLACE), ..first });
        for boots in 2..5 {
            disk = disk.crash(Crash::Power);
            assert_eq!(Identity::look(&mut disk).unwrap().unwrap().membership, Some(PLACE));
            assert_eq!(Identity::begin(&mut disk).unwrap(), Identity { boots, ..joined });
        }
        // A full disk has room for the file as it is.
        disk.limit(disk.taken());
        assert_eq!(Identity::begin(&mut disk).unwrap(), Identity { boots: 5, ..joined });
        assert_eq!(Identity::begin(&mut disk.crash(Crash::Power)).unwrap(), Identity { boots: 6, ..joined });
    }

    /// The node has joined, or has not. Whoever has been told that it has joined finds it so.
    #[test]
    fn a_join_interrupted_anywhere_is_whole_or_nothing() {
        let mut left = [false; 2];
        for seed in 0..50 {
            for step in 0..7 {
                let mut disk = SimDisk::new(seed);
                let first = Identity::begin(&mut disk).unwrap();
                disk.die_at(step);
                let is_complete = first.join(&mut disk, PLACE).is_ok();
                assert_eq!(is_complete, !disk.is_dead(), "seed {seed}, step {step}");
                for how in [Crash::Process, Crash::Power] {
                    let mut disk = disk.crash(how);
                    let next = Identity::begin(&mut disk).unwrap();
                    assert!(next.node == first.node && next.boots == 2, "seed {seed}, step {step}: {next:?}");
                    let has_joined = next.membership == Some(PLACE);
                    assert!(
                        has_joined || !is_complete && next.membership.is_none(),
                        "seed {seed}, step {step}"
                    );
                    left[usize::from(has_joined)] = true;
                    let again = next.join(&mut disk, PLACE).unwrap();
                    assert_eq!(again, Identity { membership: Some(PLACE), ..next });
                }
            }
        }
        assert_eq!(left, [true; 2], "some steps leave the old file, and some the new one");
    }

    #[test]
    fn a_join_on_a_disk_that_fails_can_be_repeated() {
        for step in 0..5 {
            let mut disk = SimDisk::new(step);
            let first = Identity::begin(&mut disk).unwrap();
            disk.fail_nth(step, 5);
            let failed = first.join(&mut disk, PLACE).unwrap_err();
            assert!(matches!(failed, IdentityError::Io { .. }), "{failed}");
            disk.heal();
            let looked = Identity::look(&mut disk).unwrap().unwrap();
            assert!([None, Some(PLACE)].contains(&looked.membership) && looked.boots == 1, "{looked:?}");
            assert_eq!(first.join(&mut disk, PLACE).unwrap(), Identity { membership: Some(PLACE), ..first });
            assert_eq!(Identity::begin(&mut disk.crash(Crash::Power)).unwrap().membership, Some(PLACE));
        }
        let mut disk = SimDisk::new(9);
        let first = Identity::begin(&mut disk).unwrap();
        disk.limit(disk.taken());
        let refused = first.join(&mut disk, PLACE).unwrap_err();
        assert!(matches!(&refused, IdentityError::Io { error, .. } if is_full(error)), "{refused}");
        assert_eq!(Identity::look(&mut disk).unwrap(), Some(first));
    }

    /// Files of both versions: cut anywhere, one byte longer, and with each bit flipped.
    #[test]
    fn a_damaged_identity_is_refused_and_kept() {
        for joins in [false, true] {
            let mut disk = SimDisk::new(2);
            let identity = Identity::begin(&mut disk).unwrap();
            if joins {
                identity.join(&mut disk, PLACE).unwrap();
            }
            let sound = stored(&disk);
            let length = sound.len();
            assert_eq!(length, if joins { LENGTH } else { LENGTH_ALONE });
            let mut others: Vec<Vec<u8>> = (0..length).map(|length| sound[..length].to_vec()).collect();
            others.push([&sound[..], &[0]].concat());
            others.extend((0..length * 8).map(|bit| {
                let mut flipped = sound.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                flipped
            }));
            for bytes in others {
                let mut disk = SimDisk::new(3);
                disk.put(NAME, &bytes);
                let refused = Identity::begin(&mut disk).unwrap_err();
                assert!(matches!(refused, IdentityError::Damaged), "{bytes:?}: {refused}");
                assert_eq!(stored(&disk), bytes);
            }
        }
    }

    /// Returns the file with this version and a sound check.
    fn with_version(bytes: &[u8], version: u32) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        bytes[8..12].copy_from_slice(&version.to_le_bytes());
        let end = bytes.len() - 4;
        let check = crc32c(&bytes[..end]);
        bytes[end..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    #[test]
    fn the_formats_are_versioned() {
        let alone = Identity { node: *b"0123456789abcdef", boots: 258, membership: None };
        let joined = Identity { membership: Some(PLACE), ..alone };
        let golden: [(Identity, &[u8]); 2] = [
            (alone, b"SluiceId\x01\0\0\x000123456789abcdef\x02\x01\0\0\0\0\0\0\x09\x43\x70\x69"),
            (joined, b"SluiceId\x02\0\0\x000123456789abcdef\x02\x01\0\0\0\0\0\0cluster-of-three\x03\0\0\0\xa8\xec\x73\xf9"),
        ];
        for (identity, bytes) in golden {
            assert_eq!(identity.encode(), bytes);
            assert_eq!(Identity::decode(bytes).unwrap(), identity);
            let longer = b"SluiceId\x03\0\0\0something longer or shorter";
            for newer in [with_version(bytes, 3), longer.to_vec()] {
                let refused = Identity::decode(&newer).unwrap_err();
                assert!(matches!(refused, IdentityError::NewerFormat { version: 3 }), "{refused}");
                assert_eq!(refused.to_string(), "file identity has format version 3; this program knows 2");
            }
            // The length must be that of the version.
            for other in [0, 3 - u32::from(bytes[8])] {
                let refused = Identity::decode(&with_version(bytes, other)).unwrap_err();
                assert!(matches!(refused, IdentityError::Damaged), "{refused}");
            }
        }
        // A program that knows version 1 alone believes the version of every file that has not 40 bytes. It reads 41 bytes at most.
        let (_, joined) = golden[1];
        assert!(joined.len() > LENGTH_ALONE && joined.starts_with(b"SluiceId\x02\0\0\0"));
    }
}
