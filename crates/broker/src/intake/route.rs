//! The route of a publisher's messages, and the permission to use it.

use std::sync::Arc;

use catalog::access::{AccessRefused, Identity, Question, Resource, Verb};
use catalog::{Exchange, Routable, RouteTarget, RouteTargets, Routed, Unrouted};
use message::Route;
use queue::PublisherId;

use super::Arrived;
use crate::cx::Cx;
use crate::searches::{Asker, LongRoute, REMEMBERED_MAX};

/// The most routing keys of one message if somebody else decides each of them ([`catalog::access::Remote`]): each costs a question,
/// and together they must fit into the answers that are remembered.
const REMOTE_KEYS_MAX: usize = 100;

/// The publisher of a message.
#[derive(Clone, Copy, Debug)]
pub struct Sender<'a> {
    pub vhost: &'a Arc<str>,
    /// The user who has logged in. `None` only before the login.
    pub identity: Option<&'a Identity>,
    /// The name of the connection.
    pub connection: &'a str,
    /// The number of the part of the connection that sends.
    pub part: u16,
}

/// The destination of a publisher's messages.
#[derive(Debug)]
pub enum Target {
    /// All messages take the same route, except those that name further keys.
    Route {
        route: Arc<Route>,
        /// The targets of the route, and the version of the catalog for which they were found.
        cached: Option<(u64, RouteTargets)>,
    },
    /// All messages go to this exchange, each with its own keys.
    Exchange(Arc<str>),
    /// Each message names its exchange, and its publisher is authorized for each message.
    Anywhere,
    /// Each message names its route. Messages in a row that share one are routed, and their publisher authorized, once.
    Named {
        /// The route of the message before, its targets, and the version of the catalog for which they were found.
        cached: Option<(Arc<Route>, u64, RouteTargets)>,
    },
}

/// Why a message is not sent. Each gate has one table that maps these to the errors of its protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no exchange of this name.
    NoExchange(Arc<str>),
    /// The exchange of this name is internal: clients may not publish to it.
    Internal(Arc<str>),
    /// No queue of the exchange matches the message.
    Unroutable,
    /// The publisher may not write to the exchange, or not with this key.
    AccessRefused(AccessRefused),
    /// The publisher may no longer write to the exchange of its target.
    AccessLost(AccessRefused),
    /// The route takes more steps than the message may take at once.
    TooLong(Box<LongRoute>),
    /// The exchange, the queue or the permission is not known here, but another node may know it ([`Cx::may_lag`]).
    Unsure,
}

/// What a message waits for. It is held, and handled again when that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// The answer to a question about the permission.
    Answer(Box<Question>),
    Route(Box<LongRoute>),
    /// That this node has caught up with the catalog ([`Cx::may_lag`]).
    Catalog,
}

impl Refused {
    /// Returns what the message waits for.
    ///
    /// # Errors
    /// It waits for nothing.
    pub fn awaited(self) -> Result<Awaited, Self> {
        match self {
            Self::TooLong(route) => Ok(Awaited::Route(route)),
            Self::Unsure => Ok(Awaited::Catalog),
            Self::AccessRefused(AccessRefused { question: Some(question), .. })
            | Self::AccessLost(AccessRefused { question: Some(question), .. }) => {
                Ok(Awaited::Answer(question))
            }
            refused => Err(refused),
        }
    }

    /// Returns the refusal, unless it may come from a catalog that lacks something.
    pub(super) fn if_sure(self, sender: Sender<'_>, cx: &Cx<'_>) -> Self {
        match self {
            Self::NoExchange(_) | Self::AccessRefused(_) | Self::AccessLost(_)
                if cx.may_lag && !self.is_wait() && !sender.is_remote() =>
            {
                Self::Unsure
            }
            refused => refused,
        }
    }

    /// Returns true if the message waits for something.
    pub fn is_wait(&self) -> bool {
        match self {
            Self::AccessRefused(refused) | Self::AccessLost(refused) => refused.question.is_some(),
            Self::TooLong(_) | Self::Unsure => true,
            Self::NoExchange(_) | Self::Internal(_) | Self::Unroutable => false,
        }
    }
}

impl Target {
    /// Returns a target that sends all messages to one exchange with one key.
    pub fn route(exchange: impl Into<Arc<str>>, key: impl Into<Arc<str>>) -> Self {
        Self::Route { route: Arc::new(Route::new(exchange, vec![key.into()])), cached: None }
    }

    /// Returns a target that sends all messages to the queue of this name.
    pub fn to_queue(name: impl Into<Arc<str>>) -> Self {
        Self::route("", name)
    }

