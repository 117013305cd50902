//! Publishers wait for a disk that is slower than they are.

use broker::settings::Settings;
use catalog::Arguments;
use node::StorageLimits;
use wal::{Extent, PackJob, Packed, WriteFailure};

use super::house::House;

/// The memory for messages, and the size of the body of one message. Some 30 messages take twice this memory.
const MEMORY: u64 = 64 * 1024;
const BODY: [u8; 4096] = [b'x'; 4096];
/// Two numbers of messages. The first takes more than the memory, the second more than twice the memory.
const FEW: usize = 20;
const MANY: usize = 40;

fn house(backlog_memory: u64) -> House {
    House::with(1, Settings::default(), StorageLimits { backlog_memory, ..StorageLimits::default() })
}

struct Backlog {
    house: House,
    publisher: usize,
    link: u32,
}

impl Backlog {
    /// Makes a queue without consumers, on a broker with little memory.
    fn new() -> Self {
        let mut house = house(MEMORY);
        house.declare("q", Arguments::new());
        let publisher = house.connect(0);
        let link = house.sender(publisher, "/queues/q");
        Self { house, publisher, link }
    }

    fn publish(&mut self, messages: usize) {
        (0..messages).for_each(|_| self.house.send(self.publisher, self.link, &BODY));
    }

    fn receipts(&self) -> usize {
        self.house.peers[self.publisher].outcomes.len()
    }

    /// Returns the job that writes everything in memory.
    fn job(&mut self) -> PackJob {
        self.house.shards[0].poll_pack_job().expect("there is too much in memory")
    }

    fn written(&mut self, PackJob { shard, ticket, runs }: PackJob) {
        let extents =
            (1..).zip(&runs).map(|(pack, run)| Extent { pack, offset: 48, bytes: run.bytes() as u32 });
        let result = Ok(extents.collect());
        self.house.shards[0].handle_packed(Packed { shard, ticket, result });
        self.house.settle();
    }
}

#[test]
fn receipts_wait_until_enough_memory_is_paged_out() {
    let mut backlog = Backlog::new();
    backlog.publish(FEW);
    let first = backlog.job();
    backlog.publish(MANY);
    let receipts = backlog.receipts();
    assert!((25..35).contains(&receipts), "receipts beyond twice the memory wait: {receipts}");
    backlog.written(first);
    assert_eq!(backlog.receipts(), receipts, "there is still too much in memory");
    let second = backlog.job();
    backlog.house.settle();
    assert_eq!(backlog.receipts(), receipts, "nothing of it is paged out yet");
    backlog.written(second);
    assert_eq!(backlog.receipts(), FEW + MANY);
}

#[test]
fn waiting_publishers_are_answered_when_the_disk_fails() {
    let mut backlog = Backlog::new();
    backlog.publish(FEW);
    let PackJob { shard, ticket, runs } = backlog.job();
    backlog.publish(MANY);
    let error = std::io::Error::other("it is gone");
    let result = Err(WriteFailure { file: "1.pack".into(), error, runs });
    backlog.house.shards[0].handle_packed(Packed { shard, ticket, result });
    backlog.house.settle();
    assert_eq!(backlog.receipts(), FEW + MANY, "accepted messages stay accepted");
    backlog.publish(1);
    let outcomes = &backlog.house.peers[backlog.publisher].outcomes;
    assert!(outcomes[FEW + MANY].starts_with("Rejected"), "{outcomes:?}");
}

/// With very many queues, the heads that stay in memory for consumers exceed the budget.
#[test]
fn the_heads_of_very_many_queues_are_paged_out() {
    const EACH: u64 = 3 * 4096;
    let mut house = house(4 * MEMORY);
    for n in 1..=8 * MEMORY / EACH + 1 {
        let address = format!("/queues/q{n}");
        house.declare(&format!("q{n}"), Arguments::new());
        let peer = house.connect(0);
        house.receiver(peer, &address);
        let link = house.sender(peer, &address);
        (0..3).for_each(|_| house.send(peer, link, &BODY));
        // The time is longer than the pause after nothing could be paged out.
        house.now_ms += 100;
        house.settle();
        let runs = house.shards[0].poll_pack_job().map(|job| job.runs.len() as u64);
        if runs.is_some() {
            assert_eq!(runs, Some(n));
            assert!(n * EACH > 7 * MEMORY, "{n} queues are not twice too much");
            return;
        }
    }
    unreachable!("they take more than twice the memory");
}
