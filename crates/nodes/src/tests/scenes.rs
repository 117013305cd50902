//! Scenes with several machines.

use link::ClusterId;

use super::sim::{Path, Violation, World};
use crate::{Directory, Waits};

const EMPTY: [Directory; 3] = [Directory::Empty; 3];

/// Returns three members that support each other.
fn formed(seed: u64) -> Result<World, Violation> {
    let mut world = World::new(seed, &EMPTY, None);
    world.heal();
    world.run_for(8_000)?;
    world.check_healed()?;
    Ok(world)
}

fn waits(world: &World, at: usize) -> String {
    world.nodes(at).expect("it runs").waits().to_string()
}

#[test]
fn cuts_of_any_length_leave_no_difference() {
    for (seed, cut_ms) in (0..).zip([10, 43, 200, 1_500, 1_990, 2_000, 2_100, 5_000, 8_000, 20_000, 60_000]) {
        for shape in 0..4 {
            let scene = || {
                let mut world = formed(seed * 4 + shape)?;
                let cuts: &[(usize, usize)] = match shape {
                    0 => &[(0, 1)],
                    1 => &[(0, 1), (1, 0)],
                    2 => &[(0, 1), (1, 0), (0, 2), (2, 0)],
                    _ => &[(2, 0), (2, 1)],
                };
                cuts.iter().for_each(|&(from, to)| world.set_path(from, to, Path::Cut));
                world.run_for(cut_ms)?;
                cuts.iter().for_each(|&(from, to)| world.set_path(from, to, Path::Open));
                world.run_for(10_000)?;
                world.check_healed()
            };
            assert_eq!(scene(), Ok(()), "cut {shape} of {cut_ms} ms");
        }
    }
}

/// The simulation itself checks that neither of two nodes supports the other after 3 s.
#[test]
fn a_cut_between_two_leaves_the_third_with_both() {
    for cuts in [&[(0, 1)][..], &[(0, 1), (1, 0)]] {
        let mut world = formed(7).expect("a cluster");
        cuts.iter().for_each(|&(from, to)| world.set_path(from, to, Path::Cut));
        world.run_for(30_000).expect("no violation");
        let numbers = world.hosts.iter().map(|host| match host.directory {
            Directory::Member { number, .. } => number,
            _ => 0,
        });
        let numbers: Vec<u32> = numbers.collect();
        let supports = |one: usize, other: usize| world.nodes(one).expect("it runs").supports(numbers[other]);
        assert!(!supports(0, 1) && !supports(1, 0));
        assert!(supports(0, 2) && supports(2, 0) && supports(1, 2) && supports(2, 1));
    }
}

#[test]
fn a_quiet_cluster_sends_beats_only() {
    let mut world = formed(3).expect("a cluster");
    let talk = world.talk;
    world.run_for(60_000).expect("no violation");
    assert_eq!(world.talk, talk);
}

#[test]
fn nobody_founds_while_a_listed_node_is_missing() {
    let mut world = World::new(1, &EMPTY, None);
    world.start(0);
    world.start(1);
    world.run_for(300_000).expect("no violation");
    assert!(world.clusters().is_empty());
    assert_eq!(waits(&world, 0), "a connection in both directions with node-2");
    world.start(2);
    world.run_for(10_000).expect("no violation");
    assert_eq!(world.check_healed(), Ok(()));
    assert_eq!(world.clusters().len(), 1);
}

#[test]
fn the_one_that_holds_data_founds() {
    let mut world = World::new(1, &[Directory::Empty, Directory::Empty, Directory::Holds], None);
    world.heal();
    world.run_for(10_000).expect("no violation");
    assert!(matches!(world.hosts[2].directory, Directory::Member { number: 1, .. }));
    assert_eq!(world.check_healed(), Ok(()));
}

#[test]
fn two_that_hold_data_wait_for_the_operator() {
    let mut world = World::new(1, &[Directory::Holds, Directory::Empty, Directory::Holds], None);
    world.heal();
    world.run_for(60_000).expect("no violation");
    assert!(world.clusters().is_empty());
    for at in 0..3 {
        let holders = Waits::Holders(vec!["node-0".to_owned(), "node-2".to_owned()]);
        assert_eq!(world.nodes(at).expect("it runs").waits(), holders);
    }
}

#[test]
fn a_wiped_founder_does_not_found_again() {
    let mut world = formed(5).expect("a cluster");
    let clusters = world.clusters();
    world.wipe(0);
    world.kill(1);
    world.start(0);
    world.run_for(60_000).expect("no violation");
    assert_eq!(world.hosts[0].directory, Directory::Empty);
    let text = waits(&world, 0);
    assert!(text.contains("node-2 refused: it would replace the member of the same name"), "{text}");
    world.start(1);
    world.run_for(10_000).expect("no violation");
    assert_eq!(world.check_healed(), Ok(()));
    assert_eq!(world.clusters(), clusters);
}

#[test]
fn nodes_with_other_lists_join_a_member_but_do_not_found() {
    let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let mut world = World::new(2, &EMPTY, None);
    world.set_list(2, list(&["node-0", "node-1", "node-2", "node-9"]));
    world.heal();
    world.run_for(20_000).expect("no violation");
    assert!(world.clusters().is_empty());
    for (at, text) in
        ["the list of node-2 differs", "the list of node-2", "the list of node-0, node-1"].iter().enumerate()
    {
        assert!(waits(&world, at).contains(text), "{}", waits(&world, at));
    }
    let view = world.nodes(0).expect("it runs").view();
    assert!(view.nodes[2].has_other_list && !view.nodes[1].has_other_list);

    let member = Directory::Member { cluster: ClusterId([7; 16]), number: 1 };
    let mut world = World::new(2, &[member, Directory::Empty, Directory::Empty], None);
    world.set_list(2, list(&["node-0", "node-1", "node-2", "node-9"]));
    world.heal();
    world.run_for(10_000).expect("no violation");
    assert!(world.hosts.iter().all(|host| matches!(host.directory, Directory::Member { .. })));
}
