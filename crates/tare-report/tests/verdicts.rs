//! Verdicts in words: each from its data, in every format that says them.

use crate::sample;

use sample::record;
use serde_json::Value;
use tare_report::{FORMATS, Style};
use tare_stats::{Analysis, Interval, LeftCold, LeftStill, Verdict, Withheld, analyse};

const FORM: &str = "container";

/// What JSON says of the sample's form in the metric at `at`, whose ratio is made another one.
fn said(at: usize, change: impl FnOnce(&mut Analysis)) -> String {
    let (record, mut analysis) = (record(), analyse(&record()));
    change(&mut analysis);
    let json = FORMATS.iter().find(|row| row.name == "json").unwrap();
    let text = (json.render)(&record, &analysis, &Style::default()).unwrap();
    let read: Value = serde_json::from_str(&text).unwrap();
    let compared = analysis.metrics.iter().enumerate().filter(|(_, metric)| metric.compared);
    let at = compared.map(|(number, _)| number).nth(at).unwrap();
    let ratios = read["analysis"]["metrics"][at]["ratios"].as_array().unwrap();
    ratios.iter().find(|ratio| ratio["arm"] == FORM).unwrap()["words"].as_str().unwrap().to_owned()
}

/// The same of a throughput with this verdict.
fn with(verdict: Verdict, change: impl FnOnce(&mut Analysis)) -> String {
    said(0, |analysis| {
        let ratio = analysis.metrics[0].ratios.iter_mut().find(|ratio| ratio.arm == FORM).unwrap();
        (ratio.ratio, ratio.interval) = (0.98, Some(Interval { low: 0.976, high: 0.984 }));
        (ratio.verdict, ratio.equivalent, ratio.blocks_needed) = (verdict, Some(false), None);
        ratio.smallest_detectable = Some(0.018);
        analysis.metrics[0].noise_floor = Some(0.021);
        change(analysis);
    })
}

fn ratio(analysis: &mut Analysis) -> &mut tare_stats::Ratio {
    analysis.metrics[0].ratios.iter_mut().find(|ratio| ratio.arm == FORM).unwrap()
}

#[test]
fn every_verdict_has_its_words() {
    let plain = |verdict| with(verdict, |_| ());
    assert_eq!(plain(Verdict::Worse), "slower: 0.980 [0.976, 0.984]");
    assert_eq!(plain(Verdict::WithinNoise), "within the noise floor of 2.1 %");
    assert_eq!(plain(Verdict::NoDifference), "no difference detectable; smallest detectable 1.8 %");
    assert_eq!(plain(Verdict::Equivalent), "equivalent: within 1.0 % of the baseline");
    assert_eq!(plain(Verdict::NoNoiseFloor), "no verdict: the A/A control was not measured in 3 blocks");
    assert_eq!(plain(Verdict::Emulated), "EMULATED: not a claim about the real thing");
    let one = with(Verdict::TooFewBlocks, |analysis| ratio(analysis).blocks.truncate(1));
    assert_eq!(one, "no verdict: 1 block measured, 3 needed");
    let withheld = with(Verdict::Withheld, |analysis| ratio(analysis).withheld = Some(Withheld::ControlDiffers));
    assert_eq!(withheld, "verdict withheld: the A/A control differs");
    let more = with(Verdict::NoDifference, |analysis| ratio(analysis).blocks_needed = Some(20));
    assert!(more.ends_with("1.8 %; about 20 blocks for an interval of +-1.0 %"), "{more}");
    let equals = with(Verdict::NoDifference, |analysis| ratio(analysis).equals_beyond_margin = true);
    assert!(equals.ends_with("; identical forms may differ by more than the margin of 1.0 %"), "{equals}");
    let cold = |share| {
        let cold = LeftCold { share, decides: true };
        with(Verdict::NoDifference, |analysis| ratio(analysis).cold = Some(cold))
    };
    let (some, unknown) = (cold(Some(0.02)), cold(None));
    assert!(some.ends_with("; short slices may hide a difference beyond the margin of 1.0 %"), "{some}");
    assert!(unknown.ends_with("; how much short slices hide is not known"), "{unknown}");
    let still = |decides| {
        let still = LeftStill { share: 0.034, decides };
        with(Verdict::NoDifference, |analysis| ratio(analysis).still = Some(still))
    };
    let (decides, decides_not) = (still(true), still(false));
    assert!(decides.ends_with("; without stalls it might be beyond the margin of 1.0 %"), "{decides}");
    assert!(decides_not.ends_with("; smallest detectable 1.8 %"), "{decides_not}");
    let unlike = said(1, |_| ());
    assert!(unlike.starts_with("longer: ") || unlike.starts_with("no difference"), "{unlike}");
}

#[test]
fn what_is_real_and_negligible_is_said_to_be_both_in_every_format() {
    let (record, mut analysis) = (record(), analyse(&record()));
    (ratio(&mut analysis).verdict, ratio(&mut analysis).equivalent) = (Verdict::Worse, Some(true));
    for name in ["terminal", "html", "json"] {
        let format = FORMATS.iter().find(|row| row.name == name).unwrap();
        let text = (format.render)(&record, &analysis, &Style::default()).unwrap();
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(", within the margin of 1.0 %"), "{name}");
    }
}
