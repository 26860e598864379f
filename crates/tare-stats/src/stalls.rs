//! Where a service stood still: what trimming leaves out, named.
//!
//! A form that stands still for 12 s of every 150 s does 8 % less than it could, and no trimmed mean sees any of it. So
//! the headline is operations over time, the trimmed mean stands beside it, and where the two disagree a reader gets
//! the moments that make the difference. Of loads that take turns it is a turn that took far longer than it was given.
//!
//! Short trials have no trimmed mean. There, and beside it, an arm is named that stood still for so much more of its
//! time than the baseline that its ratio is another one for it; and where no trimmed mean has a say, what that time may
//! have done to the ratio is taken into account before the two are called equivalent. A load of a few operations a
//! second has empty seconds by chance, and such a second is no stall.

use crate::arm::Arm;
use crate::evidence::evidence_within;
use crate::interval::Interval;
use crate::nested::Nested;
use crate::ratios::{LeftStill, MetricAnalysis};
use crate::trial::RATE;
use serde::Serialize;
use std::collections::BTreeMap;
use tare_core::load::{LoadSummary, SecondRow, TurnsSummary};
use tare_core::record::TrialData;

/// A second with less than this share of the trial's median rate is one of a stall.
const STALLED: f64 = 0.5;

/// In a spell so many times as much must be missing as chance takes away: five standard deviations, so that a thousand
/// trials of a quiet machine have none.
const MISSING_FACTOR: f64 = 5.0;

/// A standard deviation of normal values by their median absolute deviation.
const SD_BY_MEDIAN: f64 = 1.4826;

/// Where most seconds are empty, the others must hold so many operations: else there are so few of them.
const MOVING_MIN: f64 = 10.0;

/// An arm that stood still for this share of its time more than the baseline, and for more than this part of the
/// half-width of its ratio's interval, is told of: below the one it hardly matters, below the other it decides nothing.
const BEYOND_SHARE: f64 = 0.01;
const BEYOND_OF_HALF_WIDTH: f64 = 0.25;

/// Seconds that lie farther apart than this are of two visits of the load, ns.
const TURN_NS: u64 = 500_000_000;

/// A turn that takes more than so many times as long as it was given is a stall, and one that takes more than this
/// share of all of them decides what the trial came to.
const TURN_FACTOR: u64 = 4;
const TURN_SHARE: f64 = 0.03;

/// Where stalls make a ratio another one, a turn of less than this share of all of them has no part in it.
const TURN_SHARE_TOLD: f64 = 0.005;

/// Spells that are told of an arm, the longest ones.
const SPELLS_MAX: usize = 5;

/// Counters that are told of a spell.
const COUNTED_MAX: usize = 3;

/// How many times as much as over the whole trial a counter must have gone up in a spell to be told of, and its least
/// amount per second: a share of the time, or a count.
const COUNTED_FACTOR: f64 = 2.0;
const COUNTED_MIN: f64 = 0.05;

/// When an arm stood still, over all its trials.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stalls {
    /// The arm.
    pub arm: String,
    /// How long it did less than half of what it usually did in the trial, s; of loads that take turns, how long the
    /// longest turn of each trial took, where it is a stall.
    pub seconds: f64,
    /// Out of this many measured, s; where loads take turns, those of its own turns.
    pub measured_s: f64,
    /// Whether its loads took turns.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub in_turns: bool,
    /// In how many spells.
    pub spells: u32,
    /// The longest of them, at most five.
    pub longest: Vec<Stall>,
}

/// A spell in which a trial did less than half of what it usually did, or a turn that took far longer than given.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stall {
    /// The trial.
    pub trial: u32,
    /// When it began, s after the trial began to be measured; none where the record does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_s: Option<f64>,
    /// How long it lasted, s.
    pub seconds: f64,
    /// What the kernel counted meanwhile and hardly otherwise, per second; empty where nothing stands out or nothing
    /// was sampled.
    pub counted: Vec<Counted>,
}

