//! What is said of several records: comparisons, gates and series, as golden files from the fixed sample record.

use crate::sample;

use sample::record;
use serde_json::{Value, json};
use tare_core::fault::Fault;
use tare_core::load::{LoadProfile, TurnsSummary, WindowCounts, WindowRow};
use tare_core::plan::PlannedTrial;
use tare_core::record::Record;
use tare_core::trial::Outcome;
use tare_report::{
    Gate, Several, USUAL_WIDTH, Weighed, compare_json, comparison, scaling_text, series_json, series_summary,
    series_text, several, several_json,
};
use tare_stats::{
    Bounds, Caution, Equals, GateOutcome, Interval, Occasion, Occasions, Series, SeriesPoint, analyse, conditions,
    gate, scaling_of_records, scaling_of_steps,
};

/// The sample with another kernel, and a form whose throughput is `factor` times what it was.
fn later(factor: f64) -> Record {
    let mut record = record();
    record.header.run = "m2x8rt".into();
    record.header.started = "2026-03-06T09:00:00Z".into();
    record.header.environment.insert("kernel".into(), "6.12.9-amd64".into());
    for trial in record.trials.iter_mut().filter(|trial| trial.record.trial.form == "container-hostnet") {
        if let Some(throughput) = trial.record.metrics.get_mut("throughput") {
            *throughput *= factor;
        }
    }
    record
}

/// Two records side by side in 80 columns.
fn compare(before: &Record, after: &Record) -> String {
    fitting(tare_report::compare(before, after, &Occasions::new(), USUAL_WIDTH))
}

/// What no terminal has to break.
fn fitting(text: String) -> String {
    let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > USUAL_WIDTH).collect();
    assert!(wide.is_empty(), "wider than {USUAL_WIDTH} columns: {wide:#?}");
    text
}

const BOUNDS: Bounds = Bounds { max_overhead: Some(0.05), max_regression: Some(0.03) };

/// Hands a gate over all forms of `new` to `show`.
fn with_gate<T>(new: &Record, inconclusive_as: Option<GateOutcome>, show: impl FnOnce(&Gate) -> T) -> T {
    with_gate_and(&Occasions::new(), new, inconclusive_as, show)
}

/// The same with what is known of occasions.
fn with_gate_and<T>(
    occasions: &Occasions,
    new: &Record,
    inconclusive_as: Option<GateOutcome>,
    show: impl FnOnce(&Gate) -> T,
) -> T {
    let old = record();
    let forms: Vec<String> = ["container", "container-hostnet", "vm"].map(String::from).into();
    let (now, before) = (analyse(new), analyse(&old));
    let checks = gate(&now, Some((&before, occasions)), &forms, &["throughput".into()], &BOUNDS);
    show(&Gate { record: new, baseline: Some(&old), bounds: &BOUNDS, checks: &checks, inconclusive_as })
}

#[test]
fn a_gate_as_text_as_json_and_as_junit() {
    let new = later(0.97);
    insta::assert_snapshot!("gate_text", with_gate(&new, None, |gate| fitting(gate.text(USUAL_WIDTH))));
    insta::assert_snapshot!("gate_json", with_gate(&new, None, |gate| gate.json().unwrap()));
    insta::assert_snapshot!("gate_junit", with_gate(&new, None, |gate| gate.junit()));
}

