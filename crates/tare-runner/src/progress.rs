//! What later trials use from earlier ones.

use crate::again::Outcomes;
use crate::chop::Slice;
use crate::pace::{Timed, once_s};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tare_core::host::SeenFile;
use tare_core::load::TurnLength;
use tare_core::plan::PlannedTrial;
use tare_core::record::TrialRecord;
use tare_core::study::Study;
use tare_core::trial::Outcome;
use tare_stats::Warmth;

/// What is known from the trials so far.
#[derive(Default)]
pub(crate) struct Progress {
    /// How long trials took.
    pub(crate) timed: Timed,
    /// Forms whose resources were read.
    pub(crate) probed: BTreeSet<String>,
    /// Forms with a measured trial: in the first of these the files that services see are compared with their bundles.
    pub(crate) files_compared: BTreeSet<String>,
    /// The peak that the last search of each arm found. The control has its own: if baseline and control each started
    /// from the other's result, their difference would no longer be that of two independent searches.
    pub(crate) peaks: BTreeMap<String, f64>,
    /// The form of the first measured trial in which it was seen, and what every instance had mapped in it.
    pub(crate) bits: Option<(String, BTreeMap<String, Vec<SeenFile>>)>,
    /// How the trials ended.
    pub(crate) outcomes: Outcomes,
    /// For each block that runs another one again: that other block.
    pub(crate) again: BTreeMap<u32, u32>,
    /// For each measured trial of the first block: the time until it was steady, s, if it was.
    pub(crate) steady_after_s: Vec<Option<f64>>,
    /// By form: the share of a CPU that its services used while waiting, for each trial in which that was measured.
    resting_cpu: BTreeMap<String, Vec<f64>>,
    /// For each block in which turns of several lengths were compared: the arms and their rates.
    compared: BTreeMap<u32, Vec<(String, Vec<TurnLength>)>>,
}

impl Progress {
    pub(crate) fn from(study: &Study, done: &[TrialRecord]) -> Progress {
        let mut progress = Progress::default();
        for record in done {
            let took = Duration::from_secs_f64(record.stages.values().sum::<f64>().max(0.0));
            progress.note(study, record, took);
        }
        progress
    }

    /// How long trials settle after the first block, if they settle until they are steady: the longest time of its
    /// trials, or all the allowed time if one was not steady by then. None while nothing is known.
    pub(crate) fn settle_for(&self, within: Option<Duration>) -> Option<Duration> {
        let within = within?;
        let longest =
            |after_s: &Option<f64>| after_s.map_or(within, |after_s| Duration::from_secs_f64(after_s.max(0.0)));
        self.steady_after_s.iter().map(longest).max()
    }

    /// The share of a CPU that a form's services use while others are loaded, if earlier trials have measured it.
    pub(crate) fn resting_cpu(&self, form: &str) -> Option<f64> {
        let seen = self.resting_cpu.get(form)?;
        Some(seen.iter().sum::<f64>() / seen.len() as f64)
    }

    /// How long the slices of a chopped block are: as found in the first block with one of its forms, which had the
    /// same forms beside it. The `baseline` is in all blocks.
    pub(crate) fn slice_of(&self, block: &[&PlannedTrial], baseline: &str) -> Slice {
        let others = || block.iter().filter(|trial| trial.control || trial.form != baseline);
        let has = |arms: &[(String, Vec<TurnLength>)]| others().any(|trial| arms.iter().any(|of| of.0 == trial.arm()));
        let found = self.compared.values().find(|arms| has(arms));
        found.map_or(Slice::Unknown, |arms| {
            let lengths: Vec<&[TurnLength]> = arms.iter().map(|of| of.1.as_slice()).collect();
            Slice::AtLeast(Warmth::of(&lengths).map_or(Duration::ZERO, |found| found.slice()))
        })
    }

