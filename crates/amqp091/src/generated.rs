//! Generated from `spec/*.json` by `cargo xtask codegen`. Do not edit.
//!
//! One struct for each method, with its arguments as fields. Reserved arguments have no field. `Default` is zero, false
//! and empty, not the default that the specification suggests.

use buffers::Put;
use bytes::BytesMut;

use crate::arguments::{ArgumentError, Reader, put_longstr, put_shortstr, put_table};
use crate::secret::Secret;
use crate::table::Table;
use crate::violation::Violation;

/// `connection.start`, class 10, method 10.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionStart<'a> {
    /// `version-major`
    pub version_major: u8,
    /// `version-minor`
    pub version_minor: u8,
    /// `server-properties`
    pub server_properties: Table<'a>,
    /// `mechanisms`
    pub mechanisms: &'a [u8],
    /// `locales`
    pub locales: &'a [u8],
}

impl<'a> ConnectionStart<'a> {
    /// The number of the class.
    pub const CLASS_ID: u16 = 10;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 10;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "connection.start";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, ArgumentError> {
        let version_major = reader.octet()?;
        let version_minor = reader.octet()?;
        let server_properties = reader.table()?;
        let mechanisms = reader.longstr()?;
        let locales = reader.longstr()?;
        Ok(Self { version_major, version_minor, server_properties, mechanisms, locales })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x000a_000a);
        out.put_u8(self.version_major);
        out.put_u8(self.version_minor);
        put_table(out, self.server_properties);
        put_longstr(out, self.mechanisms);
        put_longstr(out, self.locales);
    }
}

impl<'a> From<ConnectionStart<'a>> for Method<'a> {
    fn from(method: ConnectionStart<'a>) -> Self {
        Self::ConnectionStart(method)
    }
}

/// `connection.start-ok`, class 10, method 11.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionStartOk<'a> {
    /// `client-properties`
    pub client_properties: Table<'a>,
    /// `mechanism`
    pub mechanism: &'a str,
    /// `response`
    pub response: Secret<'a>,
    /// `locale`
    pub locale: &'a str,
}

impl<'a> ConnectionStartOk<'a> {
    /// The number of the class.
    pub const CLASS_ID: u16 = 10;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 11;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "connection.start-ok";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, ArgumentError> {
        let client_properties = reader.table()?;
        let mechanism = reader.shortstr()?;
        let response = reader.secret()?;
        let locale = reader.shortstr()?;
        Ok(Self { client_properties, mechanism, response, locale })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x000a_000b);
        put_table(out, self.client_properties);
        put_shortstr(out, self.mechanism);
        put_longstr(out, self.response.expose());
        put_shortstr(out, self.locale);
    }
}

impl<'a> From<ConnectionStartOk<'a>> for Method<'a> {
    fn from(method: ConnectionStartOk<'a>) -> Self {
        Self::ConnectionStartOk(method)
    }
}

/// `connection.secure`, class 10, method 20.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionSecure<'a> {
    /// `challenge`
    pub challenge: &'a [u8],
}

impl<'a> ConnectionSecure<'a> {
    /// The number of the class.
    pub const CLASS_ID: u16 = 10;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 20;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "connection.secure";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, ArgumentError> {
        let challenge = reader.longstr()?;
        Ok(Self { challenge })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x000a_0014);
        put_longstr(out, self.challenge);
    }
}

impl<'a> From<ConnectionSecure<'a>> for Method<'a> {
    fn from(method: ConnectionSecure<'a>) -> Self {
        Self::ConnectionSecure(method)
    }
}

/// `connection.secure-ok`, class 10, method 21.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionSecureOk<'a> {
    /// `response`
    pub response: Secret<'a>,
}

impl<'a> ConnectionSecureOk<'a> {
    /// The number of the class.
    pub const CLASS_ID: u16 = 10;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 21;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "connection.secure-ok";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, ArgumentError> {
        let response = reader.secret()?;
        Ok(Self { response })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x000a_0015);
        put_longstr(out, self.response.expose());
    }
}

impl<'a> From<ConnectionSecureOk<'a>> for Method<'a> {
    fn from(method: ConnectionSecureOk<'a>) -> Self {
        Self::ConnectionSecureOk(method)
    }
}

/// `connection.tune`, class 10, method 30.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionTune {
    /// `channel-max`
    pub channel_max: u16,
    /// `frame-max`
    pub frame_max: u32,
    /// `heartbeat`
    pub heartbeat: u16,
}

impl ConnectionTune {
    /// The number of the class.
    pub const CLASS_ID: u16 = 10;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 30;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "connection.tune";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, ArgumentError> {
        let channel_max = reader.short()?;
        let frame_max = reader.long()?;
        let heartbeat = reader.short()?;
        Ok(Self { channel_max, frame_max, heartbeat })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x000a_001e);
        out.put_u16(self.channel_max);
        out.put_u32(self.frame_max);
        out.put_u16(self.heartbeat);
    }
}

impl From<ConnectionTune> for Method<'_> {
    fn from(method: ConnectionTune) -> Self {
        Self::ConnectionTune(method)
    }
}

/// `connection.tune-ok`, class 10, method 31.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionTuneOk {
    /// `channel-max`
    pub channel_max: u16,
    /// `frame-max`
    pub frame_max: u32,
    /// `heartbeat`
    pub heartbeat: u16,
}

impl ConnectionTuneOk {
    /// The number of the class.
    pub const CLASS_ID: u16 = 10;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 31;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "connection.tune-ok";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, ArgumentError> {
        let channel_max = reader.short()?;
        let frame_max = reader.long()?;
        let heartbeat = reader.short()?;
        Ok(Self { channel_max, frame_max, heartbeat })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x000a_001f);
        out.put_u16(self.channel_max);
        out.put_u32(self.frame_max);
        out.put_u16(self.heartbeat);
    }
}

impl From<ConnectionTuneOk> for Method<'_> {
    fn from(method: ConnectionTuneOk) -> Self {
        Self::ConnectionTuneOk(method)
    }
}

/// `connection.open`, class 10, method 40.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionOpen<'a> {
    /// `virtual-host`
    pub virtual_host: &'a str,
}

impl<'a> ConnectionOpen<'a> {
    /// The number of the class.
    pub const CLASS_ID: u16 = 10;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 40;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "connection.open";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, ArgumentError> {
        let virtual_host = reader.shortstr()?;
        reader.shortstr()?;
        reader.octet()?;
        Ok(Self { virtual_host })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x000a_0028);
        put_shortstr(out, self.virtual_host);
        put_shortstr(out, "");
        out.put_u8(0);
    }
}

impl<'a> From<ConnectionOpen<'a>> for Method<'a> {
    fn from(method: ConnectionOpen<'a>) -> Self {
        Self::ConnectionOpen(method)
    }
}

/// `connection.open-ok`, class 10, method 41.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionOpenOk;

impl ConnectionOpenOk {
    /// The number of the class.
    pub const CLASS_ID: u16 = 10;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 41;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "connection.open-ok";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, ArgumentError> {
        reader.shortstr()?;
        Ok(Self)
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x000a_0029);
        put_shortstr(out, "");
    }
}

impl From<ConnectionOpenOk> for Method<'_> {
    fn from(method: ConnectionOpenOk) -> Self {
        Self::ConnectionOpenOk(method)
    }
}

/// `connection.close`, class 10, method 50.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionClose<'a> {
    /// `reply-code`
    pub reply_code: u16,
    /// `reply-text`
    pub reply_text: &'a str,
    /// `class-id`
    pub class_id: u16,
    /// `method-id`
    pub method_id: u16,
}

impl<'a> ConnectionClose<'a> {
    /// The number of the class.
    pub const CLASS_ID: u16 = 10;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 50;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "connection.close";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, ArgumentError> {
        let reply_code = reader.short()?;
        let reply_text = reader.shortstr()?;
        let class_id = reader.short()?;
        let method_id = reader.short()?;
        Ok(Self { reply_code, reply_text, class_id, method_id })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x000a_0032);
        out.put_u16(self.reply_code);
        put_shortstr(out, self.reply_text);
        out.put_u16(self.class_id);
        out.put_u16(self.method_id);
    }
}

impl<'a> From<ConnectionClose<'a>> for Method<'a> {
    fn from(method: ConnectionClose<'a>) -> Self {
        Self::ConnectionClose(method)
    }
}

/// `connection.close-ok`, class 10, method 51.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionCloseOk;

impl ConnectionCloseOk {
    /// The number of the class.
    pub const CLASS_ID: u16 = 10;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 51;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "connection.close-ok";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(_: &mut Reader<'_>) -> Result<Self, ArgumentError> {
        Ok(Self)
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x000a_0033);
    }
}

impl From<ConnectionCloseOk> for Method<'_> {
    fn from(method: ConnectionCloseOk) -> Self {
        Self::ConnectionCloseOk(method)
    }
}

/// `connection.blocked`, class 10, method 60.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionBlocked<'a> {
    /// `reason`
    pub reason: &'a str,
}

impl<'a> ConnectionBlocked<'a> {
    /// The number of the class.
    pub const CLASS_ID: u16 = 10;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 60;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "connection.blocked";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, ArgumentError> {
        let reason = reader.shortstr()?;
        Ok(Self { reason })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x000a_003c);
        put_shortstr(out, self.reason);
    }
}

impl<'a> From<ConnectionBlocked<'a>> for Method<'a> {
    fn from(method: ConnectionBlocked<'a>) -> Self {
        Self::ConnectionBlocked(method)
    }
}

/// `connection.unblocked`, class 10, method 61.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionUnblocked;

impl ConnectionUnblocked {
    /// The number of the class.
    pub const CLASS_ID: u16 = 10;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 61;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "connection.unblocked";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(_: &mut Reader<'_>) -> Result<Self, ArgumentError> {
        Ok(Self)
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x000a_003d);
    }
}

impl From<ConnectionUnblocked> for Method<'_> {
    fn from(method: ConnectionUnblocked) -> Self {
        Self::ConnectionUnblocked(method)
    }
}

/// `connection.update-secret`, class 10, method 70.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionUpdateSecret<'a> {
    /// `new-secret`
    pub new_secret: Secret<'a>,
    /// `reason`
    pub reason: &'a str,
}

impl<'a> ConnectionUpdateSecret<'a> {
    /// The number of the class.
    pub const CLASS_ID: u16 = 10;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 70;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "connection.update-secret";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, ArgumentError> {
        let new_secret = reader.secret()?;
        let reason = reader.shortstr()?;
        Ok(Self { new_secret, reason })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x000a_0046);
        put_longstr(out, self.new_secret.expose());
        put_shortstr(out, self.reason);
    }
}

impl<'a> From<ConnectionUpdateSecret<'a>> for Method<'a> {
    fn from(method: ConnectionUpdateSecret<'a>) -> Self {
        Self::ConnectionUpdateSecret(method)
    }
}

/// `connection.update-secret-ok`, class 10, method 71.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionUpdateSecretOk;

