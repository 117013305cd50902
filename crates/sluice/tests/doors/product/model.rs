//! The rules about who gets which answer, written once more and as simply as possible: tags, permissions, states of virtual hosts
//! and of objects, and origins. It shares nothing with the broker.

/// What a request does to its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Does {
    /// Lists what belongs to the object, or what is in a virtual host. What does not exist has nothing.
    List,
    /// Shows the object.
    See,
    /// Shows a queue over AMQP, or asks whether an exchange exists.
    Inspect,
    Explain,
    /// Gets or consumes messages.
    Take,
    /// Looks at messages, and leaves them in the queue.
    Peek,
    /// Reads messages of a queue after it was shown.
    Search,
    /// Reads messages of a stream.
    Browse,
    Purge,
    Move,
    Publish,
    /// Publishes a message that names the queue, which may not exist.
    Send,
    Declare,
    DeclareExclusive,
    /// Declares something else that sends messages to the exchange.
    SendTo,
    Delete,
    Bind,
    Unbind,
    /// Lists the bindings between two over AMQP.
    InspectBindings,
    /// Sets or clears a policy of users.
    SetPolicy,
    ClearPolicy,
    /// The same for operators.
    SetOperatorPolicy,
    ClearOperatorPolicy,
    /// Shows the members of a quorum queue.
    SeeGroup,
    /// Maintains a quorum queue.
    Maintain,
    /// Shows what only administrators see.
    AdminSee,
    /// Changes what only administrators change, makes or deletes it.
    AdminChange,
    AdminSet,
    AdminDelete,
    /// Closes a connection of another user.
    Close,
    /// Closes all connections of another user.
    CloseAll,
    /// Opens a connection.
    Open,
}

/// The kind of the object. A binding has two ends; the other end always exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Vhost,
    Queue,
    Exchange,
    /// A binding to the queue, or to the exchange.
    ToQueue,
    ToExchange,
    /// A binding from the exchange, to a queue or to an exchange.
    FromExchange,
    ExchangeToExchange,
    Policy,
    OperatorPolicy,
    User,
    Parameter,
    Trace,
    Connection,
}

/// The state of the virtual host. The users have their permissions in the first three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Vhost {
    /// The default one, which everybody knows.
    Default,
    Team,
    /// It is being deleted.
    Closing,
    /// Only another user has permissions in it.
    Foreign,
    Absent,
    /// It is deleted while the request arrives.
    Deleted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    There,
    /// A queue that belongs to a connection of another user.
    Exclusive,
    /// A queue with a message that the disk has lost.
    Damaged,
    /// An exchange to which nobody may publish.
    Internal,
    /// The default exchange.
    Default,
    /// An exchange that the broker has declared.
    Predeclared,
    Absent,
    /// It is deleted while the request arrives, and after the client has used it.
    Deleted,
}

/// Who makes a browser, or a program, send the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    Program,
    OwnPage,
    ListedPage,
    OtherPage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Protocol {
    Http,
    Amqp091,
    Amqp10,
}

/// A user, with the same permission for all names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Who {
    pub tag: &'static str,
    /// `absent`, `none`, `configure`, `write`, `read` or `all`.
    pub rights: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Question {
    pub protocol: Protocol,
    pub does: Does,
    pub kind: Kind,
    /// False if a browser sends such a request without asking: HTTP's GET.
    pub changes: bool,
    pub who: Who,
    pub vhost: Vhost,
    pub state: State,
    pub origin: Origin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Answer {
    Done,
    Created,
    /// The page may not send such requests.
    Forbidden,
    /// The user lacks a tag or a permission.
    Refused,
    NotFound,
    /// It belongs to another connection.
    Locked,
    Damaged,
    /// Nobody may do this to such an object.
    Never,
}

use Answer::{Created, Damaged, Done, Forbidden, Locked, Never, NotFound, Refused};
use Does::{
    AdminChange, AdminDelete, AdminSee, AdminSet, Bind, Browse, ClearOperatorPolicy, ClearPolicy, Close,
    CloseAll, Declare, DeclareExclusive, Delete, Explain, Inspect, InspectBindings, List, Maintain, Move,
    Open, Peek, Publish, Purge, Search, See, SeeGroup, Send, SendTo, SetOperatorPolicy, SetPolicy, Take,
    Unbind,
};

/// What an answer may depend on, besides the request and its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tells {
    /// Nothing: it is the same for all virtual hosts that the user does not see, whatever is in them.
    Nothing,
    /// The virtual host, but not what is in it.
    Vhost,
    All,
}

impl Who {
    fn has(self, right: &str) -> bool {
        self.rights == "all" || self.rights == right
    }

    fn is_one_of(self, tags: &[&str]) -> bool {
        tags.contains(&self.tag)
    }

    fn administers(self) -> bool {
        self.is_one_of(&["administrator"])
    }

    fn monitors(self) -> bool {
        self.is_one_of(&["administrator", "monitoring"])
    }
}

