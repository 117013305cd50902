//! What waits to be written. A client that makes the broker write and does not read is not read any more.

use broker::settings::Settings;
use catalog::Arguments;

use super::client091::Client091;
use super::house::{House, OTHER};

const MIB: usize = 1 << 20;

/// The bytes of answers above which a client is not read.
const ANSWERS_MAX: usize = MIB;

const BUDGET: &str = "unread_output";

const LIMIT: u64 = 4 << 20;

/// The number of bytes after which a shard compares its use with the limit, and those of one turn of these tests.
const STEP_BYTES: u64 = 64 * 1024 + 200_000;

fn house() -> House {
    house_with(Settings::default())
}

/// A house with a budget of [`LIMIT`].
fn small_house() -> House {
    house_with(Settings { max_message_size: 1 << 20, unread_output_memory: LIMIT, ..Settings::default() })
}

fn house_with(settings: Settings) -> House {
    let mut h = House::new(1, settings);
    h.declare("q", Arguments::new());
    h
}

#[test]
fn a_client_that_does_not_read_its_returns_is_not_read() {
    let mut h = house();
    let mut client = Client091::open(&mut h, &[1]);
    client.deaf = true;
    let mut sent = 0;
    while client.is_read(&mut h) {
        client.publish_unroutable(&mut h, 1, 1000, 100);
        sent += 100;
        assert!(client.unread(&mut h) < ANSWERS_MAX + 200_000, "{} bytes are unread", client.unread(&mut h));
    }
    client.deaf = false;
    client.settle(&mut h);
    assert_eq!((client.returned, client.unread(&mut h)), (sent, 0));
    assert!(client.is_read(&mut h), "it has read");
}

#[test]
fn a_large_delivery_does_not_stop_the_requests_of_its_client() {
    let mut h = house();
    let mut client = Client091::open(&mut h, &[1]);
    client.publish_large(&mut h, 1, "q", 3 * MIB, 1);
    client.deaf = true;
    client.consume(&mut h, 1, "q");
    assert!(client.unread(&mut h) > 3 * MIB);
    assert!(client.is_read(&mut h), "a delivery is no answer");
    while client.is_read(&mut h) {
        client.publish_unroutable(&mut h, 1, 1000, 100);
    }
    let unread = client.unread(&mut h);
    assert!((4 * MIB..4 * MIB + 200_000).contains(&unread), "{unread} bytes are unread");
    // A large return is an answer.
    let mut other = Client091::open(&mut h, &[1]);
    other.deaf = true;
    other.publish_unroutable(&mut h, 1, 3 * MIB, 1);
    assert!(!other.is_read(&mut h));
}

#[test]
fn messages_that_a_client_gets_and_does_not_read_stay_in_the_queue() {
    let mut h = house();
    let mut client = Client091::open(&mut h, &[1]);
    client.publish_large(&mut h, 1, "q", 100_000, 40);
    assert_eq!(h.messages("q"), 40);
    client.deaf = true;
    client.get(&mut h, 1, "q", 40);
    assert!(client.unread(&mut h) < ANSWERS_MAX + 200_000, "{} bytes are unread", client.unread(&mut h));
    assert!((28..=30).contains(&h.messages("q")), "{} messages are left", h.messages("q"));
    client.deaf = false;
    client.settle(&mut h);
    assert_eq!((client.got, h.messages("q")), (40, 0));
}

/// All of a payload stays in memory until its last byte is written. It counts once, wherever its parts are.
#[test]
fn a_large_message_that_was_written_in_part_counts_as_a_whole() {
    let mut h = house();
    let mut client = Client091::open(&mut h, &[1]);
    client.deaf = true;
    client.publish_unroutable(&mut h, 1, 3 * MIB, 1);
    client.read(&mut h, 5 * MIB / 2);
    assert!(client.is_read(&mut h), "little is left");
    client.publish_unroutable(&mut h, 1, 3 * MIB, 1);
    let used = h.budget(BUDGET).0 as usize;
    assert!((6 * MIB..6 * MIB + 1000).contains(&used), "two messages: {used}");
    client.deaf = false;
    client.settle(&mut h);
    assert_eq!((client.returned, h.budget(BUDGET).0), (2, 0));

    // Some of it waits in the session, which counts all of it, too.
    let (publisher, consumer) = (h.connect(0), h.connect(0));
    let out = h.sender(publisher, "/queues/q");
    h.send(publisher, out, &[0; 3 * MIB]);
    let link = h.receiver(consumer, "/queues/q");
    h.peers[consumer].deaf = true;
    h.grant(consumer, link, 1);
    let used = h.budget(BUDGET).0 as usize;
    assert!((3 * MIB..3 * MIB + 100_000).contains(&used), "one message: {used}");
    h.peers[consumer].deaf = false;
    h.settle();
    assert_eq!((h.peers[consumer].got.len(), h.budget(BUDGET).0), (1, 0));
}

