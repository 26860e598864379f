//! The sample as of a load by turns whose samplers rested for a while.

use super::record;
use tare_core::load::{TurnSpan, TurnUse, TurnsSummary};
use tare_core::record::{Record, TrialData};
use tare_core::telemetry::{PROBE, RESTED, RestHalf, TelemetryRow, Vantage};

/// Every trial that was loaded took turns, and did 2 % more while its sampler rested.
pub(crate) fn rested() -> Record {
    let mut record = record();
    record.trials.iter_mut().filter(|trial| trial.record.load.is_some()).for_each(rest);
    record
}

/// Has a trial take turns for ten seconds, in which its sampler rests from the third to the fifth or, in every other
/// block, from the fifth to the seventh, and answers come faster then.
fn rest(trial: &mut TrialData) {
    const SECOND: u64 = 1_000_000_000;
    let is_first = trial.record.trial.block.is_multiple_of(2);
    trial.record.rest_half = Some(if is_first { RestHalf::First } else { RestHalf::Second });
    let rests_s = if is_first { 3..5 } else { 5..7 };
    let load = trial.record.load.as_mut().expect("it was loaded");
    let start_ns = load.measure_start_ns;
    load.measure_end_ns = start_ns + 10 * SECOND;
    load.turns = Some(TurnsSummary { turns: 40, active_ns: 4 * SECOND, ..TurnsSummary::default() });
    let span = |at: u64| {
        let from_ns = start_ns + at * SECOND / 4;
        // No two trials are quite the same.
        let rests = if rests_s.contains(&(at / 4)) { 1.02 } else { 1.0 + 1e-5 * f64::from(trial.record.trial.index) };
        let answers = (1e6 * rests) as u64;
        let used = TurnUse { cpu_ns: SECOND / 20, during_ns: SECOND / 10 };
        TurnSpan { from_ns, to_ns: from_ns + SECOND / 5, answers, active_ns: SECOND / 10, used }
    };
    load.spans = (0..40).map(span).collect();
    trial.telemetry.retain(|row| row.scope != PROBE);
    let row = |at_ns: u64, values: &[(&str, f64)]| TelemetryRow {
        at_ns,
        vantage: Vantage::Host,
        scope: PROBE.into(),
        serving: false,
        values: values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect(),
    };
    let (from_ns, to_ns) = (start_ns + rests_s.start * SECOND, start_ns + rests_s.end * SECOND);
    trial.telemetry.extend([row(from_ns, &[]), row(to_ns, &[(RESTED, 2.0)])]);
}
