//! The formats of streams: every released version opens, the current one is written byte for byte as before,
//! and a newer one is refused. An interrupted end is cut. Damage is reported and left in place.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::chunks::{LIMITS, Owner, chunk, job, open, read_all};
use wal::{
    Bloom, Chunk, ChunkJob, NewChunk, ReadFrom, Retained, STREAM_VERSION, StreamCut, StreamError,
    StreamLimits, StreamReader,
};
use wal_testing::{Random, SimDisk};

type Files = BTreeMap<String, Vec<u8>>;

const LAST: &str = "0000000000000007-00000000000000000009.segment";
const SMALL: StreamLimits = StreamLimits { segment_bytes: 900, ..LIMITS };

/// Returns stream 7 in two segments, with filters in the second, and stream 8 in one segment with two entries
/// in its index.
fn sample() -> (Files, Vec<Chunk>) {
    let disk = SimDisk::new(0);
    let mut owner = Owner::new(&disk);
    owner.open(7, SMALL, 0).unwrap();
    owner.open(8, LIMITS, 0).unwrap();
    owner
        .append(7, vec![chunk(0, 2, 1000, 300), chunk(2, 3, 1000, 300), chunk(5, 4, 2000, 100)], true)
        .unwrap();
    for first in 9..12 {
        let mut bloom = Bloom::new(16);
        bloom.insert(b"value");
        bloom.insert_none();
        let new = NewChunk { bloom: Some(bloom), ..chunk(first, 1, 3000, 200) };
        owner.append(7, vec![new], false).unwrap();
    }
    owner.append(8, vec![chunk(0, 1, 5, 70_000), chunk(1, 1, 6, 10)], false).unwrap();
    // Another open completes the index of the last segment.
    drop(owner);
    let mut owner = Owner::new(&disk);
    owner.open(7, SMALL, 0).unwrap();
    owner.open(8, LIMITS, 0).unwrap();
    let all = read_all(&mut StreamReader::new(disk.clone()), 7, &owner.retained(7));
    assert_eq!((all.len(), owner.retained(7).segments.len()), (6, 2));
    (disk.files(), all)
}

fn disk_of(files: &Files) -> SimDisk {
    let disk = SimDisk::new(0);
    files.iter().for_each(|(name, bytes)| disk.put(name, bytes));
    disk
}

fn open_stream(disk: &SimDisk) -> Result<(Retained, Option<StreamCut>), StreamError> {
    Owner::new(disk).open(7, SMALL, 0)
}

fn golden(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("golden/streams-v{version}"))
}

#[test]
fn formats_are_versioned() {
    for version in 1..=STREAM_VERSION {
        let mut files = Files::new();
        for entry in std::fs::read_dir(golden(version)).unwrap() {
            let path = entry.unwrap().path();
            files.insert(path.file_name().unwrap().to_str().unwrap().into(), std::fs::read(&path).unwrap());
        }
        let (now, all) = sample();
        let disk = disk_of(&files);
        let (kept, cut) = open_stream(&disk).unwrap();
        assert_eq!((kept.first, kept.next, kept.last_chunk, cut), (0, 12, Some(11), None));
        assert_eq!((kept.first_timestamp_ms, kept.last_timestamp_ms), (Some(1000), Some(3000)));
        assert_eq!(read_all(&mut StreamReader::new(disk.clone()), 7, &kept), all);
        assert_eq!(disk.files(), files, "an open writes nothing");
        if version == STREAM_VERSION {
            assert!(files == now, "the format changed: give it a new version and a golden directory");
        }
    }
}

/// Writes the golden files. Run once per version: `cargo test -p wal --test stream_formats -- --ignored`.
#[test]
#[ignore = "writes the golden directory of a new version"]
fn write_golden_directory() {
    let directory = golden(STREAM_VERSION);
    std::fs::create_dir_all(&directory).unwrap();
    for (name, bytes) in sample().0 {
        std::fs::write(directory.join(name), bytes).unwrap();
    }
}

#[test]
fn a_newer_version_is_refused_before_anything_is_written() {
    let newer = (STREAM_VERSION + 1).to_be_bytes();
    let (mut files, _) = sample();
    // The version file has the header of version 2, and its CRC-32C.
    files.insert("streams.version".into(), b"SLsv\0\0\0\x02\xf5\xa7\xd1\x2a".to_vec());
    let disk = disk_of(&files);
    let error = open(&disk).err().unwrap();
    assert_eq!(error.to_string(), "stream file streams.version has format version 2; this program knows 1");
    assert_eq!(disk.changes(), 0);
    for name in
        sample().0.keys().filter(|name| name.starts_with("0000000000000007") && name.ends_with("segment"))
    {
        let (mut files, _) = sample();
        files.get_mut(name).unwrap()[4..8].copy_from_slice(&newer);
        let disk = disk_of(&files);
        let error = open_stream(&disk).unwrap_err();
        assert!(matches!(&error, StreamError::Newer { file, version: 2 } if file == name), "{error}");
        assert_eq!(disk.changes(), 0);
        let kept = Retained { next: 12, segments: [0, 9].into(), ..Retained::default() };
        let at = if name == LAST { ReadFrom::Offset(9) } else { ReadFrom::First };
        let read = StreamReader::new(disk).read(&job(7, at, &kept));
        assert!(matches!(read, Err(StreamError::Newer { .. })));
    }
}

