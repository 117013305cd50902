//! Plays a page: prose with fenced transcripts. Every `##` heading is a scene with its own world. Transcripts
//! before the first heading are played at the start of every scene.

use std::net::SocketAddr;

use amqp10::Value;
use catalog::{Arguments, DEFAULT_VHOST, DeclareExchange, Destination};

use crate::amqp091;
use crate::fields::Seen;
use crate::setup::configure;
use crate::text::{self, Names, Parsed, Token};
use crate::world::{Setup, World};

/// A scene whose result differs from its page.
#[derive(Debug)]
pub struct Failure {
    pub scene: String,
    /// The transcript: `-` marks what was expected, `+` what was received.
    pub transcript: String,
}

/// Plays a page: each scene on one shard, and again on two. Returns the number of scenes.
///
/// # Errors
/// The scenes that differ from the page.
pub fn check(page: &str) -> Result<usize, Vec<Failure>> {
    play(page, None)
}

/// Plays a page against another broker. Scenes that need more than clients are left out.
///
/// # Errors
/// The scenes that differ from the page.
pub fn check_against(page: &str, broker: SocketAddr) -> Result<usize, Vec<Failure>> {
    play(page, Some(broker))
}

fn play(page: &str, against: Option<SocketAddr>) -> Result<usize, Vec<Failure>> {
    let (prelude, scenes) = scenes(page);
    let mut failures = Vec::new();
    for (name, lines) in &scenes {
        if against.is_some() && prelude.iter().chain(lines).any(|line| !is_of_clients(line)) {
            continue;
        }
        // Settings, users and clients of a scene are set up before everything else.
        let (setup, lines): (Vec<_>, Vec<_>) = lines.iter().cloned().partition(|l| is_setup(l));
        for shards in if against.is_some() { 1..=1 } else { 1..=2 } {
            let setup_of_world = Setup { shards, against, ..Setup::default() };
            let mut stage = Stage { setup: Some(setup_of_world), ..Stage::default() };
            stage.play(&setup);
            stage.play(&prelude);
            if !stage.failed {
                stage.transcript.clear();
                stage.play(&lines);
            }
            if stage.failed {
                let scene = format!("{name} (shards: {shards})");
                failures.push(Failure { scene, transcript: stage.transcript });
                break;
            }
        }
    }
    if failures.is_empty() { Ok(scenes.len()) } else { Err(failures) }
}

type Scenes = Vec<(String, Vec<String>)>;

fn scenes(page: &str) -> (Vec<String>, Scenes) {
    let (mut prelude, mut scenes, mut fenced): (Vec<String>, Scenes, bool) = Default::default();
    for line in page.lines() {
        if line.starts_with("```") {
            fenced = !fenced;
        } else if fenced && !line.trim().is_empty() {
            scenes.last_mut().map_or(&mut prelude, |(_, lines)| lines).push(line.trim().to_owned());
        } else if let Some(name) = line.strip_prefix("## ") {
            scenes.push((name.to_owned(), Vec::new()));
        }
    }
    (prelude, scenes)
}

fn is_setup(line: &str) -> bool {
    let step = line.split(' ').next().unwrap_or_default();
    matches!(step, "shards" | "set" | "user" | "client")
}

/// Returns true if a line can be played against another broker.
fn is_of_clients(line: &str) -> bool {
    match Line::parse(line) {
        Line::Step(step) => {
            let step = step.split(' ').next().unwrap_or_default();
            matches!(step, "user" | "client" | "time" | "drop" | "forget" | "queue" | "socket" | "shards")
        }
        Line::Send(..) | Line::Quiet(..) | Line::Expect(..) => true,
    }
}

