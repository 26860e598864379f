//! Tare's own search: long strides, a bracket, then a weighted up-down staircase around the peak.
//!
//! The staircase moves after every window by an amount that is proportional to how far the window was from what the
//! QoS allows (Kaernbach 1991; Robbins & Monro 1951). So most windows are spent where the answer is undecided, which is
//! where they inform most, and no single window decides anything: a lucky or a disturbed one moves the level by a
//! few percent at most, and the next ones correct it.

use super::estimate::{Fit, fit};
use super::window::{clearly_fails, worst, worst_multiple};
use super::{Action, Hold, PeakSearch, pass_curve, shape};
use tare_core::peak::{Count, Criterion, PeakEnding, PeakOutcome, PeakPhase, PeakPlan, PeakRules, PeakWindow};

/// Stride of the coarse search upwards.
const COARSE_UP: f64 = 1.3;
/// Settling and counting of a coarse hold, in windows.
const COARSE: (f64, f64) = (0.2, 0.6);
/// Settling and counting of a hold of the ramp, in windows.
const RAMP: (f64, f64) = (1.0 / 3.0, 1.0);
/// First stride of the ramp; each next one is longer, by this power, up to `COARSE_UP`.
const RAMP_UP: (f64, f64) = (1.06, 1.25);
/// Stride downwards while the ramp has not passed anything, and where the backlog flows off before the next try.
const RAMP_DOWN: (f64, f64) = (0.9, 0.75);
/// How long the backlog is given after a failed try of the ramp, in windows.
const RAMP_DRAIN: f64 = 0.5;
/// A window shorter than this, in seconds, may be spoilt by a single pause of the service: the ramp ends at the second
/// one in a row that breaks. Else a search of short windows starts far below the peak, and its few windows are over
/// before it is there.
const PAUSE: f64 = 10.0;
/// Where load is held until warm, as a share of the level reached.
const WARM_AT: f64 = 0.9;
/// Where nothing is known, so much of the warm-up comes before the coarse search, which a cold service would mislead;
/// at so much of the first level, since one that is far too high would leave a backlog.
const FIRST_WARM: (f64, f64) = (0.5, 0.5);
/// Step of the staircase for a score of 1, log scale, and the largest one.
const STEP: (f64, f64) = (0.01, 0.04);
/// The staircase is lost: after the first number of windows on one side the steps grow by the factor each, after the
/// second one the longest step as well, up to the stride of the coarse search.
const LOST: (u32, u32, f64) = (4, 12, 1.5);
/// A window in which so many times the allowed share was over the limit leaves a backlog that has to flow off.
const BACKLOG: f64 = 10.0;
/// Where and for how long (in windows) it flows off; going back up takes so many times the usual settling.
const DRAIN: (f64, f64) = (0.85, 1.0 / 3.0);
const SETTLE_AFTER_DRAIN: f64 = 3.0;
/// The first windows of the staircase do not count: it may still be on its way.
const BURN: usize = 5;
/// No stop by width before this many windows; then asked every so many.
const STOP_FROM: (usize, usize) = (24, 4);
/// By how much a search is longer, in windows, when what was seen may be a memory.
const SUSPECT_LONGER: f64 = 1.5;
/// So many windows in a row on the wrong side of a bound end the search.
const AT_BOUND: u32 = 4;

/// The search. See the module.
#[derive(Debug, Clone)]
pub struct Staircase {
    plan: PeakPlan,
    criteria: Vec<Criterion>,
    state: State,
    hold: Hold,
    /// The level around which the staircase stands, log scale.
    theta: f64,
    /// Windows in a row on one side, and which.
    row: (u32, bool),
    at_bound: u32,
    /// The first level broke, and the search had to come down from it.
    fell: bool,
    /// Seconds of warm-up before the ramp.
    warm_s: f64,
    load_s: f64,
    windows: Vec<PeakWindow>,
    ending: Option<PeakEnding>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    /// Warming up, then the coarse search.
    FirstWarm,
    /// Upwards until something breaks; or, when the first level broke, down until something holds.
    Coarse { down: bool },
    /// Warming up, then the ramp from this level.
    Warm { from: f64 },
    /// Upwards by a growing stride; `passed` is the last level that did. `again`: the second try.
    Ramp { passed: Option<f64>, up: f64, again: bool },
    /// The backlog of the ramp flows off, then the ramp goes on from this level.
    RampDrain { from: f64, up: f64 },
    /// The staircase.
    Stairs,
    /// The backlog of the staircase flows off.
    StairsDrain,
}

