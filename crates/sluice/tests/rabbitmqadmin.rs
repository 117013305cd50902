//! Sends the recorded requests of rabbitmqadmin v2, RabbitMQ's command line for the management API, to the built broker. So the
//! checks of its suite run without the tool, which takes minutes to compile. `tests/interop/rabbitmqadmin/recorder.py` says
//! what the lines of a page mean, and how they are recorded again.

use crate::broker;
use crate::routes::route_of;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use broker::verb::{ask_with, basic};
use broker::{Broker, Directory};
use serde_json::Value;

const SUITE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/interop/rabbitmqadmin");
/// How often a request is repeated whose page says `until`. A guard against hanging.
pub(crate) const TRIES_MAX: u32 = 6_000;
pub(crate) const BETWEEN_TRIES: Duration = Duration::from_millis(10);
/// What the tool accepts. The pages leave it out because every request has it.
const ACCEPT: &str = "accept: */*";

#[test]
fn the_requests_of_each_check_are_answered_with_classic_queues() {
    play_all("classic");
}

#[test]
fn the_requests_of_each_check_are_answered_with_quorum_queues() {
    play_all("quorum");
}

#[test]
fn each_check_of_the_suite_has_a_page() {
    let files = std::fs::read_dir(Path::new(SUITE).join("pages")).unwrap();
    let pages: BTreeSet<String> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    let expected: BTreeSet<String> = checks().iter().map(|check| format!("{check}.md")).collect();
    assert_eq!(pages, expected, "record the pages again: tests/interop/run.sh --record rabbitmqadmin");
}