#[test]
fn a_gate_says_what_it_knows_of_occasions_and_that_it_knows_nothing() {
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let new = later(0.97);
    let (unknown, json, junit) =
        with_gate(&new, None, |gate| (fitting(gate.text(USUAL_WIDTH)), gate.json().unwrap(), gate.junit()));
    let nothing = "variation from run to run is not known for throughput";
    assert_eq!(flat(&unknown).matches(nothing).count(), 1, "{unknown}");
    assert!(flat(&unknown).contains("too narrow. Keep a history of at least 3 runs"), "{unknown}");
    assert!(junit.contains(nothing), "{junit}");
    let regression = |json: &str| -> Value {
        let read: Value = serde_json::from_str(json).unwrap();
        let checks = read["checks"].as_array().unwrap().clone();
        checks.into_iter().find(|check| check["bounded"] == "regression").unwrap()
    };
    assert_eq!(regression(&json)["learned"], json!({"kind": "nothing", "runs_needed": 3}));
    // Six that lie 0.5 % off, with an error of 0.4 %: what is left is 0.3 %.
    let equals = Equals { log: 0.005, standard_error: 0.004, degrees: 4.0 };
    let occasions = Occasions::from([("throughput".to_owned(), Occasion::learn(&[equals; 6]).unwrap())]);
    let (known, json) =
        with_gate_and(&occasions, &new, None, |gate| (fitting(gate.text(USUAL_WIDTH)), gate.json().unwrap()));
    assert!(!flat(&known).contains("is not known for"), "{known}");
    assert!(flat(&known).contains("history: 0.3 % (standard deviation), at most "), "{known}");
    assert!(flat(&known).contains("(6 runs)"), "{known}");
    let learned = &regression(&json)["learned"];
    assert_eq!((&learned["kind"], &learned["runs"]), (&json!("occasions"), &json!(6)), "{learned}");
    assert!(learned["deviation_at_most"].as_f64() > learned["deviation"].as_f64(), "{learned}");
}

#[test]
fn what_is_inconclusive_counts_as_it_was_said_to() {
    let with = |inconclusive_as| with_gate(&later(1.0), inconclusive_as, |gate| (gate.outcome(), gate.junit()));
    let (outcome, junit) = with(None);
    assert_eq!(outcome, GateOutcome::Fail, "the container is certainly beyond the bound");
    assert!(junit.contains("<error "), "{junit}");
    let (_, junit) = with(Some(GateOutcome::Pass));
    assert!(junit.contains("<skipped ") && !junit.contains("<error "), "{junit}");
    let (_, junit) = with(Some(GateOutcome::Fail));
    assert!(junit.matches("<failure ").count() > 2 && !junit.contains("<error "), "{junit}");
}

#[test]
fn a_gate_with_nothing_to_judge_says_the_same_everywhere() {
    let record = record();
    let said = |inconclusive_as| {
        let gate = Gate { record: &record, baseline: None, bounds: &BOUNDS, checks: &[], inconclusive_as };
        (gate.outcome(), gate.junit())
    };
    let (outcome, junit) = said(None);
    assert_eq!(outcome, GateOutcome::Inconclusive);
    assert!(junit.contains("tests=\"1\" failures=\"0\" errors=\"1\" skipped=\"0\""), "{junit}");
    assert!(junit.contains("<error message=\"no form to judge"), "{junit}");
    let (outcome, junit) = said(Some(GateOutcome::Fail));
    assert_eq!(outcome, GateOutcome::Fail);
    assert!(junit.contains("failures=\"1\" errors=\"0\"") && junit.contains("<failure message="), "{junit}");
    let (outcome, junit) = said(Some(GateOutcome::Pass));
    assert_eq!(outcome, GateOutcome::Pass);
    assert!(junit.contains("failures=\"0\" errors=\"0\" skipped=\"1\"") && junit.contains("<skipped"), "{junit}");
}

#[test]
fn a_change_against_an_unsound_machine_comes_with_a_warning() {
    let mut unsound = later(0.9);
    for trial in unsound.trials.iter_mut().filter(|trial| trial.record.trial.control) {
        trial.record.metrics.entry("throughput".into()).and_modify(|throughput| *throughput *= 1.4);
    }
    let text = compare(&record(), &unsound);
    let warnings: Vec<&str> = text.lines().filter(|line| line.contains("the A/A control differs")).collect();
    assert!(warnings.len() == 1 && warnings[0].starts_with("WARNING after:"), "{text}");
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("in throughput: identical forms lay up to"), "{text}");
    // Of neither form that was measured it is said that it changed, or that it did not.
    assert!(flat.contains("0.90 withheld: the A/A control differs (after)"), "{text}");
    assert_eq!(flat.matches("withheld: the A/A control differs (after)").count(), 2, "{text}");
    let read: Value = serde_json::from_str(&compare_json(&unsound, &record(), &Occasions::new()).unwrap()).unwrap();
    assert!(read["warnings"][0].as_str().unwrap().starts_with("before: the A/A control differs"), "{read}");
    assert!(!compare(&record(), &later(0.9)).contains("the A/A control differs"));
}