impl Staircase {
    /// Starts at `hint`, else at the plan's, else by long strides from its first level. Where levels are whole, so are
    /// the lowest and the highest, and the lowest is 1 at least.
    ///
    /// # Panics
    /// When there is no criterion, or the plan's levels are not positive and in order.
    pub fn new(plan: &PeakPlan, criteria: &[Criterion], hint: Option<f64>) -> Staircase {
        assert!(!criteria.is_empty(), "a peak needs a QoS that can be broken");
        assert!(0.0 < plan.at_least && plan.at_least <= plan.at_most, "levels are positive and in order");
        let plan = bounded(plan);
        let nothing = Hold { phase: PeakPhase::Coarse, level: plan.start, settle_s: 0.0, window_s: 0.0 };
        let (start, hint) = (plan.start, hint.or(plan.hint));
        let mut search = Staircase {
            criteria: criteria.to_vec(),
            state: State::FirstWarm,
            hold: nothing,
            theta: start.ln(),
            row: (0, false),
            at_bound: 0,
            fell: false,
            warm_s: plan.warm.as_secs_f64(),
            load_s: 0.0,
            windows: Vec::new(),
            ending: None,
            plan,
        };
        match hint {
            Some(hint) => search.warm(hint * WARM_AT),
            None => search.warm_first(start),
        }
        search.keep_to_budget();
        search
    }

    fn window_s(&self) -> f64 {
        self.plan.window.as_secs_f64()
    }

    /// Wants `level` held for times given in seconds.
    fn want(&mut self, phase: PeakPhase, level: f64, settle_s: f64, window_s: f64) {
        let level = level.clamp(self.plan.at_least, self.plan.at_most);
        let level = if self.plan.whole { level.round() } else { level };
        self.hold = Hold { phase, level, settle_s, window_s };
    }

    /// The next level upwards: `times` as much, and one more at least where levels are whole, since a short stride
    /// would be rounded back to where it came from.
    fn above(&self, level: f64, times: f64) -> f64 {
        (level * times).max(level + self.least())
    }

    /// The next level downwards: `times` as much, at least one less where levels are whole, and never below the lowest.
    fn below(&self, level: f64, times: f64) -> f64 {
        (level * times).min(level - self.least()).max(self.plan.at_least)
    }

    fn least(&self) -> f64 {
        if self.plan.whole { 1.0 } else { 0.0 }
    }

    fn coarse(&mut self, level: f64, down: bool) {
        let window = self.window_s();
        self.state = State::Coarse { down };
        self.fell = down;
        self.want(PeakPhase::Coarse, level, COARSE.0 * window, COARSE.1 * window);
    }

    fn warm_first(&mut self, start: f64) {
        let first_s = FIRST_WARM.0 * self.warm_s;
        self.warm_s -= first_s;
        self.want(PeakPhase::Warm, FIRST_WARM.1 * start, first_s, 0.0);
    }

    fn warm(&mut self, from: f64) {
        self.state = State::Warm { from };
        self.want(PeakPhase::Warm, WARM_AT * from, self.warm_s, 0.0);
    }

    fn ramp(&mut self, level: f64, passed: Option<f64>, up: f64, again: bool) {
        let window = self.window_s();
        self.state = State::Ramp { passed, up, again };
        self.want(PeakPhase::Ramp, level, RAMP.0 * window, RAMP.1 * window);
    }

    fn stairs(&mut self) {
        self.state = State::Stairs;
        let after_drain = if self.hold.phase == PeakPhase::Drain { SETTLE_AFTER_DRAIN } else { 1.0 };
        let settle = after_drain * self.plan.settle.as_secs_f64();
        self.theta = self.theta.clamp(self.plan.at_least.ln(), self.plan.at_most.ln());
        self.want(PeakPhase::Staircase, self.theta.exp(), settle, self.window_s());
    }

