//! What the copy of the users (`wal::CopyFile`) has in it: the changes that make all users, with their permissions.
//!
//! ```text
//!  | length u32 | change |  ...     big-endian; a change is encoded as in the log
//! ```

use bytes::{Buf as _, BufMut as _, BytesMut};
use catalog::access::Users;
use catalog::{Catalog, Change, decode_change, definitions_of, encode_change};
use wal::{Adopted, CopyEnd, CopyFile, Disk};

/// Encodes all users.
pub fn encode(users: &Users) -> Vec<u8> {
    let (mut out, mut one) = (Vec::new(), BytesMut::new());
    for change in definitions_of(users) {
        one.clear();
        encode_change(&change, &mut one);
        out.put_u32(one.len() as u32);
        out.extend_from_slice(&one);
    }
    out
}

/// Decodes what [`encode`] made. Returns `None` if that is not what these bytes are.
pub fn decode(mut bytes: &[u8]) -> Option<Users> {
    let mut catalog = Catalog::default();
    while !bytes.is_empty() {
        let length = bytes.try_get_u32().ok()? as usize;
        let (stored, rest) = bytes.split_at_checked(length)?;
        let change = decode_change(stored).filter(Change::is_of_users)?;
        catalog.apply(&change);
        bytes = rest;
    }
    Some((**catalog.users()).clone())
}

/// Returns the changes that give a catalog these users in place of its own. A virtual host that a permission names is added
/// if the catalog has lost it: without it nobody could use the permission.
pub fn replacing(catalog: &Catalog, users: &Users) -> Vec<Change> {
    let gone = catalog.users().iter().map(|user| Change::UserDeleted { name: user.name.clone() });
    let mut changes: Vec<Change> = gone.collect();
    let mut lost: Vec<_> = users
        .iter()
        .flat_map(|user| user.permissions.keys().chain(user.topics.keys()))
        .filter(|vhost| !catalog.has_vhost(vhost))
        .cloned()
        .collect();
    lost.sort_unstable();
    lost.dedup();
    changes.extend(lost.into_iter().map(|name| Change::VhostAdded { name }));
    changes.extend(definitions_of(users));
    changes
}

/// The users of the copy that a start has found.
#[derive(Debug, Default)]
pub struct Kept {
    /// The users of the last answered change. `None` if no copy says which.
    pub users: Option<Users>,
    /// True if the next start can rely on the same file.
    is_of_this_start: bool,
}

/// Returns the users of the copy. Called before the start is counted; see [`CopyFile::adopt`].
pub fn adopt(copy: &mut CopyFile<impl Disk>) -> Kept {
    let adopted = copy.adopt().unwrap_or_else(|error| {
        tracing::warn!("the copy of users and permissions cannot be read: {error}");
        None
    });
    let Some(Adopted { content, is_of_this_start }) = adopted else { return Kept::default() };
    Kept { users: decode(&content), is_of_this_start }
}

/// Replaces the copy by these users, unless they are those that it has.
pub fn renew(copy: &mut CopyFile<impl Disk>, kept: Kept, users: &Users) -> CopyEnd {
    if kept.is_of_this_start && kept.users.as_ref() == Some(users) {
        return CopyEnd::Written;
    }
    let end = copy.replace(&encode(users));
    if let CopyEnd::Removed(error) | CopyEnd::Refused(error) = &end {
        tracing::warn!(
            "the copy of users and permissions cannot be written: {error}. They are in the log alone"
        );
    }
    end
}