/// One line of a transcript.
enum Line<'a> {
    /// `A> frame`: a client sends it.
    Send(&'a str, &'a str),
    /// `A~ frame`: a client sends it. Answers are ignored unless they are errors.
    Quiet(&'a str, &'a str),
    /// `A< frame`: the frame that a client must receive.
    Expect(&'a str, &'a str),
    Step(&'a str),
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Self {
        let (who, rest) = line.split_once(' ').unwrap_or((line, ""));
        let split = |mark: char| who.strip_suffix(mark).filter(|who| !who.contains(char::is_lowercase));
        let name = |who: &'a str| if who.is_empty() { "A" } else { who };
        if let Some(who) = split('>') {
            Self::Send(name(who), rest)
        } else if let Some(who) = split('~') {
            Self::Quiet(name(who), rest)
        } else if let Some(who) = split('<') {
            Self::Expect(name(who), rest)
        } else {
            Self::Step(line)
        }
    }
}

/// How a client connects if the page does not say each step.
struct Options {
    user: String,
    shard: usize,
    peer: SocketAddr,
    /// The fields of AMQP 1.0's OPEN.
    open: String,
    /// The fields of AMQP 0.9.1's `connection.start-ok` and `connection.tune-ok`.
    start_ok: String,
    tune_ok: String,
}

/// What a client of AMQP 0.9.1 tells the broker about itself if the page does not say it.
const START_OK: &str = "client-properties={capabilities: {authentication_failure_close: true, \
    basic.nack: true, connection.blocked: true, consumer_cancel_notify: true, publisher_confirms: true}}";

/// The limits that a client of AMQP 0.9.1 chooses if the page does not say it. There are no heartbeats.
const TUNE_OK: &str = "channel-max=2047 frame-max=131072";

#[derive(Default)]
struct Stage {
    setup: Option<Setup>,
    world: Option<World>,
    clients: std::collections::BTreeMap<String, Options>,
    names: Names,
    transcript: String,
    failed: bool,
}

impl Stage {
    fn note(&mut self, mark: char, line: &str) {
        self.failed |= mark != ' ';
        self.transcript += &format!("{mark} {line}\n");
    }

    fn play(&mut self, lines: &[String]) {
        let mut expecting = false;
        for line in lines {
            let parsed = Line::parse(line);
            if expecting && !matches!(parsed, Line::Expect(..)) {
                self.nothing_left();
            }
            expecting = matches!(parsed, Line::Expect(..));
            let result = match parsed {
                Line::Expect(who, rest) => {
                    self.expect(who, rest, line);
                    continue;
                }
                Line::Send(who, rest) => {
                    self.note(' ', line);
                    self.send(who, rest)
                }
                Line::Quiet(who, rest) => {
                    self.note(' ', line);
                    self.quiet(who, rest)
                }
                Line::Step(step) => {
                    self.note(' ', line);
                    self.step(step)
                }
            };
            if let Err(why) = result {
                self.note('!', &why);
            }
        }
        self.nothing_left();
    }

    fn world(&mut self) -> &mut World {
        let setup = &mut self.setup;
        self.world.get_or_insert_with(|| World::new(setup.take().unwrap_or_default()))
    }

    /// Reports frames that were received but are not in the page.
    fn nothing_left(&mut self) {
        let Some(world) = &mut self.world else { return };
        world.settle();
        let mut left = Vec::new();
        for (who, client) in &mut world.clients {
            left.extend(client.seen.drain(..).map(|seen| line_of(who, &seen)));
        }
        left.iter().for_each(|line| self.note('+', line));
    }

    fn expect(&mut self, who: &str, rest: &str, line: &str) {
        self.world().settle();
        let (name, tokens) = match words(rest, &self.names) {
            Ok(expected) => expected,
            Err(why) => return self.note('!', &format!("{line}: {why}")),
        };
        let (times, tokens) = times(tokens);
        for n in 1..=times {
            let seen = self.world().clients.get_mut(who).and_then(|c| c.seen.pop_front());
            // Another broker may close the socket later.
            if seen.is_none() && name == "closed" && self.world().is_remote() {
                return;
            }
            let fits = seen.as_ref().is_some_and(|seen| {
                seen.name == name && text::tokens_match(&tokens, &seen.tokens, &mut self.names)
            });
            if !fits {
                let which = if times > 1 { format!("   (number {n})") } else { String::new() };
                self.note('-', &format!("{line}{which}"));
                if let Some(seen) = seen {
                    self.note('+', &line_of(who, &seen));
                }
                return;
            }
        }
        self.note(' ', line);
    }

