//! Tests the end of a quorum queue whose group has three members. The tests play the other two.

use std::collections::VecDeque;

use catalog::Command;
use queue::{ConsumerId, Publish, PublisherId, Request, Ticket, Verdict};
use replica::{Body, Entry, Member, Message as Sent, Position, Support};

use super::tests::{answers, decides, leader_of_three, leading, message, publish, ready, write_all};
use super::*;
use crate::facts::FinishedGroup;

const ME: Member = Member { node: 1, number: 1 };
const SECOND: Member = Member { node: 2, number: 2 };
const THIRD: Member = Member { node: 3, number: 3 };

/// A queue without messages, whose member leads a group of three in term 2.
struct Scene {
    shard: Shard,
    queue: QueueId,
}

impl Scene {
    fn new() -> Self {
        let (mut shard, queue) = leading();
        shard.apply_one(queue, Request::Purge { ticket: Ticket(7) });
        write_all(&mut shard);
        let group = leader_of_three();
        let finished =
            FinishedGroup { group, base_file: 0, base_index: 1, log_bytes: 0, files: VecDeque::new() };
        shard.queues.get_mut(queue).unwrap().group = Some(Box::new(Hosted::new(finished)));
        let mut scene = Self { shard, queue };
        assert!(decides(&scene.shard, queue) && ready(&scene.shard, queue) == 0);
        assert!(scene.proposals().is_empty());
        scene
    }

    /// The member decides that its queue ends, and proposes the entry with the index 3.
    fn decide(&mut self) {
        self.shard.apply_one(self.queue, DELETE_IF_EMPTY);
        self.shard.propose_entries();
        write_all(&mut self.shard);
        assert!(!self.has_ended() && self.proposals().is_empty(), "its own disk is no majority");
        publish(&mut self.shard, self.queue, 2);
        assert_eq!((answers(&mut self.shard), self.shard.queues.waiting.len()), (vec![], 1), "it waits");
    }

    fn receive(&mut self, from: Member, term: u64, body: Body) {
        let mut owner = self.shard.owner(self.queue);
        let message = Sent { from, to: ME, term, body };
        owner.hosted().unwrap().engine.wake().step(message, &Support::default()).unwrap();
        groups::pump(&mut owner);
        write_all(&mut self.shard);
    }

    /// Returns what was proposed to the catalog since the last call.
    fn proposals(&mut self) -> Vec<Command> {
        let proposals = std::mem::take(&mut self.shard.mail.post.proposals);
        proposals.into_iter().map(|(_, _, command)| command).collect()
    }

    fn has_ended(&self) -> bool {
        self.shard.queues.get(self.queue).unwrap().fifo.ended().is_some()
    }
}

const DELETE_IF_EMPTY: Request = Request::Delete { ticket: Ticket(8), if_unused: false, if_empty: true };

fn is_forget(commands: &[Command]) -> bool {
    matches!(commands, [Command::ForgetQueue { .. }])
}

#[test]
fn a_queue_ends_when_a_majority_has_the_entry() {
    let mut scene = Scene::new();
    scene.decide();
    scene.receive(SECOND, 2, Body::Appended { index: 3, commit: 2 });
    assert!(scene.has_ended());
    assert!(is_forget(&scene.proposals()));
    assert_eq!(answers(&mut scene.shard), [(2, Verdict::Released)]);
}

/// Returns the number of messages that are ready when this member alone has synced the entry with the first one.
fn ready_when_synced(mutation: Option<Mutation>) -> u64 {
    let mut scene = Scene::new();
    mutation.into_iter().for_each(|mutation| scene.shard.mutate(mutation));
    publish(&mut scene.shard, scene.queue, 2);
    scene.shard.propose_entries();
    write_all(&mut scene.shard);
    ready(&scene.shard, scene.queue)
}