#[test]
fn an_answer_of_another_shape_is_noticed() {
    let shape = read_shapes(
        "## GET /a 200\n```\nanswer: array\n  -: object\n    a: integer\n    b?: null or string\n```",
    );
    let shape = &shape["GET /a 200"];
    let check = |text: &str| shape.check(&serde_json::from_str(text).unwrap(), "answer").err();
    assert_eq!(check(r#"[{"a": 1, "b": "x", "c": 2}, {"a": 2}]"#), None);
    assert_eq!(check("[]"), None);
    for (text, why) in [
        ("{}", "answer is object and not array"),
        (r#"[{"a": 1}, {"b": null}]"#, "answer[1] has no a"),
        (r#"[{"a": 1.5}]"#, "answer[0].a is number and not integer"),
        (r#"[{"a": 1, "b": 2}]"#, "answer[0].b is integer and not null or string"),
    ] {
        assert_eq!(check(text).as_deref(), Some(why));
    }
    let has = |wanted, found, whole| {
        contains(&serde_json::from_str(wanted).unwrap(), &serde_json::from_str(found).unwrap(), whole)
    };
    assert!(has(r#"[{"a": 2}]"#, r#"[{"a": 1}, {"a": 2, "b": 3}]"#, false));
    assert!(!has(r#"[{"a": 2}]"#, r#"[{"a": 1}, {"a": 2, "b": 3}]"#, true));
    assert!(has(r#"[{"a": 1}, {"a": 2}]"#, r#"[{"a": 1}, {"a": 2, "b": 3}]"#, true));
    assert!(!has(r#"{"a": null}"#, "{}", false));
    assert!(!has("[]", "{}", true));
}

/// Returns the names of the checks, in the order in which the suite runs them.
fn checks() -> Vec<String> {
    let suite = read("suite.py");
    let (_, rest) = suite.split_once("\nCHECKS = [").unwrap();
    let (names, _) = rest.split_once(']').unwrap();
    names.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}

fn read(file: &str) -> String {
    std::fs::read_to_string(Path::new(SUITE).join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Plays all pages against one broker, with queues of this type.
fn play_all(queue_type: &str) {
    let directory = Directory::new("rabbitmqadmin");
    let broker = Broker::start(&directory);
    let (_, overview) = broker.get("/api/overview");
    let node = overview["node"].as_str().unwrap().to_owned();
    let shapes = read_shapes(&read("answers.md"));
    let mut player = Player { broker, queue_type, node, shapes, answered: BTreeSet::new() };
    for check in checks() {
        let page = player.fill_in(&read(&format!("pages/{check}.md")));
        player.play(&check, &page);
    }
    let unused: Vec<&String> = player.shapes.keys().filter(|key| !player.answered.contains(*key)).collect();
    assert!(unused.is_empty(), "answers.md has answers that no page gets: {unused:?}");
    assert!(player.broker.terminate().success());
}

struct Player<'a> {
    broker: Broker,
    queue_type: &'a str,
    node: String,
    /// The recorded shapes of answers, by method, route and status.
    shapes: BTreeMap<String, Shape>,
    /// The keys of the shapes with which an answer was compared.
    answered: BTreeSet<String>,
}

impl Player<'_> {
    /// Replaces what differs between brokers.
    fn fill_in(&self, page: &str) -> String {
        page.replace("{type}", self.queue_type)
            .replace("{node}", &self.node)
            .replace("{amqp port}", &self.broker.amqp_port.to_string())
    }

    /// Plays a page. A request whose answer is another one than recorded fails the test.
    fn play(&mut self, check: &str, page: &str) {
        let mut answers = BTreeMap::new();
        for step in read_steps(check, page) {
            let mut tries = 0;
            let answer = loop {
                let (status, answer) = self.send(&step, &answers);
                tries += 1;
                match self.compare(&step, status, &answer) {
                    Ok(()) => break answer,
                    Err(_) if step.is_repeated && tries < TRIES_MAX => std::thread::sleep(BETWEEN_TRIES),
                    Err(why) => {
                        let Step { line, method, path, .. } = step;
                        panic!("{check}.md:{line}: {method} {path}: {why}\n{status} {answer}")
                    }
                }
            };
            answers.insert(format!("{} {}", step.method, step.path), answer);
        }
    }

    /// Sends the request of a step. Returns the status and the body of the answer.
    fn send(&self, step: &Step<'_>, answers: &BTreeMap<String, String>) -> (u16, String) {
        let headers: Vec<&str> = [ACCEPT].into_iter().chain(step.headers.iter().copied()).collect();
        let body = match step.body {
            Body::None => "",
            Body::Text(text) => text,
            Body::AnswerTo(request) => &answers[request],
        };
        let (user, password) = step.user;
        let port = self.broker.http_port;
        let (status, answer) = ask_with(port, &basic(user, password), &headers, step.method, step.path, body);
        (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
    }

    /// Compares an answer with the page, and with the shape that the tool could read.
    fn compare(&mut self, step: &Step<'_>, status: u16, text: &str) -> Result<(), String> {
        if status != step.status {
            return Err(format!("the status is {status} and not {}", step.status));
        }
        let answer = if text.is_empty() { Value::Null } else { json(text)? };
        if !text.is_empty() {
            let (path, query) = step.path.split_once('?').unwrap_or((step.path, ""));
            let route = route_of(&format!("{} {path}", step.method)).ok_or("the broker has no such route")?;
            // The parameters of the query choose the shape of some answers.
            let names: Vec<&str> = query.split('&').filter_map(|pair| pair.split('=').next()).collect();
            let names = if query.is_empty() { String::new() } else { format!("?{}", names.join("&")) };
            let key = format!("{route}{names} {status}");
            let shape = self.shapes.get(&key).ok_or_else(|| format!("answers.md has no {key}"))?;
            shape.check(&answer, "answer")?;
            self.answered.insert(key);
        }
        for (kind, wanted) in &step.wanted {
            let wanted_value = json(wanted)?;
            let is_so = match *kind {
                "says" => text.contains(wanted_value.as_str().ok_or("no text")?),
                kind => contains(&wanted_value, &answer, kind == "is"),
            };
            if !is_so {
                return Err(format!("the page says: {kind} {wanted}"));
            }
        }
        Ok(())
    }
}

fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("{error} in {text}"))
}

/// Returns true if a value has what is wanted: objects have these members. If `whole`, arrays have these elements only, in
/// this order; otherwise they contain them.
pub(crate) fn contains(wanted: &Value, found: &Value, whole: bool) -> bool {
    match (wanted, found) {
        (Value::Object(wanted), Value::Object(found)) => wanted
            .iter()
            .all(|(name, value)| found.get(name).is_some_and(|found| contains(value, found, whole))),
        (Value::Array(wanted), Value::Array(found)) if whole => {
            wanted.len() == found.len() && wanted.iter().zip(found).all(|(a, b)| contains(a, b, whole))
        }
        (Value::Array(wanted), Value::Array(found)) => {
            wanted.iter().all(|element| found.iter().any(|one| contains(element, one, whole)))
        }
        _ => wanted == found,
    }
}

/// A request of a page, and what its answer must be.
pub(crate) struct Step<'a> {
    pub line: usize,
    pub method: &'a str,
    pub path: &'a str,
    pub user: (&'a str, &'a str),
    headers: Vec<&'a str>,
    pub body: Body<'a>,
    pub status: u16,
    pub is_repeated: bool,
    /// `has`, `is` or `says`, and a value. `rate` and `header` occur in the pages of `tools.rs` only.
    pub wanted: Vec<(&'a str, &'a str)>,
}

pub(crate) enum Body<'a> {
    None,
    Text(&'a str),
    /// The last answer to this request of the page.
    AnswerTo(&'a str),
}

pub(crate) fn read_steps<'a>(check: &str, page: &'a str) -> Vec<Step<'a>> {
    let mut steps: Vec<Step<'a>> = Vec::new();
    let mut is_fenced = false;
    for (index, text) in page.lines().enumerate() {
        let line = index + 1;
        is_fenced ^= text == "```";
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        if word == ">" {
            let (method, path) = rest.split_once(' ').unwrap();
            let step = Step {
                line,
                method,
                path,
                user: ("guest", "guest"),
                headers: Vec::new(),
                body: Body::None,
                status: 0,
                is_repeated: false,
                wanted: Vec::new(),
            };
            steps.push(step);
            continue;
        }
        if !is_fenced || ["", "$", "```"].contains(&word) {
            continue;
        }
        let step = steps.last_mut().unwrap_or_else(|| panic!("{check}.md:{line}: no request before it"));
        match word {
            "as" => step.user = rest.split_once(':').unwrap(),
            "with" => step.headers.push(rest),
            "body" => {
                step.body = rest.strip_prefix("from ").map_or(Body::Text(rest), Body::AnswerTo);
            }
            "<" => {
                step.is_repeated = rest.ends_with(" until");
                step.status = rest.trim_end_matches(" until").parse().unwrap();
            }
            "has" | "is" | "says" | "rate" | "header" => step.wanted.push((word, rest)),
            _ => panic!("{check}.md:{line}: unknown line: {text}"),
        }
    }
    steps
}

/// The types of the values at one place of the answers, and the shapes of their members and elements.
struct Shape {
    types: Vec<String>,
    /// By name: whether each object has this member, and its shape.
    members: BTreeMap<String, (bool, Shape)>,
    elements: Option<Box<Shape>>,
}

impl Shape {
    /// Checks that a value has every member that the tool could read, with the same type.
    fn check(&self, value: &Value, at: &str) -> Result<(), String> {
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        let allows = |kind: &str| self.types.iter().any(|allowed| allowed == kind);
        let is_allowed = allows(kind) || (kind == "integer" && allows("number"));
        if !is_allowed {
            return Err(format!("{at} is {kind} and not {}", self.types.join(" or ")));
        }
        if let Value::Object(found) = value {
            for (name, (is_required, shape)) in &self.members {
                match found.get(name) {
                    Some(member) => shape.check(member, &format!("{at}.{name}"))?,
                    None if *is_required => return Err(format!("{at} has no {name}")),
                    None => {}
                }
            }
        }
        if let (Value::Array(found), Some(shape)) = (value, &self.elements) {
            for (index, element) in found.iter().enumerate() {
                shape.check(element, &format!("{at}[{index}]"))?;
            }
        }
        Ok(())
    }
}

/// Reads answers.md.
fn read_shapes(page: &str) -> BTreeMap<String, Shape> {
    let sections = page.split("\n## ").map(|section| section.trim_start_matches("## "));
    let sections = sections.filter_map(|section| section.split_once("```\n"));
    let shapes = sections.map(|(key, lines)| {
        let mut lines = lines.lines().take_while(|line| *line != "```").peekable();
        (key.trim().to_owned(), read_shape(&mut lines).1)
    });
    shapes.collect()
}

/// Reads a line and the deeper lines after it. Returns the name of the member, and its shape.
fn read_shape<'a>(lines: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>) -> (&'a str, Shape) {
    let depth = |line: &str| line.len() - line.trim_start().len();
    let line = lines.next().unwrap();
    let (name, types) = line.trim_start().rsplit_once(": ").unwrap();
    let types = types.split(" or ").map(ToOwned::to_owned).collect();
    let mut shape = Shape { types, members: BTreeMap::new(), elements: None };
    while lines.peek().is_some_and(|next| depth(next) > depth(line)) {
        match read_shape(lines) {
            ("-", elements) => shape.elements = Some(Box::new(elements)),
            (name, member) => {
                let is_required = !name.ends_with('?');
                shape.members.insert(name.trim_end_matches('?').to_owned(), (is_required, member));
            }
        }
    }
    (name, shape)
}
