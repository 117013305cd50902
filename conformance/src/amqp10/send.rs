//! Encodes the frames of AMQP 1.0 that a client of a page sends: one line, one frame.

use amqp10::frame::{AMQP_HEADER, SASL_HEADER};
use amqp10::sasl::Secret;
use amqp10::{
    AmqpError, Attach, Begin, Close, Coordinator, DeliveryState, Detach, Disposition, Encode, End, Flow,
    Header, Map, Modified, Open, Properties, Received, ReceiverSettleMode, Role, SaslFrame, SaslInit,
    SenderSettleMode, Source, Symbol, Target, TargetArchetype, TerminusDurability, TerminusExpiryPolicy,
    Transfer, Value, descriptor, encode, put_frame, put_sasl_frame,
};
use bytes::{Bytes, BytesMut};

use super::track::Track;
use crate::fields::Fields;
use crate::text::{Parsed, Token};

/// Returns the bytes of one line.
pub(crate) fn frame(line: &str, track: &mut Track, tokens: Vec<Token>) -> Parsed<Bytes> {
    let mut f = Fields(tokens);
    let mut out = BytesMut::new();
    let channel = f.number("ch").unwrap_or(0) as u16;
    match line {
        "header" => match f.0.first().map(|t| t.key.clone()).as_deref() {
            Some("sasl") if f.flag("sasl") => out.extend_from_slice(&SASL_HEADER),
            Some("amqp") if f.flag("amqp") => out.extend_from_slice(&AMQP_HEADER),
            _ => return Err("header sasl, amqp, 0-9-1 or 0-9".into()),
        },
        "bytes" => out.extend_from_slice(&f.bytes()?),
        "heartbeat" => amqp10::frame::put_empty_frame(&mut out),
        "init" => {
            let mut init = SaslInit::new(Symbol::from(f.text("mechanism").unwrap_or("ANONYMOUS".into())));
            init.initial_response = f.text("response").map(|r| Secret::new(r.into_bytes()));
            put_sasl_frame(&mut out, &SaslFrame::Init(init));
        }
        "open" => put_frame(&mut out, channel, &open(&mut f)),
        "begin" => {
            track.begin(channel);
            put_frame(&mut out, channel, &begin(&mut f));
        }
        "attach" => {
            let attach = attach(&mut f)?;
            if attach.role == Role::Receiver {
                track.session(channel).received.insert(attach.handle, 0);
                track.session(channel).name(&attach.name, attach.handle);
            }
            put_frame(&mut out, channel, &attach);
        }
        "flow" => put_frame(&mut out, channel, &flow(&mut f, channel, track)),
        "transfer" => transfer(&mut f, channel, track, &mut out)?,
        "disposition" => put_frame(&mut out, channel, &disposition(&mut f)?),
        "detach" => {
            let detach = Detach {
                handle: f.u32("h").unwrap_or(0),
                closed: f.value("closed").and_then(|v| v.as_bool()).unwrap_or(true),
                error: None,
            };
            put_frame(&mut out, channel, &detach);
        }
        "end" => put_frame(&mut out, channel, &End::default()),
        "close" => put_frame(&mut out, channel, &Close::default()),
        _ => return Err(format!("no such frame: {line}")),
    }
    f.finish(line)?;
    Ok(out.freeze())
}

fn open(f: &mut Fields) -> Open {
    Open {
        hostname: f.text("hostname"),
        max_frame_size: f.u32("max-frame-size").unwrap_or(u32::MAX),
        channel_max: f.number("channel-max").unwrap_or(u16::MAX.into()) as u16,
        idle_time_out: f.u32("idle-time-out"),
        desired_capabilities: f.symbols("desired"),
        properties: f.map("properties"),
        ..Open::new(f.text("id").unwrap_or("page".into()))
    }
}

fn begin(f: &mut Fields) -> Begin {
    Begin {
        remote_channel: f.number("remote").map(|n| n as u16),
        handle_max: f.u32("handle-max").unwrap_or(u32::MAX),
        desired_capabilities: f.symbols("desired"),
        properties: f.map("properties"),
        ..Begin::new(f.u32("next").unwrap_or(0), f.u32("window").unwrap_or(5000), u32::MAX)
    }
}

