//! The published schema describes the JSON report: nothing missing, nothing undescribed.

use crate::sample;

use sample::record;
use serde_json::{Value, json};
use std::time::Duration;
use tare_core::design::{Arrangement, Chop};
use tare_core::host::FilesSeen;
use tare_core::load::{TurnLength, TurnUse, TurnsSummary};
use tare_core::record::{Record, SCHEMA, SuiteHeader};
use tare_core::study::{Part, Published, PublishedValues};
use tare_report::{FORMATS, Style, render_suite, schema};
use tare_stats::{Analysis, Interval, analyse};

/// As much of JSON Schema as the published one uses, and stricter: a property that it does not describe is a mistake.
fn check(root: &Value, schema: &Value, value: &Value, place: &str, found: &mut Vec<String>) {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.strip_prefix("#/$defs/").expect("references stay within the document");
        return check(root, &root["$defs"][name], value, place, found);
    }
    if let Some(any) = schema["anyOf"].as_array() {
        let fits = |choice: &&Value| {
            let mut problems = Vec::new();
            check(root, choice, value, place, &mut problems);
            problems.is_empty()
        };
        if !any.iter().any(|choice| fits(&choice)) {
            found.push(format!("{place} fits no choice: {value}"));
        }
        return;
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    };
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let fits = types.contains(&kind) || kind == "integer" && types.contains(&"number");
    if !fits {
        found.push(format!("{place} is of type {kind}, not {types:?}"));
    }
    if schema["enum"].as_array().is_some_and(|values| !values.contains(value)) {
        found.push(format!("{place} is {value}, which is not among those listed"));
    }
    for item in value.as_array().into_iter().flatten() {
        check(root, &schema["items"], item, &format!("{place}[]"), found);
    }
    let Some(fields) = value.as_object() else { return };
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !fields.contains_key(name) {
            found.push(format!("{place}.{name} is missing"));
        }
    }
    let open = schema.get("properties").is_none() && schema.get("additionalProperties").is_none();
    for (name, field) in fields.iter().filter(|_| !open) {
        let described = schema["properties"].get(name).or(schema.get("additionalProperties"));
        match described {
            Some(described) => check(root, described, field, &format!("{place}.{name}"), found),
            None => found.push(format!("{place}.{name} is not described")),
        }
    }
}

fn problems(report: &Value) -> Vec<String> {
    let schema: Value = serde_json::from_str(&schema()).expect("the schema is JSON");
    let mut found = Vec::new();
    // By what it is of, for the choice between the two would only say that neither fits.
    let of = if report.get("suite").is_some() { "suite" } else { "report" };
    check(&schema, &schema["$defs"][of], report, of, &mut found);
    let mut whole = Vec::new();
    check(&schema, &schema, report, "root", &mut whole);
    assert_eq!(whole.is_empty(), found.is_empty(), "the schema describes either report, and no other: {whole:?}");
    found
}

fn report() -> Value {
    report_of(&record())
}

fn report_of(record: &Record) -> Value {
    let row = FORMATS.iter().find(|row| row.name == "json").expect("the format is in the table");
    let text = (row.render)(record, &analyse(record), &Style::default()).expect("the sample can be rendered");
    serde_json::from_str(&text).expect("the report is JSON")
}

#[test]
fn the_sample_report_fits_the_schema() {
    assert_eq!(problems(&report()), Vec::<String>::new());
    assert_eq!(problems(&report_of(&sample::asked::ladder())), Vec::<String>::new());
    assert_eq!(problems(&report_of(&sample::watched::profiled())), Vec::<String>::new());
    assert_eq!(problems(&report_of(&sample::stepped::stepped())), Vec::<String>::new());
    let chopped = report_of(&chopped());
    let there = |name: &str| !chopped["analysis"][name].is_null();
    assert!(["resting", "warmth", "missed_aim"].into_iter().all(there), "{chopped:#}");
    assert_eq!(problems(&chopped), Vec::<String>::new());
}

