//! A trial that searches for the peak: the search chooses the next level, the load process reports the result.

use std::time::Duration;
use tare_core::load::{Hold, LoadOrder, WindowRow};
use tare_core::peak::{PeakNote, PeakOutcome, PeakPlan, PeakRules, PeakWindow};
use tare_core::qos::Qos;
use tare_stats::peak::{Action, Asked, PeakSearch, peak_search};

/// If a search wants no count, the end of the hold is counted nevertheless, to learn that it is over, s.
const TAIL_S: f64 = 0.25;
/// The search ends after this many windows in a row in which the generator could not keep up.
const LIMITED: u32 = 2;
/// With the peak of the previous block, this share of the windows is enough: the bracket is near already.
const WINDOWS_WITH_HINT: f64 = 0.75;
/// A search is given up after this many times its expected length, plus this time.
const PATIENCE: (u32, Duration) = (4, Duration::from_secs(300));

/// A search and the load that it guides.
pub(crate) struct GuidedSearch {
    search: Box<dyn PeakSearch>,
    asked: Asked,
    hold: Hold,
    counted: bool,
    limited: u32,
    doubtful: u32,
    last: Option<PeakWindow>,
    outcome: Option<PeakOutcome>,
}

impl GuidedSearch {
    /// Begins a search. `known` is the result of the same arm's last search.
    pub(crate) fn begin(plan: &PeakPlan, qos: &Qos, known: Option<f64>) -> GuidedSearch {
        let asked = Asked::of(qos, &plan.operations);
        let mut plan = plan.clone();
        // The published search starts from scratch each time; a hint would make its repetitions depend on each other.
        let known = known.filter(|_| plan.rules == PeakRules::Staircase);
        if known.is_some() {
            let fewer = (f64::from(plan.windows) * WINDOWS_WITH_HINT).round() as u32;
            plan.windows = fewer.max(PeakPlan::WINDOWS_MIN);
        }
        let search = peak_search(&plan, asked.criteria(), known);
        let hold = Hold { number: 0, level: 0.0, settle_s: 0.0, window_s: 0.0 };
        GuidedSearch { search, asked, hold, counted: false, limited: 0, doubtful: 0, last: None, outcome: None }
    }

    /// How long to wait for the load process.
    pub(crate) fn patience(plan: &PeakPlan) -> Duration {
        plan.expected() * PATIENCE.0 + PATIENCE.1
    }

    /// The next order: the first one without a row, every other one after the row of the previous hold.
    pub(crate) fn next(&mut self, row: Option<&WindowRow>) -> LoadOrder {
        if let Some(row) = row.filter(|row| row.number == self.hold.number) {
            self.take(row);
        }
        match self.search.next() {
            Action::Done(outcome) => {
                self.outcome = Some(*outcome);
                LoadOrder::End
            }
            Action::Hold(wanted) => {
                self.counted = wanted.window_s > 0.0;
                let tail = if self.counted { 0.0 } else { TAIL_S.min(0.5 * wanted.settle_s) };
                self.hold = Hold {
                    number: self.hold.number + 1,
                    level: wanted.level,
                    settle_s: wanted.settle_s - tail,
                    window_s: wanted.window_s + tail,
                };
                LoadOrder::Hold(self.hold)
            }
        }
    }

    fn take(&mut self, row: &WindowRow) {
        let counts = if self.counted { self.asked.counts(row) } else { Vec::new() };
        match &row.saturated {
            Some(why) if self.counted => {
                (self.limited, self.doubtful) = (self.limited + 1, self.doubtful + 1);
                if self.limited >= LIMITED {
                    return self.search.generator_limited(row.level, why);
                }
            }
            _ if self.counted => self.limited = 0,
            _ => {}
        }
        self.search.observe(row.level, &counts);
        self.last = if self.counted { self.search.last_window() } else { None };
    }

    /// The last judged window; returned only once.
    pub(crate) fn last_window(&mut self) -> Option<PeakWindow> {
        self.last.take()
    }

    /// The result of the search; none before its end.
    pub(crate) fn outcome(self) -> Option<PeakOutcome> {
        let mut outcome = self.outcome?;
        if self.doubtful > 0 {
            outcome.notes.push(PeakNote::GeneratorDoubtful { windows: self.doubtful });
        }
        Some(outcome)
    }
}
