//! Encodes the methods of AMQP 0.9.1 that a client of a page sends: one line is one method with its content.

use amqp10::{Map, Value};
use bytes::{BufMut, Bytes, BytesMut};

use super::generated::{METHODS, PROPERTIES};
use super::spec::{Argument, Kind, Method};
use super::values::{octets, put_long, put_short, put_table};
use super::{BODY, END, HEADER, HEARTBEAT, METHOD, OVERHEAD, PROTOCOL_HEADERS, Track, usual_channel};
use crate::fields::Fields;
use crate::text::{Parsed, Token};

/// The class of all methods with content.
const BASIC: u16 = 60;

/// Returns true if only a client of AMQP 0.9.1 can send this line.
pub(crate) fn is_ours(line: &str, tokens: &[Token]) -> bool {
    let header = |token: &Token| PROTOCOL_HEADERS.iter().any(|(name, _)| *name == token.key);
    line.contains('.')
        || matches!(line, "content-header" | "content-body" | "frame")
        || line == "header" && tokens.iter().any(header)
}

/// Returns the bytes of one line.
pub(crate) fn frame(line: &str, track: &mut Track, tokens: Vec<Token>) -> Parsed<Bytes> {
    let mut f = Fields(tokens);
    let mut out = BytesMut::new();
    let channel = f.number("ch");
    match line {
        "header" => {
            let name = f.0.first().map(|token| token.key.clone()).unwrap_or_default();
            f.flag(&name);
            let header = PROTOCOL_HEADERS.iter().find(|(known, _)| *known == name);
            out.put_slice(&header.ok_or("header 0-9-1, 0-9 or 0-8")?.1);
        }
        "bytes" => out.put_slice(&f.bytes()?),
        "heartbeat" => put_frame(&mut out, HEARTBEAT, channel.unwrap_or(0) as u16, &[]),
        "content-header" => {
            let payload = content_header(&mut f)?;
            put_frame(&mut out, HEADER, channel.unwrap_or(1) as u16, &payload);
        }
        "content-body" => {
            let payload = f.value("payload").as_ref().and_then(octets).unwrap_or_default();
            put_frame(&mut out, BODY, channel.unwrap_or(1) as u16, &payload);
        }
        "frame" => any_frame(&mut f, channel.unwrap_or(1) as u16, &mut out),
        _ => {
            let method = METHODS.iter().find(|method| method.name == line);
            let method = method.ok_or_else(|| format!("no such method: {line}"))?;
            let channel = channel.unwrap_or(usual_channel(line).into()) as u16;
            put_method(&mut f, method, channel, track, &mut out)?;
        }
    }
    f.finish(line)?;
    Ok(out.freeze())
}

/// Appends a frame that may break every rule: `frame type=1 ch=1 payload=b"..." size=9 end=0`.
fn any_frame(f: &mut Fields, channel: u16, out: &mut BytesMut) {
    let kind = f.number("type").unwrap_or(METHOD.into()) as u8;
    let payload = f.value("payload").as_ref().and_then(octets).unwrap_or_default();
    out.put_u8(kind);
    out.put_u16(channel);
    out.put_u32(f.u32("size").unwrap_or(payload.len() as u32));
    out.put_slice(&payload);
    out.put_u8(f.number("end").unwrap_or(END.into()) as u8);
}

fn put_frame(out: &mut BytesMut, kind: u8, channel: u16, payload: &[u8]) {
    out.put_u8(kind);
    out.put_u16(channel);
    put_long(out, payload);
    out.put_u8(END);
}

