//! One machine, whose peers are played by the test.

use link::{ClusterId, Hello, NodeIdentity, Role};

use crate::word::{Beat, Body, Word};
use crate::{
    Alarms, Directory, Event, Health, Life, Member, Nodes, Reason, Refusal, Setup, SetupError, Side, State,
    Waits, Why,
};

const CLUSTER: ClusterId = ClusterId([7; 16]);
const ME: Life = Life { node: NodeIdentity([1; 16]), boot: 5 };
const PEER: Life = Life { node: NodeIdentity([2; 16]), boot: 9 };
const MEMBER: State = State::Member { cluster: CLUSTER, number: 2 };

fn setup(listed: &[&str], directory: Directory) -> Setup {
    let listed: Vec<String> = listed.iter().map(|name| (*name).to_owned()).collect();
    let (name, cluster) = ("a".to_owned(), ClusterId([3; 16]));
    Setup { me: ME, name, listed, directory, cluster, now_ms: 1_000, seed: 0 }
}

fn hello(life: Life, name: &str) -> Hello {
    let (node, boot, cluster) = (life.node, life.boot, ClusterId::NONE);
    Hello { role: Role::Heartbeats, node, boot, cluster, number: 0, format: 1, name: name.to_owned() }
}

/// The machine of node `a` with the peer `b`, which acknowledges each beat at once.
struct Scene {
    nodes: Nodes,
    now_ms: u64,
    peer: Life,
    state: State,
    health: Health,
    /// The number of the peer's last beat, and the beat of the machine that it acknowledges.
    number: u64,
    heard: u64,
    /// By how much the clock of the peer is ahead.
    ahead_ms: u64,
    events: Vec<Event>,
}

impl Scene {
    fn new(directory: Directory, state: State) -> Self {
        let mut nodes = Nodes::new(setup(&["a", "b"], directory)).expect("a proper list");
        nodes.handle_time(1_000, 1_000);
        let (health, events) = (Health::default(), Vec::new());
        let (number, heard, ahead_ms) = (0, 0, 0);
        let mut scene =
            Self { nodes, now_ms: 1_000, peer: PEER, state, health, number, heard, ahead_ms, events };
        scene.connect();
        scene
    }

    /// Returns a member that supports the peer.
    fn of_members() -> Self {
        let mut scene = Self::new(Directory::Member { cluster: CLUSTER, number: 1 }, MEMBER);
        scene.run(1_000);
        assert_eq!(scene.support(), [None]);
        scene
    }

    fn connect(&mut self) {
        let hello = hello(self.peer, "b");
        self.nodes.handle_dialed(1, &hello).expect("a proper peer");
        assert_eq!(self.nodes.handle_accepted(&hello), Ok(1));
    }

    fn say(&mut self, body: Body) {
        let word = Word { from: self.peer, to: ME, body };
        self.nodes.handle_word(1, &word.encode()).expect("a word");
        self.poll();
    }

    fn beat(&mut self) {
        self.number += 1;
        let (number, heard, state, health) = (self.number, self.heard, self.state, self.health);
        let list = crate::word::digest(&["a".to_owned(), "b".to_owned()]);
        let clock_ms = self.now_ms + self.ahead_ms;
        self.say(Body::Beat(Beat {
            number,
            heard,
            held_ms: 0,
            supports_ms: 1_900,
            state,
            list,
            clock_ms,
            health,
        }));
    }

    fn poll(&mut self) {
        while let Some(event) = self.nodes.poll() {
            if let Event::Send { word, .. } = &event
                && let Body::Beat(beat) = Word::decode(word).expect("a word").body
            {
                self.heard = beat.number;
            } else {
                self.events.push(event);
            }
        }
    }

    fn wait(&mut self, ms: u64) {
        for _ in 0..ms / 100 {
            self.now_ms += 100;
            self.nodes.handle_time(self.now_ms, self.now_ms);
            self.poll();
        }
    }

    /// Lets time pass in which the peer sends its beats.
    fn run(&mut self, ms: u64) {
        for _ in 0..ms / 200 {
            self.wait(200);
            self.beat();
        }
    }

