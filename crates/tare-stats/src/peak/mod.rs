//! The search for the peak load, as pure state machines: asked for the next hold, told what its window counted.
//!
//! [`Staircase`] is Tare's own; [`Published`] follows the rules of Weathervane 2.2, so that figures can be compared.
//! Neither knows what a level is, what makes the load or what time it is.

mod asked;
mod curve;
mod estimate;
mod published;
mod shape;
mod staircase;
mod window;

pub use asked::Asked;
pub use curve::pass_curve;
pub use estimate::{Fit, fit};
pub use published::Published;
pub use staircase::Staircase;
pub use window::{CAP, clearly_fails, passes, score};

use tare_core::peak::{Count, Criterion, PeakOutcome, PeakPhase, PeakPlan, PeakRules, PeakWindow};

/// A level to be held.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hold {
    /// Why.
    pub phase: PeakPhase,
    /// The level.
    pub level: f64,
    /// How long before counting, s.
    pub settle_s: f64,
    /// How long is counted, s; 0 when nothing needs to be.
    pub window_s: f64,
}

/// What a search wants next.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Hold this level, then tell [`PeakSearch::observe`].
    Hold(Hold),
    /// Nothing more: this is what it came to.
    Done(Box<PeakOutcome>),
}

/// A search for the peak load.
pub trait PeakSearch {
    /// What to do next; the same until [`PeakSearch::observe`] is called.
    fn next(&self) -> Action;

    /// The hold that was wanted is over. `level` is what was really offered (users are whole), `counts` are by
    /// criterion, empty when the hold had no window.
    fn observe(&mut self, level: f64, counts: &[Count]);

    /// The window that was counted last.
    fn last_window(&self) -> Option<PeakWindow>;

    /// The generator was the limit at `level`: ends the search, since what lies above was never asked of the service.
    fn generator_limited(&mut self, level: f64, why: &str);
}

/// The search that a plan asks for. `hint` is where the peak is expected, if anything is known; it goes before the
/// plan's own.
///
/// # Panics
/// When there is no criterion, or the plan's levels are not positive and in order.
pub fn peak_search(plan: &PeakPlan, criteria: &[Criterion], hint: Option<f64>) -> Box<dyn PeakSearch> {
    match plan.rules {
        PeakRules::Staircase => Box::new(Staircase::new(plan, criteria, hint)),
        PeakRules::Published => Box::new(Published::new(plan, criteria, hint)),
    }
}