/// The sample three times over, as one record of 15 blocks.
fn longer(record: &Record) -> Record {
    let mut all = record.clone();
    for again in 1..3 {
        let moved = |planned: &PlannedTrial| PlannedTrial {
            index: planned.index + again * record.header.plan.len() as u32,
            block: planned.block + 5 * again,
            ..planned.clone()
        };
        all.header.plan.extend(record.header.plan.iter().map(moved));
        all.trials.extend(record.trials.iter().cloned().map(|mut trial| {
            trial.record.trial = moved(&trial.record.trial);
            trial
        }));
    }
    all.header.study.repeat = 15;
    all
}

#[test]
fn a_change_of_a_form_that_is_void_too_often_is_withheld() {
    let before = longer(&record());
    let after = longer(&later(0.9));
    let row = |text: &str| {
        let form = text.split("\ncontainer-hostnet\n").nth(1).unwrap();
        form.split("  p50 ").next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let sound = row(&compare(&before, &after));
    assert!(sound.ends_with("YES"), "{sound}");
    let mut void = after;
    for trial in void.trials.iter_mut().map(|trial| &mut trial.record) {
        if trial.trial.form == "container-hostnet" && [1, 2].contains(&(trial.trial.block % 5)) {
            trial.outcome = Outcome::Invalid { why: Fault::new("it ran elsewhere") };
            trial.metrics.clear();
        }
    }
    for (from, to, label) in [(&before, &void, "after"), (&void, &before, "before"), (&void, &void, "before and after")]
    {
        let withheld = row(&compare(from, to));
        let wanted = format!("withheld: its trials are void more often than the others' ({label})");
        assert!(withheld.ends_with(&wanted) && !withheld.contains("YES"), "{withheld}");
    }
}

#[test]
fn slices_of_other_lengths_are_told() {
    let in_turns = |slice_ms: u64| {
        let mut record = record();
        for load in record.trials.iter_mut().filter_map(|trial| trial.record.load.as_mut()) {
            load.turns = Some(TurnsSummary { turns: 100, slice_ns: slice_ms * 1_000_000, ..TurnsSummary::default() });
        }
        record
    };
    let flat = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = flat(compare(&in_turns(10), &in_turns(80)));
    assert!(text.contains("WARNING slices of native lasted 10 ms before and 80 ms after: what a form loses"), "{text}");
    for (before, after) in [(in_turns(10), in_turns(14)), (record(), in_turns(80))] {
        assert!(!flat(compare(&before, &after)).contains("slices of"));
    }
}

#[test]
fn what_is_gone_from_a_record_is_said_wherever_it_is_judged() {
    let mut cut = later(1.0);
    cut.trials.retain(|trial| trial.record.trial.index != 2);
    let text = compare(&record(), &cut);
    assert!(
        text.contains("WARNING after: the record is not whole: 1 trial") && !text.contains("before: the"),
        "{text}"
    );
    let read: Value = serde_json::from_str(&compare_json(&cut, &record(), &Occasions::new()).unwrap()).unwrap();
    assert!(read["warnings"][0].as_str().unwrap().starts_with("before: the record is not whole"), "{read}");
    assert!(!compare(&record(), &later(1.0)).contains("not whole"));
    with_gate(&cut, None, |gate| {
        let text = gate.text(USUAL_WIDTH);
        assert!(text.contains("WARNING the record is not whole"), "{text}");
        assert!(gate.json().unwrap().contains("not whole") && gate.junit().contains("<property name=\"warning\""));
    });
}

#[test]
fn a_form_that_was_emulated_in_either_run_has_not_changed() {
    let mut real = record();
    real.header.forms.get_mut("vm").unwrap().emulated = None;
    real.trials.iter_mut().for_each(|trial| trial.record.emulated = false);
    for text in [compare(&real, &record()), compare(&record(), &real)] {
        let form = text.split("\nvm\n").nth(1).unwrap();
        assert!(form.lines().next().unwrap().ends_with("EMULATED"), "{text}");
    }
}

#[test]
fn a_comparison_as_json() {
    let text = compare_json(&record(), &later(0.9), &Occasions::new()).unwrap();
    let read: Value = serde_json::from_str(&text).unwrap();
    let wanted = json!({
        "what": "environment kernel", "before": "6.1.0-28-amd64", "after": "6.12.9-amd64",
        "condition": "environment.kernel", "before_data": "6.1.0-28-amd64", "after_data": "6.12.9-amd64",
    });
    assert_eq!(read["differences"], json!([wanted]));
    let of = |form: &str, metric: &str| {
        let changes = read["changes"].as_array().unwrap();
        changes.iter().find(|change| change["form"] == form && change["metric"] == metric).unwrap().clone()
    };
    let change = of("container-hostnet", "throughput");
    assert!((change["change"].as_f64().unwrap() - 0.9).abs() < 1e-9);
    assert!(change["interval"]["high"].as_f64().unwrap() < change["together"]["high"].as_f64().unwrap());
    assert!(change["together"]["high"].as_f64().unwrap() < 1.0);
    assert!(of("vm", "throughput")["interval"].is_null(), "an emulated form makes no claim");
}

#[test]
fn several_runs_are_compared_with_the_first_and_hold_together() {
    let all = [record(), later(1.0), later(0.5)];
    let runs: Vec<Weighed> = all.iter().map(Weighed::of).collect();
    let nothing = [Occasions::new(), Occasions::new()];
    let found = several(&runs, &nothing);
    assert!(found.differences[0].what.starts_with("environment"), "{:?}", found.differences);
    let kernel = found.differences.iter().find(|row| row.what == "environment kernel").unwrap();
    assert!(kernel.values[0] != kernel.values[1] && kernel.values[1..] == ["6.12.9-amd64", "6.12.9-amd64"]);
    let row = found.rows.iter().find(|row| row.form == "container-hostnet" && row.metric == "throughput").unwrap();
    let changed: Vec<&str> = row.changes.iter().map(|change| change.as_ref().unwrap().changed.as_str()).collect();
    assert_eq!((changed, row.ratios.len()), (vec!["no", "YES"], 3));
    let judged = |of: &Several| of.notes[0].split_whitespace().nth(8).unwrap().parse::<u32>().unwrap();
    assert_eq!(judged(&found), 2 * judged(&several(&runs[..2], &nothing[..1])), "{:?}", found.notes);
    let table = found.markdown();
    assert!(
        table.contains("| form | metric | 1 | 2 | 2 / 1 | 3 | 3 / 1 |\n|---|---|---|---|---|---|---|\n"),
        "{table}"
    );
    assert!(table.contains("| differs | 1 | 2 | 3 |"), "{table}");
}

#[test]
fn several_runs_on_a_terminal_have_a_line_each() {
    let runs: Vec<Weighed> = [record(), later(1.0), later(0.5)].iter().map(Weighed::of).collect();
    let nothing = [Occasions::new(), Occasions::new()];
    let text = fitting(several(&runs, &nothing).text(USUAL_WIDTH));
    assert!(text.is_ascii(), "{text}");
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let wanted = "WARNING environment kernel differs: 6.1.0-28-amd64 | 6.12.9-amd64 | 6.12.9-amd64";
    assert!(flat.contains(wanted) && flat.contains("form, metric run ratio over run 1, changed?"), "{text}");
    let of_form = text.split("\ncontainer-hostnet\n").nth(1).unwrap();
    let lines: Vec<Vec<&str>> = of_form.lines().take(3).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0][..2], ["throughput", "1"], "{text}");
    assert_eq!((lines[1][0], lines[1].last()), ("2", Some(&"no")), "{text}");
    assert_eq!((lines[2][0], lines[2].last()), ("3", Some(&"YES")), "{text}");
    let read: Value = serde_json::from_str(&several_json(&runs, &nothing).unwrap()).unwrap();
    let lengths = ["runs", "rows_data", "occasions"].map(|key| read[key].as_array().unwrap().len());
    assert_eq!(lengths, [3, 2, 2]);
    let row = read["rows"].as_array().unwrap().iter().find(|row| row["form"] == "container-hostnet").unwrap();
    assert_eq!(row["changes"][1]["changed"], "YES");
    let data = read["rows_data"][1].as_array().unwrap().iter().find(|change| change["form"] == "container-hostnet");
    assert!((data.unwrap()["change"].as_f64().unwrap() - 0.5).abs() < 1e-9);
}

