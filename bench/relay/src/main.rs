//! A single-threaded TCP relay: `relay PORT TO_PORT`, both on the loopback address.
//!
//! Each connection to PORT gets one to TO_PORT. Bytes are copied in both directions, through one buffer of
//! 256 KiB each. For large messages, the cost of a broker above this is the cost of everything but moving
//! bytes.
#![forbid(unsafe_code)]

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

/// The most bytes of one read.
const BUFFER: usize = 256 * 1024;

/// Identifies the listener in events. A connection is identified by its pair's number times two, plus its
/// side.
const LISTENER: u64 = u64::MAX;

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1).map_while(|p| p.parse::<u16>().ok());
    let (Some(port), Some(to)) = (arguments.next(), arguments.next()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "usage: relay PORT TO_PORT"));
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut pairs: Vec<Option<Pair>> = Vec::new();
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
                let pair = Pair::new(listener.accept()?.0, TcpStream::connect((Ipv4Addr::LOCALHOST, to))?)?;
                for (side, end) in pair.ends.iter().enumerate() {
                    let data = EventData::new_u64(pairs.len() as u64 * 2 + side as u64);
                    epoll::add(&epoll, &end.stream, data, EventFlags::IN)?;
                }
                pairs.push(Some(pair));
                continue;
            }
            let (flags, side) = (event.flags, (number % 2) as usize);
            let place = &mut pairs[(number / 2) as usize];
            let Some(pair) = place else { continue };
            if pair.relay(side, flags).is_err() || pair.ends.iter().all(|end| end.ended && end.is_empty()) {
                *place = None;
                continue;
            }
            for side in 0..2 {
                let wanted = pair.wanted(side);
                let end = &mut pair.ends[side];
                if wanted != end.wanted {
                    end.wanted = wanted;
                    let data = EventData::new_u64(number / 2 * 2 + side as u64);
                    epoll::modify(&epoll, &end.stream, data, wanted)?;
                }
            }
        }
    }
}

/// Two connections that are relayed to each other.
struct Pair {
    ends: [End; 2],
}

/// One connection, and the bytes read from it that were not yet written to the other.
struct End {
    stream: TcpStream,
    buffer: Vec<u8>,
    from: usize,
    to: usize,
    /// True if the connection has reached its end.
    ended: bool,
    /// The events that epoll waits for on this connection.
    wanted: EventFlags,
}

impl Pair {
    fn new(a: TcpStream, b: TcpStream) -> io::Result<Self> {
        let end = |stream: TcpStream| {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            Ok::<_, io::Error>(End {
                stream,
                buffer: vec![0; BUFFER],
                from: 0,
                to: 0,
                ended: false,
                wanted: EventFlags::IN,
            })
        };
        Ok(Self { ends: [end(a)?, end(b)?] })
    }

    /// Relays as much as possible now that this side is ready.
    fn relay(&mut self, side: usize, flags: EventFlags) -> io::Result<()> {
        let [a, b] = &mut self.ends;
        let (ready, other) = if side == 0 { (a, b) } else { (b, a) };
        if flags.contains(EventFlags::OUT) {
            other.relay_to(&mut ready.stream)?;
        }
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            ready.relay_to(&mut other.stream)?;
        }
        Ok(())
    }

    /// Returns the events to wait for: reading while the buffer is empty, and writing what was read from the
    /// other side.
    fn wanted(&self, side: usize) -> EventFlags {
        let (own, other) = (&self.ends[side], &self.ends[1 - side]);
        let reads = own.is_empty() && !own.ended;
        let mut wanted = EventFlags::empty();
        wanted.set(EventFlags::IN, reads);
        wanted.set(EventFlags::OUT, !other.is_empty());
        wanted
    }
}

impl End {
    fn is_empty(&self) -> bool {
        self.from == self.to
    }

    /// Reads once if the buffer is empty. Then writes until the buffer is empty or the other connection takes no more.
    fn relay_to(&mut self, other: &mut TcpStream) -> io::Result<()> {
        if self.is_empty() && !self.ended {
            match self.stream.read(&mut self.buffer) {
                Ok(0) => {
                    self.ended = true;
                    return other.shutdown(std::net::Shutdown::Write);
                }
                Ok(n) => (self.from, self.to) = (0, n),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        while !self.is_empty() {
            match other.write(&self.buffer[self.from..self.to]) {
                Ok(n) => self.from += n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
