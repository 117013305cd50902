//! The connection over which one shard of this node sends to one other member.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use catalog::categories::PEER;
use catalog::ids::ShardId;
use link::{NodeIdentity, Outgoing, Role};
use tokio::sync::{Notify, mpsc, watch};

use super::sockets::{self, Backoff, Introduction, Opened};
use super::stream::Stream;
use crate::cluster_settings::ListedNode;
use crate::incoming::Incoming;
use crate::links::WaitingPart;
use crate::shard::PeerMail;

/// The bytes that are taken from the queue at once: enough for few system calls, and so few that a new short message soon has its turn.
const CHUNK: usize = 256 * 1024;

/// The messages that are queued before the socket is looked at again.
const MAIL_AT_ONCE: usize = 256;

/// The bytes that are read at once. Only short frames come.
const READ: usize = 1024;

/// A member behind an address of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub number: u32,
    pub node: NodeIdentity,
}

/// What a task needs that sends the mail of one shard to the member at one place of the list.
pub(super) struct Line {
    pub shard: ShardId,
    pub node: ListedNode,
    pub introduction: Introduction,
    pub target: watch::Receiver<Option<Target>>,
    /// The member can be reached again.
    pub kick: Arc<Notify>,
    pub to_shard: mpsc::UnboundedSender<Incoming>,
    pub mail: mpsc::UnboundedReceiver<PeerMail>,
    pub waiting: WaitingPart,
}

/// Dials the member for ever, and sends the mail of the shard to it. Mail is dropped while there is no connection.
pub(super) async fn send_for_ever(mut line: Line) {
    let mut backoff = Backoff::default();
    loop {
        let Ok(target) = line.target.wait_for(Option::is_some).await.map(|target| *target) else { return };
        let Some(target) = target else { return };
        if let Ok(opened) = sockets::dial(&line.node, Role::Shard(line.shard), &line.introduction).await {
            let hello = &opened.hello;
            if hello.node == target.node && hello.number == target.number {
                let began = Instant::now();
                line.hold(opened, target.number).await;
                backoff.handle_ended(began.elapsed());
            }
        }
        tokio::select! {
            () = backoff.wait() => {}
            () = line.kick.notified() => {}
        }
        if line.mail.is_closed() {
            return;
        }
    }
}

impl Line {
    /// Sends over an open connection until it ends. The shard knows when it may send.
    async fn hold(&mut self, opened: Opened, node: u32) {
        let Opened { mut stream, rest, .. } = opened;
        // What was meant for an earlier connection.
        while self.mail.try_recv().is_ok() {}
        if self.to_shard.send(Incoming::Link { node, up: true }).is_err() {
            return;
        }
        let ended = self.send(&mut stream, rest).await;
        self.waiting.set(0);
        tracing::debug!(name: PEER, node, shard = self.shard, "a connection for messages has ended: {ended:?}");
        // A shard that has ended needs to know nothing.
        drop(self.to_shard.send(Incoming::Link { node, up: false }));
    }

    async fn send(&mut self, stream: &mut Stream, mut input: BytesMut) -> io::Result<()> {
        let mut queue = Outgoing::default();
        let (mut output, mut sent, mut mail) = (Vec::new(), 0, Vec::new());
        loop {
            queue.feed(&mut input).map_err(io::Error::other)?;
            if sent == output.len() {
                output.clear();
                sent = 0;
                queue.poll(&mut output, CHUNK);
            }
            self.waiting.set((queue.queued_bytes() + output.len() - sent) as u64);
            input.reserve(READ);
            tokio::select! {
                taken = self.mail.recv_many(&mut mail, MAIL_AT_ONCE) => {
                    if taken == 0 {
                        return Ok(());
                    }
                    for PeerMail { lane, shard, bytes, .. } in mail.drain(..) {
                        // Full: it is dropped. Groups and proposals send again what is not answered.
                        let _ = queue.push(lane, shard, bytes);
                    }
                }
                ready = stream.writable(), if sent < output.len() || stream.is_behind() => {
                    ready?;
                    sent += stream.try_write(&output[sent..])?;
                }
                ready = stream.readable() => {
                    ready?;
                    if !stream.try_read(&mut input)? {
                        return Ok(());
                    }
                }
                // Another member is there now.
                _ = self.target.changed() => return Ok(()),
            }
        }
    }
}
