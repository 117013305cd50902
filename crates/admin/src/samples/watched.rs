//! The objects that somebody looks at. Only these are sampled.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use super::series::{Retention, Sample, Series};

/// The most objects of one kind that are sampled. With two samples each, queues take about 5 MB.
pub(super) const OBJECTS_MAX: usize = 10_000;

/// The most objects of one kind that have a history. Histories of queues take about 8 MB.
pub(super) const HISTORIES_MAX: usize = 500;

/// The number of samples of an object without a history: as many as a rate needs.
const BRIEF: usize = 2;

/// An object is sampled for this time after it was last asked for, in milliseconds: five minutes. Tools that poll ask at least once
/// in that time.
const WATCHED_MS: u64 = 300_000;

/// An object is sampled for at least this many rounds, however far apart they are: as many as a rate needs.
const ROUNDS_MIN: u64 = 2;

/// The samples of objects, by key. A round begins with each sample.
#[derive(Debug)]
pub(super) struct Watched<K, const N: usize> {
    objects: HashMap<K, Object<N>>,
    /// The keys in the order in which the objects were last asked for.
    order: BTreeMap<u64, K>,
    /// The keys of those with a history, in the order in which their histories were last asked for.
    histories: BTreeMap<u64, K>,
    /// The number of the last request.
    asked: u64,
    /// The number of the last request before the current round.
    asked_before: u64,
    round: u64,
    /// When the current round began, in milliseconds since the epoch; `None` before the first one.
    round_ms: Option<u64>,
    objects_max: usize,
    histories_max: usize,
    history: Retention,
}

#[derive(Debug)]
struct Object<const N: usize> {
    /// The place in `order`.
    asked: u64,
    /// The round of the last request.
    round: u64,
    /// When that round began; 0 before the first one.
    round_ms: u64,
    /// The place in `histories`, if the object has one.
    history: Option<u64>,
    series: Series<N>,
}

impl<K: Clone + Eq + Hash, const N: usize> Watched<K, N> {
    pub(super) fn new(history: Retention) -> Self {
        Self::with_max(history, OBJECTS_MAX, HISTORIES_MAX)
    }

    fn with_max(history: Retention, objects_max: usize, histories_max: usize) -> Self {
        Self {
            objects: HashMap::new(),
            order: BTreeMap::new(),
            histories: BTreeMap::new(),
            asked: 0,
            asked_before: 0,
            round: 0,
            round_ms: None,
            objects_max,
            histories_max,
            history,
        }
    }

    /// Called when somebody asks for an object, `with_history` if also for its samples. Returns its samples so far.
    /// Returns `None` if there are too many objects. A new object takes the place of the one that nobody has asked for
    /// for the longest time, but not of one that was asked for in this round: otherwise a long list would keep none.
    pub(super) fn ask(&mut self, key: &K, with_history: bool) -> Option<&Series<N>> {
        self.asked += 1;
        let (asked, round_ms) = (self.asked, self.round_ms.unwrap_or_default());
        match self.objects.get_mut(key) {
            Some(object) => {
                let key = self.order.remove(&object.asked).unwrap_or_else(|| key.clone());
                self.order.insert(asked, key);
                (object.asked, object.round, object.round_ms) = (asked, self.round, round_ms);
            }
            None => {
                if self.objects.len() >= self.objects_max && !self.drop_oldest() {
                    return None;
                }
                let series = Series::new(&[Retention { samples_max: BRIEF, ..self.history }]);
                let object = Object { asked, round: self.round, round_ms, history: None, series };
                self.objects.insert(key.clone(), object);
                self.order.insert(asked, key.clone());
            }
        }
        if with_history {
            self.keep_history(key);
        }
        self.objects.get(key).map(|object| &object.series)
    }

    /// Drops the object that nobody has asked for for the longest time. Returns false if all were asked for in this
    /// round.
    fn drop_oldest(&mut self) -> bool {
        match self.order.first_key_value() {
            Some((asked, _)) if *asked <= self.asked_before => {}
            _ => return false,
        }
        if let Some((_, key)) = self.order.pop_first() {
            self.remove(&key);
        }
        true
    }

    fn remove(&mut self, key: &K) {
        if let Some(history) = self.objects.remove(key).and_then(|object| object.history) {
            self.histories.remove(&history);
        }
    }

    fn keep_history(&mut self, key: &K) {
        let Some(object) = self.objects.get_mut(key) else { return };
        match object.history {
            Some(asked) => _ = self.histories.remove(&asked),
            None => {
                if self.histories.len() >= self.histories_max {
                    match self.histories.first_key_value() {
                        Some((asked, _)) if *asked <= self.asked_before => {}
                        _ => return,
                    }
                    if let Some((_, other)) = self.histories.pop_first()
                        && let Some(other) = self.objects.get_mut(&other)
                    {
                        other.history = None;
                        other.series.keep(BRIEF);
                    }
                }
            }
        }
        if let Some(object) = self.objects.get_mut(key) {
            object.history = Some(self.asked);
            object.series.keep(self.history.samples_max);
            self.histories.insert(self.asked, key.clone());
        }
    }