/// What the client has read of a message frees nothing until it has read the rest.
#[test]
fn clients_that_do_not_read_the_ends_of_large_answers_are_closed() {
    let mut h = small_house();
    let mut flood = Vec::new();
    for _ in 0..10 {
        let mut client = Client091::open(&mut h, &[1]);
        (client.deaf, client.doomed) = (true, true);
        client.publish_unroutable(&mut h, 1, 1_000_000, 1);
        // The last one may be closed at once.
        if client.unread(&mut h) > 990_000 {
            client.read(&mut h, 990_000);
        }
        flood.push(client);
        let (used, limit) = h.budget(BUDGET);
        assert!(used <= limit + STEP_BYTES, "{used} bytes are in use");
    }
    flood.iter_mut().for_each(|client| client.deaf = false);
    flood.iter_mut().for_each(|client| client.settle(&mut h));
    let closed = flood.iter().filter(|client| client.closed.is_some()).count();
    assert_eq!((closed, h.budget(BUDGET).0), (10 - 4, 0));
}

/// Makes a client that leaves some 900 KB of returned messages unread.
fn flooder(h: &mut House) -> Client091 {
    let mut client = Client091::open(h, &[1]);
    (client.deaf, client.doomed) = (true, true);
    (0..8).for_each(|_| client.publish_unroutable(h, 1, 1000, 100));
    client
}

#[test]
fn what_clients_do_not_read_is_bounded_over_the_node() {
    let mut h = small_house();
    let publisher = h.connect(0);
    let out = h.sender(publisher, "/queues/q");
    (0..8).for_each(|_| h.send(publisher, out, &[0; 200_000]));
    // Another user's consumer, which waits for its socket.
    let consumer = h.connect_as(0, Some(OTHER));
    h.peers[consumer].doomed = true;
    let link = h.receiver(consumer, "/queues/q");
    h.peers[consumer].deaf = true;
    h.grant(consumer, link, 8);
    let (used, limit) = h.budget(BUDGET);
    assert_eq!(limit, LIMIT);
    assert!((1_600_000..1_800_000).contains(&used), "output and what waits in the session: {used}");

    let mut flood: Vec<Client091> = Vec::new();
    for _ in 0..10 {
        flood.push(flooder(&mut h));
        let (used, limit) = h.budget(BUDGET);
        // Messages that a consumer has not read close nobody.
        assert!(used <= limit + 1_800_000 + STEP_BYTES, "{used} bytes are unread");
    }
    h.peers[consumer].deaf = false;
    h.settle();
    assert_eq!(
        (h.peers[consumer].closed.clone(), h.peers[consumer].got.len()),
        (None, 8),
        "it is not the largest user's"
    );
    let mut closed = 0;
    for client in &mut flood {
        client.deaf = false;
        client.settle(&mut h);
        match &client.closed {
            None => assert_eq!(client.returned, 800),
            Some((code, why)) => {
                closed += 1;
                assert_eq!(*code, 506);
                assert!(why.contains("unread_output_memory"), "{why}");
            }
        }
    }
    assert!((6..=8).contains(&closed), "{closed} are closed");
    assert_eq!(h.budget(BUDGET).0, 0);
}

#[test]
fn a_client_that_is_closed_for_what_it_does_not_read_is_told_why_behind_the_frame_that_has_begun() {
    for read in [1, 7, 8, 100, 1000, 1100, 50_000] {
        let mut h = small_house();
        let mut flood = vec![flooder(&mut h)];
        flood[0].read(&mut h, read);
        // It has more than the others.
        flood[0].publish_unroutable(&mut h, 1, 1000, 100);
        (0..4).for_each(|_| flood.push(flooder(&mut h)));
        let client = &mut flood[0];
        assert!(client.unread(&mut h) < 2000, "{} bytes are left", client.unread(&mut h));
        client.deaf = false;
        client.settle(&mut h);
        assert_eq!(client.closed.as_ref().map(|(code, _)| *code), Some(506), "{read} bytes were read");
    }
}

/// A queue is asked for messages when their consumer has room, before their size is known. And a message that is sent to many
/// consumers is in memory once.
#[test]
fn consumers_are_not_closed_for_messages_that_they_have_not_read_yet() {
    let mut h = small_house();
    let consumers: Vec<usize> = (0..10).map(|_| h.connect(0)).collect();
    for (number, consumer) in consumers.iter().enumerate() {
        let queue = format!("q{number}");
        h.declare(&queue, Arguments::new());
        h.bind("amq.fanout", &queue, "");
        let link = h.receiver(*consumer, &format!("/queues/{queue}"));
        h.peers[*consumer].deaf = true;
        h.grant(*consumer, link, 100);
    }
    let publisher = h.connect(0);
    let out = h.sender(publisher, "/exchanges/amq.fanout");
    (0..3).for_each(|_| h.send(publisher, out, &[0; 1_000_000]));
    assert!(h.budget(BUDGET).0 > 2 * LIMIT, "{}", h.budget(BUDGET).0);
    for consumer in consumers {
        h.peers[consumer].deaf = false;
        h.settle();
        assert_eq!((h.peers[consumer].closed.clone(), h.peers[consumer].got.len()), (None, 3));
    }
    assert_eq!(h.budget(BUDGET).0, 0);
}

