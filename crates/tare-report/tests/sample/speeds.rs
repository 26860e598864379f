//! The sample as of a machine that is faster in every other block.

use super::{SEED, header, study, trial};
use tare_core::plan::plan;
use tare_core::record::{End, FITTED, Record, TrialData};
use tare_core::study::Study;

/// Ten blocks on such a machine, of whose speed the container makes less, in a run that was to be more exact.
pub(crate) fn at_two_speeds() -> Record {
    let mut study = Study { repeat: 10, ..study() };
    study.design.half_width = Some(1e-6);
    let plan = plan(&study, &["vm".to_owned(), "vm+container".to_owned()], SEED);
    let mut trials: Vec<TrialData> = plan.iter().map(trial).collect();
    for trial in trials.iter_mut().filter(|trial| trial.record.trial.block % 2 == 0) {
        let gain = if trial.record.trial.form == "container" { 1.09 } else { 1.15 };
        trial.record.metrics.entry("throughput".to_owned()).and_modify(|throughput| *throughput *= gain);
    }
    let how = FITTED.to_owned();
    let end = Some(End { ended: "2026-03-05T10:31:44Z".into(), how, asked_by: None });
    Record { header: header(study, plan), trials, profiles: Vec::new(), end }
}
