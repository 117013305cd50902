//! The table of the permissions that each verb needs. Every gate and the admin API ask it, and
//! nothing else decides.
//!
//! A verb is an operation on the broker, in any protocol. `docs/operations/users.md` shows the table to operators.

use amqp10::Value;

use super::{AccessRefused, Identity, Permission, Resource, Rights, UserRef, refused};
use crate::named::Arguments;

/// Tags that give access to the management API.
const MANAGEMENT: &[&str] = &[ADMINISTRATOR, MONITORING, POLICYMAKER, "management"];

/// Tags that let a user see what belongs to other users.
const MONITORS: &[&str] = &[ADMINISTRATOR, MONITORING];

const ADMINISTRATOR: &str = "administrator";
const MONITORING: &str = "monitoring";
const POLICYMAKER: &str = "policymaker";

/// All tags that give a user rights. A user may have others, which are notes.
pub const TAGS: [&str; 5] = [ADMINISTRATOR, MONITORING, POLICYMAKER, "management", "impersonator"];

/// One condition of a verb. A number is an index into the resources of the verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A tag that gives access to the management API.
    Management,
    /// A tag that lets the user see what belongs to other users.
    Monitor,
    /// The tag `administrator`.
    Administrator,
    /// Any entry of permissions in the virtual host, even if it grants nothing.
    Vhost,
    /// [`Need::Vhost`] or [`Need::Monitor`].
    VhostOrMonitor,
    /// A permission on a resource.
    Right(usize, Permission),
    /// A permission on a resource, unless the user has one of these tags.
    RightUnless(usize, Permission, &'static [&'static str]),
    /// Any permission on a resource.
    AnyRight(usize),
    /// A topic permission for a routing key. Without an entry for the exchange, all keys are allowed.
    Topic(usize, Permission),
    /// One of these tags. A refusal is worded as a missing configure permission on the resource.
    Setter(usize, &'static [&'static str]),
    /// The resource belongs to the user, or the user has one of these tags.
    Own(usize, &'static [&'static str]),
}