/// What a client sends while it has answers to read is not read. It is not silent.
#[test]
fn a_client_that_reads_a_large_answer_slowly_is_not_closed_for_its_silence() {
    let mut h = house_with(Settings { heartbeat_s: 10, ..Settings::default() });
    let mut client = Client091::open_with_heartbeat(&mut h, 10);
    client.open_channel(&mut h, 1);
    client.deaf = true;
    client.publish_unroutable(&mut h, 1, 4 * MIB, 1);
    assert!(!client.is_read(&mut h));
    for _ in 0..10 {
        h.now_ms += 9_000;
        client.read(&mut h, 100_000);
        assert!(client.is_open(&mut h), "it reads");
    }
    h.now_ms += 21_000;
    h.settle();
    assert!(!client.is_open(&mut h), "it has stopped reading");
}

#[test]
fn a_closed_connection_with_unread_output_is_cut() {
    let mut h = small_house();
    let mut closed = flooder(&mut h);
    closed.publish_unroutable(&mut h, 1, 1000, 100);
    closed.close_as_operator(&mut h);
    assert!(closed.unread(&mut h) > 800_000 && !closed.is_cut(&mut h), "it may still read");
    let flood: Vec<Client091> = (0..4).map(|_| flooder(&mut h)).collect();
    assert!(closed.is_cut(&mut h));
    assert!(flood.iter().all(|client| !client.is_cut(&mut h)));
}

/// Whatever a connection is closed for, what it has not read would stay until its socket is closed, and close nobody.
#[test]
fn what_a_client_has_not_read_is_freed_when_it_is_closed_for_other_memory() {
    for large in [false, true] {
        let mut h = house_with(Settings {
            max_message_size: 1 << 20,
            unfinished_memory: LIMIT,
            ..Settings::default()
        });
        let mut flood: Vec<Client091> = (0..10)
            .map(|_| {
                let mut client = Client091::open(&mut h, &[1]);
                (client.deaf, client.doomed) = (true, true);
                match large {
                    true => client.publish_unroutable(&mut h, 1, 900_000, 1),
                    false => client.publish_unroutable(&mut h, 1, 1000, 10),
                }
                client.begin_large(&mut h, 1, "q", 900_000);
                client
            })
            .collect();
        let open = flood.iter().filter(|client| client.is_open(&mut h)).count();
        assert!((4..=5).contains(&open), "{open} are open");
        let used = h.budget(BUDGET).0 as usize;
        let returned = if large { 900_000 } else { 10_000 };
        assert!(
            (open * returned..open * returned + 10 * 128 * 1024).contains(&used),
            "{used} bytes are unread"
        );
        for client in &mut flood {
            client.deaf = false;
            client.settle(&mut h);
        }
        // Little that waited is sent ahead of the reason.
        let kept = if large { open } else { 10 * 10 };
        assert_eq!(flood.iter().map(|client| client.returned as usize).sum::<usize>(), kept);
        let told = flood.iter().filter(|client| matches!(client.closed, Some((506, _)))).count();
        assert_eq!(told, 10 - open, "all are told why");
    }
}

/// Consumers that fall behind do not use up the budget: in a crowd, each gets messages only while it reads.
#[test]
fn many_consumers_that_do_not_read_are_not_closed() {
    let mut h = small_house();
    let mut publisher = Client091::open(&mut h, &[1]);
    publisher.publish_large(&mut h, 1, "q", 1000, 8_000);
    let mut consumers: Vec<Client091> = (0..40).map(|_| Client091::open(&mut h, &[1])).collect();
    for consumer in &mut consumers {
        consumer.deaf = true;
        consumer.consume(&mut h, 1, "q");
    }
    // Those of AMQP 1.0 wait in the same way.
    let peers: Vec<usize> = (0..10).map(|_| h.connect(0)).collect();
    for peer in &peers {
        let link = h.receiver(*peer, "/queues/q");
        h.peers[*peer].deaf = true;
        h.grant(*peer, link, 100_000);
    }
    let (used, limit) = h.budget(BUDGET);
    assert!((limit / 2..limit).contains(&used), "{used} bytes are unread");
    peers.iter().for_each(|peer| h.peers[*peer].deaf = false);
    h.settle();
    for consumer in &mut consumers {
        consumer.deaf = false;
        consumer.settle(&mut h);
    }
    let got = consumers.iter().map(|consumer| consumer.deliveries() as usize).sum::<usize>();
    assert_eq!(got + peers.iter().map(|peer| h.peers[*peer].got.len()).sum::<usize>(), 8_000, "all goes on");
}

#[test]
fn a_consumer_of_large_messages_that_does_not_read_is_not_sent_many() {
    let mut h = house();
    let mut client = Client091::open(&mut h, &[1]);
    client.publish_large(&mut h, 1, "q", 100_000, 60);
    client.deaf = true;
    client.consume(&mut h, 1, "q");
    let unread = client.unread(&mut h);
    assert!((MIB..2 * MIB).contains(&unread), "{unread} bytes are unread");
    client.deaf = false;
    client.settle(&mut h);
    assert_eq!(client.deliveries(), 60);
}
