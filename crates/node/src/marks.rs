//! The stored form of a message's delivery marks, record kind 9 of [`crate::facts`].
//!
//! ```text
//! | fields u8 | delivery count u32 | acquired count u32 | due time u64 (ms since the epoch) | annotations ... |
//! ```
//!
//! The bits of `fields` say which fields are present: 1 redelivered (the bit is all), 2 the delivery count, 4
//! the acquired count, 8 the due time, 16 the annotations. The annotations are a message-annotations section
//! of AMQP 1.0 and extend to the end. Numbers are big-endian.

use bytes::{Buf, Bytes};
use message::Annotations;
use queue::Marks;

const REDELIVERED: u8 = 1;
const DELIVERY_COUNT: u8 = 1 << 1;
const ACQUIRED_COUNT: u8 = 1 << 2;
const DUE: u8 = 1 << 3;
const ANNOTATIONS: u8 = 1 << 4;
const ALL: u8 = (ANNOTATIONS << 1) - 1;

/// The most bytes before the annotations.
const HEAD_MAX: usize = 1 + 4 + 4 + 8;

/// Encodes marks. Returns the bytes before the annotations, and the annotations as they are.
pub(crate) fn encode(marks: &Marks) -> (Vec<u8>, &[u8]) {
    let Marks { delivery_count, redelivered, acquired_count, due_ms, annotations } = marks;
    let mut head = Vec::with_capacity(HEAD_MAX);
    head.push(if *redelivered { REDELIVERED } else { 0 });
    let mut put = |field: u8, bytes: &[u8]| {
        head[0] |= field;
        head.extend_from_slice(bytes);
    };
    if *delivery_count > 0 {
        put(DELIVERY_COUNT, &delivery_count.to_be_bytes());
    }
    if *acquired_count > 0 {
        put(ACQUIRED_COUNT, &acquired_count.to_be_bytes());
    }
    if let Some(due_ms) = due_ms {
        put(DUE, &due_ms.to_be_bytes());
    }
    let Some(annotations) = annotations else { return (head, &[]) };
    put(ANNOTATIONS, &[]);
    (head, annotations.as_section())
}

/// Decodes marks that [`encode`] wrote. Returns `None` for other bytes.
pub(crate) fn decode(mut body: Bytes) -> Option<Marks> {
    let fields = body.try_get_u8().ok().filter(|fields| fields & !ALL == 0)?;
    let mut marks = Marks { redelivered: fields & REDELIVERED != 0, ..Marks::default() };
    if fields & DELIVERY_COUNT != 0 {
        marks.delivery_count = body.try_get_u32().ok()?;
    }
    if fields & ACQUIRED_COUNT != 0 {
        marks.acquired_count = body.try_get_u32().ok()?;
    }
    if fields & DUE != 0 {
        marks.due_ms = Some(body.try_get_u64().ok()?);
    }
    if fields & ANNOTATIONS != 0 {
        marks.annotations = Some(Annotations::from_section(std::mem::take(&mut body))?);
    }
    body.is_empty().then_some(marks)
}

#[cfg(test)]
mod tests {
    use amqp10::{Map, Symbol, Value};

    use super::*;

    fn encoded(marks: &Marks) -> Bytes {
        let (head, annotations) = encode(marks);
        [&head, annotations].concat().into()
    }

    fn annotations() -> Annotations {
        let mut map = Map::new();
        map.insert(Symbol::from_static("x-note"), Value::Uint(1));
        Annotations::from_map(&map).expect("sound annotations")
    }

    #[test]
    fn every_set_of_fields_is_decoded_as_encoded() {
        for fields in 0..=ALL {
            let has = |field| fields & field != 0;
            let marks = Marks {
                redelivered: has(REDELIVERED),
                delivery_count: if has(DELIVERY_COUNT) { 3 } else { 0 },
                acquired_count: if has(ACQUIRED_COUNT) { u32::MAX } else { 0 },
                due_ms: has(DUE).then_some(0),
                annotations: has(ANNOTATIONS).then(annotations),
            };
            let encoded = encoded(&marks);
            assert_eq!(encoded[0], fields);
            assert_eq!(decode(encoded), Some(marks));
        }
    }

    #[test]
    fn other_bytes_are_not_decoded_as_marks() {
        let marks = Marks {
            redelivered: true,
            delivery_count: 1,
            acquired_count: 2,
            due_ms: Some(3),
            annotations: Some(annotations()),
        };
        let whole = encoded(&marks);
        for len in 0..whole.len() {
            assert_eq!(decode(whole.slice(..len)), None, "{len} bytes");
        }
        let longer = |bytes: &[u8]| decode([bytes, &[0]].concat().into());
        assert_eq!(longer(&whole), None);
        assert_eq!(longer(&[REDELIVERED]), None);
        assert_eq!(decode(Bytes::from_static(&[ALL + 1])), None, "a field of a later version");
    }
}