/// Defines the verbs, the list of all verbs, and the conditions of each verb.
macro_rules! verbs {
    ($($(#[doc = $doc:literal])* $verb:ident => [$($need:expr),*];)*) => {
        /// An operation on the broker.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Verb {
            $($(#[doc = $doc])* $verb,)*
        }

        impl Verb {
            pub const ALL: &[Self] = &[$(Self::$verb,)*];

            /// Returns the conditions. All of them must be met. They are checked in this order.
            pub const fn needs(self) -> &'static [Need] {
                use Need::{
                    Administrator, AnyRight, Management, Monitor, Own, Right, RightUnless, Setter, Topic,
                    Vhost, VhostOrMonitor,
                };
                use Permission::{Configure, Read, Write};
                match self {
                    $(Self::$verb => const { &[$($need),*] },)*
                }
            }
        }
    };
}

// The conditions are those of RabbitMQ (docs/compatibility.md, Security and Management over AMQP). Each row
// of a list is checked separately.
verbs! {
    /// Opens a connection to a virtual host.
    OpenVhost => [Vhost];
    /// Publishes to an exchange.
    Publish => [Right(0, Write)];
    /// Consumes from a queue.
    Consume => [Right(0, Read)];
    /// Takes messages from a queue, or peeks at them, without a consumer.
    Get => [Right(0, Read)];
    DeclareQueue => [Right(0, Configure)];
    /// Declares a queue (the first) whose dead letters go to an exchange (the second).
    DeadLetterTo => [Right(0, Read), Right(1, Write)];
    DeleteQueue => [Right(0, Configure)];
    PurgeQueue => [Right(0, Read)];
    /// Reads one queue and its statistics over AMQP, or asks whether an exchange exists.
    Inspect => [AnyRight(0)];
    DeclareExchange => [Right(0, Configure)];
    /// Declares an exchange (the first) with an alternate exchange (the second).
    AlternateTo => [Right(0, Read), Right(1, Write)];
    DeleteExchange => [Right(0, Configure)];
    /// Binds a queue or an exchange (the first) to a source exchange (the second).
    Bind => [Right(0, Write), Right(1, Read)];
    Unbind => [Right(0, Write), Right(1, Read)];
    /// Publishes to a topic exchange with a routing key.
    PublishTopic => [Topic(0, Write)];
    /// Binds to a topic exchange with a routing key, or unbinds.
    BindTopic => [Topic(0, Read)];
    /// Reads the bindings between the two over AMQP.
    InspectBindings => [Right(0, Write), Right(1, Read)];

    /// Uses the management API at all.
    Manage => [Management];
    ReadOverview => [Management];
    ReadAlarms => [Management];
    ReadNodes => [Monitor];
    /// Reads the statistics of everything in all virtual hosts, as the metrics do.
    ReadAllStatistics => [Monitor];
    /// Sees that a virtual host exists.
    ReadVhost => [VhostOrMonitor];
    ReadQueue => [Vhost];
    ReadExchange => [Vhost];
    ReadBinding => [Vhost];
    ReadPolicy => [Vhost];
    ReadOperatorPolicy => [Vhost];
    SetPolicy => [Vhost, Setter(0, &[ADMINISTRATOR, POLICYMAKER])];
    SetOperatorPolicy => [Vhost, Setter(0, &[ADMINISTRATOR])];
    /// Sets a policy that sends messages of others to an exchange. RabbitMQ does not ask for this.
    PolicyTo => [RightUnless(0, Write, &[ADMINISTRATOR])];
    ReadConnection => [Vhost, Own(0, MONITORS)];
    /// Closes a connection. Only its owner counts, not its virtual host: an administrator may close any connection.
    CloseConnection => [Own(0, &[ADMINISTRATOR])];
    /// Maintains quorum queues: their members and leaders, their logs and their memory.
    MaintainGroups => [Administrator];
    /// Reads and changes users and their permissions, and adds and deletes virtual hosts.
    Administer => [Administrator];
    ExplainQueue => [Right(0, Read)];
    ExplainConnection => [Vhost, Own(0, MONITORS)];
}

impl Verb {
    /// Returns true if the tags of the user decide alone, so that no virtual host is needed.
    pub fn is_by_tag(self) -> bool {
        self.needs().iter().all(|need| matches!(need, Need::Management | Need::Monitor | Need::Administrator))
    }
}

/// Decides whether a user with these rights in the virtual host may do this.
///
/// # Errors
/// The first condition that is not met, in RabbitMQ's words.
pub fn permit(
    who: &Identity,
    rights: Rights<'_>,
    vhost: &str,
    verb: Verb,
    on: &[Resource<'_>],
) -> Result<(), AccessRefused> {
    let tagged = |tags: &[&str]| tags.iter().any(|tag| who.has_tag(tag));
    // If the caller did not name the resource, the verb is refused.
    let resource = |at: usize| on.get(at).copied().unwrap_or(Resource::Connection(UserRef::internal("?")));
    let named = |at: usize| on.len() > at;
    let may = |at: usize, permission| match named(at) {
        true => rights.permit(permission, resource(at)),
        false => Ok(false),
    };
    for need in verb.needs() {
        let is_met = match *need {
            Need::Management => tagged(MANAGEMENT),
            Need::Monitor => tagged(MONITORS),
            Need::Administrator => tagged(&[ADMINISTRATOR]),
            Need::VhostOrMonitor => tagged(MONITORS) || rights.are_any()?,
            Need::Vhost => rights.are_any()?,
            Need::Right(at, permission) => may(at, permission)?,
            Need::RightUnless(at, permission, tags) => named(at) && (tagged(tags) || may(at, permission)?),
            Need::AnyRight(at) => {
                let [one, two, three] = Permission::ALL;
                may(at, one)? || may(at, two)? || may(at, three)?
            }
            Need::Topic(at, permission) => match on.get(at) {
                Some(Resource::Topic { exchange, key }) => rights.permit_key(permission, exchange, key)?,
                _ => false,
            },
            Need::Setter(at, tags) => named(at) && tagged(tags),
            Need::Own(at, tags) => named(at) && (is_own(who, resource(at)) || tagged(tags)),
        };
        if !is_met {
            return Err(refusal(who, vhost, verb, *need, resource));
        }
    }
    Ok(())
}

/// Returns why a need is not met.
fn refusal<'a>(
    who: &Identity,
    vhost: &str,
    verb: Verb,
    need: Need,
    resource: impl Fn(usize) -> Resource<'a>,
) -> AccessRefused {
    match need {
        Need::Management => AccessRefused::because("Not management user"),
        Need::Monitor => AccessRefused::because("Not monitor user"),
        Need::Administrator => AccessRefused::because("Not administrator user"),
        Need::Vhost | Need::VhostOrMonitor => {
            AccessRefused::because(format!("access to vhost '{vhost}' refused for user '{}'", who.user))
        }
        Need::Right(at, permission) | Need::RightUnless(at, permission, _) | Need::Topic(at, permission) => {
            refused(who, vhost, resource(at), permission)
        }
        Need::AnyRight(at) => refused(who, vhost, resource(at), Permission::Read),
        Need::Setter(at, _) => refused(who, vhost, resource(at), Permission::Configure),
        Need::Own(at, _) if verb == Verb::ExplainConnection => {
            refused(who, vhost, resource(at), Permission::Read)
        }
        Need::Own(..) => AccessRefused::because("User not authorised to access object"),
    }
}

/// Asks for every permission that the declaration of a queue with these arguments needs.
///
/// # Errors
/// The errors of `ask`.
pub fn permit_queue<E>(
    name: &str,
    arguments: &Arguments,
    ask: impl Fn(Verb, &[Resource<'_>]) -> Result<(), E>,
) -> Result<(), E> {
    let queue = Resource::Queue(name);
    ask(Verb::DeclareQueue, &[queue])?;
    match arguments.get("x-dead-letter-exchange").and_then(Value::as_str) {
        Some(exchange) => ask(Verb::DeadLetterTo, &[queue, Resource::Exchange(exchange)]),
        None => Ok(()),
    }
}

/// Asks for every permission that the declaration of an exchange with these arguments needs.
///
/// # Errors
/// The errors of `ask`.
pub fn permit_exchange<E>(
    name: &str,
    arguments: &Arguments,
    ask: impl Fn(Verb, &[Resource<'_>]) -> Result<(), E>,
) -> Result<(), E> {
    let exchange = Resource::Exchange(name);
    ask(Verb::DeclareExchange, &[exchange])?;
    match arguments.get("alternate-exchange").and_then(Value::as_str) {
        Some(alternate) => ask(Verb::AlternateTo, &[exchange, Resource::Exchange(alternate)]),
        None => Ok(()),
    }
}

/// The keys of a policy whose value is an exchange to which messages go.
const TARGETS: [&str; 2] = ["dead-letter-exchange", "alternate-exchange"];

/// Asks for every permission that setting a policy needs, or clearing it, which needs no definition.
///
/// # Errors
/// The errors of `ask`.
pub fn permit_policy<E>(
    name: &str,
    operator: bool,
    definition: Option<&Arguments>,
    ask: impl Fn(Verb, &[Resource<'_>]) -> Result<(), E>,
) -> Result<(), E> {
    match operator {
        true => ask(Verb::SetOperatorPolicy, &[Resource::OperatorPolicy(name)])?,
        false => ask(Verb::SetPolicy, &[Resource::Policy(name)])?,
    }
    let named = |key: &&str| definition?.get(key)?.as_str();
    TARGETS
        .iter()
        .filter_map(named)
        .try_for_each(|exchange| ask(Verb::PolicyTo, &[Resource::Exchange(exchange)]))
}

/// Asks for every permission that a binding from `source` needs, or its removal, which `verb` says. `topic` is its key if the
/// source is a topic exchange.
///
/// # Errors
/// The errors of `ask`.
pub fn permit_binding<E>(
    verb: Verb,
    destination: Resource<'_>,
    source: &str,
    topic: Option<&str>,
    ask: impl Fn(Verb, &[Resource<'_>]) -> Result<(), E>,
) -> Result<(), E> {
    ask(verb, &[destination, Resource::Exchange(source)])?;
    topic.map_or(Ok(()), |key| ask(Verb::BindTopic, &[Resource::Topic { exchange: source, key }]))
}

fn is_own(who: &Identity, resource: Resource<'_>) -> bool {
    matches!(resource, Resource::Connection(owner) if who.owner() == owner)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{Authority, Permissions, TopicPermissions, Topics};
    use super::*;

    const NONE: Permissions = Permissions::NONE;
    const ALL: Permissions = Permissions::ALL;

    fn who(tags: &[&str]) -> Identity {
        Identity {
            user: "u".into(),
            tags: tags.iter().map(|t| (*t).to_owned()).collect(),
            is_of_catalog: true,
            token: None,
            remote: None,
        }
    }

    fn of(permissions: Option<&Permissions>) -> Rights<'_> {
        Rights::User { permissions, topics: None }
    }

    const OTHERS: &[Resource<'static>] = &[Resource::Connection(UserRef::internal("other"))];

    /// The resources on which these tests use a verb.
    fn resources(verb: Verb) -> &'static [Resource<'static>] {
        use Resource::{Exchange, OperatorPolicy, Policy, Queue};
        match verb {
            Verb::OpenVhost
            | Verb::Manage
            | Verb::ReadOverview
            | Verb::ReadAlarms
            | Verb::ReadNodes
            | Verb::ReadAllStatistics
            | Verb::ReadVhost
            | Verb::ReadQueue
            | Verb::ReadExchange
            | Verb::ReadBinding
            | Verb::ReadPolicy
            | Verb::ReadOperatorPolicy
            | Verb::MaintainGroups
            | Verb::Administer => &[],
            Verb::Publish | Verb::DeclareExchange | Verb::DeleteExchange | Verb::PolicyTo => &[Exchange("x")],
            Verb::Consume
            | Verb::Get
            | Verb::DeclareQueue
            | Verb::DeleteQueue
            | Verb::PurgeQueue
            | Verb::Inspect
            | Verb::ExplainQueue => &[Queue("q")],
            Verb::DeadLetterTo | Verb::Bind | Verb::Unbind | Verb::InspectBindings => {
                &[Queue("q"), Exchange("x")]
            }
            Verb::PublishTopic | Verb::BindTopic => &[Resource::Topic { exchange: "x", key: "k" }],
            Verb::AlternateTo => &[Exchange("x"), Exchange("y")],
            Verb::SetPolicy => &[Policy("p")],
            Verb::SetOperatorPolicy => &[OperatorPolicy("p")],
            Verb::ReadConnection | Verb::CloseConnection | Verb::ExplainConnection => OTHERS,
        }
    }

    /// Checks RabbitMQ's rules in one table. `c`, `w`, `r`: this permission alone suffices. `-`: no single
    /// permission suffices. `v`: any permissions in the virtual host suffice. `*`: no permissions are needed.
    /// If tags count, the tags that suffice follow.
    #[test]
    fn the_table_is_rabbitmqs() {
        let picture = |verb: Verb| {
            let ask = |rights: Option<Permissions>, tags: &[&str]| {
                permit(&who(tags), of(rights.as_ref()), "/", verb, resources(verb)).is_ok()
            };
            let only = |permission| match permission {
                Permission::Configure => Permissions { configure: Permissions::ALL.configure, ..NONE },
                Permission::Write => Permissions { write: Permissions::ALL.write, ..NONE },
                Permission::Read => Permissions { read: Permissions::ALL.read, ..NONE },
            };
            let all_tags = &TAGS[..];
            let by_tag = all_tags.iter().copied().filter(|tag| ask(Some(Permissions::ALL), &[tag]));
            let tags = match ask(Some(Permissions::ALL), &[]) {
                true => String::new(),
                false => format!(" {}", by_tag.collect::<Vec<_>>().join(" ")),
            };
            let rights = match (ask(None, all_tags), ask(Some(NONE), all_tags)) {
                (true, _) => "*".to_owned(),
                (false, true) => "v".to_owned(),
                (false, false) => {
                    let each = Permission::ALL.into_iter().zip("cwr".chars());
                    let alone: String =
                        each.filter(|(p, _)| ask(Some(only(*p)), all_tags)).map(|(_, c)| c).collect();
                    if alone.is_empty() { "-".to_owned() } else { alone }
                }
            };
            format!("{verb:?} {rights}{tags}")
        };
        let pictures: Vec<String> = Verb::ALL.iter().map(|verb| picture(*verb)).collect();
        let expected = "\
OpenVhost v
Publish w
Consume r
Get r
DeclareQueue c
DeadLetterTo -
DeleteQueue c
PurgeQueue r
Inspect cwr
DeclareExchange c
AlternateTo -
DeleteExchange c
Bind -
Unbind -
PublishTopic *
BindTopic *
InspectBindings -
Manage * administrator monitoring policymaker management
ReadOverview * administrator monitoring policymaker management
ReadAlarms * administrator monitoring policymaker management
ReadNodes * administrator monitoring
ReadAllStatistics * administrator monitoring
ReadVhost *
ReadQueue v
ReadExchange v
ReadBinding v
ReadPolicy v
ReadOperatorPolicy v
SetPolicy v administrator policymaker
SetOperatorPolicy v administrator
PolicyTo *
ReadConnection v administrator monitoring
CloseConnection * administrator
MaintainGroups * administrator
Administer * administrator
ExplainQueue r
ExplainConnection v administrator monitoring";
        assert_eq!(pictures.join("\n"), expected);
    }

    #[test]
    fn a_verb_with_two_permissions_needs_both() {
        for verb in [Verb::DeadLetterTo, Verb::AlternateTo, Verb::Bind, Verb::Unbind, Verb::InspectBindings] {
            let ask = |rights: Permissions| {
                permit(&who(&[]), of(Some(&rights)), "/", verb, resources(verb)).is_ok()
            };
            assert!(ask(Permissions { configure: NONE.configure, ..ALL }), "{verb:?}");
            assert!(!ask(Permissions { write: NONE.write, ..ALL }), "{verb:?}");
            assert!(!ask(Permissions { read: NONE.read, ..ALL }), "{verb:?}");
        }
    }

    #[test]
    fn a_policymaker_needs_write_on_the_exchange_that_a_policy_names() {
        let set = |tags: &[&str], rights: Permissions, key: &str| {
            let definition = Arguments::from([(key.to_owned(), "x".into())]);
            permit_policy("p", false, Some(&definition), |verb, on| {
                permit(&who(tags), of(Some(&rights)), "/", verb, on)
            })
        };
        for key in ["dead-letter-exchange", "alternate-exchange"] {
            let no_write = Permissions { write: NONE.write, ..ALL };
            assert_eq!(
                set(&["policymaker"], no_write.clone(), key).unwrap_err().reason,
                "write access to exchange 'x' in vhost '/' refused for user 'u'"
            );
            assert_eq!(set(&["policymaker"], Permissions { write: ALL.write, ..NONE }, key), Ok(()));
            assert_eq!(set(&["administrator"], no_write, key), Ok(()));
        }
        assert_eq!(set(&["policymaker"], NONE, "dead-letter-routing-key"), Ok(()));
    }

    #[test]
    fn topic_permissions_limit_the_keys_of_their_exchange() {
        let permissions = TopicPermissions::new(["^w", "^r"], "u", "/").unwrap();
        let topics = Topics::from([("x".into(), permissions)]);
        let rights = Rights::User { permissions: Some(&ALL), topics: Some(&topics) };
        let ask =
            |verb, exchange, key| permit(&who(&[]), rights, "/", verb, &[Resource::Topic { exchange, key }]);
        assert_eq!(ask(Verb::PublishTopic, "x", "w.1"), Ok(()));
        assert_eq!(ask(Verb::BindTopic, "x", "r.1"), Ok(()));
        assert_eq!(ask(Verb::PublishTopic, "y", "r.1"), Ok(()), "an exchange without an entry");
        assert_eq!(
            ask(Verb::PublishTopic, "x", "r.1").unwrap_err().reason,
            "write access to topic 'r.1' in exchange 'x' in vhost '/' refused for user 'u'"
        );
        assert_eq!(
            ask(Verb::BindTopic, "x", "w.1").unwrap_err().reason,
            "read access to topic 'w.1' in exchange 'x' in vhost '/' refused for user 'u'"
        );
    }

    #[test]
    fn monitors_see_every_virtual_host() {
        let sees = |tags: &[&str], rights: Option<Permissions>| {
            permit(&who(tags), of(rights.as_ref()), "/", Verb::ReadVhost, &[]).is_ok()
        };
        assert!(sees(&["administrator"], None) && sees(&["monitoring"], None) && sees(&[], Some(NONE)));
        assert!(!sees(&["management"], None));
    }

    #[test]
    fn a_connection_is_its_users_own() {
        let mine = &[Resource::Connection(UserRef::internal("u"))];
        let namesake = Identity { token: Some(Arc::default()), is_of_catalog: false, ..who(&[]) };
        for verb in [Verb::ReadConnection, Verb::CloseConnection, Verb::ExplainConnection] {
            let may =
                |who: &Identity, on: &[Resource<'_>]| permit(who, of(Some(&NONE)), "/", verb, on).is_ok();
            assert!(may(&who(&[]), mine), "{verb:?}");
            assert!(!may(&namesake, mine), "{verb:?}: another backend says who that is");
            let theirs = UserRef { authority: Authority::OAuth2, name: "u" };
            assert!(may(&namesake, &[Resource::Connection(theirs)]), "{verb:?}");
            assert!(!may(&who(&[]), &[Resource::Connection(theirs)]), "{verb:?}");
        }
    }

    #[test]
    fn a_resource_that_is_not_named_is_refused() {
        for verb in Verb::ALL.iter().filter(|verb| !resources(**verb).is_empty()) {
            let everything = &who(&["administrator"]);
            assert!(permit(everything, of(Some(&ALL)), "/", *verb, &[]).is_err(), "{verb:?}");
        }
    }
}
