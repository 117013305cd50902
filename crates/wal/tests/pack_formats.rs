//! The format of packs: every released version opens, the current one is written byte for byte as before, a
//! newer one is refused, and damage is found and located anywhere.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use wal::{
    BLOCK_BYTES, Block, Extent, Flaw, LARGE, PACK_VERSION, PackError, PackOptions, PackReader, Packs,
    ReadError, Record, Records, Run,
};
use wal_testing::{Op, SimDisk};

const FILE_HEADER: usize = 48;
const BLOCK_HEADER: usize = 20;

type Files = BTreeMap<String, Vec<u8>>;

/// Returns two packs, the first with runs of two owners. The second run of owner 1 has three blocks.
fn sample() -> (Files, Vec<(u64, Extent, Vec<Record>)>) {
    let disk = SimDisk::new(0);
    let options = PackOptions { pack_bytes: 900, ..PackOptions::default() };
    let mut packs = Packs::open(disk.clone(), options, [], false).unwrap();
    let mut written = Vec::new();
    let mut runs = Vec::new();
    for (owner, blocks) in [(1, vec![2]), (2, vec![1, 2]), (1, vec![3, 1, 1])] {
        let mut run = Run::new(owner);
        let mut all = Vec::new();
        for (block, &records) in blocks.iter().enumerate() {
            let mut encoded = Records::new();
            for nth in 0..records {
                let (seq, kind) = (100 * owner + 10 * block as u64 + nth, nth as u8);
                let body = vec![b'a' + seq as u8 % 26; 20 + 50 * nth as usize];
                encoded.push(owner, seq, kind, &[&body]);
                all.push(Record { owner, seq, kind, file: 0, batch: 0, body: body.into() });
            }
            run.blocks.push(encoded);
        }
        runs.push(run);
        written.push((owner, all));
    }
    let mut large = Run::new(3);
    large.push(7, 7, b"head", Bytes::from(vec![b'z'; LARGE]));
    let body = [b"head".as_slice(), &[b'z'; LARGE]].concat().into();
    written.push((3, vec![Record { owner: 3, seq: 7, kind: 7, file: 0, batch: 0, body }]));
    runs.push(large);
    let extents = packs.write(runs).unwrap();
    assert_eq!(extents.iter().map(|extent| extent.pack).collect::<Vec<_>>(), [1, 1, 1, 2]);
    let written = written.into_iter().zip(extents).map(|((owner, records), extent)| (owner, extent, records));
    (disk.files(), written.collect())
}

fn disk_of(files: &Files) -> SimDisk {
    let disk = SimDisk::new(0);
    files.iter().for_each(|(name, bytes)| disk.put(name, bytes));
    disk
}

fn open(disk: &SimDisk, known: &[Extent]) -> Result<Packs<SimDisk>, PackError> {
    Packs::open(disk.clone(), PackOptions::default(), known.iter().copied(), false)
}

fn blocks(reader: &mut PackReader<SimDisk>, extent: Extent, owner: u64) -> Result<Vec<Block>, ReadError> {
    let mut blocks = Vec::new();
    let mut at = Some(0);
    while let Some(from) = at {
        let block = reader.read(extent, owner, from)?;
        at = block.next;
        blocks.push(block);
    }
    Ok(blocks)
}

fn records(reader: &mut PackReader<SimDisk>, extent: Extent, owner: u64) -> Result<Vec<Record>, ReadError> {
    Ok(blocks(reader, extent, owner)?.into_iter().flat_map(|block| block.records).collect())
}

fn flaw(result: Result<Vec<Record>, ReadError>) -> (u64, u64, Flaw) {
    match result {
        Err(ReadError::Damaged { pack, offset, what }) => (pack, offset, what),
        other => panic!("{other:?}"),
    }
}

fn golden(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("golden/packs-v{version}"))
}

#[test]
fn formats_are_versioned() {
    for version in 1..=PACK_VERSION {
        let mut files = Files::new();
        for entry in std::fs::read_dir(golden(version)).unwrap() {
            let path = entry.unwrap().path();
            files.insert(path.file_name().unwrap().to_str().unwrap().into(), std::fs::read(&path).unwrap());
        }
        let (now, written) = sample();
        let disk = disk_of(&files);
        let known: Vec<Extent> = written.iter().map(|&(_, extent, _)| extent).collect();
        let packs = open(&disk, &known).unwrap();
        let live = known.iter().map(|extent| u64::from(extent.bytes)).sum();
        assert_eq!(packs.bytes(), (files.values().map(|bytes| bytes.len() as u64).sum(), live));
        let mut reader = PackReader::new(disk.clone());
        for (owner, extent, wanted) in &written {
            let found = records(&mut reader, *extent, *owner).unwrap();
            assert!(found == *wanted, "version {version} reads back as it was written");
        }
        assert_eq!(disk.files(), files);
        if version == PACK_VERSION {
            assert!(files == now, "the format changed: give it a new version and a golden directory");
        }
    }
}

