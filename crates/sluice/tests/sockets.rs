//! What only a real socket shows.
#![forbid(unsafe_code)]

mod broker;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use amqp10::frame::SASL_HEADER;
use broker::{Broker, Directory};

/// More than the buffers of both sockets hold.
const SENT: usize = 8 << 20;

/// [2.2, 5.1] The broker shuts its side down and reads on: were its socket closed with bytes unread, the reset would
/// take the answer from a client that is still sending.
#[test]
fn a_client_that_is_still_sending_reads_why_it_is_refused() {
    let directory = Directory::new("sockets");
    let broker = Broker::start(&directory);
    let mut socket = TcpStream::connect(("127.0.0.1", broker.amqp_port)).unwrap();
    socket.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    socket.write_all(&vec![b'x'; SENT]).unwrap();
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, SASL_HEADER);
}