/// Wherever the last write was interrupted, whole chunks stay, and the rest is cut and reported.
#[test]
fn an_interrupted_end_is_cut_at_every_byte() {
    let (files, all) = sample();
    let length = files[LAST].len();
    let ends = [8, 272, 536, 800];
    assert_eq!(length, ends[3]);
    for at in 0..=length {
        let mut files = files.clone();
        files.get_mut(LAST).unwrap().truncate(at);
        let disk = disk_of(&files);
        let (kept, cut) = open_stream(&disk).unwrap();
        let whole = ends.iter().rposition(|&end| end <= at).unwrap_or(0);
        let end = if whole == 0 { 0 } else { ends[whole] };
        assert_eq!(kept.next, 9 + whole as u64, "cut at byte {at}");
        let bytes = (at - end) as u64;
        let wanted = StreamCut { file: LAST.into(), offset: end as u64, bytes, left: false };
        assert_eq!(cut, (bytes > 0).then_some(wanted));
        assert_eq!(kept.last_chunk, Some(if whole == 0 { 5 } else { 8 + whole as u64 }));
        // The stream continues at the offset where it was.
        let mut owner = Owner::new(&disk);
        let (kept, cut) = owner.open(7, SMALL, 0).unwrap();
        assert_eq!(cut, None);
        let kept = owner.append(7, vec![chunk(kept.next, 1, 0, 50)], true).unwrap();
        let read = read_all(&mut StreamReader::new(disk), 7, &kept);
        assert_eq!((&read[..3 + whole], read.len()), (&all[..3 + whole], 4 + whole));
    }
}

/// A bad chunk before a good one is no interrupted end, so nothing is written. A bad last chunk may be one.
#[test]
fn every_flipped_bit_is_found_and_damage_is_left_in_place() {
    let (files, all) = sample();
    for bit in 0..8 * files[LAST].len() {
        let mut files = files.clone();
        files.get_mut(LAST).unwrap()[bit / 8] ^= 0x80 >> (bit % 8);
        let disk = disk_of(&files);
        let byte = bit as u64 / 8;
        let opened = open_stream(&disk);
        // The flip changes the version to another one; 0 is no version.
        if matches!(byte, 4..8) && bit != 63 {
            assert!(matches!(opened, Err(StreamError::Newer { .. })), "bit {bit}");
            continue;
        }
        let place = match byte {
            0..8 => 0,
            _ => 8 + (byte - 8) / 264 * 264,
        };
        match opened {
            Err(StreamError::Damaged { file, offset, .. }) => {
                assert_eq!((&*file, offset), (LAST, place), "bit {bit}");
                assert!(place < 536, "there is no whole chunk after the last");
                assert_eq!(disk.changes(), 0);
            }
            Ok((kept, Some(cut))) => {
                assert_eq!((place, kept.next, cut.offset, cut.bytes), (536, 11, 536, 264), "bit {bit}");
            }
            other => panic!("bit {bit}: {other:?}"),
        }
        // A reader gets the chunks before the damage, and then the error.
        let kept = Retained { next: 12, segments: [0, 9].into(), ..Retained::default() };
        let disk = disk_of(&files);
        let mut reader = StreamReader::new(disk);
        let read = reader.read(&job(7, ReadFrom::First, &kept)).unwrap();
        let good = 3 + place.saturating_sub(8) as usize / 264;
        assert_eq!(read.chunks, all[..good], "bit {bit}");
        match reader.read(&job(7, ReadFrom::At(read.next), &kept)) {
            Err(StreamError::Damaged { file, offset, .. }) => assert_eq!((&*file, offset), (LAST, place)),
            other => panic!("bit {bit}: {other:?}"),
        }
    }
}

/// A sector that was never written is zeros. What follows it was not synced either: it is skipped and left in
/// place.
#[test]
fn a_lost_sector_is_an_interrupted_end() {
    let disk = SimDisk::new(0);
    let mut owner = Owner::new(&disk);
    owner.open(7, LIMITS, 0).unwrap();
    owner.append(7, (0..9).map(|n| chunk(n, 1, 0, 1000)).collect(), false).unwrap();
    let files = disk.files();
    let (name, whole) = files.iter().find(|(name, _)| name.ends_with("segment")).unwrap();
    for sector in 0..whole.len().div_ceil(512) {
        let mut bytes = whole.clone();
        let end = bytes.len().min(512 * sector + 512);
        bytes[512 * sector..end].fill(0);
        let disk = disk_of(&files);
        disk.put(name, &bytes);
        let mut owner = Owner::new(&disk);
        let (kept, cut) = owner.open(7, LIMITS, 0).unwrap();
        let good = (512 * sector as u64).saturating_sub(8) / 1048;
        let cut = cut.unwrap();
        let is_last = end > 8 + 8 * 1048;
        assert_eq!(
            (kept.next, cut.offset, cut.left),
            (good, if good == 0 { 0 } else { 8 + good * 1048 }, !is_last)
        );
        if is_last {
            continue;
        }
        assert_eq!(disk.files()[name], bytes, "a start destroys no message");
        // The next append begins a segment. Neither the next start nor a reader sees what was left.
        owner.append(7, vec![chunk(good, 1, 0, 500)], true).unwrap();
        drop(owner);
        let (kept, cut) = Owner::new(&disk).open(7, LIMITS, 0).unwrap();
        assert_eq!((kept.next, cut), (good + 1, None));
        let all = StreamReader::new(disk.clone()).read(&job(7, ReadFrom::First, &kept)).unwrap();
        let firsts: Vec<u64> = all.chunks.iter().map(|chunk| chunk.first).collect();
        assert_eq!((firsts, all.end), ((0..=good).collect(), true));
        // If no chunk precedes the bad place, the next segment has the same name and replaces the file.
        assert_eq!(disk.files()[name] == bytes, good > 0);
    }
}

