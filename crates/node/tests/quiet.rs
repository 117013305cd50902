//! When a turn ends, nothing that could move is waiting. Otherwise it would wait for the next timer of its shard.

use catalog::ids::ShardId;
use node::shard::{Shard, Writes};
use wal::{Completion, Handover, StreamAnswer, StreamJob};

/// Takes what a turn that has nothing to do writes, which is nothing.
struct Idle;

impl Writes for Idle {
    fn write(&mut self, handover: Handover) -> Option<Completion> {
        panic!("{} bytes of records were left", handover.records.bytes());
    }

    fn append(&mut self, _: StreamJob) -> Option<StreamAnswer> {
        panic!("a job of a stream was left");
    }
}

/// Asserts that another turn of a shard moves nothing. Called after a turn that has moved nothing, and after all its results were
/// taken. `shards` is the number of shards of the broker.
pub(crate) fn assert_nothing_waits(shard: &mut Shard, shards: ShardId) {
    assert!(!shard.turn() && !shard.write(&mut Idle), "the turn has left work");
    let mail = (0..shards).flat_map(|to| shard.poll_mail(to)).next();
    assert!(mail.is_none(), "mail was left: {mail:?}");
}
