//! The samples of one object, in rings of bounded length. Time is an argument.

use std::collections::VecDeque;

/// The values of an object at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample<const N: usize> {
    /// The time, in milliseconds since the epoch.
    pub at_ms: u64,
    pub values: [u64; N],
}

/// A sample may be this early, in milliseconds. Samples are not taken exactly every five seconds.
pub(super) const SLACK_MS: u64 = 2_500;

/// How long samples are kept, and how far apart they are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retention {
    /// The most samples.
    pub samples_max: usize,
    /// The least time between two samples, in milliseconds. 0 takes each.
    pub every_ms: u64,
}

/// A ring of samples, the newest last.
#[derive(Clone, Debug)]
struct Ring<const N: usize> {
    retention: Retention,
    samples: VecDeque<Sample<N>>,
}

/// The samples of an object, in one or more rings. The first ring has the finest samples, and later rings reach further
/// back.
#[derive(Clone, Debug)]
pub(super) struct Series<const N: usize> {
    rings: Vec<Ring<N>>,
}

/// The times at which samples are shown: from `age_ms` ago until the newest sample, `step_ms` apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub age_ms: u64,
    /// Not 0.
    pub step_ms: u64,
}

/// One value at a time, in milliseconds since the epoch.
pub(super) type Point = (u64, u64);

/// The shortest time between a sample and a request for which a rate is calculated, in milliseconds. In a shorter time, a few
/// messages make a high rate.
const RATE_MS_MIN: u64 = 1_000;

/// What is known of an object: the samples since somebody looks at it, those of its history, and the time of the request.
#[derive(Clone, Copy, Debug)]
pub(super) struct History<'a, const N: usize> {
    pub recent: Option<&'a Series<N>>,
    pub older: Option<&'a Series<N>>,
    pub now_ms: u64,
}

impl<'a, const N: usize> History<'a, N> {
    fn both(&self) -> impl Iterator<Item = &'a Series<N>> {
        [self.recent, self.older].into_iter().flatten()
    }

    /// Returns the change per second of one value between the last two recent samples. With fewer of them, returns the change from
    /// the newest sample of all until now, and `None` without a sample. `now` is the value at the time of the request.
    pub(super) fn rate(&self, value: usize, now: u64) -> Option<f64> {
        let of_samples = self.recent.and_then(|series| series.rate(value));
        of_samples.or_else(|| {
            let is_before = |sample: &&Sample<N>| sample.at_ms + RATE_MS_MIN <= self.now_ms;
            let last =
                self.both().filter_map(Series::newest).filter(is_before).max_by_key(|last| last.at_ms)?;
            Some(per_second((last.at_ms, last.values[value]), (self.now_ms, now)))
        })
    }

    /// Returns one value at the times of a range, newest first. The newest time is that of the newest recent sample. Without
    /// one it is the time of the request, when the value is `now`. Between two samples, the value is on the line between them.
    /// Times before the oldest sample are left out.
    pub(super) fn points(&self, value: usize, range: Range, now: u64) -> Vec<Point> {
        let newest = self.both().filter_map(Series::newest).max_by_key(|sample| sample.at_ms);
        let newest = newest.map(|sample| (sample.at_ms, sample.values[value]));
        let has_recent = self.recent.is_some_and(|series| series.newest().is_some());
        let end = match newest {
            Some(newest) if has_recent || newest.0 >= self.now_ms => newest,
            _ => (self.now_ms, now),
        };
        let steps = 0..=range.age_ms / range.step_ms;
        let times = steps.map_while(|step| end.0.checked_sub(step * range.step_ms));
        times.map_while(|at_ms| Some((at_ms, self.at(at_ms, value, end)?))).collect()
    }

    /// Returns the value at a time, which is on the line between the closest samples around it. They may be of two rings, or of the
    /// two series. `end` is the last point of all. Returns `None` before the oldest sample.
    fn at(&self, at_ms: u64, value: usize, end: Point) -> Option<u64> {
        if at_ms == end.0 {
            return Some(end.1);
        }
        let point = |sample: &Sample<N>| (sample.at_ms, sample.values[value]);
        let rings = || self.both().flat_map(|series| &series.rings);
        let before = rings().filter_map(|ring| ring.before(at_ms)).max_by_key(|sample| sample.at_ms)?;
        let after = rings().filter_map(|ring| ring.after(at_ms)).min_by_key(|sample| sample.at_ms);
        Some(between(point(before), after.map_or(end, point), at_ms))
    }
}

impl<const N: usize> Series<N> {
    pub(super) fn new(retentions: &[Retention]) -> Self {
        // Most objects never have more samples than a rate needs.
        let samples = |retention: &Retention| VecDeque::with_capacity(retention.samples_max.min(2));
        let ring = |retention: &Retention| Ring { retention: *retention, samples: samples(retention) };
        Self { rings: retentions.iter().map(ring).collect() }
    }

