//! What a list of records says of each: where it ran, and what its forms came to in its first metric.

use crate::html::looks;
use crate::{verdict::VerdictWords, words};
use serde::{Deserialize, Serialize};
use tare_core::record::Record;
use tare_stats::{Analysis, Verdict};

/// A record at a glance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Glance {
    /// The machine in words.
    pub machine: String,
    /// The title of the metric that the figures are of.
    pub metric: String,
    /// The forms beside the baseline, in the order of the study.
    pub forms: Vec<FormGlance>,
}

/// A form at a glance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FormGlance {
    /// Its name.
    pub form: String,
    /// The class of the page's style that sets its colour.
    pub class: String,
    /// Whether it is hatched: its figures are EMULATED.
    pub emulated: bool,
    /// Its ratio to the baseline, with its interval; empty if there is none.
    pub figure: String,
    /// The verdict, or why there is no figure.
    pub words: String,
    /// `better`, `worse` or nothing.
    pub sense: String,
}

/// What a list says of this record.
pub fn glance(record: &Record, analysis: &Analysis) -> Glance {
    let metric = words::compared(analysis).next();
    let forms = analysis.arms.iter().zip(looks(record, analysis)).filter(|(arm, _)| !arm.baseline && !arm.control);
    let forms = forms.map(|(arm, look)| {
        let ratio = metric.and_then(|metric| metric.ratios.iter().find(|ratio| ratio.arm == arm.name));
        let said = metric.zip(ratio).map(|(metric, ratio)| VerdictWords::of(analysis, metric, ratio).verdict());
        let why = || arm.reasons.first().map_or_else(|| "not measured".to_owned(), |reason| reason.why.message.clone());
        let sense = match ratio.map(|ratio| ratio.verdict) {
            Some(Verdict::Better) => "better",
            Some(Verdict::Worse) => "worse",
            _ => "",
        };
        FormGlance {
            form: arm.name.clone(),
            class: look.class(),
            emulated: analysis.emulated(arm),
            figure: ratio.map(|ratio| ratio.text()).unwrap_or_default(),
            words: said.unwrap_or_else(why),
            sense: sense.to_owned(),
        }
    });
    Glance {
        machine: words::machine(record),
        metric: metric.map(|metric| metric.title.clone()).unwrap_or_default(),
        forms: forms.collect(),
    }
}