    fn take(&mut self) -> Vec<Event> {
        self.poll();
        std::mem::take(&mut self.events)
    }

    /// Returns why support began or ended since the last call.
    fn support(&mut self) -> Vec<Option<Why>> {
        let ended = |event| match event {
            Event::Support { ended, .. } => Some(ended),
            _ => None,
        };
        self.take().into_iter().filter_map(ended).collect()
    }
}

#[test]
fn silence_ends_support_and_closes_the_connection() {
    let mut scene = Scene::of_members();
    scene.wait(1_900);
    assert_eq!(scene.take(), []);
    assert!(scene.nodes.supports(2) && !scene.nodes.acknowledged_within(2, 1_500));
    scene.wait(200);
    let close = |side| Event::Close { peer: 1, side };
    let ended = Event::Support { number: 2, boot: 9, ended: Some(Why::Silent) };
    let events = scene.take();
    assert!(events.contains(&close(Side::Accepted)) && events.contains(&ended), "{events:?}");
    scene.wait(7_700);
    assert_eq!(scene.take(), []);
    scene.wait(400);
    assert_eq!(scene.take(), [close(Side::Dialed)]);
    scene.connect();
    scene.run(200);
    assert_eq!(scene.support(), [None]);
}

#[test]
fn beats_without_acknowledgement_end_support() {
    let mut scene = Scene::of_members();
    for _ in 0..11 {
        let heard = scene.heard;
        scene.wait(200);
        scene.heard = heard;
        scene.beat();
    }
    let close = Event::Close { peer: 1, side: Side::Dialed };
    let ended = Event::Support { number: 2, boot: 9, ended: Some(Why::Unacknowledged) };
    let events = scene.take();
    assert!(events.contains(&close) && events.contains(&ended), "{events:?}");
    assert!(!scene.nodes.acknowledged_within(2, 1_500));
    // An acknowledgement of what was never sent counts for nothing.
    scene.heard = u64::MAX;
    scene.beat();
    assert_eq!(scene.support(), []);
}

#[test]
fn a_leader_counts_from_when_it_sent_the_beat() {
    let mut scene = Scene::of_members();
    // The beat that is acknowledged was sent just now. The peer supports for 1,900 ms from then on.
    let mut passed_ms = 0;
    while scene.nodes.acknowledged_within(2, 1_500) {
        scene.wait(100);
        passed_ms += 100;
    }
    assert_eq!(passed_ms, 1_400);
    assert!(scene.nodes.acknowledged_within(1, 1_500), "a node counts on itself");
    assert!(!scene.nodes.acknowledged_within(3, 1_500));
}

#[test]
fn a_node_that_is_ill_does_not_count_on_others() {
    let mut scene = Scene::of_members();
    scene.nodes.handle_health(Health { oldest_turn_ms: 2_000, ..Health::default() });
    assert!(!scene.nodes.acknowledged_within(2, 1_500));
    scene.nodes.handle_health(Health::default());
    assert!(scene.nodes.acknowledged_within(2, 1_500), "no beat has said it");
    scene.nodes.handle_health(Health { oldest_turn_ms: 2_000, ..Health::default() });
    scene.wait(200);
    scene.nodes.handle_health(Health::default());
    assert!(!scene.nodes.acknowledged_within(2, 1_500), "a beat has said it");
    scene.beat();
    assert!(!scene.nodes.acknowledged_within(2, 1_500), "an acknowledgement of that beat");
    scene.run(400);
    assert!(scene.nodes.acknowledged_within(2, 1_500));
}

#[test]
fn a_process_that_is_gone_loses_support_at_once() {
    let mut scene = Scene::of_members();
    scene.nodes.handle_refused(1);
    assert_eq!(scene.support(), [], "both connections are open");
    scene.nodes.handle_closed(1);
    scene.nodes.handle_refused(1);
    assert_eq!(scene.support(), [], "one connection is open");
    scene.nodes.handle_accept_closed(1);
    assert_eq!(scene.support(), [Some(Why::Gone)]);
    scene.connect();
    assert_eq!(scene.support(), [None], "the same boot has not gone");
    scene.nodes.handle_accept_closed(1);
    assert_eq!(scene.support(), [], "the port has not refused since");
}