    /// Adds a sample. If the clock was set back, the earlier samples are forgotten, because they lie in the future.
    pub(super) fn push(&mut self, sample: Sample<N>) {
        if self.newest().is_some_and(|newest| newest.at_ms >= sample.at_ms) {
            self.clear();
        }
        self.rings.iter_mut().for_each(|ring| ring.push(sample));
    }

    pub(super) fn clear(&mut self) {
        self.rings.iter_mut().for_each(|ring| ring.samples.clear());
    }

    /// Changes how many samples the finest ring keeps. The oldest ones leave at once.
    pub(super) fn keep(&mut self, samples_max: usize) {
        if let Some(ring) = self.rings.first_mut() {
            ring.retention.samples_max = samples_max;
            ring.cut_to(samples_max);
            ring.samples.shrink_to(samples_max);
        }
    }

    pub(super) fn newest(&self) -> Option<&Sample<N>> {
        self.rings.first()?.samples.back()
    }

    /// Returns the number of samples in the finest ring.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.rings.first().map_or(0, |ring| ring.samples.len())
    }

    /// Returns the change per second of one value between the last two samples. Returns `None` with fewer samples.
    pub(super) fn rate(&self, value: usize) -> Option<f64> {
        let samples = &self.rings.first()?.samples;
        let (before, last) = (samples.get(samples.len().checked_sub(2)?)?, samples.back()?);
        Some(per_second((before.at_ms, before.values[value]), (last.at_ms, last.values[value])))
    }
}

impl<const N: usize> Ring<N> {
    fn push(&mut self, sample: Sample<N>) {
        let is_due = |last: &Sample<N>| sample.at_ms >= last.at_ms + self.retention.every_ms;
        if self.samples.back().is_none_or(is_due) {
            self.cut_to(self.retention.samples_max.saturating_sub(1));
            self.samples.push_back(sample);
        }
    }

    /// Keeps only the newest samples.
    fn cut_to(&mut self, samples_max: usize) {
        let surplus = self.samples.len().saturating_sub(samples_max);
        self.samples.drain(..surplus);
    }

    /// Returns the last sample at this time or before it.
    fn before(&self, at_ms: u64) -> Option<&Sample<N>> {
        let after = self.samples.partition_point(|sample| sample.at_ms <= at_ms);
        self.samples.get(after.checked_sub(1)?)
    }

    /// Returns the first sample after this time.
    fn after(&self, at_ms: u64) -> Option<&Sample<N>> {
        self.samples.get(self.samples.partition_point(|sample| sample.at_ms <= at_ms))
    }
}

/// Returns the value at a time on the line from one point to a later one.
fn between((from_ms, from): Point, (to_ms, to): Point, at_ms: u64) -> u64 {
    let (change, time) = (to.abs_diff(from), to_ms - from_ms);
    // The quotient is at most the change, which fits.
    let part = (u128::from(change) * u128::from(at_ms - from_ms) / u128::from(time)) as u64;
    if to >= from { from + part } else { from - part }
}

