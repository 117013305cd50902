//! Refused requests leave nothing behind.

use broker::counters::Deprecated;
use broker::settings::Settings;
use bytes::Bytes;
use catalog::Arguments;

use super::house::House;

/// Returns a message with a subject of `len` bytes and a null body.
fn with_subject(len: usize) -> Bytes {
    // The fields before the subject are null. The body, an amqp-value of null, follows the properties.
    let head = [0x00, 0x53, 0x73, 0xd0];
    let fields = [&[0x40, 0x40, 0x40, 0xb1][..], &(len as u32).to_be_bytes(), &vec![b's'; len]].concat();
    let sizes = [(fields.len() as u32 + 4).to_be_bytes(), 4u32.to_be_bytes()].concat();
    [&head[..], &sizes, &fields, &[0x00, 0x53, 0x77, 0x40]].concat().into()
}

/// Checks that a routing key is refused if its length does not fit into two bytes, because it is stored with
/// such a length.
#[test]
fn a_subject_that_is_too_long_for_a_routing_key_is_refused() {
    let mut house = House::new(1, Settings { permit_address_v1: true, ..Settings::default() });
    house.declare("q", Arguments::new());
    house.bind("amq.fanout", "q", "");
    let peer = house.connect(0);
    let sender = house.sender(peer, "/exchange/amq.fanout");
    house.say_message(peer, sender, &with_subject(65_535));
    house.settle();
    assert_eq!(house.peers[peer].outcomes, ["Accepted"]);
    house.say_message(peer, sender, &with_subject(65_536));
    house.settle();
    assert_eq!(house.peers[peer].outcomes, ["Accepted", "Released"]);
    assert_eq!(house.peers[peer].detached, ["amqp:invalid-field"]);
}

#[test]
fn a_refused_link_does_not_count_as_one_of_format_v1() {
    let mut house = House::new(1, Settings { permit_address_v1: true, ..Settings::default() });
    house.declare("q", Arguments::new());
    let peer = house.connect(0);
    let count = |house: &House| house.shards[0].totals().counters.deprecated.of(Deprecated::AmqpAddressV1);
    house.sender(peer, "/exchange/nowhere/k");
    house.sender(peer, "/amq/queue/none");
    house.receiver(peer, "/amq/queue/none");
    house.receiver(peer, "/exchange/nowhere/k");
    assert_eq!((house.peers[peer].detached.len(), count(&house)), (4, 0));
    house.sender(peer, "/amq/queue/q");
    house.receiver(peer, "/amq/queue/q");
    house.sender(peer, "/exchange/amq.fanout/k");
    house.receiver(peer, "/exchange/amq.fanout/k");
    assert_eq!((house.peers[peer].detached.len(), count(&house)), (4, 4));
}
