//! Generated from `spec/*.xml` by `cargo xtask codegen`. Do not edit.
//!
//! The composites of the standard, field by field: mandatory fields and fields with a default are plain, the others
//! are `Option`, fields declared `multiple` are vectors. Defaults are not written to the wire.

use bytes::{Bytes, BytesMut};

use super::{DeliveryState, TargetArchetype};
use crate::decode::{DecodeError, Field, Reader};
use crate::encode::{self, Encode, ListWriter};
use crate::sasl::Secret;
use crate::types::{Map, Symbol, Value};

/// The descriptors of the standard's own types, as numbers.
pub mod descriptor {
    /// `amqp:open:list`
    pub const OPEN: u64 = 0x10;
    /// `amqp:begin:list`
    pub const BEGIN: u64 = 0x11;
    /// `amqp:attach:list`
    pub const ATTACH: u64 = 0x12;
    /// `amqp:flow:list`
    pub const FLOW: u64 = 0x13;
    /// `amqp:transfer:list`
    pub const TRANSFER: u64 = 0x14;
    /// `amqp:disposition:list`
    pub const DISPOSITION: u64 = 0x15;
    /// `amqp:detach:list`
    pub const DETACH: u64 = 0x16;
    /// `amqp:end:list`
    pub const END: u64 = 0x17;
    /// `amqp:close:list`
    pub const CLOSE: u64 = 0x18;
    /// `amqp:error:list`
    pub const ERROR: u64 = 0x1d;
    /// `amqp:header:list`
    pub const HEADER: u64 = 0x70;
    /// `amqp:delivery-annotations:map`
    pub const DELIVERY_ANNOTATIONS: u64 = 0x71;
    /// `amqp:message-annotations:map`
    pub const MESSAGE_ANNOTATIONS: u64 = 0x72;
    /// `amqp:properties:list`
    pub const PROPERTIES: u64 = 0x73;
    /// `amqp:application-properties:map`
    pub const APPLICATION_PROPERTIES: u64 = 0x74;
    /// `amqp:data:binary`
    pub const DATA: u64 = 0x75;
    /// `amqp:amqp-sequence:list`
    pub const AMQP_SEQUENCE: u64 = 0x76;
    /// `amqp:amqp-value:*`
    pub const AMQP_VALUE: u64 = 0x77;
    /// `amqp:footer:map`
    pub const FOOTER: u64 = 0x78;
    /// `amqp:received:list`
    pub const RECEIVED: u64 = 0x23;
    /// `amqp:accepted:list`
    pub const ACCEPTED: u64 = 0x24;
    /// `amqp:rejected:list`
    pub const REJECTED: u64 = 0x25;
    /// `amqp:released:list`
    pub const RELEASED: u64 = 0x26;
    /// `amqp:modified:list`
    pub const MODIFIED: u64 = 0x27;
    /// `amqp:source:list`
    pub const SOURCE: u64 = 0x28;
    /// `amqp:target:list`
    pub const TARGET: u64 = 0x29;
    /// `amqp:delete-on-close:list`
    pub const DELETE_ON_CLOSE: u64 = 0x2b;
    /// `amqp:delete-on-no-links:list`
    pub const DELETE_ON_NO_LINKS: u64 = 0x2c;
    /// `amqp:delete-on-no-messages:list`
    pub const DELETE_ON_NO_MESSAGES: u64 = 0x2d;
    /// `amqp:delete-on-no-links-or-messages:list`
    pub const DELETE_ON_NO_LINKS_OR_MESSAGES: u64 = 0x2e;
    /// `amqp:coordinator:list`
    pub const COORDINATOR: u64 = 0x30;
    /// `amqp:declare:list`
    pub const DECLARE: u64 = 0x31;
    /// `amqp:discharge:list`
    pub const DISCHARGE: u64 = 0x32;
    /// `amqp:declared:list`
    pub const DECLARED: u64 = 0x33;
    /// `amqp:transactional-state:list`
    pub const TRANSACTIONAL_STATE: u64 = 0x34;
    /// `amqp:sasl-mechanisms:list`
    pub const SASL_MECHANISMS: u64 = 0x40;
    /// `amqp:sasl-init:list`
    pub const SASL_INIT: u64 = 0x41;
    /// `amqp:sasl-challenge:list`
    pub const SASL_CHALLENGE: u64 = 0x42;
    /// `amqp:sasl-response:list`
    pub const SASL_RESPONSE: u64 = 0x43;
    /// `amqp:sasl-outcome:list`
    pub const SASL_OUTCOME: u64 = 0x44;
    /// The number of a descriptor that is spelt as a symbol.
    pub fn from_symbol(symbol: &str) -> Option<u64> {
        Some(match symbol {
            "amqp:open:list" => OPEN,
            "amqp:begin:list" => BEGIN,
            "amqp:attach:list" => ATTACH,
            "amqp:flow:list" => FLOW,
            "amqp:transfer:list" => TRANSFER,
            "amqp:disposition:list" => DISPOSITION,
            "amqp:detach:list" => DETACH,
            "amqp:end:list" => END,
            "amqp:close:list" => CLOSE,
            "amqp:error:list" => ERROR,
            "amqp:header:list" => HEADER,
            "amqp:delivery-annotations:map" => DELIVERY_ANNOTATIONS,
            "amqp:message-annotations:map" => MESSAGE_ANNOTATIONS,
            "amqp:properties:list" => PROPERTIES,
            "amqp:application-properties:map" => APPLICATION_PROPERTIES,
            "amqp:data:binary" => DATA,
            "amqp:amqp-sequence:list" => AMQP_SEQUENCE,
            "amqp:amqp-value:*" => AMQP_VALUE,
            "amqp:footer:map" => FOOTER,
            "amqp:received:list" => RECEIVED,
            "amqp:accepted:list" => ACCEPTED,
            "amqp:rejected:list" => REJECTED,
            "amqp:released:list" => RELEASED,
            "amqp:modified:list" => MODIFIED,
            "amqp:source:list" => SOURCE,
            "amqp:target:list" => TARGET,
            "amqp:delete-on-close:list" => DELETE_ON_CLOSE,
            "amqp:delete-on-no-links:list" => DELETE_ON_NO_LINKS,
            "amqp:delete-on-no-messages:list" => DELETE_ON_NO_MESSAGES,
            "amqp:delete-on-no-links-or-messages:list" => DELETE_ON_NO_LINKS_OR_MESSAGES,
            "amqp:coordinator:list" => COORDINATOR,
            "amqp:declare:list" => DECLARE,
            "amqp:discharge:list" => DISCHARGE,
            "amqp:declared:list" => DECLARED,
            "amqp:transactional-state:list" => TRANSACTIONAL_STATE,
            "amqp:sasl-mechanisms:list" => SASL_MECHANISMS,
            "amqp:sasl-init:list" => SASL_INIT,
            "amqp:sasl-challenge:list" => SASL_CHALLENGE,
            "amqp:sasl-response:list" => SASL_RESPONSE,
            "amqp:sasl-outcome:list" => SASL_OUTCOME,
            _ => return None,
        })
    }
}

