//! Definitions are lost, and the broker starts because its operator accepts that.

use std::sync::{Arc, Mutex};

use bytes::BytesMut;
use catalog::ids::QueueId;
use catalog::{Answer, Asker, Catalog, encode_entry};
use node::facts::{catalog_base, push_definition, push_group};
use queue::Refusal;
use replica::{Base, Entry, Member, Payload, Position, Record, Vote};
use wal::Records;
use wal_testing::{Crash, SimDisk};

use super::life::{How, Life, append, declare};
use crate::asks::Asks;
use crate::recovered::SimDisks;

const ACCEPTS: How =
    How { shards: 1, file_bytes: 1 << 20, garbage_allowed: 1 << 30, accepts_loss: true, mutation: None };

/// Damages the first record with this text in each file of the log.
fn spoil(disk: &SimDisk, text: &str) {
    let mut hits = 0;
    for (name, mut bytes) in disk.files() {
        if let Some(at) = bytes.windows(text.len()).position(|window| window == text.as_bytes()) {
            bytes[at..at + text.len()].iter_mut().for_each(|byte| *byte ^= 0x55);
            disk.put(&name, &bytes);
            hits += 1;
        }
    }
    assert!(hits > 0, "{text} is not in the log");
}

/// Declares queues in a new directory, sends a message to each, and kills the broker. Returns the queues, too.
fn directory_with(names: &[&str]) -> (SimDisks, Vec<QueueId>) {
    let disks = SimDisks::new(1);
    let (mut life, mut queues) = (Life::start(&disks, None), Vec::new());
    for name in names {
        life.propose(name);
        life.settle();
        let queue = life.queue(name).unwrap();
        life.publish(queue, 1);
        queues.push(queue);
    }
    life.log.note();
    drop(life);
    (disks.crash(Crash::Process), queues)
}

/// The next start must still see that the definition is lost, until the log says that the data is unclaimed. Otherwise it would take the data
/// for that of a deleted queue.
#[test]
fn data_without_a_definition_is_kept_wherever_the_accepted_start_is_killed() {
    let (disks, queues) = directory_with(&["first-queue", "second-queue", "third-queue"]);
    spoil(&disks.log, "second-queue");
    assert!(How::default().recover(&disks).is_err(), "the definition of a queue is lost");
    let of = |disks: &SimDisks, n: usize| match n {
        0 => disks.log.clone(),
        _ => disks.unclaimed.clone(),
    };
    for (n, how) in [(0, Crash::Process), (0, Crash::Power), (1, Crash::Process), (1, Crash::Power)] {
        for operations in 0.. {
            let killed = disks.crash(Crash::Process);
            of(&killed, n).die_at(operations);
            drop(ACCEPTS.recover(&killed));
            let is_killed = of(&killed, n).is_dead();
            let again = ACCEPTS.recover(&killed.crash(how)).expect("the loss is accepted");
            assert!(
                again.restored.unclaimed.contains_key(&queues[1]),
                "killed at operation {operations} on disk {n}, {how:?}: the data is gone"
            );
            if !is_killed {
                assert!(operations > 2, "the start does something on disk {n}");
                break;
            }
        }
    }
}

/// The catalog's new entries must be later than those that the log knows to be founded. Otherwise the new queue would count as founded before
/// it has a group.
#[test]
fn a_queue_that_is_declared_after_an_accepted_loss_is_not_closed() {
    let names = ["q-one", "q-two", "q-three", "q-four", "q-five", "q-six", "q-seven", "q-eight"];
    let (disks, _) = directory_with(&names);
    names[1..].iter().for_each(|name| spoil(&disks.log, name));
    let mut answered = 0;
    for handovers in 0..6 {
        let disks = disks.crash(Crash::Process);
        let mut life = Life::start_as(&disks, &ACCEPTS);
        let answer = Arc::new(Mutex::new(false));
        let seen = answer.clone();
        let then = Box::new(move |answer: Result<Answer, _>| *seen.lock().unwrap() = answer.is_ok());
        life.shards[0].propose(declare("fresh"), then);
        life.settle_to(handovers);
        drop(life);
        let mut life = Life::start(&disks.crash(Crash::Process), None);
        let is_answered = *answer.lock().unwrap();
        answered += u32::from(is_answered);
        match life.take("fresh") {
            Ok(0) => {}
            Err(Refusal::NotFound) if !is_answered => {}
            other => panic!("killed after {handovers} handovers: {other:?}"),
        }
    }
    assert!(answered > 0, "some declarations are answered");
}

/// Returns the log of a catalog with the queues `a` to `d`, which are the entries 3 to 6. The entry `missing` is lost, and a base
/// with all entries up to 5 comes after it. If `in_flight` is set, the entry 6 is written before the base as well as after it.
fn log_with_a_base(missing: u64, in_flight: bool) -> SimDisk {
    let (mut catalog, mut records) = (Catalog::default(), Records::new());
    let (owner, me) = (QueueId(0), Member { node: 1, number: 1 });
    let push_base = |records: &mut Records, catalog: &Catalog, index: u64| {
        let definitions = catalog.definitions();
        for (number, change) in (1..).zip(&definitions) {
            push_definition(records, number, change);
        }
        let founding = Base::founding(&[1], catalog_base(definitions.len() as u64, 1));
        let vote = Vote { term: 2, candidate: Some(me), applied: index };
        let base = match index {
            1 => founding,
            _ => Base { at: Position { term: 2, index }, vote, ..founding },
        };
        push_group(records, owner, me, &Record::Base(base));
        push_group(records, owner, me, &Record::Vote(vote));
    };
    let push_entry = |records: &mut Records, index: u64, payload: Payload| {
        let entry = Entry { at: Position { term: 2, index }, payload };
        push_group(records, owner, me, &Record::Entry { entry, committed: index - 1 });
    };
    push_base(&mut records, &catalog, 1);
    if missing != 2 {
        push_entry(&mut records, 2, Payload::Empty);
    }
    for (index, name) in (3..).zip(["a", "b", "c", "d"]) {
        let changes = catalog.decide(declare(name), &mut catalog.queue_ids()).unwrap().changes;
        let mut facts = BytesMut::new();
        encode_entry(&Asker::default(), &changes, &Answer::Done { changed: true }, &mut facts);
        let payload = Payload::Facts(facts.freeze());
        if index == 6 {
            if in_flight {
                push_entry(&mut records, index, payload.clone());
            }
            push_base(&mut records, &catalog, 5);
        }
        if index != missing {
            push_entry(&mut records, index, payload);
        }
        changes.iter().for_each(|change| catalog.apply(change));
    }
    let log = SimDisk::new(77);
    append(&log, records);
    log
}

#[test]
fn a_start_is_not_refused_if_a_base_has_all_that_is_missing_before_it() {
    for (missing, in_flight) in [(4, false), (4, true), (2, false), (2, true)] {
        let disks = SimDisks { log: log_with_a_base(missing, in_flight), ..SimDisks::new(78) };
        let recovered = How::default().recover(&disks);
        let recovered = recovered.unwrap_or_else(|why| panic!("{missing} is missing, {in_flight}: {why}"));
        let queues = recovered.restored.catalog.queues().map(|queue| queue.name.to_string());
        let mut names: Vec<String> = queues.collect();
        names.sort();
        assert_eq!(names, ["a", "b", "c", "d"], "{missing} is missing, {in_flight}");
    }
}
