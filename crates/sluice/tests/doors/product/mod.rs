//! The whole product: each request that names an object, of every user, for every state of the object and of its virtual host,
//! and of every origin. A model says what should be answered.
//!
//! A run asks some of the questions, which `SLUICE_SEED=n` chooses. `SLUICE_SOAK=n` asks n times as many: with 7 all those over
//! AMQP, with 60 all those over HTTP. Whoever asks, asks about all states, so that their answers can be compared.

mod amqp091;
mod amqp10;
mod client;
mod http;
mod model;
mod world;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use admin::Method;
use random::Random;

use self::model::{Answer, Does, Kind, Origin, Protocol, Question, State, Tells, Vhost, Who};
use self::world::World;

/// A guard against hanging, not a measure. The broker answers each request within 30 seconds, and refuses it if it cannot.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many users with an origin each request has, with all states.
const USERS: usize = 2;

/// How many requests each user makes over AMQP, with all states.
const CLIENTS: usize = 4;

/// Returns some of the items, or all if there are no more.
fn some<T>(mut items: Vec<T>, count: usize, random: &mut Random) -> Vec<T> {
    for at in 0..count.min(items.len()) {
        let other = at + random.index(items.len() - at);
        items.swap(at, other);
    }
    items.truncate(count);
    items
}

/// What the broker has answered.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    what: String,
    /// A status, a reply code or a condition.
    code: String,
    /// Everything that the client is told, without the names of the object and of the virtual host.
    text: String,
    /// True if the page of another origin may read the answer.
    is_shared: bool,
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.text)
    }
}

impl Question {
    /// Returns the place of the question in the product.
    fn shown(self) -> String {
        let Self { does, kind, who, vhost, state, origin, .. } = self;
        format!("({does:?}, {kind:?}, as {}, {vhost:?}, {state:?}, {origin:?})", who.name())
    }
}

impl Asked {
    /// `told` begins with the code.
    fn new(what: String, told: &str, name: &str, vhost: Vhost) -> Self {
        let mut text = told.to_owned();
        for (name, with) in [(name, "NAME"), (vhost.name(), "VHOST")] {
            text = match name {
                "/" | "" => text.replace(&format!("'{name}'"), &format!("'{with}'")),
                _ => text.replace(name, with),
            };
        }
        let code = told.split(' ').next().unwrap_or_default().to_owned();
        Self { what, code, text, is_shared: false }
    }
}