#[test]
fn two_runs_are_before_and_after_on_a_page() {
    let found = comparison(&record(), &later(0.5), &Occasions::new());
    assert_eq!(found.labels, ["before", "after"]);
    let row = found.rows.iter().find(|row| row.form == "container-hostnet" && row.metric == "throughput").unwrap();
    assert_eq!((row.ratios.len(), row.changes.len()), (2, 1));
    assert!(row.changes[0].as_ref().unwrap().certain);
    assert!(found.explained.iter().flatten().any(|line| line.contains("container-hostnet was slower")));
    let table = found.markdown();
    assert!(table.contains("| form | metric | before | after | after / before |\n"), "{table}");
    assert!(table.contains("| environment kernel | 6.1.0-28-amd64 | 6.12.9-amd64 |"), "{table}");
}

fn series(records: usize) -> Series {
    let point = |n: usize| {
        let mut header = record().header;
        if n >= 13 {
            header.environment.insert("kernel".into(), "6.12.9-amd64".into());
        }
        if n >= 14 {
            header.forms.get_mut("container").unwrap().facts.insert("engine.version".into(), "27.0.1".into());
        }
        let wobble = 1.0 + 0.004 * (((n * 7) % 11) as f64 / 11.0 - 0.5);
        let ratio = if n < 13 { 0.872 } else { 0.851 } * wobble;
        SeriesPoint {
            run: format!("run{n:03}"),
            started: format!("2026-01-{:02}T03:00:00Z", n + 1),
            ratio,
            interval: Some(Interval { low: ratio * 0.99, high: ratio * 1.01 }),
            conditions: conditions(&header),
        }
    };
    Series::new(["canonical", "redis", "native", "container", "throughput"], (0..records).map(point).collect())
}