impl ConnectionUpdateSecretOk {
    /// The number of the class.
    pub const CLASS_ID: u16 = 10;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 71;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "connection.update-secret-ok";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(_: &mut Reader<'_>) -> Result<Self, ArgumentError> {
        Ok(Self)
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x000a_0047);
    }
}

impl From<ConnectionUpdateSecretOk> for Method<'_> {
    fn from(method: ConnectionUpdateSecretOk) -> Self {
        Self::ConnectionUpdateSecretOk(method)
    }
}

/// `channel.open`, class 20, method 10.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelOpen;

impl ChannelOpen {
    /// The number of the class.
    pub const CLASS_ID: u16 = 20;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 10;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "channel.open";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, ArgumentError> {
        reader.shortstr()?;
        Ok(Self)
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x0014_000a);
        put_shortstr(out, "");
    }
}

impl From<ChannelOpen> for Method<'_> {
    fn from(method: ChannelOpen) -> Self {
        Self::ChannelOpen(method)
    }
}

/// `channel.open-ok`, class 20, method 11.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelOpenOk;

impl ChannelOpenOk {
    /// The number of the class.
    pub const CLASS_ID: u16 = 20;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 11;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "channel.open-ok";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, ArgumentError> {
        reader.longstr()?;
        Ok(Self)
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x0014_000b);
        put_longstr(out, &[]);
    }
}

impl From<ChannelOpenOk> for Method<'_> {
    fn from(method: ChannelOpenOk) -> Self {
        Self::ChannelOpenOk(method)
    }
}

/// `channel.flow`, class 20, method 20.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelFlow {
    /// `active`
    pub active: bool,
}

impl ChannelFlow {
    /// The number of the class.
    pub const CLASS_ID: u16 = 20;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 20;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "channel.flow";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, ArgumentError> {
        let bits = reader.octet()?;
        let active = bits & 1 != 0;
        Ok(Self { active })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x0014_0014);
        out.put_u8(u8::from(self.active));
    }
}

impl From<ChannelFlow> for Method<'_> {
    fn from(method: ChannelFlow) -> Self {
        Self::ChannelFlow(method)
    }
}

/// `channel.flow-ok`, class 20, method 21.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelFlowOk {
    /// `active`
    pub active: bool,
}

impl ChannelFlowOk {
    /// The number of the class.
    pub const CLASS_ID: u16 = 20;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 21;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "channel.flow-ok";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, ArgumentError> {
        let bits = reader.octet()?;
        let active = bits & 1 != 0;
        Ok(Self { active })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x0014_0015);
        out.put_u8(u8::from(self.active));
    }
}

impl From<ChannelFlowOk> for Method<'_> {
    fn from(method: ChannelFlowOk) -> Self {
        Self::ChannelFlowOk(method)
    }
}

/// `channel.close`, class 20, method 40.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelClose<'a> {
    /// `reply-code`
    pub reply_code: u16,
    /// `reply-text`
    pub reply_text: &'a str,
    /// `class-id`
    pub class_id: u16,
    /// `method-id`
    pub method_id: u16,
}

impl<'a> ChannelClose<'a> {
    /// The number of the class.
    pub const CLASS_ID: u16 = 20;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 40;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "channel.close";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, ArgumentError> {
        let reply_code = reader.short()?;
        let reply_text = reader.shortstr()?;
        let class_id = reader.short()?;
        let method_id = reader.short()?;
        Ok(Self { reply_code, reply_text, class_id, method_id })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x0014_0028);
        out.put_u16(self.reply_code);
        put_shortstr(out, self.reply_text);
        out.put_u16(self.class_id);
        out.put_u16(self.method_id);
    }
}

impl<'a> From<ChannelClose<'a>> for Method<'a> {
    fn from(method: ChannelClose<'a>) -> Self {
        Self::ChannelClose(method)
    }
}

/// `channel.close-ok`, class 20, method 41.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelCloseOk;

impl ChannelCloseOk {
    /// The number of the class.
    pub const CLASS_ID: u16 = 20;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 41;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "channel.close-ok";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(_: &mut Reader<'_>) -> Result<Self, ArgumentError> {
        Ok(Self)
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x0014_0029);
    }
}

impl From<ChannelCloseOk> for Method<'_> {
    fn from(method: ChannelCloseOk) -> Self {
        Self::ChannelCloseOk(method)
    }
}

/// `access.request`, class 30, method 10.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessRequest<'a> {
    /// `realm`
    pub realm: &'a str,
    /// `exclusive`
    pub exclusive: bool,
    /// `passive`
    pub passive: bool,
    /// `active`
    pub active: bool,
    /// `write`
    pub write: bool,
    /// `read`
    pub read: bool,
}

impl<'a> AccessRequest<'a> {
    /// The number of the class.
    pub const CLASS_ID: u16 = 30;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 10;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "access.request";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, ArgumentError> {
        let realm = reader.shortstr()?;
        let bits = reader.octet()?;
        let exclusive = bits & 1 != 0;
        let passive = bits & 2 != 0;
        let active = bits & 4 != 0;
        let write = bits & 8 != 0;
        let read = bits & 16 != 0;
        Ok(Self { realm, exclusive, passive, active, write, read })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x001e_000a);
        put_shortstr(out, self.realm);
        out.put_u8(
            u8::from(self.exclusive)
                | u8::from(self.passive) << 1
                | u8::from(self.active) << 2
                | u8::from(self.write) << 3
                | u8::from(self.read) << 4,
        );
    }
}

impl<'a> From<AccessRequest<'a>> for Method<'a> {
    fn from(method: AccessRequest<'a>) -> Self {
        Self::AccessRequest(method)
    }
}

/// `access.request-ok`, class 30, method 11.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessRequestOk {
    /// `ticket`
    pub ticket: u16,
}

impl AccessRequestOk {
    /// The number of the class.
    pub const CLASS_ID: u16 = 30;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 11;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "access.request-ok";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, ArgumentError> {
        let ticket = reader.short()?;
        Ok(Self { ticket })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x001e_000b);
        out.put_u16(self.ticket);
    }
}

impl From<AccessRequestOk> for Method<'_> {
    fn from(method: AccessRequestOk) -> Self {
        Self::AccessRequestOk(method)
    }
}

/// `exchange.declare`, class 40, method 10.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExchangeDeclare<'a> {
    /// `exchange`
    pub exchange: &'a str,
    /// `type`
    pub kind: &'a str,
    /// `passive`
    pub passive: bool,
    /// `durable`
    pub durable: bool,
    /// `auto-delete`
    pub auto_delete: bool,
    /// `internal`
    pub internal: bool,
    /// `nowait`
    pub nowait: bool,
    /// `arguments`
    pub arguments: Table<'a>,
}

impl<'a> ExchangeDeclare<'a> {
    /// The number of the class.
    pub const CLASS_ID: u16 = 40;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 10;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "exchange.declare";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, ArgumentError> {
        reader.short()?;
        let exchange = reader.shortstr()?;
        let kind = reader.shortstr()?;
        let bits = reader.octet()?;
        let passive = bits & 1 != 0;
        let durable = bits & 2 != 0;
        let auto_delete = bits & 4 != 0;
        let internal = bits & 8 != 0;
        let nowait = bits & 16 != 0;
        let arguments = reader.table()?;
        Ok(Self { exchange, kind, passive, durable, auto_delete, internal, nowait, arguments })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x0028_000a);
        out.put_u16(0);
        put_shortstr(out, self.exchange);
        put_shortstr(out, self.kind);
        out.put_u8(
            u8::from(self.passive)
                | u8::from(self.durable) << 1
                | u8::from(self.auto_delete) << 2
                | u8::from(self.internal) << 3
                | u8::from(self.nowait) << 4,
        );
        put_table(out, self.arguments);
    }
}

impl<'a> From<ExchangeDeclare<'a>> for Method<'a> {
    fn from(method: ExchangeDeclare<'a>) -> Self {
        Self::ExchangeDeclare(method)
    }
}

/// `exchange.declare-ok`, class 40, method 11.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExchangeDeclareOk;

impl ExchangeDeclareOk {
    /// The number of the class.
    pub const CLASS_ID: u16 = 40;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 11;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "exchange.declare-ok";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(_: &mut Reader<'_>) -> Result<Self, ArgumentError> {
        Ok(Self)
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x0028_000b);
    }
}

impl From<ExchangeDeclareOk> for Method<'_> {
    fn from(method: ExchangeDeclareOk) -> Self {
        Self::ExchangeDeclareOk(method)
    }
}

/// `exchange.delete`, class 40, method 20.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExchangeDelete<'a> {
    /// `exchange`
    pub exchange: &'a str,
    /// `if-unused`
    pub if_unused: bool,
    /// `nowait`
    pub nowait: bool,
}

impl<'a> ExchangeDelete<'a> {
    /// The number of the class.
    pub const CLASS_ID: u16 = 40;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 20;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "exchange.delete";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, ArgumentError> {
        reader.short()?;
        let exchange = reader.shortstr()?;
        let bits = reader.octet()?;
        let if_unused = bits & 1 != 0;
        let nowait = bits & 2 != 0;
        Ok(Self { exchange, if_unused, nowait })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x0028_0014);
        out.put_u16(0);
        put_shortstr(out, self.exchange);
        out.put_u8(u8::from(self.if_unused) | u8::from(self.nowait) << 1);
    }
}

impl<'a> From<ExchangeDelete<'a>> for Method<'a> {
    fn from(method: ExchangeDelete<'a>) -> Self {
        Self::ExchangeDelete(method)
    }
}

/// `exchange.delete-ok`, class 40, method 21.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExchangeDeleteOk;

impl ExchangeDeleteOk {
    /// The number of the class.
    pub const CLASS_ID: u16 = 40;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 21;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "exchange.delete-ok";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(_: &mut Reader<'_>) -> Result<Self, ArgumentError> {
        Ok(Self)
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x0028_0015);
    }
}

impl From<ExchangeDeleteOk> for Method<'_> {
    fn from(method: ExchangeDeleteOk) -> Self {
        Self::ExchangeDeleteOk(method)
    }
}

/// `exchange.bind`, class 40, method 30.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExchangeBind<'a> {
    /// `destination`
    pub destination: &'a str,
    /// `source`
    pub source: &'a str,
    /// `routing-key`
    pub routing_key: &'a str,
    /// `nowait`
    pub nowait: bool,
    /// `arguments`
    pub arguments: Table<'a>,
}

impl<'a> ExchangeBind<'a> {
    /// The number of the class.
    pub const CLASS_ID: u16 = 40;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 30;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "exchange.bind";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, ArgumentError> {
        reader.short()?;
        let destination = reader.shortstr()?;
        let source = reader.shortstr()?;
        let routing_key = reader.shortstr()?;
        let bits = reader.octet()?;
        let nowait = bits & 1 != 0;
        let arguments = reader.table()?;
        Ok(Self { destination, source, routing_key, nowait, arguments })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x0028_001e);
        out.put_u16(0);
        put_shortstr(out, self.destination);
        put_shortstr(out, self.source);
        put_shortstr(out, self.routing_key);
        out.put_u8(u8::from(self.nowait));
        put_table(out, self.arguments);
    }
}

