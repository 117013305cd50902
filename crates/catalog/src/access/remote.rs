//! Permissions that somebody else decides, such as an HTTP server. A gate asks in its own shard, as for any other user. If the
//! answer is not known yet, the gate holds what the client wants, has the question asked, and tries again.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::HashMap;

use super::{Permission, Resource};

/// The most answers that one login remembers, some 100 KiB. When there are more, all are asked again.
const ANSWERS_MAX: usize = 1000;

/// A question about a user in a virtual host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Question {
    pub vhost: String,
    pub about: About,
}

/// What a question is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum About {
    /// Whether the user may use the virtual host at all.
    Vhost,
    Queue {
        name: String,
        permission: Permission,
    },
    Exchange {
        name: String,
        permission: Permission,
    },
    /// A routing key of a topic exchange.
    Key {
        exchange: String,
        key: String,
        permission: Permission,
    },
}

/// Answers whether something is allowed.
pub type Answering<'a> = Pin<Box<dyn Future<Output = bool> + Send + 'a>>;

/// Somebody who decides permissions. It may be slow, and says no if it does not know.
pub trait Authorizer: fmt::Debug + Send + Sync {
    /// Asks about a user.
    fn ask<'a>(&'a self, user: &'a str, question: &'a Question) -> Answering<'a>;
}

/// The permissions of one login, as far as they were asked for.
#[derive(Debug)]
pub struct Remote {
    authorizer: Arc<dyn Authorizer>,
    user: Arc<str>,
    answers: Mutex<HashMap<Question, bool>>,
}

impl Remote {
    pub fn new(authorizer: Arc<dyn Authorizer>, user: Arc<str>) -> Self {
        Self { authorizer, user, answers: Mutex::default() }
    }

    /// Asks a question, and remembers the answer. A refusal counts for one use, so that the client may try again later.
    pub async fn ask(&self, question: &Question) {
        let is_allowed = self.authorizer.ask(&self.user, question).await;
        let mut answers = self.answers();
        if answers.len() >= ANSWERS_MAX {
            answers.clear();
        }
        answers.insert(question.clone(), is_allowed);
    }

    /// Returns the answer to a question.
    ///
    /// # Errors
    /// It is not known: the question is to be asked.
    pub(super) fn knows(&self, vhost: &str, about: About) -> Result<bool, Box<Question>> {
        let question = Question { vhost: vhost.to_owned(), about };
        let mut answers = self.answers();
        match answers.get(&question) {
            Some(true) => Ok(true),
            Some(false) => {
                answers.remove(&question);
                Ok(false)
            }
            None => Err(Box::new(question)),
        }
    }

    pub(super) fn knows_resource(
        &self,
        vhost: &str,
        permission: Permission,
        resource: Resource<'_>,
    ) -> Result<bool, Box<Question>> {
        let name = resource.name().to_owned();
        match resource {
            Resource::Queue(_) => self.knows(vhost, About::Queue { name, permission }),
            Resource::Exchange(_) => self.knows(vhost, About::Exchange { name, permission }),
            // Tags decide about these, and keys are asked for with their exchange.
            Resource::Topic { .. }
            | Resource::Policy(_)
            | Resource::OperatorPolicy(_)
            | Resource::Connection(_) => Ok(false),
        }
    }

    fn answers(&self) -> std::sync::MutexGuard<'_, HashMap<Question, bool>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use amqp10::sasl::Secret;

    use super::super::{
        Authority, ConnectionCounts, ConnectionLimits, Full, Hashing, Identity, UserLimits, Users, Verb,
    };
    use super::*;

