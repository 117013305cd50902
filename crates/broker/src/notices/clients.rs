//! The events of clients: logins, connections, channels and consumers. Their names and headers are RabbitMQ's
//! (docs/compatibility.md, Events).

use std::net::SocketAddr;
use std::sync::Arc;

use super::{Headers, Notice};
use crate::counters::Protocol;
use crate::cx::Cx;
use crate::names::cut;
use crate::outlet::Outlet;
use crate::peer::Peer;

/// A login that was accepted or refused.
#[derive(Clone, Copy, Debug)]
pub struct Authentication<'a> {
    /// The user. For a login that is refused, the name that the client sent.
    pub user: &'a str,
    /// The name of the connection. Over HTTP, there is none.
    pub connection: Option<&'a str>,
    /// The address of the client.
    pub peer: &'a str,
    pub protocol: Protocol,
    /// The SASL mechanism. Over HTTP, there is none.
    pub mechanism: Option<&'a str>,
    /// Why the login is refused. `None` if it is accepted.
    pub refused: Option<&'a str>,
}

impl Authentication<'_> {
    /// Returns the event `user.authentication.success` or `user.authentication.failure`.
    pub fn event(self, vhost: &Arc<str>, now_ms: u64) -> Notice {
        let key = match self.refused {
            None => "user.authentication.success",
            Some(_) => "user.authentication.failure",
        };
        Notice::event(vhost, key, now_ms, |headers| {
            headers.text("name", cut(self.user));
            headers.text_of("connection_name", self.connection);
            headers.text("connection_type", if self.protocol == Protocol::Http { "http" } else { "network" });
            put_peer(headers, self.peer);
            headers.text("protocol", shown(self.protocol));
            headers.text_of("auth_mechanism", self.mechanism.map(cut));
            headers.text_of("error", self.refused.map(cut));
        })
    }
}

/// Returns the event of an alarm, `memory` or `disk`, of this node. It is published although the alarm stops publishers.
pub fn alarm(vhost: &Arc<str>, source: &str, node: &str, is_set: bool, now_ms: u64) -> Notice {
    let event = Notice::event(vhost, if is_set { "alarm.set" } else { "alarm.cleared" }, now_ms, |headers| {
        headers.text("source", source);
        headers.text("node", node);
    });
    Notice { passes_alarms: true, ..event }
}

impl Peer {
    /// Returns the name of a channel, as people see it.
    fn channel_name(&self, channel: u16) -> String {
        format!("{} ({channel})", self.name)
    }

    fn user(&self) -> &str {
        self.identity.as_ref().map_or("", |who| &who.user)
    }

    /// Makes an event about this client, if events are on.
    fn tell(&self, key: &str, cx: &mut Cx<'_>, put: impl FnOnce(&mut Headers<'_>)) {
        let Some(vhost) = cx.settings.event_vhost() else { return };
        let event = Notice::event(vhost, key, cx.now_ms, |headers| {
            put(headers);
            headers.text("user_who_performed_action", self.user());
        });
        cx.post.notices.push(event);
    }

    /// Tells of a login of this client.
    pub(crate) fn tell_login(&self, user: &str, mechanism: &str, refused: Option<&str>, cx: &mut Cx<'_>) {
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

    /// Tells that the connection is open.
    pub(crate) fn tell_opened(&mut self, client_properties: &amqp10::Map, cx: &mut Cx<'_>) {
        self.is_told = cx.settings.event_vhost().is_some();
        self.tell("connection.created", cx, |headers| {
            headers.text("name", &self.name);
            headers.text("vhost", &self.vhost);
            headers.text("user", self.user());
            headers.text("protocol", shown(self.protocol));
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

    /// Tells that the connection has ended, if it was told that it is open.
    pub fn tell_closed(&self, cx: &mut Cx<'_>) {
        if self.is_told {
            self.tell("connection.closed", cx, |headers| {
                headers.text("name", &self.name);
                headers.text("vhost", &self.vhost);
                headers.text("user", self.user());
            });
        }
    }

    /// Tells that a channel of AMQP 0.9.1 is open.
    pub(crate) fn tell_channel_opened(&self, channel: u16, cx: &mut Cx<'_>) {
        self.tell("channel.created", cx, |headers| {
            headers.text("name", &self.channel_name(channel));
            headers.text("connection", &self.name);
            headers.number("number", channel.into());
            headers.text("user", self.user());
            headers.text("vhost", &self.vhost);
        });
    }

    /// Tells that a channel of AMQP 0.9.1 has ended.
    pub(crate) fn tell_channel_closed(&self, channel: u16, cx: &mut Cx<'_>) {
        self.tell("channel.closed", cx, |headers| {
            headers.text("name", &self.channel_name(channel));
            headers.text("connection", &self.name);
        });
    }

    /// Tells that the queue has accepted a consumer. `arguments` are encoded entries of a table.
    pub(crate) fn tell_consumer<A>(
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
        outlet.told = Some(Box::new(Told {
            tag: tag.into(),
            channel: self.channel_name(channel),
            vhost: self.vhost.clone(),
            user: self.user().into(),
        }));
        self.tell("consumer.created", cx, |headers| {
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
}

/// A consumer that an event has named. Another one tells of its end.
#[derive(Debug)]
pub struct Told {
    tag: Arc<str>,
    channel: String,
    vhost: Arc<str>,
    user: Arc<str>,
}

impl Told {
    /// Tells that the consumer of this queue has ended.
    pub(crate) fn tell_end(&self, queue: &str, cx: &mut Cx<'_>) {
        let Some(vhost) = cx.settings.event_vhost() else { return };
        cx.post.notices.push(Notice::event(vhost, "consumer.deleted", cx.now_ms, |headers| {
            headers.text("consumer_tag", &self.tag);
            headers.text("channel", &self.channel);
            headers.text("queue", queue);
            headers.text("vhost", &self.vhost);
            headers.text("user_who_performed_action", &self.user);
        }));
    }
}

fn shown(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Amqp10 => "AMQP 1-0",
        Protocol::Amqp091 => "AMQP 0-9-1",
        Protocol::Http => "HTTP",
    }
}

/// Adds the address of a client. That of a Unix domain socket has no port.
fn put_peer(headers: &mut Headers<'_>, peer: &str) {
    match peer.parse::<SocketAddr>() {
        Ok(peer) => {
            headers.text("peer_host", &peer.ip().to_string());
            headers.number("peer_port", peer.port().into());
        }
        Err(_) => headers.text("peer_host", peer),
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