/// A counter that went up faster in a stall.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Counted {
    /// What is counted.
    pub title: String,
    /// Per second of the stall.
    pub then: f64,
    /// Per second of the whole trial.
    pub on_average: f64,
}

/// The stalls of an arm in its `trials`; none where it never stood still, or no second is known.
fn stalls(arm: &str, trials: &[&TrialData]) -> Option<Stalls> {
    let (mut found, mut measured_s, mut in_turns) = (Vec::new(), 0.0, false);
    for trial in trials.iter().filter(|trial| trial.record.trial.arm() == arm) {
        if let Some((load, turns)) = turned(trial) {
            measured_s += turns.active_ns as f64 / 1e9;
            in_turns = true;
            found.extend(long_turn(load, &turns).map(|spell| (spell, *trial)));
            continue;
        }
        let rows = measured_rows(trial);
        measured_s += rows.iter().map(|row| row.seconds).sum::<f64>();
        found.extend(spells(&rows).into_iter().map(|spell| (spell, *trial)));
    }
    let (seconds, spells) = (found.iter().map(|(spell, _)| spell.length_s()).sum(), found.len() as u32);
    found.sort_by(|(a, _), (b, _)| b.length_s().total_cmp(&a.length_s()));
    found.truncate(SPELLS_MAX);
    let told = |(spell, trial): &(Spell, &TrialData)| Stall {
        trial: trial.record.trial.index,
        from_s: spell.first_ns.map(|first_ns| (spell.from_ns - first_ns) as f64 / 1e9),
        seconds: spell.length_s(),
        counted: if spell.first_ns.is_some() { counted(spell, trial) } else { Vec::new() },
    };
    let longest = found.iter().map(told).collect();
    (spells > 0).then(|| Stalls { arm: arm.to_owned(), seconds, measured_s, in_turns, spells, longest })
}

/// The shares of their time in which an arm and the baseline stood still, where they differ by so much that it decides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Beyond {
    own: f64,
    of_baseline: f64,
}

impl Beyond {
    /// Whether it is the arm that stood still for longer.
    fn is_more(&self) -> bool {
        self.own > self.of_baseline
    }

    /// By which share the ratio of their throughput would be another one had nobody stood still, one way or the other.
    fn share(&self) -> f64 {
        // Between seconds there is time, so that stalls may last longer than all of them; and no ratio is infinite.
        let moving = |still: f64| (1.0 - still).max(f64::EPSILON).ln();
        (moving(self.own) - moving(self.of_baseline)).abs().exp_m1()
    }
}

/// By arm that stood still for more of its time than the baseline, or for less, by so much that it decides. Loads that
/// took turns have no seconds of their own, and forms that ran emulated say nothing of the real thing. `trials` stay at
/// one level of load.
pub(crate) fn beyond_baseline(
    arms: &[Arm],
    metrics: &[MetricAnalysis],
    trials: &[&TrialData],
) -> BTreeMap<String, Beyond> {
    let ratios = || metrics.iter().filter(|metric| metric.name == RATE).flat_map(|metric| &metric.ratios);
    let half_width = |arm: &str| {
        let interval = ratios().find(|ratio| ratio.arm == arm).and_then(|ratio| ratio.interval);
        interval.map_or(0.0, |Interval { low, high }| 0.5 * (high / low).ln())
    };
    let claimed = || arms.iter().filter(|arm| arm.emulated.is_none());
    let baseline = claimed().find(|arm| arm.baseline);
    let Some(of_baseline) = baseline.and_then(|arm| still_share(&arm.name, trials)) else { return BTreeMap::new() };
    let beyond = claimed().filter(|arm| !arm.baseline).filter_map(|arm| {
        let own = still_share(&arm.name, trials)?;
        let least = BEYOND_SHARE.max(BEYOND_OF_HALF_WIDTH * half_width(&arm.name));
        ((own - of_baseline).abs() > least).then(|| (arm.name.clone(), Beyond { own, of_baseline }))
    });
    beyond.collect()
}