/// The error conditions of the standard.
pub mod condition {
    use super::Symbol;
    /// `amqp:internal-error`, of amqp-error.
    pub const INTERNAL_ERROR: Symbol = Symbol::from_static("amqp:internal-error");
    /// `amqp:not-found`, of amqp-error.
    pub const NOT_FOUND: Symbol = Symbol::from_static("amqp:not-found");
    /// `amqp:unauthorized-access`, of amqp-error.
    pub const UNAUTHORIZED_ACCESS: Symbol = Symbol::from_static("amqp:unauthorized-access");
    /// `amqp:decode-error`, of amqp-error.
    pub const DECODE_ERROR: Symbol = Symbol::from_static("amqp:decode-error");
    /// `amqp:resource-limit-exceeded`, of amqp-error.
    pub const RESOURCE_LIMIT_EXCEEDED: Symbol = Symbol::from_static("amqp:resource-limit-exceeded");
    /// `amqp:not-allowed`, of amqp-error.
    pub const NOT_ALLOWED: Symbol = Symbol::from_static("amqp:not-allowed");
    /// `amqp:invalid-field`, of amqp-error.
    pub const INVALID_FIELD: Symbol = Symbol::from_static("amqp:invalid-field");
    /// `amqp:not-implemented`, of amqp-error.
    pub const NOT_IMPLEMENTED: Symbol = Symbol::from_static("amqp:not-implemented");
    /// `amqp:resource-locked`, of amqp-error.
    pub const RESOURCE_LOCKED: Symbol = Symbol::from_static("amqp:resource-locked");
    /// `amqp:precondition-failed`, of amqp-error.
    pub const PRECONDITION_FAILED: Symbol = Symbol::from_static("amqp:precondition-failed");
    /// `amqp:resource-deleted`, of amqp-error.
    pub const RESOURCE_DELETED: Symbol = Symbol::from_static("amqp:resource-deleted");
    /// `amqp:illegal-state`, of amqp-error.
    pub const ILLEGAL_STATE: Symbol = Symbol::from_static("amqp:illegal-state");
    /// `amqp:frame-size-too-small`, of amqp-error.
    pub const FRAME_SIZE_TOO_SMALL: Symbol = Symbol::from_static("amqp:frame-size-too-small");
    /// `amqp:connection:forced`, of connection-error.
    pub const CONNECTION_FORCED: Symbol = Symbol::from_static("amqp:connection:forced");
    /// `amqp:connection:framing-error`, of connection-error.
    pub const FRAMING_ERROR: Symbol = Symbol::from_static("amqp:connection:framing-error");
    /// `amqp:connection:redirect`, of connection-error.
    pub const CONNECTION_REDIRECT: Symbol = Symbol::from_static("amqp:connection:redirect");
    /// `amqp:session:window-violation`, of session-error.
    pub const WINDOW_VIOLATION: Symbol = Symbol::from_static("amqp:session:window-violation");
    /// `amqp:session:errant-link`, of session-error.
    pub const ERRANT_LINK: Symbol = Symbol::from_static("amqp:session:errant-link");
    /// `amqp:session:handle-in-use`, of session-error.
    pub const HANDLE_IN_USE: Symbol = Symbol::from_static("amqp:session:handle-in-use");
    /// `amqp:session:unattached-handle`, of session-error.
    pub const UNATTACHED_HANDLE: Symbol = Symbol::from_static("amqp:session:unattached-handle");
    /// `amqp:link:detach-forced`, of link-error.
    pub const DETACH_FORCED: Symbol = Symbol::from_static("amqp:link:detach-forced");
    /// `amqp:link:transfer-limit-exceeded`, of link-error.
    pub const TRANSFER_LIMIT_EXCEEDED: Symbol = Symbol::from_static("amqp:link:transfer-limit-exceeded");
    /// `amqp:link:message-size-exceeded`, of link-error.
    pub const MESSAGE_SIZE_EXCEEDED: Symbol = Symbol::from_static("amqp:link:message-size-exceeded");
    /// `amqp:link:redirect`, of link-error.
    pub const LINK_REDIRECT: Symbol = Symbol::from_static("amqp:link:redirect");
    /// `amqp:link:stolen`, of link-error.
    pub const STOLEN: Symbol = Symbol::from_static("amqp:link:stolen");
    /// `amqp:transaction:unknown-id`, of transaction-error.
    pub const UNKNOWN_ID: Symbol = Symbol::from_static("amqp:transaction:unknown-id");
    /// `amqp:transaction:rollback`, of transaction-error.
    pub const TRANSACTION_ROLLBACK: Symbol = Symbol::from_static("amqp:transaction:rollback");
    /// `amqp:transaction:timeout`, of transaction-error.
    pub const TRANSACTION_TIMEOUT: Symbol = Symbol::from_static("amqp:transaction:timeout");
}

/// The choices of `role`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// `false`
    Sender,
    /// `true`
    Receiver,
}

impl Field for Role {
    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        let Some(value) = reader.read_bool_opt()? else { return Ok(None) };
        Ok(Some(match value {
            false => Self::Sender,
            true => Self::Receiver,
        }))
    }
}

impl Encode for Role {
    fn encode(&self, out: &mut BytesMut) {
        encode::put_bool(
            out,
            match self {
                Self::Sender => false,
                Self::Receiver => true,
            },
        )
    }
}

/// The choices of `sender-settle-mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SenderSettleMode {
    /// `0`
    Unsettled,
    /// `1`
    Settled,
    /// `2`
    Mixed,
}

impl Field for SenderSettleMode {
    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        let offset = reader.offset();
        let Some(value) = reader.read_u8_opt()? else { return Ok(None) };
        Ok(Some(match value {
            0 => Self::Unsettled,
            1 => Self::Settled,
            2 => Self::Mixed,
            _ => return Err(DecodeError::InvalidChoice { offset, restricted: "sender-settle-mode" }),
        }))
    }
}

impl Encode for SenderSettleMode {
    fn encode(&self, out: &mut BytesMut) {
        encode::put_u8(
            out,
            match self {
                Self::Unsettled => 0,
                Self::Settled => 1,
                Self::Mixed => 2,
            },
        )
    }
}

/// The choices of `receiver-settle-mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReceiverSettleMode {
    /// `0`
    First,
    /// `1`
    Second,
}

impl Field for ReceiverSettleMode {
    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        let offset = reader.offset();
        let Some(value) = reader.read_u8_opt()? else { return Ok(None) };
        Ok(Some(match value {
            0 => Self::First,
            1 => Self::Second,
            _ => return Err(DecodeError::InvalidChoice { offset, restricted: "receiver-settle-mode" }),
        }))
    }
}

impl Encode for ReceiverSettleMode {
    fn encode(&self, out: &mut BytesMut) {
        encode::put_u8(
            out,
            match self {
                Self::First => 0,
                Self::Second => 1,
            },
        )
    }
}

/// The choices of `terminus-durability`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TerminusDurability {
    /// `0`
    None,
    /// `1`
    Configuration,
    /// `2`
    UnsettledState,
}

impl Field for TerminusDurability {
    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        let offset = reader.offset();
        let Some(value) = reader.read_u32_opt()? else { return Ok(None) };
        Ok(Some(match value {
            0 => Self::None,
            1 => Self::Configuration,
            2 => Self::UnsettledState,
            _ => return Err(DecodeError::InvalidChoice { offset, restricted: "terminus-durability" }),
        }))
    }
}

impl Encode for TerminusDurability {
    fn encode(&self, out: &mut BytesMut) {
        encode::put_u32(
            out,
            match self {
                Self::None => 0,
                Self::Configuration => 1,
                Self::UnsettledState => 2,
            },
        )
    }
}

/// The choices of `terminus-expiry-policy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TerminusExpiryPolicy {
    /// `link-detach`
    LinkDetach,
    /// `session-end`
    SessionEnd,
    /// `connection-close`
    ConnectionClose,
    /// `never`
    Never,
}

