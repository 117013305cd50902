//! How a cluster is formed: who founds it, and how the others join.

use std::fmt;

use link::ClusterId;

use super::{Directory, Event, Nodes};
use crate::mutation::Mutation;
use crate::word::{Body, Reason, State};

/// Between two requests to be admitted. The catalog decides within some syncs. A request that was lost delays the start of a node by this.
const ASK_MS: u64 = 500;

/// Between two requests after a refusal. Only an operator can change the cause.
const ASK_AGAIN_MS: u64 = 5_000;

/// What a node waits for before it is a member of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waits {
    /// It is a member, and waits for nothing.
    Nothing,
    /// Its membership is being written to disk.
    Persisting,
    /// These nodes have other lists of nodes.
    OtherLists(Vec<String>),
    /// Words do not go to and fro between this node and these. No node is a member yet.
    OutOfSight(Vec<String>),
    /// These nodes all hold data.
    Holders(Vec<String>),
    /// This node holds data, and these are members of a cluster.
    HoldsBesideMembers(Vec<String>),
    /// Listed nodes are members of different clusters.
    TwoClusters { one: (String, ClusterId), other: (String, ClusterId) },
    /// This node is the one that founds the cluster.
    Founder(String),
    /// This cluster must admit this node. These are the members that it asks in turn.
    Admission { cluster: ClusterId, members: Vec<String> },
    /// The cluster has refused to admit this node.
    NotAdmitted { cluster: ClusterId, by: String, reason: Reason },
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => write!(f, "nothing"),
            Self::Persisting => write!(f, "its disk, to write that it is a member"),
            Self::OtherLists(names) => {
                let names = names.join(", ");
                write!(
                    f,
                    "equal lists of nodes: the list of {names} differs from the one here. Make cluster_formation equal on all nodes"
                )
            }
            Self::OutOfSight(names) => write!(f, "a connection in both directions with {}", names.join(", ")),
            Self::Holders(names) => {
                let names = names.join(", ");
                write!(
                    f,
                    "the operator: {names} hold data, and only one of them can keep it. Stop the others, and start them with an empty data directory"
                )
            }
            Self::HoldsBesideMembers(names) => {
                let names = names.join(", ");
                write!(
                    f,
                    "the operator: this node holds data, but {names} already formed a cluster. Start this node with an empty data directory, or remove it from the list"
                )
            }
            Self::TwoClusters { one, other } => write!(
                f,
                "the operator: {} is a member of cluster {}, but {} of cluster {}. List the nodes of one cluster only",
                one.0, one.1, other.0, other.1
            ),
            Self::Founder(name) => write!(f, "{name}, which founds the cluster"),
            Self::Admission { cluster, members } => {
                write!(f, "admission to cluster {cluster} by {}", members.join(", "))
            }
            Self::NotAdmitted { cluster, by, reason } => {
                write!(f, "admission to cluster {cluster}. {by} refused: {reason}")
            }
        }
    }
}

/// How far an empty node is with its request to be admitted.
#[derive(Debug, Default)]
pub(super) struct Asking {
    /// When it may ask again.
    next_ms: u64,
    /// The place of the peer that it asked last.
    last: usize,
    refused: Option<(String, Reason)>,
}

/// What a node does next.
enum Step {
    Found,
    /// Ask one of the members at these places.
    Ask(ClusterId, Vec<usize>),
    Wait(Waits),
}

impl Nodes {
    /// Returns what this node waits for.
    pub fn waits(&self) -> Waits {
        match self.next_step() {
            Step::Found => Waits::Persisting,
            Step::Wait(waits) => waits,
            Step::Ask(cluster, places) => match self.asking.refused.clone() {
                Some((by, reason)) => Waits::NotAdmitted { cluster, by, reason },
                None => Waits::Admission { cluster, members: self.names(&places) },
            },
        }
    }

    /// Returns what this node says about its directory.
    pub(super) fn state(&self) -> State {
        match (self.directory, self.pending) {
            (Directory::Member { cluster, number }, _) => State::Member { cluster, number },
            (_, Some((cluster, number))) if self.has(Mutation::SayBeforePersisted) => {
                State::Member { cluster, number }
            }
            (_, Some((cluster, _))) if !self.has(Mutation::HidePending) => State::Pending(cluster),
            (Directory::Empty, _) => State::Empty,
            (Directory::Holds, _) => State::Holds,
        }
    }

    /// Founds the cluster, or asks to be admitted, if that is the next step.
    pub(super) fn form(&mut self) {
        match self.next_step() {
            Step::Found => {
                self.pending = Some((self.cluster, 1));
                self.events.push_back(Event::Found { cluster: self.cluster });
            }
            Step::Ask(_, places) if self.now_ms >= self.asking.next_ms => {
                // Another one each time, because one member may be unable to get an answer.
                let next = places.iter().find(|place| **place > self.asking.last).or(places.first());
                if let Some(&place) = next {
                    self.asking.last = place;
                    self.asking.next_ms = self.now_ms + ASK_MS;
                    self.send(place, Body::Join);
                }
            }
            Step::Ask(..) | Step::Wait(_) => {}
        }
    }

