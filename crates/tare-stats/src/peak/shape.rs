//! Whether what a staircase saw looks like a peak at all: systems with memory, cliffs, slopes, bad neighbours.

use super::estimate::Fit;
use super::window::worst_multiple;
use tare_core::peak::{PeakEnding, PeakNote, PeakOutcome, PeakWindow};

/// A fall of so much, log scale, over so many windows that broke the QoS is no search any more: more than two of the
/// staircase's longest steps.
const LONG: (f64, usize) = (0.12, 4);
/// So many long falls show that the system has a memory; a single one may be a disturbance.
const MEMORIES: usize = 2;
/// A slope below this makes the peak a matter of taste: twice the allowance is met at 10 % more load.
const GENTLE: f64 = 10.0;
/// An interval that reaches further than this says little.
const WIDE: f64 = 0.05;
/// A mean score beyond this: the staircase never stood around the peak.
const ASTRAY: f64 = 0.75;
/// Windows with more than this multiple of the allowance over the limit, though they stood this far below the peak.
const DISTURBED: (f64, f64) = (10.0, 0.99);
/// This share of such windows is worth a word.
const DISTURBED_SHARE: f64 = 0.1;
/// A cliff: shares are below the first or above the second multiple of the allowance, in all but a tenth of the
/// windows.
const CLIFF: (f64, f64) = (0.2, 20.0);

/// Judges the shape of what was found, and notes so in `outcome`. Levels differ by `least`, if by anything.
pub(super) fn judge(outcome: &mut PeakOutcome, used: &[PeakWindow], fit: &Fit, least: f64) {
    if let Some((tips, recovers)) = memory(&outcome.windows, least) {
        outcome.ending = PeakEnding::Hysteresis { tips, recovers };
        (outcome.peak, outcome.low, outcome.high) = (Some(recovers), None, None);
        outcome.notes.push(PeakNote::Memory);
        return;
    }
    let multiples: Vec<f64> = used.iter().map(|window| worst_multiple(&window.counts, &outcome.criteria)).collect();
    let n = used.len() as f64;
    let between = multiples.iter().filter(|multiple| (CLIFF.0..CLIFF.1).contains(*multiple)).count() as f64;
    let over = multiples.iter().filter(|multiple| **multiple >= CLIFF.1).count();
    if between / n < 0.1 && over >= 3 {
        outcome.notes.push(PeakNote::Cliff);
    }
    if fit.slope < GENTLE {
        outcome.notes.push(PeakNote::GentleSlope { doubles_at: fit.slope.recip() });
    }
    let peak = fit.log_peak.exp();
    let disturbed =
        used.iter().zip(&multiples).filter(|(window, m)| **m > DISTURBED.0 && window.level < DISTURBED.1 * peak);
    let disturbed = disturbed.count();
    if disturbed as f64 > DISTURBED_SHARE * n {
        let (windows, of) = (disturbed as u32, used.len() as u32);
        outcome.notes.push(PeakNote::Disturbed { windows, of, times: DISTURBED.0 });
    }
    if fit.mean_score.abs() > ASTRAY {
        outcome.notes.push(PeakNote::Astray);
    }
    if fit.half_width > WIDE {
        outcome.notes.push(PeakNote::Wide { half_width: fit.half_width });
    }
}

/// A way down from a load at which the QoS was kept to one at which it was kept again, all between broken.
struct Fall {
    kept: f64,
    recovered: f64,
}

/// The falls that were too long for steps that only search. Levels differ by `least`, if by anything: from one to the
/// next there is no shorter way, however much that is of a few users. A last one that is not over counts as far as it
/// went.
fn long_falls(windows: &[PeakWindow], least: f64) -> Vec<Fall> {
    let mut falls = Vec::new();
    let (mut kept, mut broken): (Option<f64>, usize) = (None, 0);
    let mut note = |kept: Option<f64>, broken: usize, recovered: f64| {
        let is_long = |kept: &f64| (kept / recovered).ln() > LONG.0 && kept - recovered > least && broken >= LONG.1;
        falls.extend(kept.filter(is_long).map(|kept| Fall { kept, recovered }));
    };
    for window in windows {
        if window.passed {
            note(kept, broken, window.level);
            (kept, broken) = (Some(window.level), 0);
        } else {
            broken += 1;
        }
    }
    if let Some(last) = windows.last() {
        note(kept, broken, last.level);
    }
    falls
}

/// Whether there was one fall as a memory makes them, but not enough of them to call it so.
pub(super) fn may_have_memory(windows: &[PeakWindow], least: f64) -> bool {
    (1..MEMORIES).contains(&long_falls(windows, least).len())
}

/// Where a system with a memory tips over and where it recovers, if it has one: mean levels over the long falls.
fn memory(windows: &[PeakWindow], least: f64) -> Option<(f64, f64)> {
    let falls = long_falls(windows, least);
    let mean = |level: fn(&Fall) -> f64| falls.iter().map(level).sum::<f64>() / falls.len() as f64;
    (falls.len() >= MEMORIES).then(|| (mean(|fall| fall.kept), mean(|fall| fall.recovered)))
}
