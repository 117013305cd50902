//! Message annotations that consumers add to a message with their outcome [3.4.5].

use amqp10::encode::{put_symbol, put_value};
use amqp10::sections::{ANNOTATION_PREFIX, map_pairs};
use amqp10::{Map, Reader, Value, descriptor};
use bytes::{BufMut, Bytes, BytesMut};

use crate::envelope::{Format, Message};

/// An encoded message-annotations section [3.2.3] with at least one pair. Cloning shares the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotations(Bytes);

impl Annotations {
    /// The most bytes of all annotations of a message that consumers have annotated, including the
    /// publisher's. Annotations are short notes, and they stay in memory while the message is in its queue.
    pub const BYTES_MAX: usize = 16 * 1024;

    /// Encodes these pairs. If several have the same key, which is invalid [1.6.23], the last value is used.
    ///
    /// # Errors
    /// See [`AnnotationsError`].
    pub fn from_map(map: &Map) -> Result<Self, AnnotationsError> {
        let mut pairs = BytesMut::new();
        for (key, value) in map.iter() {
            match key {
                Value::Symbol(key) if key.starts_with(ANNOTATION_PREFIX) => {
                    put_symbol(&mut pairs, key);
                    put_value(&mut pairs, value);
                }
                _ => return Err(AnnotationsError::ReservedKey),
            }
        }
        if map.is_empty() {
            return Err(AnnotationsError::Empty);
        }
        let section = Self(merged(&[&with_head(&pairs, map.len())]));
        if section.0.len() > Self::BYTES_MAX { Err(AnnotationsError::TooLarge) } else { Ok(section) }
    }

    /// Reads bytes that [`Annotations::as_section`] returned. Returns `None` for anything else.
    pub fn from_section(section: Bytes) -> Option<Self> {
        let has_pairs = pairs_of(&section).next().is_some();
        (has_pairs && encoded(pairs_of(&section)) == section).then_some(Self(section))
    }

    /// Returns the encoded section with its descriptor.
    pub fn as_section(&self) -> &[u8] {
        &self.0
    }

    /// The size of the encoded section in bytes.
    #[expect(clippy::len_without_is_empty, reason = "there is at least one pair")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the whole number under `x-opt-delivery-time`: when the message may be delivered again, in milliseconds since
    /// the epoch. Any other value means nothing.
    pub fn delivery_time_ms(&self) -> Option<i64> {
        let (_, value) = pairs_of(&self.0).find(|(key, _)| *key == "x-opt-delivery-time")?;
        let value = Reader::new(value).read_value().ok()?;
        if let Value::Timestamp(ms) = value { Some(ms) } else { value.as_i64() }
    }

    /// Merges both sets. If both have a key, the value of `newer` is used.
    pub fn merged(&self, newer: &Self) -> Self {
        Self(merged(&[&self.0, &newer.0]))
    }
}

/// Why a map is not a valid set of annotations for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnnotationsError {
    /// There are no pairs.
    Empty,
    /// A key is not a symbol that starts with `x-`. All other keys are reserved [3.2.10].
    ReservedKey,
    /// The encoded section is longer than [`Annotations::BYTES_MAX`].
    TooLarge,
}

impl Message {
    /// Returns true if the message's annotations take at most [`Annotations::BYTES_MAX`] after these are
    /// merged into them. A message whose own annotations are larger has no room for any. The result does not
    /// depend on whether earlier annotations are already merged into the message or into `annotations`.
    pub fn has_room_for(&self, annotations: &Annotations) -> bool {
        let message = self.in_amqp10();
        let own = message.annotations();
        let fits = |len: usize| len <= Annotations::BYTES_MAX;
        fits(own.len()) && (fits(own.len() + annotations.len()) || fits(merged(&[own, &annotations.0]).len()))
    }

