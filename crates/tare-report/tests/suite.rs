//! A study of three parts in every format: one whose load has metrics of its own, one about a time, and one in which
//! a form failed.

use crate::sample;

use sample::{record, scratch};
use std::collections::BTreeMap;
use tare_core::fault::Fault;
use tare_core::load::OwnMetric;
use tare_core::record::{Record, SCHEMA, SuiteHeader};
use tare_core::study::{Part, Published, PublishedValues};
use tare_core::trial::{Outcome, Stage};
use tare_report::{FORMATS, Style, render_suite};
use tare_stats::{Analysis, Verdict, analyse};

fn header() -> SuiteHeader {
    SuiteHeader {
        schema: SCHEMA,
        tare: "0.1.0".into(),
        study: "subsystems".into(),
        question: "Which part of the machine pays for which form?".into(),
        preset: Some("quick".into()),
        started: "2026-03-05T10:14:02Z".into(),
        command: "tare run studies/subsystems.yaml --preset quick".into(),
        parts: ["solve", "round-trip", "connect"].map(str::to_owned).into(),
    }
}

fn part(name: &str, panel: &str, shows: &[&str], published: Option<Published>) -> Record {
    let mut record = record();
    let shows = shows.iter().map(|name| (*name).to_owned()).collect();
    record.header.run = format!("k3v9qa-{name}");
    record.header.study.name = format!("subsystems.{name}");
    record.header.study.part =
        Some(Part { of: "subsystems".into(), name: name.into(), panel: panel.into(), shows, published });
    record
}

fn published(metric: &str, figures: &[(&str, &str)]) -> Published {
    let figures = figures.iter().map(|(form, text)| ((*form).to_owned(), (*text).to_owned())).collect();
    Published {
        from: "A. Author, Containers weighed, 2014".into(),
        figures: BTreeMap::from([(metric.into(), figures)]),
        values: BTreeMap::new(),
    }
}

/// Metrics of its own, in which no real form differs from the baseline.
fn solve() -> Record {
    let figures = [("vm", "0.95"), ("container", "1.0"), ("native", "1.9 TFLOPS on 32 cores")];
    let mut record = part("solve", "floating point", &[], Some(published("gflops", &figures)));
    let own = |name: &str, title: &str, unit: &str, more_is_better| OwnMetric {
        name: name.into(),
        title: title.into(),
        unit: unit.into(),
        more_is_better,
    };
    let protocol = &mut record.header.workload.protocol;
    protocol.metrics = vec![own("gflops", "speed", "GFLOPS", true), own("factor_s", "time to factor", "s", false)];
    protocol.unit = Some("solution".into());
    for trial in &mut record.trials {
        let trial = &mut trial.record;
        if trial.metrics.is_empty() {
            continue;
        }
        let emulated = if trial.emulated { 0.05 } else { 1.0 };
        let wobble = 1.0 + 0.002 * (f64::from(trial.trial.index * 37 % 11) - 5.0);
        trial.metrics.retain(|name, _| name.starts_with("cpu"));
        trial.metrics.insert("gflops".into(), 61.4 * emulated * wobble);
        trial.metrics.insert("factor_s".into(), 2.7 / emulated / wobble);
        trial.metrics.insert("throughput".into(), 0.31 * emulated * wobble);
    }
    record
}

fn round_trip() -> Record {
    let figures = [("container", "1.33"), ("container-hostnet", "near native"), ("native", "30 us")];
    let mut record = part("round-trip", "network", &["p50_us", "p99_us", "speed"], Some(published("p50_us", &figures)));
    for trial in &mut record.trials {
        for (name, value) in &mut trial.record.metrics {
            if name.ends_with("_us") {
                *value *= 0.065;
            }
        }
    }
    record
}

/// Every trial of one form failed.
fn connect() -> Record {
    let mut record = part("connect", "network", &[], None);
    for trial in record.trials.iter_mut().filter(|trial| trial.record.trial.form == "container") {
        let why = Fault::new("the port was not free").remedy("stop what listens there");
        trial.record.outcome = Outcome::Failed { stage: Stage::Deploy, why };
        trial.record.metrics.clear();
        trial.record.load = None;
    }
    record
}

fn rendered(format: &str, records: &[Record], style: &Style) -> String {
    let parts: Vec<(&Record, Analysis)> = records.iter().map(|record| (record, analyse(record))).collect();
    render_suite(&header(), &parts, format, style).expect("the sample can be rendered")
}

fn three() -> [Record; 3] {
    [solve(), round_trip(), connect()]
}