    /// Allows queues of this name, in any virtual host.
    #[derive(Debug)]
    struct Only(&'static str);

    impl Authorizer for Only {
        fn ask<'a>(&'a self, _: &'a str, question: &'a Question) -> Answering<'a> {
            let is_allowed = match &question.about {
                About::Vhost => true,
                About::Queue { name, .. } => name == self.0,
                _ => false,
            };
            Box::pin(std::future::ready(is_allowed))
        }
    }

    fn asked(who: &Identity, queue: &str) -> Result<(), (String, Option<Question>)> {
        let refused = Users::default().permit(who, "v", Verb::Consume, &[Resource::Queue(queue)]);
        refused.map_err(|refused| (refused.reason, refused.question.map(|question| *question)))
    }

    /// Polls a future that is ready at once.
    fn now<T>(future: impl Future<Output = T>) -> T {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::pin!(future).poll(&mut cx) {
            std::task::Poll::Ready(value) => value,
            std::task::Poll::Pending => panic!("it waits"),
        }
    }

    #[test]
    fn what_is_not_known_is_asked_once_and_refusals_again() {
        let who = Identity::remote("ann".into(), [].into(), Arc::new(Only("q")));
        let remote = who.remote.clone().unwrap();
        for (queue, answer) in [("q", Ok(())), ("r", Err(()))] {
            let (_, question) = asked(&who, queue).unwrap_err();
            let about = About::Queue { name: queue.into(), permission: Permission::Read };
            let expected = Question { vhost: "v".into(), about };
            assert_eq!(question, Some(expected.clone()));
            now(remote.ask(&expected));
            assert_eq!(asked(&who, queue).map_err(|(_, question)| assert_eq!(question, None)), answer);
        }
        assert_eq!(asked(&who, "q"), Ok(()), "known");
        assert!(asked(&who, "r").unwrap_err().1.is_some(), "asked again");
    }

    /// Limits belong to the user of the catalog, whoever decides about the permissions. A namesake of another backend has none.
    #[test]
    fn a_user_of_the_catalog_has_limits_although_somebody_else_is_asked() {
        let limits = UserLimits { max_connections: Some(1), max_channels: Some(2) };
        let (mut users, nobody) = (Users::default(), Hashing::Sha256.hash([1; 16], &Secret::new("p")));
        users.set(&"ann".into(), nobody, &[].into());
        users.set_limits("ann", limits);
        let namesake = Identity::remote("ann".into(), [].into(), Arc::new(Only("q")));
        let ann = Identity { is_of_catalog: true, ..namesake.clone() };
        assert_eq!((ann.authority(), users.limits_of(&ann)), (Authority::Http, limits));
        assert_eq!(users.limits_of(&namesake), UserLimits::default());
        assert_eq!(users.limits_of(&Identity::internal("ann", "")), limits);
    }

    /// Clients may come by two chains of backends: those of the protocols and those of HTTP.
    #[test]
    fn a_user_of_the_catalog_counts_once_whoever_is_asked() {
        let namesake = Identity::remote("ann".into(), [].into(), Arc::new(Only("q")));
        let ann = Identity { is_of_catalog: true, ..namesake.clone() };
        let counts = ConnectionCounts::default();
        let one = ConnectionLimits { user: Some(1), ..ConnectionLimits::default() };
        let take = |who: &Identity| counts.open(&"v".into(), who.counted_as(), one);
        let counted = take(&Identity::internal("ann", "")).expect("a free place");
        assert_eq!(take(&ann).unwrap_err(), Full::User(1));
        let _other = take(&namesake).expect("another user");
        assert_eq!(take(&namesake).unwrap_err(), Full::User(1));
        drop(counted);
        let _ann = take(&ann).expect("a free place");
        assert_eq!(take(&Identity::internal("ann", "")).unwrap_err(), Full::User(1));
    }

    #[test]
    fn answers_are_bounded() {
        let remote = Remote::new(Arc::new(Only("q")), "ann".into());
        for number in 0..2 * ANSWERS_MAX {
            let question = Question { vhost: number.to_string(), about: About::Vhost };
            now(remote.ask(&question));
            assert!(remote.answers().len() <= ANSWERS_MAX);
        }
    }
}
