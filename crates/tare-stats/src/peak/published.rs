//! The published search, so that its figures can be compared: the rules of Weathervane 2.2 as its source states them
//! (FindMaxLoadPath), in our words. Three parts: +step until a minute misses; then single probes whose verdicts are
//! final; the highest probe that passed is the result. No interval, and nothing is tried twice.
//!
//! Its times are those of the original when the plan's window is 300 s: every length here is a share of the window.

use super::window::{passes, worst};
use super::{Action, Hold, PeakSearch, pass_curve};
use std::collections::VecDeque;
use tare_core::peak::{Count, Criterion, PeakEnding, PeakOutcome, PeakPhase, PeakPlan, PeakRules, PeakWindow};

/// A first ramp's hold below 1000 and from there on, in windows.
const INITIAL: (f64, f64) = (0.4, 0.2);
/// The share of all operations within their limits that an initial hold needs; the first two always pass.
const INITIAL_SHARE: f64 = 0.999;
/// A change of level is made in so many parts, each of this many windows.
const CHANGE: (u32, f64) = (8, 0.05);
/// Warm-up at the new level, in windows.
const WARM: f64 = 0.6;
/// It ends when the lowest failed level is nearer to the highest passed one than this share.
const STOP: f64 = 0.01;

/// The search. See the module.
#[derive(Debug, Clone)]
pub struct Published {
    plan: PeakPlan,
    criteria: Vec<Criterion>,
    pending: VecDeque<Hold>,
    current: i64,
    step: i64,
    initial: bool,
    initial_holds: u32,
    max_pass: i64,
    min_fail: i64,
    /// Whether a probe failed: until one does, `min_fail` is only where the search may not go beyond.
    failed: bool,
    passes_in_row: u32,
    fails_in_row: u32,
    load_s: f64,
    windows: Vec<PeakWindow>,
    ending: Option<PeakEnding>,
}

impl Published {
    /// Starts with the plan's first level as the step of the initial ramp, or at `hint`.
    ///
    /// # Panics
    /// When there is no criterion, or the plan's levels are not positive and in order.
    pub fn new(plan: &PeakPlan, criteria: &[Criterion], hint: Option<f64>) -> Published {
        assert!(!criteria.is_empty(), "a peak needs a QoS that can be broken");
        assert!(0.0 < plan.at_least && plan.at_least <= plan.at_most, "levels are positive and in order");
        let step = (plan.start.round() as i64).max(1);
        let mut search = Published {
            plan: plan.clone(),
            criteria: criteria.to_vec(),
            pending: VecDeque::new(),
            current: 0,
            step,
            initial: true,
            initial_holds: 0,
            max_pass: 0,
            min_fail: (plan.at_most.round() as i64).max(1),
            failed: false,
            passes_in_row: 0,
            fails_in_row: 0,
            load_s: 0.0,
            windows: Vec::new(),
            ending: None,
        };
        match hint.or(plan.hint) {
            Some(hint) => search.leave_initial(hint.round() as i64, 100),
            None => search.initial(),
        }
        search
    }

    fn lowest(&self) -> i64 {
        (self.plan.at_least.round() as i64).max(1)
    }

    fn highest(&self) -> i64 {
        (self.plan.at_most.round() as i64).max(1)
    }

    fn push(&mut self, phase: PeakPhase, level: i64, settle: f64, window: f64) {
        let unit = self.plan.window.as_secs_f64();
        let level = level.max(1) as f64;
        self.pending.push_back(Hold { phase, level, settle_s: settle * unit, window_s: window * unit });
    }

    fn initial(&mut self) {
        if self.current + self.step > self.highest() {
            return self.leave_initial(self.current.max(self.lowest()), 10);
        }
        self.current += self.step;
        let length = if self.current < 1000 { INITIAL.0 } else { INITIAL.1 };
        self.push(PeakPhase::Coarse, self.current, 0.0, length);
    }

