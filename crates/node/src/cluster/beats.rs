//! The connections for heartbeats. One task dials each other node for ever, and sends the words of this node. One task reads the words of each
//! node that has dialed this one.

use std::rc::Rc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use link::{Frame, Role, put_word, take_word};
use tokio::sync::{Notify, mpsc};

use super::inputs::Input;
use super::sockets::{self, Backoff, Introduction, NotOpened, Opened};
use super::stream::Stream;
use crate::cluster_settings::ListedNode;

/// The words that may wait for a connection. Five are sent in a second, and the machine closes a connection that nobody acknowledges after
/// 8 s. More are dropped.
const WORDS_MAX: usize = 64;

/// The bytes that are read at once.
const READ: usize = 16 * 1024;

/// Dials the node at this place of the list for ever. `kick` ends the pause between two tries: the node has connected, so it can be reached.
pub(super) async fn dial_for_ever(
    peer: usize,
    node: ListedNode,
    introduction: Rc<std::cell::RefCell<Introduction>>,
    inputs: mpsc::Sender<Input>,
    kick: Rc<Notify>,
) {
    let mut backoff = Backoff::default();
    loop {
        let own = introduction.borrow().clone();
        match sockets::dial(&node, Role::Heartbeats, &own).await {
            Ok(Opened { stream, hello, rest }) => {
                let began = Instant::now();
                let (words, to_send) = mpsc::channel(WORDS_MAX);
                if inputs.send(Input::Dialed { peer, hello, words }).await.is_err() {
                    return;
                }
                let why = send_words(stream, to_send, rest).await;
                backoff.handle_ended(began.elapsed());
                if inputs.send(Input::DialEnded { peer, why }).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                if inputs.send(Input::NotDialed { peer, error }).await.is_err() {
                    return;
                }
            }
        }
        tokio::select! {
            () = backoff.wait() => {}
            () = kick.notified() => {}
        }
    }
}

/// Sends words until the connection ends. Returns why the peer has refused it, if it said so.
async fn send_words(
    mut stream: Stream,
    mut words: mpsc::Receiver<Bytes>,
    mut input: BytesMut,
) -> Option<String> {
    let mut output = Vec::new();
    loop {
        // Only a refusal comes over this connection.
        match Frame::take(&mut input) {
            Ok(None) => {}
            Ok(Some(Frame::Refused { reason, text })) => {
                return Some(
                    NotOpened::Handshake(link::HandshakeError::Refused { reason, text }).to_string(),
                );
            }
            Ok(Some(_)) | Err(_) => return None,
        }
        input.reserve(READ);
        tokio::select! {
            word = words.recv() => {
                // The machine has closed the connection.
                let word = word?;
                // The machine makes no longer words.
                if put_word(word, &mut output) && stream.write_all(&output).await.is_err() {
                    return None;
                }
                output.clear();
            }
            is_open = stream.read(&mut input) => {
                if !is_open.unwrap_or(false) {
                    return None;
                }
            }
        }
    }
}

/// Passes on the words of a node until its connection ends. `connection` is the number of the connection.
pub(super) async fn read_words(peer: usize, connection: u64, opened: Opened, inputs: mpsc::Sender<Input>) {
    let Opened { mut stream, rest: mut input, .. } = opened;
    loop {
        match take_word(&mut input) {
            Ok(Some(word)) => {
                if inputs.send(Input::Word { peer, connection, word }).await.is_err() {
                    return;
                }
                continue;
            }
            Ok(None) => {}
            Err(_) => break,
        }
        input.reserve(READ);
        if !stream.read(&mut input).await.unwrap_or(false) {
            break;
        }
    }
    drop(inputs.send(Input::AcceptEnded { peer, connection }).await);
}

/// Tells a node that has connected why it is refused, and closes the connection.
pub(super) async fn refuse(mut stream: Stream, why: String) {
    let mut text = why;
    text.truncate(text.floor_char_boundary(link::TEXT_MAX));
    let mut output = Vec::new();
    Frame::Refused { reason: link::Reason::IDENTITY, text }.encode(&mut output);
    // A node that does not read this learns it from the end of the connection.
    drop(tokio::time::timeout(sockets::OPEN_MAX, stream.write_all(&output)).await);
}
