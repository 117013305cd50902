//! The message path allocates nothing for a transfer, for the sections in its payload, or for the answers.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use amqp10::{
    DeliveryState, Performative, Role, TransferHead, put_disposition_frame, put_transfer_frame, sections,
};
use bytes::BytesMut;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u32> = const { Cell::new(0) };
}

// SAFETY: every call is passed to the system allocator unchanged. Counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's guarantees are those that the system allocator needs.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer was returned by the system allocator, in `alloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations<T>(work: impl FnOnce() -> T) -> u32 {
    let before = ALLOCATIONS.with(Cell::get);
    let result = std::hint::black_box(work());
    let after = ALLOCATIONS.with(Cell::get);
    drop(result);
    after - before
}

const MESSAGE: &[u8] = b"\x00\x53\x70\xc0\x04\x02\x41\x50\x05\
    \x00\x53\x72\xc1\x0a\x02\xa3\x05x-opt\x52\x01\
    \x00\x53\x73\xc0\x12\x03\x53\x07\xa0\x05guest\xa1\x06/queue\
    \x00\x53\x75\xa0\x05hello";

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| Box::new(1u64)), 1);
}

#[test]
fn a_transfer_and_its_message_allocate_nothing() {
    let mut frame = BytesMut::with_capacity(1024);
    let head = TransferHead {
        handle: 1,
        delivery_id: Some(70_000),
        delivery_tag: Some(b"\x00\x00\x00\x01"),
        message_format: Some(0),
        settled: Some(false),
        ..TransferHead::default()
    };
    let writing = allocations(|| put_transfer_frame(&mut frame, 0, &head, MESSAGE.len()));
    assert_eq!(writing, 0);
    frame.extend_from_slice(MESSAGE);
    let reading = allocations(|| {
        let (performative, used) = Performative::decode(&frame[8..]).unwrap();
        let message = &frame[8 + used..];
        let found = sections::scan(message).unwrap();
        let range = found.properties.clone().unwrap();
        let section = &message[range.start as usize..range.end as usize];
        assert_eq!(sections::user_id(section), Ok(Some(&b"guest"[..])));
        assert_eq!(sections::to(section), Ok(Some("/queue")));
        let range = found.message_annotations.clone().unwrap();
        let section = &message[range.start as usize..range.end as usize];
        assert_eq!(sections::map_pairs(section).unwrap().count(), 1);
        (performative, found)
    });
    assert_eq!(reading, 0);
}

#[test]
fn a_disposition_allocates_nothing() {
    let mut frame = BytesMut::with_capacity(256);
    let writing = allocations(|| {
        put_disposition_frame(&mut frame, 0, Role::Receiver, 1, Some(300), true, &DeliveryState::Accepted);
    });
    assert_eq!(writing, 0);
    assert_eq!(allocations(|| Performative::decode(&frame[8..]).unwrap()), 0);
}