/// An index that is missing, torn, all zeros or of another segment costs time and nothing else.
#[test]
fn an_index_is_never_needed() {
    let disk = SimDisk::new(0);
    let mut owner = Owner::new(&disk);
    owner.open(7, LIMITS, 0).unwrap();
    owner.append(7, (0..300).map(|n| chunk(n, 1, n, 1000)).collect(), false).unwrap();
    let kept = owner.retained(7);
    drop(owner);
    Owner::new(&disk).open(7, LIMITS, 0).unwrap();
    let files = disk.files();
    let name = files.keys().find(|name| name.ends_with("index")).unwrap();
    let good = &files[name];
    assert_eq!(good.len(), 8 + 28 * 5);
    let mut bad = vec![Vec::new(), good[..7].to_vec(), good[..50].to_vec(), vec![0; 300]];
    for at in 0..good.len() {
        bad.push(good.clone());
        bad.last_mut().unwrap()[at] ^= 0x10;
    }
    // The entries of a segment that was replaced: their checksums match, but they do not point to chunks.
    let other = SimDisk::new(0);
    let mut owner = Owner::new(&other);
    owner.open(7, LIMITS, 0).unwrap();
    owner.append(7, (0..300).map(|n| chunk(n, 1, n, 900)).collect(), false).unwrap();
    drop(owner);
    Owner::new(&other).open(7, LIMITS, 0).unwrap();
    bad.push(other.files()[name].clone());
    for index in bad {
        let disk = disk_of(&files);
        disk.put(name, &index);
        for n in [0, 7, 61, 62, 63, 200, 299] {
            for from in [ReadFrom::Offset(n), ReadFrom::Time(n)] {
                let one = ChunkJob { bytes_max: 1, ..job(7, from, &kept) };
                let found = StreamReader::new(disk.clone()).read(&one).unwrap();
                assert_eq!(found.chunks[0].first, n);
            }
        }
        let (again, cut) = Owner::new(&disk).open(7, LIMITS, 0).unwrap();
        assert_eq!((again, cut), (kept.clone(), None));
    }
    let disk = disk_of(&files.clone().into_iter().filter(|(name, _)| !name.ends_with("index")).collect());
    let mut owner = Owner::new(&disk);
    assert_eq!(owner.open(7, LIMITS, 0).unwrap(), (kept, None));
    assert_eq!(&disk.files()[name], good, "created again");
}

/// Whatever the files contain: no panic, no more memory than the files have, and everything returned was
/// verified.
#[test]
fn arbitrary_bytes_are_damage_or_cut() {
    let (files, all) = sample();
    let names: Vec<&String> = files.keys().filter(|name| name.starts_with("0000000000000007")).collect();
    for seed in 0..4000 {
        let mut random = Random(seed);
        let mut files = files.clone();
        for _ in 0..1 + random.below(4) {
            let bytes = files.get_mut(names[random.below(names.len() as u64) as usize]).unwrap();
            let at = random.below(bytes.len() as u64) as usize;
            match random.below(4) {
                0 => bytes.truncate(at.max(1)),
                1 => bytes[at] = random.next() as u8,
                2 => bytes[at..].fill_with(|| random.next() as u8),
                _ => bytes.extend((0..at).map(|_| random.next() as u8)),
            }
        }
        let disk = disk_of(&files);
        let kept = Retained { next: 12, segments: [0, 9].into(), ..Retained::default() };
        for from in
            [ReadFrom::First, ReadFrom::Last, ReadFrom::Offset(random.below(12)), ReadFrom::Time(2000)]
        {
            if let Ok(found) = StreamReader::new(disk.clone()).read(&job(7, from, &kept)) {
                assert!(found.chunks.iter().all(|chunk| all.contains(chunk)), "seed {seed}");
            }
        }
        let mut owner = Owner::new(&disk);
        if let Ok((kept, _)) = owner.open(7, SMALL, 0) {
            owner.append(7, vec![chunk(kept.next, 1, 9999, 50)], true).unwrap();
        }
        assert!(disk.longest_read() <= 1 << 20);
    }
}