    fn after_coarse(&mut self, level: f64, down: bool, failed: bool) {
        match (down, failed) {
            (false, false) if level >= self.plan.at_most => self.warm(level),
            (false, false) => self.coarse(self.above(level, COARSE_UP), false),
            (false, true) if level > self.plan.start => self.warm(level / COARSE_UP),
            (_, true) if level <= self.plan.at_least => self.end(PeakEnding::AlwaysFails { down_to: level }),
            // The very first level broke: down by twos, each with time for the backlog in its settling.
            (_, true) => self.coarse(self.below(level, 0.5), true),
            (true, false) => self.warm(level),
        }
    }

    fn after_ramp(&mut self, level: f64, passed: Option<f64>, up: f64, again: bool, failed: bool) {
        match (failed, passed) {
            (true, Some(_)) if !again && self.window_s() < PAUSE => self.ramp(level, passed, up, true),
            (true, Some(passed)) => {
                self.theta = 0.5 * (passed.ln() + level.ln());
                self.stairs();
            }
            (true, None) if level <= self.plan.at_least => self.end(PeakEnding::AlwaysFails { down_to: level }),
            (true, None) => {
                let from = self.below(level, RAMP_DOWN.0);
                self.state = State::RampDrain { from, up };
                self.want(PeakPhase::Drain, RAMP_DOWN.1 * from, RAMP_DRAIN * self.window_s(), 0.0);
            }
            (false, _) if level >= self.plan.at_most => {
                self.theta = level.ln();
                self.stairs();
            }
            (false, _) => self.ramp(self.above(level, up), Some(level), up.powf(RAMP_UP.1).min(COARSE_UP), false),
        }
    }

    fn after_stairs(&mut self, score: f64, multiple: f64) {
        let above = score > 0.0;
        self.row = if above == self.row.1 { (self.row.0 + 1, above) } else { (1, above) };
        let grown = |row: u32| LOST.2.powi(self.row.0.saturating_sub(row) as i32);
        let longest = (STEP.1 * grown(LOST.1)).min(COARSE_UP.ln());
        let step = (STEP.0 * grown(LOST.0)).min(longest);
        let wanted = self.theta - (step * score).clamp(-longest, longest);
        let (lowest, highest) = (self.plan.at_least.ln(), self.plan.at_most.ln());
        let stuck = (wanted >= highest && !above) || (wanted <= lowest && above);
        self.at_bound = if stuck { self.at_bound + 1 } else { 0 };
        self.theta = wanted.clamp(lowest, highest);
        let level = self.hold.level;
        if self.at_bound >= AT_BOUND {
            let never = PeakEnding::NeverFails { up_to: level };
            self.end(if above { PeakEnding::AlwaysFails { down_to: level } } else { never });
        } else if self.enough() {
            self.end(PeakEnding::Found);
        } else if multiple > BACKLOG {
            self.state = State::StairsDrain;
            self.want(PeakPhase::Drain, DRAIN.0 * self.theta.exp(), DRAIN.1 * self.window_s(), 0.0);
        } else {
            self.stairs();
        }
    }

    /// Ends the search when the hold that it wants next would take more time under load than it may, whatever it is
    /// about to do.
    fn keep_to_budget(&mut self) {
        let next_s = self.hold.settle_s + self.hold.window_s;
        let over = self.plan.budget.is_some_and(|budget| self.load_s + next_s > budget.as_secs_f64());
        if over && self.ending.is_none() {
            let usable = self.stairs_so_far() >= STOP_FROM.0;
            self.end(if usable { PeakEnding::Found } else { PeakEnding::BudgetSpent });
        }
    }

    fn stairs_so_far(&self) -> usize {
        self.windows.iter().filter(|window| window.phase == PeakPhase::Staircase).count()
    }

    fn enough(&self) -> bool {
        let n = self.stairs_so_far();
        if n >= self.plan.windows as usize {
            // One fall that looks like a memory is worth waiting for another, for half as long again at most.
            let longest = (self.plan.windows as f64 * SUSPECT_LONGER) as usize;
            return n >= longest || !shape::may_have_memory(&self.windows, self.least());
        }
        let (from, every) = STOP_FROM;
        let Some(wanted) = self.plan.half_width.filter(|_| n >= from && n.is_multiple_of(every)) else { return false };
        let used: Vec<PeakWindow> = self.used().cloned().collect();
        fit(&used, &self.criteria).is_some_and(|fit| fit.half_width.exp_m1() <= wanted)
    }

    /// The windows on which the estimate rests.
    fn used(&self) -> impl Iterator<Item = &PeakWindow> {
        self.windows.iter().filter(|window| window.used)
    }