/// Notes in each ratio of throughput what stalls may have done to it, where no trimmed ratio stands beside it.
pub(crate) fn left_still(metrics: &mut [MetricAnalysis], beyond: &BTreeMap<String, Beyond>) {
    let untrimmed = metrics.iter_mut().filter(|metric| metric.name == RATE && metric.nested == Nested::Whole);
    for ratio in untrimmed.flat_map(|metric| &mut metric.ratios) {
        let left = |beyond: &Beyond| LeftStill { share: beyond.share(), decides: false };
        ratio.still = beyond.get(&ratio.arm).map(left);
    }
}

/// The share of its measured time in which an arm stood still; none where it was not measured by the second.
fn still_share(arm: &str, trials: &[&TrialData]) -> Option<f64> {
    let (mut still_s, mut measured_s) = (0.0, 0.0);
    for trial in trials.iter().filter(|trial| trial.record.trial.arm() == arm && turned(trial).is_none()) {
        let rows = measured_rows(trial);
        measured_s += rows.iter().map(|row| row.seconds).sum::<f64>();
        still_s += spells(&rows).iter().map(Spell::length_s).sum::<f64>();
    }
    (measured_s > 0.0).then(|| still_s / measured_s)
}

fn measured_rows(trial: &TrialData) -> Vec<&SecondRow> {
    trial.seconds.iter().filter(|row| row.measured && row.seconds > 0.0).collect()
}

/// The stalls of forms whose ratio is another one without them, and the baseline's, which may be what makes it so; and
/// of whoever stood still for so much of its turns, or of its time beyond the baseline's, that it decides.
pub(crate) fn stalls_that_decide(
    arms: &[Arm],
    metrics: &[MetricAnalysis],
    counted: &[&TrialData],
    beyond: &BTreeMap<String, Beyond>,
) -> Vec<Stalls> {
    // The baseline's are told beside those of a form, and instead of them where it is the baseline that stood still.
    let is_beyond = |arm: &Arm| match arm.baseline {
        true => !beyond.is_empty(),
        false => beyond.get(&arm.name).is_some_and(Beyond::is_more),
    };
    let ratios = || metrics.iter().flat_map(|metric| &metric.ratios);
    let decide = |arm: &Arm| ratios().any(|r| r.trimming_differs && (r.arm == arm.name || arm.baseline));
    let still = |arm: &Arm| counted.iter().any(|trial| trial.record.trial.arm() == arm.name && stood_still(trial));
    let told = arms.iter().filter(|arm| decide(arm) || still(arm) || is_beyond(arm));
    told.filter_map(|arm| stalls(&arm.name, counted)).collect()
}

/// Whether a load that took turns stood still for all of one, so that it decides what the trial came to.
fn stood_still(trial: &TrialData) -> bool {
    turned(trial).is_some_and(|(load, turns)| is_more(&turns, TURN_SHARE) && long_turn(load, &turns).is_some())
}

fn is_more(turns: &TurnsSummary, share: f64) -> bool {
    turns.longest_ns as f64 > share * turns.active_ns as f64
}

fn turned(trial: &TrialData) -> Option<(&LoadSummary, TurnsSummary)> {
    let load = trial.record.load.as_ref()?;
    Some((load, load.turns?))
}

/// The longest turn, where it is a stall.
fn long_turn(load: &LoadSummary, turns: &TurnsSummary) -> Option<Spell> {
    let long = turns.longest_ns > TURN_FACTOR * turns.slice_ns && is_more(turns, TURN_SHARE_TOLD);
    let from_ns = turns.longest_at_ns.unwrap_or_default().max(load.measure_start_ns);
    let first_ns = turns.longest_at_ns.map(|_| load.measure_start_ns);
    long.then(|| Spell { first_ns, from_ns, to_ns: from_ns.saturating_add(turns.longest_ns) })
}

