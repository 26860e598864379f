//! A weight that is known, weighed beside the forms: it is judged by nobody, and takes nothing from them.

use crate::records;

use tare_core::form::Form;
use tare_core::plan::plan;
use tare_core::record::{Record, TrialData, TrialRecord};
use tare_core::trial::Outcome;
use tare_stats::{Analysis, Ratio, Verdict, analyse};

/// Five blocks in which the box does as much as the baseline, give or take some 0.2 %, with a ruler of `weight` or
/// without one.
fn recorded(weight: Option<f64>) -> Record {
    let mut study = records::study(&["plain", "box"], 5);
    (study.ruler, study.design.margin) = (weight, Some(0.02));
    study.lay_ruler();
    let plan = plan(&study, &[], 1);
    let of = |form: &Form| 1e4 / (1.0 + form.weight.unwrap_or_default());
    let trials = plan.iter().map(|planned| {
        let form = study.forms.iter().find(|form| form.name == planned.form).unwrap();
        // The same of an arm and block, whoever else is there.
        let salt = planned.arm().bytes().fold(planned.block + 1, |salt, byte| salt.wrapping_mul(31) ^ u32::from(byte));
        let noise = f64::from(salt.wrapping_mul(2_654_435_761) >> 16) / 65_536.0 - 0.5;
        let mut record = TrialRecord::new(planned.clone(), String::new(), Outcome::Measured);
        record.metrics = [("throughput".to_owned(), of(form) * (0.004 * noise).exp())].into();
        TrialData { record, seconds: Vec::new(), telemetry: Vec::new() }
    });
    let trials = trials.collect();
    records::record(study, plan, trials)
}

fn ratio<'a>(analysis: &'a Analysis, arm: &str) -> &'a Ratio {
    analysis.metrics[0].ratios.iter().find(|ratio| ratio.arm == arm).unwrap()
}

#[test]
fn a_ruler_is_in_no_family_and_takes_no_share_of_any_level() {
    let (with, without) = (analyse(&recorded(Some(0.01))), analyse(&recorded(None)));
    let ruler = with.arms.iter().find(|arm| arm.name == "ruler").unwrap();
    assert_eq!((ruler.weight, ruler.measured, ruler.baseline, ruler.control), (Some(0.01), 5, false, false));
    assert!(with.forms().all(|arm| arm.name != "ruler"));
    // Interval, verdict, equivalence and all: a second form would make the first one's interval wider.
    assert_eq!(ratio(&with, "box"), ratio(&without, "box"));
    assert_eq!(ratio(&with, "plain (A/A)"), ratio(&without, "plain (A/A)"));
    assert_eq!(ratio(&with, "box").verdict, Verdict::Equivalent);
    // Its own interval is one by itself, as the floor's is.
    let (of_ruler, of_box) = (ratio(&with, "ruler"), ratio(&with, "box"));
    let quantile = |ratio: &Ratio| {
        let interval = ratio.interval.unwrap();
        0.5 * (interval.high / interval.low).ln() / ratio.standard_error.unwrap()
    };
    assert!((quantile(of_ruler) - 2.776_445).abs() < 1e-4 && (quantile(of_box) - 2.776_445).abs() < 1e-4);
    assert!(of_ruler.interval.unwrap().contains(1.0 / 1.01), "{of_ruler:?}");
}

#[test]
fn a_ruler_is_never_called_equivalent() {
    // A weight of 0.1 % is well within the margin of 2 %.
    let analysis = analyse(&recorded(Some(0.001)));
    let ruler = ratio(&analysis, "ruler");
    assert_eq!((ruler.equivalent, ruler.blocks_needed), (None, None));
    assert_ne!(ruler.verdict, Verdict::Equivalent);
    assert_eq!(ratio(&analysis, "box").equivalent, Some(true));
}