    /// Begins a round. Forgets objects that nobody asked for during the last five minutes. Returns the keys of the others.
    pub(super) fn begin_round(&mut self, now_ms: u64) -> Vec<K> {
        // Before the first round there was no time, and a clock that was set back begins again.
        if self.round_ms.is_none_or(|before| now_ms < before) {
            self.objects.values_mut().for_each(|object| object.round_ms = now_ms);
        }
        self.round += 1;
        self.round_ms = Some(now_ms);
        self.asked_before = self.asked;
        let round = self.round;
        let is_watched =
            |object: &Object<N>| object.round + ROUNDS_MIN >= round || object.round_ms + WATCHED_MS >= now_ms;
        while let Some((_, key)) = self.order.first_key_value() {
            let key = key.clone();
            if self.objects.get(&key).is_some_and(is_watched) {
                break;
            }
            self.order.pop_first();
            self.remove(&key);
        }
        self.order.values().cloned().collect()
    }

    /// Forgets all samples. The objects stay.
    pub(super) fn forget_samples(&mut self) {
        self.objects.values_mut().for_each(|object| object.series.clear());
    }

    /// Adds a sample of an object. Does nothing if the object was forgotten meanwhile.
    pub(super) fn push(&mut self, key: &K, sample: Sample<N>) {
        if let Some(object) = self.objects.get_mut(key) {
            object.series.push(sample);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HISTORY: Retention = Retention { samples_max: 5, every_ms: 0 };

    /// Samples all objects. The value of an object is its key times the number of seconds.
    fn sample(watched: &mut Watched<u64, 1>, at_s: u64) -> Vec<u64> {
        let keys = watched.begin_round(at_s * 1000);
        keys.iter().for_each(|key| watched.push(key, Sample { at_ms: at_s * 1000, values: [key * at_s] }));
        keys
    }

    fn rates(watched: &mut Watched<u64, 1>, keys: &[u64]) -> Vec<Option<f64>> {
        keys.iter()
            .map(|key| watched.ask(key, false).map(|series| series.rate(0).unwrap_or_default()))
            .collect()
    }

    #[test]
    fn an_object_is_sampled_while_somebody_asks_for_it() {
        let mut watched = Watched::<u64, 1>::with_max(HISTORY, 9, 9);
        assert_eq!(sample(&mut watched, 0), [] as [u64; 0]);
        assert_eq!(rates(&mut watched, &[7]), [Some(0.0)]);
        sample(&mut watched, 5);
        assert_eq!(rates(&mut watched, &[7]), [Some(0.0)], "one sample");
        sample(&mut watched, 10);
        assert_eq!(rates(&mut watched, &[7]), [Some(7.0)]);
        for at_s in (15..=310).step_by(5) {
            assert_eq!(sample(&mut watched, at_s), [7]);
        }
        assert_eq!(sample(&mut watched, 315), [] as [u64; 0]);
        // With rounds that are far apart, an object still gets a rate.
        rates(&mut watched, &[7]);
        assert_eq!(sample(&mut watched, 1000), [7]);
        assert_eq!(sample(&mut watched, 2000), [7]);
        assert_eq!(sample(&mut watched, 3000), [] as [u64; 0]);
        // The clock is set back.
        rates(&mut watched, &[7]);
        assert_eq!(sample(&mut watched, 10), [7]);
        assert_eq!(sample(&mut watched, 310), [7]);
        assert_eq!(sample(&mut watched, 311), [] as [u64; 0]);
        assert!(watched.objects.is_empty() && watched.order.is_empty() && watched.histories.is_empty());
    }

    #[test]
    fn the_least_recently_asked_object_leaves() {
        let mut watched = Watched::<u64, 1>::with_max(HISTORY, 3, 3);
        rates(&mut watched, &[1, 2, 3]);
        // All of them were asked for in this round.
        assert_eq!(rates(&mut watched, &[4]), [None]);
        sample(&mut watched, 5);
        assert_eq!(rates(&mut watched, &[1, 4, 5, 6]), [Some(0.0), Some(0.0), Some(0.0), None]);
        sample(&mut watched, 10);
        sample(&mut watched, 15);
        assert_eq!(rates(&mut watched, &[1, 4, 5]), [Some(1.0), Some(4.0), Some(5.0)]);
        assert_eq!((watched.objects.len(), watched.order.len()), (3, 3));
    }

    #[test]
    fn a_long_list_that_is_asked_for_again_and_again_has_rates_at_its_beginning() {
        let mut watched = Watched::<u64, 1>::with_max(HISTORY, 3, 3);
        let all: Vec<u64> = (1..=5).collect();
        for at_s in [5, 10, 15] {
            rates(&mut watched, &all);
            sample(&mut watched, at_s);
        }
        assert_eq!(rates(&mut watched, &all), [Some(1.0), Some(2.0), Some(3.0), None, None]);
    }

    #[test]
    fn histories_are_fewer_than_objects() {
        let mut watched = Watched::<u64, 1>::with_max(HISTORY, 9, 2);
        let points = |watched: &mut Watched<u64, 1>, key: u64| {
            watched.ask(&key, true)?;
            Some(watched.objects.get(&key)?.series.len())
        };
        rates(&mut watched, &[1, 2, 3]);
        [1, 2, 3].iter().for_each(|key| _ = points(&mut watched, *key));
        (1..8).for_each(|round| _ = sample(&mut watched, round * 5));
        assert_eq!([1, 2].map(|key| points(&mut watched, key)), [Some(5), Some(5)]);
        // The third one has only a rate, until a history is given up by the others.
        sample(&mut watched, 100);
        assert_eq!(points(&mut watched, 3), Some(2));
        assert_eq!(watched.ask(&1, false).map(|series| series.rate(0)), Some(Some(1.0)));
        assert_eq!(watched.histories.values().copied().collect::<Vec<_>>(), [2, 3]);
    }
}
