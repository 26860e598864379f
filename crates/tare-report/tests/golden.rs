//! The fixed sample record in every format, and what must hold of every rendering.

use crate::sample;

use sample::record;
use tare_core::record::Record;
use tare_report::{FORMATS, Style};
use tare_stats::{Missing, Warning, analyse};

fn render(name: &str, record: &Record, style: &Style) -> String {
    let row = FORMATS.iter().find(|row| row.name == name).expect("the format is in the table");
    (row.render)(record, &analyse(record), style).expect("the sample can be rendered")
}

#[test]
fn terminal() {
    let text = render("terminal", &record(), &Style { color: false, width: 80, verbose: true });
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "longer than 80 columns: {line}");
        assert_eq!(line.trim_end(), line, "trailing blanks: {line:?}");
    }
    assert!(text.is_ascii());
    insta::assert_snapshot!("terminal", text);
}

#[test]
fn where_cpu_time_is_attributed_the_table_is_as_wide() {
    let mut record = record();
    for trial in &mut record.trials {
        trial.record.metrics.remove("cpu_busy_us_per_op");
    }
    for verbose in [false, true] {
        let text = render("terminal", &record, &Style { verbose, ..Style::default() });
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("CPU per op") || text.contains("CPU/op"), "{text}");
    }
}

#[test]
fn in_brief() {
    for width in [48, 60, 80, 120] {
        let text = render("terminal", &record(), &Style { width, ..Style::default() });
        for line in text.lines() {
            assert!(line.chars().count() <= width, "longer than {width} columns: {line}");
            assert_eq!(line.trim_end(), line, "trailing blanks: {line:?}");
        }
        assert!(text.is_ascii() && text.lines().count() < 60, "{text}");
    }
    insta::assert_snapshot!("brief", render("terminal", &record(), &Style::default()));
}

#[test]
fn a_ladder_says_which_part_costs_what() {
    let text = render("terminal", &sample::asked::ladder(), &Style { color: false, width: 80, verbose: true });
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let from = text.find("ladder from native").expect("it has a part of its own");
    let to = from + text[from..].find("\nA/A").expect("the footing follows");
    insta::assert_snapshot!("ladder", &text[from..to]);
}

#[test]
fn a_ladder_says_what_its_rungs_cost_in_other_places() {
    let record = sample::asked::orders();
    let text = render("terminal", &record, &Style { color: false, width: 80, verbose: true });
    let from = text.find("together the rungs make").expect("the ladder has its sum");
    let to = from + text[from..].find("\nA/A").expect("the footing follows");
    let told = &text[from..to];
    let flat = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(flat.matches("% of the whole, depending on its place").count(), 2, "{told}");
    assert!(flat.contains("times as much as in its own place") && !text.contains("other orders"), "{told}");
    insta::assert_snapshot!("orders", told);
    let report: serde_json::Value = serde_json::from_str(&render("json", &record, &Style::default())).unwrap();
    let rungs = &report["analysis"]["ladder"]["metrics"][0]["rungs"];
    let is_there = |rung: usize, place: &str| rungs[rung]["orders"][place]["ratio"].is_f64();
    assert_eq!(
        [is_there(0, "last"), is_there(0, "first"), is_there(1, "last"), is_there(1, "first")],
        [true, false, false, true]
    );
}

#[test]
fn profiles_say_what_differs_most() {
    let text = render("terminal", &sample::watched::profiled(), &Style { color: false, width: 80, verbose: true });
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let from = text.find("\nprofile ").expect("it has lines of its own") + 1;
    let to = from + text[from..].find("\nsame bits").expect("more of the footing follows");
    let report: serde_json::Value =
        serde_json::from_str(&render("json", &sample::watched::profiled(), &Style::default())).unwrap();
    let profiles = serde_json::to_string_pretty(&report["analysis"]["profiles"]).unwrap();
    insta::assert_snapshot!("profile", format!("{}\n\n{profiles}\n", &text[from..to]));
}

#[test]
fn what_is_profiled_changes_no_figure() {
    let (with, without) = (analyse(&sample::watched::profiled()), analyse(&record()));
    assert_eq!((with.metrics, with.arms, with.warnings), (without.metrics, without.arms, without.warnings));
    let rows = |record: &Record| render("csv", record, &Style::default());
    assert_eq!(rows(&sample::watched::profiled()), rows(&record()));
}

#[test]
fn advice_says_what_would_win_it_back() {
    let text = render("terminal", &sample::asked::advice(), &Style { color: false, width: 80, verbose: true });
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let to = text.find("\nA/A").expect("the footing follows");
    insta::assert_snapshot!("advice", &text[..to]);
}

#[test]
fn colour_changes_nothing_but_escape_sequences() {
    let plain = render("terminal", &record(), &Style { color: false, width: 80, verbose: true });
    let coloured = render("terminal", &record(), &Style { color: true, width: 80, verbose: true });
    assert_ne!(plain, coloured);
    assert_eq!(bare(&coloured), plain);
    let brief = render("terminal", &record(), &Style { color: true, ..Style::default() });
    assert_eq!(bare(&brief), render("terminal", &record(), &Style::default()));
}

/// Text without escape sequences.
fn bare(coloured: &str) -> String {
    let mut bare = String::new();
    let mut inside = false;
    for c in coloured.chars() {
        match (inside, c) {
            (false, '\u{1b}') => inside = true,
            (true, 'm') => inside = false,
            (false, c) => bare.push(c),
            _ => {}
        }
    }
    bare
}

#[test]
fn terminals_of_any_width_hold_the_lines() {
    for width in [60, 72, 100, 120] {
        let text = render("terminal", &record(), &Style { color: false, width, verbose: true });
        assert!(text.lines().all(|line| line.chars().count() <= width), "at {width} columns:\n{text}");
    }
}

