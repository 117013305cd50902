//! The message path allocates nothing for a publish, an acknowledgement or a delivery.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use crate::wire::{CONFIG, connected, written};
use amqp091::{BasicAck, BasicDeliver, BasicPublish, Connection, Event, Method};
use bytes::Bytes;

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

/// Reads the whole input. Returns the number of contents and of other methods.
fn read(endpoint: &mut Connection, mut input: &[u8]) -> (u32, u32) {
    let (mut contents, mut methods) = (0, 0);
    while !input.is_empty() {
        let (used, event) = endpoint.handle_input(input, usize::MAX, 0);
        match event {
            Ok(Some(Event::Content { content, .. })) => {
                assert!(content.publish().is_some() || content.deliver().is_some());
                contents += 1;
            }
            Ok(Some(Event::Method { .. })) => methods += 1,
            other => panic!("{other:?}"),
        }
        input = &input[used..];
    }
    (contents, methods)
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| Box::new(1u64)), 1);
}

#[test]
fn messages_and_acknowledgements_allocate_nothing() {
    let (mut client, mut server, _) = connected(CONFIG, CONFIG, &[1]);
    let payload = Bytes::from_static(b"xxxxxxxxxxxx");
    let publish = Method::from(BasicPublish { routing_key: "q", ..BasicPublish::default() });
    let deliver = BasicDeliver { consumer_tag: "ctag", routing_key: "q", ..BasicDeliver::default() };
    let ack = Method::from(BasicAck { delivery_tag: 1, multiple: true });
    let client_writes = |client: &mut Connection| {
        for _ in 0..10 {
            client.send_content(1, &publish, b"\x10\x00\x02", &payload, 0);
            client.send(1, &ack);
        }
    };
    client_writes(&mut client);
    let input = written(&mut client);
    assert_eq!(allocations(|| client_writes(&mut client)), 0, "the buffer has its size");
    assert_eq!(allocations(|| assert_eq!(read(&mut server, &input), (10, 10))), 0);

    let server_writes = |server: &mut Connection| {
        for _ in 0..10 {
            server.send_deliver(1, &deliver, b"\x10\x00\x02", &payload, 0);
            server.send(1, &ack);
        }
    };
    server_writes(&mut server);
    let input = written(&mut server);
    assert_eq!(allocations(|| server_writes(&mut server)), 0);
    assert_eq!(allocations(|| assert_eq!(read(&mut client, &input), (10, 10))), 0);
}