impl<'a> From<ExchangeBind<'a>> for Method<'a> {
    fn from(method: ExchangeBind<'a>) -> Self {
        Self::ExchangeBind(method)
    }
}

/// `exchange.bind-ok`, class 40, method 31.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExchangeBindOk;

impl ExchangeBindOk {
    /// The number of the class.
    pub const CLASS_ID: u16 = 40;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 31;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "exchange.bind-ok";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(_: &mut Reader<'_>) -> Result<Self, ArgumentError> {
        Ok(Self)
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x0028_001f);
    }
}

impl From<ExchangeBindOk> for Method<'_> {
    fn from(method: ExchangeBindOk) -> Self {
        Self::ExchangeBindOk(method)
    }
}

/// `exchange.unbind`, class 40, method 40.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExchangeUnbind<'a> {
    /// `destination`
    pub destination: &'a str,
    /// `source`
    pub source: &'a str,
    /// `routing-key`
    pub routing_key: &'a str,
    /// `nowait`
    pub nowait: bool,
    /// `arguments`
    pub arguments: Table<'a>,
}

impl<'a> ExchangeUnbind<'a> {
    /// The number of the class.
    pub const CLASS_ID: u16 = 40;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 40;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "exchange.unbind";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, ArgumentError> {
        reader.short()?;
        let destination = reader.shortstr()?;
        let source = reader.shortstr()?;
        let routing_key = reader.shortstr()?;
        let bits = reader.octet()?;
        let nowait = bits & 1 != 0;
        let arguments = reader.table()?;
        Ok(Self { destination, source, routing_key, nowait, arguments })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x0028_0028);
        out.put_u16(0);
        put_shortstr(out, self.destination);
        put_shortstr(out, self.source);
        put_shortstr(out, self.routing_key);
        out.put_u8(u8::from(self.nowait));
        put_table(out, self.arguments);
    }
}

impl<'a> From<ExchangeUnbind<'a>> for Method<'a> {
    fn from(method: ExchangeUnbind<'a>) -> Self {
        Self::ExchangeUnbind(method)
    }
}

/// `exchange.unbind-ok`, class 40, method 51.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExchangeUnbindOk;

impl ExchangeUnbindOk {
    /// The number of the class.
    pub const CLASS_ID: u16 = 40;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 51;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "exchange.unbind-ok";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(_: &mut Reader<'_>) -> Result<Self, ArgumentError> {
        Ok(Self)
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x0028_0033);
    }
}

impl From<ExchangeUnbindOk> for Method<'_> {
    fn from(method: ExchangeUnbindOk) -> Self {
        Self::ExchangeUnbindOk(method)
    }
}

/// `queue.declare`, class 50, method 10.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueDeclare<'a> {
    /// `queue`
    pub queue: &'a str,
    /// `passive`
    pub passive: bool,
    /// `durable`
    pub durable: bool,
    /// `exclusive`
    pub exclusive: bool,
    /// `auto-delete`
    pub auto_delete: bool,
    /// `nowait`
    pub nowait: bool,
    /// `arguments`
    pub arguments: Table<'a>,
}

impl<'a> QueueDeclare<'a> {
    /// The number of the class.
    pub const CLASS_ID: u16 = 50;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 10;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "queue.declare";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, ArgumentError> {
        reader.short()?;
        let queue = reader.shortstr()?;
        let bits = reader.octet()?;
        let passive = bits & 1 != 0;
        let durable = bits & 2 != 0;
        let exclusive = bits & 4 != 0;
        let auto_delete = bits & 8 != 0;
        let nowait = bits & 16 != 0;
        let arguments = reader.table()?;
        Ok(Self { queue, passive, durable, exclusive, auto_delete, nowait, arguments })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x0032_000a);
        out.put_u16(0);
        put_shortstr(out, self.queue);
        out.put_u8(
            u8::from(self.passive)
                | u8::from(self.durable) << 1
                | u8::from(self.exclusive) << 2
                | u8::from(self.auto_delete) << 3
                | u8::from(self.nowait) << 4,
        );
        put_table(out, self.arguments);
    }
}

impl<'a> From<QueueDeclare<'a>> for Method<'a> {
    fn from(method: QueueDeclare<'a>) -> Self {
        Self::QueueDeclare(method)
    }
}

/// `queue.declare-ok`, class 50, method 11.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueDeclareOk<'a> {
    /// `queue`
    pub queue: &'a str,
    /// `message-count`
    pub message_count: u32,
    /// `consumer-count`
    pub consumer_count: u32,
}

impl<'a> QueueDeclareOk<'a> {
    /// The number of the class.
    pub const CLASS_ID: u16 = 50;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 11;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "queue.declare-ok";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, ArgumentError> {
        let queue = reader.shortstr()?;
        let message_count = reader.long()?;
        let consumer_count = reader.long()?;
        Ok(Self { queue, message_count, consumer_count })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x0032_000b);
        put_shortstr(out, self.queue);
        out.put_u32(self.message_count);
        out.put_u32(self.consumer_count);
    }
}

impl<'a> From<QueueDeclareOk<'a>> for Method<'a> {
    fn from(method: QueueDeclareOk<'a>) -> Self {
        Self::QueueDeclareOk(method)
    }
}

/// `queue.bind`, class 50, method 20.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueBind<'a> {
    /// `queue`
    pub queue: &'a str,
    /// `exchange`
    pub exchange: &'a str,
    /// `routing-key`
    pub routing_key: &'a str,
    /// `nowait`
    pub nowait: bool,
    /// `arguments`
    pub arguments: Table<'a>,
}

impl<'a> QueueBind<'a> {
    /// The number of the class.
    pub const CLASS_ID: u16 = 50;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 20;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "queue.bind";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, ArgumentError> {
        reader.short()?;
        let queue = reader.shortstr()?;
        let exchange = reader.shortstr()?;
        let routing_key = reader.shortstr()?;
        let bits = reader.octet()?;
        let nowait = bits & 1 != 0;
        let arguments = reader.table()?;
        Ok(Self { queue, exchange, routing_key, nowait, arguments })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x0032_0014);
        out.put_u16(0);
        put_shortstr(out, self.queue);
        put_shortstr(out, self.exchange);
        put_shortstr(out, self.routing_key);
        out.put_u8(u8::from(self.nowait));
        put_table(out, self.arguments);
    }
}

impl<'a> From<QueueBind<'a>> for Method<'a> {
    fn from(method: QueueBind<'a>) -> Self {
        Self::QueueBind(method)
    }
}

/// `queue.bind-ok`, class 50, method 21.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueBindOk;

impl QueueBindOk {
    /// The number of the class.
    pub const CLASS_ID: u16 = 50;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 21;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "queue.bind-ok";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(_: &mut Reader<'_>) -> Result<Self, ArgumentError> {
        Ok(Self)
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x0032_0015);
    }
}

impl From<QueueBindOk> for Method<'_> {
    fn from(method: QueueBindOk) -> Self {
        Self::QueueBindOk(method)
    }
}

/// `queue.purge`, class 50, method 30.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueuePurge<'a> {
    /// `queue`
    pub queue: &'a str,
    /// `nowait`
    pub nowait: bool,
}

impl<'a> QueuePurge<'a> {
    /// The number of the class.
    pub const CLASS_ID: u16 = 50;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 30;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "queue.purge";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, ArgumentError> {
        reader.short()?;
        let queue = reader.shortstr()?;
        let bits = reader.octet()?;
        let nowait = bits & 1 != 0;
        Ok(Self { queue, nowait })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x0032_001e);
        out.put_u16(0);
        put_shortstr(out, self.queue);
        out.put_u8(u8::from(self.nowait));
    }
}

impl<'a> From<QueuePurge<'a>> for Method<'a> {
    fn from(method: QueuePurge<'a>) -> Self {
        Self::QueuePurge(method)
    }
}

/// `queue.purge-ok`, class 50, method 31.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueuePurgeOk {
    /// `message-count`
    pub message_count: u32,
}

impl QueuePurgeOk {
    /// The number of the class.
    pub const CLASS_ID: u16 = 50;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 31;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "queue.purge-ok";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, ArgumentError> {
        let message_count = reader.long()?;
        Ok(Self { message_count })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x0032_001f);
        out.put_u32(self.message_count);
    }
}

impl From<QueuePurgeOk> for Method<'_> {
    fn from(method: QueuePurgeOk) -> Self {
        Self::QueuePurgeOk(method)
    }
}

/// `queue.delete`, class 50, method 40.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueDelete<'a> {
    /// `queue`
    pub queue: &'a str,
    /// `if-unused`
    pub if_unused: bool,
    /// `if-empty`
    pub if_empty: bool,
    /// `nowait`
    pub nowait: bool,
}

impl<'a> QueueDelete<'a> {
    /// The number of the class.
    pub const CLASS_ID: u16 = 50;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 40;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "queue.delete";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, ArgumentError> {
        reader.short()?;
        let queue = reader.shortstr()?;
        let bits = reader.octet()?;
        let if_unused = bits & 1 != 0;
        let if_empty = bits & 2 != 0;
        let nowait = bits & 4 != 0;
        Ok(Self { queue, if_unused, if_empty, nowait })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x0032_0028);
        out.put_u16(0);
        put_shortstr(out, self.queue);
        out.put_u8(u8::from(self.if_unused) | u8::from(self.if_empty) << 1 | u8::from(self.nowait) << 2);
    }
}

impl<'a> From<QueueDelete<'a>> for Method<'a> {
    fn from(method: QueueDelete<'a>) -> Self {
        Self::QueueDelete(method)
    }
}

/// `queue.delete-ok`, class 50, method 41.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueDeleteOk {
    /// `message-count`
    pub message_count: u32,
}

impl QueueDeleteOk {
    /// The number of the class.
    pub const CLASS_ID: u16 = 50;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 41;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "queue.delete-ok";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, ArgumentError> {
        let message_count = reader.long()?;
        Ok(Self { message_count })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x0032_0029);
        out.put_u32(self.message_count);
    }
}

impl From<QueueDeleteOk> for Method<'_> {
    fn from(method: QueueDeleteOk) -> Self {
        Self::QueueDeleteOk(method)
    }
}

/// `queue.unbind`, class 50, method 50.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueUnbind<'a> {
    /// `queue`
    pub queue: &'a str,
    /// `exchange`
    pub exchange: &'a str,
    /// `routing-key`
    pub routing_key: &'a str,
    /// `arguments`
    pub arguments: Table<'a>,
}

impl<'a> QueueUnbind<'a> {
    /// The number of the class.
    pub const CLASS_ID: u16 = 50;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 50;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "queue.unbind";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, ArgumentError> {
        reader.short()?;
        let queue = reader.shortstr()?;
        let exchange = reader.shortstr()?;
        let routing_key = reader.shortstr()?;
        let arguments = reader.table()?;
        Ok(Self { queue, exchange, routing_key, arguments })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x0032_0032);
        out.put_u16(0);
        put_shortstr(out, self.queue);
        put_shortstr(out, self.exchange);
        put_shortstr(out, self.routing_key);
        put_table(out, self.arguments);
    }
}