    /// Returns the size of the publisher's annotations in bytes. Of a message of AMQP 0.9.1, it is the size of all its
    /// properties, because converting a message for its size would cost too much.
    pub fn annotations_len(&self) -> usize {
        match self.format() {
            Format::Amqp10 => self.annotations().len(),
            Format::Amqp091 => self.property_list().len(),
        }
    }

    /// Merges these annotations into those of the message. If both have a key, the value from `annotations`
    /// is used. A message of AMQP 0.9.1 gets them as headers. Copies the message's bytes.
    pub fn annotated(&self, annotations: &Annotations) -> Self {
        if self.format() == Format::Amqp091 {
            return self.with_headers(&annotations.0);
        }
        let section = merged(&[self.annotations(), &annotations.0]);
        let (bare_at, application_properties_at, body_at) = self.offsets();
        let shift = |at: u32| at - bare_at + section.len() as u32;
        let places = [shift(bare_at), shift(application_properties_at), shift(body_at)];
        let mut wire = BytesMut::with_capacity(section.len() + self.bare_slice().len());
        wire.put_slice(&section);
        wire.put_slice(self.bare_slice());
        let mut annotated = self.clone();
        annotated.set_wire(wire.freeze(), &places);
        annotated
    }
}

/// The descriptor of the section, and the code of a `map32`.
const HEAD: [u8; 4] = [0x00, 0x53, descriptor::MESSAGE_ANNOTATIONS as u8, 0xd1];

/// Marks the pair of a value that is overridden. No encoded value is empty, so the mark is unambiguous.
const OVERRIDDEN: &[u8] = &[];

/// Merges all pairs of these encoded sections into one section. A section may be empty. If several pairs have
/// the same key, the last value is used, at the position of the first.
fn merged(sections: &[&[u8]]) -> Bytes {
    let (keys, mut values): (Vec<&str>, Vec<&[u8]>) = sections.iter().copied().flat_map(pairs_of).unzip();
    // The keys are sorted because peers choose them. Searching all others for each key would take quadratic
    // time.
    let mut by_key: Vec<usize> = (0..keys.len()).collect();
    by_key.sort_by(|a, b| count_step(keys[*a].cmp(keys[*b])));
    for equal in by_key.chunk_by(|a, b| keys[*a] == keys[*b]) {
        if let [first, others @ .., last] = equal {
            values[*first] = values[*last];
            others.iter().chain([last]).for_each(|at| values[*at] = OVERRIDDEN);
        }
    }
    encoded(keys.into_iter().zip(values).filter(|(_, value)| *value != OVERRIDDEN))
}

/// Returns the pairs of a stored section, which is known to be well-formed.
fn pairs_of(section: &[u8]) -> impl Iterator<Item = (&str, &[u8])> {
    map_pairs(section).into_iter().flatten().flatten().map(count_step)
}

fn encoded<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Bytes {
    let (mut out, mut count) = (BytesMut::new(), 0);
    for (key, value) in pairs {
        put_symbol(&mut out, key);
        out.put_slice(value);
        count += 1;
    }
    with_head(&out, count)
}

/// Returns the section with these encoded pairs.
fn with_head(pairs: &[u8], count: usize) -> Bytes {
    let mut out = BytesMut::with_capacity(HEAD.len() + 8 + pairs.len());
    out.put_slice(&HEAD);
    out.put_u32(pairs.len() as u32 + 4);
    out.put_u32(count as u32 * 2);
    out.put_slice(pairs);
    out.freeze()
}