    /// Returns the name of the queue that all messages go to, or `None` if they go to an exchange.
    pub fn queue(&self) -> Option<&Arc<str>> {
        match self {
            Self::Route { route, .. } if route.exchange().is_empty() => route.keys().first(),
            _ => None,
        }
    }

    /// Forgets the route of the message before, which was allowed.
    pub(super) fn forget(&mut self) {
        match self {
            Self::Route { cached, .. } => *cached = None,
            Self::Named { cached } => *cached = None,
            Self::Exchange(_) | Self::Anywhere => {}
        }
    }

    /// Returns the route of the message before, if this message takes it, too, and the catalog has not changed since.
    /// `own` is the route that the message itself names.
    pub(super) fn known(
        &self,
        own: Option<&Arc<Route>>,
        version: u64,
    ) -> Option<(&Arc<Route>, &[RouteTarget])> {
        match (self, own) {
            (Self::Route { route, cached: Some((cached, targets)) }, None) if *cached == version => {
                Some((route, targets))
            }
            (Self::Named { cached: Some((route, cached, targets)) }, Some(own))
                if *cached == version && Arc::ptr_eq(route, own) =>
            {
                Some((route, targets))
            }
            _ => None,
        }
    }

    /// Asks the catalog for the route of a message of this publisher. `own` is the route that the message itself names.
    pub(super) fn find(
        &mut self,
        publisher: PublisherId,
        sender: Sender<'_>,
        arrived: Arrived<'_>,
        own: Option<Arc<Route>>,
        allowed: &mut Allowed,
        cx: &mut Cx<'_>,
    ) -> Result<(Arc<Route>, Routed), Refused> {
        let asker = Asker::Publisher(publisher);
        let found = cx.searches.take_found(asker);
        let takes_own = own.is_some();
        let route = match (&*self, own) {
            (_, Some(own)) => own,
            (Self::Route { route, .. }, None) => route.clone(),
            (Self::Exchange(_) | Self::Anywhere | Self::Named { .. }, None) => {
                return Err(Refused::Unroutable);
            }
        };
        let is_fixed = !matches!(self, Self::Anywhere | Self::Named { .. });
        // If the exchange is known to be allowed, it is the key that is not.
        let hidden = arrived.hidden_keys();
        debug_assert!(hidden.is_empty() || takes_own, "a route with hidden keys is never remembered");
        allowed.check(sender, &route, hidden, cx).map_err(|refused| match refused {
            Refused::AccessRefused(why) if is_fixed && !allowed.knows(&route, cx) => Refused::AccessLost(why),
            refused => refused,
        })?;
        let with_hidden;
        let keys = match hidden {
            [] => route.keys(),
            hidden => {
                with_hidden = [route.keys(), hidden].concat();
                &with_hidden
            }
        };
        let random = cx.draw();
        let body;
        let routable = match arrived {
            Arrived::Amqp10 { body: bytes, found } => {
                body = bytes;
                Routable::arrived(keys, found, &body, random)
            }
            Arrived::Amqp091(basic) => Routable::of_properties(keys, basic.list(), random),
        };
        let exchange = route.exchange();
        let routed = match cx.searches.route(found, cx.catalog, sender.vhost, exchange, &routable) {
            Ok(routed) => routed,
            Err(Unrouted::NoExchange) => return Err(Refused::NoExchange(exchange.clone())),
            Err(Unrouted::TooLong { steps }) => {
                cx.counters.routing_steps += steps;
                let (vhost, exchange) = (sender.vhost.clone(), exchange.clone());
                let route = LongRoute { asker, vhost, exchange, keys: keys.to_vec(), random };
                return Err(Refused::TooLong(Box::new(route)));
            }
        };
        cx.counters.routing_steps += routed.steps;
        let version = cx.catalog.version();
        let is_remembered = routed.by_key_alone && routed.targets.len() <= REMEMBERED_MAX;
        match self {
            Self::Route { cached, .. } if !takes_own => {
                *cached = is_remembered.then(|| (version, routed.targets.clone()));
            }
            Self::Named { cached } => {
                *cached = is_remembered.then(|| (route.clone(), version, routed.targets.clone()));
            }
            Self::Route { .. } | Self::Exchange(_) | Self::Anywhere => {}
        }
        Ok((route, routed))
    }

    /// Checks that the sender may still write to the target. If each message names its own, it is checked with each.
    ///
    /// # Errors
    /// The sender may not.
    pub fn recheck(&self, sender: Sender<'_>, cx: &Cx<'_>) -> Result<(), AccessRefused> {
        let exchange = match self {
            Self::Route { route, .. } => route.exchange(),
            Self::Exchange(exchange) => exchange,
            Self::Anywhere | Self::Named { .. } => return Ok(()),
        };
        sender.permit(Verb::Publish, Resource::Exchange(exchange), cx)
    }
}