    fn leave_initial(&mut self, reached: i64, share: i64) {
        self.initial = false;
        self.step = (reached / share).max(1);
        self.current = round_nicely(reached - self.step, 0, reached).max(self.lowest());
        self.change(reached, self.current);
    }

    /// Moves to a level in parts, warms up, and judges it.
    fn change(&mut self, from: i64, to: i64) {
        let (parts, length) = CHANGE;
        let stride = (from - to).abs().div_ceil_by(i64::from(parts) - 1);
        for part in 0..i64::from(parts) {
            let level = if to >= from { (from + part * stride).min(to) } else { (from - part * stride).max(to) };
            self.push(PeakPhase::Warm, level, length, 0.0);
        }
        self.push(PeakPhase::Warm, to, WARM, 0.0);
        self.push(PeakPhase::Probe, to, 0.0, 1.0);
    }

    /// Levels are whole: between two neighbours there is nothing left to try, however much they differ by.
    fn near(&self) -> bool {
        let gap = self.min_fail - self.max_pass;
        gap <= 1 || (gap as f64) < self.min_fail as f64 * STOP
    }

    /// What the initial ramp asks of a window: enough of all operations within their limits. An operation may count in
    /// several of the other criteria at once, so those are asked only where nothing has a limit.
    fn keeps_up(&self, counts: &[Count]) -> bool {
        let late = || counts.iter().zip(&self.criteria).filter(|(_, criterion)| criterion.late);
        if late().count() == 0 {
            return passes(counts, &self.criteria);
        }
        let (of, over) = late().fold((0.0, 0.0), |sum, (count, _)| (sum.0 + count.of, sum.1 + count.over));
        over <= of * (1.0 - INITIAL_SHARE)
    }

    fn after_probe(&mut self, passed: bool) {
        let before = self.current;
        let gap = |search: &Published| (search.min_fail - search.max_pass) as f64;
        if passed {
            self.max_pass = self.max_pass.max(self.current);
            if self.current >= self.highest() || (self.near() && !self.failed) {
                return self.ending = Some(PeakEnding::NeverFails { up_to: self.max_pass as f64 });
            }
            if self.near() {
                return self.ending = Some(PeakEnding::Found);
            }
            (self.fails_in_row, self.passes_in_row) = (0, self.passes_in_row + 1);
            if self.passes_in_row >= 3 {
                self.passes_in_row = 0;
                self.step = (self.step as f64 * 1.25) as i64;
            }
            if self.current + self.step >= self.min_fail {
                self.step = (0.5 * gap(self)).ceil() as i64;
            }
            self.current = round_nicely(self.current + self.step, self.max_pass, self.min_fail);
        } else {
            self.failed = true;
            if self.current < self.min_fail {
                self.min_fail = self.current;
                if self.min_fail <= self.lowest() {
                    return self.ending = Some(PeakEnding::AlwaysFails { down_to: self.current as f64 });
                }
                if self.near() {
                    return self.ending = Some(PeakEnding::Found);
                }
            }
            (self.passes_in_row, self.fails_in_row) = (0, self.fails_in_row + 1);
            if self.fails_in_row >= 2 {
                self.fails_in_row = 0;
                self.step = (self.step as f64 * 1.5) as i64;
            }
            if self.current - self.step <= self.max_pass {
                self.step = (0.75 * gap(self)).ceil() as i64;
            }
            let below = self.current - self.step;
            let nice = if below <= self.lowest() { below } else { round_nicely(below, self.max_pass, self.min_fail) };
            self.current = nice.max(self.lowest());
        }
        self.change(before, self.current);
    }

    fn outcome(&self, ending: &PeakEnding) -> PeakOutcome {
        let found = *ending == PeakEnding::Found && self.max_pass > 0;
        PeakOutcome {
            ending: ending.clone(),
            rules: PeakRules::Published,
            unit: self.plan.unit.clone(),
            criteria: self.criteria.clone(),
            peak: found.then_some(self.max_pass as f64),
            low: None,
            high: None,
            slope: None,
            binding: None,
            curve: pass_curve(&self.windows),
            load_s: self.load_s,
            notes: Vec::new(),
            warnings: Vec::new(),
            windows: self.windows.clone(),
        }
    }
}