#[test]
fn a_stalled_disk_ends_support_for_30_s() {
    let mut scene = Scene::of_members();
    let mut run = |oldest_unsynced_ms, ms| {
        scene.health.oldest_unsynced_ms = oldest_unsynced_ms;
        scene.run(ms);
        scene.support()
    };
    assert_eq!(run(4_999, 1_000), []);
    assert_eq!(run(5_000, 1_000), [Some(Why::DiskStalled)]);
    assert_eq!(run(999, 29_000), []);
    assert_eq!(run(1_000, 200), []);
    assert_eq!(run(0, 30_000), []);
    assert_eq!(run(0, 200), [None]);
}

#[test]
fn stuck_shards_end_support_until_they_move() {
    let mut scene = Scene::of_members();
    scene.health.oldest_turn_ms = 2_000;
    scene.beat();
    assert_eq!(scene.support(), [Some(Why::TurnStalled)]);
    scene.health.oldest_turn_ms = 1_999;
    scene.beat();
    assert_eq!(scene.support(), [None]);
    scene.nodes.handle_shard_link(2, 4_999);
    assert_eq!(scene.support(), []);
    scene.nodes.handle_shard_link(2, 5_000);
    assert_eq!(scene.support(), [Some(Why::AppendUnanswered)]);
    scene.nodes.handle_shard_link(2, 0);
    assert_eq!(scene.support(), [None]);
}

#[test]
fn a_later_boot_ends_support_and_an_earlier_one_is_dropped() {
    let mut scene = Scene::of_members();
    let later = Life { boot: PEER.boot + 1, ..PEER };
    assert_eq!(scene.nodes.handle_accepted(&hello(later, "b")), Ok(1));
    let ended = Event::Support { number: 2, boot: 9, ended: Some(Why::Restarted) };
    assert_eq!(scene.take(), [Event::Close { peer: 1, side: Side::Dialed }, ended]);
    scene.beat();
    assert_eq!(scene.nodes.view().nodes[1].state, None, "a word of the earlier boot counts");
    let earlier = Refusal::EarlierBoot { name: "b".to_owned() };
    assert_eq!(scene.nodes.handle_accepted(&hello(PEER, "b")), Err(earlier.clone()));
    assert_eq!(scene.nodes.handle_dialed(1, &hello(PEER, "b")), Err(earlier));
    scene.take();
    (scene.peer, scene.number) = (later, 0);
    scene.connect();
    scene.run(400);
    assert_eq!(scene.take(), [Event::Support { number: 2, boot: 10, ended: None }]);
}

#[test]
fn a_restarted_node_ignores_acknowledgements_of_its_earlier_boot() {
    let mut scene = Scene::of_members();
    scene.state = State::Member { cluster: CLUSTER, number: 3 };
    let (number, heard) = (scene.number + 1, scene.heard);
    let beat = Beat {
        number,
        heard,
        held_ms: 0,
        supports_ms: 0,
        state: State::Empty,
        list: 0,
        clock_ms: 0,
        health: Health::default(),
    };
    let to = Life { boot: ME.boot - 1, ..ME };
    let word = Word { from: PEER, to, body: Body::Beat(beat) };
    scene.nodes.handle_word(1, &word.encode()).expect("a word");
    assert_eq!(scene.nodes.view().nodes[1].state, Some(MEMBER));
}

