//! Whether what a staircase saw looks like a peak at all: systems with memory, cliffs, slopes, bad neighbours.

use super::estimate::Fit;
use super::window::worst_multiple;
use tare_core::peak::{PeakEnding, PeakOutcome, PeakPhase, PeakWindow};

/// Falls from where the QoS broke to where it was kept again, log scale, from which on a system has a memory: more than
/// two of the staircase's longest steps.
const MEMORY: f64 = 0.1;
/// So many such falls, and this share of all falls, show that it is no accident; so does a single fall this deep.
const MEMORIES: (usize, f64, f64) = (2, 0.5, 0.2);
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

/// Judges the shape of what was found, and says so in `outcome`. Levels differ by `least`, if by anything.
pub(super) fn judge(outcome: &mut PeakOutcome, used: &[PeakWindow], fit: &Fit, least: f64) {
    if let Some((tips, recovers)) = memory(&outcome.windows, least) {
        outcome.ending = PeakEnding::Hysteresis { tips, recovers };
        (outcome.peak, outcome.low, outcome.high) = (Some(recovers), None, None);
        outcome.warnings.push(
            "it has a memory: coming from below it keeps the QoS up to a load at which, once broken, it does not \
             recover; the peak given is the one from which it recovers"
                .to_owned(),
        );
        return;
    }
    let multiples: Vec<f64> = used.iter().map(|window| worst_multiple(&window.counts, &outcome.criteria)).collect();
    let n = used.len() as f64;
    let between = multiples.iter().filter(|multiple| (CLIFF.0..CLIFF.1).contains(*multiple)).count() as f64;
    let over = multiples.iter().filter(|multiple| **multiple >= CLIFF.1).count();
    if between / n < 0.1 && over >= 3 {
        outcome
            .warnings
            .push("a cliff: windows either kept the QoS with ease or lost it altogether; the peak is its edge".into());
    }
    if fit.slope < GENTLE {
        let percent = 100.0 / fit.slope;
        outcome.warnings.push(format!(
            "a gentle slope: {percent:.0} % more load only doubles the share over the limit; the peak hangs \
             on the limit that was chosen"
        ));
    }
    let peak = fit.log_peak.exp();
    let disturbed =
        used.iter().zip(&multiples).filter(|(window, m)| **m > DISTURBED.0 && window.level < DISTURBED.1 * peak);
    let disturbed = disturbed.count();
    if disturbed as f64 > DISTURBED_SHARE * n {
        outcome.warnings.push(format!(
            "disturbed: {disturbed} of {n} windows below the peak had more than {:.0} times the allowed share over \
             the limit; something else used the machine, or the service pauses",
            DISTURBED.0
        ));
    }
    if fit.mean_score.abs() > ASTRAY {
        outcome
            .warnings
            .push("the staircase never came to stand around one load; believe the windows, not the peak".into());
    }
    if fit.half_width > WIDE {
        outcome.warnings.push(format!(
            "the interval is wide, {:.0} % to either side: more windows, or a quieter machine",
            100.0 * fit.half_width
        ));
    }
}

/// Where a system with a memory tips over and where it recovers, if it has one: mean levels of the first window that
/// broke and of the first that was kept again, over the falls that were too long for steps that only search. From one
/// level to the next there is no shorter way, however much that is of a few users.
fn memory(windows: &[PeakWindow], least: f64) -> Option<(f64, f64)> {
    let stairs = windows.iter().filter(|window| window.phase == PeakPhase::Staircase);
    let (mut falls, mut broke): (Vec<(f64, f64)>, Option<f64>) = (Vec::new(), None);
    for window in stairs {
        match (window.passed, broke) {
            (false, None) => broke = Some(window.level),
            (true, Some(tipped)) => {
                falls.push((tipped, window.level));
                broke = None;
            }
            _ => {}
        }
    }
    let is_long = |fall: &&(f64, f64)| (fall.0 / fall.1).ln() > MEMORY && fall.0 - fall.1 > least;
    let long: Vec<&(f64, f64)> = falls.iter().filter(is_long).collect();
    let deep = long.iter().any(|(tipped, kept)| (tipped / kept).ln() > MEMORIES.2);
    if (long.len() < MEMORIES.0 && !deep) || (long.len() as f64) < MEMORIES.1 * falls.len() as f64 {
        return None;
    }
    let n = long.len() as f64;
    Some((long.iter().map(|fall| fall.0).sum::<f64>() / n, long.iter().map(|fall| fall.1).sum::<f64>() / n))
}
