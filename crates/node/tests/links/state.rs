//! What is kept for a client as long as it wants it: names, properties, links and consumers.

use amqp10::link::NAME_MAX;
use amqp10::{Attach, Map, Role, Source, Symbol, Target, TargetArchetype};
use broker::settings::{CHANNEL_BYTES, LINK_BYTES, Settings};
use catalog::Arguments;

use super::client091::Client091;
use super::house::{GUEST, House, OTHER};

const BUDGET: &str = "client_state";

/// What a connection may keep, in bytes.
const STATE_MAX: u64 = 4 << 20;

/// The number of properties that take 4 KiB, as much as an ordinary client keeps.
const ORDINARY: usize = 35;

/// What a link or a consumer takes itself.
const LINK: u64 = LINK_BYTES as u64;

/// More bytes than an ATTACH of these tests has besides its name, or besides its property.
const REST: u64 = 200;

/// Attaches a link of this name on a session.
fn attach(h: &mut House, peer: usize, session: u16, name: String) {
    attach_to(h, peer, session, name, "/queues/q".into(), None);
}

fn attach_to(
    h: &mut House,
    peer: usize,
    session: u16,
    name: String,
    address: String,
    properties: Option<Map>,
) {
    let target = Target { address: Some(address), ..Target::default() };
    let attach = Attach {
        source: Some(Source::default()),
        target: Some(TargetArchetype::Target(target)),
        initial_delivery_count: Some(0),
        properties,
        ..Attach::new(name, 0, Role::Sender)
    };
    h.peers[peer].conn.attach(session, None, attach).expect("a free handle");
}

fn property(bytes: usize) -> Map {
    let mut properties = Map::new();
    properties.insert(Symbol::from_static("k"), "v".repeat(bytes).as_str());
    properties
}

fn name(number: usize, bytes: usize) -> String {
    let number = number.to_string();
    number.clone() + &"n".repeat(bytes - number.len())
}

/// Returns a house with the smallest budget.
fn house() -> House {
    house_with(1)
}

fn house_with(client_state_memory: u64) -> House {
    let mut h = House::new(2, Settings { client_state_memory, max_link_credit: 1, ..Settings::default() });
    h.declare("q", Arguments::new());
    h
}

#[test]
fn a_name_that_is_too_long_is_refused_and_not_kept() {
    let mut h = house();
    let peer = h.connect(0);
    let before = h.budget(BUDGET).0;
    attach(&mut h, peer, 0, name(0, NAME_MAX));
    h.settle();
    let kept = h.budget(BUDGET).0 - before;
    assert_eq!(h.peers[peer].detached.clone(), Vec::<String>::new());
    assert!((NAME_MAX as u64..NAME_MAX as u64 + REST).contains(&(kept - LINK)), "{kept} bytes");
    h.peers[peer].deaf = true;
    (0..3).for_each(|number| attach(&mut h, peer, 0, name(number, 100_000)));
    h.settle();
    let all = h.budget(BUDGET).0 - before;
    assert_eq!(all, kept + 3 * LINK, "no name, although the client has not answered");
    h.peers[peer].deaf = false;
    h.settle();
    assert_eq!(h.peers[peer].detached, ["amqp:invalid-field"; 3]);
    (0..4).for_each(|link| h.peers[peer].conn.detach(0, link, None));
    h.settle();
    assert_eq!(h.budget(BUDGET).0, before);
}

#[test]
fn channels_count() {
    let mut h = house_with(64 << 20);
    let mut client = Client091::open(&mut h, &[1]);
    let before = h.budget(BUDGET).0;
    (2..=200).for_each(|channel| client.open_channel(&mut h, channel));
    assert_eq!(h.budget(BUDGET).0, before + 199 * CHANNEL_BYTES as u64);
    (2..=200).for_each(|channel| client.close_channel(&mut h, channel));
    assert_eq!(h.budget(BUDGET).0, before);
    let peer = h.connect(0);
    let before = h.budget(BUDGET).0;
    for _ in 0..9 {
        h.peers[peer].conn.begin(None, true);
    }
    h.settle();
    assert_eq!(h.budget(BUDGET).0, before + 9 * CHANNEL_BYTES as u64);
}

#[test]
fn a_container_with_a_name_that_is_too_long_is_closed() {
    let mut h = house();
    h.container = "c".repeat(NAME_MAX);
    let peer = h.connect(0);
    assert_eq!((h.peers[peer].closed.clone(), h.budget(BUDGET).0), (None, NAME_MAX as u64));
    h.container = "c".repeat(NAME_MAX + 1);
    let peer = h.connect(0);
    let (condition, why) = h.peers[peer].closed.clone().expect("it is closed");
    assert_eq!(condition, "amqp:invalid-field");
    assert!(why.contains("2048"), "{why}");
}