    fn end(&mut self, ending: PeakEnding) {
        self.ending = Some(ending);
    }

    fn outcome(&self, ending: &PeakEnding) -> PeakOutcome {
        let used: Vec<PeakWindow> = self.used().cloned().collect();
        let fitted: Option<Fit> = fit(&used, &self.criteria);
        let mut outcome = PeakOutcome {
            ending: ending.clone(),
            rules: PeakRules::Staircase,
            unit: self.plan.unit.clone(),
            criteria: self.criteria.clone(),
            peak: None,
            low: None,
            high: None,
            slope: None,
            binding: None,
            curve: pass_curve(&self.windows),
            load_s: self.load_s,
            notes: Vec::new(),
            warnings: Vec::new(),
            windows: self.windows.clone(),
        };
        if *ending == PeakEnding::Found {
            if let Some(fit) = fitted {
                outcome.peak = Some(fit.log_peak.exp());
                outcome.low = Some((fit.log_peak - fit.half_width).exp());
                outcome.high = Some((fit.log_peak + fit.half_width).exp());
                outcome.slope = Some(fit.slope * std::f64::consts::LN_2);
                outcome.binding = Some(self.criteria[fit.binding].name.clone());
                shape::judge(&mut outcome, &used, &fit, self.least());
            } else {
                outcome.ending = PeakEnding::BudgetSpent;
            }
        }
        outcome
    }
}

/// The plan with levels that can be held: whole where they have to be, and the first one between the others.
fn bounded(plan: &PeakPlan) -> PeakPlan {
    let mut plan = plan.clone();
    if plan.whole {
        plan.at_most = plan.at_most.floor().max(1.0);
        plan.at_least = plan.at_least.ceil().min(plan.at_most);
        plan.start = plan.start.round();
    }
    plan.start = plan.start.clamp(plan.at_least, plan.at_most);
    plan
}

impl PeakSearch for Staircase {
    fn next(&self) -> Action {
        match &self.ending {
            Some(ending) => Action::Done(Box::new(self.outcome(ending))),
            None => Action::Hold(self.hold),
        }
    }

    fn observe(&mut self, level: f64, counts: &[Count]) {
        if self.ending.is_some() {
            return;
        }
        let hold = self.hold;
        self.load_s += hold.settle_s + hold.window_s;
        let score = worst(counts, &self.criteria);
        if hold.window_s > 0.0 {
            let burnt = self.stairs_so_far() >= BURN;
            self.windows.push(PeakWindow {
                phase: hold.phase,
                level,
                at_s: self.load_s,
                counts: counts.to_vec(),
                score,
                passed: score <= 0.0,
                used: hold.phase == PeakPhase::Staircase && burnt,
            });
        }
        let clearly = || clearly_fails(counts, &self.criteria);
        // Where the first level broke, a window has to pass: too few operations for a clear failure are no reason to
        // stay.
        let failed = |anything_held: bool| clearly() || (self.fell && !anything_held && score > 0.0);
        match self.state {
            State::FirstWarm => self.coarse(self.plan.start, false),
            State::Coarse { down } => self.after_coarse(hold.level, down, failed(!down)),
            State::Warm { from } => self.ramp(from, None, RAMP_UP.0, false),
            State::Ramp { passed, up, again } => {
                self.after_ramp(hold.level, passed, up, again, failed(passed.is_some()))
            }
            State::RampDrain { from, up } => self.ramp(from, None, up, false),
            State::Stairs => self.after_stairs(score, worst_multiple(counts, &self.criteria)),
            State::StairsDrain => self.stairs(),
        }
        self.keep_to_budget();
    }

    fn last_window(&self) -> Option<PeakWindow> {
        self.windows.last().cloned()
    }