#[test]
fn a_commit_by_one_disk_of_three_is_found() {
    assert_eq!(ready_when_synced(None), 0);
    assert_eq!(ready_when_synced(Some(Mutation::CommitWhenSynced)), 1);
}

/// The member was cut off, and its successor has confirmed a message.
#[test]
fn a_stale_leader_that_finds_its_queue_empty_deletes_nothing() {
    let mut scene = Scene::new();
    scene.decide();
    let previous = Position { term: 2, index: 2 };
    let mut facts = Vec::new();
    entries::push_fact(&mut facts, &Fact::Put { seq: 2, message: message(), at_ms: 1 });
    let entry = |index, payload| Entry { at: Position { term: 3, index }, payload };
    let entries = vec![entry(3, Payload::Empty), entry(4, Payload::Facts(facts.into()))];
    scene.receive(THIRD, 3, Body::Append { previous, commit: 4, entries });
    assert!(!scene.has_ended() && !decides(&scene.shard, scene.queue));
    assert_eq!(ready(&scene.shard, scene.queue), 1, "what the successor has confirmed");
    scene.shard.set_now(3_600_000);
    scene.shard.queue_timeouts();
    assert!(scene.proposals().is_empty());
    assert!(!scene.shard.queues.ended.contains(scene.queue));
    // The publish that waited is for the successor. It was refused, because here is no link to its node.
    assert_eq!((answers(&mut scene.shard), scene.shard.queues.waiting.len()), (vec![], 0));
}

/// The successor has the entry, and is lost before it has told the catalog.
#[test]
fn a_member_that_knows_no_leader_tells_the_catalog() {
    let mut scene = Scene::new();
    scene.decide();
    let previous = Position { term: 2, index: 3 };
    let entries = vec![Entry { at: Position { term: 3, index: 4 }, payload: Payload::Empty }];
    scene.receive(THIRD, 3, Body::Append { previous, commit: 4, entries });
    assert!(scene.has_ended());
    assert!(scene.proposals().is_empty(), "that is for the leader");
    // It answers for the queue all the same.
    scene.shard.mail.receipts.drain().for_each(drop);
    let publish = Publish { publisher: PublisherId(1), seq: 3, message: message(), pipelines: false };
    scene.shard.apply_one(scene.queue, Request::Publish(publish));
    assert_eq!(answers(&mut scene.shard), [(3, Verdict::Released)]);
    let last = Position { term: 3, index: 4 };
    scene.receive(SECOND, 4, Body::VoteRequest { pre: false, last, commit: last, transfer: false });
    assert!(is_forget(&scene.proposals()));
    let holder = ConsumerId(9);
    scene.shard.apply_one(scene.queue, Request::Fetch { ticket: Ticket(9), holder, n: 1, settled: true });
    assert!(scene.proposals().is_empty());
}

/// It has no group any more, so nobody can commit that it ends.
#[test]
fn a_damaged_queue_is_deleted_by_the_catalog_alone() {
    let mut scene = Scene::new();
    scene.decide();
    scene.shard.close_damaged(scene.queue);
    assert!(!scene.has_ended() && scene.proposals().is_empty(), "the decision was rolled back");
    assert!(scene.shard.queues.waiting.is_empty());
    scene.shard.apply_one(scene.queue, DELETE_IF_EMPTY);
    assert!(scene.has_ended() && is_forget(&scene.proposals()));
}

#[test]
fn a_base_says_that_its_queue_has_ended() {
    let mut scene = Scene::new();
    scene.decide();
    let content = scene.shard.owner(scene.queue).base();
    assert_eq!(entries::decode_content(content).unwrap().ended, None, "that is not committed");
    scene.receive(SECOND, 2, Body::Appended { index: 3, commit: 2 });
    let content = scene.shard.owner(scene.queue).base();
    assert!(entries::decode_content(content.clone()).unwrap().ended.is_some());
    let mut other = Scene::new();
    other.shard.owner(other.queue).install(content);
    assert!(other.has_ended());
}
