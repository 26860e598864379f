//! What a report tells beside its figures: what a known weight was measured as, what sampling costs, who ended.

use crate::sample;

use std::time::Duration;
use tare_core::design::{Arrangement, Chop};
use tare_core::fault::Fault;
use tare_core::load::{TurnUse, TurnsSummary};
use tare_core::record::Record;
use tare_core::telemetry::{PROBE, RestHalf, TelemetryRow};
use tare_core::trial::{Outcome, Stage};
use tare_report::{FORMATS, Style};
use tare_stats::{Analysis, FormProbeCost, Interval, ProbeCost, ProbeEffect, ProbeRatio, Warning, analyse};

/// A report in words, in one line.
fn told(format: &str, record: &Record, analysis: &Analysis, verbose: bool) -> String {
    let row = FORMATS.iter().find(|row| row.name == format).unwrap();
    let text = (row.render)(record, analysis, &Style { color: false, width: 80, verbose }).unwrap();
    assert!(format != "terminal" || text.lines().all(|line| line.chars().count() <= 80), "{text}");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The sample with a ruler of 1 %, weighed as this ratio of throughput, and as 1.0 % [0.8, 1.2] of CPU time.
fn weighed(ratio: f64, interval: (f64, f64)) -> (Record, Analysis) {
    let record = sample::asked::ruler();
    let mut analysis = analyse(&record);
    let mut change = |metric: &str, ratio: f64, (low, high): (f64, f64)| {
        let metric = analysis.metrics.iter_mut().find(|known| known.name == metric).unwrap();
        let of = metric.ratios.iter_mut().find(|ratio| ratio.arm == "ruler").unwrap();
        (of.ratio, of.interval) = (ratio, Some(Interval { low, high }));
    };
    change("throughput", ratio, interval);
    change("cpu_busy_us_per_op", 1.01, (1.008, 1.012));
    (record, analysis)
}

#[test]
fn a_report_opens_with_what_the_scale_saw() {
    let (record, analysis) = weighed(1.0 / 1.011, (1.0 / 1.015, 1.0 / 1.007));
    let said = "a planted 1.0 % was measured as 1.1 % [0.7, 1.5] in throughput and 1.0 % [0.8, 1.2] in CPU per op";
    let brief = told("terminal", &record, &analysis, false);
    assert!(
        brief.contains(&format!("known weight: {said}; noise floor: native and its identical copy differ by at most ")),
        "{brief}"
    );
    let whole = told("terminal", &record, &analysis, true);
    let at = whole.find(&format!("ruler: {said} ratio to baseline")).expect(&whole);
    assert!(whole[..at].ends_with("seed 7 ") && whole.matches("a planted").count() == 1, "{whole}");
    let page = told("html", &record, &analysis, false);
    assert!(page.contains(&format!("Ruler: {said}.")), "{page}");
    // It is no form that anybody asked about.
    assert!(!brief.contains("ruler"), "{brief}");
}

#[test]
fn a_scale_that_misses_what_was_planted_says_so() {
    let (record, analysis) = weighed(1.0 / 1.002, (1.0 / 1.003, 1.0 / 1.001));
    let said = "a planted 1.0 % was measured as 0.20 % [0.10, 0.30] in throughput and 1.00 % [0.80, 1.20] in CPU per \
                op. That is NOT what was planted: 0.8 % too little in throughput. Other ratios may be off";
    for (format, verbose) in [("terminal", false), ("terminal", true), ("html", false)] {
        let text = told(format, &record, &analysis, verbose);
        assert!(text.contains(said), "{format}: {text}");
        assert!(!text.contains("could not tell it from zero"), "{format}: {text}");
    }
    let more = told("terminal", &record, &weighed(1.0 / 1.02, (1.0 / 1.021, 1.0 / 1.019)).1, false);
    assert!(more.contains("1.0 % too much in throughput"), "{more}");
    // What may be nothing may be what was planted as well, and one that may be neither is off.
    let unseen = told("terminal", &record, &weighed(1.0 / 1.004, (1.0 / 1.012, 1.004)).1, false);
    assert!(unseen.contains("in CPU per op: this run could not tell it from zero; "), "{unseen}");
    let neither = told("terminal", &record, &weighed(1.0, (0.998, 1.002)).1, false);
    let both = "from zero. That is NOT what was planted: 1.0 % too little in throughput.";
    assert!(neither.contains(both), "{neither}");
}

#[test]
fn the_ruler_is_told_where_no_control_was_measured() {
    let (record, mut analysis) = weighed(1.0 / 1.011, (1.0 / 1.015, 1.0 / 1.007));
    analysis.metrics.iter_mut().for_each(|metric| metric.noise_floor = None);
    let text = told("terminal", &record, &analysis, false);
    assert!(text.contains("[0.8, 1.2] in CPU per op; noise floor: no A/A control was measured often enough"), "{text}");
    let without = told("terminal", &sample::record(), &analyse(&sample::record()), true);
    assert!(!without.contains("ruler: ") && !without.contains("planted"), "{without}");
}

/// The sample with readings of the sampler's own.
fn sampled() -> Record {
    let mut record = sample::record();
    for trial in &mut record.trials {
        let own = trial.telemetry.first().map(|row| TelemetryRow {
            scope: PROBE.into(),
            values: [("cpu_total_s".to_owned(), 0.0)].into(),
            ..row.clone()
        });
        trial.telemetry.extend(own);
    }
    record
}

#[test]
fn where_nobody_measured_what_the_probe_costs_the_report_says_so() {
    const UNKNOWN: &str = "the cost of the probe was not measured";
    let mut record = sampled();
    let said = |record: &Record, words: &str| {
        let analysis = analyse(record);
        for format in ["terminal", "html"] {
            let text = told(format, record, &analysis, true);
            assert!(text.contains(words), "{format}: {text}");
        }
    };
    said(&record, &format!("{UNKNOWN}, dropped 0"));
    record.header.study.measure = Duration::from_secs(5);
    let elsewhere = " (it rests only in closed loops from outside, measured at one level for 10 s or longer)";
    said(&record, &format!("{UNKNOWN}{elsewhere}, dropped 0"));
    record.header.study.design.arrangement = Arrangement::Duet;
    said(&record, &format!("{UNKNOWN} in this design (it rests only in designs blocks and chop), dropped 0"));
    record.header.study.design.arrangement = Arrangement::Chop(Chop::default());
    said(&record, &format!("{UNKNOWN}, dropped 0"));
    record.header.study.measure = Duration::from_secs(1);
    let shorter = " (it rests only where all forms of a block together are measured for 10 s or longer)";
    said(&record, &format!("{UNKNOWN}{shorter}, dropped 0"));
    record.trials[0].record.rest_half = Some(RestHalf::First);
    said(&record, &format!("{UNKNOWN} (that takes a second block, in which it rests at other moments), dropped 0"));
    let unsampled = told("terminal", &sample::record(), &analyse(&sample::record()), true);
    assert!(!unsampled.contains("the probe"), "{unsampled}");
}

#[test]
fn what_the_probe_costs_is_told_of_all_forms_and_of_each() {
    let record = sampled();
    let mut analysis = analyse(&record);
    let cost = |ratio: f64, low: f64, high: f64| ProbeRatio { ratio, interval: Some(Interval { low, high }) };
    let form = |form: &str, throughput, cpu_per_op| FormProbeCost {
        form: form.into(),
        throughput,
        cpu_per_op,
        trials: 5,
        rests: 30,
    };
    let native = form("native", cost(0.999, 0.996, 1.002), None);
    let container = form("container", cost(1.0004, 0.998, 1.003), Some(cost(1.012, 1.008, 1.016)));
    let forms = vec![container, native];
    analysis.apparatus.probe_cost = Some(ProbeCost { ratio: 0.998, interval: None, trials: 10, rests: 30, forms });
    let of_all = "the probe: 0.2 % fewer operations than while it rests (30 rests), dropped 0";
    let of_each = "container 0.0 % fewer operations [-0.3, 0.2], 1.2 % more CPU per op [0.8, 1.6]; native 0.1 % fewer \
                   operations [-0.2, 0.4]";
    for (format, label) in [("terminal", "probe "), ("html", "while it rests: ")] {
        let text = told(format, &record, &analysis, true);
        assert!(text.contains(of_all) && text.contains(&format!("{label}{of_each}")), "{format}: {text}");
        assert!(!text.contains("the cost of the probe was not measured"), "{format}: {text}");
    }
    assert!(!told("terminal", &record, &analysis, false).contains("while it rests"));
    let container = form("container", cost(1.004, 1.001, 1.007), Some(cost(0.997, 0.995, 0.999)));
    analysis.apparatus.probe_cost.iter_mut().for_each(|found| found.forms = vec![container.clone()]);
    let text = told("terminal", &record, &analysis, true);
    let other_way = "container 0.4 % more operations [0.1, 0.7], 0.3 % less CPU per op [0.1, 0.5]";
    assert!(text.contains(other_way), "{text}");
}

#[test]
fn a_probe_that_weighs_on_a_form_is_a_warning() {
    let record = sampled();
    let mut analysis = analyse(&record);
    let cost = ProbeRatio { ratio: 0.991, interval: Some(Interval { low: 0.989, high: 0.993 }) };
    let (form, changes) = ("container".to_owned(), ProbeEffect::Throughput);
    analysis.warnings.push(Warning::ProbeCosts { form, changes, cost });
    let said = "the probe slows container down: 0.9 % fewer operations [0.7, 1.1] than while it rests, and the figures \
                of container include most of that. To do: leave the machine, and each guest, a CPU that no service is \
                bound to";
    for format in ["terminal", "html"] {
        let text = told(format, &record, &analysis, true);
        assert!(text.contains(said), "{format}: {text}");
    }
    // By what is in the record: 2 % more answers while the probe rests.
    let found = analyse(&sample::probed::rested());
    let is_named = |warning: &Warning| {
        matches!(warning, Warning::ProbeCosts { form, changes: ProbeEffect::Throughput, cost }
            if form == "container" && (cost.ratio - 1.0 / 1.02).abs() < 2e-3)
    };
    assert!(found.warnings.iter().any(is_named), "{:?}", found.apparatus.probe_cost);
}

#[test]
fn a_service_that_ended_stands_in_the_row_of_what_failed() {
    let mut record = sample::record();
    let is_ended = |form: &str, block: u32| form == "container-hostnet" && block == 3;
    let ended = record.trials.iter_mut().find(|t| is_ended(&t.record.trial.form, t.record.trial.block)).unwrap();
    assert!(matches!(ended.record.outcome, Outcome::Failed { stage: Stage::Deploy, .. }));
    ended.record.service_ended = Some("redis".into());
    let why = Fault::new("service redis ended before it was ready: killed by signal 9");
    ended.record.outcome = Outcome::Failed { stage: Stage::Deploy, why };
    let analysis = analyse(&record);
    for verbose in [false, true] {
        let text = told("terminal", &record, &analysis, verbose);
        assert!(text.contains("a service exited in 1 of 5 trials, which are in no figure"), "{text}");
    }
}

#[test]
fn what_services_use_in_whose_turns_is_said_and_named_where_it_takes_from_others() {
    let mut record = sample::record();
    record.header.study.design.arrangement = Arrangement::Chop(Chop::default());
    let arms = ["native", "native (A/A)", "container", "container-hostnet"];
    for trial in record.trials.iter_mut().map(|trial| &mut trial.record) {
        let own = trial.trial.arm();
        let share = |whose: &str| match (whose == own, own.as_str()) {
            (true, _) => 900_000,
            (false, "container") => 6_000,
            (false, _) => 1_000,
        };
        let used = |whose: &str| (whose.to_owned(), TurnUse { cpu_ns: share(whose), during_ns: 1_000_000 });
        trial.cpu_by_turn = arms.map(used).into();
        trial.resting_cpu = Some(0.001);
        if let Some(load) = &mut trial.load {
            load.turns = Some(TurnsSummary { turns: 100, active_ns: 1_000_000_000, ..TurnsSummary::default() });
        }
    }
    let analysis = analyse(&record);
    let text = told("terminal", &record, &analysis, true);
    for used in ["uses 90 % of a CPU in its own turns and 0.60 % in others'", "turns and 0.10 % in others'"] {
        assert!(text.contains(used), "{text}");
    }
    let named = "container uses 0.6 % of a CPU while others are loaded, 0.5 % of it because of the load that it had \
                 before, native 0.1 %: that work falls into the others' turns, so container looks up to 0.5 % better";
    for verbose in [false, true] {
        assert!(told("terminal", &record, &analysis, verbose).contains(named), "{text}");
    }
    assert!(!text.contains("container-hostnet uses 0.1 % of a CPU while"), "{text}");
}