#[test]
fn the_links_of_a_connection_are_bounded_in_bytes() {
    let mut h = house_with(64 << 20);
    let peer = h.connect(0);
    for session in 0..10 {
        if session > 0 {
            h.peers[peer].conn.begin(None, true);
            h.settle();
        }
        (0..250).for_each(|number| attach(&mut h, peer, session, name(number, NAME_MAX)));
        h.settle();
    }
    let kept = 2500 - h.peers[peer].detached.len() as u64;
    let bytes = h.budget(BUDGET).0 - 2500 * LINK - 9 * CHANNEL_BYTES as u64;
    assert!((STATE_MAX - NAME_MAX as u64 - REST..=STATE_MAX).contains(&bytes), "{bytes} bytes");
    assert!(
        (STATE_MAX / (NAME_MAX as u64 + REST)..=STATE_MAX / NAME_MAX as u64).contains(&kept),
        "{kept} links"
    );
    assert!(h.peers[peer].detached.iter().all(|why| why == "amqp:resource-limit-exceeded"));
}

#[test]
fn the_state_of_clients_is_bounded_over_the_node_and_the_largest_user_pays() {
    let mut h = house();
    let other = h.connect_as(0, Some(OTHER));
    (0..200).for_each(|number| attach(&mut h, other, 0, name(number, NAME_MAX)));
    h.settle();
    let flood: Vec<usize> = (0..12).map(|number| h.connect(number % 2)).collect();
    for peer in &flood {
        h.peers[*peer].doomed = true;
        (0..190).for_each(|number| attach(&mut h, *peer, 0, name(number, NAME_MAX)));
        h.settle();
        let (used, limit) = h.budget(BUDGET);
        assert!(used <= limit + 200 * (NAME_MAX as u64 + REST + LINK), "{used} bytes of {limit}");
    }
    assert_eq!(h.peers[other].closed, None, "it is larger than each of the others");
    let closed: Vec<_> = flood.iter().filter_map(|peer| h.peers[*peer].closed.clone()).collect();
    assert!((4..=7).contains(&closed.len()), "{} are closed", closed.len());
    for (condition, why) in closed {
        assert_eq!(condition, "amqp:resource-limit-exceeded");
        assert!(why.contains("client_state_memory"), "{why}");
    }
}

/// A link keeps its address and its filters. What else its ATTACH has, it may keep until the queue has answered.
#[test]
fn everything_in_an_attach_counts() {
    let mut h = house();
    let peer = h.connect(0);
    for number in 0..60 {
        let properties = property(50_000);
        let address = format!("/exchanges/amq.fanout/{}", "k".repeat(50_000));
        attach_to(&mut h, peer, 0, format!("link-{number}"), address, Some(properties));
        h.settle();
    }
    let bytes = h.budget(BUDGET).0;
    assert!((STATE_MAX - 100_000..STATE_MAX + 100_000 + REST + 22 * LINK).contains(&bytes), "{bytes} bytes");
    let refused = &h.peers[peer].detached;
    assert!(
        refused.len() >= 60 - 21 && refused.iter().all(|why| why == "amqp:resource-limit-exceeded"),
        "{refused:?}"
    );
    h.peers[peer].conn.detach(0, 0, None);
    h.settle();
    let less = bytes - h.budget(BUDGET).0 - LINK;
    assert!(
        (200_000..200_000 + REST).contains(&less),
        "{less} bytes of one link: its address three times, and a property"
    );
}

/// A pattern of a filter is kept in pieces, which take many times the memory of its text.
#[test]
fn a_parsed_filter_counts() {
    const PIECES: usize = 2_000;
    let mut h = house();
    let arguments = [("x-queue-type".to_owned(), "stream".into())];
    h.declare("s", arguments.into_iter().collect());
    let peer = h.connect(0);
    let before = h.budget(BUDGET).0;
    for dialect in ["amqp:sql-filter", "apache.org:selector-filter:string"] {
        let text = format!("a LIKE '{}'", "_%".repeat(PIECES));
        let kept = h.budget(BUDGET).0;
        let link = h.reader_with(peer, "/queues/s", dialect, text.as_str());
        h.settle();
        let bytes = h.budget(BUDGET).0 - kept - LINK - text.len() as u64;
        assert!((24 * PIECES as u64..48 * PIECES as u64).contains(&bytes), "{bytes} bytes of {dialect}");
        h.peers[peer].conn.detach(0, link, None);
        h.settle();
        assert_eq!(h.budget(BUDGET).0, before);
    }
}