/// Returns the change per second from one point to a later one.
pub(super) fn per_second((from_ms, from): Point, (to_ms, to): Point) -> f64 {
    let time_ms = to_ms.saturating_sub(from_ms);
    match time_ms {
        0 => 0.0,
        _ => (to as f64 - from as f64) * 1000.0 / time_ms as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINE: Retention = Retention { samples_max: 4, every_ms: 0 };
    const COARSE: Retention = Retention { samples_max: 3, every_ms: 20_000 };

    fn series(retentions: &[Retention], values: &[(u64, u64)]) -> Series<1> {
        let mut series = Series::new(retentions);
        values.iter().for_each(|(s, value)| series.push(Sample { at_ms: s * 1000, values: [*value] }));
        series
    }

    fn points(series: &Series<1>, range: Range) -> Vec<Point> {
        History { recent: Some(series), older: None, now_ms: 0 }.points(0, range, 0)
    }

    fn seconds(points: Vec<Point>) -> Vec<(u64, u64)> {
        points.into_iter().map(|(ms, value)| (ms / 1000, value)).collect()
    }

    #[test]
    fn a_rate_needs_two_samples() {
        assert_eq!(series(&[FINE], &[]).rate(0), None);
        assert_eq!(series(&[FINE], &[(5, 100)]).rate(0), None);
        assert_eq!(series(&[FINE], &[(5, 100), (10, 150)]).rate(0), Some(10.0));
        // Only the last two count.
        assert_eq!(series(&[FINE], &[(0, 0), (5, 100), (10, 110)]).rate(0), Some(2.0));
        assert_eq!(series(&[FINE], &[(5, 100), (9, 90)]).rate(0), Some(-2.5));
        // The clock was set back.
        assert_eq!(series(&[FINE], &[(5, 100), (10, 150), (4, 500)]).rate(0), None);
        assert_eq!(series(&[FINE], &[(5, 100), (10, 150), (4, 500), (9, 600)]).rate(0), Some(20.0));
    }

    #[test]
    fn rings_are_bounded_and_the_coarse_one_reaches_further() {
        let values: Vec<_> = (0..=20).map(|n| (n * 5, n * 10)).collect();
        let both = series(&[FINE, COARSE], &values);
        assert_eq!(both.rings.iter().map(|ring| ring.samples.len()).collect::<Vec<_>>(), [4, 3]);
        let range = Range { age_ms: 60_000, step_ms: 15_000 };
        // 100 and 85 are in the fine ring; 70 lies between two samples of the coarse one, which begins at 60.
        assert_eq!(seconds(points(&both, range)), [(100, 200), (85, 170), (70, 140)]);
        let one = series(&[FINE], &values);
        assert_eq!(seconds(points(&one, range)), [(100, 200), (85, 170)]);
    }

    #[test]
    fn a_value_between_two_rings_is_on_the_line_between_them() {
        // The fine ring begins at 7, and the coarse one has 0 only.
        let values: Vec<_> = (0..=10).map(|n| (n, n * 10)).collect();
        let both = series(&[FINE, COARSE], &values);
        let range = Range { age_ms: 10_000, step_ms: 2_000 };
        assert_eq!(seconds(points(&both, range)), [(10, 100), (8, 80), (6, 60), (4, 40), (2, 20), (0, 0)]);
    }

    #[test]
    fn values_between_samples_are_on_the_line_between_them() {
        let series = series(&[FINE], &[(0, u64::MAX), (10, 10), (20, 30)]);
        let range = Range { age_ms: 15_000, step_ms: 5_000 };
        assert_eq!(seconds(points(&series, range)), [(20, 30), (15, 20), (10, 10), (5, u64::MAX / 2 + 6)]);
        let none = Range { age_ms: 0, step_ms: 1 };
        assert_eq!(seconds(points(&series, none)), [(20, 30)]);
    }

    #[test]
    fn a_history_goes_on_where_recent_samples_begin() {
        let older = series(&[COARSE], &[(0, 0), (20, 20), (40, 40)]);
        let recent = series(&[FINE], &[(50, 100), (55, 200)]);
        let of = |recent, older| {
            let history = History { recent, older, now_ms: 60_000 };
            seconds(history.points(0, Range { age_ms: 60_000, step_ms: 10_000 }, 60))
        };
        assert_eq!(
            of(Some(&recent), Some(&older)),
            [(55, 200), (45, 70), (35, 35), (25, 25), (15, 15), (5, 5)],
            "neither a plateau nor a peak where one ends and the other begins"
        );
        assert_eq!(
            of(None, Some(&older)),
            [(60, 60), (50, 50), (40, 40), (30, 30), (20, 20), (10, 10), (0, 0)]
        );
        assert_eq!(of(Some(&recent), None), [(55, 200)]);
        assert_eq!(of(None, None), [(60, 60)]);
    }

    #[test]
    fn the_rate_is_the_one_since_the_newest_sample_until_there_are_two() {
        let older = series(&[COARSE], &[(0, 0), (20, 20)]);
        let of = |recent: &[(u64, u64)], older, now_s: u64, now| {
            let recent = series(&[FINE], recent);
            History { recent: Some(&recent), older, now_ms: now_s * 1000 }.rate(0, now)
        };
        let rate = |recent: &[(u64, u64)], older, now_s, now| of(recent, older, now_s, now).unwrap();
        let unknown = |recent: &[(u64, u64)], older, now_s| of(recent, older, now_s, 40);
        assert_eq!(rate(&[], Some(&older), 30, 40), 2.0);
        assert_eq!(rate(&[(25, 50)], Some(&older), 30, 40), -2.0);
        // The recent sample is too near.
        assert_eq!(rate(&[(30, 50)], Some(&older), 30, 120), 10.0);
        assert_eq!(rate(&[(25, 50), (30, 60)], Some(&older), 40, 0), 2.0);
        assert_eq!(unknown(&[], None, 30), None);
        assert_eq!(unknown(&[(30, 50)], None, 30), None, "one sample makes no rate");
        assert_eq!(unknown(&[], Some(&older), 10), None, "the clock was set back");
    }

    #[test]
    fn history_may_be_given_up_and_kept_again() {
        let mut series = series(&[FINE], &[(0, 0), (5, 10), (10, 20)]);
        series.keep(2);
        assert_eq!(series.rings[0].samples.len(), 2);
        assert_eq!(series.rate(0), Some(2.0));
        series.keep(4);
        (3..9).for_each(|n| series.push(Sample { at_ms: n * 5_000, values: [n * 10] }));
        assert_eq!(series.rings[0].samples.len(), 4);
    }
}
