//! Simulates a client endpoint and a server endpoint in memory, from a seed. Both open, send and close at random. The bytes
//! between them arrive in pieces of any size.

use std::collections::VecDeque;

use crate::wire::{CONFIG, Socket, shake_hands, written};
use amqp091::{
    BasicAck, BasicDeliver, BasicGetOk, BasicNack, BasicPublish, BasicReturn, Config, Connection, Event,
    Fault, Method, ReplyCode, State,
};
use bytes::Bytes;
use random::Random;

#[test]
fn wire_serves_both_roles() {
    let mut seen = Seen::default();
    for seed in 1..=SEEDS {
        World::new(seed).run(1500, &mut seen);
    }
    // A test in which nothing happens would pass, too.
    let Seen { contents, assembled, methods, closed, crossed, dropped } = seen;
    assert!(contents > 50 * SEEDS && assembled > 10 * SEEDS && methods > 20 * SEEDS, "{seen:?}");
    assert!(closed > 5 * SEEDS && crossed > SEEDS / 10 && dropped > SEEDS, "{seen:?}");
}

const SEEDS: u64 = 100;

/// The highest channel that is opened. A few suffice, so that numbers are used again.
const CHANNELS: u16 = 4;

const CLIENT: usize = 0;
const SERVER: usize = 1;

/// What happened in all runs.
#[derive(Debug, Default)]
struct Seen {
    contents: u64,
    /// Contents that did not lie together in one read.
    assembled: u64,
    methods: u64,
    /// Channels that one side has closed.
    closed: u64,
    /// Channels that both sides have closed at the same time.
    crossed: u64,
    /// What was sent to a side that had closed the channel.
    dropped: u64,
}

/// What one side has sent on a channel.
#[derive(Clone, Debug, PartialEq)]
enum Item {
    Content { method: String, properties: Vec<u8>, payload: Bytes },
    Method(String),
}

#[derive(Default)]
struct Channel {
    /// What is on its way to each side.
    expected: [VecDeque<Item>; 2],
    /// The side has closed the channel, and the other has not answered.
    closing: [bool; 2],
}

