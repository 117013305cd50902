//! Describes the broker's frames of AMQP 1.0 in the notation of a page.

use amqp10::frame::{self, FrameKind, HEADER_SIZE};
use amqp10::sections::{self, BodyKind};
use amqp10::{
    AmqpError, Attach, DeliveryState, Map, Performative, Reader, ReceiverSettleMode, Role, SaslCode,
    SaslFrame, SenderSettleMode, Symbol, TargetArchetype, Transfer, Value,
};
use bytes::Bytes;

use super::track::Track;
use crate::fields::{Seen, Words};

fn put_error(words: &mut Words, error: Option<AmqpError>) {
    let Some(error) = error else { return };
    words.must("error", error.condition);
    words.maybe("text", error.description, false);
    words.maybe("info", error.info, false);
}

/// On every page, an error that rejects a message or ends a link must name its subject in its description: in
/// quotes, as an address or as a number. An error that ends a session or a connection may be about that
/// alone.
fn errors_name_their_subject(error: Option<&AmqpError>) {
    let Some(error) = error else { return };
    let reason = error.description.as_deref().unwrap_or_default();
    let names = reason.contains(['\'', '/']) || reason.contains(|c: char| c.is_ascii_digit());
    assert!(names, "an error that names nothing: {error:?}");
}

/// Removes the first frame from the input and describes it.
pub(crate) fn take(input: &mut Vec<u8>, track: &mut Track) -> Option<Seen> {
    let start = *input.first_chunk::<HEADER_SIZE>()?;
    if start.starts_with(b"AMQP") {
        input.drain(..HEADER_SIZE);
        let mut words = Words::default();
        match start {
            frame::SASL_HEADER => words.must("sasl", true),
            frame::AMQP_HEADER => words.must("amqp", true),
            other => words.must("other", Bytes::copy_from_slice(&other)),
        }
        return Some(Seen { name: "header".into(), tokens: words.0 });
    }
    let header = frame::parse_header(&start, u32::MAX).expect("the broker frames rightly");
    let size = header.size as usize;
    assert!(input.len() >= size, "the broker writes whole frames");
    let whole: Vec<u8> = input.drain(..size).collect();
    let body = &whole[header.body_offset()..];
    let mut words = Words::default();
    let name = match header.kind {
        FrameKind::Sasl => sasl(SaslFrame::decode(body).expect("the broker encodes rightly"), &mut words),
        FrameKind::Amqp if body.is_empty() => "heartbeat",
        FrameKind::Amqp => {
            let (performative, used) = Performative::decode(body).expect("the broker encodes rightly");
            if header.channel != 0 {
                words.must("ch", u32::from(header.channel));
            }
            let name = performative.name();
            amqp(performative, &body[used..], header.channel, track, &mut words);
            name
        }
    };
    Some(Seen { name: name.into(), tokens: words.0 })
}

fn sasl(frame: SaslFrame, words: &mut Words) -> &'static str {
    match frame {
        SaslFrame::Mechanisms(offered) => {
            offered.sasl_server_mechanisms.iter().for_each(|m| words.must(m, true));
            "mechanisms"
        }
        SaslFrame::Outcome(outcome) => {
            words.must(if outcome.code == SaslCode::Ok { "ok" } else { "auth" }, true);
            "outcome"
        }
        _ => "sasl",
    }
}

