//! AMQP 0.9.1 to AMQP 1.0.

use amqp10::descriptor;
use amqp10::encode::{
    self, ListWriter, put_binary, put_descriptor, put_map_with, put_str, put_symbol, put_timestamp,
};
use amqp10::sections::{self, SectionKind};
use amqp091::{Properties, Table, Value};
use bytes::{BufMut, BytesMut};

use super::values::{put_amqp10, put_amqp10_pair, put_percent_encoded, seconds_to_ms, text, uuid_of};
use super::{AMQP10_TYPE, QUEUES, name};
use crate::{Format, Message, Parts};

/// The prefix of headers that become annotations.
const X: &str = "x-";

/// The prefix of headers with whole sections, which bridges of old versions of RabbitMQ wrote.
const SECTIONS: &str = "x-amqp-1.0-";

/// The number of headers up to which each name is compared with each other. More are sorted.
const COMPARED_MAX: usize = 12;

/// Returns the message in AMQP 1.0.
#[inline(never)]
pub(super) fn converted(message: &Message) -> Message {
    let (list, payload) = (message.property_list(), message.body());
    // The list was checked when the message arrived.
    let properties = Properties::view(list).unwrap_or_default();
    let headers = Headers::new(properties.headers.unwrap_or_default());
    let mut out = BytesMut::with_capacity(bytes_max(list.len(), payload.len()));
    put_annotations(&properties, &headers, &mut out);
    let bare_at = out.len();
    put_properties(&properties, &headers, &mut out);
    let application_properties_at = out.len();
    put_application_properties(&headers, &mut out);
    let body_at = out.len();
    put_body(&properties, &headers, payload, &mut out);
    let parts = Parts {
        format: Format::Amqp10,
        // A message is far smaller than 4 GiB.
        bare_at: bare_at as u32,
        application_properties_at: application_properties_at as u32,
        body_at: body_at as u32,
        wire: out.freeze(),
        // AMQP 1.0 has 32 bits for it.
        ttl_ms: message.ttl_ms().map(|ttl_ms| ttl_ms.min(u32::MAX.into())),
        ..message.parts()
    };
    let converted = Message::new(parts, message.route().clone());
    match message.deaths() {
        Some(deaths) => converted.with_deaths(deaths.clone()),
        None => converted,
    }
}

/// The most bytes of a message in AMQP 1.0, given the sizes of its two parts in AMQP 0.9.1. An entry of a table grows by
/// few bytes, and percent-encoding triples an address. The heads of the five sections have at most 20 bytes each.
pub(super) fn bytes_max(list: usize, payload: usize) -> usize {
    3 * list + payload + 5 * 20
}

/// The headers of a message, each name once.
struct Headers<'a> {
    table: Table<'a>,
    /// For each entry, true if an earlier one has the same name. Empty if all names are different.
    repeated: Vec<bool>,
    /// True if there may be headers with whole sections.
    has_sections: bool,
}

impl<'a> Headers<'a> {
    fn new(table: Table<'a>) -> Self {
        let mut names = [""; COMPARED_MAX];
        let (mut count, mut has_repeated, mut has_sections) = (0, false, false);
        for (name, _) in table {
            has_sections |= name.starts_with(SECTIONS);
            match names.get_mut(count) {
                Some(place) => {
                    *place = name;
                    has_repeated |= names[..count].contains(&name);
                }
                None => has_repeated = true,
            }
            count += 1;
        }
        let repeated = if has_repeated { repeated(table) } else { Vec::new() };
        Self { table, repeated, has_sections }
    }