impl Question {
    /// The whole model: the answer, and what it may tell.
    pub(super) fn answer(self) -> (Answer, Tells) {
        let Self { who, does, vhost, kind, .. } = self;
        let is_http = self.protocol == Protocol::Http;
        if is_http && self.changes && self.origin == Origin::OtherPage {
            return (Forbidden, Tells::Nothing);
        }
        let is_for_admins =
            matches!(does, AdminSee | AdminChange | AdminSet | AdminDelete | Maintain | CloseAll);
        if is_http && who.tag.is_empty() || is_for_admins && !who.administers() {
            return (Refused, Tells::Nothing);
        }
        let exists = !matches!(vhost, Vhost::Absent | Vhost::Deleted);
        let may_enter = who.rights != "absent" && exists && vhost != Vhost::Foreign;
        let sees = exists && (may_enter || who.monitors());
        if kind == Kind::Connection {
            return self.of_connection(may_enter, sees);
        }
        if kind == Kind::User || is_for_admins {
            return (self.of_administrator(exists), Tells::All);
        }
        if does == Open {
            // As in RabbitMQ, the text says whether the virtual host exists.
            let is_open = may_enter && vhost != Vhost::Closing;
            return (if is_open { Done } else { Refused }, Tells::All);
        }
        if !sees {
            // Everybody knows that the default virtual host exists.
            let is_known = vhost == Vhost::Default;
            return (if is_known || !is_http { Refused } else { NotFound }, Tells::Nothing);
        }
        if kind == Kind::Vhost && does == See {
            return (Done, Tells::All);
        }
        if !may_enter {
            return (Refused, Tells::Vhost);
        }
        if is_http {
            // Who may list what there is in the virtual host is told what there is not.
            let is_looked_up = (kind, does) == (Kind::Queue, Delete)
                || matches!(
                    kind,
                    Kind::ToQueue | Kind::ToExchange | Kind::FromExchange | Kind::ExchangeToExchange
                ) && does == Unbind;
            if is_looked_up && self.of_state() == NotFound {
                return (NotFound, Tells::All);
            }
        }
        let is_permitted = match does {
            List | See | SeeGroup | Open => true,
            Inspect => who.rights != "none",
            Explain | Take | Peek | Search | Browse | Purge => who.has("read"),
            Declare | DeclareExclusive | Delete => who.has("configure"),
            SendTo => who.rights == "all",
            Publish | Send => who.has("write"),
            Move | Bind | Unbind | InspectBindings => who.rights == "all",
            SetPolicy | ClearPolicy => who.is_one_of(&["administrator", "policymaker"]),
            SetOperatorPolicy | ClearOperatorPolicy => who.administers(),
            AdminSee | AdminChange | AdminSet | AdminDelete | Maintain | Close | CloseAll => true,
        };
        if !is_permitted {
            return (Refused, Tells::Vhost);
        }
        (self.of_state(), Tells::All)
    }

    /// What the state of the object allows to users with the permission.
    fn of_state(self) -> Answer {
        let Self { does, kind, state, .. } = self;
        let is_http = self.protocol == Protocol::Http;
        let is_gone = matches!(state, State::Absent | State::Deleted);
        let is_made = matches!(does, Declare | DeclareExclusive | SetPolicy | SetOperatorPolicy);
        // Nothing is made where everything is being deleted, and nobody can connect to it.
        if self.vhost == Vhost::Closing && (is_made || does == Bind) {
            return NotFound;
        }
        if self.vhost == Vhost::Closing && matches!(does, Publish | Send | Take) {
            return Never;
        }
        if is_gone {
            return match (does, kind) {
                (List | SendTo | InspectBindings, _) => Done,
                _ if is_made => Created,
                // What does not exist is deleted and unbound, as in RabbitMQ.
                (Delete | Unbind, _) if !is_http => Done,
                // As in RabbitMQ, a message that reaches no queue is dropped or released.
                (Send, _) => Done,
                _ => NotFound,
            };
        }
        let is_queue = matches!(kind, Kind::Queue | Kind::ToQueue);
        if does == SeeGroup {
            return if state == State::There { Done } else { Never };
        }
        match state {
            State::Exclusive if is_queue => match does {
                List | Publish | Send | Explain | InspectBindings => Done,
                See if is_http => Done,
                Inspect if self.protocol == Protocol::Amqp10 => Done,
                _ => Locked,
            },
            State::Damaged if is_queue => match does {
                Send | Take | Peek | Search | Browse | Purge | Move => Damaged,
                DeclareExclusive => Locked,
                _ => Done,
            },
            State::Internal if does == Publish => Never,
            State::Default if matches!(does, Declare | Delete | Bind) => Never,
            // It has no bindings that somebody has made.
            State::Default if is_http && kind != Kind::Exchange && matches!(does, See | Unbind) => NotFound,
            State::Default if self.protocol == Protocol::Amqp091 && does == Unbind => Never,
            State::Predeclared if does == Delete => Never,
            State::There if does == DeclareExclusive => Locked,
            _ => Done,
        }
    }

    /// A connection is seen by its user, and by monitors who may use its virtual host.
    fn of_connection(self, may_enter: bool, sees: bool) -> (Answer, Tells) {
        let is_gone = matches!(self.state, State::Absent | State::Deleted);
        match self.does {
            CloseAll | List => (Done, Tells::All),
            // A virtual host that the user does not see has no connections for the user.
            _ if is_gone || !sees => (NotFound, if sees { Tells::All } else { Tells::Nothing }),
            Close if self.who.administers() => (Done, Tells::All),
            Close => (Refused, Tells::All),
            _ if may_enter && self.who.monitors() => (Done, Tells::All),
            _ => (Refused, Tells::All),
        }
    }

    /// Administrators need no permissions in a virtual host.
    fn of_administrator(self, exists: bool) -> Answer {
        let is_gone = !exists || matches!(self.state, State::Absent | State::Deleted);
        match self.does {
            // What is being deleted is as good as gone for who changes it.
            AdminSet | AdminChange if self.kind != Kind::Vhost && !exists => NotFound,
            AdminSet if self.vhost == Vhost::Closing && self.kind == Kind::Vhost => Never,
            AdminSet | AdminChange if self.vhost == Vhost::Closing => NotFound,
            AdminSet => {
                if is_gone {
                    Created
                } else {
                    Done
                }
            }
            _ if is_gone => NotFound,
            Maintain if self.state == State::Exclusive => Locked,
            Maintain if self.state == State::Damaged => Never,
            _ => Done,
        }
    }
}
