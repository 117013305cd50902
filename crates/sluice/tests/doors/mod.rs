//! Checks permissions at every entry point. Each AMQP verb and each HTTP route is tried against a whole node,
//! as users with every tag and every permission, and as clients with tokens that grant the same. The results must be what the
//! table of permissions says.
mod existence;
mod fixture;
mod limits;
mod names;
mod product;
mod rights;
mod routes;
mod states;
mod tokens;
mod verbs091;
mod verbs10;

use std::collections::BTreeSet;
use std::sync::Arc;

use amqp10::sasl::Secret;
use broker::admin_api::ConnectionCursor;
use catalog::access::{
    Hashing, Identity, Permissions, Resource, Rights, TopicPermissions, Topics, User, UserRef, Verb, permit,
};
use catalog::pattern::Pattern;

use fixture::{Fixture, ROOT};

const TAGS: &[&str] = &["", "administrator", "monitoring", "policymaker", "management", "impersonator"];

/// The permissions in the virtual host that are tested: each alone, none, all, and no entry for the user.
fn all_rights() -> Vec<(&'static str, Option<Permissions>)> {
    let none = || Permissions::NONE;
    vec![
        ("absent", None),
        ("none", Some(none())),
        ("configure", Some(Permissions { configure: Pattern::Everything, ..none() })),
        ("write", Some(Permissions { write: Pattern::Everything, ..none() })),
        ("read", Some(Permissions { read: Pattern::Everything, ..none() })),
        ("all", Some(Permissions::ALL)),
    ]
}

/// A user of the test.
#[derive(Clone, Debug)]
struct Subject {
    identity: Identity,
    rights: Option<Permissions>,
    topics: Topics,
    /// True if the user logs in with a token, whose scopes grant the same.
    has_token: bool,
}

impl Subject {
    fn all() -> Vec<Self> {
        let with_tag = |tag: &'static str| {
            all_rights().into_iter().map(move |(name, rights)| {
                let tags = Some(tag).filter(|tag| !tag.is_empty()).into_iter().map(str::to_owned);
                let user = format!("{tag}-{name}").as_str().into();
                Self {
                    identity: Identity {
                        user,
                        tags: tags.collect(),
                        is_of_catalog: true,
                        token: None,
                        remote: None,
                    },
                    rights,
                    topics: Topics::new(),
                    has_token: false,
                }
            })
        };
        // Administrators with all permissions, except for keys of exchange x.
        let with_topics = [("keys-none", ["", ""]), ("keys-write", [".*", ""]), ("keys-read", ["", ".*"])];
        let with_topics = with_topics.into_iter().map(|(user, patterns)| Self {
            identity: Identity::internal(user, "administrator"),
            rights: Some(Permissions::ALL),
            topics: [("x".into(), TopicPermissions::new(patterns, user, "/").unwrap())].into(),
            has_token: false,
        });
        let users: Vec<Self> = TAGS.iter().copied().flat_map(with_tag).chain(with_topics).collect();
        // All rights with each tag, and each right with one tag: the same checks follow for users and for tokens.
        let is_enough = |user: &Self| {
            user.rights == Some(Permissions::ALL) || *user.identity.tags == ["management".to_owned()]
        };
        let tokens: Vec<Self> = users.iter().filter(|user| is_enough(user)).map(Self::with_token).collect();
        users.into_iter().chain(tokens).collect()
    }

    /// Returns the client that has the same rights by a token.
    fn with_token(&self) -> Self {
        let user = format!("token-{}", self.name()).as_str().into();
        let identity = Identity { user, ..self.identity.clone() };
        Self { identity, has_token: true, ..self.clone() }
    }

    fn name(&self) -> &str {
        &self.identity.user
    }

    fn user(&self) -> User {
        User {
            name: self.identity.user.clone(),
            hash: Hashing::Sha256.hash([1; 16], &Secret::new(self.name().to_owned())),
            tags: self.identity.tags.to_vec(),
            loopback_only: true,
            permissions: self.rights.clone().map(|rights| ("/".into(), rights)).into_iter().collect(),
        }
    }

    /// Returns true if the table permits the verb. The permissions of these users do not depend on names, so one queue and
    /// one exchange stand for all.
    fn may(&self, verb: Verb) -> bool {
        let on = match verb {
            Verb::ReadConnection | Verb::CloseConnection | Verb::ExplainConnection => {
                [Resource::Connection(UserRef::internal(ROOT)); 2]
            }
            Verb::PublishTopic | Verb::BindTopic => [Resource::Topic { exchange: "x", key: "k" }; 2],
            _ => [Resource::Queue("q"), Resource::Exchange("x")],
        };
        let rights = Rights::User { permissions: self.rights.as_ref(), topics: Some(&self.topics) };
        permit(&self.identity, rights, "/", verb, &on).is_ok()
    }
}