#[test]
fn properties_of_a_connection_are_counted_and_bounded() {
    let mut h = house();
    h.connect(0);
    let plain = h.budget(BUDGET).0;
    h.properties = Some(property(400));
    h.connect(0);
    let counted = h.budget(BUDGET).0 - 2 * plain;
    assert!((400..400 + REST).contains(&counted), "{counted} bytes");
    // Each of these takes few bytes in the frame, and much more in memory.
    let before = h.budget(BUDGET).0;
    let client = Client091::connect_with_properties(&mut h, GUEST, 100);
    assert_eq!(client.closed, None);
    let counted = h.budget(BUDGET).0 - before;
    assert!((6_000..20_000).contains(&counted), "{counted} bytes");
    let client = Client091::connect_with_properties(&mut h, GUEST, 1_200);
    let (code, why) = client.closed.clone().expect("it is closed");
    assert_eq!(code, 506);
    assert!(why.contains("client properties") && why.contains("65536"), "{why}");
    assert_eq!(h.budget(BUDGET).0 - before, counted, "they are not kept");
}

#[test]
fn tags_and_arguments_of_consumers_are_counted_and_bounded() {
    let mut h = house();
    let mut client = Client091::open(&mut h, &[1, 2]);
    let before = h.budget(BUDGET).0;
    client.consume_with_argument(&mut h, 1, "q", "first", 100_000);
    client.consume_with_argument(&mut h, 2, "q", "first", 100_000);
    let counted = h.budget(BUDGET).0 - before - 2 * LINK;
    assert!((200_000..200_000 + REST).contains(&counted), "{counted} bytes");
    client.cancel(&mut h, 1, "first");
    let counted = h.budget(BUDGET).0 - before - LINK;
    assert!((100_000..100_000 + REST).contains(&counted), "{counted} bytes are left");
    client.doomed = true;
    for number in 0..60 {
        if client.closed.is_none() {
            client.consume_with_argument(&mut h, 1, "q", &number.to_string(), 100_000);
            assert!(h.budget(BUDGET).0 <= STATE_MAX + 42 * LINK);
        }
    }
    let (code, why) = client.closed.clone().expect("it is closed");
    assert_eq!(code, 506);
    assert!(why.contains("tags and arguments of a connection's consumers"), "{why}");
    assert!(h.budget(BUDGET).0 <= before, "its consumers are gone");
}

/// What ordinary clients keep is listed, but no connection is closed for it, however many there are.
#[test]
fn ordinary_clients_are_not_closed() {
    let mut h = house();
    let mut clients: Vec<_> =
        (0..1200).map(|_| Client091::connect_with_properties(&mut h, GUEST, ORDINARY)).collect();
    let (used, limit) = h.budget(BUDGET);
    assert!(used > limit, "{used} bytes of {limit}");
    clients.iter_mut().for_each(|client| client.settle(&mut h));
    assert_eq!(clients.iter().filter(|client| client.closed.is_some()).count(), 0);
}

/// Clients of AMQP 0.9.1 send their properties before they log in.
#[test]
fn what_was_sent_before_the_login_is_charged_to_the_user() {
    let mut h = house();
    h.others_take_at_once = true;
    let mut idle: Vec<_> = Vec::new();
    for _ in 0..25 {
        for user in [GUEST, OTHER] {
            idle.push(Client091::connect_with_properties(&mut h, user, 500));
        }
    }
    let largest = h.connect(0);
    h.peers[largest].doomed = true;
    for number in 0..STATE_MAX as usize / NAME_MAX {
        let session = (number / 250) as u16;
        if session > 0 && number % 250 == 0 {
            h.peers[largest].conn.begin(None, true);
            h.settle();
        }
        if h.peers[largest].closed.is_none() {
            attach(&mut h, largest, session, name(number, NAME_MAX));
        }
    }
    h.settle();
    assert!(h.peers[largest].closed.is_some(), "it is the largest connection of the largest user");
    idle.iter_mut().for_each(|client| client.settle(&mut h));
    assert_eq!(idle.iter().filter(|client| client.closed.is_some()).count(), 0);
}

/// A consumer takes memory, whatever its client says of it.
#[test]
fn consumers_without_a_tag_are_counted_and_the_connection_with_most_of_them_is_closed() {
    let mut h = house();
    let mut client = Client091::open(&mut h, &[1]);
    let before = h.budget(BUDGET).0;
    (0..100).for_each(|_| client.consume_with_argument(&mut h, 1, "q", "", 10));
    let counted = h.budget(BUDGET).0 - before - 100 * LINK;
    assert!((100 * 40..100 * 80).contains(&counted), "{counted} bytes of generated tags and arguments");
    client.doomed = true;
    let (_, limit) = h.budget(BUDGET);
    let mut other = Client091::open(&mut h, &[1]);
    other.consume_with_argument(&mut h, 1, "q", "", 10);
    for _ in 0..limit / LINK {
        if client.closed.is_none() {
            client.consume_with_argument(&mut h, 1, "q", "", 10);
        }
    }
    let (code, why) = client.closed.clone().expect("it is closed");
    assert_eq!(code, 506);
    assert!(why.contains("client_state_memory"), "{why}");
    other.settle(&mut h);
    assert!(other.is_open(&mut h));
}
