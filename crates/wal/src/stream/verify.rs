//! Reads all files of a stream and checks what they contain, for people who want to know before a broker uses them.

use std::io;

use super::chunk::ChunkPosition;
use super::files::{self, FILE_HEADER, Kind, SEGMENT_MAGIC};
use super::notes::Note;
use super::recover::{Bad, Tail, guaranteed_to};
use super::window::{Look, WINDOW_BYTES, Window};
use super::{STREAM_VERSION, StreamCut, StreamError, index};
use crate::disk::{Disk, read_all};

/// Checks the segments of a stream, whose first offsets are `firsts`, and their indexes. Calls `on_flaw` for each damaged place.
/// Returns what an interrupted write has left. Reports no gaps between segments, because [`super::recover::missing`] does.
/// Memory: the largest chunk.
pub(super) fn verify<D: Disk>(
    disk: &mut D,
    stream: u64,
    firsts: &[u64],
    note: Option<(Note, bool)>,
    on_flaw: &mut dyn FnMut(StreamError),
) -> Option<StreamCut> {
    let mut cut = None;
    for (at, &first) in firsts.iter().enumerate() {
        // A segment's chunks end where the next segment begins.
        let end = match firsts.get(at + 1) {
            Some(&next) => next,
            None => match Tail::read_whole(disk, stream, first, guaranteed_to(note)) {
                Ok((tail, left)) => {
                    cut = left;
                    tail.next
                }
                Err(error) => {
                    // The walk finds all damaged places, this one included.
                    if !matches!(error, StreamError::Damaged { .. }) {
                        on_flaw(error);
                    }
                    u64::MAX
                }
            },
        };
        if let Err(error) = walk(disk, stream, first, end, on_flaw) {
            on_flaw(StreamError::Io { file: Kind::Segment.name(stream, first), error });
        }
        let file = Kind::Index.name(stream, first);
        match index::corrupt_at(disk, stream, first) {
            Ok(Some(offset)) => on_flaw(StreamError::Damaged { file, offset, from: None }),
            Ok(None) => {}
            Err(error) => on_flaw(StreamError::Io { file, error }),
        }
    }
    cut
}

/// Goes over the chunks of a segment up to the offset `end`, or to the end of the file. After a damaged place it goes on with
/// the next whole chunk.
fn walk<D: Disk>(
    disk: &mut D,
    stream: u64,
    segment: u64,
    end: u64,
    on_flaw: &mut dyn FnMut(StreamError),
) -> io::Result<()> {
    let file = Kind::Segment.name(stream, segment);
    let damaged = |offset, from| StreamError::Damaged { file: file.clone(), offset, from: Some(from) };
    let mut handle = disk.open(&file)?;
    let length = disk.len(&mut handle)?;
    let mut header = [0; FILE_HEADER];
    let read = read_all(disk, &mut handle, 0, &mut header)?;
    let (mut at, mut next, mut timestamp_ms) = (FILE_HEADER as u64, segment, 0);
    if next < end {
        match files::version(&header[..read], SEGMENT_MAGIC) {
            Some(version) if version > STREAM_VERSION => {
                on_flaw(StreamError::Newer { file, version });
                return Ok(());
            }
            Some(_) => {}
            None => on_flaw(damaged(0, segment)),
        }
    }
    let mut window = Window::default();
    while next < end {
        let place = ChunkPosition { stream, at };
        match window.look((&mut *disk, &mut handle), place, WINDOW_BYTES)? {
            Look::Chunk(header) if header.first == next && header.timestamp_ms >= timestamp_ms => {
                if window.chunk((&mut *disk, &mut handle), place, &header, WINDOW_BYTES)?.is_none() {
                    on_flaw(damaged(at, next));
                }
                (at, next, timestamp_ms) = (at + header.bytes(), header.next(), header.timestamp_ms);
            }
            Look::End => break,
            _ => {
                on_flaw(damaged(at, next));
                let bad = Bad { stream, from: at, next, length };
                let Some(whole) = bad.whole_chunk(disk, &mut handle)? else { break };
                let Look::Chunk(header) = window.look(
                    (&mut *disk, &mut handle),
                    ChunkPosition { stream, at: whole },
                    WINDOW_BYTES,
                )?
                else {
                    break;
                };
                (at, next, timestamp_ms) = (whole, header.first, header.timestamp_ms);
            }
        }
    }
    Ok(())
}
