//! What a cut keeps and loses. Each test cuts the power of equal disks with different seeds.

use super::*;

const OWNER: Owner = Owner { uid: 0, gid: 0, permissions: 0o644 };
/// So many cuts keep and lose each change at least once.
const SEEDS: u64 = 64;

fn name(name: &str) -> String {
    name.to_owned()
}

/// Returns a disk with one file, whose name and whose four sectors of ones are durable.
fn ones() -> (Disk, u64) {
    let mut disk = Disk::new(true);
    let file = disk.make(ROOT, name("file"), false, OWNER).unwrap();
    disk.write(file, 0, &[1; 4 * SECTOR]).unwrap();
    sync(&mut disk, file, Covers::File);
    sync(&mut disk, ROOT, Covers::Directory);
    (disk, file)
}

fn sync(disk: &mut Disk, node: u64, covers: Covers) {
    let ticket = disk.begin_sync(node, covers).unwrap();
    disk.end_sync(ticket).unwrap();
}

/// Returns the contents of the file after a cut, each with the bytes of its sectors, for each seed.
fn after_cuts(change: impl Fn(&mut Disk, u64)) -> Vec<Vec<u8>> {
    let after_cut = |seed| {
        let (mut disk, file) = ones();
        change(&mut disk, file);
        disk.cut(&mut Random(seed));
        let bytes = &disk.node(file).unwrap().seen;
        let sectors = bytes.chunks(SECTOR);
        sectors
            .map(|sector| {
                assert!(sector.iter().all(|byte| *byte == sector[0]), "a torn sector");
                sector[0]
            })
            .collect()
    };
    (0..SEEDS).map(after_cut).collect()
}

fn values(all: &[Vec<u8>], sector: usize) -> BTreeSet<Option<u8>> {
    all.iter().map(|sectors| sectors.get(sector).copied()).collect()
}

#[test]
fn a_cut_loses_and_keeps_sectors_that_were_not_synced() {
    let all = after_cuts(|disk, file| disk.write(file, SECTOR, &[2; 2 * SECTOR]).unwrap());
    assert_eq!(values(&all, 0), [Some(1)].into());
    assert_eq!(values(&all, 1), [Some(1), Some(2)].into());
    assert_eq!(values(&all, 3), [Some(1)].into());
    assert!(all.iter().any(|sectors| sectors[1] != sectors[2]), "each sector is lost by itself");
}

#[test]
fn a_cut_loses_and_keeps_lengths() {
    let longer = after_cuts(|disk, file| disk.write(file, 4 * SECTOR, &[2; SECTOR]).unwrap());
    assert_eq!(values(&longer, 4), [None, Some(0), Some(2)].into());
    let shorter = after_cuts(|disk, file| disk.resize(file, 2 * SECTOR).unwrap());
    assert_eq!(values(&shorter, 3), [None, Some(1)].into());
}

#[test]
fn a_sync_covers_what_was_written_before_it_began() {
    let all = after_cuts(|disk, file| {
        disk.write(file, 0, &[2; SECTOR]).unwrap();
        disk.write(file, 4 * SECTOR, &[2; SECTOR]).unwrap();
        let ticket = disk.begin_sync(file, Covers::File).unwrap();
        disk.write(file, 0, &[3; 2 * SECTOR]).unwrap();
        disk.end_sync(ticket).unwrap();
    });
    assert_eq!(values(&all, 0), [Some(2), Some(3)].into());
    assert_eq!(values(&all, 1), [Some(1), Some(3)].into());
    assert_eq!(values(&all, 4), [Some(2)].into());
}

#[test]
fn a_sync_that_has_not_ended_may_be_lost() {
    let all = after_cuts(|disk, file| {
        disk.write(file, 0, &[2; 2 * SECTOR]).unwrap();
        disk.begin_sync(file, Covers::File).unwrap();
    });
    assert_eq!(values(&all, 0), [Some(1), Some(2)].into());
    assert!(all.iter().any(|sectors| sectors[0] != sectors[1]), "each sector is lost by itself");
}

#[test]
fn a_durable_write_covers_its_own_sectors_only() {
    let all = after_cuts(|disk, file| {
        disk.write(file, 0, &[2; 3 * SECTOR]).unwrap();
        disk.write(file, SECTOR, &[3; SECTOR]).unwrap();
        sync(disk, file, Covers::Written(SECTOR..2 * SECTOR));
    });
    assert_eq!(values(&all, 0), [Some(1), Some(2)].into());
    assert_eq!(values(&all, 1), [Some(3)].into());
    assert_eq!(values(&all, 2), [Some(1), Some(2)].into());
}