impl<'a> From<QueueUnbind<'a>> for Method<'a> {
    fn from(method: QueueUnbind<'a>) -> Self {
        Self::QueueUnbind(method)
    }
}

/// `queue.unbind-ok`, class 50, method 51.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueUnbindOk;

impl QueueUnbindOk {
    /// The number of the class.
    pub const CLASS_ID: u16 = 50;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 51;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "queue.unbind-ok";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(_: &mut Reader<'_>) -> Result<Self, ArgumentError> {
        Ok(Self)
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x0032_0033);
    }
}

impl From<QueueUnbindOk> for Method<'_> {
    fn from(method: QueueUnbindOk) -> Self {
        Self::QueueUnbindOk(method)
    }
}

/// `basic.qos`, class 60, method 10.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BasicQos {
    /// `prefetch-size`
    pub prefetch_size: u32,
    /// `prefetch-count`
    pub prefetch_count: u16,
    /// `global`
    pub global: bool,
}

impl BasicQos {
    /// The number of the class.
    pub const CLASS_ID: u16 = 60;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 10;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "basic.qos";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, ArgumentError> {
        let prefetch_size = reader.long()?;
        let prefetch_count = reader.short()?;
        let bits = reader.octet()?;
        let global = bits & 1 != 0;
        Ok(Self { prefetch_size, prefetch_count, global })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x003c_000a);
        out.put_u32(self.prefetch_size);
        out.put_u16(self.prefetch_count);
        out.put_u8(u8::from(self.global));
    }
}

impl From<BasicQos> for Method<'_> {
    fn from(method: BasicQos) -> Self {
        Self::BasicQos(method)
    }
}

/// `basic.qos-ok`, class 60, method 11.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BasicQosOk;

impl BasicQosOk {
    /// The number of the class.
    pub const CLASS_ID: u16 = 60;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 11;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "basic.qos-ok";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(_: &mut Reader<'_>) -> Result<Self, ArgumentError> {
        Ok(Self)
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x003c_000b);
    }
}

impl From<BasicQosOk> for Method<'_> {
    fn from(method: BasicQosOk) -> Self {
        Self::BasicQosOk(method)
    }
}

/// `basic.consume`, class 60, method 20.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BasicConsume<'a> {
    /// `queue`
    pub queue: &'a str,
    /// `consumer-tag`
    pub consumer_tag: &'a str,
    /// `no-local`
    pub no_local: bool,
    /// `no-ack`
    pub no_ack: bool,
    /// `exclusive`
    pub exclusive: bool,
    /// `nowait`
    pub nowait: bool,
    /// `arguments`
    pub arguments: Table<'a>,
}

impl<'a> BasicConsume<'a> {
    /// The number of the class.
    pub const CLASS_ID: u16 = 60;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 20;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "basic.consume";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, ArgumentError> {
        reader.short()?;
        let queue = reader.shortstr()?;
        let consumer_tag = reader.shortstr()?;
        let bits = reader.octet()?;
        let no_local = bits & 1 != 0;
        let no_ack = bits & 2 != 0;
        let exclusive = bits & 4 != 0;
        let nowait = bits & 8 != 0;
        let arguments = reader.table()?;
        Ok(Self { queue, consumer_tag, no_local, no_ack, exclusive, nowait, arguments })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x003c_0014);
        out.put_u16(0);
        put_shortstr(out, self.queue);
        put_shortstr(out, self.consumer_tag);
        out.put_u8(
            u8::from(self.no_local)
                | u8::from(self.no_ack) << 1
                | u8::from(self.exclusive) << 2
                | u8::from(self.nowait) << 3,
        );
        put_table(out, self.arguments);
    }
}

impl<'a> From<BasicConsume<'a>> for Method<'a> {
    fn from(method: BasicConsume<'a>) -> Self {
        Self::BasicConsume(method)
    }
}

/// `basic.consume-ok`, class 60, method 21.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BasicConsumeOk<'a> {
    /// `consumer-tag`
    pub consumer_tag: &'a str,
}

impl<'a> BasicConsumeOk<'a> {
    /// The number of the class.
    pub const CLASS_ID: u16 = 60;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 21;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "basic.consume-ok";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, ArgumentError> {
        let consumer_tag = reader.shortstr()?;
        Ok(Self { consumer_tag })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x003c_0015);
        put_shortstr(out, self.consumer_tag);
    }
}

impl<'a> From<BasicConsumeOk<'a>> for Method<'a> {
    fn from(method: BasicConsumeOk<'a>) -> Self {
        Self::BasicConsumeOk(method)
    }
}

/// `basic.cancel`, class 60, method 30.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BasicCancel<'a> {
    /// `consumer-tag`
    pub consumer_tag: &'a str,
    /// `nowait`
    pub nowait: bool,
}

impl<'a> BasicCancel<'a> {
    /// The number of the class.
    pub const CLASS_ID: u16 = 60;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 30;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "basic.cancel";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, ArgumentError> {
        let consumer_tag = reader.shortstr()?;
        let bits = reader.octet()?;
        let nowait = bits & 1 != 0;
        Ok(Self { consumer_tag, nowait })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x003c_001e);
        put_shortstr(out, self.consumer_tag);
        out.put_u8(u8::from(self.nowait));
    }
}

impl<'a> From<BasicCancel<'a>> for Method<'a> {
    fn from(method: BasicCancel<'a>) -> Self {
        Self::BasicCancel(method)
    }
}

/// `basic.cancel-ok`, class 60, method 31.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BasicCancelOk<'a> {
    /// `consumer-tag`
    pub consumer_tag: &'a str,
}

impl<'a> BasicCancelOk<'a> {
    /// The number of the class.
    pub const CLASS_ID: u16 = 60;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 31;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "basic.cancel-ok";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, ArgumentError> {
        let consumer_tag = reader.shortstr()?;
        Ok(Self { consumer_tag })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x003c_001f);
        put_shortstr(out, self.consumer_tag);
    }
}

impl<'a> From<BasicCancelOk<'a>> for Method<'a> {
    fn from(method: BasicCancelOk<'a>) -> Self {
        Self::BasicCancelOk(method)
    }
}

/// `basic.publish`, class 60, method 40.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BasicPublish<'a> {
    /// `exchange`
    pub exchange: &'a str,
    /// `routing-key`
    pub routing_key: &'a str,
    /// `mandatory`
    pub mandatory: bool,
    /// `immediate`
    pub immediate: bool,
}

impl<'a> BasicPublish<'a> {
    /// The number of the class.
    pub const CLASS_ID: u16 = 60;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 40;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "basic.publish";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, ArgumentError> {
        reader.short()?;
        let exchange = reader.shortstr()?;
        let routing_key = reader.shortstr()?;
        let bits = reader.octet()?;
        let mandatory = bits & 1 != 0;
        let immediate = bits & 2 != 0;
        Ok(Self { exchange, routing_key, mandatory, immediate })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x003c_0028);
        out.put_u16(0);
        put_shortstr(out, self.exchange);
        put_shortstr(out, self.routing_key);
        out.put_u8(u8::from(self.mandatory) | u8::from(self.immediate) << 1);
    }
}

impl<'a> From<BasicPublish<'a>> for Method<'a> {
    fn from(method: BasicPublish<'a>) -> Self {
        Self::BasicPublish(method)
    }
}

/// `basic.return`, class 60, method 50.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BasicReturn<'a> {
    /// `reply-code`
    pub reply_code: u16,
    /// `reply-text`
    pub reply_text: &'a str,
    /// `exchange`
    pub exchange: &'a str,
    /// `routing-key`
    pub routing_key: &'a str,
}

impl<'a> BasicReturn<'a> {
    /// The number of the class.
    pub const CLASS_ID: u16 = 60;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 50;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "basic.return";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, ArgumentError> {
        let reply_code = reader.short()?;
        let reply_text = reader.shortstr()?;
        let exchange = reader.shortstr()?;
        let routing_key = reader.shortstr()?;
        Ok(Self { reply_code, reply_text, exchange, routing_key })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x003c_0032);
        out.put_u16(self.reply_code);
        put_shortstr(out, self.reply_text);
        put_shortstr(out, self.exchange);
        put_shortstr(out, self.routing_key);
    }
}

impl<'a> From<BasicReturn<'a>> for Method<'a> {
    fn from(method: BasicReturn<'a>) -> Self {
        Self::BasicReturn(method)
    }
}

/// `basic.deliver`, class 60, method 60.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BasicDeliver<'a> {
    /// `consumer-tag`
    pub consumer_tag: &'a str,
    /// `delivery-tag`
    pub delivery_tag: u64,
    /// `redelivered`
    pub redelivered: bool,
    /// `exchange`
    pub exchange: &'a str,
    /// `routing-key`
    pub routing_key: &'a str,
}

impl<'a> BasicDeliver<'a> {
    /// The number of the class.
    pub const CLASS_ID: u16 = 60;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 60;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "basic.deliver";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, ArgumentError> {
        let consumer_tag = reader.shortstr()?;
        let delivery_tag = reader.longlong()?;
        let bits = reader.octet()?;
        let redelivered = bits & 1 != 0;
        let exchange = reader.shortstr()?;
        let routing_key = reader.shortstr()?;
        Ok(Self { consumer_tag, delivery_tag, redelivered, exchange, routing_key })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x003c_003c);
        put_shortstr(out, self.consumer_tag);
        out.put_u64(self.delivery_tag);
        out.put_u8(u8::from(self.redelivered));
        put_shortstr(out, self.exchange);
        put_shortstr(out, self.routing_key);
    }
}

impl<'a> From<BasicDeliver<'a>> for Method<'a> {
    fn from(method: BasicDeliver<'a>) -> Self {
        Self::BasicDeliver(method)
    }
}

/// `basic.get`, class 60, method 70.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BasicGet<'a> {
    /// `queue`
    pub queue: &'a str,
    /// `no-ack`
    pub no_ack: bool,
}

impl<'a> BasicGet<'a> {
    /// The number of the class.
    pub const CLASS_ID: u16 = 60;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 70;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "basic.get";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, ArgumentError> {
        reader.short()?;
        let queue = reader.shortstr()?;
        let bits = reader.octet()?;
        let no_ack = bits & 1 != 0;
        Ok(Self { queue, no_ack })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x003c_0046);
        out.put_u16(0);
        put_shortstr(out, self.queue);
        out.put_u8(u8::from(self.no_ack));
    }
}

impl<'a> From<BasicGet<'a>> for Method<'a> {
    fn from(method: BasicGet<'a>) -> Self {
        Self::BasicGet(method)
    }
}

/// `basic.get-ok`, class 60, method 71.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BasicGetOk<'a> {
    /// `delivery-tag`
    pub delivery_tag: u64,
    /// `redelivered`
    pub redelivered: bool,
    /// `exchange`
    pub exchange: &'a str,
    /// `routing-key`
    pub routing_key: &'a str,
    /// `message-count`
    pub message_count: u32,
}