/// Writes the golden files. Run once per version: `cargo test -p wal --test pack_formats -- --ignored`.
#[test]
#[ignore = "writes the golden directory of a new version"]
fn write_golden_directory() {
    let directory = golden(PACK_VERSION);
    std::fs::create_dir_all(&directory).unwrap();
    for (name, bytes) in sample().0 {
        std::fs::write(directory.join(name), bytes).unwrap();
    }
}

#[test]
fn a_newer_version_is_refused_before_anything_is_written() {
    let (mut files, _) = sample();
    let (name, bytes) = files.iter_mut().next_back().unwrap();
    let name = name.clone();
    bytes[8..12].copy_from_slice(&(PACK_VERSION + 1).to_le_bytes());
    let check = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &bytes[..44]) as u32;
    bytes[44..48].copy_from_slice(&check.to_le_bytes());
    let disk = disk_of(&files);
    // An open without known extents would remove the other pack.
    match open(&disk, &[]) {
        Err(error @ PackError::NewerFormat { .. }) => {
            assert_eq!(error.to_string(), format!("pack {name} has format version 2; this program knows 1"))
        }
        other => panic!("{:?}", other.map(|packs| packs.bytes())),
    }
    assert_eq!(disk.changes(), 0);
}

#[test]
fn every_flipped_bit_is_reported_and_costs_one_block() {
    let (files, written) = sample();
    let good = disk_of(&files);
    let mut reader = PackReader::new(good);
    let known: Vec<Extent> = written.iter().map(|&(_, extent, _)| extent).collect();
    // Each place is a pack, an offset and the end of the block.
    let mut places = Vec::new();
    for &(owner, extent, _) in &written {
        let mut offset = u64::from(extent.offset);
        for block in blocks(&mut reader, extent, owner).unwrap() {
            let end = offset + u64::from(block.bytes);
            places.push((extent.pack, offset, end));
            offset = end;
        }
    }
    for (pack, name) in files.keys().enumerate().map(|(index, name)| (index as u64 + 1, name)) {
        for at in 0..files[name].len() {
            let mut files = files.clone();
            files.get_mut(name).unwrap()[at] ^= 1 << (at % 8);
            let disk = disk_of(&files);
            open(&disk, &known).unwrap();
            let hit = places.iter().find(|p| p.0 == pack && (p.1..p.2).contains(&(at as u64)));
            let mut reader = PackReader::new(disk);
            for (owner, extent, wanted) in &written {
                let mut offset = extent.offset;
                for block in every_block(&mut reader, *extent, *owner, &places) {
                    let place = (extent.pack, u64::from(offset));
                    match block {
                        Ok(block) => {
                            assert!(hit.is_none_or(|hit| (hit.0, hit.1) != place), "byte {at} of {name}");
                            assert!(block.records.iter().all(|record| wanted.contains(record)));
                            offset += block.bytes;
                        }
                        Err(error) => {
                            let hit = hit.expect("a block is hit");
                            assert_eq!(place, (hit.0, hit.1), "byte {at} of {name}");
                            let what = if at as u64 >= hit.1 + BLOCK_HEADER as u64 {
                                Flaw::Payload
                            } else {
                                Flaw::Header
                            };
                            assert_eq!(flaw(Err(error)), (hit.0, hit.1, what));
                            offset += (hit.2 - hit.1) as u32;
                        }
                    }
                }
                assert_eq!(offset, extent.offset + extent.bytes, "every block was tried");
            }
        }
    }
}

/// Reads every block of an extent, including those after a damaged one.
fn every_block(
    reader: &mut PackReader<SimDisk>,
    extent: Extent,
    owner: u64,
    places: &[(u64, u64, u64)],
) -> Vec<Result<Block, ReadError>> {
    let start = u64::from(extent.offset);
    let within = start..start + u64::from(extent.bytes);
    let inside = places.iter().filter(|place| place.0 == extent.pack && within.contains(&place.1));
    inside.map(|place| reader.read(extent, owner, (place.1 - start) as u32)).collect()
}