#[test]
fn a_series_with_a_change_point() {
    let all = [series(22)];
    insta::assert_snapshot!("series", fitting(series_text(&all, USUAL_WIDTH)));
    let here = &series_json(&all).unwrap()[0]["changes"][0]["here"];
    assert_eq!((&here[0]["what"], &here[0]["condition"]), (&json!("environment kernel"), &json!("environment.kernel")));
    let summary = fitting(series_summary(&all, USUAL_WIDTH));
    assert!(summary.starts_with("CHANGED: throughput of container in canonical: -2."), "{summary}");
    assert!(summary.contains("since run run013"), "{summary}");
}

#[test]
fn a_short_series_says_how_many_records_it_takes() {
    let text = series_text(&[series(3)], USUAL_WIDTH);
    assert!(text.contains("3 record(s): finding a change takes 12"), "{text}");
    assert_eq!(series_summary(&[series(3)], USUAL_WIDTH), "");
}

/// The sample as if its load had gone up in steps of connections.
fn swept() -> Record {
    const LEVELS: [f64; 7] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
    let mut record = record();
    let of = Box::new(LoadProfile::Closed { connections: 64, pipeline: 1 });
    let second = std::time::Duration::from_secs(1);
    let levels = LEVELS.to_vec();
    record.header.study.load =
        LoadProfile::Steps { of, levels, warm: None, ramp: second, settle: second, measure: second };
    for trial in &mut record.trials {
        let (form, block) = (trial.record.trial.form.clone(), u64::from(trial.record.trial.block));
        let Some(load) = trial.record.load.as_mut() else { continue };
        let window = |(number, level): (usize, &f64)| {
            let n = *level;
            let cliff = if form == "container-hostnet" && n > 8.0 { 0.5 } else { 1.0 };
            let noise = 1.0 + 0.01 * (((number as u64 * 5 + block * 3) % 7) as f64 / 7.0 - 0.5);
            let throughput = cliff * noise * 5_000.0 * n / (1.0 + 0.05 * (n - 1.0) + 0.001 * n * (n - 1.0));
            let counts = WindowCounts { answered: (10.0 * throughput) as u64, ..Default::default() };
            WindowRow {
                number: number as u64,
                level: n,
                to_ns: 10_000_000_000,
                operations: [("get".to_owned(), counts)].into(),
                ..Default::default()
            }
        };
        load.windows = LEVELS.iter().enumerate().map(window).collect();
    }
    record
}

