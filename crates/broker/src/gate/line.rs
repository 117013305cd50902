//! A gate for tests, with one command per line. It shows that the components beside the gates also serve a protocol
//! that is not AMQP. Release builds do not contain it.
//!
//! | from the client | answer |
//! |---|---|
//! | `LINE 1`, and then `LOGIN vhost` | `OK` |
//! | `DECLARE queue`, or `OWN queue` for this connection | `DECLARED queue` |
//! | `OPEN p queue`, or `OPEN p` to the queues that messages name | `CREDIT p n`: publisher `p` has this much credit now |
//! | `PUB p tag body`, `PUB p tag queue body`; `PUT` for a durable message | `DONE p first last verdict`, of tags |
//! | `SUB c queue`; `CANCEL c` | `SUBBED c` or `REFUSED c why`; `CANCELLED c` |
//! | `CREDIT c n`, `DRAIN c n`: consumer `c` takes `n` more | `MSG c number redelivered body`; `DRAINED c ready` |
//! | `GET g queue n`: without a consumer, held under `g` | `MSG g ...`; `GOT g n ready` |
//! | `ACK c first last`, `BACK c first last`: accepted, released | |
//! | `SETTLE c first last`: accepted, and the client waits | `SETTLED c first last` |
//! | `CLOSE n`; `QUIT` | `BYE` to the second, when the connection's exclusive queues are deleted |
//!
//! `GONE n`: the queue of `n` was deleted. `BAD why` ends the connection.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use bytes::{BufMut, Bytes};
use catalog::access::{Credentials, Identity, Login, LoginRefused, Resource, Verb};
use catalog::ids::QueueId;
use catalog::{Answer, CatalogError, Command, DeclareQueue, QueueRecord};
use message::Route;
use queue::{DeliveryRef, Effect, GoneReason, Mode, Outcome, SettleAnswer, Ticket, Verdict};

use super::{BadFrame, Ending, Output, Phase};
use crate::cx::Cx;
use crate::intake::{Arrived, Body, Intake, Refused, Target, may_publish};
use crate::mail::GateAddress;
use crate::outlet::{Holder, Outlet, PeerEvent, Wanted};
use crate::own_queues::OwnQueues;
use crate::peer::Peer;

/// The first line of a connection.
pub const HEADER: &[u8] = b"LINE 1\r\n";

/// The bytes before the length of a body of fewer than 256 bytes: it is a data section.
const BODY: [u8; 4] = [0x00, 0x53, 0x75, 0xa0];

/// The object that a number of the client stands for, with its remaining credit.
#[derive(Debug)]
enum Role {
    Publisher(Intake<u64>, u32),
    Consumer(Outlet<(u64, u64)>, u32),
    Holder(Holder),
}

/// A header that says that the message is durable.
const DURABLE: [u8; 7] = [0x00, 0x53, 0x70, 0xc0, 0x02, 0x01, 0x41];

/// One connection of a client that speaks the line protocol.
#[derive(Debug)]
pub struct Gate {
    pub(super) peer: Peer,
    pub(super) phase: Phase,
    pub(super) output: Output,
    roles: BTreeMap<u64, Role>,
    /// The holder for which each fetch in flight was made.
    fetches: BTreeMap<Ticket, u64>,
    own: OwnQueues<()>,
}

/// The result of a command, or why it failed.
type Done<T = ()> = Result<T, String>;

macro_rules! say {
    ($output:expr, $($line:tt)*) => {
        $output.buffer().put_slice(format!("{}\n", format_args!($($line)*)).as_bytes())
    };
}

impl Gate {
    pub fn new(peer: Peer) -> Self {
        let (phase, output, own) = (Phase::Handshake, Output::default(), OwnQueues::default());
        let (roles, fetches) = (BTreeMap::new(), BTreeMap::new());
        Self { peer, phase, output, roles, fetches, own }
    }