/// What the publisher may do, as far as it was asked: so a permission costs nothing until the catalog or the exchange changes.
#[derive(Debug, Default)]
pub(super) struct Allowed {
    asked: Option<Asked>,
    /// True if everything is permitted.
    is_trusted: bool,
}

/// The publisher may write to the exchange.
#[derive(Debug)]
struct Asked {
    /// The version of the catalog that was asked.
    version: u64,
    exchange: Arc<str>,
    /// True if the user may not use all keys.
    limits_keys: bool,
}

impl Allowed {
    pub(super) fn trust(&mut self, is_trusted: bool) {
        self.is_trusted = is_trusted;
    }

    fn knows(&self, route: &Route, cx: &Cx<'_>) -> bool {
        self.asked
            .as_ref()
            .is_some_and(|asked| asked.version == cx.catalog.version() && asked.exchange == *route.exchange())
    }

    /// Checks that the sender may publish to the exchange of the route, and with its keys.
    /// `hidden` are further keys.
    pub(super) fn check(
        &mut self,
        sender: Sender<'_>,
        route: &Route,
        hidden: &[Arc<str>],
        cx: &Cx<'_>,
    ) -> Result<(), Refused> {
        if self.is_trusted {
            return Ok(());
        }
        let exchange = route.exchange();
        if !self.knows(route, cx) {
            may_publish(sender, exchange, cx)?;
            let (version, limits_keys) = (cx.catalog.version(), sender.has_limited_keys(exchange, cx));
            self.asked = Some(Asked { version, exchange: exchange.clone(), limits_keys });
        }
        if self.asked.as_ref().is_none_or(|asked| asked.limits_keys) {
            let keys = route.keys().len() + hidden.len();
            if keys > REMOTE_KEYS_MAX && sender.identity.is_some_and(|who| who.remote.is_some()) {
                let why = format!(
                    "a message to topic exchange '{exchange}' with {keys} routing keys is refused: at most {REMOTE_KEYS_MAX} \
                     are asked for"
                );
                return Err(Refused::AccessRefused(AccessRefused::because(why)));
            }
            for key in route.keys().iter().chain(hidden) {
                let topic = Resource::Topic { exchange, key };
                sender.permit(Verb::PublishTopic, topic, cx).map_err(Refused::AccessRefused)?;
            }
        }
        Ok(())
    }
}

impl Arrived<'_> {
    /// Returns the keys of the message that are not in the route that it carries.
    pub(super) fn hidden_keys(&self) -> &[Arc<str>] {
        match self {
            Self::Amqp10 { .. } => &[],
            Self::Amqp091(basic) => basic.bcc(),
        }
    }
}

impl Sender<'_> {
    fn permit(self, verb: Verb, resource: Resource<'_>, cx: &Cx<'_>) -> Result<(), AccessRefused> {
        let Some(identity) = self.identity else { return Ok(()) };
        cx.catalog.users().permit(identity, self.vhost, verb, &[resource])
    }

    /// Returns true if somebody else than the catalog decides what the sender may do.
    fn is_remote(self) -> bool {
        self.identity.is_some_and(|who| who.remote.is_some())
    }

    fn has_limited_keys(self, exchange: &str, cx: &Cx<'_>) -> bool {
        let Some(identity) = self.identity else { return false };
        cx.catalog.users().rights(identity, self.vhost).limit_keys(exchange)
            && cx.catalog.is_topic(self.vhost, exchange)
    }
}

/// Checks that the exchange exists, that clients may publish to it, and that the sender has the permission.
///
/// # Errors
/// One of these conditions is not met.
pub fn may_publish(sender: Sender<'_>, exchange: &Arc<str>, cx: &Cx<'_>) -> Result<(), Refused> {
    // Who may not publish is not told whether the exchange exists.
    sender.permit(Verb::Publish, Resource::Exchange(exchange), cx).map_err(Refused::AccessRefused)?;
    match cx.catalog.exchange(sender.vhost, exchange) {
        None => Err(Refused::NoExchange(exchange.clone())),
        Some(found) if found.internal => Err(Refused::Internal(exchange.clone())),
        Some(_) => Ok(()),
    }
}

/// Posts a copy for each exchange on the route that keeps messages for later bindings.
pub(super) fn remember(
    exchanges: &[Arc<Exchange>],
    arrived: Arrived<'_>,
    route: &Arc<Route>,
    cx: &mut Cx<'_>,
) {
    if exchanges.is_empty() {
        return;
    }
    let message = arrived.to_message(route, cx.settings.durable_by_default);
    exchanges.iter().for_each(|exchange| cx.post.remember(exchange, message.clone()));
}