    /// Returns the entries. Of several with the same name, it is the first one: a map must not repeat a key.
    fn iter(&self) -> impl Iterator<Item = (&'a str, Value<'a>)> + '_ {
        let is_first = |(at, entry)| (!self.repeated.get(at).copied().unwrap_or(false)).then_some(entry);
        self.table.iter().enumerate().filter_map(is_first)
    }

    /// Returns the section that a header contains, or `None` if there is none, or no valid one.
    #[inline]
    fn section(&self, header: &str, kind: SectionKind) -> Option<&'a [u8]> {
        if !self.has_sections {
            return None;
        }
        match self.table.get(header)? {
            Value::LongString(section) | Value::Binary(section) => {
                is_section(section, kind).then_some(section)
            }
            _ => None,
        }
    }
}

/// Returns true if the bytes are one valid section of this kind.
#[cold]
fn is_section(section: &[u8], kind: SectionKind) -> bool {
    /// The shortest body: a data section without octets.
    const BODY: &[u8] = b"\x00\x53\x75\xa0\x00";
    let mut found = sections::each(section);
    let is_one = matches!(found.next(), Some(Ok((only, _))) if only == kind) && found.next().is_none();
    let message = if kind == SectionKind::Footer { [BODY, section] } else { [section, BODY] };
    is_one && sections::scan(&message.concat()).is_ok()
}

/// Returns for each entry whether an earlier one has the same name. Names are sorted, because publishers choose them:
/// comparing each with all others would take quadratic time.
#[cold]
fn repeated(table: Table<'_>) -> Vec<bool> {
    let names: Vec<&str> = table.iter().map(|(name, _)| name).collect();
    let mut by_name: Vec<usize> = (0..names.len()).collect();
    by_name.sort_by_key(|at| names[*at]);
    let mut repeated = vec![false; names.len()];
    for equal in by_name.chunk_by(|a, b| names[*a] == names[*b]) {
        equal[1..].iter().for_each(|at| repeated[*at] = true);
    }
    repeated
}

/// Appends a section with the pairs that `fill` appends. `fill` returns their number. Appends nothing if it is 0.
#[inline]
fn put_map_section(out: &mut BytesMut, descriptor: u64, fill: impl FnOnce(&mut BytesMut) -> usize) {
    let start = out.len();
    put_descriptor(out, descriptor);
    let mut pairs = 0;
    put_map_with(out, |out| {
        pairs = fill(out);
        pairs
    });
    if pairs == 0 {
        out.truncate(start);
    }
}

fn put_annotations(properties: &Properties<'_>, headers: &Headers<'_>, out: &mut BytesMut) {
    if let Some(section) = headers.section("x-amqp-1.0-message-annotations", SectionKind::MessageAnnotations)
    {
        return out.put_slice(section);
    }
    let mut has_cc = false;
    put_map_section(out, descriptor::MESSAGE_ANNOTATIONS, |out| {
        let mut pairs = 0;
        if let Some(message_type) = properties.message_type {
            put_symbol(out, name::TYPE);
            put_amqp10(out, Value::LongString(message_type));
            pairs += 1;
        }
        for (name, value) in headers.iter() {
            let key = match (name, value) {
                (name::CC, Value::Array(_)) if !has_cc => name::X_CC,
                (name::X_CC, _) if has_cc => continue,
                (name::TYPE, _) if properties.message_type.is_some() => continue,
                (name, _) if name.starts_with(X) => name,
                _ => continue,
            };
            has_cc |= key == name::X_CC;
            pairs += usize::from(put_amqp10_pair(out, key, value));
        }
        pairs
    });
}

