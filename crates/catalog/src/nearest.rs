//! The name that was probably meant by one that is unknown.

/// The longest name that is compared, in bytes. The cost of a comparison grows with it.
const NAME_MAX: usize = 64;

/// The most bytes to insert, delete or change between a name and the one that was meant.
const EDITS_MAX: usize = 2;

/// Returns the known name that is closest to `name`, if it is close enough to be meant.
pub fn nearest<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    if name.len() > NAME_MAX {
        return None;
    }
    known.filter_map(|known| Some((distance(name, known)?, known))).min().map(|(_, near)| near)
}

/// Returns the question whether a known name was meant, to be appended to a message. It is empty if none is close enough.
pub fn did_you_mean<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> String {
    nearest(name, known).map_or_else(String::new, |near| format!("; did you mean '{near}'?"))
}

/// Returns the number of bytes to insert, delete or change to turn one text into the other (Levenshtein), if it is at most
/// [`EDITS_MAX`]. The first text has at most [`NAME_MAX`] bytes.
fn distance(a: &str, b: &str) -> Option<usize> {
    if a.len().abs_diff(b.len()) > EDITS_MAX {
        return None;
    }
    // Only so many cells beside the diagonal can be that small. Those outside of this band count as greater.
    const FAR: usize = EDITS_MAX + 1;
    let mut row = [FAR; NAME_MAX + EDITS_MAX + 1];
    (0..=EDITS_MAX).for_each(|j| row[j] = j);
    for (i, x) in a.bytes().enumerate() {
        let (first, last) = ((i + 1).saturating_sub(EDITS_MAX), b.len().min(i + 1 + EDITS_MAX));
        let mut corner = if first == 0 { std::mem::replace(&mut row[0], i + 1) } else { row[first - 1] };
        if first > 0 {
            row[first - 1] = FAR;
        }
        for j in first.max(1)..=last {
            let change = corner + usize::from(b.as_bytes()[j - 1] != x);
            corner = row[j];
            row[j] = change.min(row[j] + 1).min(row[j - 1] + 1);
        }
        if row[first..=last].iter().all(|edits| *edits > EDITS_MAX) {
            return None;
        }
    }
    Some(row[b.len()]).filter(|edits| *edits <= EDITS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_name_is_found() {
        let known = || ["x-max-length", "x-max-age", "x-expires"].into_iter();
        assert_eq!(nearest("x-max-lenght", known()), Some("x-max-length"));
        assert_eq!(nearest("x-expire", known()), Some("x-expires"));
        assert_eq!(nearest("x-note", known()), None);
        assert_eq!(nearest(&"x".repeat(NAME_MAX + 1), known()), None);
        assert_eq!(did_you_mean("x-max-aged", known()), "; did you mean 'x-max-age'?");
        assert_eq!(did_you_mean("x-note", known()), "");
    }

    /// The distance, by its definition.
    fn naive(a: &[u8], b: &[u8]) -> usize {
        match (a, b) {
            ([], rest) | (rest, []) => rest.len(),
            ([x, a @ ..], [y, b @ ..]) if x == y => naive(a, b),
            ([_, a_rest @ ..], [_, b_rest @ ..]) => {
                1 + naive(a_rest, b_rest).min(naive(a_rest, b)).min(naive(a, b_rest))
            }
        }
    }

    #[test]
    fn distances_are_right_up_to_the_maximum() {
        let letters =
            |n: u32, bits: usize| -> Vec<u8> { (0..bits).map(|at| b'a' + (n >> at & 1) as u8).collect() };
        let texts: Vec<Vec<u8>> =
            (0..=6).flat_map(|bits| (0..1 << bits).map(move |n| letters(n, bits))).collect();
        for (a, b) in texts.iter().flat_map(|a| texts.iter().map(move |b| (a, b))) {
            let (a, b) = (std::str::from_utf8(a).unwrap(), std::str::from_utf8(b).unwrap());
            let right = Some(naive(a.as_bytes(), b.as_bytes())).filter(|n| *n <= EDITS_MAX);
            assert_eq!(distance(a, b), right, "'{a}' and '{b}'");
        }
        let long = "x".repeat(NAME_MAX);
        assert_eq!(distance(&long, &format!("{long}yy")), Some(2));
        assert_eq!(distance(&long, &format!("{long}yyy")), None);
    }
}