impl Field for TerminusExpiryPolicy {
    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        let offset = reader.offset();
        let Some(value) = reader.read_symbol_opt()? else { return Ok(None) };
        Ok(Some(match value {
            "link-detach" => Self::LinkDetach,
            "session-end" => Self::SessionEnd,
            "connection-close" => Self::ConnectionClose,
            "never" => Self::Never,
            _ => return Err(DecodeError::InvalidChoice { offset, restricted: "terminus-expiry-policy" }),
        }))
    }
}

impl Encode for TerminusExpiryPolicy {
    fn encode(&self, out: &mut BytesMut) {
        encode::put_symbol(
            out,
            match self {
                Self::LinkDetach => "link-detach",
                Self::SessionEnd => "session-end",
                Self::ConnectionClose => "connection-close",
                Self::Never => "never",
            },
        )
    }
}

/// The choices of `sasl-code`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SaslCode {
    /// `0`
    Ok,
    /// `1`
    Auth,
    /// `2`
    Sys,
    /// `3`
    SysPerm,
    /// `4`
    SysTemp,
}

impl Field for SaslCode {
    #[inline]
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        let offset = reader.offset();
        let Some(value) = reader.read_u8_opt()? else { return Ok(None) };
        Ok(Some(match value {
            0 => Self::Ok,
            1 => Self::Auth,
            2 => Self::Sys,
            3 => Self::SysPerm,
            4 => Self::SysTemp,
            _ => return Err(DecodeError::InvalidChoice { offset, restricted: "sasl-code" }),
        }))
    }
}

impl Encode for SaslCode {
    fn encode(&self, out: &mut BytesMut) {
        encode::put_u8(
            out,
            match self {
                Self::Ok => 0,
                Self::Auth => 1,
                Self::Sys => 2,
                Self::SysPerm => 3,
                Self::SysTemp => 4,
            },
        )
    }
}

/// `amqp:open:list`, descriptor 0x10.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    /// `container-id`, string, mandatory.
    pub container_id: String,
    /// `hostname`, string.
    pub hostname: Option<String>,
    /// `max-frame-size`, uint, default 4294967295.
    pub max_frame_size: u32,
    /// `channel-max`, ushort, default 65535.
    pub channel_max: u16,
    /// `idle-time-out`, milliseconds.
    pub idle_time_out: Option<u32>,
    /// `outgoing-locales`, ietf-language-tag, any number.
    pub outgoing_locales: Vec<Symbol>,
    /// `incoming-locales`, ietf-language-tag, any number.
    pub incoming_locales: Vec<Symbol>,
    /// `offered-capabilities`, symbol, any number.
    pub offered_capabilities: Vec<Symbol>,
    /// `desired-capabilities`, symbol, any number.
    pub desired_capabilities: Vec<Symbol>,
    /// `properties`, fields.
    pub properties: Option<Map>,
}

impl Open {
    /// With the mandatory fields given and the others absent or at their defaults.
    pub fn new(container_id: impl Into<String>) -> Self {
        Self {
            container_id: container_id.into(),
            hostname: None,
            max_frame_size: u32::MAX,
            channel_max: u16::MAX,
            idle_time_out: None,
            outgoing_locales: Vec::new(),
            incoming_locales: Vec::new(),
            offered_capabilities: Vec::new(),
            desired_capabilities: Vec::new(),
            properties: None,
        }
    }

    /// Reads the descriptor and the fields.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let offset = reader.offset();
        if reader.read_descriptor()? != descriptor::OPEN {
            return Err(DecodeError::UnknownDescriptor { offset });
        }
        Self::decode_fields(reader)
    }

    /// Reads the fields; the descriptor has been read.
    pub fn decode_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = reader.read_fields("open")?;
        let value = Self {
            container_id: fields.mandatory("open.container-id")?,
            hostname: fields.optional()?,
            max_frame_size: fields.or(u32::MAX)?,
            channel_max: fields.or(u16::MAX)?,
            idle_time_out: fields.optional()?,
            outgoing_locales: fields.optional()?.unwrap_or_default(),
            incoming_locales: fields.optional()?.unwrap_or_default(),
            offered_capabilities: fields.optional()?.unwrap_or_default(),
            desired_capabilities: fields.optional()?.unwrap_or_default(),
            properties: fields.optional()?,
        };
        fields.finish()?;
        Ok(value)
    }
}

impl Encode for Open {
    fn encode(&self, out: &mut BytesMut) {
        let mut list = ListWriter::new(out, descriptor::OPEN);
        list.put(&self.container_id);
        list.optional(&self.hostname);
        list.or(&self.max_frame_size, &u32::MAX);
        list.or(&self.channel_max, &u16::MAX);
        list.optional(&self.idle_time_out);
        list.multiple(&self.outgoing_locales);
        list.multiple(&self.incoming_locales);
        list.multiple(&self.offered_capabilities);
        list.multiple(&self.desired_capabilities);
        list.optional(&self.properties);
        list.finish();
    }
}

impl Field for Open {
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        if reader.take_null() { Ok(None) } else { Self::decode(reader).map(Some) }
    }
}

impl Default for Open {
    fn default() -> Self {
        Self {
            container_id: String::new(),
            hostname: None,
            max_frame_size: u32::MAX,
            channel_max: u16::MAX,
            idle_time_out: None,
            outgoing_locales: Vec::new(),
            incoming_locales: Vec::new(),
            offered_capabilities: Vec::new(),
            desired_capabilities: Vec::new(),
            properties: None,
        }
    }
}

/// `amqp:begin:list`, descriptor 0x11.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begin {
    /// `remote-channel`, ushort.
    pub remote_channel: Option<u16>,
    /// `next-outgoing-id`, transfer-number, mandatory.
    pub next_outgoing_id: u32,
    /// `incoming-window`, uint, mandatory.
    pub incoming_window: u32,
    /// `outgoing-window`, uint, mandatory.
    pub outgoing_window: u32,
    /// `handle-max`, handle, default 4294967295.
    pub handle_max: u32,
    /// `offered-capabilities`, symbol, any number.
    pub offered_capabilities: Vec<Symbol>,
    /// `desired-capabilities`, symbol, any number.
    pub desired_capabilities: Vec<Symbol>,
    /// `properties`, fields.
    pub properties: Option<Map>,
}

impl Begin {
    /// With the mandatory fields given and the others absent or at their defaults.
    pub fn new(next_outgoing_id: u32, incoming_window: u32, outgoing_window: u32) -> Self {
        Self {
            remote_channel: None,
            next_outgoing_id,
            incoming_window,
            outgoing_window,
            handle_max: u32::MAX,
            offered_capabilities: Vec::new(),
            desired_capabilities: Vec::new(),
            properties: None,
        }
    }

    /// Reads the descriptor and the fields.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let offset = reader.offset();
        if reader.read_descriptor()? != descriptor::BEGIN {
            return Err(DecodeError::UnknownDescriptor { offset });
        }
        Self::decode_fields(reader)
    }

    /// Reads the fields; the descriptor has been read.
    pub fn decode_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = reader.read_fields("begin")?;
        let value = Self {
            remote_channel: fields.optional()?,
            next_outgoing_id: fields.mandatory("begin.next-outgoing-id")?,
            incoming_window: fields.mandatory("begin.incoming-window")?,
            outgoing_window: fields.mandatory("begin.outgoing-window")?,
            handle_max: fields.or(u32::MAX)?,
            offered_capabilities: fields.optional()?.unwrap_or_default(),
            desired_capabilities: fields.optional()?.unwrap_or_default(),
            properties: fields.optional()?,
        };
        fields.finish()?;
        Ok(value)
    }
}