fn put_properties(properties: &Properties<'_>, headers: &Headers<'_>, out: &mut BytesMut) {
    if let Some(section) = headers.section("x-amqp-1.0-properties", SectionKind::Properties) {
        return out.put_slice(section);
    }
    let Properties { message_id, user_id, reply_to, correlation_id, .. } = *properties;
    let Properties { content_type, content_encoding, timestamp, app_id, .. } = *properties;
    let symbol = |bytes| text(bytes).filter(|text| text.is_ascii());
    let (content_type, content_encoding) = (content_type.and_then(symbol), content_encoding.and_then(symbol));
    let app_id = app_id.and_then(text);
    let has_bytes = [message_id, user_id, reply_to, correlation_id].iter().any(Option::is_some);
    let has_text = [content_type, content_encoding, app_id].iter().any(Option::is_some);
    if !has_bytes && !has_text && timestamp.is_none() {
        return;
    }
    let mut fields = ListWriter::new(out, descriptor::PROPERTIES);
    put_id(&mut fields, message_id);
    put_field(&mut fields, user_id, put_binary);
    // To, and subject.
    fields.null();
    fields.null();
    put_field(&mut fields, reply_to.map(address).as_deref(), put_str);
    put_id(&mut fields, correlation_id);
    put_field(&mut fields, content_type, put_symbol);
    put_field(&mut fields, content_encoding, put_symbol);
    // Absolute-expiry-time.
    fields.null();
    put_field(&mut fields, timestamp, |out, seconds| put_timestamp(out, seconds_to_ms(seconds)));
    put_field(&mut fields, app_id, put_str);
    fields.finish();
}

#[inline]
fn put_field<T>(fields: &mut ListWriter<'_>, value: Option<T>, put: impl FnOnce(&mut BytesMut, T)) {
    match value {
        Some(value) => put(fields.field(), value),
        None => fields.null(),
    }
}

/// Adds a message-id or correlation-id: a UUID if it is written as one, else a string, or a binary if it is not text.
fn put_id(fields: &mut ListWriter<'_>, id: Option<&[u8]>) {
    put_field(fields, id, |out, id| match (uuid_of(id), std::str::from_utf8(id)) {
        (Some(uuid), _) => encode::put_value(out, &amqp10::Value::Uuid(uuid)),
        (None, Ok(text)) => put_str(out, text),
        (None, Err(_)) => put_binary(out, id),
    });
}

/// Returns the address of a queue in AMQP 1.0.
fn address(queue: &[u8]) -> String {
    let mut address = QUEUES.as_bytes().to_vec();
    put_percent_encoded(queue, &mut address);
    // It is ASCII, so nothing is lost.
    String::from_utf8_lossy(&address).into_owned()
}

fn put_application_properties(headers: &Headers<'_>, out: &mut BytesMut) {
    if let Some(section) = headers.section("x-amqp-1.0-app-properties", SectionKind::ApplicationProperties) {
        return out.put_slice(section);
    }
    put_map_section(out, descriptor::APPLICATION_PROPERTIES, |out| {
        let mut pairs = 0;
        for (name, value) in headers.iter() {
            // Application-properties are simple values [3.2.5].
            let is_simple = !matches!(value, Value::Array(_) | Value::Table(_) | Value::Decimal { .. });
            if is_simple && !name.starts_with(X) && name != name::BCC {
                put_str(out, name);
                pairs += usize::from(put_amqp10(out, value));
            }
        }
        pairs
    });
}

fn put_body(properties: &Properties<'_>, headers: &Headers<'_>, payload: &[u8], out: &mut BytesMut) {
    let encoded =
        if properties.message_type == Some(AMQP10_TYPE.as_bytes()) { body_of(payload) } else { None };
    let has_footer = encoded.unwrap_or(false);
    match encoded {
        Some(_) => out.put_slice(payload),
        None => {
            put_descriptor(out, descriptor::DATA);
            put_binary(out, payload);
        }
    }
    if !has_footer && let Some(footer) = headers.section("x-amqp-1.0-footer", SectionKind::Footer) {
        out.put_slice(footer);
    }
}

/// Checks a payload of type `amqp-1.0`, which should be the body of a message of AMQP 1.0. Returns whether a footer is
/// part of it, or `None` if the payload is anything else.
fn body_of(payload: &[u8]) -> Option<bool> {
    let found = sections::scan(payload).ok()?;
    let is_body = found.body.start == 0 && found.bare.start == 0;
    is_body.then_some(found.footer.is_some())
}