impl<'a> BasicGetOk<'a> {
    /// The number of the class.
    pub const CLASS_ID: u16 = 60;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 71;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "basic.get-ok";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, ArgumentError> {
        let delivery_tag = reader.longlong()?;
        let bits = reader.octet()?;
        let redelivered = bits & 1 != 0;
        let exchange = reader.shortstr()?;
        let routing_key = reader.shortstr()?;
        let message_count = reader.long()?;
        Ok(Self { delivery_tag, redelivered, exchange, routing_key, message_count })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x003c_0047);
        out.put_u64(self.delivery_tag);
        out.put_u8(u8::from(self.redelivered));
        put_shortstr(out, self.exchange);
        put_shortstr(out, self.routing_key);
        out.put_u32(self.message_count);
    }
}

impl<'a> From<BasicGetOk<'a>> for Method<'a> {
    fn from(method: BasicGetOk<'a>) -> Self {
        Self::BasicGetOk(method)
    }
}

/// `basic.get-empty`, class 60, method 72.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BasicGetEmpty;

impl BasicGetEmpty {
    /// The number of the class.
    pub const CLASS_ID: u16 = 60;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 72;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "basic.get-empty";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, ArgumentError> {
        reader.shortstr()?;
        Ok(Self)
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x003c_0048);
        put_shortstr(out, "");
    }
}

impl From<BasicGetEmpty> for Method<'_> {
    fn from(method: BasicGetEmpty) -> Self {
        Self::BasicGetEmpty(method)
    }
}

/// `basic.ack`, class 60, method 80.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BasicAck {
    /// `delivery-tag`
    pub delivery_tag: u64,
    /// `multiple`
    pub multiple: bool,
}

impl BasicAck {
    /// The number of the class.
    pub const CLASS_ID: u16 = 60;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 80;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "basic.ack";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, ArgumentError> {
        let delivery_tag = reader.longlong()?;
        let bits = reader.octet()?;
        let multiple = bits & 1 != 0;
        Ok(Self { delivery_tag, multiple })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x003c_0050);
        out.put_u64(self.delivery_tag);
        out.put_u8(u8::from(self.multiple));
    }
}

impl From<BasicAck> for Method<'_> {
    fn from(method: BasicAck) -> Self {
        Self::BasicAck(method)
    }
}

/// `basic.reject`, class 60, method 90.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BasicReject {
    /// `delivery-tag`
    pub delivery_tag: u64,
    /// `requeue`
    pub requeue: bool,
}

impl BasicReject {
    /// The number of the class.
    pub const CLASS_ID: u16 = 60;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 90;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "basic.reject";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, ArgumentError> {
        let delivery_tag = reader.longlong()?;
        let bits = reader.octet()?;
        let requeue = bits & 1 != 0;
        Ok(Self { delivery_tag, requeue })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x003c_005a);
        out.put_u64(self.delivery_tag);
        out.put_u8(u8::from(self.requeue));
    }
}

impl From<BasicReject> for Method<'_> {
    fn from(method: BasicReject) -> Self {
        Self::BasicReject(method)
    }
}

/// `basic.recover-async`, class 60, method 100.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BasicRecoverAsync {
    /// `requeue`
    pub requeue: bool,
}

impl BasicRecoverAsync {
    /// The number of the class.
    pub const CLASS_ID: u16 = 60;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 100;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "basic.recover-async";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, ArgumentError> {
        let bits = reader.octet()?;
        let requeue = bits & 1 != 0;
        Ok(Self { requeue })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x003c_0064);
        out.put_u8(u8::from(self.requeue));
    }
}

impl From<BasicRecoverAsync> for Method<'_> {
    fn from(method: BasicRecoverAsync) -> Self {
        Self::BasicRecoverAsync(method)
    }
}

/// `basic.recover`, class 60, method 110.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BasicRecover {
    /// `requeue`
    pub requeue: bool,
}

impl BasicRecover {
    /// The number of the class.
    pub const CLASS_ID: u16 = 60;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 110;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "basic.recover";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, ArgumentError> {
        let bits = reader.octet()?;
        let requeue = bits & 1 != 0;
        Ok(Self { requeue })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x003c_006e);
        out.put_u8(u8::from(self.requeue));
    }
}

impl From<BasicRecover> for Method<'_> {
    fn from(method: BasicRecover) -> Self {
        Self::BasicRecover(method)
    }
}

/// `basic.recover-ok`, class 60, method 111.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BasicRecoverOk;

impl BasicRecoverOk {
    /// The number of the class.
    pub const CLASS_ID: u16 = 60;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 111;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "basic.recover-ok";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(_: &mut Reader<'_>) -> Result<Self, ArgumentError> {
        Ok(Self)
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x003c_006f);
    }
}

impl From<BasicRecoverOk> for Method<'_> {
    fn from(method: BasicRecoverOk) -> Self {
        Self::BasicRecoverOk(method)
    }
}

/// `basic.nack`, class 60, method 120.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BasicNack {
    /// `delivery-tag`
    pub delivery_tag: u64,
    /// `multiple`
    pub multiple: bool,
    /// `requeue`
    pub requeue: bool,
}

impl BasicNack {
    /// The number of the class.
    pub const CLASS_ID: u16 = 60;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 120;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "basic.nack";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, ArgumentError> {
        let delivery_tag = reader.longlong()?;
        let bits = reader.octet()?;
        let multiple = bits & 1 != 0;
        let requeue = bits & 2 != 0;
        Ok(Self { delivery_tag, multiple, requeue })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x003c_0078);
        out.put_u64(self.delivery_tag);
        out.put_u8(u8::from(self.multiple) | u8::from(self.requeue) << 1);
    }
}

impl From<BasicNack> for Method<'_> {
    fn from(method: BasicNack) -> Self {
        Self::BasicNack(method)
    }
}

/// `confirm.select`, class 85, method 10.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConfirmSelect {
    /// `nowait`
    pub nowait: bool,
}

impl ConfirmSelect {
    /// The number of the class.
    pub const CLASS_ID: u16 = 85;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 10;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "confirm.select";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, ArgumentError> {
        let bits = reader.octet()?;
        let nowait = bits & 1 != 0;
        Ok(Self { nowait })
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x0055_000a);
        out.put_u8(u8::from(self.nowait));
    }
}

impl From<ConfirmSelect> for Method<'_> {
    fn from(method: ConfirmSelect) -> Self {
        Self::ConfirmSelect(method)
    }
}

/// `confirm.select-ok`, class 85, method 11.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConfirmSelectOk;

impl ConfirmSelectOk {
    /// The number of the class.
    pub const CLASS_ID: u16 = 85;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 11;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "confirm.select-ok";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(_: &mut Reader<'_>) -> Result<Self, ArgumentError> {
        Ok(Self)
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x0055_000b);
    }
}

impl From<ConfirmSelectOk> for Method<'_> {
    fn from(method: ConfirmSelectOk) -> Self {
        Self::ConfirmSelectOk(method)
    }
}

/// `tx.select`, class 90, method 10.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxSelect;

impl TxSelect {
    /// The number of the class.
    pub const CLASS_ID: u16 = 90;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 10;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "tx.select";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(_: &mut Reader<'_>) -> Result<Self, ArgumentError> {
        Ok(Self)
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x005a_000a);
    }
}

impl From<TxSelect> for Method<'_> {
    fn from(method: TxSelect) -> Self {
        Self::TxSelect(method)
    }
}

/// `tx.select-ok`, class 90, method 11.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxSelectOk;

impl TxSelectOk {
    /// The number of the class.
    pub const CLASS_ID: u16 = 90;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 11;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "tx.select-ok";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(_: &mut Reader<'_>) -> Result<Self, ArgumentError> {
        Ok(Self)
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x005a_000b);
    }
}

impl From<TxSelectOk> for Method<'_> {
    fn from(method: TxSelectOk) -> Self {
        Self::TxSelectOk(method)
    }
}

/// `tx.commit`, class 90, method 20.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxCommit;

impl TxCommit {
    /// The number of the class.
    pub const CLASS_ID: u16 = 90;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 20;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "tx.commit";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(_: &mut Reader<'_>) -> Result<Self, ArgumentError> {
        Ok(Self)
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x005a_0014);
    }
}

impl From<TxCommit> for Method<'_> {
    fn from(method: TxCommit) -> Self {
        Self::TxCommit(method)
    }
}

/// `tx.commit-ok`, class 90, method 21.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxCommitOk;

impl TxCommitOk {
    /// The number of the class.
    pub const CLASS_ID: u16 = 90;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 21;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "tx.commit-ok";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(_: &mut Reader<'_>) -> Result<Self, ArgumentError> {
        Ok(Self)
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x005a_0015);
    }
}

impl From<TxCommitOk> for Method<'_> {
    fn from(method: TxCommitOk) -> Self {
        Self::TxCommitOk(method)
    }
}

/// `tx.rollback`, class 90, method 30.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxRollback;

impl TxRollback {
    /// The number of the class.
    pub const CLASS_ID: u16 = 90;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 30;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "tx.rollback";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(_: &mut Reader<'_>) -> Result<Self, ArgumentError> {
        Ok(Self)
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x005a_001e);
    }
}

impl From<TxRollback> for Method<'_> {
    fn from(method: TxRollback) -> Self {
        Self::TxRollback(method)
    }
}

/// `tx.rollback-ok`, class 90, method 31.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxRollbackOk;

impl TxRollbackOk {
    /// The number of the class.
    pub const CLASS_ID: u16 = 90;
    /// The number of the method in its class.
    pub const METHOD_ID: u16 = 31;
    /// The name, as the specification and error texts write it.
    pub const NAME: &'static str = "tx.rollback-ok";

    /// Reads the arguments.
    #[inline]
    pub(crate) fn read(_: &mut Reader<'_>) -> Result<Self, ArgumentError> {
        Ok(Self)
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. A short string
    /// is cut off after 255 bytes.
    #[inline]
    pub fn put(&self, out: &mut BytesMut) {
        out.put_u32(0x005a_001f);
    }
}

impl From<TxRollbackOk> for Method<'_> {
    fn from(method: TxRollbackOk) -> Self {
        Self::TxRollbackOk(method)
    }
}