/// A spell of a trial whose measured time began at `first_ns`; none where nobody knows when the spell was.
struct Spell {
    first_ns: Option<u64>,
    from_ns: u64,
    to_ns: u64,
}

impl Spell {
    fn length_s(&self) -> f64 {
        (self.to_ns - self.from_ns) as f64 / 1e9
    }
}

/// Seconds in a row, and what was done in them.
#[derive(Default)]
struct Run {
    from_ns: u64,
    to_ns: u64,
    seconds: f64,
    squares: f64,
    operations: f64,
}

impl Run {
    fn add(&mut self, row: &SecondRow) {
        self.to_ns = row.at_ns;
        self.seconds += row.seconds;
        self.squares += row.seconds * row.seconds;
        self.operations += row.operations as f64;
    }

    /// Whether so much is missing that it is no chance: seconds scatter, and operations come one by one.
    fn is_stall(&self, usual: f64, scatter: f64) -> bool {
        let missing = usual * self.seconds - self.operations;
        let variance = (scatter * scatter * self.squares).max(usual * self.seconds);
        missing > MISSING_FACTOR * variance.sqrt()
    }
}

/// Seconds in a row in which a trial did less than half of its median, and less than chance would have it do.
fn spells(rows: &[&SecondRow]) -> Vec<Spell> {
    let begin = |row: &SecondRow| row.at_ns.saturating_sub((row.seconds * 1e9) as u64);
    let rate = |row: &SecondRow| row.operations as f64 / row.seconds;
    let Some(first) = rows.first() else { return Vec::new() };
    let Some((usual, scatter)) = usual(rows.iter().map(|row| rate(row)).collect()) else { return Vec::new() };
    let (mut runs, mut open): (Vec<Run>, bool) = (Vec::new(), false);
    for row in rows {
        let stalled = rate(row) < STALLED * usual;
        // Where forms take turns, what lies between two visits of the load is nobody's stall.
        let follows = |run: &&mut Run| open && begin(row) <= run.to_ns + TURN_NS;
        match runs.last_mut().filter(follows) {
            Some(run) if stalled => run.add(row),
            _ if stalled => {
                let mut run = Run { from_ns: begin(row), ..Run::default() };
                run.add(row);
                runs.push(run);
            }
            _ => {}
        }
        open = stalled;
    }
    let spell = |run: &Run| Spell { first_ns: Some(begin(first)), from_ns: run.from_ns, to_ns: run.to_ns };
    runs.iter().filter(|run| run.is_stall(usual, scatter)).map(spell).collect()
}

/// What a trial usually does in a second, and by how much seconds in which it does not stand still scatter. None where
/// that is nothing.
fn usual(mut rates: Vec<f64>) -> Option<(f64, f64)> {
    rates.sort_by(f64::total_cmp);
    let median = *rates.get(rates.len() / 2)?;
    // Who stood still for most of the time has no other usual rate than that of the rest.
    let rest = &rates[rates.partition_point(|rate| *rate <= 0.0)..];
    let usual = if median > 0.0 { median } else { *rest.get(rest.len() / 2).filter(|rate| **rate >= MOVING_MIN)? };
    let moving = &rates[rates.partition_point(|rate| *rate < STALLED * usual)..];
    let mut apart: Vec<f64> = moving.iter().map(|rate| (rate - usual).abs()).collect();
    apart.sort_by(f64::total_cmp);
    Some((usual, SD_BY_MEDIAN * apart.get(apart.len() / 2)?))
}