#[test]
fn a_load_from_inside_the_form_is_said_to_be() {
    let mut record = record();
    record.header.study.from = tare_core::load::LoadOrigin::Inside;
    for format in ["terminal", "html"] {
        let text = render(format, &record, &Style { color: false, width: 120, verbose: true });
        assert!(text.contains("from inside the form, by a tool"), "{format}: {text}");
    }
}

#[test]
fn a_control_that_was_void_is_a_row_as_well() {
    let mut record = record();
    let control = record.trials.iter_mut().find(|trial| trial.record.trial.control).expect("the sample has a control");
    let why = tare_core::fault::Fault::new("the control's generator was the limit");
    control.record.outcome = tare_core::trial::Outcome::Invalid { why };
    let text = render("terminal", &record, &Style { color: false, width: 80, verbose: true });
    assert!(text.contains("INVALID: the control's generator was the limit"), "{text}");
}

#[test]
fn csv() {
    insta::assert_snapshot!("csv", render("csv", &record(), &Style::default()));
}

#[test]
fn json() {
    insta::assert_snapshot!("json", render("json", &record(), &Style::default()));
}

#[test]
fn the_comparison_of_two_records() {
    let before = record();
    let mut after = record();
    after.header.run = "m2x8rt".into();
    after.header.environment.insert("kernel".into(), "6.12.9-amd64".into());
    for trial in after.trials.iter_mut().filter(|trial| trial.record.trial.form == "container") {
        if let Some(throughput) = trial.record.metrics.get_mut("throughput") {
            *throughput *= 1.09;
        }
    }
    let text = tare_report::compare(&before, &after, &tare_stats::Occasions::new(), 80);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    insta::assert_snapshot!("compare", text);
}

#[test]
fn nothing_is_rendered_as_nothing() {
    assert_eq!(render("none", &record(), &Style::default()), "");
}

#[test]
fn an_emulated_baseline_is_no_measure_for_any_form() {
    let mut emulated = record();
    let vm = emulated.header.forms["vm"].emulated.clone();
    emulated.header.forms.get_mut("native").unwrap().emulated = vm;
    let text = render("terminal", &emulated, &Style { color: false, width: 100, verbose: true });
    for wanted in ["WARNING    the baseline native ran EMULATED", "0.87 EMULATED", "emulated: no guest booted"] {
        assert!(text.contains(wanted), "{wanted} is missing in:\n{text}");
    }
    for wrong in ["slower", "costs more", "floor "] {
        assert!(!text.contains(wrong), "{wrong} is said in:\n{text}");
    }
    let headline = &serde_json::from_str::<serde_json::Value>(&render("json", &emulated, &Style::default())).unwrap();
    let headline = headline["headlines"][0].as_str().unwrap();
    assert!(headline.starts_with("native, the baseline of container, ran EMULATED: 0.87 times"), "{headline}");
    let page = render("html", &emulated, &Style::default());
    let marked = |page: &str| page.matches("<tr class=\"emulated\">").count();
    // All four arms that were measured, and the form that was not; of the record as it is, the two virtual machines.
    assert_eq!((marked(&page), marked(&render("html", &record(), &Style::default()))), (6, 2));
}

#[test]
fn a_record_without_trials_is_rendered_in_every_format() {
    let mut empty = record();
    empty.trials.clear();
    empty.end = None;
    for format in FORMATS {
        let text = render(format.name, &empty, &Style::default());
        assert!(format.name == "none" || !text.is_empty());
    }
    assert!(render("terminal", &empty, &Style::default()).contains("the run is not complete"));
}

#[test]
fn a_run_that_was_made_to_fit_its_time_says_how_many_blocks_that_were() {
    let mut record = record();
    record.header.study.at_most = Some(std::time::Duration::from_secs(300));
    let blocks = |record: &Record| {
        let text = render("terminal", record, &Style { color: false, width: 80, verbose: true });
        text.lines().find(|line| line.contains("s measured after")).map(str::to_owned).expect("the design is shown")
    };
    assert!(blocks(&record).starts_with("5 blocks, 10 s measured"), "{}", blocks(&record));
    record.trials.retain(|trial| trial.record.trial.block < 3);
    record.end.as_mut().unwrap().how = tare_core::record::FITTED.to_owned();
    assert!(blocks(&record).starts_with("3 blocks of 5, as many as 5m allow, 10 s"), "{}", blocks(&record));
    let warnings = analyse(&record).warnings;
    assert!(
        !warnings.iter().any(|warning| matches!(warning, Warning::Missing { what: Missing::Unfinished { .. } })),
        "{warnings:?}"
    );
}

#[test]
fn a_run_that_was_asked_to_end_says_by_whom_and_misses_nothing() {
    let mut record = record();
    let planned = record.header.plan.len();
    record.trials.retain(|trial| trial.record.trial.block < 3);
    let end = record.end.as_mut().unwrap();
    end.how = tare_core::record::ON_REQUEST.to_owned();
    end.asked_by = Some(tare_core::record::Asker { user: 0, program: Some("bash".to_owned()) });
    let warnings = analyse(&record).warnings;
    assert!(!warnings.iter().any(|warning| matches!(warning, Warning::Missing { .. })), "{warnings:?}");
    let text = render("terminal", &record, &Style { color: false, width: 80, verbose: true });
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let there = record.trials.iter().filter(|trial| trial.record.trial.again.is_none()).count();
    let wanted = format!("root (bash) asked the run to end early, after {there} of {planned} planned trials;");
    assert!(text.contains(&wanted) && text.contains("3 blocks of 5, ended on request, 10 s measured"), "{text}");
}