impl Encode for Begin {
    fn encode(&self, out: &mut BytesMut) {
        let mut list = ListWriter::new(out, descriptor::BEGIN);
        list.optional(&self.remote_channel);
        list.put(&self.next_outgoing_id);
        list.put(&self.incoming_window);
        list.put(&self.outgoing_window);
        list.or(&self.handle_max, &u32::MAX);
        list.multiple(&self.offered_capabilities);
        list.multiple(&self.desired_capabilities);
        list.optional(&self.properties);
        list.finish();
    }
}

impl Field for Begin {
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        if reader.take_null() { Ok(None) } else { Self::decode(reader).map(Some) }
    }
}

impl Default for Begin {
    fn default() -> Self {
        Self {
            remote_channel: None,
            next_outgoing_id: 0,
            incoming_window: 0,
            outgoing_window: 0,
            handle_max: u32::MAX,
            offered_capabilities: Vec::new(),
            desired_capabilities: Vec::new(),
            properties: None,
        }
    }
}

/// `amqp:attach:list`, descriptor 0x12.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attach {
    /// `name`, string, mandatory.
    pub name: String,
    /// `handle`, handle, mandatory.
    pub handle: u32,
    /// `role`, role, mandatory.
    pub role: Role,
    /// `snd-settle-mode`, sender-settle-mode, default mixed.
    pub snd_settle_mode: SenderSettleMode,
    /// `rcv-settle-mode`, receiver-settle-mode, default first.
    pub rcv_settle_mode: ReceiverSettleMode,
    /// `source`, source.
    pub source: Option<Source>,
    /// `target`, target.
    pub target: Option<TargetArchetype>,
    /// `unsettled`, map.
    pub unsettled: Option<Map>,
    /// `incomplete-unsettled`, boolean, default false.
    pub incomplete_unsettled: bool,
    /// `initial-delivery-count`, sequence-no.
    pub initial_delivery_count: Option<u32>,
    /// `max-message-size`, ulong.
    pub max_message_size: Option<u64>,
    /// `offered-capabilities`, symbol, any number.
    pub offered_capabilities: Vec<Symbol>,
    /// `desired-capabilities`, symbol, any number.
    pub desired_capabilities: Vec<Symbol>,
    /// `properties`, fields.
    pub properties: Option<Map>,
}

impl Attach {
    /// With the mandatory fields given and the others absent or at their defaults.
    pub fn new(name: impl Into<String>, handle: u32, role: Role) -> Self {
        Self {
            name: name.into(),
            handle,
            role,
            snd_settle_mode: SenderSettleMode::Mixed,
            rcv_settle_mode: ReceiverSettleMode::First,
            source: None,
            target: None,
            unsettled: None,
            incomplete_unsettled: false,
            initial_delivery_count: None,
            max_message_size: None,
            offered_capabilities: Vec::new(),
            desired_capabilities: Vec::new(),
            properties: None,
        }
    }

    /// Reads the descriptor and the fields.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let offset = reader.offset();
        if reader.read_descriptor()? != descriptor::ATTACH {
            return Err(DecodeError::UnknownDescriptor { offset });
        }
        Self::decode_fields(reader)
    }

    /// Reads the fields; the descriptor has been read.
    pub fn decode_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = reader.read_fields("attach")?;
        let value = Self {
            name: fields.mandatory("attach.name")?,
            handle: fields.mandatory("attach.handle")?,
            role: fields.mandatory("attach.role")?,
            snd_settle_mode: fields.or(SenderSettleMode::Mixed)?,
            rcv_settle_mode: fields.or(ReceiverSettleMode::First)?,
            source: fields.optional()?,
            target: fields.optional()?,
            unsettled: fields.optional()?,
            incomplete_unsettled: fields.or(false)?,
            initial_delivery_count: fields.optional()?,
            max_message_size: fields.optional()?,
            offered_capabilities: fields.optional()?.unwrap_or_default(),
            desired_capabilities: fields.optional()?.unwrap_or_default(),
            properties: fields.optional()?,
        };
        fields.finish()?;
        Ok(value)
    }
}

impl Encode for Attach {
    fn encode(&self, out: &mut BytesMut) {
        let mut list = ListWriter::new(out, descriptor::ATTACH);
        list.put(&self.name);
        list.put(&self.handle);
        list.put(&self.role);
        list.or(&self.snd_settle_mode, &SenderSettleMode::Mixed);
        list.or(&self.rcv_settle_mode, &ReceiverSettleMode::First);
        list.optional(&self.source);
        list.optional(&self.target);
        list.optional(&self.unsettled);
        list.or(&self.incomplete_unsettled, &false);
        list.optional(&self.initial_delivery_count);
        list.optional(&self.max_message_size);
        list.multiple(&self.offered_capabilities);
        list.multiple(&self.desired_capabilities);
        list.optional(&self.properties);
        list.finish();
    }
}

impl Field for Attach {
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        if reader.take_null() { Ok(None) } else { Self::decode(reader).map(Some) }
    }
}

/// `amqp:flow:list`, descriptor 0x13.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Flow {
    /// `next-incoming-id`, transfer-number.
    pub next_incoming_id: Option<u32>,
    /// `incoming-window`, uint, mandatory.
    pub incoming_window: u32,
    /// `next-outgoing-id`, transfer-number, mandatory.
    pub next_outgoing_id: u32,
    /// `outgoing-window`, uint, mandatory.
    pub outgoing_window: u32,
    /// `handle`, handle.
    pub handle: Option<u32>,
    /// `delivery-count`, sequence-no.
    pub delivery_count: Option<u32>,
    /// `link-credit`, uint.
    pub link_credit: Option<u32>,
    /// `available`, uint.
    pub available: Option<u32>,
    /// `drain`, boolean, default false.
    pub drain: bool,
    /// `echo`, boolean, default false.
    pub echo: bool,
    /// `properties`, fields.
    pub properties: Option<Map>,
}

impl Flow {
    /// With the mandatory fields given and the others absent or at their defaults.
    pub fn new(incoming_window: u32, next_outgoing_id: u32, outgoing_window: u32) -> Self {
        Self {
            next_incoming_id: None,
            incoming_window,
            next_outgoing_id,
            outgoing_window,
            handle: None,
            delivery_count: None,
            link_credit: None,
            available: None,
            drain: false,
            echo: false,
            properties: None,
        }
    }

    /// Reads the descriptor and the fields.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let offset = reader.offset();
        if reader.read_descriptor()? != descriptor::FLOW {
            return Err(DecodeError::UnknownDescriptor { offset });
        }
        Self::decode_fields(reader)
    }

    /// Reads the fields; the descriptor has been read.
    pub fn decode_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = reader.read_fields("flow")?;
        let value = Self {
            next_incoming_id: fields.optional()?,
            incoming_window: fields.mandatory("flow.incoming-window")?,
            next_outgoing_id: fields.mandatory("flow.next-outgoing-id")?,
            outgoing_window: fields.mandatory("flow.outgoing-window")?,
            handle: fields.optional()?,
            delivery_count: fields.optional()?,
            link_credit: fields.optional()?,
            available: fields.optional()?,
            drain: fields.or(false)?,
            echo: fields.or(false)?,
            properties: fields.optional()?,
        };
        fields.finish()?;
        Ok(value)
    }
}

impl Encode for Flow {
    fn encode(&self, out: &mut BytesMut) {
        let mut list = ListWriter::new(out, descriptor::FLOW);
        list.optional(&self.next_incoming_id);
        list.put(&self.incoming_window);
        list.put(&self.next_outgoing_id);
        list.put(&self.outgoing_window);
        list.optional(&self.handle);
        list.optional(&self.delivery_count);
        list.optional(&self.link_credit);
        list.optional(&self.available);
        list.or(&self.drain, &false);
        list.or(&self.echo, &false);
        list.optional(&self.properties);
        list.finish();
    }
}