    pub(crate) fn note(&mut self, study: &Study, record: &TrialRecord, took: Duration) {
        // A void trial has settled too, and its form will be run again. If the time is unknown, only a measured trial
        // shows that the allowed time was not enough.
        let settled = record.outcome == Outcome::Measured || record.steady_after_s.is_some();
        if record.trial.block == 0 && settled {
            self.steady_after_s.push(record.steady_after_s);
        }
        if !record.lengths.is_empty() {
            let of_arm = (record.trial.arm(), record.lengths.clone());
            self.compared.entry(record.trial.block).or_default().push(of_arm);
        }
        if let Some(share) = record.resting_cpu {
            self.resting_cpu.entry(record.trial.form.clone()).or_default().push(share);
        }
        self.outcomes.note(record);
        if let Some(of) = record.trial.again {
            self.again.insert(record.trial.block, of);
        }
        if !matches!(record.outcome, Outcome::Skipped { .. }) {
            let once = Duration::from_secs_f64(once_s(study, record));
            self.timed.note(&record.trial.form, record.trial.block, took.saturating_sub(once));
        }
        if let Some(peak) = record.peak.as_ref().and_then(|outcome| outcome.peak) {
            self.peaks.insert(record.trial.arm(), peak);
        }
        if !record.resources.is_empty() {
            self.probed.insert(record.trial.form.clone());
        }
        if record.outcome == Outcome::Measured {
            self.files_compared.insert(record.trial.form.clone());
        }
        let is_seen = record.mapped.values().any(|files| !files.is_empty());
        if record.outcome == Outcome::Measured && self.bits.is_none() && is_seen {
            self.bits = Some((record.trial.form.clone(), record.mapped.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_core::fault::Fault;
    use tare_core::load::LoadProfile;
    use tare_core::peak::{PeakEnding, PeakOutcome, PeakRules};
    use tare_core::plan::PlannedTrial;

    fn study() -> Study {
        Study::of("s", "w", LoadProfile::Closed { connections: 1, pipeline: 1 }, Vec::new())
    }

    #[test]
    fn all_forms_settle_for_as_long_as_the_slowest_did_in_the_first_block() {
        let (mut progress, study) = (Progress::default(), study());
        let within = Some(Duration::from_secs(60));
        assert_eq!(progress.settle_for(within), None, "nothing is known yet");
        let mut note = |block: u32, outcome: Outcome, after_s: Option<f64>| {
            let (form, control, again) = ("plain".into(), false, None);
            let trial = PlannedTrial { index: 0, block, form, control, again, profiled: false };
            let mut record = TrialRecord::new(trial, String::new(), outcome);
            record.steady_after_s = after_s;
            progress.note(&study, &record, Duration::ZERO);
            progress.settle_for(within).map(|settle| settle.as_secs())
        };
        assert_eq!(note(0, Outcome::Invalid { why: Fault::new("void") }, None), None);
        assert_eq!(note(0, Outcome::Measured, Some(18.0)), Some(18));
        assert_eq!(note(0, Outcome::Invalid { why: Fault::new("void") }, Some(27.0)), Some(27), "it settled, too");
        assert_eq!(note(0, Outcome::Measured, Some(42.0)), Some(42));
        assert_eq!(note(1, Outcome::Measured, Some(50.0)), Some(42), "later blocks settle for a time that is known");
        assert_eq!(note(0, Outcome::Measured, None), Some(60));
        assert_eq!(progress.settle_for(None), None);
    }

    #[test]
    fn a_search_begins_near_the_last_peak_of_its_own_arm() {
        let (mut progress, study) = (Progress::default(), study());
        for (control, peak) in [(false, 900.0), (true, 950.0)] {
            let trial =
                PlannedTrial { index: 0, block: 0, form: "plain".into(), control, again: None, profiled: false };
            let mut record = TrialRecord::new(trial, String::new(), Outcome::Measured);
            record.peak = Some(PeakOutcome {
                ending: PeakEnding::Found,
                rules: PeakRules::Staircase,
                unit: "op/s".into(),
                criteria: Vec::new(),
                peak: Some(peak),
                low: None,
                high: None,
                slope: None,
                binding: None,
                curve: Vec::new(),
                load_s: 1.0,
                notes: Vec::new(),
                warnings: Vec::new(),
                windows: Vec::new(),
            });
            progress.note(&study, &record, Duration::ZERO);
        }
        let known = |arm: &str| progress.peaks.get(arm).copied();
        assert_eq!((known("plain"), known("plain (A/A)")), (Some(900.0), Some(950.0)));
    }
}
