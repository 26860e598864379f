//! Services that fail: what is said of those who were served, and of those who were not.

use crate::records;

use tare_core::fault::Fault;
use tare_core::plan::plan;
use tare_core::record::{Record, TrialData, TrialRecord};
use tare_core::trial::{Outcome, Stage};
use tare_stats::{Analysis, FailedShare, Ratio, Side, Verdict, analyse};

/// Five blocks in which nothing differs by more than some 0.1 %, but for what `fails` does to a trial's record.
fn analysed(fails: impl Fn(&mut TrialRecord)) -> Analysis {
    analyse(&recorded(fails))
}

fn recorded(fails: impl Fn(&mut TrialRecord)) -> Record {
    let study = records::study(&["plain", "box"], 5);
    let plan = plan(&study, &[], 1);
    let trials = plan.iter().map(|planned| {
        let mut record = TrialRecord::new(planned.clone(), String::new(), Outcome::Measured);
        let noise = 1.0 + 1e-3 * f64::from(planned.index * 7 % 5);
        let figures = [("throughput", 1e4 * noise), ("p50_us", 100.0 * noise), ("p99_us", 400.0 * noise)];
        record.metrics = figures.map(|(name, value)| (name.to_owned(), value)).into();
        record.metrics.insert("failed_share".into(), 0.0);
        fails(&mut record);
        TrialData { record, seconds: Vec::new(), telemetry: Vec::new() }
    });
    let trials = trials.collect();
    records::record(study, plan, trials)
}

fn is_box(record: &TrialRecord, block: u32) -> bool {
    record.trial.form == "box" && record.trial.block == block
}

fn ratio<'a>(analysis: &'a Analysis, metric: &str, arm: &str) -> &'a Ratio {
    let metric = analysis.metrics.iter().find(|candidate| candidate.name == metric).unwrap();
    metric.ratios.iter().find(|ratio| ratio.arm == arm).unwrap()
}

fn side(analysis: &Analysis, metric: &str) -> Option<Side> {
    ratio(analysis, metric, "box").bound.map(|bound| bound.side)
}

/// A quantile that is one that failed, and is at least as long as this.
fn is_one_that_failed(record: &mut TrialRecord, us: f64) {
    record.metrics.remove("p99_us");
    record.at_least.insert("p99_us".into(), us);
    record.metrics.insert("failed_share".into(), 0.03);
}

#[test]
fn without_failures_nothing_is_a_bound() {
    let analysis = analysed(|_| {});
    assert!(analysis.failed.is_empty());
    assert_eq!(ratio(&analysis, "p99_us", "box").verdict, Verdict::Equivalent);
    assert_eq!(side(&analysis, "p99_us"), None);
}

#[test]
fn survivors_are_not_called_as_fast_as_the_others() {
    let analysis = analysed(|record| {
        if is_box(record, 1) || is_box(record, 3) {
            is_one_that_failed(record, 400.0);
        }
    });
    let p99 = ratio(&analysis, "p99_us", "box");
    assert_eq!(p99.blocks, [0, 1, 2, 3, 4], "no block is left out for it");
    assert_eq!((side(&analysis, "p99_us"), p99.verdict), (Some(Side::AtLeast), Verdict::Withheld), "{}", p99.text());
    assert!(p99.equivalent != Some(true) && p99.text().starts_with(">=0.999"), "{}", p99.text());
    assert_eq!(side(&analysis, "p50_us"), None);
    let estimates = &analysis.metrics.iter().find(|metric| metric.name == "p99_us").unwrap().estimates;
    assert_eq!(estimates.iter().map(|estimate| estimate.at_least.len()).collect::<Vec<_>>(), [0, 0, 2]);
}

#[test]
fn what_is_worse_at_least_is_worse() {
    let all = |record: &mut TrialRecord| {
        if record.trial.form == "box" {
            is_one_that_failed(record, 600.0 + 0.1 * f64::from(record.trial.block));
        }
    };
    let analysis = analysed(all);
    let p99 = ratio(&analysis, "p99_us", "box");
    assert_eq!(p99.verdict, Verdict::Worse);
    assert!(p99.text().starts_with(">=1."), "{}", p99.text());
    // Nor is a form better because the baseline fails: that would be at least as certain, were it so.
    let other = analysed(|record| {
        if record.trial.form == "plain" {
            is_one_that_failed(record, 300.0);
        }
    });
    let p99 = ratio(&other, "p99_us", "box");
    assert_eq!((side(&other, "p99_us"), p99.verdict), (Some(Side::AtMost), Verdict::Withheld), "{}", p99.text());
}

#[test]
fn a_service_that_ended_under_load_is_no_equal_of_one_that_did_not() {
    let analysis = analysed(|record| {
        if is_box(record, 2) {
            record.outcome = Outcome::Failed { stage: Stage::Measure, why: Fault::new("redis ended under load") };
            record.service_ended = Some("redis".into());
            record.metrics.clear();
        }
    });
    let throughput = ratio(&analysis, "throughput", "box");
    assert_eq!((side(&analysis, "throughput"), throughput.verdict), (Some(Side::AtMost), Verdict::Withheld));
    assert_eq!(side(&analysis, "p99_us"), Some(Side::AtLeast));
    let row = analysis.failed.iter().find(|row| row.arm == "box").unwrap();
    assert_eq!(row.ended.len(), 1);
    let arm = analysis.arms.iter().find(|arm| arm.name == "box").unwrap();
    assert_eq!((arm.failed, arm.void_p), (1, None));
}

