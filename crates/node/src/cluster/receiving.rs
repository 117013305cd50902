//! A connection over which one shard of another member sends to the shards of this node.

use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use catalog::categories::PEER;
use link::{FRAME_MAX, PIECE_MAX};

use super::stream::Stream;
use crate::incoming::{Incoming, Shards};
use crate::links::{PeerBytes, Taken};

/// The bytes that are read at once. Each connection keeps a buffer of this size.
const READ: usize = FRAME_MAX;

/// Who sends.
pub(super) struct Sender {
    pub number: u32,
    pub name: String,
}

/// Passes on the messages until the connection ends.
pub(super) async fn receive(mut stream: Stream, input: BytesMut, sender: Sender, shards: Shards) {
    let Sender { number, name } = &sender;
    match pass_on(&mut stream, input, *number, &shards).await {
        Ok(()) => tracing::debug!(name: PEER, "a connection of node {name} for messages has ended"),
        Err(error) => {
            tracing::info!(name: PEER, "a connection of node {name} for messages has ended: {error}")
        }
    }
}

async fn pass_on(stream: &mut Stream, mut input: BytesMut, from: u32, shards: &Shards) -> io::Result<()> {
    let mut incoming = link::Incoming::default();
    let taken = Arc::new(Taken::default());
    let (mut output, mut sent) = (Vec::new(), 0);
    loop {
        while taken.has_room()
            && let Some(message) = incoming.feed(&mut input).map_err(io::Error::other)?
        {
            let link::Message { shard, bytes, cost, .. } = message;
            // The sender does not know how many shards there are.
            let Some(shard) = shards.get(usize::from(shard) % shards.len().max(1)) else { return Ok(()) };
            // A message of one piece is a part of the input. Groups keep it for long, and it would keep all of the input.
            let bytes = if bytes.len() <= PIECE_MAX { Bytes::copy_from_slice(&bytes) } else { bytes };
            let bytes = PeerBytes::new(from, bytes, cost, &taken);
            if shard.send(Incoming::Peer(bytes)).is_err() {
                return Ok(());
            }
        }
        incoming.taken(taken.take_cost());
        incoming.poll_window(&mut output);
        input.reserve(READ);
        tokio::select! {
            ready = stream.readable(), if taken.has_room() => {
                ready?;
                if !stream.try_read(&mut input)? {
                    return Ok(());
                }
            }
            ready = stream.writable(), if sent < output.len() || stream.is_behind() => {
                ready?;
                sent += stream.try_write(&output[sent..])?;
                if sent == output.len() {
                    output.clear();
                    sent = 0;
                }
            }
            () = taken.enough() => {}
        }
    }
}