#[test]
fn connections_of_no_use_are_refused() {
    let mut nodes = Nodes::new(setup(&["a", "b", "c"], Directory::Empty)).expect("a proper list");
    let b = || "b".to_owned();
    let stranger = Life { node: NodeIdentity([9; 16]), boot: 1 };
    assert_eq!(nodes.handle_dialed(1, &hello(ME, "b")), Err(Refusal::Myself));
    let other = Refusal::OtherName { listed: b(), found: "c".to_owned() };
    assert_eq!(nodes.handle_dialed(1, &hello(PEER, "c")), Err(other));
    assert_eq!(nodes.handle_accepted(&hello(PEER, "d")), Err(Refusal::NotListed { name: "d".to_owned() }));
    let same = Refusal::SameName { name: "a".to_owned(), node: ME.node };
    assert_eq!(nodes.handle_accepted(&hello(PEER, "a")), Err(same));
    assert_eq!(nodes.handle_dialed(1, &hello(PEER, "b")), Ok(()));
    let same = Refusal::SameIdentity { name: "c".to_owned(), other: b() };
    assert_eq!(nodes.handle_accepted(&hello(PEER, "c")), Err(same));
    let same = Refusal::SameName { name: b(), node: PEER.node };
    assert_eq!(nodes.handle_accepted(&hello(stranger, "b")), Err(same.clone()));
    assert_eq!(nodes.view().nodes[1].refusal, Some(same));
    // The address decides.
    nodes.handle_closed(1);
    assert_eq!(nodes.handle_dialed(1, &hello(stranger, "b")), Ok(()));
    assert_eq!(nodes.handle_accepted(&hello(stranger, "b")), Ok(1));
    nodes.handle_closed(1);
    let earlier = Life { boot: PEER.boot - 1, ..PEER };
    let refusal = Refusal::EarlierBoot { name: b() };
    assert_eq!(
        nodes.handle_accepted(&hello(earlier, "b")),
        Err(refusal),
        "of the node that had the name before"
    );
    nodes.handle_failed(2, "the secrets differ".to_owned());
    let text = nodes.view().nodes[2].to_string();
    assert_eq!(
        text,
        "it was not seen since this node started; the last connection was refused: the secrets differ"
    );
}

#[test]
fn a_machine_needs_a_proper_list() {
    let error = |listed: &[&str]| Nodes::new(setup(listed, Directory::Empty)).err();
    assert_eq!(error(&["b"]), Some(SetupError::NotListed { name: "a".to_owned() }));
    assert_eq!(error(&["a", "b", "b"]), Some(SetupError::ListedTwice { name: "b".to_owned() }));
    assert_eq!(error(&["a"; 65]), Some(SetupError::TooMany));
}

#[test]
fn a_node_that_is_alone_in_its_list_founds() {
    for directory in [Directory::Empty, Directory::Holds] {
        let mut nodes = Nodes::new(setup(&["a"], directory)).expect("a proper list");
        assert_eq!(nodes.poll(), Some(Event::Found { cluster: ClusterId([3; 16]) }));
        assert_eq!(nodes.view().waits, Waits::Persisting);
        nodes.handle_persisted();
        let view = nodes.view();
        assert_eq!((view.cluster, view.number, view.waits), (ClusterId([3; 16]), 1, Waits::Nothing));
    }
}

#[test]
fn an_empty_node_asks_twice_a_second_and_joins_once() {
    let mut scene = Scene::new(Directory::Empty, MEMBER);
    scene.run(5_000);
    let is_join = |event: &Event| match event {
        Event::Send { word, .. } => Word::decode(word).expect("a word").body == Body::Join,
        _ => false,
    };
    let events = scene.take();
    let asked = events.iter().filter(|event| is_join(event)).count();
    assert!((8..=10).contains(&asked) && asked == events.len(), "{events:?}");
    scene.say(Body::Admitted { cluster: ClusterId([8; 16]), number: 2 });
    assert_eq!(scene.take(), [], "the answer is about another cluster");
    scene.say(Body::Admitted { cluster: CLUSTER, number: 4 });
    scene.say(Body::Admitted { cluster: CLUSTER, number: 4 });
    assert_eq!(scene.take(), [Event::Join { cluster: CLUSTER, number: 4 }]);
    scene.nodes.handle_persisted();
    scene.run(1_000);
    scene.say(Body::Admitted { cluster: CLUSTER, number: 4 });
    assert_eq!(scene.take(), [Event::Support { number: 2, boot: 9, ended: None }]);
}