    pub(super) fn take_join(&mut self, at: usize) {
        let Directory::Member { .. } = self.directory else { return };
        let slot = &self.slots[at];
        let Some(life) = slot.peer.life.filter(|_| slot.peer.state() == Some(State::Empty)) else { return };
        let namesake =
            self.members.iter().find(|member| member.name == slot.peer.name && member.node != life.node);
        if let Some(member) = namesake {
            self.send(at, Body::NotAdmitted(Reason::WouldReplace(member.node)));
        } else if slot.asking != Some(life.node) {
            let name = slot.peer.name.clone();
            self.slots[at].asking = Some(life.node);
            self.events.push_back(Event::AskToAdmit { node: life.node, name });
        }
    }

    pub(super) fn take_admitted(&mut self, at: usize, cluster: ClusterId, number: u32) {
        // The answer counts only while the step is to ask this member: not when it is repeated, and not beside a second cluster.
        if let Step::Ask(asked, places) = self.next_step()
            && asked == cluster
            && places.contains(&at)
        {
            self.asking.refused = None;
            self.pending = Some((cluster, number));
            self.events.push_back(Event::Join { cluster, number });
        }
    }

    pub(super) fn take_not_admitted(&mut self, at: usize, reason: Reason) {
        self.asking.refused = Some((self.slots[at].peer.name.clone(), reason));
        self.asking.next_ms = self.now_ms + ASK_AGAIN_MS;
    }

    fn is_in_sight(&self, at: usize) -> bool {
        self.slots[at].peer.out_of_sight(self.now_ms, self.needs_acknowledgement()).is_none()
    }

    fn names(&self, places: &[usize]) -> Vec<String> {
        places.iter().map(|place| self.slots[*place].peer.name.clone()).collect()
    }

    fn next_step(&self) -> Step {
        if matches!(self.directory, Directory::Member { .. }) {
            return Step::Wait(Waits::Nothing);
        }
        if self.pending.is_some() {
            return Step::Wait(Waits::Persisting);
        }
        let others = (0..self.slots.len()).filter(|at| *at != self.my_place);
        let (seen, unseen): (Vec<usize>, Vec<usize>) = others.partition(|at| self.is_in_sight(*at));
        self.step_beside_members(&seen).unwrap_or_else(|| self.step_without_members(&seen, &unseen))
    }

    /// Returns the next step if a node in sight is a member of a cluster.
    fn step_beside_members(&self, seen: &[usize]) -> Option<Step> {
        let members = seen.iter().filter_map(|at| match self.slots[*at].peer.state()? {
            State::Member { cluster, .. } => Some((*at, cluster)),
            _ => None,
        });
        let members: Vec<(usize, ClusterId)> = members.collect();
        let &(first, cluster) = members.first()?;
        let name = |at: usize| self.slots[at].peer.name.clone();
        if let Some(&(second, other)) = members.iter().find(|(_, other)| *other != cluster) {
            let (one, other) = ((name(first), cluster), (name(second), other));
            return Some(Step::Wait(Waits::TwoClusters { one, other }));
        }
        let places: Vec<usize> = members.into_iter().map(|(at, _)| at).collect();
        Some(match self.directory {
            Directory::Holds => Step::Wait(Waits::HoldsBesideMembers(self.names(&places))),
            _ => Step::Ask(cluster, places),
        })
    }

    /// Returns the next step if no node in sight is a member.
    fn step_without_members(&self, seen: &[usize], unseen: &[usize]) -> Step {
        let has_other_list = |at: &usize| self.slots[*at].peer.known.beat.map(|b| b.list) != Some(self.list);
        let differing: Vec<usize> = seen.iter().copied().filter(has_other_list).collect();
        if !differing.is_empty() && !self.has(Mutation::FoundWithOtherLists) {
            return Step::Wait(Waits::OtherLists(self.names(&differing)));
        }
        let is_enough = unseen.is_empty()
            || self.has(Mutation::FoundWithoutAll) && seen.len() + 1 > self.slots.len() / 2
            || self.has(Mutation::FoundByTimeout) && self.now_ms > self.slots[self.my_place].since_ms + 5_000;
        if !is_enough {
            return Step::Wait(Waits::OutOfSight(self.names(unseen)));
        }
        let state_of = |at: usize| self.slots[at].peer.state();
        if let Some(at) = seen.iter().find(|at| matches!(state_of(**at), Some(State::Pending(_)))) {
            return Step::Wait(Waits::Founder(self.slots[*at].peer.name.clone()));
        }
        let i_hold = self.directory == Directory::Holds;
        let mut holders: Vec<&str> = i_hold.then_some(self.name.as_str()).into_iter().collect();
        let names = seen.iter().filter(|at| state_of(**at) == Some(State::Holds));
        holders.extend(names.map(|at| self.slots[*at].peer.name.as_str()));
        let founder = match holders[..] {
            [] => {
                let names = seen.iter().map(|at| self.slots[*at].peer.name.as_str());
                names.fold(self.name.as_str(), Ord::min)
            }
            [holder] => holder,
            _ => {
                holders.sort_unstable();
                return Step::Wait(Waits::Holders(holders.into_iter().map(str::to_owned).collect()));
            }
        };
        if founder == self.name { Step::Found } else { Step::Wait(Waits::Founder(founder.to_owned())) }
    }
}
