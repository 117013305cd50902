//! What waits to be written. A client that makes the broker write and does not read is not read any more.

use broker::catalog::Arguments;
use broker::settings::Settings;

use super::client091::Client091;
use super::house::House;

const MIB: usize = 1 << 20;

/// The bytes of answers above which a client is not read.
const ANSWERS_MAX: usize = MIB;

fn house() -> House {
    let mut h = House::new(1, Settings::default());
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