/// Returns its argument. Tests count the calls: one for each pair read and each comparison of two keys.
#[inline(always)]
fn count_step<T>(passed: T) -> T {
    #[cfg(test)]
    tests::STEPS.with(|steps| steps.set(steps.get() + 1));
    passed
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use amqp10::Symbol;
    use amqp10::sections::scan;

    use super::*;
    use crate::{Parts, Route, trim};

    fn map(pairs: &[(&'static str, Value)]) -> Map {
        let mut map = Map::new();
        pairs.iter().for_each(|(key, value)| map.insert(Symbol::from_static(key), value.clone()));
        map
    }

    fn set(pairs: &[(&'static str, Value)]) -> Annotations {
        Annotations::from_map(&map(pairs)).expect("sound annotations")
    }

    fn pairs(section: &[u8]) -> Vec<(String, Value)> {
        let pairs = map_pairs(section).expect("a map").map(|pair| pair.expect("a pair"));
        pairs
            .map(|(key, value)| (key.to_owned(), Reader::new(value).read_value().expect("a value")))
            .collect()
    }

    fn text(text: &str) -> Value {
        Value::String(text.to_owned())
    }

    #[test]
    fn a_delivery_time_is_a_whole_number() {
        let time = |value| set(&[("x-a", Value::Null), ("x-opt-delivery-time", value)]).delivery_time_ms();
        for (value, ms) in [
            (Value::Long(-1), Some(-1)),
            (Value::Ulong(1 << 41), Some(1 << 41)),
            (Value::Uint(7), Some(7)),
            (Value::Timestamp(8), Some(8)),
            (Value::Ulong(u64::MAX), None),
            (text("7"), None),
            (Value::Null, None),
        ] {
            assert_eq!(time(value.clone()), ms, "{value:?}");
        }
        assert_eq!(set(&[("x-a", Value::Uint(7))]).delivery_time_ms(), None);
    }

    #[test]
    fn newer_values_override_and_other_keys_stay() {
        let older = set(&[("x-a", Value::Uint(1)), ("x-b", text("old"))]);
        let newer = set(&[("x-b", text("new")), ("x-c", Value::List(vec![Value::Null]))]);
        let merged = older.merged(&newer);
        let expected = [
            ("x-a".to_owned(), Value::Uint(1)),
            ("x-b".to_owned(), text("new")),
            ("x-c".to_owned(), Value::List(vec![Value::Null])),
        ];
        assert_eq!(pairs(merged.as_section()), expected);
        assert_eq!(merged.merged(&newer), older.merged(&newer), "merging again changes nothing");
        assert_eq!(Annotations::from_section(Bytes::copy_from_slice(merged.as_section())), Some(merged));
    }

    thread_local! {
        /// The number of pairs read plus the number of comparisons of keys.
        pub static STEPS: Cell<usize> = const { Cell::new(0) };
    }

    /// Returns different keys that take almost half of the bytes that a set may take.
    fn many(letter: char) -> Annotations {
        let mut map = Map::new();
        (0..800).for_each(|n| map.insert(Symbol::from(format!("x-{letter}{n}")), Value::Null));
        Annotations::from_map(&map).expect("sound annotations")
    }

    #[test]
    fn merging_many_keys_takes_few_steps_for_each() {
        let (older, newer) = (many('a'), many('b'));
        let message = Message::new(Parts::default(), Arc::new(Route::simple("x", "k"))).annotated(&older);
        STEPS.set(0);
        assert_eq!(pairs(older.merged(&newer).as_section()).len(), 1600);
        assert!(STEPS.get() < 1600 * 20, "{} steps", STEPS.get());
        STEPS.set(0);
        assert_eq!(pairs(message.annotated(&newer).annotations()).len(), 1600);
        assert!(STEPS.get() < 1600 * 20, "{} steps", STEPS.get());
    }

    #[test]
    fn the_last_of_equal_keys_is_used() {
        let mut map = map(&[("x-a", Value::Uint(1)), ("x-b", Value::Uint(2))]);
        map.0.push((Symbol::from_static("x-a").into(), Value::Uint(3)));
        let expected = [("x-a".to_owned(), Value::Uint(3)), ("x-b".to_owned(), Value::Uint(2))];
        let set = Annotations::from_map(&map).expect("sound annotations");
        assert_eq!(pairs(set.as_section()), expected);
        // The annotations of a publisher may have equal keys, too.
        let own = Bytes::from_static(b"\x00\x53\x72\xc1\x0f\x04\xa3\x03x-c\x54\x01\xa3\x03x-c\x54\x02");
        let parts =
            Parts { bare_at: 20, application_properties_at: 20, body_at: 20, wire: own, ..Parts::default() };
        let message = Message::new(parts, Arc::new(Route::simple("x", "k")));
        let merged = pairs(message.annotated(&set).annotations());
        assert_eq!(merged, [vec![("x-c".to_owned(), Value::Int(2))], expected.to_vec()].concat());
    }

    #[test]
    fn invalid_annotations_are_refused() {
        let refused = |map: &Map| Annotations::from_map(map).expect_err("refused");
        assert_eq!(refused(&Map::new()), AnnotationsError::Empty);
        assert_eq!(refused(&map(&[("note", Value::Null)])), AnnotationsError::ReservedKey);
        let mut by_text = Map::new();
        by_text.insert(text("x-note"), Value::Null);
        assert_eq!(refused(&by_text), AnnotationsError::ReservedKey);
        let large = text(&"x".repeat(Annotations::BYTES_MAX));
        assert_eq!(refused(&map(&[("x-large", large)])), AnnotationsError::TooLarge);
    }

    #[test]
    fn all_annotations_of_a_message_are_bounded_together() {
        let plain = Message::new(Parts::default(), Arc::new(Route::simple("x", "k")));
        let half = |key| set(&[(key, text(&"x".repeat(Annotations::BYTES_MAX / 2)))]);
        let (first, second) = (half("x-a"), half("x-b"));
        let both = first.merged(&second);
        assert!(plain.has_room_for(&first) && !plain.has_room_for(&both));
        let annotated = plain.annotated(&first);
        assert!(annotated.has_room_for(&first), "it takes the place of the first");
        assert!(!annotated.has_room_for(&second));
        assert!(!plain.annotated(&both).has_room_for(&set(&[("x-a", Value::Null), ("x-b", Value::Null)])));
    }

    #[test]
    fn bytes_that_are_not_a_section_are_refused() {
        let whole = Bytes::copy_from_slice(set(&[("x-a", Value::Uint(1))]).as_section());
        for len in 0..whole.len() {
            assert_eq!(Annotations::from_section(whole.slice(..len)), None, "{len} bytes");
        }
        assert_eq!(
            Annotations::from_section(Bytes::from_static(b"\x00\x53\x78\xd1\0\0\0\x04\0\0\0\0")),
            None
        );
        let no_pairs = encoded([]);
        assert_eq!(Annotations::from_section(no_pairs), None);
    }

    #[test]
    fn an_annotated_message_keeps_its_bare_message() {
        let plain: &[u8] = b"\x00\x53\x73\xc0\x04\x01\xa1\x01m\x00\x53\x74\xc1\x01\x00\x00\x53\x75\xa0\x02hi";
        let own: &[u8] = b"\x00\x53\x72\xc1\x0e\x04\xa3\x03x-a\x54\x01\xa3\x03x-b\x40";
        for wire in [plain.to_vec(), [own, plain].concat()] {
            let sections = scan(&wire).expect("a message");
            let trimmed = trim(&sections, true);
            let kept = Bytes::copy_from_slice(&wire[trimmed.range.clone()]);
            let message = Message::new(trimmed.into_parts(kept), Arc::new(Route::simple("x", "k")));
            let annotated = message.annotated(&set(&[("x-a", text("new"))]));
            assert_eq!(annotated.bare(), message.bare());
            assert_eq!(annotated.properties(), message.properties());
            assert_eq!(annotated.application_properties(), message.application_properties());
            assert_eq!(annotated.body(), message.body());
            assert!(pairs(annotated.annotations()).contains(&("x-a".to_owned(), text("new"))));
            assert_eq!(pairs(annotated.annotations()).len(), if wire.len() > plain.len() { 2 } else { 1 });
        }
    }
}