    fn generator_limited(&mut self, level: f64, why: &str) {
        if self.ending.is_none() {
            self.end(PeakEnding::GeneratorLimited { level, why: why.to_owned() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;
    use tare_core::load::LoadProfile;

    /// Far more holds than any search needs: 48 windows of the staircase, as many drains, and the way to them.
    const HOLDS_MAX: usize = 250;

    fn plan(start: f64) -> PeakPlan {
        let closed = LoadProfile::Closed { connections: 1, pipeline: 1 };
        let usual = PeakPlan::usual(&closed, Vec::new()).unwrap();
        PeakPlan { start, at_least: start / 10.0, at_most: start * 100.0, ..usual }
    }

    /// Carries a search out on a system that keeps its QoS up to `capacity`, sharply or gently; the levels it held.
    fn levels(plan: &PeakPlan, hint: Option<f64>, capacity: f64, slope: f64) -> (Vec<f64>, PeakOutcome) {
        let criteria = [Criterion { name: "get in time".into(), allowed: 0.01, late: true }];
        let mut search = Staircase::new(plan, &criteria, hint);
        let mut levels = Vec::new();
        loop {
            match search.next() {
                Action::Hold(hold) => {
                    let share = (0.01 * (1.0 + slope * (hold.level / capacity).ln())).clamp(0.0, 1.0);
                    let counts = [Count { of: 1000.0, over: (1000.0 * share).round() }];
                    levels.push(hold.level);
                    assert!(levels.len() <= HOLDS_MAX, "it does not end: {levels:?}");
                    search.observe(hold.level, if hold.window_s > 0.0 { &counts } else { &[] });
                }
                Action::Done(outcome) => return (levels, *outcome),
            }
        }
    }

    proptest! {
        #[test]
        fn a_search_over_a_few_users_ends(
            capacity in 0.5f64..20.0, start in 1u32..=5, slope in 5.0f64..5000.0,
            hint in proptest::option::of(0.3f64..30.0)
        ) {
            let (levels, outcome) = levels(&plan(f64::from(start)), hint, capacity, slope);
            prop_assert!(levels.iter().all(|level| *level >= 1.0 && level.fract() == 0.0), "{levels:?}");
            if capacity < 0.9 {
                let fails = outcome.ending == PeakEnding::AlwaysFails { down_to: 1.0 };
                // One late in a thousand more than allowed is no clear failure: a gentle slope may pass.
                prop_assert!(fails || slope < 500.0, "{:?}", outcome.ending);
            }
        }
    }

    #[test]
    fn strides_at_one_user_go_to_two() {
        let (levels, outcome) = levels(&plan(1.0), None, 5.5, 1000.0);
        // The first one warms up.
        assert_eq!(levels[..7], [1.0, 1.0, 2.0, 3.0, 4.0, 5.0, 7.0]);
        assert_eq!(outcome.ending, PeakEnding::Found, "{levels:?}");
        assert!((5.0..=6.0).contains(&outcome.peak.unwrap()), "{:?}", outcome.peak);
    }

    #[test]
    fn bounds_between_two_users_are_drawn_to_whole_ones() {
        let mut plan = PeakPlan { at_least: 0.05, at_most: 3.7, ..plan(1.0) };
        let (levels, outcome) = levels(&plan, None, 100.0, 1000.0);
        assert_eq!(outcome.ending, PeakEnding::NeverFails { up_to: 3.0 }, "{levels:?}");
        plan.at_least = 1.2;
        plan.at_most = 1.8;
        let bounded = bounded(&plan);
        assert_eq!((bounded.at_least, bounded.start, bounded.at_most), (1.0, 1.0, 1.0));
    }

    #[test]
    fn what_is_cold_is_warmed_up_before_it_is_judged() {
        let phases = |hint| {
            let (_, outcome) = levels(&plan(100.0), hint, 300.0, 40.0);
            (outcome.windows[0].phase, outcome.windows[0].at_s)
        };
        // 15 s of a window: 0.8 of it for a level of the coarse search, a third to settle and a whole one for the ramp.
        assert_eq!(phases(None), (PeakPhase::Coarse, 45.0 + 12.0));
        assert_eq!(phases(Some(300.0)), (PeakPhase::Ramp, 90.0 + 20.0));
    }

    #[test]
    fn no_phase_takes_more_than_the_budget() {
        for budget in [20, 60, 100, 200, 400, 700] {
            let plan = PeakPlan { budget: Some(Duration::from_secs(budget)), ..plan(100.0) };
            let (_, outcome) = levels(&plan, None, 1000.0, 40.0);
            assert!(outcome.load_s <= budget as f64, "{} of {budget} s", outcome.load_s);
            let usable = outcome.windows.iter().filter(|window| window.phase == PeakPhase::Staircase).count() >= 24;
            let wanted = if usable { PeakEnding::Found } else { PeakEnding::BudgetSpent };
            assert_eq!(outcome.ending, wanted, "{budget} s");
        }
    }
}
