//! Which part of a received message the broker retains: everything from its message-annotations on.

use std::ops::Range;

use amqp10::sections::Sections;
use bytes::Bytes;

use crate::{Format, Parts};

/// The bytes of the received message to retain, and the positions of the sections in them.
#[derive(Clone, Debug)]
pub struct Trimmed {
    /// The range of the received message to retain.
    pub range: Range<usize>,
    bare_at: u32,
    application_properties_at: u32,
    body_at: u32,
    /// True if the message must survive a restart.
    pub durable: bool,
    durable_header: bool,
    priority: Option<u8>,
    ttl_ms: Option<u32>,
}

/// Decides which bytes to retain. The header is dropped, because it is rebuilt for each delivery. The
/// delivery-annotations are dropped, because they are for this hop only. `durable_by_default` decides whether
/// a message without a header is durable.
pub fn trim(sections: &Sections, durable_by_default: bool) -> Trimmed {
    let bare = sections.bare.clone();
    let start = sections.message_annotations.as_ref().map_or(bare.start, |a| a.start);
    let body_at = sections.body.start - start;
    let header = sections.header.as_ref();
    let durable_header = header.and_then(|h| h.durable).unwrap_or(false);
    Trimmed {
        range: start as usize..bare.end as usize,
        bare_at: bare.start - start,
        application_properties_at: sections
            .application_properties
            .as_ref()
            .map_or(body_at, |a| a.start - start),
        body_at,
        durable: if header.is_some() { durable_header } else { durable_by_default },
        durable_header,
        priority: header.and_then(|h| h.priority),
        ttl_ms: header.and_then(|h| h.ttl),
    }
}

impl Trimmed {
    /// Returns the parts. `wire` must be a copy of the bytes of `range`.
    pub fn into_parts(self, wire: Bytes) -> Parts {
        debug_assert_eq!(wire.len(), self.range.len());
        let Self { bare_at, application_properties_at, body_at, durable, durable_header, .. } = self;
        let (format, priority, ttl_ms) = (Format::Amqp10, self.priority, self.ttl_ms.map(u64::from));
        Parts {
            format,
            wire,
            bare_at,
            application_properties_at,
            body_at,
            durable,
            durable_header,
            priority,
            ttl_ms,
        }
    }
}