#[test]
fn what_the_probe_costs_is_in_the_report() {
    let report = report_of(&sample::probed::rested());
    assert_eq!(problems(&report), Vec::<String>::new());
    let cost = &report["analysis"]["apparatus"]["probe_cost"];
    let forms: Vec<&Value> = cost["forms"].as_array().expect("a list").iter().collect();
    // Nobody knows what it costs the emulated one.
    assert_eq!(
        forms.iter().map(|form| &form["form"]).collect::<Vec<_>>(),
        ["container", "container-hostnet", "native"]
    );
    assert!(forms.iter().all(|form| form["throughput"]["interval"].is_object()), "{cost:#}");
    assert!(
        forms.iter().all(|form| form["cpu_per_op"]["ratio"].as_f64().is_some_and(|ratio| ratio > 1.01)),
        "{cost:#}"
    );
    let warned =
        |kind: &str| report["analysis"]["warnings_data"].as_array().unwrap().iter().any(|of| of["kind"] == kind);
    assert!(warned("probe-costs"), "{report:#}");
}

/// A chopped load that loses half of its rate in turns of each next length.
fn cold() -> Record {
    let mut record = record();
    for trial in record.trials.iter_mut().filter(|trial| trial.record.trial.block == 0) {
        let row = |(slice_ns, rate): (u64, f64)| TurnLength {
            slice_ns,
            rates: (0..6).map(|cycle| Some(rate + f64::from(cycle))).collect(),
        };
        trial.record.lengths =
            [(250_000_000, 5_000.0), (500_000_000, 10_000.0), (1_000_000_000, 20_000.0)].map(row).into();
    }
    record
}

#[test]
fn a_service_that_is_cold_in_slices_is_in_the_report() {
    let report = report_of(&cold());
    assert_eq!(problems(&report), Vec::<String>::new());
    assert_eq!(report["analysis"]["warmth"][0]["cold"], json!(true));
    let (record, row) = (cold(), FORMATS.iter().find(|row| row.name == "terminal").unwrap());
    let style = Style { verbose: true, ..Style::default() };
    let text = (row.render)(&record, &analyse(&record), &style).unwrap();
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("turns of 500 ms are 50 % slower than turns of 1.00 s"), "{said}");
    assert!(said.contains("slices last at least 1.00 s"), "{said}");
    assert!(said.contains("those of 250 ms are 75 % slower (+- 0.0 %), of 500 ms are 50 % slower"), "{said}");
}

#[test]
fn a_file_that_a_form_shows_otherwise_than_its_bundle_is_in_the_report() {
    let said = |differing: &[String], more: u64| {
        let mut record = record();
        for trial in record.trials.iter_mut().map(|trial| &mut trial.record).filter(|trial| trial.trial.block == 0) {
            let differing = if trial.trial.form == "container" { differing } else { &[] };
            let more = if differing.is_empty() { 0 } else { more };
            let seen = FilesSeen { compared: 3393, differing: differing.to_vec(), more, ..FilesSeen::default() };
            trial.files = trial.mapped.keys().map(|service| (service.clone(), seen.clone())).collect();
        }
        let report = report_of(&record);
        assert_eq!(problems(&report), Vec::<String>::new());
        let row = FORMATS.iter().find(|row| row.name == "terminal").unwrap();
        let text = (row.render)(&record, &analyse(&record), &Style { verbose: true, ..Style::default() }).unwrap();
        (text.split_whitespace().collect::<Vec<_>>().join(" "), report["analysis"]["bits"][0].clone())
    };
    let (text, bits) = said(&[], 0);
    assert!(text.contains("3393 files of its bundle seen unchanged"), "{text}");
    assert_eq!((&bits["same"], &bits["bundle_files"]), (&json!(true), &json!(3393)));
    let (text, bits) = said(&["/app.py".to_owned()], 0);
    assert!(text.contains("same bits redis: NO: /app.py not as in the bundle in container"), "{text}");
    assert_eq!(bits["differences"], json!([{"path": "/app.py", "by_form": {"container": "differs"}}]));
    assert!(text.matches("/app.py").count() > 1, "and a warning names it: {text}");
    let many: Vec<String> = (0..FilesSeen::NAMED).map(|at| format!("/f{at:02}")).collect();
    let (text, bits) = said(&many, 100);
    assert!(text.contains("NO: /f00, /f01, /f02 and 117 more not as in the bundle in container"), "{text}");
    assert_eq!(bits["unnamed"], json!(100));
}