    fn send(&mut self, who: &str, rest: &str) -> Parsed<()> {
        let (name, tokens) = words(rest, &self.names)?;
        if !self.world().clients.contains_key(who) {
            self.connect(who);
            match &*name {
                "header" | "bytes" => {}
                name if amqp091::send::is_ours(name, &tokens) => self.log_in_091(who, name)?,
                _ => self.log_in(who)?,
            }
        }
        let (times, tokens) = times(tokens);
        for _ in 0..times {
            let world = self.world();
            let client = world.clients.get_mut(who).ok_or("no such client")?;
            let bytes = client.encode(&name, tokens.clone())?;
            world.input(who, &bytes);
        }
        Ok(())
    }

    fn quiet(&mut self, who: &str, rest: &str) -> Parsed<()> {
        self.world().settle();
        let before = self.world().clients.get(who).map_or(0, |c| c.seen.len());
        self.send(who, rest)?;
        self.world().settle();
        let Some(client) = self.world().clients.get_mut(who) else { return Ok(()) };
        let answers: Vec<Seen> = client.seen.drain(before..).collect();
        let is_bad = |seen: &&Seen| {
            matches!(&*seen.name, "channel.close" | "connection.close")
                || seen.tokens.iter().any(|t| t.key == "error")
        };
        let bad = answers.iter().find(is_bad);
        bad.map_or(Ok(()), |seen| Err(line_of(who, seen)))
    }

    fn connect(&mut self, who: &str) {
        let place = who.bytes().next().map_or(0, |b| usize::from(b.wrapping_sub(b'A')));
        let local = SocketAddr::from(([127, 0, 0, 1], 1));
        let options = self.clients.get(who);
        let (shard, peer) = options.map_or((place, local), |o| (o.shard, o.peer));
        self.world().connect(who, shard, peer);
    }

    /// Sends SASL, OPEN and BEGIN on channel 0.
    fn log_in(&mut self, who: &str) -> Parsed<()> {
        let (user, open) = match self.clients.get(who) {
            Some(options) => (options.user.clone(), options.open.clone()),
            None => ("guest".to_owned(), String::new()),
        };
        let init = format!("init mechanism=PLAIN response=\"\\0{user}\\0{user}\"");
        let open = format!("open id={who} {open}");
        ["header sasl", &init, "header amqp", &open, "begin"]
            .iter()
            .try_for_each(|line| self.quiet(who, line))
    }

    /// Opens a connection of AMQP 0.9.1. Opens channel 1, unless the page does this itself with `next`.
    fn log_in_091(&mut self, who: &str, next: &str) -> Parsed<()> {
        let options = self.clients.get(who);
        let user = options.map_or("guest", |o| &o.user);
        let or_usual = |given: Option<&str>, usual: &str| match given {
            Some(given) if !given.is_empty() => given.to_owned(),
            _ => usual.to_owned(),
        };
        let start_ok = or_usual(options.map(|o| &*o.start_ok), START_OK);
        let tune_ok = or_usual(options.map(|o| &*o.tune_ok), TUNE_OK);
        let login = format!("mechanism=PLAIN response=\"\\0{user}\\0{user}\" locale=en_US {start_ok}");
        let lines = [
            "header 0-9-1",
            &format!("connection.start-ok {login}"),
            &format!("connection.tune-ok {tune_ok}"),
            "connection.open virtual-host=\"/\"",
        ];
        lines.iter().try_for_each(|line| self.quiet(who, line))?;
        if next == "channel.open" { Ok(()) } else { self.quiet(who, "channel.open") }
    }