fn amqp(performative: Performative<'_>, payload: &[u8], channel: u16, track: &mut Track, words: &mut Words) {
    match performative {
        Performative::Open(open) => {
            words.may("id", open.container_id);
            words.may("max-frame-size", open.max_frame_size);
            words.may("channel-max", u32::from(open.channel_max));
            words.maybe("idle-time-out", open.idle_time_out, false);
            words.may("offered", symbols(&open.offered_capabilities));
            words.maybe("properties", open.properties, false);
        }
        Performative::Begin(begin) => {
            words.maybe("remote", begin.remote_channel.map(u32::from), false);
            words.may("next", begin.next_outgoing_id);
            words.may("window", begin.incoming_window);
            words.may("outgoing-window", begin.outgoing_window);
            words.may("handle-max", begin.handle_max);
        }
        Performative::Attach(link) => {
            if link.role == Role::Sender {
                track.session(channel).attached(&link.name, link.handle);
            }
            attach(*link, words);
        }
        Performative::Flow(flow) => {
            if let (Some(handle), Some(count)) = (flow.handle, flow.delivery_count) {
                track.session(channel).delivery_count(handle, count);
            }
            words.maybe("h", flow.handle, true);
            words.maybe("credit", flow.link_credit, true);
            words.maybe("count", flow.delivery_count, false);
            words.maybe("available", flow.available, true);
            words.flag("drain", flow.drain);
            words.flag("echo", flow.echo);
            words.put("window", flow.incoming_window, flow.handle.is_none());
            words.maybe("next-in", flow.next_incoming_id, false);
            words.may("next-out", flow.next_outgoing_id);
            words.may("outgoing-window", flow.outgoing_window);
            words.maybe("properties", flow.properties, true);
        }
        Performative::Transfer(head) => transfer(&head, payload, channel, track, words),
        Performative::Disposition(disposition) => {
            words.must(role(disposition.role), true);
            let (first, last) = (disposition.first, disposition.last);
            words.must(&last.map_or(first.to_string(), |last| format!("{first}..{last}")), true);
            words.flag("settled", disposition.settled);
            match disposition.state {
                Some(DeliveryState::Accepted) => words.must("accepted", true),
                Some(DeliveryState::Released) => words.must("released", true),
                Some(DeliveryState::Rejected(error)) => {
                    words.must("rejected", true);
                    errors_name_their_subject(error.as_ref());
                    put_error(words, error);
                }
                Some(DeliveryState::Modified(modified)) => {
                    words.must("modified", true);
                    words.maybe("failed", modified.delivery_failed, false);
                    words.maybe("undeliverable", modified.undeliverable_here, false);
                    words.maybe("ma", modified.message_annotations, true);
                }
                _ => {}
            }
        }
        Performative::Detach(detach) => {
            words.must("h", detach.handle);
            words.may("closed", detach.closed);
            errors_name_their_subject(detach.error.as_ref());
            put_error(words, detach.error);
        }
        Performative::End(end) => put_error(words, end.error),
        Performative::Close(close) => put_error(words, close.error),
    }
}

fn role(role: Role) -> &'static str {
    if role == Role::Sender { "sender" } else { "receiver" }
}

fn symbols(all: &[Symbol]) -> Value {
    Value::List(all.iter().cloned().map(Value::Symbol).collect())
}

fn attach(attach: Attach, words: &mut Words) {
    words.must(role(attach.role), true);
    words.must("h", attach.handle);
    words.may("name", attach.name);
    words.may(
        "snd",
        match attach.snd_settle_mode {
            SenderSettleMode::Unsettled => "unsettled",
            SenderSettleMode::Settled => "settled",
            SenderSettleMode::Mixed => "mixed",
        },
    );
    words.may(
        "rcv",
        match attach.rcv_settle_mode {
            ReceiverSettleMode::First => "first",
            ReceiverSettleMode::Second => "second",
        },
    );
    words.maybe("max-size", attach.max_message_size, false);
    words.maybe("count", attach.initial_delivery_count, false);
    words.may("offered", symbols(&attach.offered_capabilities));
    words.maybe("properties", attach.properties, false);
    let sending = attach.role == Role::Sender;
    match attach.source {
        None => words.put("source", Value::Null, sending),
        Some(source) => {
            words.put("source", source.address, sending);
            if source.dynamic {
                words.may("dynamic", true);
            }
            words.maybe("filter", source.filter, false);
            words.maybe("distribution", source.distribution_mode, false);
            words.maybe("node", source.dynamic_node_properties, false);
            words.may("outcomes", symbols(&source.outcomes));
            words.may("default-released", source.default_outcome == Some(DeliveryState::Released));
        }
    }
    match attach.target {
        Some(TargetArchetype::Target(target)) => {
            // The anonymous terminus is a target without an address; a refused link has no target.
            words.put("target", target.address.unwrap_or("".into()), !sending);
            words.maybe("node", target.dynamic_node_properties, false);
            if target.dynamic {
                words.may("dynamic", true);
            }
        }
        _ => words.put("target", Value::Null, !sending),
    }
}

