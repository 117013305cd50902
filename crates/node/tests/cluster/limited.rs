//! Limits of virtual hosts and users count the connections of all nodes, and a node may refuse logins while it sees no majority. The clients are
//! those of the second node of two.

use std::sync::Arc;

use ::node::peer::PeerMessage;
use ::node::shard::limited::{REPEAT_MS, TELL_MS};
use amqp091::{BasicQos, Method};
use broker::settings::{MinorityLogins, Settings};
use catalog::access::LimitedCounts;
use catalog::{AccountChange, Command, VhostPatch};

use super::misses::{Client091, Pair};
use super::scenes::broker;

fn limit_vhost(max: Option<u32>) -> Command {
    let patch = VhostPatch { max_connections: Some(max), ..VhostPatch::default() };
    Command::Account(AccountChange::PatchVhost { name: "/".into(), patch })
}

fn limit_user(max_connections: u32, max_channels: u32) -> Command {
    let limits = (Some(Some(max_connections)), Some(Some(max_channels)));
    Command::Account(AccountChange::SetUserLimits {
        user: "guest".into(),
        max_connections: limits.0,
        max_channels: limits.1,
    })
}

/// Returns what the nodes have told each other meanwhile.
fn told(pair: &mut Pair) -> Vec<LimitedCounts> {
    let told = std::mem::take(&mut pair.sent).into_iter().filter_map(|message| match message {
        PeerMessage::Clients(counts) => Some(counts),
        _ => None,
    });
    told.collect()
}

/// The first node says this to the second one.
fn say(pair: &mut Pair, vhosts: &[(&str, u32)], users: &[(&str, u32, u32)]) {
    let vhosts = vhosts.iter().map(|(name, connections)| ((*name).into(), *connections)).collect();
    let users = users.iter().map(|(name, connections, sessions)| ((*name).into(), *connections, *sessions));
    let message = PeerMessage::Clients(LimitedCounts { vhosts, users: users.collect() });
    broker(&mut pair.nodes[1]).shards[0].handle_peer_message(1, message.encode());
}

/// Returns what a new client is told.
fn opened(pair: &mut Pair) -> Vec<String> {
    let mut client = Client091::new(pair, b"\0guest\0guest", "/");
    pair.talk(&mut client, 100);
    client.said
}

#[test]
fn a_node_tells_the_connections_that_count_for_a_limit() {
    let mut pair = Pair::with_shards(2);
    let _client = Client091::open(&mut pair);
    pair.run(3 * REPEAT_MS);
    assert_eq!(told(&mut pair), [], "nothing has a limit");

    pair.change(limit_vhost(Some(9)));
    pair.change(limit_user(9, 9));
    pair.run(REPEAT_MS);
    let one = LimitedCounts { vhosts: vec![("/".into(), 1)], users: vec![("guest".into(), 1, 1)] };
    assert_eq!(told(&mut pair).pop(), Some(one.clone()));
    pair.run(10 * REPEAT_MS);
    let again = told(&mut pair);
    assert!((9..=11).contains(&again.len()) && again.iter().all(|said| *said == one), "{again:?}");

    let _second = Client091::open(&mut pair);
    pair.run(TELL_MS);
    let two = LimitedCounts { vhosts: vec![("/".into(), 2)], users: vec![("guest".into(), 2, 2)] };
    assert_eq!(told(&mut pair).pop(), Some(two.clone()));

    // The others forget what has no limit any more.
    pair.change(limit_vhost(None));
    pair.run(TELL_MS);
    assert_eq!(told(&mut pair).pop(), Some(LimitedCounts { vhosts: Vec::new(), ..two }));
}

#[test]
fn the_connections_of_another_node_count_for_a_limit() {
    let mut pair = Pair::with_shards(2);
    pair.change(limit_vhost(Some(2)));
    let full = ["access to vhost '/' refused for user 'guest': connection limit (2) is reached"];
    say(&mut pair, &[("/", 2)], &[]);
    let refused = opened(&mut pair);
    assert!(refused.len() == 1 && refused[0].contains(full[0]), "{refused:?}");
    say(&mut pair, &[("/", 1)], &[]);
    assert_eq!(opened(&mut pair), ["open", "channel"]);
    let refused = opened(&mut pair);
    assert!(refused.len() == 1 && refused[0].contains(full[0]), "{refused:?}");

    // A node that does not count as alive counts nothing.
    pair.set_cut(true);
    assert_eq!(opened(&mut pair), ["open", "channel"]);
    say(&mut pair, &[("/", 0)], &[("guest", 7, 7)]);
    pair.set_cut(false);

    pair.change(limit_vhost(None));
    pair.change(limit_user(9, 5));
    say(&mut pair, &[], &[("guest", 2, 3)]);
    let refused = opened(&mut pair);
    let last = refused.last().expect("an answer");
    assert!(last.contains("maximum allowed user limit of 5"), "two here and three there: {refused:?}");
    say(&mut pair, &[], &[("guest", 7, 0)]);
    let refused = opened(&mut pair);
    assert!(refused[0].contains("user connection limit (9) is reached"), "{refused:?}");
}

#[test]
fn a_node_without_a_majority_refuses_logins_if_it_is_set_to() {
    for minority_logins in [MinorityLogins::Allow, MinorityLogins::Refuse] {
        let mut pair = Pair::with_shards(2);
        let settings = Arc::new(Settings { minority_logins, ..Settings::default() });
        for shard in &mut broker(&mut pair.nodes[1]).shards {
            shard.set_settings(settings.clone());
        }
        let mut before = Client091::open(&mut pair);
        pair.set_cut(true);
        let said = opened(&mut pair);
        match minority_logins {
            MinorityLogins::Allow => assert_eq!(said, ["open", "channel"]),
            MinorityLogins::Refuse => {
                assert!(said.len() == 1 && said[0].contains("this node sees no majority"), "{said:?}");
            }
        }
        // An open connection goes on.
        before.send(Method::BasicQos(BasicQos { prefetch_count: 1, ..Default::default() }));
        pair.talk(&mut before, 100);
        assert_eq!(before.said, ["BasicQosOk"]);
        pair.set_cut(false);
        assert_eq!(opened(&mut pair), ["open", "channel"]);
    }
}
