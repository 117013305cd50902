//! The events of logins, connections, channels and consumers, and the copies of traced deliveries.
//! Their names and headers are RabbitMQ's (docs/compatibility.md, Events and Traces).

use std::net::SocketAddr;

use catalog::TRACE_EXCHANGE;
use message::Message;

use crate::announced::Announced;
use crate::cx::Cx;
use crate::notices::{Authentication, Headers, Notice, protocol_name, put_peer};
use crate::outlet::Outlet;
use crate::peer::Peer;
use crate::traces::{Passing, Traces, traced_copy};

impl Peer {
    /// Returns the name of a channel, as people see it.
    fn channel_name(&self, channel: u16) -> String {
        format!("{} ({channel})", self.name)
    }

    fn user(&self) -> &str {
        self.identity.as_ref().map_or("", |who| &who.user)
    }

    /// Emits an event about this client, if events are on.
    fn emit(&self, key: &str, cx: &mut Cx<'_>, put: impl FnOnce(&mut Headers<'_>)) {
        let Some(vhost) = cx.settings.event_vhost() else { return };
        let event = Notice::event(vhost, key, cx.now_ms, |headers| {
            put(headers);
            headers.text("user_who_performed_action", self.user());
        });
        cx.post.notices.push(event);
    }

    /// Emits the event of a login of this client.
    pub(crate) fn emit_login(&self, user: &str, mechanism: &str, refused: Option<&str>, cx: &mut Cx<'_>) {
        let Some(vhost) = cx.settings.event_vhost() else { return };
        let login = Authentication {
            user,
            connection: Some(&self.name),
            peer: self.actor().peer,
            protocol: self.protocol,
            mechanism: Some(mechanism),
            refused,
        };
        cx.post.notices.push(login.event(vhost, cx.now_ms));
    }

    /// Emits the event that the connection is open.
    pub(crate) fn emit_opened(&mut self, client_properties: &amqp10::Map, cx: &mut Cx<'_>) {
        self.is_announced = cx.settings.event_vhost().is_some();
        self.emit("connection.created", cx, |headers| {
            headers.text("name", &self.name);
            headers.text("vhost", &self.vhost);
            headers.text("user", self.user());
            headers.text("protocol", protocol_name(self.protocol));
            headers.text("auth_mechanism", self.mechanism);
            put_ends(headers, &self.name);
            headers.flag("ssl", self.secured.is_some());
            if let Some(secured) = &self.secured {
                headers.text("ssl_protocol", secured.protocol);
                headers.text("ssl_cipher", secured.cipher);
                if let Some(certificate) = &secured.peer {
                    headers.text("peer_cert_subject", &certificate.subject);
                    headers.text("peer_cert_issuer", &certificate.issuer);
                }
            }
            headers.number("connected_at", self.connected_at_ms);
            headers.map("client_properties", client_properties);
        });
    }

    /// Emits the event that the connection has ended, if the one that it is open was emitted.
    pub fn emit_closed(&self, cx: &mut Cx<'_>) {
        if self.is_announced {
            self.emit("connection.closed", cx, |headers| {
                headers.text("name", &self.name);
                headers.text("vhost", &self.vhost);
                headers.text("user", self.user());
            });
        }
    }

    /// Emits the event that a channel of AMQP 0.9.1 is open.
    pub(crate) fn emit_channel_opened(&self, channel: u16, cx: &mut Cx<'_>) {
        self.emit("channel.created", cx, |headers| {
            headers.text("name", &self.channel_name(channel));
            headers.text("connection", &self.name);
            headers.number("number", channel.into());
            headers.text("user", self.user());
            headers.text("vhost", &self.vhost);
        });
    }

    /// Emits the event that a channel of AMQP 0.9.1 has ended.
    pub(crate) fn emit_channel_closed(&self, channel: u16, cx: &mut Cx<'_>) {
        self.emit("channel.closed", cx, |headers| {
            headers.text("name", &self.channel_name(channel));
            headers.text("connection", &self.name);
        });
    }

    /// Emits the event that the queue has accepted a consumer. `arguments` are encoded entries of a table.
    pub(crate) fn emit_consumer<A>(
        &self,
        outlet: &mut Outlet<A>,
        (tag, channel): (&str, u16),
        prefetch: u64,
        arguments: &[u8],
        cx: &mut Cx<'_>,
    ) {
        if cx.settings.event_vhost().is_none() {
            return;
        }
        outlet.announced = Some(Box::new(Announced {
            tag: tag.into(),
            channel: self.channel_name(channel),
            vhost: self.vhost.clone(),
            user: self.user().into(),
        }));
        self.emit("consumer.created", cx, |headers| {
            headers.text("consumer_tag", tag);
            headers.text("channel", &self.channel_name(channel));
            headers.text("queue", &outlet.queue_name);
            headers.text("vhost", &self.vhost);
            headers.flag("exclusive", outlet.exclusive);
            headers.flag("ack_required", !outlet.settled);
            headers.number("prefetch_count", prefetch);
            headers.entries("arguments", arguments);
        });
    }

    /// Copies a message that was delivered to this client, if it is traced.
    #[cold]
    pub(crate) fn trace_delivered(
        &self,
        traces: &Traces,
        channel: u16,
        queue: &str,
        message: &Message,
        redelivered: bool,
        cx: &mut Cx<'_>,
    ) {
        // Otherwise each delivery of a copy would make another copy.
        if **message.route().exchange() == *TRACE_EXCHANGE {
            return;
        }
        let passing =
            Passing { vhost: &self.vhost, connection: &self.name, part: channel, user: self.user() };
        let Some(claimed) = traces.claim(&passing, cx.now_ms, |name| name == queue) else { return };
        let notice = traced_copy(
            message,
            &format!("deliver.{queue}"),
            &passing,
            &claimed,
            &cx.settings.node_name,
            |headers| {
                headers.integer("redelivered", redelivered.into());
            },
        );
        cx.post.notices.push(notice);
    }
}

/// Adds the addresses of both ends, which are in the name of a connection.
fn put_ends(headers: &mut Headers<'_>, name: &str) {
    let (peer, local) = name.split_once(" -> ").unwrap_or((name, ""));
    put_peer(headers, peer);
    if let Ok(local) = local.parse::<SocketAddr>() {
        headers.text("host", &local.ip().to_string());
        headers.number("port", local.port().into());
    }
}
