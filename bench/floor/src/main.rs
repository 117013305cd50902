//! A stand-in for a broker that does only what every broker must do: it frames, appends and forwards.
//!
//! `floor PORT [FILE]` accepts AMQP 1.0 connections on the loopback address. It appends every message from
//! any link to FILE (if given) with one `write` per turn, and confirms it. It sends the messages to the
//! receiving link that attached last. Addresses do not matter. There is no routing, no queue, no check, no
//! section, no recovery, and no second thread. The cost of a broker with the same codec above this is the
//! cost of its features and its architecture.
#![forbid(unsafe_code)]

mod peer;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use bytes::{Bytes, BytesMut};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use peer::{Peer, Shared};

/// The most bytes that are read from one connection in one turn, as in the broker.
const READ_MAX: usize = 256 * 1024;

/// Identifies the listener in events.
const LISTENER: u64 = u64::MAX;

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = || io::Error::new(io::ErrorKind::InvalidInput, "usage: floor PORT [FILE]");
    let port: u16 = arguments.next().and_then(|p| p.parse().ok()).ok_or_else(usage)?;
    let mut file = arguments.next().map(File::create).transpose()?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut peers: Vec<Option<Connected>> = Vec::new();
    let mut shared = Shared::default();
    let mut queue = VecDeque::new();
    let mut buffer = vec![0; READ_MAX + peer::FRAME_MAX as usize];
    let mut events = Vec::with_capacity(64);
    loop {
        events.clear();
        match epoll::wait(&epoll, spare_capacity(&mut events), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            let number = event.data.u64();
            if number == LISTENER {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                epoll::add(&epoll, &stream, EventData::new_u64(peers.len() as u64), EventFlags::IN)?;
                peers.push(Some(Connected { stream, peer: Peer::new(peers.len()), blocked: false }));
                continue;
            }
            let place = &mut peers[number as usize];
            if place.as_mut().is_some_and(|c| !c.read(&mut buffer, &mut shared)) {
                *place = None;
            }
        }
        append(&mut shared, &mut queue, file.as_mut())?;
        for (number, place) in peers.iter_mut().enumerate() {
            let Some(connected) = place else { continue };
            connected.peer.confirm();
            if let Some((receiver, session, link)) = shared.receiver
                && receiver == number
            {
                connected.peer.forward(session, link, &mut queue);
            }
            match connected.write() {
                Ok(blocked) if blocked != connected.blocked => {
                    connected.blocked = blocked;
                    let out = if blocked { EventFlags::OUT } else { EventFlags::empty() };
                    let data = EventData::new_u64(number as u64);
                    epoll::modify(&epoll, &connected.stream, data, EventFlags::IN | out)?;
                }
                Ok(_) => {}
                Err(_) => *place = None,
            }
        }
    }
}

/// Makes the one write of a turn. The messages are adjacent in the buffer, and are forwarded from it.
fn append(shared: &mut Shared, queue: &mut VecDeque<Bytes>, file: Option<&mut File>) -> io::Result<()> {
    if shared.ends.is_empty() {
        return Ok(());
    }
    let home = shared.home.split().freeze();
    if let Some(file) = file {
        file.write_all(&home)?;
    }
    let mut from = 0;
    for to in shared.ends.drain(..) {
        queue.push_back(home.slice(from..to));
        from = to;
    }
    if shared.home.capacity() < READ_MAX {
        shared.home = BytesMut::with_capacity(4 * READ_MAX);
    }
    Ok(())
}

struct Connected {
    stream: TcpStream,
    peer: Peer,
    /// True if the socket is full.
    blocked: bool,
}

impl Connected {
    /// Reads once. Returns false at the end of the stream.
    fn read(&mut self, buffer: &mut [u8], shared: &mut Shared) -> bool {
        let kept = self.peer.put_partial(buffer);
        match self.stream.read(&mut buffer[kept..]) {
            Ok(0) => false,
            Ok(n) => self.peer.handle_input(&buffer[..kept + n], shared),
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        }
    }

    /// Writes as much as the socket accepts. Returns true if it is full.
    fn write(&mut self) -> io::Result<bool> {
        let output = self.peer.endpoint.output();
        while !output.is_empty() {
            let mut slices = [io::IoSlice::new(&[]); 64];
            let n = output.slices(&mut slices);
            match self.stream.write_vectored(&slices[..n]) {
                Ok(n) => output.advance(n),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}