#[test]
fn terminal() {
    for width in [60, 80, 120] {
        let text = rendered("terminal", &three(), &Style { color: false, width, verbose: true });
        assert!(text.lines().all(|line| line.chars().count() <= width), "at {width} columns:\n{text}");
        assert!(text.lines().all(|line| line.trim_end() == line) && text.is_ascii(), "{text}");
    }
    insta::assert_snapshot!("terminal", rendered("terminal", &three(), &Style::default()));
}

#[test]
fn json_says_what_the_parts_own_reports_say() {
    let records = three();
    let report: serde_json::Value = serde_json::from_str(&rendered("json", &records, &Style::default())).unwrap();
    assert_eq!((&report["suite"]["study"], report["parts"].as_array().unwrap().len()), (&"subsystems".into(), 3));
    let alone = FORMATS.iter().find(|row| row.name == "json").unwrap();
    for (record, part) in records.iter().zip(report["parts"].as_array().unwrap()) {
        let alone = (alone.render)(record, &analyse(record), &Style::default()).unwrap();
        let alone: serde_json::Value = serde_json::from_str(&alone).unwrap();
        assert_eq!((&part["analysis"], &part["headlines"]), (&alone["analysis"], &alone["headlines"]));
        assert_eq!(part["header"]["run"], alone["run"]);
        let ratios = part["analysis"]["metrics"].as_array().unwrap().iter();
        let ratios: usize = ratios.map(|metric| metric["ratios"].as_array().unwrap().len()).sum();
        assert_eq!(part["differences"].as_array().unwrap().len(), ratios);
    }
    assert_eq!(report["warnings"].as_array().unwrap().len(), 1, "{}", report["warnings"]);
    let mut shown = report;
    for part in shown["parts"].as_array_mut().unwrap() {
        // These stand in the snapshot of a record's own report.
        part.as_object_mut().unwrap().retain(|key, _| !["header", "analysis"].contains(&key.as_str()));
    }
    insta::assert_snapshot!("json", serde_json::to_string_pretty(&shown).unwrap());
}

#[test]
fn csv_has_the_rows_of_all_parts_under_one_header() {
    let records = three();
    let text = rendered("csv", &records, &Style::default());
    assert_eq!(text.matches("run,trial,block").count(), 1);
    let alone = FORMATS.iter().find(|row| row.name == "csv").unwrap();
    for (record, name) in records.iter().zip(["solve", "round-trip", "connect"]) {
        let alone = (alone.render)(record, &analyse(record), &Style::default()).unwrap();
        let rows = text.lines().filter(|line| line.starts_with(&format!("{name},"))).count();
        assert_eq!(rows, alone.lines().count() - 1, "{name}");
    }
}

#[test]
fn nothing_is_rendered_as_nothing_and_an_unknown_format_is_refused() {
    assert_eq!(rendered("none", &three(), &Style::default()), "");
    assert!(render_suite(&header(), &[], "picture", &Style::default()).is_err());
}

#[test]
fn the_page_says_what_it_must() {
    let page = rendered("html", &three(), &Style::default());
    std::fs::write(scratch().join("suite.html"), &page).expect("the scratch folder can be written to");
    for wanted in [
        "Which part of the machine pays for which form?",
        "Network costs more in container",
        "No difference detectable in floating point",
        "href=\"round-trip/report.html\"",
        "class=\"published\"",
        "A. Author, Containers weighed, 2014; another machine",
        "FAILED in deploy: the port was not free",
        "SKIPPED: the guest has no container engine",
        "part round-trip has no metric speed",
        "subsystems.yaml --preset quick",
        " GFLOPS</b>",
        "url(#hatch",
        "prefers-color-scheme",
    ] {
        assert!(page.contains(wanted), "{wanted} is missing");
    }
    for forbidden in ["<script", "<link", "<img", "http:", "https:", "@import"] {
        assert!(!page.contains(forbidden), "{forbidden} is in the page");
    }
    assert_eq!(page.matches("<figure>").count(), 2, "one chart a panel");
}

#[test]
fn whatever_the_records_hold_is_shown_as_text() {
    const EVIL: &str = "</svg></style><script>alert(1)</script>";
    let mut record = round_trip();
    let part = record.header.study.part.as_mut().unwrap();
    part.panel.push_str(EVIL);
    part.name.push_str(EVIL);
    let published = part.published.as_mut().unwrap();
    published.from.push_str(EVIL);
    published.figures.get_mut("p50_us").unwrap().insert("container".into(), EVIL.into());
    record.header.workload.name.push_str(EVIL);
    record.header.workload.protocol.metrics.push(OwnMetric {
        name: "own".into(),
        title: EVIL.into(),
        unit: EVIL.into(),
        more_is_better: true,
    });
    part.shows.push("own".into());
    for trial in &mut record.trials {
        trial.record.metrics.insert("own".into(), 1.5);
    }
    let mut header = header();
    header.question.push_str(EVIL);
    header.command.push_str(EVIL);
    let analysis = analyse(&record);
    let page = render_suite(&header, &[(&record, analysis)], "html", &Style::default()).unwrap();
    assert!(page.contains("&lt;script"), "it is shown");
    assert!(!page.contains("<script"), "and never as markup");
}