    fn step(&mut self, line: &str) -> Parsed<()> {
        let (step, rest) = line.split_once(' ').unwrap_or((line, ""));
        if let Some(setup) = self.setup_of_world()
            && configure(setup, step, rest)?
        {
            return Ok(());
        }
        if self.world.as_ref().is_some_and(World::is_remote) && matches!(step, "queue" | "socket") {
            return Ok(());
        }
        let mut tokens = text::tokens(rest)?;
        let word = |tokens: &[Token], at: usize| tokens.get(at).map(|t| t.key.clone()).unwrap_or_default();
        let (first, second) = (word(&tokens, 0), word(&tokens, 1));
        match (step, &*first) {
            ("client", who) => {
                let get = |key: &str| tokens.iter().find(|t| t.key == key).map(|t| t.value.clone());
                let text = |key| get(key).and_then(|v| v.as_str().map(str::to_owned));
                let peer = text("peer").unwrap_or("127.0.0.1:1".into());
                let options = Options {
                    user: text("user").unwrap_or("guest".into()),
                    shard: get("shard").and_then(|v| v.as_u64()).unwrap_or(0) as usize,
                    peer: peer.parse().map_err(|_| "peer=\"ip:port\"")?,
                    open: text("open").unwrap_or_default(),
                    start_ok: text("start-ok").unwrap_or_default(),
                    tune_ok: text("tune-ok").unwrap_or_default(),
                };
                self.clients.insert(who.to_owned(), options);
                Ok(())
            }
            ("declare", "queue") => {
                let auto_delete = tokens.iter().any(|t| t.key == "auto-delete");
                let arguments = tokens.drain(..).skip(2).filter(|t| t.key != "auto-delete");
                let arguments: Arguments = arguments.map(|t| (t.key, strings(t.value))).collect();
                self.world().declare_queue(&second, arguments, auto_delete)
            }
            ("declare", "exchange") => self.declare_exchange(&second, tokens),
            ("delete", "queue") => self.world().delete_queue(&second),
            ("delete", "exchange") => self.world().delete_exchange(&second),
            ("bind", source) => {
                let to = tokens.get(1).ok_or("bind source queue=name key=key")?;
                let name = to.value.as_str().unwrap_or_default();
                let to = match &*to.key {
                    "exchange" => Destination::Exchange(name.into()),
                    _ => Destination::Queue(name.into()),
                };
                let (keys, arguments): (Vec<_>, Vec<_>) =
                    tokens.iter().skip(2).cloned().partition(|t| t.key == "key");
                let key = keys.first().and_then(|t| t.value.as_str()).unwrap_or_default();
                let arguments = arguments.into_iter().map(|t| (t.key, strings(t.value))).collect();
                self.world().bind(source, to, key, arguments)
            }
            ("policy", name) => {
                let mut definition: Arguments =
                    tokens.drain(..).skip(1).map(|t| (t.key, strings(t.value))).collect();
                let mut word = |key: &str| definition.remove(key).and_then(|v| v.as_str().map(str::to_owned));
                let (pattern, apply_to) = (word("pattern").unwrap_or_default(), word("apply-to"));
                let apply_to = apply_to.unwrap_or("all".into());
                self.world().set_policy(name, pattern, apply_to, definition)
            }
            ("clear-policy", name) => self.world().clear_policy(name),
            ("queue", name) => self.look(name, &tokens),
            ("time", _) => {
                let ms = first.trim_start_matches('+').trim_end_matches("ms");
                let ms = ms.parse().map_err(|_| "time +1000ms")?;
                self.world().pass(ms);
                Ok(())
            }
            ("restart", _) => {
                self.world().restart();
                Ok(())
            }
            ("drop", who) => {
                self.world().drop_client(who);
                Ok(())
            }
            ("cut", who) => {
                self.world().cut(who);
                Ok(())
            }
            ("socket", who) => match (self.world().is_read(who)?, &*second) {
                (true, "read") | (false, "unread") => Ok(()),
                (true, _) => Err(format!("the socket of {who} is read")),
                (false, _) => Err(format!("the socket of {who} is not read")),
            },
            ("alarm", on) => {
                self.world().alarm(on == "on");
                Ok(())
            }
            ("force-close", who) => {
                self.world().force_close(who, "told to");
                Ok(())
            }
            // `forget` ignores the frames received so far.
            ("forget", _) => {
                self.world().settle();
                self.world().clients.values_mut().for_each(|c| c.seen.clear());
                Ok(())
            }
            _ => Err(format!("no such step: {step}")),
        }
    }