impl Field for Flow {
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        if reader.take_null() { Ok(None) } else { Self::decode(reader).map(Some) }
    }
}

/// `amqp:disposition:list`, descriptor 0x15.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disposition {
    /// `role`, role, mandatory.
    pub role: Role,
    /// `first`, delivery-number, mandatory.
    pub first: u32,
    /// `last`, delivery-number.
    pub last: Option<u32>,
    /// `settled`, boolean, default false.
    pub settled: bool,
    /// `state`, delivery-state.
    pub state: Option<DeliveryState>,
    /// `batchable`, boolean, default false.
    pub batchable: bool,
}

impl Disposition {
    /// With the mandatory fields given and the others absent or at their defaults.
    pub fn new(role: Role, first: u32) -> Self {
        Self { role, first, last: None, settled: false, state: None, batchable: false }
    }

    /// Reads the descriptor and the fields.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let offset = reader.offset();
        if reader.read_descriptor()? != descriptor::DISPOSITION {
            return Err(DecodeError::UnknownDescriptor { offset });
        }
        Self::decode_fields(reader)
    }

    /// Reads the fields; the descriptor has been read.
    pub fn decode_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = reader.read_fields("disposition")?;
        let value = Self {
            role: fields.mandatory("disposition.role")?,
            first: fields.mandatory("disposition.first")?,
            last: fields.optional()?,
            settled: fields.or(false)?,
            state: fields.optional()?,
            batchable: fields.or(false)?,
        };
        fields.finish()?;
        Ok(value)
    }
}

impl Encode for Disposition {
    fn encode(&self, out: &mut BytesMut) {
        let mut list = ListWriter::new(out, descriptor::DISPOSITION);
        list.put(&self.role);
        list.put(&self.first);
        list.optional(&self.last);
        list.or(&self.settled, &false);
        list.optional(&self.state);
        list.or(&self.batchable, &false);
        list.finish();
    }
}

impl Field for Disposition {
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        if reader.take_null() { Ok(None) } else { Self::decode(reader).map(Some) }
    }
}

/// `amqp:detach:list`, descriptor 0x16.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Detach {
    /// `handle`, handle, mandatory.
    pub handle: u32,
    /// `closed`, boolean, default false.
    pub closed: bool,
    /// `error`, error.
    pub error: Option<AmqpError>,
}

impl Detach {
    /// With the mandatory fields given and the others absent or at their defaults.
    pub fn new(handle: u32) -> Self {
        Self { handle, closed: false, error: None }
    }

    /// Reads the descriptor and the fields.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let offset = reader.offset();
        if reader.read_descriptor()? != descriptor::DETACH {
            return Err(DecodeError::UnknownDescriptor { offset });
        }
        Self::decode_fields(reader)
    }

    /// Reads the fields; the descriptor has been read.
    pub fn decode_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = reader.read_fields("detach")?;
        let value = Self {
            handle: fields.mandatory("detach.handle")?,
            closed: fields.or(false)?,
            error: fields.optional()?,
        };
        fields.finish()?;
        Ok(value)
    }
}

impl Encode for Detach {
    fn encode(&self, out: &mut BytesMut) {
        let mut list = ListWriter::new(out, descriptor::DETACH);
        list.put(&self.handle);
        list.or(&self.closed, &false);
        list.optional(&self.error);
        list.finish();
    }
}

impl Field for Detach {
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        if reader.take_null() { Ok(None) } else { Self::decode(reader).map(Some) }
    }
}

/// `amqp:end:list`, descriptor 0x17.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct End {
    /// `error`, error.
    pub error: Option<AmqpError>,
}

impl End {
    /// Reads the descriptor and the fields.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let offset = reader.offset();
        if reader.read_descriptor()? != descriptor::END {
            return Err(DecodeError::UnknownDescriptor { offset });
        }
        Self::decode_fields(reader)
    }

    /// Reads the fields; the descriptor has been read.
    pub fn decode_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = reader.read_fields("end")?;
        let value = Self { error: fields.optional()? };
        fields.finish()?;
        Ok(value)
    }
}

impl Encode for End {
    fn encode(&self, out: &mut BytesMut) {
        let mut list = ListWriter::new(out, descriptor::END);
        list.optional(&self.error);
        list.finish();
    }
}

impl Field for End {
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        if reader.take_null() { Ok(None) } else { Self::decode(reader).map(Some) }
    }
}

/// `amqp:close:list`, descriptor 0x18.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Close {
    /// `error`, error.
    pub error: Option<AmqpError>,
}

impl Close {
    /// Reads the descriptor and the fields.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let offset = reader.offset();
        if reader.read_descriptor()? != descriptor::CLOSE {
            return Err(DecodeError::UnknownDescriptor { offset });
        }
        Self::decode_fields(reader)
    }

    /// Reads the fields; the descriptor has been read.
    pub fn decode_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = reader.read_fields("close")?;
        let value = Self { error: fields.optional()? };
        fields.finish()?;
        Ok(value)
    }
}

impl Encode for Close {
    fn encode(&self, out: &mut BytesMut) {
        let mut list = ListWriter::new(out, descriptor::CLOSE);
        list.optional(&self.error);
        list.finish();
    }
}

impl Field for Close {
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        if reader.take_null() { Ok(None) } else { Self::decode(reader).map(Some) }
    }
}

/// `amqp:error:list`, descriptor 0x1d.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AmqpError {
    /// `condition`, symbol, mandatory.
    pub condition: Symbol,
    /// `description`, string.
    pub description: Option<String>,
    /// `info`, fields.
    pub info: Option<Map>,
}

impl AmqpError {
    /// With the mandatory fields given and the others absent or at their defaults.
    pub fn new(condition: Symbol) -> Self {
        Self { condition, description: None, info: None }
    }

    /// Reads the descriptor and the fields.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let offset = reader.offset();
        if reader.read_descriptor()? != descriptor::ERROR {
            return Err(DecodeError::UnknownDescriptor { offset });
        }
        Self::decode_fields(reader)
    }

    /// Reads the fields; the descriptor has been read.
    pub fn decode_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = reader.read_fields("error")?;
        let value = Self {
            condition: fields.mandatory("error.condition")?,
            description: fields.optional()?,
            info: fields.optional()?,
        };
        fields.finish()?;
        Ok(value)
    }
}

impl Encode for AmqpError {
    fn encode(&self, out: &mut BytesMut) {
        let mut list = ListWriter::new(out, descriptor::ERROR);
        list.put(&self.condition);
        list.optional(&self.description);
        list.optional(&self.info);
        list.finish();
    }
}

impl Field for AmqpError {
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        if reader.take_null() { Ok(None) } else { Self::decode(reader).map(Some) }
    }
}

/// `amqp:header:list`, descriptor 0x70.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Header {
    /// `durable`, boolean.
    pub durable: Option<bool>,
    /// `priority`, ubyte.
    pub priority: Option<u8>,
    /// `ttl`, milliseconds.
    pub ttl: Option<u32>,
    /// `first-acquirer`, boolean.
    pub first_acquirer: Option<bool>,
    /// `delivery-count`, uint.
    pub delivery_count: Option<u32>,
}

