//! Finds many sequences of words in one key together (Shift-And).
//!
//! Each word of each sequence has a *position*, which is one bit. The positions of a sequence follow each other. While a
//! key is read, a bit is set if the words read last are those of its sequence up to its position. With each word of the
//! key all bits move up by one, and those remain that stand for this word. 64 positions share a machine word, which is
//! called a *cell* here.

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::Steps;

const CELL_BITS: usize = u64::BITS as usize;

/// Sequences of words. `*` stands for any one word, and a `#` inside a sequence for any number of words.
#[derive(Clone, Debug, Default)]
pub(super) struct Bits {
    /// The number of positions.
    len: usize,
    cells: Vec<Cell>,
    /// The positions of each word. Words occur in few cells, so the other cells are left out.
    words: HashMap<Box<str>, Vec<Mask>>,
    /// The positions of `*`.
    stars: Vec<Mask>,
}

/// What is special about the positions of a cell.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    /// The first position of each sequence. A sequence may begin at any word of a key.
    starts: u64,
    /// The positions before a `#` inside a sequence. Their bits stay set.
    held: u64,
    /// The last position of each sequence.
    ends: u64,
}

/// Some positions of one cell.
#[derive(Clone, Copy, Debug)]
struct Mask {
    cell: usize,
    bits: u64,
}

/// The state of a cell while a key is read.
#[derive(Clone, Copy, Debug)]
struct State {
    now: u64,
    /// The bits of the word before, moved up by one.
    moved: u64,
    /// The ends of the sequences that have not been found yet.
    open: u64,
}

impl Bits {
    /// The number of positions.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds a sequence, and returns its last position. Returns `None` if it has no words, so that it is found in every key.
    pub(super) fn push(&mut self, sequence: &[&str]) -> Option<usize> {
        let (mut last, mut skips) = (None::<usize>, false);
        for word in sequence {
            if *word == "#" {
                skips = true;
                continue;
            }
            let position = self.len;
            let (cell, bit) = (position / CELL_BITS, bit_of(position));
            self.len += 1;
            self.cells.resize(cell + 1, Cell::default());
            match last {
                None => self.cells[cell].starts |= bit,
                Some(last) if skips => self.cells[last / CELL_BITS].held |= bit_of(last),
                Some(_) => {}
            }
            let masks = match *word {
                "*" => &mut self.stars,
                word => self.words.entry(word.into()).or_default(),
            };
            match masks.last_mut() {
                Some(mask) if mask.cell == cell => mask.bits |= bit,
                _ => masks.push(Mask { cell, bits: bit }),
            }
            (last, skips) = (Some(position), false);
        }
        let last = last?;
        self.cells[last / CELL_BITS].ends |= bit_of(last);
        Some(last)
    }

    /// Calls `found` for every sequence that `key` contains, once: with its last position, and the rest of the key behind
    /// its first occurrence. Takes a step for each cell that is moved. Ends early if no steps are left.
    pub(super) fn find<'k>(
        &self,
        key: &'k [&'k str],
        steps: &mut Steps,
        mut found: impl FnMut(usize, &'k [&'k str], &mut Steps),
    ) {
        if self.cells.is_empty() {
            return;
        }
        // Most tables have a few cells, which take no allocation.
        let start = |cell: &Cell| State { now: 0, moved: 0, open: cell.ends };
        let mut states: SmallVec<[State; 8]> = self.cells.iter().map(start).collect();
        for (at, word) in key.iter().enumerate() {
            if !steps.take(self.cells.len() as u64) {
                return;
            }
            let mut below = 0;
            for (state, cell) in states.iter_mut().zip(&self.cells) {
                state.moved = state.now << 1 | below | cell.starts;
                below = state.now >> (CELL_BITS - 1);
                state.now &= cell.held;
            }
            for masks in [&self.stars[..], self.words.get(*word).map_or(&[][..], Vec::as_slice)] {
                for Mask { cell, bits } in masks {
                    let state = &mut states[*cell];
                    state.now |= state.moved & bits;
                }
            }
            for (cell, state) in states.iter_mut().enumerate() {
                let mut hits = state.now & state.open;
                state.open &= !hits;
                while hits != 0 {
                    found(cell * CELL_BITS + hits.trailing_zeros() as usize, &key[at + 1..], steps);
                    hits &= hits - 1;
                }
            }
        }
    }
}

/// Returns the bit of a position in its cell.
fn bit_of(position: usize) -> u64 {
    1 << (position % CELL_BITS)
}
