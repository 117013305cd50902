//! Queues that are made for one link, and are deleted with it or with its connection.

use amqp10::{Role, Source, Symbol, Target};
use broker::settings::Settings;

use super::house::House;

/// The number of rounds, which is enough to attach any of these links.
const ROUNDS: usize = 40;

/// Attaches a receiver to this source and breaks its connection after `rounds` rounds. Returns the queues
/// that are left, and whether the link had been attached.
fn cut(source: &Source, shard: usize, rounds: usize) -> (Vec<String>, bool) {
    let mut house = House::new(2, Settings { permit_address_v1: true, ..Settings::default() });
    let peer = house.connect(shard);
    house.begin_attach(peer, Role::Receiver, source.clone(), Target::default());
    (0..rounds).for_each(|_| _ = house.round());
    let gone = house.peers.remove(peer);
    house.shards[shard].disconnect(gone.key);
    house.settle();
    let left = house.shards.iter().flat_map(|shard| shard.catalog().queues());
    (left.map(|queue| queue.name.to_string()).collect(), !gone.sources.is_empty())
}

#[test]
fn no_queue_of_a_link_is_left_whenever_its_connection_breaks() {
    let bound = Source { address: Some("/exchange/amq.fanout/k".to_owned()), ..Source::default() };
    let capabilities = vec![Symbol::from_static("temporary-queue")];
    let dynamic = Source { dynamic: true, capabilities, ..Source::default() };
    for source in [bound, dynamic] {
        for shard in [0, 1] {
            let cuts: Vec<bool> = (0..ROUNDS)
                .map(|rounds| {
                    let (left, attached) = cut(&source, shard, rounds);
                    assert!(
                        left.is_empty(),
                        "{source:?} on shard {shard}, cut after {rounds} rounds: {left:?}"
                    );
                    attached
                })
                .collect();
            assert!(!cuts[0] && cuts[ROUNDS - 1], "some break before the link is attached, some after");
        }
    }
}