#[test]
fn a_cut_or_missing_pack_is_damage() {
    let (files, written) = sample();
    let (owner, extent, _) = written[3];
    assert_eq!((extent.pack, extent.offset as usize), (2, FILE_HEADER));
    let name = files.keys().nth(1).unwrap();
    for length in 0..files[name].len() {
        let mut files = files.clone();
        files.get_mut(name).unwrap().truncate(length);
        let disk = disk_of(&files);
        let packs = open(&disk, &[extent]).unwrap();
        assert_eq!(packs.bytes(), (length as u64, u64::from(extent.bytes)));
        let mut reader = PackReader::new(disk);
        assert_eq!(flaw(records(&mut reader, extent, owner)), (2, FILE_HEADER as u64, Flaw::Short));
    }
    let mut files = files.clone();
    files.remove(name);
    let disk = disk_of(&files);
    let mut packs = open(&disk, &[extent]).unwrap();
    assert_eq!(packs.bytes(), (0, u64::from(extent.bytes)));
    let error = records(&mut PackReader::new(disk.clone()), extent, owner);
    assert_eq!(
        error.as_ref().unwrap_err().to_string(),
        format!("pack {name}, block at 48: the pack is missing")
    );
    assert_eq!(flaw(error), (2, FILE_HEADER as u64, Flaw::Missing));
    // The number of the lost pack is not used again, and its extent can be released like any other.
    let mut run = Run::new(1);
    run.push(1, 1, b"x", Bytes::new());
    assert_eq!(packs.write(vec![run]).unwrap()[0].pack, 3);
    packs.release(extent);
    assert_eq!(disk.files().len(), 1);
}

#[test]
fn an_extent_reads_back_for_its_owner_and_its_place_only() {
    let (files, written) = sample();
    let disk = disk_of(&files);
    let mut reader = PackReader::new(disk);
    let (owner, extent, _) = written[2];
    let place = u64::from(extent.offset);
    assert_eq!(flaw(records(&mut reader, extent, owner + 1)), (1, place, Flaw::Header));
    let ends = blocks(&mut reader, extent, owner).unwrap().into_iter().filter_map(|block| block.next);
    let starts: Vec<u32> = ends.collect();
    assert_eq!(starts.len(), 2);
    for at in (1..extent.bytes).filter(|at| !starts.contains(at)) {
        assert!(matches!(reader.read(extent, owner, at), Err(ReadError::Damaged { .. })), "byte {at}");
    }
    for at in [extent.bytes, u32::MAX] {
        assert!(matches!(reader.read(extent, owner, at), Err(ReadError::Damaged { what: Flaw::Short, .. })));
    }
    let short = Extent { bytes: 30, ..extent };
    assert_eq!(flaw(records(&mut reader, short, owner)), (1, place, Flaw::Header));
    // The test stores the bytes of one pack under the name of another.
    let mut files = files.clone();
    let one = files.values().next().unwrap().clone();
    files.insert("00000000000000000009.pack".into(), one);
    let moved = Extent { pack: 9, ..extent };
    assert_eq!(flaw(records(&mut PackReader::new(disk_of(&files)), moved, owner)), (9, place, Flaw::Header));
}

#[test]
fn a_block_costs_one_read_of_bounded_length() {
    let disk = SimDisk::new(0);
    let mut packs = open(&disk, &[]).unwrap();
    let mut run = Run::new(1);
    for seq in 0..1000 {
        run.push(seq, 1, &[seq as u8; 1000], Bytes::new());
    }
    run.push(1000, 1, b"", Bytes::from(vec![1; 3 * BLOCK_BYTES]));
    run.push(1001, 1, b"last", Bytes::new());
    let extent = packs.write(vec![run]).unwrap()[0];
    let mut reader = PackReader::new(disk.clone());
    let blocks = blocks(&mut reader, extent, 1).unwrap();
    let seqs = blocks.iter().flat_map(|block| &block.records).map(|record| record.seq);
    assert!(seqs.eq(0..=1001));
    let sizes: Vec<usize> = blocks.iter().map(|block| block.bytes as usize - BLOCK_HEADER).collect();
    assert_eq!(sizes, [256 * 1024, 256 * 1024, 256 * 1024, 232 * 1024, 24 + 3 * BLOCK_BYTES, 28]);
    // One read each, and one more for the rest of the large block.
    assert_eq!(disk.count(Op::Read), blocks.len() as u64 + 1);
    assert_eq!(disk.longest_read(), 2 * BLOCK_BYTES + 24);
}