/// Waits for an answer, which must come.
async fn in_time<T>(what: &str, answer: impl Future<Output = T>) -> T {
    let answered = tokio::time::timeout(PATIENCE, answer).await;
    answered.unwrap_or_else(|_| panic!("{what}: no answer"))
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A user with a request about a kind of objects, and the virtual host if the user sees it.
type Asker = (String, Who, Kind, Option<Vhost>);

/// Collects what is wrong: an answer that is not the model's, and answers that differ although they must tell nothing.
#[derive(Default)]
struct Verdict {
    wrong: Vec<String>,
    asked: usize,
    /// The first answer to each request of a user that must tell nothing, with its question.
    blind: BTreeMap<Asker, (String, Question)>,
}

impl Verdict {
    /// `codes` are the codes of the model's answer. `ask` names the request without its object.
    fn add(&mut self, ask: &str, question: Question, asked: &Asked, codes: &[&str]) {
        self.asked += 1;
        let (answer, tells) = question.answer();
        if !codes.contains(&asked.code.as_str()) {
            self.wrong.push(format!("{asked}: instead of {answer:?} {}", question.shown()));
        }
        let of = match tells {
            Tells::Nothing if answer == Answer::Forbidden => return,
            Tells::Nothing if question.vhost == Vhost::Default => Some(Vhost::Default),
            Tells::Nothing => None,
            Tells::Vhost => Some(question.vhost),
            Tells::All => return,
        };
        let key = (ask.to_owned(), question.who, question.kind, of);
        let (text, other) = self.blind.entry(key).or_insert_with(|| (asked.text.clone(), question));
        if *text != asked.text {
            let (here, there) = ((question.vhost, question.state), (other.vhost, other.state));
            self.wrong.push(format!("{asked}: {here:?} differs from {there:?}: {text} {}", question.shown()));
        }
    }

    fn end(self) {
        let (wrong, asked) = (self.wrong, self.asked);
        assert!(asked > 0 && wrong.is_empty(), "{} of {asked} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    }
}

/// Returns true if the object, or its message, is gone after the request.
fn takes_away(does: Does) -> bool {
    use Does::{AdminDelete, ClearOperatorPolicy, ClearPolicy, Delete, Move, Purge, Unbind};
    matches!(does, AdminDelete | Delete | Unbind | ClearPolicy | ClearOperatorPolicy | Purge | Move)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_answers_as_the_model_does() {
    let mut world = World::open("product-http").await;
    let mut random = Random(number("SLUICE_SEED", 1));
    let count = USERS * number("SLUICE_SOAK", 1) as usize;
    let origins = [Origin::Program, Origin::OwnPage, Origin::ListedPage, Origin::OtherPage];
    let askers: Vec<(Who, Origin)> =
        Who::all().into_iter().flat_map(|who| origins.map(|origin| (who, origin))).collect();
    let mut verdict = Verdict::default();
    for (route, kind, does) in http::asks() {
        let name = format!("{} {}", route.method, route.path);
        for (who, origin) in some(askers.clone(), count, &mut random) {
            for vhost in OPENED {
                for state in http::states(kind, vhost) {
                    let question = Question {
                        protocol: Protocol::Http,
                        does,
                        kind,
                        changes: route.method != Method::Get,
                        who,
                        vhost,
                        state: *state,
                        origin,
                    };
                    // The virtual hosts are needed for the other questions, and nothing can be made again in one of them.
                    let is_needed = kind == Kind::Vhost || vhost == Vhost::Closing;
                    if is_needed && takes_away(does) && question.answer().0 == Answer::Done {
                        continue;
                    }
                    let asked = http::ask(&mut world, route, question).await;
                    let may_read = origin == Origin::ListedPage;
                    if asked.is_shared != may_read {
                        verdict.wrong.push(format!("pages of {origin:?} may read {asked:?}"));
                    }
                    verdict.add(&name, question, &asked, http::codes(question));
                }
            }
        }
    }
    verdict.end();
    world.close().await;
}

/// The virtual hosts and states in which an object is asked about over AMQP: those of HTTP that a client can connect to.
fn places(kind: Kind) -> impl Iterator<Item = (Vhost, State)> {
    let of = move |vhost: Vhost| http::states(kind, vhost).iter().map(move |state| (vhost, *state));
    [Vhost::Default, Vhost::Team].into_iter().flat_map(of)
}

fn over(protocol: Protocol, does: Does, kind: Kind, who: Who, (vhost, state): (Vhost, State)) -> Question {
    Question { protocol, does, kind, changes: true, who, vhost, state, origin: Origin::Program }
}

/// All states of a virtual host.
const OPENED: [Vhost; 6] =
    [Vhost::Default, Vhost::Team, Vhost::Closing, Vhost::Foreign, Vhost::Absent, Vhost::Deleted];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_method_answers_as_the_model_does() {
    let mut world = World::open("product-091").await;
    let mut random = Random(number("SLUICE_SEED", 1));
    let count = CLIENTS * number("SLUICE_SOAK", 1) as usize;
    let mut verdict = Verdict::default();
    for who in Who::all() {
        let asks: Vec<_> = if who.rights == "absent" {
            Vec::new()
        } else {
            some(amqp091::ASKS.to_vec(), count, &mut random)
        };
        let name = who.name();
        let mut clients = amqp091::Clients::new(&name);
        for (what, kind, does) in asks {
            for place in places(kind) {
                let question = over(Protocol::Amqp091, does, kind, who, place);
                let asked = in_time(what, clients.ask(&mut world, what, question)).await;
                verdict.add(what, question, &asked, amqp091::codes(question.answer().0));
            }
        }
        for vhost in OPENED {
            let question = over(Protocol::Amqp091, Does::Open, Kind::Vhost, who, (vhost, State::There));
            let asked = amqp091::open(&mut world, question).await;
            verdict.add("connection.open", question, &asked, amqp091::opened(question.answer().0));
        }
    }
    verdict.end();
    world.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_request_of_amqp_1_0_answers_as_the_model_does() {
    let mut world = World::open("product-10").await;
    let mut random = Random(number("SLUICE_SEED", 1));
    let count = CLIENTS * number("SLUICE_SOAK", 1) as usize;
    let mut verdict = Verdict::default();
    for who in Who::all() {
        let asks: Vec<_> =
            if who.rights == "absent" { Vec::new() } else { some(amqp10::ASKS.to_vec(), count, &mut random) };
        let mut connections = BTreeMap::new();
        for (what, kind, does) in asks {
            for place in places(kind) {
                // The default exchange has no path.
                if place.1 == State::Default && ["PUT exchange", "DELETE exchange"].contains(&what) {
                    continue;
                }
                let question = over(Protocol::Amqp10, does, kind, who, place);
                let connection = match connections.remove(&place.0) {
                    Some(connection) => connection,
                    None => amqp10::connect(&world, question).await.unwrap(),
                };
                let asked = in_time(what, amqp10::ask(&mut world, &connection, what, question)).await;
                connections.insert(place.0, connection);
                verdict.add(what, question, &asked, amqp10::codes(question));
            }
        }
        for vhost in OPENED {
            let question = over(Protocol::Amqp10, Does::Open, Kind::Vhost, who, (vhost, State::There));
            let asked = amqp10::open(&mut world, question).await;
            verdict.add("open", question, &asked, amqp10::codes(question));
        }
    }
    verdict.end();
    world.close().await;
}