fn transfer(head: &Transfer<'_>, payload: &[u8], channel: u16, track: &mut Track, words: &mut Words) {
    let session = track.session(channel);
    let whole = !head.more && !session.remote_partial.contains(&head.handle);
    session.transfer(head.handle, head.more);
    words.must("h", head.handle);
    words.maybe("id", head.delivery_id, false);
    words.maybe("tag", head.delivery_tag.map(Bytes::copy_from_slice), false);
    words.maybe("format", head.message_format, false);
    words.flag("settled", head.settled == Some(true));
    words.flag("more", head.more);
    words.flag("aborted", head.aborted);
    if whole {
        message(payload, words);
    } else {
        words.may("payload", payload.len() as u64);
    }
}

fn message(bytes: &[u8], words: &mut Words) {
    let found = sections::scan(bytes).expect("the payload that the broker sends is a valid message");
    let cut = |range: &std::ops::Range<u32>| &bytes[range.start as usize..range.end as usize];
    let inner = |range: &std::ops::Range<u32>| match Reader::new(cut(range)).read_value() {
        Ok(Value::Described(described)) => described.value,
        _ => Value::Null,
    };
    if let Some(header) = &found.header {
        let mut map = Map::new();
        let mut put = |key: &'static str, value: Option<Value>| {
            if let Some(value) = value {
                map.insert(Symbol::from_static(key), value);
            }
        };
        put("durable", header.durable.map(Into::into));
        put("priority", header.priority.map(Into::into));
        put("ttl", header.ttl.map(Into::into));
        put("first-acquirer", header.first_acquirer.map(Into::into));
        put("delivery-count", header.delivery_count.map(Into::into));
        words.may("hdr", map);
    }
    words.maybe("da", found.delivery_annotations.as_ref().map(inner), true);
    words.maybe("ma", found.message_annotations.as_ref().map(inner), false);
    if let Some(range) = &found.properties
        && let Ok(properties) = sections::properties(cut(range))
    {
        let mut map = Map::new();
        let mut put = |key: &'static str, value: Option<Value>| {
            if let Some(value) = value {
                map.insert(Symbol::from_static(key), value);
            }
        };
        put("message-id", properties.message_id);
        put("user-id", properties.user_id.map(Into::into));
        put("to", properties.to.map(Into::into));
        put("subject", properties.subject.map(Into::into));
        put("reply-to", properties.reply_to.map(Into::into));
        put("correlation-id", properties.correlation_id);
        put("content-type", properties.content_type.map(Value::Symbol));
        put("content-encoding", properties.content_encoding.map(Value::Symbol));
        put("creation-time", properties.creation_time.map(Value::Timestamp));
        put("group-id", properties.group_id.map(Into::into));
        words.may("props", map);
    }
    words.maybe("ap", found.application_properties.as_ref().map(inner), false);
    match found.body_kind {
        BodyKind::Data => {
            let data = inner(&found.body);
            let text = data.as_binary().and_then(|d| String::from_utf8(d.to_vec()).ok());
            words.must("body", text.map_or(data, Value::String));
        }
        BodyKind::Sequence => words.must("seq", inner(&found.body)),
        BodyKind::Value => words.must("value", inner(&found.body)),
    }
    words.maybe("footer", found.footer.as_ref().map(inner), false);
}