#[test]
fn a_form_that_gets_warm_amid_its_slices_is_in_the_report() {
    let mut record = record();
    for trial in &mut record.trials {
        let trial = &mut trial.record;
        let share = if trial.trial.form == "container" { 0.04 } else { 0.01 } + 0.0002 * f64::from(trial.trial.block);
        if let Some(load) = &mut trial.load {
            let warming = Some(share);
            load.turns = Some(TurnsSummary { turns: 9, active_ns: 9_000_000, warming, ..TurnsSummary::default() });
        }
    }
    let report = report_of(&record);
    assert_eq!(problems(&report), Vec::<String>::new());
    let of = |arm: &str| {
        let all = report["analysis"]["warming"].as_array().unwrap();
        all.iter().find(|found| found["arm"] == arm).unwrap()["matters"].clone()
    };
    assert_eq!((of("container"), of("container-hostnet")), (json!(true), json!(false)));
    let row = FORMATS.iter().find(|row| row.name == "terminal").unwrap();
    let text = (row.render)(&record, &analyse(&record), &Style { verbose: true, ..Style::default() }).unwrap();
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let warning =
        "within its slices container gets 4.0 % faster, native 1.0 % faster, from the first to the second halves";
    assert!(said.contains(warning), "{said}");
    assert!(
        said.contains(
            "If container still changes in them, its ratio under uninterrupted load is higher, by up to half of that"
        ),
        "{said}"
    );
    assert!(said.contains("second halves of turns are 4.0 % faster"), "{said}");
    assert!(!said.contains("within its slices container-hostnet"), "{said}");
    // In brief it is a warning only where another verdict might be true.
    record.header.study.design.arrangement =
        Arrangement::Chop(Chop { slice: Some(Duration::from_millis(10)), ..Chop::default() });
    let brief = |analysis: &Analysis| {
        let text = (row.render)(&record, analysis, &Style::default()).unwrap();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let mut analysis = analyse(&record);
    let said = brief(&analysis);
    assert!(
        said.contains("slices: under uninterrupted load throughput of container may be up to 1.5 % higher; --verbose"),
        "{said}"
    );
    assert!(!said.contains("within its slices"), "{said}");
    let of_container = analysis.metrics.iter_mut().flat_map(|metric| &mut metric.ratios);
    for ratio in of_container.filter(|ratio| ratio.arm == "container") {
        ratio.interval = Some(Interval { low: 0.98, high: 0.99 });
    }
    let said = brief(&analysis);
    assert!(said.contains("WARNING: within its slices container gets") && !said.contains("slices: under"), "{said}");
}

#[test]
fn a_form_that_was_not_settled_when_it_was_measured_is_in_the_report() {
    let mut record = record();
    for trial in &mut record.trials {
        let trial = &mut trial.record;
        let late = if trial.trial.form == "container" { 104.0 } else { 101.0 } + 0.01 * f64::from(trial.trial.block);
        if let Some(load) = &mut trial.load {
            load.turns = Some(TurnsSummary { turns: 9, active_ns: 9_000_000, ..TurnsSummary::default() });
            load.batches = vec![100.0, 100.0, late, late];
        }
    }
    let report = report_of(&record);
    assert_eq!(problems(&report), Vec::<String>::new());
    let all = report["analysis"]["settling"].as_array().unwrap();
    let of = |arm: &str| all.iter().find(|found| found["arm"] == arm).unwrap()["matters"].clone();
    assert_eq!((of("container"), of("container-hostnet")), (json!(true), json!(false)));
    let row = FORMATS.iter().find(|row| row.name == "terminal").unwrap();
    let text = (row.render)(&record, &analyse(&record), &Style::default()).unwrap();
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let warning =
        "while it was measured container got 4.0 % faster, native 1.0 % faster, from the first to the second half";
    assert!(said.contains(warning), "{said}");
    assert!(said.contains("is the mean over that time, and higher at its end"), "{said}");
}

#[test]
fn a_ratio_that_follows_the_machine_s_speed_is_in_the_report() {
    let record = sample::speeds::at_two_speeds();
    let report = report_of(&record);
    assert_eq!(problems(&report), Vec::<String>::new());
    let ratios = report["analysis"]["metrics"][0]["ratios"].as_array().expect("a list");
    let following: Vec<_> = ratios.iter().filter(|ratio| !ratio["follows"].is_null()).collect();
    assert_eq!(following.iter().map(|ratio| &ratio["arm"]).collect::<Vec<_>>(), ["container"]);
    let row = FORMATS.iter().find(|row| row.name == "terminal").unwrap();
    let said = |verbose: bool| {
        let text = (row.render)(&record, &analyse(&record), &Style { verbose, ..Style::default() }).unwrap();
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let missed = "in throughput of container, which follows the machine's speed: 0.87 where native (A/A) had";
    for verbose in [false, true] {
        assert!(said(verbose).contains(missed), "{}", said(verbose));
    }
    assert!(said(true).contains("speed container, throughput: 0.87 where native (A/A) had"), "{}", said(true));
}

/// The sample as if its load had taken turns until the time was over.
fn chopped() -> Record {
    let mut record = record();
    record.header.study.design.half_width = Some(1e-6);
    record.end.as_mut().expect("the sample has ended").how = tare_core::record::FITTED.to_owned();
    for (at, trial) in record.trials.iter_mut().enumerate() {
        trial.record.resting_cpu = Some(0.01 * at as f64);
        let (whose, used) = ("native".to_owned(), TurnUse { cpu_ns: 12 * at as u64, during_ns: 1_000 });
        trial.record.cpu_by_turn = [(whose, used)].into();
        let rates = |rate: f64| (0..6).map(|cycle| Some(rate + f64::from(cycle))).collect();
        let lengths = [(10_000_000, 800.0), (200_000_000, 1000.0)];
        trial.record.lengths =
            lengths.map(|(slice_ns, rate)| TurnLength { slice_ns, rates: rates(rate) }).into_iter().collect();
    }
    record
}

fn report_of_parts() -> Value {
    let header = SuiteHeader {
        schema: SCHEMA,
        tare: "0.1.0".into(),
        study: "subsystems".into(),
        question: "Which part of the machine pays?".into(),
        preset: None,
        started: "2026-03-05T10:14:02Z".into(),
        command: "tare run subsystems".into(),
        parts: vec!["first".into(), "second".into()],
    };
    let figures = [("throughput".to_owned(), [("container".to_owned(), "0.9".to_owned())].into())].into();
    let of_both = [("container".to_owned(), 0.9), ("native".to_owned(), 1.0)].into();
    let of = PublishedValues { relative_to: "native".into(), unit: None, values: of_both };
    let values = [("throughput".to_owned(), of)].into();
    let published = Some(Published { from: "a paper".into(), figures, values });
    let records = [("first", published), ("second", None)].map(|(name, published)| {
        let mut record = record();
        let (of, name, panel) = ("subsystems".into(), name.into(), "network".into());
        record.header.study.part = Some(Part { of, name, panel, shows: Vec::new(), published });
        record
    });
    let parts: Vec<_> = records.iter().map(|record| (record, analyse(record))).collect();
    let text = render_suite(&header, &parts, "json", &Style::default()).expect("the sample can be rendered");
    serde_json::from_str(&text).expect("the report is JSON")
}

#[test]
fn a_report_of_parts_fits_the_schema() {
    assert_eq!(problems(&report_of_parts()), Vec::<String>::new());
    let mut report = report_of_parts();
    report["parts"][1]["differences"][0]["unit"] = json!(7);
    report["parts"][0]["surprise"] = json!(1);
    report["suite"].as_object_mut().expect("the header is an object").remove("question");
    assert_eq!(problems(&report).len(), 3, "{:?}", problems(&report));
}

#[test]
fn the_check_bites() {
    let mut report = report();
    report["analysis"]["metrics"][0]["ratios"][0]["verdict"] = json!("splendid");
    report["analysis"]["arms"][0].as_object_mut().expect("an arm is an object").remove("measured");
    report["surprise"] = json!(1);
    report["run"] = json!(17);
    assert_eq!(problems(&report).len(), 4, "{:?}", problems(&report));
}