#[test]
fn how_throughput_scales() {
    let all = scaling_of_steps(&swept()).unwrap();
    assert!(all.iter().all(|scaling| scaling.form != "vm"), "an emulated form makes no claim");
    let text = fitting(scaling_text(&all, USUAL_WIDTH));
    insta::assert_snapshot!("scaling", text);
    assert!(scaling_of_steps(&record()).unwrap_err().contains("no steps"));
}

#[test]
fn records_of_several_numbers_of_instances_make_a_sweep() {
    let with = |factor: f64| {
        let mut record = record();
        for trial in &mut record.trials {
            trial.record.metrics.entry("throughput".into()).and_modify(|value| *value *= factor);
        }
        record
    };
    let records: Vec<(f64, Record)> = [1.0_f64, 2.0, 4.0, 8.0].map(|n| (n, with(n.powf(0.9)))).into();
    let all = scaling_of_records(&records, "instances");
    let native = all.iter().find(|scaling| scaling.form == "native").unwrap();
    assert_eq!((native.of.as_str(), native.scaling.blocks), ("instances", 5));
    assert!((native.scaling.levels[3].efficiency - 8f64.powf(-0.1)).abs() < 1e-9);
    assert!(native.scaling.levels[3].efficiency_interval.unwrap().high < 1.0);
    assert_eq!(native.scaling.cautions[0], Caution::LevelsApart);
}

#[test]
fn two_records_of_one_number_are_two_observations_and_said_to_be() {
    let sized = |n: f64, factor: f64| {
        let mut record = record();
        for trial in &mut record.trials {
            trial.record.metrics.entry("throughput".into()).and_modify(|value| *value *= n * factor);
        }
        (n, record)
    };
    let native = |records: &[(f64, Record)]| {
        scaling_of_records(records, "instances").into_iter().find(|scaling| scaling.form == "native").unwrap().scaling
    };
    let [one, two, again] = [sized(1.0, 1.0), sized(2.0, 1.0), sized(2.0, 0.9)];
    let single = native(&[one.clone(), two.clone()]);
    let both = native(&[one, two, again]);
    // The mean of ten blocks, not of five whose values were averaged in pairs: those would not spread any more.
    assert!((both.levels[1].throughput / single.levels[1].throughput - 0.9_f64.sqrt()).abs() < 1e-9);
    let width = |scaling: &tare_stats::Scaling| {
        let interval = scaling.levels[1].speed_up_interval.unwrap();
        (interval.high / interval.low).ln()
    };
    assert!(width(&both) > 1.2 * width(&single), "{} {}", width(&both), width(&single));
    let caution = |scaling: &tare_stats::Scaling| {
        scaling.cautions.contains(&Caution::RecordsTogether { records: 2, level: 2.0, of: "instances".into() })
    };
    assert!(caution(&both) && !caution(&single), "{:?}", both.cautions);
}