#[test]
fn a_member_asks_the_catalog_once_and_passes_its_answer_on() {
    let mut scene = Scene::new(Directory::Member { cluster: CLUSTER, number: 1 }, State::Empty);
    scene.run(1_000);
    assert_eq!(scene.take(), []);
    (0..3).for_each(|_| scene.say(Body::Join));
    let ask = Event::AskToAdmit { node: PEER.node, name: "b".to_owned() };
    assert_eq!(scene.take(), std::slice::from_ref(&ask));
    let body = |event: &Event| match event {
        Event::Send { word, .. } => Word::decode(word).expect("a word").body,
        _ => panic!("{event:?}"),
    };
    scene.nodes.handle_admitted(PEER.node, Err(Reason::Other("no majority".to_owned())));
    let answers: Vec<Body> = scene.take().iter().map(body).collect();
    assert_eq!(answers, [Body::NotAdmitted(Reason::Other("no majority".to_owned()))]);
    scene.say(Body::Join);
    assert_eq!(scene.take(), [ask]);
    scene.nodes.handle_admitted(PEER.node, Ok(2));
    let answers: Vec<Body> = scene.take().iter().map(body).collect();
    assert_eq!(answers, [Body::Admitted { cluster: CLUSTER, number: 2 }]);
    let namesake = Member { number: 2, node: NodeIdentity([9; 16]), name: "b".to_owned() };
    scene.nodes.handle_members(vec![namesake]);
    scene.say(Body::Join);
    let answers: Vec<Body> = scene.take().iter().map(body).collect();
    assert_eq!(answers, [Body::NotAdmitted(Reason::WouldReplace(NodeIdentity([9; 16])))]);
    (scene.state, scene.number) = (State::Holds, scene.number + 1);
    scene.beat();
    scene.say(Body::Join);
    assert_eq!(scene.take(), [], "a node that holds data does not join");
}

#[test]
fn a_member_of_another_cluster_is_named_and_not_supported() {
    let theirs = ClusterId([8; 16]);
    let mut scene = Scene::new(Directory::Member { cluster: CLUSTER, number: 1 }, MEMBER);
    scene.state = State::Member { cluster: theirs, number: 2 };
    scene.run(5_000);
    assert_eq!(scene.take(), [Event::OtherCluster { peer: 1, ours: CLUSTER, theirs }]);
    let view = &scene.nodes.view().nodes[1];
    assert_eq!(view.to_string(), format!("refused: a member of another cluster, {theirs}"));
}

#[test]
fn a_member_with_the_number_of_another_is_not_supported() {
    let mut scene = Scene::of_members();
    let other = Member { number: 2, node: NodeIdentity([9; 16]), name: "c".to_owned() };
    scene.nodes.handle_members(vec![other.clone()]);
    assert_eq!(scene.support(), [Some(Why::OtherNumber)]);
    let view = scene.nodes.view();
    assert_eq!((view.nodes[1].trouble, view.unlisted), (Some(Why::OtherNumber), vec![other]));
}

#[test]
fn a_node_does_not_pose_as_a_member_with_another_name() {
    let directory = Directory::Member { cluster: CLUSTER, number: 1 };
    let known_as = |name: &str| vec![Member { number: 2, node: PEER.node, name: name.to_owned() }];
    let with = |known: &str| {
        let mut nodes = Nodes::new(setup(&["a", "b", "c"], directory)).expect("a proper list");
        nodes.handle_members(known_as(known));
        nodes
    };
    let mut nodes = with("b");
    let same = Refusal::SameIdentity { name: "c".to_owned(), other: "b".to_owned() };
    assert_eq!(nodes.handle_accepted(&hello(PEER, "c")), Err(same.clone()));
    assert_eq!(nodes.handle_dialed(2, &hello(PEER, "c")), Err(same));
    assert_eq!(nodes.handle_accepted(&hello(PEER, "b")), Ok(1), "it is not kept out");
    // The list has another name of this member now.
    assert_eq!(with("old").handle_accepted(&hello(PEER, "c")), Ok(2));

    // This node learns of the member when the other one is connected already.
    let mut scene = Scene::of_members();
    scene.nodes.handle_members(known_as("a"));
    assert_eq!(scene.support(), [Some(Why::OtherNumber)]);
}