#[test]
fn the_headline_claims_nothing_without_a_verdict() {
    let mut records = three();
    // Without the control there is no noise floor, and so no verdict.
    for record in &mut records {
        record.trials.retain(|trial| !trial.record.trial.control);
        let analysis = analyse(record);
        let mut verdicts = analysis.metrics.iter().flat_map(|metric| &metric.ratios).map(|ratio| ratio.verdict);
        assert!(!verdicts.any(|verdict| matches!(verdict, Verdict::Better | Verdict::Worse)));
    }
    let text = rendered("terminal", &records[1..], &Style { color: false, width: 200, verbose: true });
    assert!(text.contains("No verdict on network.") && !text.contains("costs more in"), "{text}");
}

#[test]
fn a_part_that_was_not_begun_is_missed() {
    let text = rendered("terminal", &three()[..1], &Style { color: false, width: 200, verbose: true });
    assert!(text.contains("WARNING    part round-trip was not begun"), "{text}");
    assert!(!rendered("terminal", &three(), &Style::default()).contains("not begun"));
    for format in FORMATS.iter().filter(|format| format.name != "none") {
        assert!(!rendered(format.name, &[], &Style::default()).is_empty(), "{}", format.name);
    }
}

#[test]
fn the_ordinary_page_shows_the_loads_own_metrics_and_units() {
    let record = solve();
    let row = FORMATS.iter().find(|row| row.name == "html").unwrap();
    let page = (row.render)(&record, &analyse(&record), &Style::default()).unwrap();
    let trials = &page[page.find("<h2>Every trial").unwrap()..];
    for wanted in ["speed, GFLOPS", "time to factor, s", "throughput, solution"] {
        assert!(trials.contains(wanted), "{wanted} is missing");
    }
    assert!(!trials.contains("op/s") && !trials.contains("p99,"), "columns of what was not measured");
    assert!(page.contains("container, speed: no difference detectable"), "the headline is about them");
    assert!(page.contains("throughput, solution/s</text>"), "and so does the timeline");
}

/// The same with published figures that say what they are relative to.
fn referred(relative_to: &str) -> Record {
    let mut record = round_trip();
    let published = record.header.study.part.as_mut().unwrap().published.as_mut().unwrap();
    let values = [("container", 30_657.0), ("container-hostnet", 40_062.0), ("elsewhere", 35_969.0)];
    let values = values.map(|(form, value)| (form.to_owned(), value)).into();
    let (relative_to, unit) = (relative_to.to_owned(), Some("users".to_owned()));
    published.values.insert("p50_us".into(), PublishedValues { relative_to, unit, values });
    record
}

#[test]
fn published_figures_stand_beside_ours_relative_to_the_same_form() {
    let records = [solve(), referred("container-hostnet"), connect()];
    let text = rendered("terminal", &records, &Style { color: false, width: 200, verbose: true });
    let wanted = "p50 as published on another machine, relative to container-hostnet: container 0.77, elsewhere 0.90";
    assert!(text.contains(wanted), "{text}");
    assert!(text.contains("p50 here, relative to container-hostnet: native 0.97") && text.contains("[0."), "{text}");
    assert!(text.contains("EMULATED"), "{text}");
    let page = rendered("html", &records, &Style::default());
    std::fs::write(scratch().join("suite-beside.html"), &page).expect("the scratch folder can be written to");
    assert_eq!(page.matches("class=\"outline\"").count(), 3, "a bar for each published figure");
    assert!(page.contains("30,657 users, 0.77") && page.contains("As published, on another machine"), "it is labelled");
    let without = |record: &Record| {
        let analysis = analyse(record);
        (analysis.metrics, analysis.warnings)
    };
    assert_eq!(without(&referred("container-hostnet")), without(&round_trip()), "no verdict knows of it");
    let emulated = rendered("terminal", &[referred("vm")], &Style { color: false, width: 200, verbose: true });
    assert!(emulated.contains("not shown, vm ran EMULATED here"), "{emulated}");
}
