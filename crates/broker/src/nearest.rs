//! The name that was probably meant by one that is unknown.

/// The longest name that is compared, in bytes. The cost of a comparison is the product of both lengths.
const NAME_MAX: usize = 64;

/// The most bytes to insert, delete or change between a name and the one that was meant.
const EDITS_MAX: usize = 2;

/// Returns the known name that is closest to `name`, if it is close enough to be meant.
pub fn nearest<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    if name.len() > NAME_MAX {
        return None;
    }
    let near = known.map(|known| (distance(name, known), known)).min()?;
    (near.0 <= EDITS_MAX).then_some(near.1)
}

/// Returns the question whether a known name was meant, to be appended to a message. It is empty if none is close enough.
pub fn did_you_mean<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> String {
    nearest(name, known).map_or_else(String::new, |near| format!("; did you mean '{near}'?"))
}

/// The number of bytes to insert, delete or change to turn one text into the other (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let change = corner + usize::from(x != y);
            corner = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(corner + 1);
        }
    }
    row[b.len()]
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
}