/// Whole division that rounds up.
trait DivideUp {
    fn div_ceil_by(self, by: Self) -> Self;
}

impl DivideUp for i64 {
    fn div_ceil_by(self, by: i64) -> i64 {
        (self + by - 1) / by
    }
}

/// The original's "nice" levels: to a few significant digits, but strictly between `low` and `high` where those are
/// set; if nothing nice lies there, near their middle.
fn round_nicely(level: i64, low: i64, high: i64) -> i64 {
    let (mut short, mut tens) = (level, 1);
    while short > 1000 && tens < 100 {
        (short, tens) = (short / 10, tens * 10);
    }
    let grain = match short {
        250.. => 10,
        200.. if tens > 1 => 5,
        100.. if tens == 1 => 4,
        50.. => 2,
        _ => 1,
    };
    let down = short / grain * grain * tens;
    let up = down + grain * tens;
    let above = |value: i64| low <= 0 || value > low;
    let fits = |value: i64| above(value) && (high <= 0 || value < high);
    if level - down < up - level {
        if fits(down) {
            return down;
        }
    } else if fits(up) {
        return up;
    } else if fits(down) {
        return down;
    }
    let from = if low > 0 { low } else { down };
    let gap = (if high > 0 { high } else { up }) - from;
    let mut add = grain * tens / 2;
    if add == gap && add > 1 {
        add /= 2;
    }
    while gap < add && add > 1 {
        add /= 2;
    }
    if fits(from + add) { from + add } else { level }
}

impl PeakSearch for Published {
    fn next(&self) -> Action {
        match (&self.ending, self.pending.front()) {
            (None, Some(hold)) => Action::Hold(*hold),
            (ending, _) => Action::Done(Box::new(self.outcome(ending.as_ref().unwrap_or(&PeakEnding::BudgetSpent)))),
        }
    }

    fn observe(&mut self, level: f64, counts: &[Count]) {
        let Some(hold) = self.pending.pop_front() else { return };
        self.load_s += hold.settle_s + hold.window_s;
        if hold.window_s <= 0.0 {
            return;
        }
        let passed = if self.initial {
            self.initial_holds += 1;
            self.initial_holds <= 2 || self.keeps_up(counts)
        } else {
            passes(counts, &self.criteria)
        };
        let (phase, score) = (hold.phase, worst(counts, &self.criteria));
        let used = phase == PeakPhase::Probe;
        self.windows.push(PeakWindow { phase, level, at_s: self.load_s, counts: counts.to_vec(), score, passed, used });
        if self.plan.budget.is_some_and(|budget| self.load_s > budget.as_secs_f64()) {
            self.ending = Some(PeakEnding::BudgetSpent);
        } else if !self.initial {
            self.after_probe(passed);
        } else if passed {
            self.initial();
        } else {
            self.leave_initial(self.current, 10);
        }
    }

    fn last_window(&self) -> Option<PeakWindow> {
        self.windows.last().cloned()
    }

