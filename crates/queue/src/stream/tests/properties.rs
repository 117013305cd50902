//! Tests random sequences: publishes, a failing disk, late updates and loads, and readers that attach and detach.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Publish { n: u64, value: u8 },
    Poll,
    Work { chunks_max: usize },
    StreamUpdate,
    Load { which: usize, most: usize },
    ContinueInterrupted,
    Attach { start: Start, bloom: u8 },
    Grant { which: usize, credit: u32, drain: bool },
    Detach { which: usize },
    Fill { which: usize },
    MakeRoom { which: usize },
    LetGo { which: usize },
    Retain,
    Time { ms: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let start = prop_oneof![
        Just(Start::First),
        Just(Start::Last),
        Just(Start::Next),
        (0..60u64).prop_map(Start::Offset),
        (900..4000u64).prop_map(Start::Time),
    ];
    let step = prop_oneof![
        4 => (1..6u64, 0..3u8).prop_map(|(n, value)| Step::Publish { n, value }),
        4 => Just(Step::Poll),
        4 => prop_oneof![9 => Just(usize::MAX), 1 => Just(0), 1 => Just(1)].prop_map(|chunks_max| Step::Work { chunks_max }),
        4 => Just(Step::StreamUpdate),
        4 => (any::<usize>(), 1..4usize).prop_map(|(which, most)| Step::Load { which, most }),
        1 => Just(Step::ContinueInterrupted),
        2 => (start, 0..4u8).prop_map(|(start, bloom)| Step::Attach { start, bloom }),
        4 => (any::<usize>(), 0..12u32, any::<bool>())
            .prop_map(|(which, credit, drain)| Step::Grant { which, credit, drain }),
        1 => any::<usize>().prop_map(|which| Step::Detach { which }),
        3 => any::<usize>().prop_map(|which| Step::Fill { which }),
        2 => any::<usize>().prop_map(|which| Step::MakeRoom { which }),
        2 => any::<usize>().prop_map(|which| Step::LetGo { which }),
        1 => Just(Step::Retain),
        1 => (1..500u64).prop_map(|ms| Step::Time { ms }),
    ];
    proptest::collection::vec(step, 1..80)
}

/// The start and the filter that a consumer asked for.
struct Wants {
    start: Start,
    bloom: Option<Arc<BloomFilter>>,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// A reader gets every message that it wants from its start on, once and in order, and none that is not written.
    #[test]
    fn readers_see_the_stream(steps in steps()) {
        let mut world = World::new();
        let mut wants: Vec<(u64, Wants)> = Vec::new();
        // All chunks that were ever written.
        let mut all: Vec<Chunk> = Vec::new();
        let (mut consumers, mut removed) = (0, 0);
        for step in steps {
            match step {
                Step::Publish { n, value } => world.publish(n, value),
                Step::Poll => world.poll(),
                Step::Work { chunks_max } => world.do_work(chunks_max),
                Step::StreamUpdate => world.read_update(),
                Step::Load { which, most } => world.load(which, most),
                Step::ContinueInterrupted => world.continue_interrupted(),
                Step::Attach { start, bloom } => {
                    consumers += 1;
                    let bloom = (bloom > 0).then(|| {
                        Arc::new(BloomFilter { values: [[b'0' + bloom % 3].into()].into(), unfiltered: bloom == 3 })
                    });
                    wants.push((consumers, Wants { start, bloom: bloom.clone() }));
                    world.attach(consumers, Replay { start, bloom, matching: None });
                }
                Step::Grant { which, credit, drain } if !wants.is_empty() => {
                    let (consumer, _) = wants[which % wants.len()];
                    world.grant(consumer, credit, drain);
                }
                Step::Detach { which } if !wants.is_empty() => {
                    let (consumer, _) = wants.remove(which % wants.len());
                    world.send_to_readers(Request::Detach { consumer: ConsumerId(consumer), failed: true });
                }
                Step::Fill { which } if !wants.is_empty() => {
                    let (consumer, _) = wants[which % wants.len()];
                    world.got.get_mut(&consumer).expect("a consumer").full = true;
                }
                Step::MakeRoom { which } if !wants.is_empty() => world.make_room(wants[which % wants.len()].0),
                Step::LetGo { which } if !wants.is_empty() => {
                    world.readers.free_idle_chunks(ConsumerId(wants[which % wants.len()].0));
                }
                Step::Retain if world.disk.chunks.len() > SEGMENT_CHUNKS => {
                    world.disk.chunks.drain(..SEGMENT_CHUNKS);
                    removed = world.disk.chunks[0].first;
                    world.disk.removed = removed;
                }
                Step::Grant { .. } | Step::Detach { .. } | Step::Retain => {}
                Step::Fill { .. } | Step::MakeRoom { .. } | Step::LetGo { .. } => {}
                Step::Time { ms } => world.now_ms += ms,
            }
            let known = all.last().map_or(0, Chunk::end);
            all.extend(world.disk.chunks.iter().filter(|chunk| chunk.first >= known).cloned());
        }
        world.settle();
        for (consumer, _) in &wants {
            world.make_room(*consumer);
        }
        world.settle();
        for (consumer, _) in &wants {
            world.grant(*consumer, 10_000, false);
        }
        world.settle();
        all.extend(world.disk.chunks.iter().filter(|c| c.first >= all.last().map_or(0, Chunk::end)).cloned().collect::<Vec<_>>());
        for (consumer, Wants { start, bloom }) in &wants {
            let got = &world.got[consumer].offsets;
            prop_assert!(got.windows(2).all(|pair| pair[0] < pair[1]), "in order, each once");
            let wanted = |chunk: &&Chunk| chunk.is_wanted(bloom.as_deref());
            let wanted: Vec<u64> =
                all.iter().filter(wanted).flat_map(|chunk| chunk.first..chunk.end()).collect();
            prop_assert!(got.iter().all(|offset| wanted.contains(offset)));
            let begin = match start {
                Start::First => 0,
                Start::Offset(offset) => *offset,
                // The reader may have started at any offset that existed in the meantime, but after it no
                // message may be missing.
                Start::Last | Start::Next | Start::Time(_) => got.first().copied().unwrap_or(u64::MAX),
            };
            let must: Vec<u64> =
                wanted.iter().copied().filter(|offset| *offset >= begin.max(removed)).collect();
            let from_there: Vec<u64> = got.iter().copied().filter(|offset| *offset >= begin.max(removed)).collect();
            prop_assert_eq!(from_there, must, "{:?}", start);
            prop_assert!(got.first().is_none_or(|first| *first >= begin));
        }
        let accepted = world.receipts.iter().filter(|(_, verdict)| *verdict == Verdict::Accepted).count();
        prop_assert_eq!(accepted as u64, world.disk.next, "exactly the written messages have an accepting receipt");
        prop_assert_eq!(world.receipts.len() as u64, world.published);
    }
}