    fn setup_of_world(&mut self) -> Option<&mut Setup> {
        match self.world {
            None => Some(self.setup.get_or_insert_default()),
            Some(_) => None,
        }
    }

    fn declare_exchange(&mut self, name: &str, tokens: Vec<Token>) -> Parsed<()> {
        let (mut kind, mut internal, mut auto_delete) = ("direct".to_owned(), false, false);
        let mut arguments = Arguments::new();
        for token in tokens.into_iter().skip(2) {
            match &*token.key {
                "type" => kind = token.value.as_str().unwrap_or_default().into(),
                "internal" => internal = true,
                "auto-delete" => auto_delete = true,
                _ => drop(arguments.insert(token.key, strings(token.value))),
            }
        }
        self.world().declare_exchange(DeclareExchange {
            vhost: DEFAULT_VHOST.into(),
            name: name.into(),
            kind,
            durable: true,
            auto_delete,
            internal,
            arguments,
        })
    }

    /// Checks a queue: `queue name ready=1 unsettled=0 consumers=1`, for a stream `queue name first=0 next=9
    /// segments=1`, or `queue name gone`.
    fn look(&mut self, name: &str, tokens: &[Token]) -> Parsed<()> {
        let found = self.world().queue(name)?;
        let kept = found.as_ref().and_then(|report| report.stream.clone()).unwrap_or_default();
        let Some(report) = found else {
            return if tokens[1..].iter().all(|t| t.key == "gone") {
                Ok(())
            } else {
                Err("no such queue".into())
            };
        };
        for token in &tokens[1..] {
            let seen = match &*token.key {
                "ready" => report.ready,
                "unsettled" => report.unsettled,
                "consumers" => report.consumers.into(),
                "first" => kept.first,
                "next" => kept.next,
                "segments" => kept.segments.len() as u64,
                other => return Err(format!("queue {name} is there; {other}?")),
            };
            if Some(seen) != token.value.as_u64() {
                return Err(format!("queue {name}: {} is {seen}", token.key));
            }
        }
        Ok(())
    }
}

/// Converts words in arguments of declarations to strings.
fn strings(value: Value) -> Value {
    match value {
        Value::Symbol(word) => Value::String(word.to_string()),
        other => other,
    }
}

fn words(line: &str, names: &Names) -> Parsed<(String, Vec<Token>)> {
    let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
    let mut tokens = text::tokens(rest)?;
    tokens.iter_mut().for_each(|t| text::substitute(&mut t.value, names));
    Ok((name.to_owned(), tokens))
}

/// Removes `times=n`, which repeats a frame.
fn times(tokens: Vec<Token>) -> (u64, Vec<Token>) {
    let (times, tokens): (Vec<_>, Vec<_>) = tokens.into_iter().partition(|t| t.key == "times");
    (times.first().and_then(|t| t.value.as_u64()).unwrap_or(1), tokens)
}

fn line_of(who: &str, seen: &Seen) -> String {
    let who = if who == "A" { "" } else { who };
    format!("{who}< {} {}", seen.name, text::show_tokens(&seen.tokens)).trim_end().to_owned()
}