#[test]
fn alarms_travel_and_end_with_support() {
    let mut scene = Scene::of_members();
    let disk = Alarms { memory: false, disk: true };
    scene.health.alarms = disk;
    scene.run(400);
    assert_eq!(scene.take(), [Event::Alarms { peer: 1, alarms: disk }]);
    assert_eq!(scene.nodes.view().nodes[1].alarms, disk);
    let both = Alarms { memory: true, disk: true };
    scene.health.alarms = both;
    scene.run(400);
    assert_eq!(scene.take(), [Event::Alarms { peer: 1, alarms: both }]);
    let none = Event::Alarms { peer: 1, alarms: Alarms::default() };
    scene.wait(3_000);
    let events = scene.take();
    assert_eq!(events.iter().filter(|event| **event == none).count(), 1, "{events:?}");
    assert_eq!(scene.nodes.view().nodes[1].alarms, Alarms::default());
}

#[test]
fn alarms_of_a_node_that_is_not_a_member_do_not_count() {
    let mut scene = Scene::new(Directory::Member { cluster: CLUSTER, number: 1 }, State::Empty);
    scene.health.alarms = Alarms { memory: true, disk: false };
    scene.run(1_000);
    assert_eq!(scene.take(), []);
}

#[test]
fn alarms_of_an_earlier_boot_end() {
    let mut scene = Scene::of_members();
    scene.health.alarms = Alarms { memory: true, disk: false };
    scene.run(200);
    scene.take();
    let later = Life { boot: PEER.boot + 1, ..PEER };
    assert_eq!(scene.nodes.handle_accepted(&hello(later, "b")), Ok(1));
    assert!(scene.take().contains(&Event::Alarms { peer: 1, alarms: Alarms::default() }));
}

#[test]
fn the_view_shows_round_trip_and_clocks() {
    let mut scene = Scene::of_members();
    scene.ahead_ms = 70_000;
    scene.run(200);
    let view = scene.nodes.view();
    assert!(view.nodes[0].is_me && view.nodes[0].number == 1);
    let peer = &view.nodes[1];
    assert_eq!((peer.round_trip_ms, peer.clock_difference_ms), (Some(0), Some(70_000)));
    assert_eq!(peer.to_string(), "in order; its clock differs by 70000 ms");
    assert!(peer.is_dialed && peer.is_accepted && peer.trouble.is_none());
}

#[test]
fn clocks_that_differ_are_told_once() {
    let mut scene = Scene::of_members();
    let mut run = |ahead_ms| {
        scene.ahead_ms = ahead_ms;
        scene.run(1_000);
        scene.take()
    };
    let clocks = |ahead_ms, are_apart| [Event::Clocks { peer: 1, ahead_ms, are_apart }];
    assert_eq!(run(1_000), []);
    assert_eq!(run(1_001), clocks(1_001, true));
    assert_eq!(run(50_000), []);
    assert_eq!(run(500), [], "near the bound it is not told again and again");
    assert_eq!(run(499), clocks(499, false));
    assert_eq!(run(2_000), clocks(2_000, true));
}

#[test]
fn a_slow_answer_is_no_difference_of_clocks() {
    let mut scene = Scene::of_members();
    // The answer takes 1.8 s, and the other clock may have been read at any time of it.
    let heard = scene.heard;
    scene.ahead_ms = 1_800;
    scene.wait(1_800);
    scene.heard = heard;
    scene.beat();
    let view = scene.nodes.view();
    assert_eq!(view.nodes[1].round_trip_ms, Some(1_800));
    assert_eq!(view.nodes[1].clock_difference_ms, Some(2_700));
    assert_eq!(scene.take(), [Event::Clocks { peer: 1, ahead_ms: 2_700, are_apart: true }]);
    let mut scene = Scene::of_members();
    let heard = scene.heard;
    scene.ahead_ms = 1_000;
    scene.wait(1_800);
    scene.heard = heard;
    scene.beat();
    assert_eq!(scene.take(), [], "1.9 s, of which 0.9 s may be the way");
}
