//! The handshake: each side learns who the other one is, and that it belongs to the cluster.

use std::fmt;

use bytes::BytesMut;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::error::HandshakeError;
use crate::frame::{Frame, Greeting, HANDSHAKE_FRAME_MAX, NAME_MAX, Nonce, TEXT_MAX, Way};
use crate::hello::{ClusterId, Hello, Role};

/// The newest format of messages between nodes that this program understands.
pub const FORMAT: u32 = 1;
/// The oldest format that this program still talks.
pub const FORMAT_MIN: u32 = 1;

/// Begins the input of each proof. Another version of the handshake has another label, so a proof of one is none of the other.
const LABEL: &[u8] = b"sluice node handshake 1";

/// The secret that all nodes of a cluster share. It is never printed. It must be long and random: whoever pretends to be a node and is
/// dialed gets a proof against which guesses can be tried.
#[derive(Clone)]
pub struct Secret(Box<[u8]>);

impl Secret {
    /// Returns `None` if `bytes` is empty: everybody can prove an empty secret.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        (!bytes.is_empty()).then(|| Self(bytes.into()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// How both sides know that the other one belongs to the cluster.
#[derive(Clone, Debug)]
pub enum Auth {
    /// Each side proves that it knows the secret. Without TLS, others can read and change the frames that follow the handshake.
    Secret(Secret),
    /// The caller has verified the certificates of a TLS connection, and says with [`Handshake::certified_for`] which nodes the peer may be.
    /// The key of the proofs is empty: they only say that a side has accepted the hello of the other one.
    Certificates,
}

impl Auth {
    fn way(&self) -> Way {
        match self {
            Self::Secret(_) => Way::Secret,
            Self::Certificates => Way::Certificates,
        }
    }