/// What went up in a spell at least twice as fast as over the whole trial, the clearest first.
fn counted(spell: &Spell, trial: &TrialData) -> Vec<Counted> {
    let Some(load) = &trial.record.load else { return Vec::new() };
    let span = LoadSummary { measure_start_ns: spell.from_ns, measure_end_ns: spell.to_ns, ..load.clone() };
    let (then, on_average) = (evidence_within(trial, &span), evidence_within(trial, load));
    // Per operation nothing can be said of a time in which there were none.
    let by_second = then.into_iter().filter(|(name, _)| name.ends_with("_share") || name.ends_with("_per_s"));
    let mut stand_out: Vec<Counted> = by_second
        .filter_map(|(name, figure)| {
            let on_average = on_average.get(&name)?.value;
            let stands_out = figure.value >= COUNTED_MIN && figure.value > COUNTED_FACTOR * on_average;
            stands_out.then_some(Counted { title: figure.title, then: figure.value, on_average })
        })
        .collect();
    let factor = |counted: &Counted| counted.then / counted.on_average.max(1e-9);
    stand_out.sort_by(|a, b| factor(b).total_cmp(&factor(a)));
    stand_out.truncate(COUNTED_MAX);
    stand_out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use tare_core::load::OperationSummary;
    use tare_core::plan::PlannedTrial;
    use tare_core::record::TrialRecord;
    use tare_core::telemetry::{TelemetryRow, Vantage};
    use tare_core::trial::Outcome;

    /// A trial of 100 s after 5 s of settling, which does a tenth in the stalled seconds, held back meanwhile.
    fn trial(stalled: fn(u64) -> bool) -> TrialData {
        let planned =
            PlannedTrial { index: 7, block: 0, form: "f".into(), control: false, again: None, profiled: false };
        let mut record = TrialRecord::new(planned, String::new(), Outcome::Measured);
        let second = 1_000_000_000;
        let operations = BTreeMap::from([("get".to_owned(), OperationSummary { count: 1, ..Default::default() })]);
        let (measure_start_ns, measure_end_ns) = (5 * second, 105 * second);
        record.load = Some(LoadSummary { measure_start_ns, measure_end_ns, operations, ..LoadSummary::default() });
        let row = |at: u64| SecondRow {
            at_ns: (at + 1) * second,
            measured: at >= 5,
            seconds: 1.0,
            operations: if at < 5 || stalled(at - 5) { 100 } else { 1000 },
            ..SecondRow::default()
        };
        let mut held_s = 0.0;
        let sample = |at: u64| {
            held_s += if at > 5 && stalled(at - 6) { 0.9 } else { 0.01 };
            let values = BTreeMap::from([("throttled_s".to_owned(), held_s), ("major_faults".to_owned(), at as f64)]);
            TelemetryRow { at_ns: at * second, vantage: Vantage::Host, scope: "server".into(), serving: true, values }
        };
        TrialData { record, seconds: (0..105).map(row).collect(), telemetry: (0..=106).map(sample).collect() }
    }

    #[test]
    fn a_stall_is_named_with_its_time_and_what_was_counted() {
        let stalled = trial(|second| (40..52).contains(&second) || second == 80);
        let found = stalls("f", &[&stalled]).unwrap();
        assert_eq!((found.seconds, found.measured_s, found.spells), (13.0, 100.0, 2));
        let [long, short] = found.longest.as_slice() else { panic!("{found:?}") };
        assert_eq!((long.trial, long.from_s, long.seconds), (7, Some(40.0), 12.0));
        assert_eq!((short.from_s, short.seconds), (Some(80.0), 1.0));
        let [held] = long.counted.as_slice() else { panic!("{long:?}") };
        assert_eq!(held.title, "time throttled by a CPU quota");
        assert!((held.then - 0.9).abs() < 1e-9 && held.on_average < 0.2, "{held:?}");
    }

    #[test]
    fn who_stood_still_for_most_of_the_time_did_stand_still() {
        let mut still = trial(|_| false);
        for row in still.seconds.iter_mut().filter(|row| row.measured).skip(30) {
            row.operations = 0;
        }
        let found = stalls("f", &[&still]).unwrap();
        assert_eq!((found.seconds, found.spells, found.longest[0].from_s), (70.0, 1, Some(30.0)));
    }

    #[test]
    fn seconds_that_are_empty_by_chance_are_no_stalls() {
        // One operation a second, but for every seventh one, and for a time that chance does not make.
        let mut seldom = trial(|_| false);
        for (at, row) in seldom.seconds.iter_mut().enumerate() {
            row.operations = u64::from(at % 7 != 0);
        }
        assert_eq!(stalls("f", &[&seldom]), None);
        for row in &mut seldom.seconds[40..80] {
            row.operations = 0;
        }
        assert_eq!(stalls("f", &[&seldom]).unwrap().spells, 1);
        // One operation in three seconds: what is between them is no stall, however long there is none.
        for (at, row) in seldom.seconds.iter_mut().enumerate() {
            row.operations = u64::from(at % 3 == 0 && !(40..80).contains(&at));
        }
        assert_eq!(stalls("f", &[&seldom]), None);
    }

    #[test]
    fn what_lies_between_two_visits_of_the_load_is_no_stall() {
        let mut sliced = trial(|second| (10..20).contains(&second));
        // The load was elsewhere for ten seconds from the middle of the stall on.
        for row in &mut sliced.seconds[20..] {
            row.at_ns += 10_000_000_000;
        }
        let found = stalls("f", &[&sliced]).unwrap();
        assert_eq!((found.seconds, found.spells), (10.0, 2));
    }

    /// Turns of 20 ms, the longest of which began 40 s after the trial began to be measured.
    fn turned(longest_ns: u64, longest_at_ns: Option<u64>) -> TrialData {
        let mut turned = trial(|second| second == 40);
        let (slice_ns, active_ns) = (20_000_000, 30_000_000_000);
        let turns = TurnsSummary { slice_ns, active_ns, longest_ns, longest_at_ns, ..TurnsSummary::default() };
        turned.record.load.as_mut().unwrap().turns = Some(turns);
        turned
    }

    #[test]
    fn a_turn_that_took_far_too_long_is_a_stall_and_a_second_of_others_turns_is_none() {
        let second = 1_000_000_000;
        let found = stalls("f", &[&turned(second, Some(45 * second))]).unwrap();
        assert_eq!((found.in_turns, found.seconds, found.measured_s, found.spells), (true, 1.0, 30.0, 1));
        assert_eq!((found.longest[0].from_s, found.longest[0].counted.len()), (Some(40.0), 1));
        let unknown = stalls("f", &[&turned(second, None)]).unwrap();
        assert_eq!((unknown.longest[0].from_s, unknown.longest[0].counted.len()), (None, 0));
        assert_eq!(stalls("f", &[&turned(second / 10, Some(45 * second))]), None, "a third of a percent of its time");
        assert!(stood_still(&turned(second, None)));
        assert!(!stood_still(&turned(second / 2, None)), "less than 3 % of its time decides nothing");
    }

    #[test]
    fn stalls_move_a_ratio_by_the_time_that_they_take() {
        let share = |own, of_baseline| Beyond { own, of_baseline }.share();
        assert!((share(0.5, 0.0) - 1.0).abs() < 1e-9, "twice as fast");
        assert!((share(0.0, 0.5) - 1.0).abs() < 1e-9, "or half");
        assert!((share(0.04, 0.02) - (0.98 / 0.96 - 1.0)).abs() < 1e-9);
        assert!(share(1.1, 0.0).is_finite() && share(1.2, 1.1) == 0.0 && share(1.0, 0.0) > 1e3);
    }

    #[test]
    fn who_never_stood_still_has_none() {
        assert_eq!(stalls("f", &[&trial(|_| false)]), None);
        assert_eq!(stalls("other", &[&trial(|second| second == 9)]), None);
        assert_eq!(stalls("f", &[&TrialData { seconds: Vec::new(), ..trial(|_| true) }]), None);
    }
}
