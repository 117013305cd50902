//! A key that an operator can set: name, description, default, and parser. The tables of keys are in `keys.rs` and the files that it
//! names.

use super::Draft;
use super::wrong::Wrong;

/// A function that sets a key. Its middle argument is the text that matches the `*` of the key's name.
pub(super) type Set = fn(&mut Draft, &str, &str) -> Result<(), Wrong>;

/// A key that an operator can set.
#[derive(Clone, Copy)]
pub(super) struct Key {
    /// The name of the key. A `*` at the end matches a name that the operator chooses.
    pub name: &'static str,
    /// One line for the example file. A test generates and checks that file.
    #[cfg_attr(not(test), expect(dead_code, reason = "the example file is made by a test"))]
    pub doc: &'static str,
    /// The default, as written in a file. Setting a key to its default changes nothing.
    pub default: &'static str,
    /// For keys without a default, the name and the value that the example file shows; otherwise empty.
    #[cfg_attr(not(test), expect(dead_code, reason = "the example file is made by a test"))]
    pub sample: &'static str,
    pub set: Set,
    /// True if the value must never be shown.
    pub secret: bool,
    /// What the `*` of the name may be, for examples.
    pub star: &'static str,
    /// True if a running broker takes a new value on SIGHUP.
    pub reloads: bool,
}

/// Returns a key that has a default.
pub(super) const fn key(name: &'static str, default: &'static str, doc: &'static str, set: Set) -> Key {
    Key { name, doc, default, sample: "", set, secret: false, star: "1", reloads: false }
}

/// A key whose value a running broker takes on SIGHUP.
pub(super) const fn reloads(key: Key) -> Key {
    Key { reloads: true, ..key }
}

/// A key with another example for its `*`.
pub(super) const fn starred(star: &'static str, key: Key) -> Key {
    Key { star, ..key }
}

/// Sets a value that was parsed.
pub(super) fn put<T>(place: &mut T, value: Result<T, String>) -> Result<(), Wrong> {
    *place = value?;
    Ok(())
}