fn attach(f: &mut Fields) -> Parsed<Attach> {
    let role = match (f.flag("sender"), f.flag("receiver")) {
        (true, false) => Role::Sender,
        (false, true) => Role::Receiver,
        _ => return Err("attach sender or attach receiver".into()),
    };
    let handle = f.u32("h").unwrap_or(0);
    let mut attach = Attach::new(f.text("name").unwrap_or(format!("l{handle}")), handle, role);
    attach.snd_settle_mode = match f.text("snd").as_deref() {
        Some("unsettled") => SenderSettleMode::Unsettled,
        Some("settled") => SenderSettleMode::Settled,
        _ => SenderSettleMode::Mixed,
    };
    if f.text("rcv").as_deref() == Some("second") {
        attach.rcv_settle_mode = ReceiverSettleMode::Second;
    }
    attach.max_message_size = f.number("max-size");
    attach.desired_capabilities = f.symbols("desired");
    attach.properties = f.map("properties");
    attach.unsettled = f.map("unsettled");
    attach.incomplete_unsettled = f.flag("incomplete-unsettled");
    if role == Role::Sender {
        attach.initial_delivery_count = Some(f.u32("count").unwrap_or(0));
    }
    let (dynamic, capabilities) = (f.flag("dynamic"), f.symbols("capabilities"));
    let expiry = match f.text("expiry").as_deref() {
        Some("session-end") => TerminusExpiryPolicy::SessionEnd,
        Some("never") => TerminusExpiryPolicy::Never,
        _ => TerminusExpiryPolicy::LinkDetach,
    };
    let durable = match f.flag("terminus-durable") {
        true => TerminusDurability::UnsettledState,
        false => TerminusDurability::None,
    };
    let timeout = f.u32("terminus-timeout").unwrap_or(0);
    let (source, target) = (f.value("source"), f.value("target"));
    let text = |v: &Option<Value>| v.as_ref().and_then(Value::as_str).map(str::to_owned);
    if source != Some(Value::Null) {
        attach.source = Some(Source {
            address: text(&source),
            dynamic: dynamic && role == Role::Receiver,
            capabilities: if role == Role::Receiver { capabilities.clone() } else { Vec::new() },
            outcomes: f.symbols("outcomes"),
            filter: f.map("filter"),
            distribution_mode: f.text("distribution").map(Symbol::from),
            durable,
            expiry_policy: expiry,
            timeout,
            ..Source::default()
        });
    }
    if f.flag("coordinator") {
        attach.target = Some(TargetArchetype::Coordinator(Coordinator::default()));
    } else if target != Some(Value::Null) || role == Role::Sender {
        attach.target = Some(TargetArchetype::Target(Target {
            address: text(&target),
            dynamic: dynamic && role == Role::Sender,
            capabilities: if role == Role::Sender { capabilities } else { Vec::new() },
            ..Target::default()
        }));
    }
    Ok(attach)
}

fn flow(f: &mut Fields, channel: u16, track: &mut Track) -> Flow {
    let handle = f.u32("h");
    let session = track.session(channel);
    let received = handle.and_then(|h| session.received.get(&h).copied());
    let next_incoming = match f.value("next-in") {
        Some(value) => value.as_u64().map(|n| n as u32),
        None => Some(session.next_incoming_id),
    };
    let count = match f.value("count") {
        Some(value) => value.as_u64().map(|n| n as u32),
        None => received,
    };
    Flow {
        next_incoming_id: next_incoming,
        handle,
        delivery_count: count,
        link_credit: f.u32("credit"),
        available: f.u32("available"),
        drain: f.flag("drain"),
        echo: f.flag("echo"),
        properties: f.map("properties"),
        ..Flow::new(f.u32("window").unwrap_or(5000), session.next_outgoing_id, u32::MAX)
    }
}

fn transfer(f: &mut Fields, channel: u16, track: &mut Track, out: &mut BytesMut) -> Parsed<()> {
    let handle = f.u32("h").unwrap_or(0);
    let (more, aborted) = (f.flag("more"), f.flag("aborted"));
    let session = track.session(channel);
    session.next_outgoing_id = session.next_outgoing_id.wrapping_add(1);
    let continues = session.partial.contains(&handle);
    let id = match f.u32("id") {
        Some(id) => Some(id),
        None if continues => None,
        None => Some(session.next_delivery_id),
    };
    if let Some(id) = id.filter(|_| !continues) {
        session.next_delivery_id = id.wrapping_add(1);
    }
    if more {
        session.partial.insert(handle)
    } else {
        session.partial.remove(&handle)
    };
    let tag = match f.value("tag") {
        Some(Value::Binary(tag)) => Some(tag),
        Some(other) => other.as_str().map(|t| Bytes::copy_from_slice(t.as_bytes())),
        None => id.map(|id| Bytes::copy_from_slice(&id.to_be_bytes())),
    };
    let settled = f.value("settled").and_then(|v| v.as_bool());
    let rcv_settle_mode = match f.text("rcv").as_deref() {
        Some("first") => Some(ReceiverSettleMode::First),
        Some("second") => Some(ReceiverSettleMode::Second),
        _ => None,
    };
    let transfer = Transfer {
        handle,
        delivery_id: id,
        delivery_tag: tag.as_deref(),
        message_format: id.map(|_| 0),
        settled: if continues { settled } else { Some(settled.unwrap_or(false)) },
        more,
        rcv_settle_mode,
        state: None,
        resume: f.flag("resume"),
        aborted,
        batchable: false,
    };
    put_frame(out, channel, &transfer);
    message(f, out)?;
    let size = (out.len() as u32).to_be_bytes();
    out[..4].copy_from_slice(&size);
    Ok(())
}