/// Any method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method<'a> {
    /// `connection.start`
    ConnectionStart(ConnectionStart<'a>),
    /// `connection.start-ok`
    ConnectionStartOk(ConnectionStartOk<'a>),
    /// `connection.secure`
    ConnectionSecure(ConnectionSecure<'a>),
    /// `connection.secure-ok`
    ConnectionSecureOk(ConnectionSecureOk<'a>),
    /// `connection.tune`
    ConnectionTune(ConnectionTune),
    /// `connection.tune-ok`
    ConnectionTuneOk(ConnectionTuneOk),
    /// `connection.open`
    ConnectionOpen(ConnectionOpen<'a>),
    /// `connection.open-ok`
    ConnectionOpenOk(ConnectionOpenOk),
    /// `connection.close`
    ConnectionClose(ConnectionClose<'a>),
    /// `connection.close-ok`
    ConnectionCloseOk(ConnectionCloseOk),
    /// `connection.blocked`
    ConnectionBlocked(ConnectionBlocked<'a>),
    /// `connection.unblocked`
    ConnectionUnblocked(ConnectionUnblocked),
    /// `connection.update-secret`
    ConnectionUpdateSecret(ConnectionUpdateSecret<'a>),
    /// `connection.update-secret-ok`
    ConnectionUpdateSecretOk(ConnectionUpdateSecretOk),
    /// `channel.open`
    ChannelOpen(ChannelOpen),
    /// `channel.open-ok`
    ChannelOpenOk(ChannelOpenOk),
    /// `channel.flow`
    ChannelFlow(ChannelFlow),
    /// `channel.flow-ok`
    ChannelFlowOk(ChannelFlowOk),
    /// `channel.close`
    ChannelClose(ChannelClose<'a>),
    /// `channel.close-ok`
    ChannelCloseOk(ChannelCloseOk),
    /// `access.request`
    AccessRequest(AccessRequest<'a>),
    /// `access.request-ok`
    AccessRequestOk(AccessRequestOk),
    /// `exchange.declare`
    ExchangeDeclare(ExchangeDeclare<'a>),
    /// `exchange.declare-ok`
    ExchangeDeclareOk(ExchangeDeclareOk),
    /// `exchange.delete`
    ExchangeDelete(ExchangeDelete<'a>),
    /// `exchange.delete-ok`
    ExchangeDeleteOk(ExchangeDeleteOk),
    /// `exchange.bind`
    ExchangeBind(ExchangeBind<'a>),
    /// `exchange.bind-ok`
    ExchangeBindOk(ExchangeBindOk),
    /// `exchange.unbind`
    ExchangeUnbind(ExchangeUnbind<'a>),
    /// `exchange.unbind-ok`
    ExchangeUnbindOk(ExchangeUnbindOk),
    /// `queue.declare`
    QueueDeclare(QueueDeclare<'a>),
    /// `queue.declare-ok`
    QueueDeclareOk(QueueDeclareOk<'a>),
    /// `queue.bind`
    QueueBind(QueueBind<'a>),
    /// `queue.bind-ok`
    QueueBindOk(QueueBindOk),
    /// `queue.purge`
    QueuePurge(QueuePurge<'a>),
    /// `queue.purge-ok`
    QueuePurgeOk(QueuePurgeOk),
    /// `queue.delete`
    QueueDelete(QueueDelete<'a>),
    /// `queue.delete-ok`
    QueueDeleteOk(QueueDeleteOk),
    /// `queue.unbind`
    QueueUnbind(QueueUnbind<'a>),
    /// `queue.unbind-ok`
    QueueUnbindOk(QueueUnbindOk),
    /// `basic.qos`
    BasicQos(BasicQos),
    /// `basic.qos-ok`
    BasicQosOk(BasicQosOk),
    /// `basic.consume`
    BasicConsume(BasicConsume<'a>),
    /// `basic.consume-ok`
    BasicConsumeOk(BasicConsumeOk<'a>),
    /// `basic.cancel`
    BasicCancel(BasicCancel<'a>),
    /// `basic.cancel-ok`
    BasicCancelOk(BasicCancelOk<'a>),
    /// `basic.publish`
    BasicPublish(BasicPublish<'a>),
    /// `basic.return`
    BasicReturn(BasicReturn<'a>),
    /// `basic.deliver`
    BasicDeliver(BasicDeliver<'a>),
    /// `basic.get`
    BasicGet(BasicGet<'a>),
    /// `basic.get-ok`
    BasicGetOk(BasicGetOk<'a>),
    /// `basic.get-empty`
    BasicGetEmpty(BasicGetEmpty),
    /// `basic.ack`
    BasicAck(BasicAck),
    /// `basic.reject`
    BasicReject(BasicReject),
    /// `basic.recover-async`
    BasicRecoverAsync(BasicRecoverAsync),
    /// `basic.recover`
    BasicRecover(BasicRecover),
    /// `basic.recover-ok`
    BasicRecoverOk(BasicRecoverOk),
    /// `basic.nack`
    BasicNack(BasicNack),
    /// `confirm.select`
    ConfirmSelect(ConfirmSelect),
    /// `confirm.select-ok`
    ConfirmSelectOk(ConfirmSelectOk),
    /// `tx.select`
    TxSelect(TxSelect),
    /// `tx.select-ok`
    TxSelectOk(TxSelectOk),
    /// `tx.commit`
    TxCommit(TxCommit),
    /// `tx.commit-ok`
    TxCommitOk(TxCommitOk),
    /// `tx.rollback`
    TxRollback(TxRollback),
    /// `tx.rollback-ok`
    TxRollbackOk(TxRollbackOk),
}

impl<'a> Method<'a> {
    /// Reads a method from the arguments of a method frame, which follow class and method.
    ///
    /// # Errors
    /// The method is unknown, an argument is cut off or not UTF-8, or bytes follow the last one.
    pub fn parse(class: u16, method: u16, arguments: &'a [u8]) -> Result<Self, Violation> {
        let reader = &mut Reader::new(arguments);
        let (parsed, name) = match (class, method) {
            (10, 10) => (ConnectionStart::read(reader).map(Self::ConnectionStart), ConnectionStart::NAME),
            (10, 11) => {
                (ConnectionStartOk::read(reader).map(Self::ConnectionStartOk), ConnectionStartOk::NAME)
            }
            (10, 20) => (ConnectionSecure::read(reader).map(Self::ConnectionSecure), ConnectionSecure::NAME),
            (10, 21) => {
                (ConnectionSecureOk::read(reader).map(Self::ConnectionSecureOk), ConnectionSecureOk::NAME)
            }
            (10, 30) => (ConnectionTune::read(reader).map(Self::ConnectionTune), ConnectionTune::NAME),
            (10, 31) => (ConnectionTuneOk::read(reader).map(Self::ConnectionTuneOk), ConnectionTuneOk::NAME),
            (10, 40) => (ConnectionOpen::read(reader).map(Self::ConnectionOpen), ConnectionOpen::NAME),
            (10, 41) => (ConnectionOpenOk::read(reader).map(Self::ConnectionOpenOk), ConnectionOpenOk::NAME),
            (10, 50) => (ConnectionClose::read(reader).map(Self::ConnectionClose), ConnectionClose::NAME),
            (10, 51) => {
                (ConnectionCloseOk::read(reader).map(Self::ConnectionCloseOk), ConnectionCloseOk::NAME)
            }
            (10, 60) => {
                (ConnectionBlocked::read(reader).map(Self::ConnectionBlocked), ConnectionBlocked::NAME)
            }
            (10, 61) => {
                (ConnectionUnblocked::read(reader).map(Self::ConnectionUnblocked), ConnectionUnblocked::NAME)
            }
            (10, 70) => (
                ConnectionUpdateSecret::read(reader).map(Self::ConnectionUpdateSecret),
                ConnectionUpdateSecret::NAME,
            ),
            (10, 71) => (
                ConnectionUpdateSecretOk::read(reader).map(Self::ConnectionUpdateSecretOk),
                ConnectionUpdateSecretOk::NAME,
            ),
            (20, 10) => (ChannelOpen::read(reader).map(Self::ChannelOpen), ChannelOpen::NAME),
            (20, 11) => (ChannelOpenOk::read(reader).map(Self::ChannelOpenOk), ChannelOpenOk::NAME),
            (20, 20) => (ChannelFlow::read(reader).map(Self::ChannelFlow), ChannelFlow::NAME),
            (20, 21) => (ChannelFlowOk::read(reader).map(Self::ChannelFlowOk), ChannelFlowOk::NAME),
            (20, 40) => (ChannelClose::read(reader).map(Self::ChannelClose), ChannelClose::NAME),
            (20, 41) => (ChannelCloseOk::read(reader).map(Self::ChannelCloseOk), ChannelCloseOk::NAME),
            (30, 10) => (AccessRequest::read(reader).map(Self::AccessRequest), AccessRequest::NAME),
            (30, 11) => (AccessRequestOk::read(reader).map(Self::AccessRequestOk), AccessRequestOk::NAME),
            (40, 10) => (ExchangeDeclare::read(reader).map(Self::ExchangeDeclare), ExchangeDeclare::NAME),
            (40, 11) => {
                (ExchangeDeclareOk::read(reader).map(Self::ExchangeDeclareOk), ExchangeDeclareOk::NAME)
            }
            (40, 20) => (ExchangeDelete::read(reader).map(Self::ExchangeDelete), ExchangeDelete::NAME),
            (40, 21) => (ExchangeDeleteOk::read(reader).map(Self::ExchangeDeleteOk), ExchangeDeleteOk::NAME),
            (40, 30) => (ExchangeBind::read(reader).map(Self::ExchangeBind), ExchangeBind::NAME),
            (40, 31) => (ExchangeBindOk::read(reader).map(Self::ExchangeBindOk), ExchangeBindOk::NAME),
            (40, 40) => (ExchangeUnbind::read(reader).map(Self::ExchangeUnbind), ExchangeUnbind::NAME),
            (40, 51) => (ExchangeUnbindOk::read(reader).map(Self::ExchangeUnbindOk), ExchangeUnbindOk::NAME),
            (50, 10) => (QueueDeclare::read(reader).map(Self::QueueDeclare), QueueDeclare::NAME),
            (50, 11) => (QueueDeclareOk::read(reader).map(Self::QueueDeclareOk), QueueDeclareOk::NAME),
            (50, 20) => (QueueBind::read(reader).map(Self::QueueBind), QueueBind::NAME),
            (50, 21) => (QueueBindOk::read(reader).map(Self::QueueBindOk), QueueBindOk::NAME),
            (50, 30) => (QueuePurge::read(reader).map(Self::QueuePurge), QueuePurge::NAME),
            (50, 31) => (QueuePurgeOk::read(reader).map(Self::QueuePurgeOk), QueuePurgeOk::NAME),
            (50, 40) => (QueueDelete::read(reader).map(Self::QueueDelete), QueueDelete::NAME),
            (50, 41) => (QueueDeleteOk::read(reader).map(Self::QueueDeleteOk), QueueDeleteOk::NAME),
            (50, 50) => (QueueUnbind::read(reader).map(Self::QueueUnbind), QueueUnbind::NAME),
            (50, 51) => (QueueUnbindOk::read(reader).map(Self::QueueUnbindOk), QueueUnbindOk::NAME),
            (60, 10) => (BasicQos::read(reader).map(Self::BasicQos), BasicQos::NAME),
            (60, 11) => (BasicQosOk::read(reader).map(Self::BasicQosOk), BasicQosOk::NAME),
            (60, 20) => (BasicConsume::read(reader).map(Self::BasicConsume), BasicConsume::NAME),
            (60, 21) => (BasicConsumeOk::read(reader).map(Self::BasicConsumeOk), BasicConsumeOk::NAME),
            (60, 30) => (BasicCancel::read(reader).map(Self::BasicCancel), BasicCancel::NAME),
            (60, 31) => (BasicCancelOk::read(reader).map(Self::BasicCancelOk), BasicCancelOk::NAME),
            (60, 40) => (BasicPublish::read(reader).map(Self::BasicPublish), BasicPublish::NAME),
            (60, 50) => (BasicReturn::read(reader).map(Self::BasicReturn), BasicReturn::NAME),
            (60, 60) => (BasicDeliver::read(reader).map(Self::BasicDeliver), BasicDeliver::NAME),
            (60, 70) => (BasicGet::read(reader).map(Self::BasicGet), BasicGet::NAME),
            (60, 71) => (BasicGetOk::read(reader).map(Self::BasicGetOk), BasicGetOk::NAME),
            (60, 72) => (BasicGetEmpty::read(reader).map(Self::BasicGetEmpty), BasicGetEmpty::NAME),
            (60, 80) => (BasicAck::read(reader).map(Self::BasicAck), BasicAck::NAME),
            (60, 90) => (BasicReject::read(reader).map(Self::BasicReject), BasicReject::NAME),
            (60, 100) => {
                (BasicRecoverAsync::read(reader).map(Self::BasicRecoverAsync), BasicRecoverAsync::NAME)
            }
            (60, 110) => (BasicRecover::read(reader).map(Self::BasicRecover), BasicRecover::NAME),
            (60, 111) => (BasicRecoverOk::read(reader).map(Self::BasicRecoverOk), BasicRecoverOk::NAME),
            (60, 120) => (BasicNack::read(reader).map(Self::BasicNack), BasicNack::NAME),
            (85, 10) => (ConfirmSelect::read(reader).map(Self::ConfirmSelect), ConfirmSelect::NAME),
            (85, 11) => (ConfirmSelectOk::read(reader).map(Self::ConfirmSelectOk), ConfirmSelectOk::NAME),
            (90, 10) => (TxSelect::read(reader).map(Self::TxSelect), TxSelect::NAME),
            (90, 11) => (TxSelectOk::read(reader).map(Self::TxSelectOk), TxSelectOk::NAME),
            (90, 20) => (TxCommit::read(reader).map(Self::TxCommit), TxCommit::NAME),
            (90, 21) => (TxCommitOk::read(reader).map(Self::TxCommitOk), TxCommitOk::NAME),
            (90, 30) => (TxRollback::read(reader).map(Self::TxRollback), TxRollback::NAME),
            (90, 31) => (TxRollbackOk::read(reader).map(Self::TxRollbackOk), TxRollbackOk::NAME),
            _ => return Err(Violation::UnknownMethod { class, method }),
        };
        parsed.and_then(|parsed| reader.finish(parsed)).map_err(|error| Violation::Arguments {
            name,
            class,
            method,
            error,
        })
    }

    /// Returns the number of the class.
    pub const fn class_id(&self) -> u16 {
        match self {
            Self::ConnectionStart(_) => ConnectionStart::CLASS_ID,
            Self::ConnectionStartOk(_) => ConnectionStartOk::CLASS_ID,
            Self::ConnectionSecure(_) => ConnectionSecure::CLASS_ID,
            Self::ConnectionSecureOk(_) => ConnectionSecureOk::CLASS_ID,
            Self::ConnectionTune(_) => ConnectionTune::CLASS_ID,
            Self::ConnectionTuneOk(_) => ConnectionTuneOk::CLASS_ID,
            Self::ConnectionOpen(_) => ConnectionOpen::CLASS_ID,
            Self::ConnectionOpenOk(_) => ConnectionOpenOk::CLASS_ID,
            Self::ConnectionClose(_) => ConnectionClose::CLASS_ID,
            Self::ConnectionCloseOk(_) => ConnectionCloseOk::CLASS_ID,
            Self::ConnectionBlocked(_) => ConnectionBlocked::CLASS_ID,
            Self::ConnectionUnblocked(_) => ConnectionUnblocked::CLASS_ID,
            Self::ConnectionUpdateSecret(_) => ConnectionUpdateSecret::CLASS_ID,
            Self::ConnectionUpdateSecretOk(_) => ConnectionUpdateSecretOk::CLASS_ID,
            Self::ChannelOpen(_) => ChannelOpen::CLASS_ID,
            Self::ChannelOpenOk(_) => ChannelOpenOk::CLASS_ID,
            Self::ChannelFlow(_) => ChannelFlow::CLASS_ID,
            Self::ChannelFlowOk(_) => ChannelFlowOk::CLASS_ID,
            Self::ChannelClose(_) => ChannelClose::CLASS_ID,
            Self::ChannelCloseOk(_) => ChannelCloseOk::CLASS_ID,
            Self::AccessRequest(_) => AccessRequest::CLASS_ID,
            Self::AccessRequestOk(_) => AccessRequestOk::CLASS_ID,
            Self::ExchangeDeclare(_) => ExchangeDeclare::CLASS_ID,
            Self::ExchangeDeclareOk(_) => ExchangeDeclareOk::CLASS_ID,
            Self::ExchangeDelete(_) => ExchangeDelete::CLASS_ID,
            Self::ExchangeDeleteOk(_) => ExchangeDeleteOk::CLASS_ID,
            Self::ExchangeBind(_) => ExchangeBind::CLASS_ID,
            Self::ExchangeBindOk(_) => ExchangeBindOk::CLASS_ID,
            Self::ExchangeUnbind(_) => ExchangeUnbind::CLASS_ID,
            Self::ExchangeUnbindOk(_) => ExchangeUnbindOk::CLASS_ID,
            Self::QueueDeclare(_) => QueueDeclare::CLASS_ID,
            Self::QueueDeclareOk(_) => QueueDeclareOk::CLASS_ID,
            Self::QueueBind(_) => QueueBind::CLASS_ID,
            Self::QueueBindOk(_) => QueueBindOk::CLASS_ID,
            Self::QueuePurge(_) => QueuePurge::CLASS_ID,
            Self::QueuePurgeOk(_) => QueuePurgeOk::CLASS_ID,
            Self::QueueDelete(_) => QueueDelete::CLASS_ID,
            Self::QueueDeleteOk(_) => QueueDeleteOk::CLASS_ID,
            Self::QueueUnbind(_) => QueueUnbind::CLASS_ID,
            Self::QueueUnbindOk(_) => QueueUnbindOk::CLASS_ID,
            Self::BasicQos(_) => BasicQos::CLASS_ID,
            Self::BasicQosOk(_) => BasicQosOk::CLASS_ID,
            Self::BasicConsume(_) => BasicConsume::CLASS_ID,
            Self::BasicConsumeOk(_) => BasicConsumeOk::CLASS_ID,
            Self::BasicCancel(_) => BasicCancel::CLASS_ID,
            Self::BasicCancelOk(_) => BasicCancelOk::CLASS_ID,
            Self::BasicPublish(_) => BasicPublish::CLASS_ID,
            Self::BasicReturn(_) => BasicReturn::CLASS_ID,
            Self::BasicDeliver(_) => BasicDeliver::CLASS_ID,
            Self::BasicGet(_) => BasicGet::CLASS_ID,
            Self::BasicGetOk(_) => BasicGetOk::CLASS_ID,
            Self::BasicGetEmpty(_) => BasicGetEmpty::CLASS_ID,
            Self::BasicAck(_) => BasicAck::CLASS_ID,
            Self::BasicReject(_) => BasicReject::CLASS_ID,
            Self::BasicRecoverAsync(_) => BasicRecoverAsync::CLASS_ID,
            Self::BasicRecover(_) => BasicRecover::CLASS_ID,
            Self::BasicRecoverOk(_) => BasicRecoverOk::CLASS_ID,
            Self::BasicNack(_) => BasicNack::CLASS_ID,
            Self::ConfirmSelect(_) => ConfirmSelect::CLASS_ID,
            Self::ConfirmSelectOk(_) => ConfirmSelectOk::CLASS_ID,
            Self::TxSelect(_) => TxSelect::CLASS_ID,
            Self::TxSelectOk(_) => TxSelectOk::CLASS_ID,
            Self::TxCommit(_) => TxCommit::CLASS_ID,
            Self::TxCommitOk(_) => TxCommitOk::CLASS_ID,
            Self::TxRollback(_) => TxRollback::CLASS_ID,
            Self::TxRollbackOk(_) => TxRollbackOk::CLASS_ID,
        }
    }

    /// Returns the number of the method in its class.
    pub const fn method_id(&self) -> u16 {
        match self {
            Self::ConnectionStart(_) => ConnectionStart::METHOD_ID,
            Self::ConnectionStartOk(_) => ConnectionStartOk::METHOD_ID,
            Self::ConnectionSecure(_) => ConnectionSecure::METHOD_ID,
            Self::ConnectionSecureOk(_) => ConnectionSecureOk::METHOD_ID,
            Self::ConnectionTune(_) => ConnectionTune::METHOD_ID,
            Self::ConnectionTuneOk(_) => ConnectionTuneOk::METHOD_ID,
            Self::ConnectionOpen(_) => ConnectionOpen::METHOD_ID,
            Self::ConnectionOpenOk(_) => ConnectionOpenOk::METHOD_ID,
            Self::ConnectionClose(_) => ConnectionClose::METHOD_ID,
            Self::ConnectionCloseOk(_) => ConnectionCloseOk::METHOD_ID,
            Self::ConnectionBlocked(_) => ConnectionBlocked::METHOD_ID,
            Self::ConnectionUnblocked(_) => ConnectionUnblocked::METHOD_ID,
            Self::ConnectionUpdateSecret(_) => ConnectionUpdateSecret::METHOD_ID,
            Self::ConnectionUpdateSecretOk(_) => ConnectionUpdateSecretOk::METHOD_ID,
            Self::ChannelOpen(_) => ChannelOpen::METHOD_ID,
            Self::ChannelOpenOk(_) => ChannelOpenOk::METHOD_ID,
            Self::ChannelFlow(_) => ChannelFlow::METHOD_ID,
            Self::ChannelFlowOk(_) => ChannelFlowOk::METHOD_ID,
            Self::ChannelClose(_) => ChannelClose::METHOD_ID,
            Self::ChannelCloseOk(_) => ChannelCloseOk::METHOD_ID,
            Self::AccessRequest(_) => AccessRequest::METHOD_ID,
            Self::AccessRequestOk(_) => AccessRequestOk::METHOD_ID,
            Self::ExchangeDeclare(_) => ExchangeDeclare::METHOD_ID,
            Self::ExchangeDeclareOk(_) => ExchangeDeclareOk::METHOD_ID,
            Self::ExchangeDelete(_) => ExchangeDelete::METHOD_ID,
            Self::ExchangeDeleteOk(_) => ExchangeDeleteOk::METHOD_ID,
            Self::ExchangeBind(_) => ExchangeBind::METHOD_ID,
            Self::ExchangeBindOk(_) => ExchangeBindOk::METHOD_ID,
            Self::ExchangeUnbind(_) => ExchangeUnbind::METHOD_ID,
            Self::ExchangeUnbindOk(_) => ExchangeUnbindOk::METHOD_ID,
            Self::QueueDeclare(_) => QueueDeclare::METHOD_ID,
            Self::QueueDeclareOk(_) => QueueDeclareOk::METHOD_ID,
            Self::QueueBind(_) => QueueBind::METHOD_ID,
            Self::QueueBindOk(_) => QueueBindOk::METHOD_ID,
            Self::QueuePurge(_) => QueuePurge::METHOD_ID,
            Self::QueuePurgeOk(_) => QueuePurgeOk::METHOD_ID,
            Self::QueueDelete(_) => QueueDelete::METHOD_ID,
            Self::QueueDeleteOk(_) => QueueDeleteOk::METHOD_ID,
            Self::QueueUnbind(_) => QueueUnbind::METHOD_ID,
            Self::QueueUnbindOk(_) => QueueUnbindOk::METHOD_ID,
            Self::BasicQos(_) => BasicQos::METHOD_ID,
            Self::BasicQosOk(_) => BasicQosOk::METHOD_ID,
            Self::BasicConsume(_) => BasicConsume::METHOD_ID,
            Self::BasicConsumeOk(_) => BasicConsumeOk::METHOD_ID,
            Self::BasicCancel(_) => BasicCancel::METHOD_ID,
            Self::BasicCancelOk(_) => BasicCancelOk::METHOD_ID,
            Self::BasicPublish(_) => BasicPublish::METHOD_ID,
            Self::BasicReturn(_) => BasicReturn::METHOD_ID,
            Self::BasicDeliver(_) => BasicDeliver::METHOD_ID,
            Self::BasicGet(_) => BasicGet::METHOD_ID,
            Self::BasicGetOk(_) => BasicGetOk::METHOD_ID,
            Self::BasicGetEmpty(_) => BasicGetEmpty::METHOD_ID,
            Self::BasicAck(_) => BasicAck::METHOD_ID,
            Self::BasicReject(_) => BasicReject::METHOD_ID,
            Self::BasicRecoverAsync(_) => BasicRecoverAsync::METHOD_ID,
            Self::BasicRecover(_) => BasicRecover::METHOD_ID,
            Self::BasicRecoverOk(_) => BasicRecoverOk::METHOD_ID,
            Self::BasicNack(_) => BasicNack::METHOD_ID,
            Self::ConfirmSelect(_) => ConfirmSelect::METHOD_ID,
            Self::ConfirmSelectOk(_) => ConfirmSelectOk::METHOD_ID,
            Self::TxSelect(_) => TxSelect::METHOD_ID,
            Self::TxSelectOk(_) => TxSelectOk::METHOD_ID,
            Self::TxCommit(_) => TxCommit::METHOD_ID,
            Self::TxCommitOk(_) => TxCommitOk::METHOD_ID,
            Self::TxRollback(_) => TxRollback::METHOD_ID,
            Self::TxRollbackOk(_) => TxRollbackOk::METHOD_ID,
        }
    }

    /// Returns the name, such as `queue.declare`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::ConnectionStart(_) => ConnectionStart::NAME,
            Self::ConnectionStartOk(_) => ConnectionStartOk::NAME,
            Self::ConnectionSecure(_) => ConnectionSecure::NAME,
            Self::ConnectionSecureOk(_) => ConnectionSecureOk::NAME,
            Self::ConnectionTune(_) => ConnectionTune::NAME,
            Self::ConnectionTuneOk(_) => ConnectionTuneOk::NAME,
            Self::ConnectionOpen(_) => ConnectionOpen::NAME,
            Self::ConnectionOpenOk(_) => ConnectionOpenOk::NAME,
            Self::ConnectionClose(_) => ConnectionClose::NAME,
            Self::ConnectionCloseOk(_) => ConnectionCloseOk::NAME,
            Self::ConnectionBlocked(_) => ConnectionBlocked::NAME,
            Self::ConnectionUnblocked(_) => ConnectionUnblocked::NAME,
            Self::ConnectionUpdateSecret(_) => ConnectionUpdateSecret::NAME,
            Self::ConnectionUpdateSecretOk(_) => ConnectionUpdateSecretOk::NAME,
            Self::ChannelOpen(_) => ChannelOpen::NAME,
            Self::ChannelOpenOk(_) => ChannelOpenOk::NAME,
            Self::ChannelFlow(_) => ChannelFlow::NAME,
            Self::ChannelFlowOk(_) => ChannelFlowOk::NAME,
            Self::ChannelClose(_) => ChannelClose::NAME,
            Self::ChannelCloseOk(_) => ChannelCloseOk::NAME,
            Self::AccessRequest(_) => AccessRequest::NAME,
            Self::AccessRequestOk(_) => AccessRequestOk::NAME,
            Self::ExchangeDeclare(_) => ExchangeDeclare::NAME,
            Self::ExchangeDeclareOk(_) => ExchangeDeclareOk::NAME,
            Self::ExchangeDelete(_) => ExchangeDelete::NAME,
            Self::ExchangeDeleteOk(_) => ExchangeDeleteOk::NAME,
            Self::ExchangeBind(_) => ExchangeBind::NAME,
            Self::ExchangeBindOk(_) => ExchangeBindOk::NAME,
            Self::ExchangeUnbind(_) => ExchangeUnbind::NAME,
            Self::ExchangeUnbindOk(_) => ExchangeUnbindOk::NAME,
            Self::QueueDeclare(_) => QueueDeclare::NAME,
            Self::QueueDeclareOk(_) => QueueDeclareOk::NAME,
            Self::QueueBind(_) => QueueBind::NAME,
            Self::QueueBindOk(_) => QueueBindOk::NAME,
            Self::QueuePurge(_) => QueuePurge::NAME,
            Self::QueuePurgeOk(_) => QueuePurgeOk::NAME,
            Self::QueueDelete(_) => QueueDelete::NAME,
            Self::QueueDeleteOk(_) => QueueDeleteOk::NAME,
            Self::QueueUnbind(_) => QueueUnbind::NAME,
            Self::QueueUnbindOk(_) => QueueUnbindOk::NAME,
            Self::BasicQos(_) => BasicQos::NAME,
            Self::BasicQosOk(_) => BasicQosOk::NAME,
            Self::BasicConsume(_) => BasicConsume::NAME,
            Self::BasicConsumeOk(_) => BasicConsumeOk::NAME,
            Self::BasicCancel(_) => BasicCancel::NAME,
            Self::BasicCancelOk(_) => BasicCancelOk::NAME,
            Self::BasicPublish(_) => BasicPublish::NAME,
            Self::BasicReturn(_) => BasicReturn::NAME,
            Self::BasicDeliver(_) => BasicDeliver::NAME,
            Self::BasicGet(_) => BasicGet::NAME,
            Self::BasicGetOk(_) => BasicGetOk::NAME,
            Self::BasicGetEmpty(_) => BasicGetEmpty::NAME,
            Self::BasicAck(_) => BasicAck::NAME,
            Self::BasicReject(_) => BasicReject::NAME,
            Self::BasicRecoverAsync(_) => BasicRecoverAsync::NAME,
            Self::BasicRecover(_) => BasicRecover::NAME,
            Self::BasicRecoverOk(_) => BasicRecoverOk::NAME,
            Self::BasicNack(_) => BasicNack::NAME,
            Self::ConfirmSelect(_) => ConfirmSelect::NAME,
            Self::ConfirmSelectOk(_) => ConfirmSelectOk::NAME,
            Self::TxSelect(_) => TxSelect::NAME,
            Self::TxSelectOk(_) => TxSelectOk::NAME,
            Self::TxCommit(_) => TxCommit::NAME,
            Self::TxCommitOk(_) => TxCommitOk::NAME,
            Self::TxRollback(_) => TxRollback::NAME,
            Self::TxRollbackOk(_) => TxRollbackOk::NAME,
        }
    }

    /// Appends the class, the method and the arguments: the payload of a method frame. Short strings
    /// are cut off after 255 bytes.
    pub fn put(&self, out: &mut BytesMut) {
        match self {
            Self::ConnectionStart(method) => method.put(out),
            Self::ConnectionStartOk(method) => method.put(out),
            Self::ConnectionSecure(method) => method.put(out),
            Self::ConnectionSecureOk(method) => method.put(out),
            Self::ConnectionTune(method) => method.put(out),
            Self::ConnectionTuneOk(method) => method.put(out),
            Self::ConnectionOpen(method) => method.put(out),
            Self::ConnectionOpenOk(method) => method.put(out),
            Self::ConnectionClose(method) => method.put(out),
            Self::ConnectionCloseOk(method) => method.put(out),
            Self::ConnectionBlocked(method) => method.put(out),
            Self::ConnectionUnblocked(method) => method.put(out),
            Self::ConnectionUpdateSecret(method) => method.put(out),
            Self::ConnectionUpdateSecretOk(method) => method.put(out),
            Self::ChannelOpen(method) => method.put(out),
            Self::ChannelOpenOk(method) => method.put(out),
            Self::ChannelFlow(method) => method.put(out),
            Self::ChannelFlowOk(method) => method.put(out),
            Self::ChannelClose(method) => method.put(out),
            Self::ChannelCloseOk(method) => method.put(out),
            Self::AccessRequest(method) => method.put(out),
            Self::AccessRequestOk(method) => method.put(out),
            Self::ExchangeDeclare(method) => method.put(out),
            Self::ExchangeDeclareOk(method) => method.put(out),
            Self::ExchangeDelete(method) => method.put(out),
            Self::ExchangeDeleteOk(method) => method.put(out),
            Self::ExchangeBind(method) => method.put(out),
            Self::ExchangeBindOk(method) => method.put(out),
            Self::ExchangeUnbind(method) => method.put(out),
            Self::ExchangeUnbindOk(method) => method.put(out),
            Self::QueueDeclare(method) => method.put(out),
            Self::QueueDeclareOk(method) => method.put(out),
            Self::QueueBind(method) => method.put(out),
            Self::QueueBindOk(method) => method.put(out),
            Self::QueuePurge(method) => method.put(out),
            Self::QueuePurgeOk(method) => method.put(out),
            Self::QueueDelete(method) => method.put(out),
            Self::QueueDeleteOk(method) => method.put(out),
            Self::QueueUnbind(method) => method.put(out),
            Self::QueueUnbindOk(method) => method.put(out),
            Self::BasicQos(method) => method.put(out),
            Self::BasicQosOk(method) => method.put(out),
            Self::BasicConsume(method) => method.put(out),
            Self::BasicConsumeOk(method) => method.put(out),
            Self::BasicCancel(method) => method.put(out),
            Self::BasicCancelOk(method) => method.put(out),
            Self::BasicPublish(method) => method.put(out),
            Self::BasicReturn(method) => method.put(out),
            Self::BasicDeliver(method) => method.put(out),
            Self::BasicGet(method) => method.put(out),
            Self::BasicGetOk(method) => method.put(out),
            Self::BasicGetEmpty(method) => method.put(out),
            Self::BasicAck(method) => method.put(out),
            Self::BasicReject(method) => method.put(out),
            Self::BasicRecoverAsync(method) => method.put(out),
            Self::BasicRecover(method) => method.put(out),
            Self::BasicRecoverOk(method) => method.put(out),
            Self::BasicNack(method) => method.put(out),
            Self::ConfirmSelect(method) => method.put(out),
            Self::ConfirmSelectOk(method) => method.put(out),
            Self::TxSelect(method) => method.put(out),
            Self::TxSelectOk(method) => method.put(out),
            Self::TxCommit(method) => method.put(out),
            Self::TxCommitOk(method) => method.put(out),
            Self::TxRollback(method) => method.put(out),
            Self::TxRollbackOk(method) => method.put(out),
        }
    }
}
