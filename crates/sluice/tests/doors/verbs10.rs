//! The requests of AMQP 1.0 that need permissions.

use amqp10::{
    Attach, Role, SenderSettleMode, Source, Symbol, Target, TargetArchetype, TerminusExpiryPolicy, Value,
};
use catalog::access::Verb;
use client::management::{Binding, Destination, ExchangeSpec, QueueSpec};
use client::{Credit, Error, Management, ReceiverOptions, Scope, SenderOptions, Session};

/// The requests that are tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Attach,
    Publish,
    PublishAnonymously,
    Consume,
    TakeReplies,
    OwnSource,
    OwnTarget,
    OwnBoundSource,
    GetQueue,
    PutQueue,
    PutQueueWithDeadLetters,
    DeleteQueue,
    PurgeQueue,
    PutExchange,
    PutExchangeWithAlternate,
    DeleteExchange,
    PostBinding,
    DeleteBinding,
    GetBindings,
}

/// Each request with the verbs that it needs.
pub(super) const ASKS: &[(Ask, &[Verb])] = &[
    (Ask::Attach, &[Verb::Publish]),
    (Ask::Publish, &[Verb::Publish, Verb::PublishTopic]),
    (Ask::PublishAnonymously, &[Verb::Publish, Verb::PublishTopic]),
    (Ask::Consume, &[Verb::Consume]),
    (Ask::TakeReplies, &[Verb::Consume]),
    (Ask::OwnSource, &[Verb::DeclareQueue, Verb::Consume]),
    (Ask::OwnTarget, &[Verb::DeclareQueue, Verb::Publish]),
    (Ask::OwnBoundSource, &[Verb::DeclareQueue, Verb::Consume, Verb::Bind, Verb::BindTopic]),
    (Ask::GetQueue, &[Verb::Inspect]),
    (Ask::PutQueue, &[Verb::DeclareQueue]),
    (Ask::PutQueueWithDeadLetters, &[Verb::DeclareQueue, Verb::DeadLetterTo]),
    (Ask::DeleteQueue, &[Verb::DeleteQueue]),
    (Ask::PurgeQueue, &[Verb::PurgeQueue]),
    (Ask::PutExchange, &[Verb::DeclareExchange]),
    (Ask::PutExchangeWithAlternate, &[Verb::DeclareExchange, Verb::AlternateTo]),
    (Ask::DeleteExchange, &[Verb::DeleteExchange]),
    (Ask::PostBinding, &[Verb::Bind, Verb::BindTopic]),
    (Ask::DeleteBinding, &[Verb::Unbind, Verb::BindTopic]),
    (Ask::GetBindings, &[Verb::InspectBindings]),
];

/// Makes a request.
///
/// # Errors
/// The broker has refused it.
pub(super) async fn ask(session: &Session, what: Ask) -> Result<(), Error> {
    let own = |capability: &'static str| vec![Symbol::from_static(capability)];
    let binding = Binding::to_queue("x", "q", "k");
    match what {
        Ask::Attach => drop(session.sender(Some("/exchanges/x/k"), SenderOptions::default()).await?),
        Ask::Publish => {
            let sender = session.sender(Some("/exchanges/x/k"), SenderOptions::default()).await?;
            drop(sender.send(client::Message::value(Value::from("m")).encode()).await?);
        }
        Ask::PublishAnonymously => {
            let sender = session.sender(None, SenderOptions::default()).await?;
            let message = client::Message::value(Value::from("m")).to("/exchanges/x/k");
            drop(sender.send(message.encode()).await?);
        }
        Ask::Consume => drop(session.receiver(Some("/queues/q"), ReceiverOptions::default()).await?),
        Ask::TakeReplies => {
            let mut attach = Attach::new("replies".to_owned(), 0, Role::Receiver);
            attach.snd_settle_mode = SenderSettleMode::Settled;
            attach.source = Some(Source {
                dynamic: true,
                expiry_policy: TerminusExpiryPolicy::LinkDetach,
                capabilities: own("rabbitmq:volatile-queue"),
                ..Source::default()
            });
            attach.target = Some(TargetArchetype::Target(Target::default()));
            drop(session.receiver_with(attach, Credit::Manual).await?);
        }
        Ask::OwnSource => {
            let capabilities = own("temporary-queue");
            let options = ReceiverOptions { dynamic: true, capabilities, ..Default::default() };
            drop(session.receiver(None, options).await?);
        }
        Ask::OwnTarget => {
            let capabilities = own("temporary-queue");
            drop(
                session
                    .sender(None, SenderOptions { dynamic: true, capabilities, ..Default::default() })
                    .await?,
            );
        }
        Ask::OwnBoundSource => {
            drop(session.receiver(Some("/exchange/x/k"), ReceiverOptions::default()).await?);
        }
        Ask::GetQueue => {
            let _ = Management::open(session).await?.queue_info("q").await?;
        }
        Ask::PutQueue => {
            {
                let _ = Management::open(session).await?.declare_queue("q", &QueueSpec::default()).await?;
            };
        }
        Ask::PutQueueWithDeadLetters => {
            let spec = QueueSpec::default().argument("x-dead-letter-exchange", "x");
            {
                let _ = Management::open(session).await?.declare_queue("d", &spec).await?;
            };
        }
        Ask::DeleteQueue => {
            let _ = Management::open(session).await?.delete_queue("absent").await?;
        }
        Ask::PurgeQueue => {
            let _ = Management::open(session).await?.purge_queue("q").await?;
        }
        Ask::PutExchange => {
            {
                let spec = ExchangeSpec { kind: "topic".into(), ..ExchangeSpec::default() };
                let _ = Management::open(session).await?.declare_exchange("x", &spec).await?;
            };
        }
        Ask::PutExchangeWithAlternate => {
            let mut spec = ExchangeSpec::default();
            spec.arguments.insert("alternate-exchange", "y");
            {
                let _ = Management::open(session).await?.declare_exchange("a", &spec).await?;
            };
        }
        Ask::DeleteExchange => {
            let _ = Management::open(session).await?.delete_exchange("absent").await?;
        }
        Ask::PostBinding => {
            let _ = Management::open(session).await?.bind(&binding).await?;
        }
        Ask::DeleteBinding => {
            let path = "/bindings/src=x;dstq=q;key=absent;args=";
            {
                let _ = Management::open(session).await?.request("DELETE", path, Value::Null).await?;
            };
        }
        Ask::GetBindings => {
            let to = Destination::Queue("q".to_owned());
            {
                let _ = Management::open(session).await?.bindings("x", &to, "k").await?;
            };
        }
    }
    Ok(())
}

/// Returns true if the session was ended, which is how a missing permission is reported
/// (docs/compatibility.md, Error conditions).
pub(super) fn is_refused(error: &Error) -> bool {
    match error {
        Error::Remote { scope: Scope::Session, error } => {
            error.condition.as_str() == "amqp:unauthorized-access"
        }
        other => panic!("another refusal: {other:?}"),
    }
}