/// Encodes the sections in the order of the line, whether that is valid or not.
fn message(f: &mut Fields, out: &mut BytesMut) -> Parsed<()> {
    let mut rest = Vec::new();
    for token in std::mem::take(&mut f.0) {
        let map = || token.value.as_map().cloned().ok_or_else(|| format!("{}(...)", token.key));
        let code = match token.key.as_str() {
            "hdr" => {
                header(&map()?).encode(out);
                continue;
            }
            "props" => {
                properties(&map()?).encode(out);
                continue;
            }
            "body" => match &token.value {
                Value::String(text) => {
                    encode::put_descriptor(out, descriptor::DATA);
                    encode::put_binary(out, text.as_bytes());
                    continue;
                }
                _ => return Err("body=\"text\"".into()),
            },
            "raw" => match &token.value {
                Value::String(text) => {
                    out.extend_from_slice(text.as_bytes());
                    continue;
                }
                _ => return Err("raw=\"text\"".into()),
            },
            "da" => descriptor::DELIVERY_ANNOTATIONS,
            "ma" => descriptor::MESSAGE_ANNOTATIONS,
            "ap" => descriptor::APPLICATION_PROPERTIES,
            "footer" => descriptor::FOOTER,
            "value" => descriptor::AMQP_VALUE,
            "seq" => descriptor::AMQP_SEQUENCE,
            _ => {
                rest.push(token);
                continue;
            }
        };
        encode::put_descriptor(out, code);
        match (token.key.as_str(), &token.value) {
            ("ap", Value::Map(map)) => {
                let pairs = map.iter().map(|(k, v)| (k.as_str().unwrap_or_default().to_owned(), v.clone()));
                encode::put_map(out, &pairs.collect());
            }
            (_, value) => encode::put_value(out, value),
        }
    }
    f.0 = rest;
    Ok(())
}

fn header(map: &Map) -> Header {
    let number = |key: &str| map.get(key).and_then(Value::as_u64);
    Header {
        durable: map.get("durable").and_then(Value::as_bool),
        priority: number("priority").map(|n| n as u8),
        ttl: number("ttl").map(|n| n as u32),
        first_acquirer: map.get("first-acquirer").and_then(Value::as_bool),
        delivery_count: number("delivery-count").map(|n| n as u32),
    }
}

fn properties(map: &Map) -> Properties {
    let text = |key: &str| map.get(key).and_then(Value::as_str).map(str::to_owned);
    Properties {
        message_id: map.get("message-id").map(|id| match id {
            Value::Long(n) => Value::Ulong(*n as u64),
            Value::Symbol(s) => Value::String(s.to_string()),
            other => other.clone(),
        }),
        user_id: text("user-id").map(Bytes::from),
        to: text("to"),
        subject: text("subject"),
        reply_to: text("reply-to"),
        correlation_id: map.get("correlation-id").cloned(),
        content_type: text("content-type").map(Symbol::from),
        content_encoding: text("content-encoding").map(Symbol::from),
        absolute_expiry_time: map.get("absolute-expiry-time").and_then(Value::as_i64),
        creation_time: map.get("creation-time").and_then(Value::as_i64),
        group_id: text("group-id"),
        group_sequence: map.get("group-sequence").and_then(Value::as_u64).map(|n| n as u32),
        reply_to_group_id: text("reply-to-group-id"),
    }
}

fn disposition(f: &mut Fields) -> Parsed<Disposition> {
    let role = if f.flag("sender") { Role::Sender } else { Role::Receiver };
    f.flag("receiver");
    let range = f.0.iter().position(|t| t.key.starts_with(|c: char| c.is_ascii_digit()));
    let range = f.0.remove(range.ok_or("disposition first..last")?).key;
    let (first, last) = range.split_once("..").map_or((&*range, None), |(a, b)| (a, Some(b)));
    let number = |text: &str| text.parse::<u32>().map_err(|_| "disposition first..last".to_owned());
    let mut disposition = Disposition::new(role, number(first)?);
    disposition.last = last.map(number).transpose()?;
    disposition.settled = f.flag("settled");
    disposition.state = if f.flag("accepted") {
        Some(DeliveryState::Accepted)
    } else if f.flag("released") {
        Some(DeliveryState::Released)
    } else if f.flag("received") {
        Some(DeliveryState::Received(Received::new(0, 0)))
    } else if f.flag("rejected") {
        let condition = f.text("error").map(Symbol::from);
        Some(DeliveryState::Rejected(condition.map(AmqpError::new)))
    } else if let Some(modified) = f.value("modified") {
        let map = modified.as_map().cloned().unwrap_or_default();
        Some(DeliveryState::Modified(Modified {
            delivery_failed: map.get("failed").and_then(Value::as_bool),
            undeliverable_here: map.get("undeliverable").and_then(Value::as_bool),
            message_annotations: map.get("ma").and_then(Value::as_map).map(|map| {
                let symbol = |k: &Value| Symbol::from(k.as_str().unwrap_or_default().to_owned());
                map.iter().map(|(k, v)| (symbol(k), v.clone())).collect()
            }),
        }))
    } else {
        None
    };
    Ok(disposition)
}