    /// The length of an incomplete line is unknown. It lacks at least one byte.
    pub fn frame_len(&self, input: &[u8]) -> Result<Option<usize>, BadFrame> {
        Ok(Some(input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len()) + 1))
    }

    pub fn handle_input<'a>(&mut self, input: &'a [u8], _large: usize, cx: &mut Cx<'a>) -> usize {
        let end = input.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.handle_frame(Bytes::copy_from_slice(&input[..end]), cx);
        end
    }

    pub fn handle_frame(&mut self, lines: Bytes, cx: &mut Cx<'_>) {
        for line in String::from_utf8_lossy(&lines).lines() {
            if self.phase.listens()
                && let Err(why) = self.handle_line(line, cx)
            {
                self.end_connection(Ending::Operator, &why, cx);
            }
        }
    }

    pub fn handle_login(&mut self, ticket: Ticket, result: Result<Identity, LoginRefused>, cx: &mut Cx<'_>) {
        cx.tickets.remove(ticket.0);
        match result {
            Ok(identity) => {
                (self.peer.identity, self.phase) = (Some(identity), Phase::Open);
                say!(self.output, "OK");
            }
            Err(refused) => self.end_connection(Ending::Operator, &refused.to_string(), cx),
        }
    }

    pub fn end_connection(&mut self, _ending: Ending, why: &str, cx: &mut Cx<'_>) {
        say!(self.output, "BAD {why}");
        self.handle_disconnect(cx);
    }

    pub fn handle_disconnect(&mut self, cx: &mut Cx<'_>) {
        while let Some((&place, _)) = self.roles.first_key_value() {
            self.close(place, cx);
        }
        self.own.delete_all(self.peer.key, cx);
        self.phase = Phase::Done;
    }

    fn handle_line(&mut self, line: &str, cx: &mut Cx<'_>) -> Done {
        let words: Vec<&str> = line.split(' ').collect();
        let word = |at: usize| words.get(at).copied().unwrap_or_default();
        let number = |at: usize| word(at).parse::<u64>().map_err(|_| format!("no number {at} in {line}"));
        let at = GateAddress { connection: self.peer.key, place: number(1).unwrap_or(0) };
        match (words[0], self.phase) {
            ("LINE", _) => {}
            ("LOGIN", _) => {
                let user = cx.settings.anonymous_login_user.clone().ok_or("no anonymous login")?;
                let (credentials, from) = (Credentials::Anonymous { user }, Ipv4Addr::LOCALHOST.into());
                let ticket = self.ticket(cx)?;
                cx.post.logins.push((ticket, Login { credentials, from, at_ms: cx.now_ms }));
                (self.peer.vhost, self.phase) = (word(1).into(), Phase::Login);
            }
            ("DECLARE" | "OWN", Phase::Open) => {
                let exclusive = words[0] == "OWN";
                let connection = exclusive.then_some(self.peer.id);
                let declare = DeclareQueue::new(self.peer.vhost.clone(), word(1), Default::default());
                let declare = DeclareQueue { exclusive, connection, ..declare };
                let ticket = self.ticket(cx)?;
                cx.post.propose(Some(ticket), Command::DeclareQueue(declare));
            }
            ("OPEN" | "SUB", _) if self.roles.contains_key(&at.place) => return Err("number in use".into()),
            ("OPEN", Phase::Open) => {
                let name = words.get(2).copied();
                let watched = name.map(|name| self.queue(name, cx)).transpose()?;
                let sender = self.peer.sender(0);
                may_publish(sender, &"".into(), cx).map_err(|refused| format!("{refused:?}"))?;
                let target = name.map_or(Target::Anywhere, Target::to_queue);
                let mut intake = Intake::open(at, self.peer.protocol, target, cx).ok_or("no place")?;
                watched.iter().for_each(|queue| intake.watch(queue, cx));
                self.roles.insert(at.place, Role::Publisher(intake, 0));
            }
            ("PUB" | "PUT", Phase::Open) => {
                let own = (words.len() == 5).then(|| Arc::new(Route::simple("", word(3))));
                let header = if words[0] == "PUT" { &DURABLE[..] } else { &[] };
                self.publish(at.place, number(2)?, own, (header, words[words.len() - 1]), cx)?;
            }
            ("SUB", Phase::Open) => {
                let record = self.readable(word(2), cx)?;
                let (mode, message_bytes_max, left_out) = (Mode::Take, None, None);
                let (priority, exclusive, settled) = (0, false, false);
                let timeout_ms = None;
                let wanted =
                    Wanted { mode, priority, exclusive, settled, message_bytes_max, timeout_ms, left_out };
                let outlet = Outlet::open(at, self.peer.protocol, &record, wanted, cx).ok_or("no place")?;
                self.roles.insert(at.place, Role::Consumer(outlet, 0));
            }
            ("GET", Phase::Open) => {
                let (record, n, ticket) = (self.readable(word(2), cx)?, number(3)?, self.ticket(cx)?);
                self.fetches.insert(ticket, at.place);
                let holder = match self.roles.remove(&at.place) {
                    Some(Role::Holder(holder)) => holder,
                    Some(Role::Publisher(..) | Role::Consumer(..)) => return Err("not a holder".into()),
                    None => Holder::open(at, self.peer.protocol, &record, cx).ok_or("no place")?,
                };
                holder.fetch(n as u32, false, ticket, cx);
                self.roles.insert(at.place, Role::Holder(holder));
            }
            ("CLOSE", Phase::Open) => self.close(at.place, cx),
            ("QUIT", Phase::Open) => {
                self.handle_disconnect(cx);
                self.phase = Phase::Open;
                self.own.hold((), 0, |()| false, cx.now_ms).into_iter().for_each(|()| self.say_bye());
            }
            (command, Phase::Open) => match (command, self.roles.get_mut(&at.place)) {
                ("CREDIT" | "DRAIN", Some(Role::Consumer(outlet, credit))) => {
                    *credit += number(2)? as u32;
                    outlet.handle_flow(command == "DRAIN", false);
                }
                ("CANCEL", Some(Role::Consumer(outlet, _))) => outlet.cancel(cx),
                ("ACK" | "BACK" | "SETTLE", Some(role)) => {
                    let (range, asked) = ((number(2)?, number(3)?), command == "SETTLE");
                    let outcome = if command == "BACK" { Outcome::Released } else { Outcome::Accepted };
                    match role {
                        Role::Consumer(outlet, _) => {
                            outlet.settle(range, outcome, asked.then_some(range), cx)
                        }
                        Role::Holder(holder) => {
                            let answer = if asked { SettleAnswer::Made } else { SettleAnswer::Never };
                            holder.settle(range, outcome, answer, cx);
                        }
                        Role::Publisher(..) => return Err("a publisher settles nothing".into()),
                    }
                }
                _ => return Err(format!("unknown command or number in {line}")),
            },
            _ => return Err("login required".into()),
        }
        Ok(())
    }

    fn queue(&self, name: &str, cx: &Cx<'_>) -> Done<Arc<QueueRecord>> {
        cx.catalog.listed_queue(&self.peer.vhost, name).ok_or_else(|| format!("no queue {name}"))
    }

    fn readable(&self, name: &str, cx: &Cx<'_>) -> Done<Arc<QueueRecord>> {
        let identity = self.peer.identity.as_ref().ok_or("login required")?;
        let allowed =
            cx.catalog.users().permit(identity, &self.peer.vhost, Verb::Consume, &[Resource::Queue(name)]);
        allowed.map_err(|refused| refused.reason)?;
        let usable = cx.catalog.usable_queue(&self.peer.vhost, name, self.peer.caller());
        usable.map_err(|refused| refused.to_string())
    }

    fn ticket(&self, cx: &mut Cx<'_>) -> Done<Ticket> {
        self.peer.ticket(cx).ok_or_else(|| "no place".to_owned())
    }

    fn publish(
        &mut self,
        p: u64,
        tag: u64,
        own: Option<Arc<Route>>,
        (header, body): (&[u8], &str),
        cx: &mut Cx<'_>,
    ) -> Done {
        let length = u8::try_from(body.len()).map_err(|_| "body too long")?;
        let publisher = self.roles.get_mut(&p);
        let Some(Role::Publisher(intake, credit)) = publisher else { return Err("no publisher".into()) };
        *credit = credit.checked_sub(1).ok_or("no credit")?;
        let bytes = Bytes::from([header, &BODY[..], &[length], body.as_bytes()].concat());
        let found = &intake.scan(Body::Owned(&bytes), true, cx).map_err(|bad| bad.to_string())?;
        let sender = self.peer.sender(0);
        let arrived = Arrived::Amqp10 { body: Body::Owned(&bytes), found };
        match intake.publish(sender, arrived, own, tag, cx) {
            Err(Refused::Unroutable) => {
                intake.note_unroutable(true, cx);
                say!(self.output, "DONE {p} {tag} {tag} Released");
            }
            Err(refused) => return Err(format!("{refused:?}")),
            Ok(()) => {}
        }
        Ok(())
    }

    fn close(&mut self, place: u64, cx: &mut Cx<'_>) {
        match self.roles.remove(&place) {
            Some(Role::Publisher(intake, _)) => _ = intake.close(cx),
            Some(Role::Consumer(outlet, _)) => _ = outlet.close(true, cx),
            Some(Role::Holder(holder)) => holder.close(true, cx),
            None => {}
        }
    }

    fn say_bye(&mut self) {
        say!(self.output, "BYE");
        self.phase = Phase::Done;
    }

    pub fn handle_delivery(&mut self, place: u64, lent: DeliveryRef<'_>, cx: &mut Cx<'_>) -> bool {
        let Some(Role::Consumer(outlet, credit)) = self.roles.get_mut(&place) else { return true };
        outlet.handle_delivery(lent.message);
        let Some(left) = credit.checked_sub(1) else {
            outlet.give_back(lent.number, cx);
            return true;
        };
        *credit = left;
        outlet.note_sent(&lent, cx, || None);
        self.show(place, lent);
        true
    }

    fn show(&mut self, place: u64, lent: DeliveryRef<'_>) {
        let body = String::from_utf8_lossy(&lent.message.body()[BODY.len() + 1..]);
        say!(self.output, "MSG {place} {} {} {body}", lent.number, u8::from(lent.redelivered()));
    }

    pub fn handle_effect(&mut self, place: u64, effect: Effect, cx: &mut Cx<'_>) {
        if let Effect::Delivery(delivery) = &effect {
            self.handle_delivery(place, delivery.lend(), cx);
            return;
        }
        let Self { roles, output, .. } = self;
        match (roles.get_mut(&place), &effect) {
            (Some(Role::Consumer(outlet, credit)), _) => match outlet.handle_effect(&effect, || *credit) {
                Some(PeerEvent::Attached) => say!(output, "SUBBED {place}"),
                Some(PeerEvent::Settled((first, last))) => say!(output, "SETTLED {place} {first} {last}"),
                Some(PeerEvent::Credit(report)) if report.drain => {
                    *credit = 0;
                    say!(output, "DRAINED {place} {}", report.available);
                }
                Some(PeerEvent::Gone(GoneReason::Cancelled)) => say!(output, "CANCELLED {place}"),
                Some(PeerEvent::Gone(_)) => self.handle_target_gone(place, "", cx),
                Some(PeerEvent::Refused(why)) => {
                    say!(output, "REFUSED {place} {why:?}");
                    self.close(place, cx);
                }
                // The client is not told, and need not settle what the queue has taken back.
                Some(PeerEvent::Revoked { .. }) => outlet.await_revoked(std::iter::empty(), cx),
                Some(PeerEvent::Credit(_) | PeerEvent::Active { .. }) | None => {}
            },
            (Some(Role::Holder(_)), Effect::Settled { first, last, .. }) => {
                say!(output, "SETTLED {place} {first} {last}");
            }
            _ => {}
        }
    }

    pub fn handle_receipts(
        &mut self,
        p: u64,
        _: QueueId,
        range: (u64, u64),
        verdict: Verdict,
        cx: &mut Cx<'_>,
    ) {
        let Self { roles, output, .. } = self;
        let Some(Role::Publisher(intake, _)) = roles.get_mut(&p) else { return };
        intake.handle_receipts(range, verdict, cx, |run| {
            say!(output, "DONE {p} {} {} {:?}", run.first, run.last, run.verdict);
        });
    }

    pub fn handle_ticket(&mut self, ticket: Ticket, effect: Effect, cx: &mut Cx<'_>) {
        cx.tickets.remove(ticket.0);
        if self.own.handle_ticket(ticket) {
            return self.own.poll_answers(cx.now_ms).into_iter().for_each(|()| self.say_bye());
        }
        let Some(holder) = self.fetches.remove(&ticket).filter(|g| self.roles.contains_key(g)) else {
            return;
        };
        let Effect::Fetched { deliveries, ready, .. } = effect else {
            return say!(self.output, "GONE {holder}");
        };
        deliveries.iter().for_each(|delivery| self.show(holder, delivery.lend()));
        say!(self.output, "GOT {holder} {} {ready}", deliveries.len());
    }

    pub fn handle_answer(&mut self, ticket: Ticket, result: Result<Answer, CatalogError>, cx: &mut Cx<'_>) {
        cx.tickets.remove(ticket.0);
        match result {
            Ok(Answer::Queue { record, .. }) => {
                record.exclusive.iter().for_each(|_| self.own.add(record.id));
                say!(self.output, "DECLARED {}", record.name);
            }
            other => self.end_connection(Ending::Operator, &format!("{other:?}"), cx),
        }
    }

    pub fn handle_target_gone(&mut self, place: u64, _queue: &str, cx: &mut Cx<'_>) {
        self.close(place, cx);
        say!(self.output, "GONE {place}");
    }

    pub fn flush(&mut self, cx: &mut Cx<'_>) {
        for (place, role) in &mut self.roles {
            match role {
                Role::Publisher(intake, credit) => {
                    if let Some(grant) = intake.poll_grant(*credit, cx) {
                        *credit = grant;
                        say!(self.output, "CREDIT {place} {grant}");
                    }
                }
                Role::Consumer(outlet, credit) => outlet.poll_grant(*credit, false, cx),
                Role::Holder(_) => {}
            }
        }
    }
}