impl Header {
    /// Reads the descriptor and the fields.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let offset = reader.offset();
        if reader.read_descriptor()? != descriptor::HEADER {
            return Err(DecodeError::UnknownDescriptor { offset });
        }
        Self::decode_fields(reader)
    }

    /// Reads the fields; the descriptor has been read.
    pub fn decode_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = reader.read_fields("header")?;
        let value = Self {
            durable: fields.optional()?,
            priority: fields.optional()?,
            ttl: fields.optional()?,
            first_acquirer: fields.optional()?,
            delivery_count: fields.optional()?,
        };
        fields.finish()?;
        Ok(value)
    }
}

impl Encode for Header {
    fn encode(&self, out: &mut BytesMut) {
        let mut list = ListWriter::new(out, descriptor::HEADER);
        list.optional(&self.durable);
        list.optional(&self.priority);
        list.optional(&self.ttl);
        list.optional(&self.first_acquirer);
        list.optional(&self.delivery_count);
        list.finish();
    }
}

impl Field for Header {
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        if reader.take_null() { Ok(None) } else { Self::decode(reader).map(Some) }
    }
}

/// `amqp:properties:list`, descriptor 0x73.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Properties {
    /// `message-id`, message-id.
    pub message_id: Option<Value>,
    /// `user-id`, binary.
    pub user_id: Option<Bytes>,
    /// `to`, address.
    pub to: Option<String>,
    /// `subject`, string.
    pub subject: Option<String>,
    /// `reply-to`, address.
    pub reply_to: Option<String>,
    /// `correlation-id`, message-id.
    pub correlation_id: Option<Value>,
    /// `content-type`, symbol.
    pub content_type: Option<Symbol>,
    /// `content-encoding`, symbol.
    pub content_encoding: Option<Symbol>,
    /// `absolute-expiry-time`, timestamp (milliseconds since the Unix epoch).
    pub absolute_expiry_time: Option<i64>,
    /// `creation-time`, timestamp (milliseconds since the Unix epoch).
    pub creation_time: Option<i64>,
    /// `group-id`, string.
    pub group_id: Option<String>,
    /// `group-sequence`, sequence-no.
    pub group_sequence: Option<u32>,
    /// `reply-to-group-id`, string.
    pub reply_to_group_id: Option<String>,
}

impl Properties {
    /// Reads the descriptor and the fields.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let offset = reader.offset();
        if reader.read_descriptor()? != descriptor::PROPERTIES {
            return Err(DecodeError::UnknownDescriptor { offset });
        }
        Self::decode_fields(reader)
    }

    /// Reads the fields; the descriptor has been read.
    pub fn decode_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = reader.read_fields("properties")?;
        let value = Self {
            message_id: fields.message_id()?,
            user_id: fields.optional()?,
            to: fields.optional()?,
            subject: fields.optional()?,
            reply_to: fields.optional()?,
            correlation_id: fields.message_id()?,
            content_type: fields.optional()?,
            content_encoding: fields.optional()?,
            absolute_expiry_time: fields.timestamp()?,
            creation_time: fields.timestamp()?,
            group_id: fields.optional()?,
            group_sequence: fields.optional()?,
            reply_to_group_id: fields.optional()?,
        };
        fields.finish()?;
        Ok(value)
    }
}

impl Encode for Properties {
    fn encode(&self, out: &mut BytesMut) {
        let mut list = ListWriter::new(out, descriptor::PROPERTIES);
        list.optional(&self.message_id);
        list.optional(&self.user_id);
        list.optional(&self.to);
        list.optional(&self.subject);
        list.optional(&self.reply_to);
        list.optional(&self.correlation_id);
        list.optional(&self.content_type);
        list.optional(&self.content_encoding);
        list.timestamp(self.absolute_expiry_time);
        list.timestamp(self.creation_time);
        list.optional(&self.group_id);
        list.optional(&self.group_sequence);
        list.optional(&self.reply_to_group_id);
        list.finish();
    }
}

impl Field for Properties {
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        if reader.take_null() { Ok(None) } else { Self::decode(reader).map(Some) }
    }
}

/// `amqp:received:list`, descriptor 0x23.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Received {
    /// `section-number`, uint, mandatory.
    pub section_number: u32,
    /// `section-offset`, ulong, mandatory.
    pub section_offset: u64,
}

impl Received {
    /// With the mandatory fields given and the others absent or at their defaults.
    pub fn new(section_number: u32, section_offset: u64) -> Self {
        Self { section_number, section_offset }
    }

    /// Reads the descriptor and the fields.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let offset = reader.offset();
        if reader.read_descriptor()? != descriptor::RECEIVED {
            return Err(DecodeError::UnknownDescriptor { offset });
        }
        Self::decode_fields(reader)
    }

    /// Reads the fields; the descriptor has been read.
    pub fn decode_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = reader.read_fields("received")?;
        let value = Self {
            section_number: fields.mandatory("received.section-number")?,
            section_offset: fields.mandatory("received.section-offset")?,
        };
        fields.finish()?;
        Ok(value)
    }
}

impl Encode for Received {
    fn encode(&self, out: &mut BytesMut) {
        let mut list = ListWriter::new(out, descriptor::RECEIVED);
        list.put(&self.section_number);
        list.put(&self.section_offset);
        list.finish();
    }
}

impl Field for Received {
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        if reader.take_null() { Ok(None) } else { Self::decode(reader).map(Some) }
    }
}

/// `amqp:accepted:list`, descriptor 0x24.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Accepted {}

impl Accepted {
    /// Reads the descriptor and the fields.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let offset = reader.offset();
        if reader.read_descriptor()? != descriptor::ACCEPTED {
            return Err(DecodeError::UnknownDescriptor { offset });
        }
        Self::decode_fields(reader)
    }

    /// Reads the fields; the descriptor has been read.
    pub fn decode_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let fields = reader.read_fields("accepted")?;
        let value = Self {};
        fields.finish()?;
        Ok(value)
    }
}

impl Encode for Accepted {
    fn encode(&self, out: &mut BytesMut) {
        let list = ListWriter::new(out, descriptor::ACCEPTED);
        list.finish();
    }
}

impl Field for Accepted {
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        if reader.take_null() { Ok(None) } else { Self::decode(reader).map(Some) }
    }
}

/// `amqp:rejected:list`, descriptor 0x25.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rejected {
    /// `error`, error.
    pub error: Option<AmqpError>,
}

impl Rejected {
    /// Reads the descriptor and the fields.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let offset = reader.offset();
        if reader.read_descriptor()? != descriptor::REJECTED {
            return Err(DecodeError::UnknownDescriptor { offset });
        }
        Self::decode_fields(reader)
    }

    /// Reads the fields; the descriptor has been read.
    pub fn decode_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = reader.read_fields("rejected")?;
        let value = Self { error: fields.optional()? };
        fields.finish()?;
        Ok(value)
    }
}

impl Encode for Rejected {
    fn encode(&self, out: &mut BytesMut) {
        let mut list = ListWriter::new(out, descriptor::REJECTED);
        list.optional(&self.error);
        list.finish();
    }
}

impl Field for Rejected {
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        if reader.take_null() { Ok(None) } else { Self::decode(reader).map(Some) }
    }
}

/// `amqp:released:list`, descriptor 0x26.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Released {}

impl Released {
    /// Reads the descriptor and the fields.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let offset = reader.offset();
        if reader.read_descriptor()? != descriptor::RELEASED {
            return Err(DecodeError::UnknownDescriptor { offset });
        }
        Self::decode_fields(reader)
    }

    /// Reads the fields; the descriptor has been read.
    pub fn decode_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let fields = reader.read_fields("released")?;
        let value = Self {};
        fields.finish()?;
        Ok(value)
    }
}

impl Encode for Released {
    fn encode(&self, out: &mut BytesMut) {
        let list = ListWriter::new(out, descriptor::RELEASED);
        list.finish();
    }
}

