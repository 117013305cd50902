//! The history of the objects that messages pass through: a sample a minute, whether somebody looks at them or not.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use super::series::{Retention, SLACK_MS, Sample, Series};

/// The time between two samples, in milliseconds.
pub(super) const EVERY_MS: u64 = 60_000;

/// The rings of an object, as RabbitMQ keeps them for the node: an hour, eight hours, and a day.
pub(super) const RINGS: [Retention; 3] = [
    Retention { samples_max: 62, every_ms: EVERY_MS - SLACK_MS },
    Retention { samples_max: 50, every_ms: 600_000 - SLACK_MS },
    Retention { samples_max: 50, every_ms: 1_800_000 - SLACK_MS },
];

/// The most objects of one kind that have a history. A queue takes up to 25 kB and an exchange up to 8 kB, so they take 16 MB.
/// Objects beyond it have none, until one of the others has been silent for [`SILENT_MS`].
pub(super) const OBJECTS_MAX: usize = 500;

/// An object without messages for this time, in milliseconds, gives its place to another one that has some.
const SILENT_MS: u64 = 3_600_000;

/// An object without messages for this time, in milliseconds, has nothing to show: a day.
const FORGOTTEN_MS: u64 = 86_400_000;

/// The histories of the objects of one kind.
#[derive(Debug)]
pub(super) struct Kept<K, const N: usize> {
    objects: HashMap<K, Object<N>>,
    /// Each object that has had messages, with a history or without. It takes 32 bytes for each of them.
    known: HashMap<K, Use>,
    objects_max: usize,
}

/// What was seen of an object at the last round.
#[derive(Clone, Copy, Debug)]
struct Use {
    /// How many messages had passed through it.
    passed: u64,
    /// When messages were last seen to pass, in milliseconds since the epoch.
    used_ms: u64,
}

#[derive(Debug)]
struct Object<const N: usize> {
    series: Series<N>,
    /// When messages were last seen to pass, in milliseconds since the epoch.
    used_ms: u64,
}

impl<K: Clone + Eq + Hash, const N: usize> Default for Kept<K, N> {
    fn default() -> Self {
        Self { objects: HashMap::new(), known: HashMap::new(), objects_max: OBJECTS_MAX }
    }
}

impl<K: Copy + Eq + Hash + Ord, const N: usize> Kept<K, N> {
    /// Begins a round. `used` has each object that exists and has had messages, with their number. Returns the objects that need a
    /// sample.
    pub(super) fn begin_round(&mut self, used: &[(K, u64)], now_ms: u64) -> Vec<K> {
        let exist: HashSet<K> = used.iter().map(|(key, _)| *key).collect();
        self.objects.retain(|key, object| exist.contains(key) && now_ms < object.used_ms + FORGOTTEN_MS);
        let mut silent: Vec<(u64, K)> =
            self.objects.iter().map(|(key, object)| (object.used_ms, *key)).collect();
        silent.retain(|(used_ms, _)| used_ms + SILENT_MS <= now_ms);
        silent.sort_unstable_by(|a, b| b.cmp(a));
        let mut known = HashMap::with_capacity(used.len());
        for (key, passed) in used {
            // The first round finds what has passed since the start.
            if let Some(before) = self.known.get(key).filter(|before| before.passed == *passed) {
                known.insert(*key, *before);
                continue;
            }
            known.insert(*key, Use { passed: *passed, used_ms: now_ms });
            if let Some(object) = self.objects.get_mut(key) {
                object.used_ms = now_ms;
                silent.retain(|(_, other)| other != key);
                continue;
            }
            if self.objects.len() >= self.objects_max {
                match silent.pop() {
                    Some((_, other)) => _ = self.objects.remove(&other),
                    None => continue,
                }
            }
            self.objects.insert(*key, Object { series: Series::new(&RINGS), used_ms: now_ms });
        }
        self.known = known;
        self.objects.keys().copied().collect()
    }

    pub(super) fn push(&mut self, key: &K, sample: Sample<N>) {
        if let Some(object) = self.objects.get_mut(key) {
            object.series.push(sample);
        }
    }

