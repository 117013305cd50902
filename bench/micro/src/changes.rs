//! The steps of a change of the catalog, without a shard and without the log: a command is offered, its entry is taken as
//! committed, and its changes are applied.

use catalog::ids::FIRST_NODE;
use catalog::{
    Answer, At, Binding, Caller, Catalog, Command, DEFAULT_VHOST, DeclareQueue, Destination, Offered, Pending,
};

use crate::cases::with_topics;

/// The queues that are there already, each with a binding of the topic exchange.
pub(crate) const QUEUES: u32 = 1_000;

/// A queue is declared and forgotten.
pub(crate) fn declare() -> Box<dyn FnMut() -> u64> {
    let (mut catalog, mut pending) = with_queues();
    Box::new(move || {
        let declare = DeclareQueue::new(DEFAULT_VHOST, "one more", Default::default());
        let answer = change(&mut catalog, &mut pending, Command::DeclareQueue(declare));
        let Answer::Queue { record, created: true } = answer else { panic!("it is new: {answer:?}") };
        change(&mut catalog, &mut pending, Command::ForgetQueue { queue: record.id });
        0
    })
}

/// A binding is made and removed.
pub(crate) fn bind() -> Box<dyn FnMut() -> u64> {
    let (mut catalog, mut pending) = with_queues();
    let binding = Binding {
        vhost: DEFAULT_VHOST.into(),
        source: "amq.topic".into(),
        destination: Destination::Queue("q7".into()),
        key: "one.more".into(),
        arguments: Default::default(),
    };
    Box::new(move || {
        for command in [Command::Bind, Command::Unbind] {
            let command = command(binding.clone(), Caller::Management);
            let answer = change(&mut catalog, &mut pending, command);
            assert!(matches!(answer, Answer::Done { changed: true }), "{answer:?}");
        }
        0
    })
}

fn with_queues() -> (Catalog, Pending<()>) {
    let catalog = with_topics((0..QUEUES).map(|i| format!("a{}.b{}", i / 10, i % 10)));
    let pending = Pending::new(&catalog);
    (catalog, pending)
}

/// Carries out a command that changes something.
fn change(catalog: &mut Catalog, pending: &mut Pending<()>, command: Command) -> Answer {
    let offered = pending.offer(catalog, command, (), At { index: 1, node: FIRST_NODE });
    assert!(matches!(offered, Offered::Decided { .. }), "it is allowed, and changes something");
    let committed = pending.handle_committed().expect("its entry is committed");
    committed.changes.iter().for_each(|change| catalog.apply(change));
    committed.answer
}