#[test]
fn a_durable_write_makes_the_length_durable() {
    let all = after_cuts(|disk, file| {
        disk.write(file, 4 * SECTOR, &[2; 4 * SECTOR]).unwrap();
        disk.write(file, 5 * SECTOR, &[3; SECTOR]).unwrap();
        sync(disk, file, Covers::Written(5 * SECTOR..6 * SECTOR));
    });
    // What is before the write has this length, too, but its content is not durable.
    assert_eq!(values(&all, 4), [Some(0), Some(2)].into());
    assert_eq!(values(&all, 5), [Some(3)].into());
    assert_eq!(values(&all, 7), [None, Some(0), Some(2)].into());
}

#[test]
fn syncs_end_in_the_order_of_their_beginning() {
    let all = after_cuts(|disk, file| {
        disk.write(file, 0, &[2; SECTOR]).unwrap();
        disk.begin_sync(file, Covers::File).unwrap();
        disk.write(file, 0, &[3; SECTOR]).unwrap();
        let second = disk.begin_sync(file, Covers::Written(0..SECTOR)).unwrap();
        disk.end_sync(second).unwrap();
    });
    assert_eq!(values(&all, 0), [Some(3)].into());
}

#[test]
fn a_sync_during_a_cut_fails() {
    let (mut disk, file) = ones();
    let before = disk.begin_sync(file, Covers::File).unwrap();
    disk.cut(&mut Random(1));
    let after = disk.begin_sync(file, Covers::File).unwrap();
    assert_eq!(disk.end_sync(before), Err(Refused::Cut));
    assert_eq!(disk.end_sync(after), Ok(()));
}

#[test]
fn a_cut_loses_and_keeps_names() {
    let names_after = |seed, is_synced| {
        let (mut disk, file) = ones();
        let dir = disk.make(ROOT, name("dir"), true, OWNER).unwrap();
        sync(&mut disk, ROOT, Covers::Directory);
        disk.make(ROOT, name("new"), false, OWNER).unwrap();
        disk.rename((ROOT, name("file")), (dir, name("moved")), true).unwrap();
        if is_synced {
            sync(&mut disk, ROOT, Covers::Directory);
        }
        disk.cut(&mut Random(seed));
        assert_ne!(
            disk.look_up(ROOT, "file").is_ok(),
            disk.look_up(dir, "moved").is_ok(),
            "a move is lost as a whole"
        );
        assert!(disk.node(file).is_ok());
        (disk.look_up(ROOT, "new").is_ok(), disk.look_up(dir, "moved").is_ok())
    };
    let seen: BTreeSet<_> = (0..SEEDS).map(|seed| names_after(seed, false)).collect();
    assert_eq!(seen.len(), 4, "{seen:?}");
    assert!((0..SEEDS).all(|seed| names_after(seed, true) == (true, true)));
}

#[test]
fn what_is_lost_is_counted() {
    let (mut disk, file) = ones();
    disk.cut(&mut Random(1));
    assert_eq!(disk.lost, 0);
    for seed in 0..SEEDS {
        disk.write(file, 0, &[2; 4 * SECTOR]).unwrap();
        disk.cut(&mut Random(seed));
    }
    assert!(disk.lost > SEEDS, "{}", disk.lost);
}

#[test]
fn a_removed_file_needs_no_memory_once_nobody_can_reach_it() {
    let mut disk = Disk::new(false);
    let file = disk.make(ROOT, name("file"), false, OWNER).unwrap();
    disk.know(file);
    disk.remove(ROOT, name("file")).unwrap();
    // A program has it open.
    disk.write(file, 0, &[1; SECTOR]).unwrap();
    disk.forget(file, 1);
    assert!(disk.node(file).is_err());

    // On a disk that forgets, its name may come back.
    let (mut disk, file) = ones();
    disk.remove(ROOT, name("file")).unwrap();
    assert!(disk.node(file).is_ok());
    sync(&mut disk, ROOT, Covers::Directory);
    disk.cut(&mut Random(1));
    assert!(disk.node(file).is_err());
}

#[test]
fn names_are_taken_and_replaced_as_on_a_real_disk() {
    let mut disk = Disk::new(false);
    let [a, b] = ["a", "b"].map(|one| disk.make(ROOT, name(one), false, OWNER).unwrap());
    let dir = disk.make(ROOT, name("dir"), true, OWNER).unwrap();
    assert_eq!(disk.make(ROOT, name("a"), false, OWNER), Err(Refused::Exists));
    assert_eq!(disk.rename((ROOT, name("a")), (ROOT, name("b")), false), Err(Refused::Exists));
    disk.rename((ROOT, name("a")), (ROOT, name("b")), true).unwrap();
    assert_eq!((disk.look_up(ROOT, "b"), disk.look_up(ROOT, "a")), (Ok(a), Err(Refused::Missing)));
    assert!(disk.node(b).is_err());
    disk.link(a, dir, name("c")).unwrap();
    assert_eq!(disk.remove(ROOT, name("dir")), Err(Refused::NotEmpty));
    disk.remove(ROOT, name("b")).unwrap();
    assert_eq!(disk.look_up(dir, "c"), Ok(a));
}