#[test]
fn a_service_that_ended_before_it_was_ready_is_told_and_makes_a_bound() {
    let analysis = analysed(|record| {
        if is_box(record, 2) {
            let why = Fault::new("service redis ended before it was ready");
            record.outcome = Outcome::Failed { stage: Stage::Deploy, why };
            record.service_ended = Some("redis".into());
            record.metrics.clear();
        }
    });
    assert_eq!(side(&analysis, "throughput"), Some(Side::AtMost));
    assert_eq!((analysis.failed.len(), analysis.blocks_replaced.len()), (3, 0));
    let row = analysis.failed.iter().find(|row| row.arm == "box").unwrap();
    assert_eq!((row.ended.len(), row.share), (1, 0.0), "of those that were served nothing failed");
}

#[test]
fn a_block_that_is_run_again_for_another_s_sake_takes_no_failure_with_it() {
    let mut record = recorded(|record| {
        if record.trial.block == 2 {
            let why = Fault::new("service redis ended under load");
            record.outcome = match record.trial.arm().as_str() {
                "box" => Outcome::Failed { stage: Stage::Measure, why },
                "plain" => Outcome::Invalid { why: Fault::new("the generator was the limit") },
                _ => Outcome::Measured,
            };
            record.service_ended = (record.trial.form == "box").then(|| "redis".into());
        }
    });
    let again: Vec<TrialData> = record.trials.iter().filter(|trial| trial.record.trial.block == 3).cloned().collect();
    for mut trial in again {
        let planned = &mut trial.record.trial;
        (planned.block, planned.index, planned.again) = (5, planned.index + 100, Some(2));
        record.trials.push(trial);
    }
    let analysis = analyse(&record);
    assert_eq!(analysis.blocks_replaced, [2]);
    assert_eq!(side(&analysis, "throughput"), Some(Side::AtMost));
    assert_eq!(analysis.failed.iter().find(|row| row.arm == "box").unwrap().ended.len(), 1);
}

#[test]
fn a_trial_of_which_nothing_succeeded_is_not_left_out_in_silence() {
    let analysis = analysed(|record| {
        if is_box(record, 4) {
            record.metrics = [("throughput".to_owned(), 0.0), ("failed_share".to_owned(), 1.0)].into();
        }
    });
    assert_eq!(side(&analysis, "throughput"), Some(Side::AtMost));
    assert_eq!(ratio(&analysis, "throughput", "box").verdict, Verdict::Withheld);
    let of_box = &analysis.metrics[0].estimates.iter().find(|estimate| estimate.arm == "box").unwrap();
    assert!((of_box.mean / 8_000.0 - 1.0).abs() < 0.01, "{}", of_box.mean);
}

#[test]
fn failed_shares_are_held_against_each_other_by_their_difference() {
    let analysis = analysed(|record| {
        if record.trial.form == "box" {
            record.metrics.insert("failed_share".into(), 0.02 + 1e-3 * f64::from(record.trial.block));
        }
    });
    let row = |arm: &str| -> &FailedShare { analysis.failed.iter().find(|row| row.arm == arm).unwrap() };
    let (plain, boxed) = (row("plain"), row("box"));
    assert_eq!((plain.share, plain.interval, plain.more), (0.0, None, None));
    assert!((boxed.share - 0.022).abs() < 1e-12, "{boxed:?}");
    // By hand: standard deviation 0.00158114, 2.7764 / sqrt 5 of it either way.
    let (interval, more) = (boxed.interval.unwrap(), boxed.more.unwrap());
    assert!((interval.low - 0.020_036_8).abs() < 1e-6 && (interval.high - 0.023_963_2).abs() < 1e-6, "{interval:?}");
    assert!((more.difference - 0.022).abs() < 1e-12 && more.is_certain(), "{more:?}");
    let control = row("plain (A/A)").more.unwrap();
    assert!(control.difference == 0.0 && !control.is_certain(), "{control:?}");
}

#[test]
fn shares_without_a_spread_are_not_certain_to_the_last_digit() {
    let fails = |share: f64, blocks: u32| {
        move |record: &mut TrialRecord| {
            if record.trial.form == "box" && record.trial.block < blocks {
                record.metrics.insert("failed_share".into(), share);
            }
        }
    };
    let of_box = |analysis: Analysis| analysis.failed.into_iter().find(|row| row.arm == "box").unwrap();
    // Five trials of which nothing was answered: by hand 5 / (5 + 1.96^2), and 1 less the root of twice the square.
    let wholly = of_box(analysed(fails(1.0, 5)));
    let (interval, more) = (wholly.interval.unwrap(), wholly.more.unwrap());
    assert!((interval.low - 0.565_518).abs() < 1e-5 && interval.high > 1.0 - 1e-9, "{interval:?}");
    let of_more = more.interval.unwrap();
    assert!((of_more.low - 0.385_549).abs() < 1e-5 && of_more.high > 1.0 - 1e-9, "{of_more:?}");
    assert!(more.is_certain(), "{more:?}");
    // A twentieth in each says little of what a sixth one would do.
    let alike = of_box(analysed(fails(0.05, 5)));
    let (interval, more) = (alike.interval.unwrap(), alike.more.unwrap());
    assert!(interval.low > 0.0 && interval.low < 0.01 && interval.high > 0.4, "{interval:?}");
    assert!(!more.is_certain(), "{more:?}");
    // Where one is spared there is a spread again.
    let spread = of_box(analysed(fails(1.0, 4))).interval.unwrap();
    assert!((spread.low - 0.244_7).abs() < 1e-3 && spread.high == 1.0, "{spread:?}");
}