impl Field for Released {
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        if reader.take_null() { Ok(None) } else { Self::decode(reader).map(Some) }
    }
}

/// `amqp:modified:list`, descriptor 0x27.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Modified {
    /// `delivery-failed`, boolean.
    pub delivery_failed: Option<bool>,
    /// `undeliverable-here`, boolean.
    pub undeliverable_here: Option<bool>,
    /// `message-annotations`, fields.
    pub message_annotations: Option<Map>,
}

impl Modified {
    /// Reads the descriptor and the fields.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let offset = reader.offset();
        if reader.read_descriptor()? != descriptor::MODIFIED {
            return Err(DecodeError::UnknownDescriptor { offset });
        }
        Self::decode_fields(reader)
    }

    /// Reads the fields; the descriptor has been read.
    pub fn decode_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = reader.read_fields("modified")?;
        let value = Self {
            delivery_failed: fields.optional()?,
            undeliverable_here: fields.optional()?,
            message_annotations: fields.optional()?,
        };
        fields.finish()?;
        Ok(value)
    }
}

impl Encode for Modified {
    fn encode(&self, out: &mut BytesMut) {
        let mut list = ListWriter::new(out, descriptor::MODIFIED);
        list.optional(&self.delivery_failed);
        list.optional(&self.undeliverable_here);
        list.optional(&self.message_annotations);
        list.finish();
    }
}

impl Field for Modified {
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        if reader.take_null() { Ok(None) } else { Self::decode(reader).map(Some) }
    }
}

/// `amqp:source:list`, descriptor 0x28.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// `address`, address.
    pub address: Option<String>,
    /// `durable`, terminus-durability, default none.
    pub durable: TerminusDurability,
    /// `expiry-policy`, terminus-expiry-policy, default session-end.
    pub expiry_policy: TerminusExpiryPolicy,
    /// `timeout`, seconds, default 0.
    pub timeout: u32,
    /// `dynamic`, boolean, default false.
    pub dynamic: bool,
    /// `dynamic-node-properties`, node-properties.
    pub dynamic_node_properties: Option<Map>,
    /// `distribution-mode`, symbol.
    pub distribution_mode: Option<Symbol>,
    /// `filter`, filter-set.
    pub filter: Option<Map>,
    /// `default-outcome`, outcome.
    pub default_outcome: Option<DeliveryState>,
    /// `outcomes`, symbol, any number.
    pub outcomes: Vec<Symbol>,
    /// `capabilities`, symbol, any number.
    pub capabilities: Vec<Symbol>,
}

impl Source {
    /// Reads the descriptor and the fields.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let offset = reader.offset();
        if reader.read_descriptor()? != descriptor::SOURCE {
            return Err(DecodeError::UnknownDescriptor { offset });
        }
        Self::decode_fields(reader)
    }

    /// Reads the fields; the descriptor has been read.
    pub fn decode_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = reader.read_fields("source")?;
        let value = Self {
            address: fields.optional()?,
            durable: fields.or(TerminusDurability::None)?,
            expiry_policy: fields.or(TerminusExpiryPolicy::SessionEnd)?,
            timeout: fields.or(0)?,
            dynamic: fields.or(false)?,
            dynamic_node_properties: fields.optional()?,
            distribution_mode: fields.optional()?,
            filter: fields.optional()?,
            default_outcome: fields.optional()?,
            outcomes: fields.optional()?.unwrap_or_default(),
            capabilities: fields.optional()?.unwrap_or_default(),
        };
        fields.finish()?;
        Ok(value)
    }
}

impl Encode for Source {
    fn encode(&self, out: &mut BytesMut) {
        let mut list = ListWriter::new(out, descriptor::SOURCE);
        list.optional(&self.address);
        list.or(&self.durable, &TerminusDurability::None);
        list.or(&self.expiry_policy, &TerminusExpiryPolicy::SessionEnd);
        list.or(&self.timeout, &0);
        list.or(&self.dynamic, &false);
        list.optional(&self.dynamic_node_properties);
        list.optional(&self.distribution_mode);
        list.optional(&self.filter);
        list.optional(&self.default_outcome);
        list.multiple(&self.outcomes);
        list.multiple(&self.capabilities);
        list.finish();
    }
}

impl Field for Source {
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        if reader.take_null() { Ok(None) } else { Self::decode(reader).map(Some) }
    }
}

impl Default for Source {
    fn default() -> Self {
        Self {
            address: None,
            durable: TerminusDurability::None,
            expiry_policy: TerminusExpiryPolicy::SessionEnd,
            timeout: 0,
            dynamic: false,
            dynamic_node_properties: None,
            distribution_mode: None,
            filter: None,
            default_outcome: None,
            outcomes: Vec::new(),
            capabilities: Vec::new(),
        }
    }
}

/// `amqp:target:list`, descriptor 0x29.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// `address`, address.
    pub address: Option<String>,
    /// `durable`, terminus-durability, default none.
    pub durable: TerminusDurability,
    /// `expiry-policy`, terminus-expiry-policy, default session-end.
    pub expiry_policy: TerminusExpiryPolicy,
    /// `timeout`, seconds, default 0.
    pub timeout: u32,
    /// `dynamic`, boolean, default false.
    pub dynamic: bool,
    /// `dynamic-node-properties`, node-properties.
    pub dynamic_node_properties: Option<Map>,
    /// `capabilities`, symbol, any number.
    pub capabilities: Vec<Symbol>,
}

impl Target {
    /// Reads the descriptor and the fields.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let offset = reader.offset();
        if reader.read_descriptor()? != descriptor::TARGET {
            return Err(DecodeError::UnknownDescriptor { offset });
        }
        Self::decode_fields(reader)
    }

    /// Reads the fields; the descriptor has been read.
    pub fn decode_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = reader.read_fields("target")?;
        let value = Self {
            address: fields.optional()?,
            durable: fields.or(TerminusDurability::None)?,
            expiry_policy: fields.or(TerminusExpiryPolicy::SessionEnd)?,
            timeout: fields.or(0)?,
            dynamic: fields.or(false)?,
            dynamic_node_properties: fields.optional()?,
            capabilities: fields.optional()?.unwrap_or_default(),
        };
        fields.finish()?;
        Ok(value)
    }
}

impl Encode for Target {
    fn encode(&self, out: &mut BytesMut) {
        let mut list = ListWriter::new(out, descriptor::TARGET);
        list.optional(&self.address);
        list.or(&self.durable, &TerminusDurability::None);
        list.or(&self.expiry_policy, &TerminusExpiryPolicy::SessionEnd);
        list.or(&self.timeout, &0);
        list.or(&self.dynamic, &false);
        list.optional(&self.dynamic_node_properties);
        list.multiple(&self.capabilities);
        list.finish();
    }
}

impl Field for Target {
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        if reader.take_null() { Ok(None) } else { Self::decode(reader).map(Some) }
    }
}

impl Default for Target {
    fn default() -> Self {
        Self {
            address: None,
            durable: TerminusDurability::None,
            expiry_policy: TerminusExpiryPolicy::SessionEnd,
            timeout: 0,
            dynamic: false,
            dynamic_node_properties: None,
            capabilities: Vec::new(),
        }
    }
}

/// `amqp:coordinator:list`, descriptor 0x30.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Coordinator {
    /// `capabilities`, symbol, any number.
    pub capabilities: Vec<Symbol>,
}

