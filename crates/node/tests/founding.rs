//! A group is founded once: at the declaration of its queue. Without its records the queue is closed.

mod accepted;
mod any_order;
mod life;

use amqp10::sasl::Secret;
use catalog::access::{Access, Hashing, Permissions, User};
use node::recovery::{Mutation, RecoverError};
use queue::Refusal;
use wal_testing::{Crash, Op};

use self::life::{How, Life, append, older_records, without};
use crate::recovered::SimDisks;

/// The disk is full.
const ENOSPC: i32 = 28;

/// Returns what is wrong with a start on a log that lacks the records of a group.
fn records_are_lost(mutation: Option<Mutation>) -> Result<(), &'static str> {
    for used in [false, true] {
        let disks = SimDisks::new(1);
        let mut life = Life::start(&disks, None);
        life.propose("lost");
        life.propose("kept");
        life.settle();
        let lost = life.queue("lost").unwrap();
        if used {
            life.publish(lost, 1);
        }
        drop(life);
        let mut disks = without(&disks.crash(Crash::Process), &[lost]);
        // It stays closed.
        for _ in 0..2 {
            let mut life = Life::start(&disks, mutation);
            assert_eq!(life.take("kept"), Ok(0));
            if life.take("lost") != Err(Refusal::Damaged) {
                return Err("a group that has lost its records is founded again");
            }
            drop(life);
            disks = disks.crash(Crash::Power);
        }
    }
    Ok(())
}

#[test]
fn a_group_without_its_records_is_never_founded_again() {
    assert_eq!(records_are_lost(None), Ok(()));
    assert!(records_are_lost(Some(Mutation::FoundAgain)).is_err(), "the mistake is found");
}

/// The broker is killed after each handover between the declaration and the note that the group is founded.
#[test]
fn a_group_whose_founding_was_interrupted_is_founded() {
    for handovers in 0..8 {
        let disks = SimDisks::new(2);
        let mut life = Life::start(&disks, None);
        life.propose("q");
        life.settle_to(handovers);
        drop(life);
        let disks = disks.crash(Crash::Process);
        let mut life = Life::start(&disks, None);
        if life.queue("q").is_none() {
            assert!(handovers < 2, "the declaration is in the first or second handover");
            continue;
        }
        assert_eq!(life.take("q"), Ok(0), "after {handovers} handovers");
        let queue = life.queue("q").unwrap();
        life.publish(queue, 1);
        drop(life);
        let disks = disks.crash(Crash::Power);
        let mut life = Life::start(&disks, None);
        assert_eq!(life.take("q"), Ok(1), "after {handovers} handovers");
        drop(life);
        // The start after the founding has noted it.
        let mut life = Life::start(&without(&disks.crash(Crash::Process), &[queue]), None);
        assert_eq!(life.take("q"), Err(Refusal::Damaged), "after {handovers} handovers");
    }
}

/// An older program founded a group with the first use of its queue. Such queues are founded when a directory is taken over, and never
/// again.
#[test]
fn the_queues_of_an_older_directory_are_founded_once() {
    let disks = SimDisks::new(3);
    append(&disks.log, older_records(&["a".to_owned(), "b".to_owned()]));
    let mut life = Life::start(&disks, None);
    assert_eq!((life.take("a"), life.take("b")), (Ok(0), Ok(0)));
    let b = life.queue("b").unwrap();
    life.publish(b, 1);
    drop(life);
    let mut life = Life::start(&without(&disks.crash(Crash::Process), &[b]), None);
    assert_eq!((life.take("a"), life.take("b")), (Ok(0), Err(Refusal::Damaged)));
}

/// A broker that was killed on a full disk starts, so that its queues can be emptied. What its start has changed is written when there is
/// space, before anything else.
#[test]
fn a_start_on_a_full_disk_goes_on() {
    let mut disks = SimDisks::new(4);
    disks.log.fail(&[Op::Create, Op::Write], 1000, ENOSPC);
    let guest = User {
        name: "guest".into(),
        hash: Hashing::Sha256.hash([1; 16], &Secret::new("guest".to_owned())),
        tags: Vec::new(),
        loopback_only: true,
        permissions: [("/".into(), Permissions::ALL)].into(),
    };
    let fresh = disks.start(How::default().options(), &Access::new([guest]), false, None, None);
    assert!(matches!(fresh, Err(RecoverError::Write(_))), "the first users must be synced");
    disks.log.heal();
    let mut life = Life::start(&disks, None);
    life.propose("q");
    life.settle();
    let queue = life.queue("q").unwrap();
    life.publish(queue, 1);
    for round in 0..3 {
        drop(life);
        disks = disks.crash(Crash::Power);
        disks.log.fail(&[Op::Create, Op::Write], 1000, ENOSPC);
        life = Life::start(&disks, None);
        disks.log.heal();
        if round > 0 {
            life.propose("another");
            life.settle();
        }
    }
    assert_eq!(life.take("q"), Ok(1));
    drop(life);
    let mut life = Life::start(&disks.crash(Crash::Power), None);
    assert_eq!((life.take("q"), life.take("another")), (Ok(0), Ok(0)));
}