    fn generator_limited(&mut self, level: f64, why: &str) {
        if self.ending.is_none() {
            self.ending = Some(PeakEnding::GeneratorLimited { level, why: why.to_owned() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    fn plan(start: f64, at_most: f64) -> PeakPlan {
        let seconds = Duration::from_secs;
        PeakPlan {
            rules: PeakRules::Published,
            unit: "users".into(),
            whole: true,
            start,
            hint: None,
            at_least: 1.0,
            at_most,
            warm: seconds(90),
            settle: seconds(60),
            window: seconds(300),
            windows: 48,
            half_width: None,
            budget: None,
            operations: Vec::new(),
        }
    }

    fn criterion(name: &str, late: bool) -> Criterion {
        Criterion { name: name.into(), allowed: 0.01, late }
    }

    /// Carries a search out; `count` says what a window at a level counts. How many windows it took.
    fn search(
        plan: &PeakPlan,
        criteria: &[Criterion],
        hint: Option<f64>,
        mut counts: impl FnMut(f64) -> Vec<Count>,
    ) -> (u32, PeakOutcome) {
        let mut search = Published::new(plan, criteria, hint);
        let mut windows = 0;
        loop {
            match search.next() {
                Action::Hold(hold) => {
                    windows += u32::from(hold.window_s > 0.0);
                    assert!(windows <= 200, "it does not end, at {}", hold.level);
                    let counted = if hold.window_s > 0.0 { counts(hold.level) } else { Vec::new() };
                    search.observe(hold.level, &counted);
                }
                Action::Done(outcome) => return (windows, *outcome),
            }
        }
    }

    fn late(of: f64, share: f64) -> Vec<Count> {
        vec![Count { of, over: of * share }]
    }

    proptest! {
        #[test]
        fn a_search_below_a_hundred_ends(
            peak in 1u32..100, start in 1u32..10, hint in proptest::option::of(1.0f64..150.0)
        ) {
            let limit = f64::from(peak) + 0.5;
            let criteria = [criterion("get", true)];
            let counts = |level| late(1000.0, f64::from(u8::from(level > limit)));
            let (_, outcome) = search(&plan(f64::from(start), 1000.0), &criteria, hint, counts);
            prop_assert_eq!(&outcome.ending, &PeakEnding::Found);
            prop_assert_eq!(outcome.peak, Some(f64::from(peak)));
        }
    }

    #[test]
    fn what_never_failed_has_no_peak() {
        let criteria = [criterion("get", true)];
        for (at_most, hint) in [(3000.0, None), (3000.0, Some(2500.0)), (7.0, None), (1.0, None)] {
            let (_, outcome) = search(&plan(100.0, at_most), &criteria, hint, |_| late(1000.0, 0.0));
            assert!(matches!(outcome.ending, PeakEnding::NeverFails { .. }), "{at_most}: {:?}", outcome.ending);
            assert_eq!(outcome.peak, None);
        }
        // One failed probe, and there is an edge to be found.
        let (_, outcome) =
            search(&plan(100.0, 3000.0), &criteria, None, |level| late(1000.0, if level > 2000.0 { 0.5 } else { 0.0 }));
        assert_eq!(outcome.ending, PeakEnding::Found);
        assert!((1970.0..=2000.0).contains(&outcome.peak.unwrap()), "{:?}", outcome.peak);
    }

    #[test]
    fn the_initial_ramp_counts_an_operation_once() {
        let criteria =
            [criterion("get", true), criterion("set", true), criterion("failures", false), criterion("mix", false)];
        // 8 of 10,000 are late, all of them because they failed: within 99.9 %, whatever the mix is off by.
        let counts = |level: f64| {
            let of = |of, over| Count { of, over };
            let over = if level > 1500.0 { 9000.0 } else { 8.0 };
            vec![of(9000.0, over), of(1000.0, 0.0), of(10_000.0, over), of(10_000.0, 60.0)]
        };
        let (_, outcome) = search(&plan(200.0, 3000.0), &criteria, None, counts);
        let ramp = outcome.windows.iter().filter(|window| window.phase == PeakPhase::Coarse);
        let ramp: Vec<(f64, bool)> = ramp.map(|window| (window.level, window.passed)).collect();
        assert_eq!(ramp.last(), Some(&(1600.0, false)), "{ramp:?}");
        // Where nothing has a limit, what was asked instead decides.
        let only = [criterion("failures", false)];
        let fails = |level: f64| late(1000.0, if level > 900.0 { 0.02 } else { 0.005 });
        let (_, outcome) = search(&plan(200.0, 3000.0), &only, None, fails);
        assert!((850.0..=900.0).contains(&outcome.peak.unwrap()), "{:?}", outcome.peak);
    }
}
