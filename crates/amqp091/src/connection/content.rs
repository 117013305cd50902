//! A method with its content.

use buffers::Chunk;
use bytes::Bytes;

use crate::arguments::Reader;
use crate::generated::{BasicDeliver, BasicGetOk, BasicPublish, BasicReturn};

/// A method with content: properties and a payload. Either all parts are borrowed from one read, or they were assembled in
/// one buffer.
#[derive(Clone, Debug)]
pub struct Content<'a> {
    pub(super) head: Head<'a>,
    /// The encoded property list: flags and fields. Not checked.
    pub properties: Chunk<'a>,
    /// The body.
    pub payload: Chunk<'a>,
}

/// The method of a content.
#[derive(Clone, Debug)]
pub(super) enum Head<'a> {
    Publish(BasicPublish<'a>),
    Deliver(BasicDeliver<'a>),
    GetOk(BasicGetOk<'a>),
    Return(BasicReturn<'a>),
    /// The arguments were checked when they arrived. They are at the start of the buffer, followed by properties and
    /// payload.
    Kept {
        method_id: u16,
        buffer: Bytes,
        arguments_len: usize,
    },
}

macro_rules! method_of {
    ($self:expr, $variant:ident, $kind:ident) => {
        match &$self.head {
            Head::$variant(method) => Some(*method),
            Head::Kept { method_id: $kind::METHOD_ID, buffer, arguments_len } => {
                $kind::read(&mut Reader::new(&buffer[..*arguments_len])).ok()
            }
            _ => None,
        }
    };
}

impl Content<'_> {
    /// Returns the method if it is `basic.publish`, the only method with content that a client sends.
    #[inline]
    pub fn publish(&self) -> Option<BasicPublish<'_>> {
        method_of!(self, Publish, BasicPublish)
    }

    /// Returns the method if it is `basic.deliver`.
    pub fn deliver(&self) -> Option<BasicDeliver<'_>> {
        method_of!(self, Deliver, BasicDeliver)
    }

    /// Returns the method if it is `basic.get-ok`.
    pub fn get_ok(&self) -> Option<BasicGetOk<'_>> {
        method_of!(self, GetOk, BasicGetOk)
    }

    /// Returns the method if it is `basic.return`.
    pub fn returned(&self) -> Option<BasicReturn<'_>> {
        method_of!(self, Return, BasicReturn)
    }

    /// Returns properties and payload as one shared buffer, properties first. `None` if they are borrowed.
    pub fn assembled(&self) -> Option<Bytes> {
        match &self.head {
            Head::Kept { buffer, arguments_len, .. } => Some(buffer.slice(*arguments_len..)),
            _ => None,
        }
    }
}
