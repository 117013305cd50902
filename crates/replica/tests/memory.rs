//! The memory that one member of a group uses.

use bytes::Bytes;
use replica::{Base, Body, Group, Member, Message, Options, Position, Record, Restoring, Role, Support};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Limits for a group at rest and for a quiet one.
const RESTING_BYTES_MAX: isize = 256;
const QUIET_BYTES_MAX: isize = 4 << 10;

struct Counting;

thread_local! {
    /// The bytes that this thread has allocated. Negative if it frees memory of other threads.
    static BYTES: Cell<isize> = const { Cell::new(0) };
}

// SAFETY: every call is handed to the system allocator unchanged; counting allocates nothing itself.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.set(BYTES.get() + layout.size() as isize);
        // SAFETY: the caller's promises are the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        BYTES.set(BYTES.get() - layout.size() as isize);
        // SAFETY: the pointer came from the system allocator, in `alloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the bytes that the result of `make` uses, and the result.
fn bytes<T>(make: impl FnOnce() -> T) -> (isize, T) {
    let before = BYTES.get();
    let made = Box::new(make());
    (BYTES.get() - before, *made)
}

fn restored() -> Group {
    let base = Base::founding(&[0, 1, 2], Bytes::new());
    let me = base.members.voters()[0];
    let mut restoring = Restoring::default();
    restoring.on_record(Record::Base(base)).unwrap();
    restoring.finish(me, Options::default()).unwrap()
}

fn synced(group: &mut Group) -> Vec<Message> {
    let mut messages = Vec::new();
    while let Some(round) = group.poll_round() {
        messages.extend(round.now.into_iter().chain(round.after_sync));
        group.on_synced(round.number);
    }
    messages
}

/// Elects the member and lets it commit entries. Two simulated followers answer everything.
fn lead() -> Group {
    let mut group = restored();
    // Allocations that happen once: per thread, and for the silent logger of all groups.
    synced(&mut group);
    group.campaign().unwrap();
    let mut proposed = 0;
    loop {
        let messages = synced(&mut group);
        if messages.is_empty() {
            if proposed == 200 {
                return group;
            }
            proposed += 1;
            group.propose(group.standing().term, Bytes::from_static(b"some facts")).unwrap();
            continue;
        }
        for answer in messages.into_iter().filter_map(answer) {
            // The second vote arrives after the first one has decided the election.
            let _ = group.step(answer, &Support::default());
        }
    }
}

fn answer(message: Message) -> Option<Message> {
    let Message { from, to, term, body } = message;
    let body = match body {
        Body::VoteRequest { pre, .. } => {
            Body::VoteResponse { pre, granted: true, commit: Position::default() }
        }
        Body::Append { previous, commit, entries } => {
            Body::Appended { index: previous.index + entries.len() as u64, commit }
        }
        _ => return None,
    };
    Some(Message { from: to, to: from, term, body })
}

#[test]
fn a_quiet_group_takes_four_kib_and_a_resting_one_almost_nothing() {
    drop(lead());
    let (takes, group) = bytes(lead);
    assert_eq!(group.standing().role, Role::Leader);
    assert!(takes <= QUIET_BYTES_MAX, "a quiet leader takes {takes} bytes");
    let (takes, resting) = bytes(|| group.rest().expect("nothing is under way"));
    assert!(takes <= RESTING_BYTES_MAX, "a resting group takes {takes} bytes");
    drop(group);
    let (takes, mut group) = bytes(|| resting.wake(Options::default()));
    assert!(takes <= QUIET_BYTES_MAX, "a group that was taken up takes {takes} bytes");
    assert!(synced(&mut group).is_empty(), "it has nothing to say");
    // The member still leads in its term.
    let index = group.last().index + 1;
    assert_eq!(group.propose(group.standing().term, Bytes::from_static(b"more")), Ok(index));
    let to: Vec<Member> = synced(&mut group).into_iter().map(|message| message.to).collect();
    assert_eq!(to.len(), 2);
}