    /// Returns when messages were last seen to pass through an object, whether it has a history or not.
    pub(super) fn used_ms(&self, key: &K) -> Option<u64> {
        self.known.get(key).map(|last| last.used_ms)
    }

    pub(super) fn get(&self, key: &K) -> Option<&Series<N>> {
        self.objects.get(key).map(|object| &object.series)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> Kept<u32, 1> {
        Kept { objects_max: 3, ..Kept::default() }
    }

    fn round(kept: &mut Kept<u32, 1>, used: &[(u32, u64)], at_ms: u64) -> Vec<u32> {
        let mut keys = kept.begin_round(used, at_ms);
        for (key, passed) in used {
            kept.push(key, Sample { at_ms, values: [*passed] });
        }
        keys.sort_unstable();
        keys
    }

    #[test]
    fn objects_have_a_history_while_messages_pass() {
        let mut kept = kept();
        assert_eq!(round(&mut kept, &[], 0), [0; 0]);
        assert_eq!(round(&mut kept, &[(1, 5), (2, 1)], 60_000), [1, 2]);
        assert_eq!(round(&mut kept, &[(1, 9), (2, 1)], 120_000), [1, 2]);
        let newest = |kept: &Kept<u32, 1>, key| kept.get(key).and_then(Series::newest).map(|s| s.values[0]);
        assert_eq!((newest(&kept, &1), newest(&kept, &2), newest(&kept, &3)), (Some(9), Some(1), None));
        // A deleted queue is forgotten at once, a silent one after a day.
        assert_eq!(round(&mut kept, &[(2, 1)], 180_000), [2]);
        assert_eq!(round(&mut kept, &[(2, 1)], 60_000 + FORGOTTEN_MS - 1), [2]);
        assert_eq!(round(&mut kept, &[(2, 1)], 60_000 + FORGOTTEN_MS), [0; 0]);
        assert_eq!(round(&mut kept, &[(2, 2)], 120_000 + FORGOTTEN_MS), [2]);
    }

    #[test]
    fn a_silent_object_gives_its_place_to_one_in_use() {
        let mut kept = kept();
        let all = |four: u64| [(1, 1), (2, 1), (3, 1), (4, four)];
        assert_eq!(round(&mut kept, &all(1), 0), [1, 2, 3]);
        assert_eq!(round(&mut kept, &all(2), 60_000), [1, 2, 3], "nobody is silent");
        assert_eq!(round(&mut kept, &[(1, 2), (2, 1), (3, 1), (4, 2)], 120_000), [1, 2, 3]);
        // The fourth one is silent, too.
        assert_eq!(round(&mut kept, &[(1, 2), (2, 1), (3, 1), (4, 2)], SILENT_MS), [1, 2, 3]);
        let one = [1, 4].map(|key| (key, 9));
        assert_eq!(round(&mut kept, &[one[0], (2, 1), (3, 1), one[1]], SILENT_MS + 60_000), [1, 3, 4]);
        assert_eq!(kept.objects.len(), 3);
    }

    #[test]
    fn silent_objects_are_told_from_those_in_use_however_many_there_are() {
        let mut kept = kept();
        let mut used: Vec<(u32, u64)> = (0..20_000).map(|key| (key, 1)).collect();
        assert_eq!(round(&mut kept, &used, 0), [0, 1, 2]);
        used[19_999].1 = 2;
        assert_eq!(round(&mut kept, &used, SILENT_MS), [1, 2, 19_999]);
    }

    /// Programs that delete idle queues ask for exactly those that have no history.
    #[test]
    fn the_last_use_is_known_of_objects_without_a_history() {
        let mut kept = kept();
        let mut used: Vec<(u32, u64)> = (0..5).map(|key| (key, 1)).collect();
        round(&mut kept, &used, 0);
        used[4].1 = 2;
        round(&mut kept, &used, 60_000);
        round(&mut kept, &used, 60_000 + 2 * FORGOTTEN_MS);
        assert!(kept.objects.is_empty());
        assert_eq!((kept.used_ms(&0), kept.used_ms(&4), kept.used_ms(&5)), (Some(0), Some(60_000), None));
        round(&mut kept, &used[..4], 120_000 + 2 * FORGOTTEN_MS);
        assert_eq!(kept.used_ms(&4), None, "it was deleted");
    }
}