    /// Returns the key of the proofs.
    fn key(&self) -> &[u8] {
        match self {
            Self::Secret(secret) => &secret.0,
            Self::Certificates => &[],
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Dialer,
    Acceptor,
}

enum State {
    AwaitsHello,
    /// The peer has said who it is, and must prove it.
    AwaitsProof(Greeting),
    Ended,
}

/// One side of a handshake. The page of the crate shows the frames.
pub struct Handshake {
    side: Side,
    own: Greeting,
    auth: Auth,
    /// The names of nodes for which the certificate of the peer is valid. `None` without TLS.
    certified: Option<Vec<String>>,
    state: State,
    output: Vec<u8>,
}

impl Handshake {
    /// Begins a handshake on the side that dials. `nonce` must be random and used once.
    ///
    /// # Errors
    ///
    /// [`HandshakeError::LongName`].
    pub fn dial(own: Hello, auth: Auth, nonce: Nonce) -> Result<Self, HandshakeError> {
        let mut handshake = Self::new(Side::Dialer, own, auth, nonce)?;
        handshake.send(Frame::Hello(handshake.own.clone()));
        Ok(handshake)
    }

    /// Begins a handshake on the side that was dialed. `nonce` must be random and used once. The role in `own` does not count: the
    /// acceptor repeats the one of the dialer.
    ///
    /// # Errors
    ///
    /// [`HandshakeError::LongName`].
    pub fn accept(own: Hello, auth: Auth, nonce: Nonce) -> Result<Self, HandshakeError> {
        Self::new(Side::Acceptor, own, auth, nonce)
    }

    fn new(side: Side, own: Hello, auth: Auth, nonce: Nonce) -> Result<Self, HandshakeError> {
        if own.name.len() > NAME_MAX {
            return Err(HandshakeError::LongName(own.name.len()));
        }
        let own = Greeting { nonce, way: auth.way(), format_min: FORMAT_MIN, hello: own };
        Ok(Self { side, own, auth, certified: None, state: State::AwaitsHello, output: Vec::new() })
    }

    /// Refuses a peer with another name than these: those of the nodes for which its certificate is valid. So the certificate of a client, or of
    /// another node, is of no use to a peer.
    #[must_use]
    pub fn certified_for(mut self, names: Vec<String>) -> Self {
        self.certified = Some(names);
        self
    }

    /// Takes frames of the peer from the front of `buffer`. Returns the hello of the peer when the handshake is complete. What then
    /// remains in the buffer follows the handshake. Output must be sent after each call, also after an error: it may tell the
    /// peer why it is refused.
    ///
    /// # Errors
    ///
    /// The handshake has failed. Send the output, and close the connection.
    pub fn handle_bytes(&mut self, buffer: &mut BytesMut) -> Result<Option<Hello>, HandshakeError> {
        let result = self.handle_frames(buffer);
        if let Err(error) = &result {
            self.state = State::Ended;
            if let Some((reason, mut text)) = error.refusal() {
                text.truncate(text.floor_char_boundary(TEXT_MAX));
                self.send(Frame::Refused { reason, text });
            }
        }
        result
    }

    /// Appends what must be sent. Returns false if nothing was appended.
    pub fn poll_output(&mut self, into: &mut Vec<u8>) -> bool {
        into.extend_from_slice(&self.output);
        !std::mem::take(&mut self.output).is_empty()
    }

    fn send(&mut self, frame: Frame) {
        frame.encode(&mut self.output);
    }

    fn handle_frames(&mut self, buffer: &mut BytesMut) -> Result<Option<Hello>, HandshakeError> {
        if matches!(self.state, State::AwaitsHello) && begins_tls(buffer) {
            return Err(HandshakeError::PeerUsesTls);
        }
        while let Some(frame) = Frame::take_within(buffer, HANDSHAKE_FRAME_MAX)? {
            match (std::mem::replace(&mut self.state, State::Ended), frame) {
                (State::AwaitsHello, Frame::Hello(peer)) => self.handle_hello(peer)?,
                (State::AwaitsProof(peer), Frame::Proof(proof)) => {
                    return self.handle_proof(peer, &proof).map(Some);
                }
                // The side that has been told nothing yet cannot be refused.
                (State::AwaitsHello, frame @ Frame::Refused { .. }) if self.side == Side::Acceptor => {
                    return Err(HandshakeError::Unexpected(frame.name()));
                }
                (State::AwaitsHello | State::AwaitsProof(_), Frame::Refused { reason, text }) => {
                    return Err(HandshakeError::Refused { reason, text });
                }
                (_, frame) => return Err(HandshakeError::Unexpected(frame.name())),
            }
        }
        Ok(None)
    }

    fn handle_hello(&mut self, peer: Greeting) -> Result<(), HandshakeError> {
        if self.side == Side::Acceptor {
            self.own.hello.role = peer.hello.role;
            // Before any refusal, so that the dialer finds out by itself what does not fit.
            self.send(Frame::Hello(self.own.clone()));
        }
        let (own_format, own_min) = (self.own.hello.format, self.own.format_min);
        if peer.hello.format < own_min {
            return Err(HandshakeError::OlderFormat { peer: peer.hello.format, own_min });
        }
        if peer.format_min > own_format {
            return Err(HandshakeError::NewerFormat { peer_min: peer.format_min, own: own_format });
        }
        if peer.way != self.own.way {
            return Err(HandshakeError::OtherWay { own: self.own.way });
        }
        if self.side == Side::Dialer {
            let proof = self.mac(self.auth.key(), Side::Dialer, &peer).finalize().into_bytes();
            self.send(Frame::Proof(proof.into()));
        }
        self.state = State::AwaitsProof(peer);
        Ok(())
    }

    fn handle_proof(&mut self, peer: Greeting, proof: &[u8; 32]) -> Result<Hello, HandshakeError> {
        let prover = if self.side == Side::Dialer { Side::Acceptor } else { Side::Dialer };
        // Compares in constant time.
        let verified = self.mac(self.auth.key(), prover, &peer).verify_slice(proof);
        verified.map_err(|_| HandshakeError::WrongSecret)?;
        self.admit(&peer.hello)?;
        if self.side == Side::Acceptor {
            let proof = self.mac(self.auth.key(), Side::Acceptor, &peer).finalize().into_bytes();
            self.send(Frame::Proof(proof.into()));
        }
        Ok(peer.hello)
    }

    /// Decides about a peer that has proved that it belongs to the cluster.
    fn admit(&self, peer: &Hello) -> Result<(), HandshakeError> {
        let own = &self.own.hello;
        if let Some(names) = &self.certified
            && !names.contains(&peer.name)
        {
            return Err(HandshakeError::NotCertified { name: peer.name.clone(), names: names.clone() });
        }
        if peer.node == own.node {
            return Err(HandshakeError::OwnIdentity(own.node));
        }
        if peer.cluster != own.cluster && peer.cluster != ClusterId::NONE && own.cluster != ClusterId::NONE {
            return Err(HandshakeError::OtherCluster { own: own.cluster, peer: peer.cluster });
        }
        if peer.role != own.role {
            return Err(HandshakeError::OtherRole);
        }
        let dialer = if self.side == Side::Dialer { own } else { peer };
        if matches!(dialer.role, Role::Shard(_)) && dialer.cluster == ClusterId::NONE {
            return Err(HandshakeError::NoCluster { node: dialer.node, name: dialer.name.clone() });
        }
        Ok(())
    }

    /// The input of a proof is the label, who proves, and the two hellos as they were sent. So a proof is of no use to the other
    /// side, in another handshake, or after a change of any field.
    fn mac(&self, key: &[u8], prover: Side, peer: &Greeting) -> Hmac<Sha256> {
        let (dialer, acceptor) = match self.side {
            Side::Dialer => (&self.own, peer),
            Side::Acceptor => (peer, &self.own),
        };
        let mut input = LABEL.to_vec();
        input.push(if prover == Side::Dialer { 1 } else { 2 });
        Frame::Hello(dialer.clone()).encode(&mut input);
        Frame::Hello(acceptor.clone()).encode(&mut input);
        let mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
        mac.chain_update(input)
    }
}

/// Returns true if these bytes begin a record of TLS (RFC 8446, 5.1). A frame that begins like this would be longer than any of a handshake.
fn begins_tls(bytes: &[u8]) -> bool {
    matches!(bytes, [20..=24, 3, ..])
}

const _: () = assert!(HANDSHAKE_FRAME_MAX < 3 << 8, "a frame could begin like a record of TLS");

#[cfg(test)]
mod tests;