async fn walk_amqp(fixture: &Fixture, subjects: &[Subject], walked: &mut BTreeSet<Verb>) {
    walked.insert(Verb::OpenVhost);
    for subject in subjects {
        let connection = match fixture.connect(subject.name()).await {
            Ok(connection) => connection,
            Err(refused) => {
                assert_eq!(refused.condition(), Some("amqp:unauthorized-access"), "{subject:?}: {refused}");
                assert!(!subject.may(Verb::OpenVhost), "{subject:?}");
                continue;
            }
        };
        assert!(subject.may(Verb::OpenVhost), "{subject:?}");
        for (what, verbs) in verbs10::ASKS {
            walked.extend(*verbs);
            let session = connection.session().await.unwrap();
            let result = verbs10::ask(&session, *what).await;
            let may = verbs.iter().all(|verb| subject.may(*verb));
            let refused = result.as_ref().is_err_and(verbs10::is_refused);
            assert_eq!(refused, !may, "{what:?} as {subject:?}: {result:?}");
            if !refused {
                session.end().await.unwrap();
            }
        }
        connection.close().await.unwrap();
    }
}

/// The same for AMQP 0.9.1: each request as each user, on a channel of its own.
async fn walk_amqp091(fixture: &Fixture, subjects: &[Subject], walked: &mut BTreeSet<Verb>) {
    for subject in subjects {
        let client = verbs091::Client::open(&fixture.url(subject.name()), subject.name()).await;
        assert_eq!(client.is_some(), subject.may(Verb::OpenVhost), "{subject:?}");
        let Some(mut client) = client else { continue };
        for (what, verbs) in verbs091::ASKS {
            walked.extend(*verbs);
            let may = verbs.iter().all(|verb| subject.may(*verb));
            assert_eq!(client.ask(*what).await, may, "{what:?} as {subject:?}");
        }
    }
}

/// The metrics and the samples read rows through the admin API.
async fn walk_metrics(fixture: &Fixture, subjects: &[Subject], walked: &mut BTreeSet<Verb>) {
    walked.insert(Verb::ReadAllStatistics);
    let api = fixture.node.api();
    for subject in subjects {
        let who = &subject.identity;
        let read = [
            api.queue_rows(who, 0, 1).await.is_ok(),
            api.sampled_queues(who, &[]).await.is_ok(),
            api.sampled_connections(who, Arc::default()).await.is_ok(),
            api.connection_rows(who, ConnectionCursor::default()).await.is_ok(),
            api.exchange_rows(who).await.is_ok(),
            api.sampled_exchanges(who, &[]).await.is_ok(),
        ];
        assert_eq!(read, [subject.may(Verb::ReadAllStatistics); 6], "{subject:?}");
    }
    assert!(api.queue_rows(&Identity::metrics_reader(), 0, 1).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doors_do_what_the_table_says() {
    let subjects = Subject::all();
    let fixture = Fixture::open("table", &subjects).await;
    let mut walked = BTreeSet::new();
    routes::walk(&fixture, &subjects, &mut walked).await;
    walk_amqp(&fixture, &subjects, &mut walked).await;
    walk_amqp091(&fixture, &subjects, &mut walked).await;
    walk_metrics(&fixture, &subjects, &mut walked).await;
    let missing: Vec<&Verb> = Verb::ALL.iter().filter(|verb| !walked.contains(verb)).collect();
    assert!(missing.is_empty(), "no door was walked through for {missing:?}");
    fixture.close();
}