struct World {
    random: Random,
    seed: u64,
    ends: [Connection; 2],
    sockets: [Socket; 2],
    /// The bytes on their way to each side.
    wires: [VecDeque<u8>; 2],
    channels: [Channel; CHANNELS as usize + 1],
    /// The next number of a message.
    number: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let mut config = || Config { frame_max: random.pick(&[4096, 5000, 131_072, 0]).unwrap(), ..CONFIG };
        let ends = [Connection::client(config(), 0), Connection::server(config(), 0)];
        let (sockets, wires) = (Default::default(), Default::default());
        Self { random, seed, ends, sockets, wires, channels: Default::default(), number: 0 }
    }

    fn run(mut self, steps: u32, seen: &mut Seen) {
        for _ in 0..steps {
            let side = self.random.below(2) as usize;
            if self.ends[side].state() == State::Opened {
                self.act(side);
            }
            let to = self.random.below(2) as usize;
            let most = self.random.pick(&[5, 100, 10_000]).unwrap();
            let n = 1 + self.random.below(most) as usize;
            self.carry(to, n, seen);
        }
        while self.carry(CLIENT, usize::MAX, seen) | self.carry(SERVER, usize::MAX, seen) {}
        for channel in &self.channels {
            assert!(channel.expected.iter().all(VecDeque::is_empty), "seed {}", self.seed);
        }
        let closer = self.random.below(2) as usize;
        self.ends[closer].close("done");
        while self.carry(CLIENT, usize::MAX, seen) | self.carry(SERVER, usize::MAX, seen) {}
        for (end, socket) in self.ends.iter().zip(&self.sockets) {
            assert_eq!((end.state(), end.incomplete_bytes()), (State::Closed, 0), "seed {}", self.seed);
            assert!(socket.is_empty());
        }
    }

    fn act(&mut self, side: usize) {
        let number = 1 + self.random.below(u64::from(CHANNELS)) as u16;
        let open = self.ends[side].channel_is_open(number);
        match self.random.below(100) {
            0..10 if side == CLIENT => {
                self.ends[side].open_channel(number);
            }
            10..12 if open => {
                if self.random.below(2) == 0 {
                    self.ends[side].close_channel(number, "bye");
                } else {
                    let text = "no queue 'q'".into();
                    let fault = Fault {
                        channel: Some(number),
                        code: ReplyCode::NotFound,
                        text,
                        class_id: 60,
                        method_id: 40,
                    };
                    self.ends[side].fail(&fault);
                }
                self.channels[usize::from(number)].closing[side] = true;
            }
            12..40 if open => {
                let (delivery_tag, multiple) = (self.random.below(u64::MAX), self.random.below(2) == 1);
                let method = match self.random.below(2) {
                    0 => Method::from(BasicAck { delivery_tag, multiple }),
                    _ => BasicNack { delivery_tag, multiple, requeue: true }.into(),
                };
                self.ends[side].send(number, &method);
                self.expect(side, number, Item::Method(format!("{method:?}")));
            }
            40..100 if open => self.send_content(side, number),
            _ => {}
        }
    }

    fn send_content(&mut self, side: usize, channel: u16) {
        self.number += 1;
        let key = format!("key.{}", self.number);
        let redelivered = self.number % 2 == 1;
        let deliver = BasicDeliver {
            consumer_tag: "ctag",
            delivery_tag: self.number,
            redelivered,
            exchange: "",
            routing_key: &key,
        };
        let method = match (side, self.random.below(4)) {
            (CLIENT, n) => {
                let (mandatory, immediate) = (n == 0, n == 1);
                BasicPublish { exchange: "amq.topic", routing_key: &key, mandatory, immediate }.into()
            }
            (_, 0) => BasicReturn { reply_code: 312, routing_key: &key, ..Default::default() }.into(),
            (_, 1) => {
                BasicGetOk { delivery_tag: self.number, routing_key: &key, ..Default::default() }.into()
            }
            _ => Method::from(deliver),
        };
        let size = match self.random.below(20) {
            0 => self.random.below(20_000),
            1..4 => self.random.below(5000),
            4..6 => 0,
            _ => self.random.below(100),
        };
        let stamp = self.number as u8;
        let whole: Bytes = (0..size + 3).map(|i| i as u8 ^ stamp).collect();
        let properties = &[0x90, 0x00, stamp, 7, 2][..self.random.pick(&[2, 5]).unwrap()];
        let end = &mut self.ends[side];
        match method {
            Method::BasicDeliver(ref deliver) => end.send_deliver(channel, deliver, properties, &whole, 3),
            ref method => end.send_content(channel, method, properties, &whole, 3),
        }
        let (method, properties, payload) = (format!("{method:?}"), properties.to_vec(), whole.slice(3..));
        self.expect(side, channel, Item::Content { method, properties, payload });
    }

    fn expect(&mut self, side: usize, channel: u16, item: Item) {
        self.channels[usize::from(channel)].expected[1 - side].push_back(item);
    }

    /// Delivers up to `n` bytes to a side. Returns whether there were any.
    fn carry(&mut self, to: usize, n: usize, seen: &mut Seen) -> bool {
        let bytes = written(&mut self.ends[1 - to]);
        self.wires[to].extend(bytes);
        let n = n.min(self.wires[to].len());
        let piece: Vec<u8> = self.wires[to].drain(..n).collect();
        let (channels, seed) = (&mut self.channels, self.seed);
        self.sockets[to].read(&mut self.ends[to], &piece, &mut |end, event| {
            let event = event.unwrap_or_else(|fault| panic!("seed {seed}: {fault:?}"));
            shake_hands(end, &event, to == SERVER);
            let got = match event {
                Event::Content { channel, content } => {
                    seen.contents += 1;
                    seen.assembled += u64::from(content.assembled().is_some());
                    let method = match to {
                        SERVER => content.publish().map(Method::from),
                        _ => (content.deliver().map(Method::from))
                            .or(content.get_ok().map(Method::from))
                            .or(content.returned().map(Method::from)),
                    };
                    let (properties, payload) = (content.properties.to_vec(), content.payload.to_vec());
                    let method = format!("{:?}", method.expect("a method with content"));
                    Some((channel, Item::Content { method, properties, payload: payload.into() }))
                }
                Event::Method { channel, method } => {
                    seen.methods += 1;
                    Some((channel, Item::Method(format!("{method:?}"))))
                }
                Event::ChannelClose { channel, code, text, .. } => {
                    assert!(
                        (code, text) == (200, "bye") || (code, text) == (404, "NOT_FOUND - no queue 'q'")
                    );
                    let at = &channels[usize::from(channel)];
                    assert!(at.expected[to].is_empty(), "seed {seed}: all that was sent before has arrived");
                    end.channel_close_ok(channel);
                    seen.closed += 1;
                    None
                }
                Event::ChannelClosed(channel) => {
                    let at = &mut channels[usize::from(channel)];
                    assert!(at.closing[to]);
                    at.closing[to] = false;
                    seen.crossed += u64::from(at.closing[1 - to]);
                    seen.dropped += at.expected[to].len() as u64;
                    at.expected[to].clear();
                    None
                }
                Event::Close { code: 200, text: "done", .. } => {
                    end.close_ok();
                    None
                }
                Event::Close { .. } => panic!("seed {seed}: {event:?}"),
                _ => None,
            };
            if let Some((channel, item)) = got {
                let at = &mut channels[usize::from(channel)];
                assert_eq!(at.expected[to].pop_front(), Some(item), "seed {seed}: channel {channel}");
                assert!(!at.closing[to], "seed {seed}: an event of a channel that was closed");
            }
        });
        n > 0
    }
}
