//! The peak loads of a record, in absolute terms, for every format.

use crate::peak_notes;
use tare_core::peak::PeakOutcome;
use tare_core::record::Record;
use tare_stats::{Analysis, Arm, Interval};

/// What the searches of one arm found.
pub(crate) struct Peaks<'a> {
    /// The arm.
    pub(crate) arm: &'a Arm,
    /// Geometric mean of the searches, and its 95 % interval, which holds what differs between deployments and hours.
    pub(crate) peak: Option<f64>,
    pub(crate) interval: Option<Interval>,
    /// The searches behind `peak`, in their order: no void ones, and none of a block that was run again.
    pub(crate) counted: Vec<&'a PeakOutcome>,
    /// All searches that came to an end, in their order; also those without a peak.
    pub(crate) searches: Vec<&'a PeakOutcome>,
}

/// The peaks of every arm; empty for a study that searched for none.
pub(crate) fn peaks<'a>(record: &'a Record, analysis: &'a Analysis) -> Vec<Peaks<'a>> {
    if record.header.study.peak.is_none() {
        return Vec::new();
    }
    let estimates = analysis.metrics.first().map(|metric| metric.estimates.as_slice()).unwrap_or_default();
    let of_arm = |arm: &'a Arm| {
        let mut trials: Vec<_> = record.trials.iter().filter(|trial| trial.record.trial.arm() == arm.name).collect();
        trials.sort_by_key(|trial| trial.record.trial.index);
        let estimate = estimates.iter().find(|estimate| estimate.arm == arm.name);
        let counts = |index: u32| estimate.is_some_and(|e| e.values.iter().any(|value| value.trial == index));
        let counted = trials.iter().filter(|trial| counts(trial.record.trial.index));
        Peaks {
            arm,
            peak: estimate.map(|estimate| estimate.geometric_mean.unwrap_or(estimate.mean)),
            interval: estimate.and_then(|estimate| estimate.interval),
            counted: counted.filter_map(|trial| trial.record.peak.as_ref()).collect(),
            searches: trials.into_iter().filter_map(|trial| trial.record.peak.as_ref()).collect(),
        }
    };
    analysis.arms.iter().map(of_arm).collect()
}

impl Peaks<'_> {
    /// In a line: `1,278 users [1,262, 1,295] over 5 searches`, or how the searches ended.
    pub(crate) fn words(&self) -> String {
        let count = self.counted.len();
        let searches = if count == 1 { "1 search".to_owned() } else { format!("{count} searches") };
        let Some(peak) = self.peak else {
            let why = self.searches.first().map_or_else(|| "not searched".to_owned(), |search| search.describe());
            return format!("no peak: {why}");
        };
        let unit = self.counted.first().map_or("", |search| search.unit.as_str());
        let figure = tare_core::peak::level_text;
        match (self.interval, self.counted.first().and_then(|search| search.low.zip(search.high))) {
            (Some(Interval { low, high }), _) => {
                format!("{} {unit} [{}, {}] over {searches}", figure(peak), figure(low), figure(high))
            }
            (None, Some((low, high))) if count == 1 => format!(
                "{} {unit}; this one deployment [{}, {}], others may differ: 3 blocks make an interval",
                figure(peak),
                figure(low),
                figure(high)
            ),
            _ => format!("{} {unit} over {searches}, no interval", figure(peak)),
        }
    }

    /// What to know about the searches, each kind once: how many of them it applies to, and figures from the least to
    /// the greatest.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let all = self.searches.len();
        let of_all = |(count, words): (usize, String)| match all {
            1 => words,
            _ => format!("{count} of {all} searches: {words}"),
        };
        peak_notes::lines(&self.searches).into_iter().map(of_all).collect()
    }
}