impl Coordinator {
    /// Reads the descriptor and the fields.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let offset = reader.offset();
        if reader.read_descriptor()? != descriptor::COORDINATOR {
            return Err(DecodeError::UnknownDescriptor { offset });
        }
        Self::decode_fields(reader)
    }

    /// Reads the fields; the descriptor has been read.
    pub fn decode_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = reader.read_fields("coordinator")?;
        let value = Self { capabilities: fields.optional()?.unwrap_or_default() };
        fields.finish()?;
        Ok(value)
    }
}

impl Encode for Coordinator {
    fn encode(&self, out: &mut BytesMut) {
        let mut list = ListWriter::new(out, descriptor::COORDINATOR);
        list.multiple(&self.capabilities);
        list.finish();
    }
}

impl Field for Coordinator {
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        if reader.take_null() { Ok(None) } else { Self::decode(reader).map(Some) }
    }
}

/// `amqp:sasl-mechanisms:list`, descriptor 0x40.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaslMechanisms {
    /// `sasl-server-mechanisms`, symbol, any number, mandatory.
    pub sasl_server_mechanisms: Vec<Symbol>,
}

impl SaslMechanisms {
    /// With the mandatory fields given and the others absent or at their defaults.
    pub fn new(sasl_server_mechanisms: Vec<Symbol>) -> Self {
        Self { sasl_server_mechanisms }
    }

    /// Reads the descriptor and the fields.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let offset = reader.offset();
        if reader.read_descriptor()? != descriptor::SASL_MECHANISMS {
            return Err(DecodeError::UnknownDescriptor { offset });
        }
        Self::decode_fields(reader)
    }

    /// Reads the fields; the descriptor has been read.
    pub fn decode_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = reader.read_fields("sasl-mechanisms")?;
        let value =
            Self { sasl_server_mechanisms: fields.mandatory("sasl-mechanisms.sasl-server-mechanisms")? };
        fields.finish()?;
        Ok(value)
    }
}

impl Encode for SaslMechanisms {
    fn encode(&self, out: &mut BytesMut) {
        let mut list = ListWriter::new(out, descriptor::SASL_MECHANISMS);
        list.put(&self.sasl_server_mechanisms);
        list.finish();
    }
}

impl Field for SaslMechanisms {
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        if reader.take_null() { Ok(None) } else { Self::decode(reader).map(Some) }
    }
}

/// `amqp:sasl-init:list`, descriptor 0x41.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaslInit {
    /// `mechanism`, symbol, mandatory.
    pub mechanism: Symbol,
    /// `initial-response`, binary.
    pub initial_response: Option<Secret>,
    /// `hostname`, string.
    pub hostname: Option<String>,
}

impl SaslInit {
    /// With the mandatory fields given and the others absent or at their defaults.
    pub fn new(mechanism: Symbol) -> Self {
        Self { mechanism, initial_response: None, hostname: None }
    }

    /// Reads the descriptor and the fields.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let offset = reader.offset();
        if reader.read_descriptor()? != descriptor::SASL_INIT {
            return Err(DecodeError::UnknownDescriptor { offset });
        }
        Self::decode_fields(reader)
    }

    /// Reads the fields; the descriptor has been read.
    pub fn decode_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = reader.read_fields("sasl-init")?;
        let value = Self {
            mechanism: fields.mandatory("sasl-init.mechanism")?,
            initial_response: fields.optional()?,
            hostname: fields.optional()?,
        };
        fields.finish()?;
        Ok(value)
    }
}

impl Encode for SaslInit {
    fn encode(&self, out: &mut BytesMut) {
        let mut list = ListWriter::new(out, descriptor::SASL_INIT);
        list.put(&self.mechanism);
        list.optional(&self.initial_response);
        list.optional(&self.hostname);
        list.finish();
    }
}

impl Field for SaslInit {
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        if reader.take_null() { Ok(None) } else { Self::decode(reader).map(Some) }
    }
}

/// `amqp:sasl-challenge:list`, descriptor 0x42.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SaslChallenge {
    /// `challenge`, binary, mandatory.
    pub challenge: Bytes,
}

impl SaslChallenge {
    /// With the mandatory fields given and the others absent or at their defaults.
    pub fn new(challenge: Bytes) -> Self {
        Self { challenge }
    }

    /// Reads the descriptor and the fields.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let offset = reader.offset();
        if reader.read_descriptor()? != descriptor::SASL_CHALLENGE {
            return Err(DecodeError::UnknownDescriptor { offset });
        }
        Self::decode_fields(reader)
    }

    /// Reads the fields; the descriptor has been read.
    pub fn decode_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = reader.read_fields("sasl-challenge")?;
        let value = Self { challenge: fields.mandatory("sasl-challenge.challenge")? };
        fields.finish()?;
        Ok(value)
    }
}

impl Encode for SaslChallenge {
    fn encode(&self, out: &mut BytesMut) {
        let mut list = ListWriter::new(out, descriptor::SASL_CHALLENGE);
        list.put(&self.challenge);
        list.finish();
    }
}

impl Field for SaslChallenge {
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        if reader.take_null() { Ok(None) } else { Self::decode(reader).map(Some) }
    }
}

/// `amqp:sasl-response:list`, descriptor 0x43.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaslResponse {
    /// `response`, binary, mandatory.
    pub response: Secret,
}

impl SaslResponse {
    /// With the mandatory fields given and the others absent or at their defaults.
    pub fn new(response: Secret) -> Self {
        Self { response }
    }

    /// Reads the descriptor and the fields.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let offset = reader.offset();
        if reader.read_descriptor()? != descriptor::SASL_RESPONSE {
            return Err(DecodeError::UnknownDescriptor { offset });
        }
        Self::decode_fields(reader)
    }

    /// Reads the fields; the descriptor has been read.
    pub fn decode_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = reader.read_fields("sasl-response")?;
        let value = Self { response: fields.mandatory("sasl-response.response")? };
        fields.finish()?;
        Ok(value)
    }
}

impl Encode for SaslResponse {
    fn encode(&self, out: &mut BytesMut) {
        let mut list = ListWriter::new(out, descriptor::SASL_RESPONSE);
        list.put(&self.response);
        list.finish();
    }
}

impl Field for SaslResponse {
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        if reader.take_null() { Ok(None) } else { Self::decode(reader).map(Some) }
    }
}

/// `amqp:sasl-outcome:list`, descriptor 0x44.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaslOutcome {
    /// `code`, sasl-code, mandatory.
    pub code: SaslCode,
    /// `additional-data`, binary.
    pub additional_data: Option<Bytes>,
}

impl SaslOutcome {
    /// With the mandatory fields given and the others absent or at their defaults.
    pub fn new(code: SaslCode) -> Self {
        Self { code, additional_data: None }
    }

    /// Reads the descriptor and the fields.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let offset = reader.offset();
        if reader.read_descriptor()? != descriptor::SASL_OUTCOME {
            return Err(DecodeError::UnknownDescriptor { offset });
        }
        Self::decode_fields(reader)
    }

    /// Reads the fields; the descriptor has been read.
    pub fn decode_fields(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut fields = reader.read_fields("sasl-outcome")?;
        let value =
            Self { code: fields.mandatory("sasl-outcome.code")?, additional_data: fields.optional()? };
        fields.finish()?;
        Ok(value)
    }
}

impl Encode for SaslOutcome {
    fn encode(&self, out: &mut BytesMut) {
        let mut list = ListWriter::new(out, descriptor::SASL_OUTCOME);
        list.put(&self.code);
        list.optional(&self.additional_data);
        list.finish();
    }
}

impl Field for SaslOutcome {
    fn read(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        if reader.take_null() { Ok(None) } else { Self::decode(reader).map(Some) }
    }
}
