//! Many sessions that end at the same time without an orderly close.

use amqp10::frame::{AMQP_HEADER, SASL_HEADER};
use amqp10::{
    Attach, Begin, Flow, Open, Role, SaslFrame, SaslInit, Source, Symbol, Target, TargetArchetype,
    TransferHead, put_frame, put_sasl_frame, put_transfer_frame,
};
use broker::settings::Settings;
use bytes::BytesMut;

use crate::flow::world::{Socket, World};

const CONNECTIONS: usize = 400;
const SESSIONS: u16 = 250;
const ALL: u64 = CONNECTIONS as u64 * SESSIONS as u64;
/// The number of messages that are with consumers when the connections are lost.
const HELD: u64 = 1_000;

/// The most turns of both shards for the end of all sessions. The ends are work of the turns in which the connections end, and
/// of those that handle the mail of these turns, whatever their number.
const TURNS_MAX: u64 = 10;

/// Returns everything that the shards count about clients.
fn counts(world: &World) -> [u64; 4] {
    let mut sums = [0; 4];
    for shard in &world.shards {
        let totals = shard.totals();
        let counters = &totals.counters;
        let traffic = counters.traffic();
        let of_shard =
            [counters.connections, totals.sessions + totals.channels, traffic.consumers, traffic.publishers];
        sums.iter_mut().zip(of_shard).for_each(|(sum, n)| *sum += n);
    }
    sums
}

fn say(world: &mut World, at: Socket, out: &mut BytesMut) {
    world.input(at, &out.split());
    world.settle();
    while world.output(at, usize::MAX, &mut Vec::new()) > 0 {
        world.settle();
    }
}

/// Connects a client, logs in and opens the connection.
fn open(world: &mut World, shard: usize) -> Socket {
    let (at, mut out) = (world.connect(shard), BytesMut::new());
    out.extend_from_slice(&SASL_HEADER);
    put_sasl_frame(&mut out, &SaslFrame::Init(SaslInit::new(Symbol::from_static("ANONYMOUS"))));
    out.extend_from_slice(&AMQP_HEADER);
    put_frame(&mut out, 0, &Open::new("reset"));
    say(world, at, &mut out);
    at
}

#[test]
fn a_hundred_thousand_sessions_reset_at_once_are_gone() {
    let sessions = Settings { heartbeat_s: 0, session_max_per_connection: SESSIONS, ..Settings::default() };
    let mut world = World::new(2, sessions);
    world.declare("q", &[]);
    world.place("q", 0);
    let before = counts(&world);
    let sockets: Vec<Socket> = (0..CONNECTIONS).map(|n| open(&mut world, n % 2)).collect();
    let mut out = BytesMut::new();
    for at in &sockets {
        for channel in 0..SESSIONS {
            put_frame(&mut out, channel, &Begin::new(0, 100, 100));
            let mut attach = Attach::new("l", 0, Role::Receiver);
            attach.source = Some(Source { address: Some("/queues/q".to_owned()), ..Source::default() });
            attach.target = Some(TargetArchetype::Target(Target::default()));
            put_frame(&mut out, channel, &attach);
            let mut flow = Flow::new(100, 0, 100);
            (flow.handle, flow.link_credit) = (Some(0), Some(1));
            put_frame(&mut out, channel, &flow);
        }
        say(&mut world, *at, &mut out);
    }
    let publisher = open(&mut world, 0);
    put_frame(&mut out, 0, &Begin::new(0, 100, 100));
    let mut attach = Attach::new("p", 0, Role::Sender);
    attach.source = Some(Source::default());
    attach.target =
        Some(TargetArchetype::Target(Target { address: Some("/queues/q".to_owned()), ..Target::default() }));
    attach.initial_delivery_count = Some(0);
    put_frame(&mut out, 0, &attach);
    say(&mut world, publisher, &mut out);
    for id in 0..HELD as u32 {
        let message = b"\x00\x53\x75\xa0\x01x";
        let head = TransferHead {
            handle: 0,
            delivery_id: Some(id),
            delivery_tag: Some(&[1]),
            message_format: Some(0),
            settled: Some(true),
            more: false,
            aborted: false,
        };
        put_transfer_frame(&mut out, 0, &head, message.len());
        out.extend_from_slice(message);
        if id % 100 == 99 {
            say(&mut world, publisher, &mut out);
            world.now_ms += 20;
            say(&mut world, publisher, &mut out);
        }
    }
    for at in &sockets {
        say(&mut world, *at, &mut out);
    }
    assert_eq!(counts(&world), [CONNECTIONS as u64 + 1, ALL + 1, ALL, 1]);
    let report = world.report("q").expect("it lives");
    assert_eq!((u64::from(report.consumers), report.unsettled, report.ready), (ALL, HELD, 0));

    let turns = world.turns;
    for Socket { shard, key } in &sockets {
        world.shards[*shard].disconnect(*key);
    }
    world.settle();
    let turns = world.turns - turns;
    assert!(turns <= TURNS_MAX, "{turns} turns of two shards");
    assert_eq!(counts(&world), [1, 1, 0, 1]);
    assert!(sockets.iter().all(|at| world.shards[at.shard].conn(at.key).is_none()));
    let report = world.report("q").expect("it lives");
    assert_eq!((report.consumers, report.unsettled, report.ready), (0, 0, HELD));
    world.shards[publisher.shard].disconnect(publisher.key);
    world.settle();
    assert_eq!(counts(&world), before);
}