fn put_method(
    f: &mut Fields,
    method: &Method,
    channel: u16,
    track: &mut Track,
    out: &mut BytesMut,
) -> Parsed<()> {
    let mut payload = BytesMut::new();
    payload.put_u16(method.ids.0);
    payload.put_u16(method.ids.1);
    if let Some(of) = f.text("of") {
        let of = METHODS.iter().find(|method| method.name == of).ok_or("of=class.method")?;
        f.0.push(Token { key: "class-id".into(), value: Value::Long(of.ids.0.into()), essential: false });
        f.0.push(Token { key: "method-id".into(), value: Value::Long(of.ids.1.into()), essential: false });
    }
    let mut bits = (0u8, 0);
    for (at, argument) in method.arguments.iter().enumerate() {
        if argument.kind == Kind::Bit {
            bits.0 |= u8::from(f.flag(argument.name)) << bits.1;
            bits.1 += 1;
            if method.arguments.get(at + 1).is_none_or(|next| next.kind != Kind::Bit) {
                payload.put_u8(std::mem::take(&mut bits).0);
            }
            continue;
        }
        let value = f.value(argument.name);
        if let ("connection.tune-ok", "frame-max", Some(max)) = (method.name, argument.name, &value) {
            track.frame_max = max.as_u64().filter(|max| *max > 0).unwrap_or(131_072) as usize;
        }
        put_field(&mut payload, argument, value.as_ref())?;
    }
    if let Some(Value::Binary(more)) = f.value("more") {
        payload.put_slice(&more);
    }
    put_frame(out, METHOD, channel, &payload);
    if method.has_content && !f.flag("alone") {
        let body = f.value("body").as_ref().and_then(octets).unwrap_or_default();
        f.0.push(Token { key: "size".into(), value: Value::Long(body.len() as i64), essential: false });
        put_frame(out, HEADER, channel, &content_header(f)?);
        for part in body.chunks(track.frame_max.saturating_sub(OVERHEAD).max(1)) {
            put_frame(out, BODY, channel, part);
        }
    }
    Ok(())
}

/// Appends an argument or a property. One that the line does not mention is zero or empty.
fn put_field(out: &mut BytesMut, argument: &Argument, value: Option<&Value>) -> Parsed<()> {
    let number = value.and_then(Value::as_u64).unwrap_or(0);
    match argument.kind {
        // Bits are put together by the caller.
        Kind::Bit => {}
        Kind::Octet => out.put_u8(number as u8),
        Kind::Short => out.put_u16(number as u16),
        Kind::Long => out.put_u32(number as u32),
        Kind::LongLong => out.put_u64(number),
        Kind::ShortString => put_short(out, value.unwrap_or(&Value::String(String::new())))?,
        Kind::LongString => put_long(out, &value.and_then(octets).unwrap_or_default()),
        Kind::Table => match value {
            None => out.put_u32(0),
            Some(Value::Map(map)) => put_table(out, map)?,
            Some(Value::Binary(entries)) => put_long(out, entries),
            Some(_) => return Err(format!("{} is a table", argument.name)),
        },
    }
    Ok(())
}

/// Returns the payload of a content header: `class=60 weight=0 size=5 props(...) headers(...)`, or with a property list in
/// octets: `list=b"..."`.
fn content_header(f: &mut Fields) -> Parsed<BytesMut> {
    let mut payload = BytesMut::new();
    payload.put_u16(f.number("class").unwrap_or(BASIC.into()) as u16);
    payload.put_u16(f.number("weight").unwrap_or(0) as u16);
    payload.put_u64(f.number("size").unwrap_or(0));
    if let Some(Value::Binary(list)) = f.value("list") {
        payload.put_slice(&list);
        return Ok(payload);
    }
    let mut given = f.map("props").unwrap_or_default();
    if let Some(headers) = f.map("headers") {
        given.insert("headers", headers);
    }
    put_properties(&mut payload, given)?;
    Ok(payload)
}

fn put_properties(out: &mut BytesMut, mut given: Map) -> Parsed<()> {
    let (mut flags, mut fields) = (0u16, BytesMut::new());
    for (at, property) in PROPERTIES.iter().enumerate() {
        if let Some(at_given) = given.0.iter().position(|(key, _)| key.as_str() == Some(property.name)) {
            flags |= 1 << (15 - at);
            put_field(&mut fields, property, Some(&given.0.remove(at_given).1))?;
        }
    }
    if let Some((key, _)) = given.0.first() {
        return Err(format!("no such property: {key:?}"));
    }
    out.put_u16(flags);
    out.put_slice(&fields);
    Ok(())
}
