//! A load in steps, level by level, in every format.

use crate::sample;

use sample::scratch;
use sample::stepped::{LEVELS, stepped};
use tare_core::load::LoadProfile;
use tare_core::record::{Record, SCHEMA, SuiteHeader};
use tare_core::study::Part;
use tare_report::{FORMATS, Style, render_suite};
use tare_stats::analyse;

fn render(format: &str, record: &Record, width: usize) -> String {
    let row = FORMATS.iter().find(|row| row.name == format).expect("the format is in the table");
    (row.render)(record, &analyse(record), &Style { color: false, width, verbose: true })
        .expect("the sample can be rendered")
}

/// The same as the only part of a suite.
fn render_part(format: &str, mut record: Record, shows: &[&str]) -> String {
    let header = SuiteHeader {
        schema: SCHEMA,
        tare: "0.1.0".into(),
        study: "ways".into(),
        question: "How fast does it answer on the way to its peak?".into(),
        preset: None,
        started: "2026-03-05T10:14:02Z".into(),
        command: "tare run ways".into(),
        parts: vec!["curve".into()],
    };
    let shows = shows.iter().map(|name| (*name).to_owned()).collect();
    let (of, name, panel) = ("ways".into(), "curve".into(), "response times over users".into());
    record.header.study.part = Some(Part { of, name, panel, shows, published: None });
    let analysis = analyse(&record);
    render_suite(&header, &[(&record, analysis)], format, &Style::default()).expect("the part can be rendered")
}

#[test]
fn the_terminal_has_a_row_a_level_and_a_column_a_form() {
    for width in [60, 80, 120] {
        let text = render("terminal", &stepped(), width);
        assert!(text.lines().all(|line| line.chars().count() <= width), "at {width} columns:\n{text}");
        assert!(text.lines().all(|line| line.trim_end() == line) && text.is_ascii(), "{text}");
    }
    let text = render("terminal", &stepped(), 80);
    let from = text.find("by level (").expect("it has a part of its own");
    let to = from + text[from..].find("\nCPU time per operation").expect("services follow");
    insta::assert_snapshot!("levels", &text[from..to]);
    let part = render_part("terminal", stepped(), &["p99_us"]);
    assert!(part.contains("p99 over all levels together") && !part.contains("\nmean\n"), "{part}");
}

#[test]
fn the_pages_draw_a_chart_for_each_metric() {
    let page = render("html", &stepped(), 80);
    let part = render_part("html", stepped(), &["mean_us", "throughput"]);
    std::fs::write(scratch().join("levels.html"), &page).expect("the scratch folder can be written to");
    std::fs::write(scratch().join("levels-suite.html"), &part).expect("the scratch folder can be written to");
    assert_eq!(
        (page.matches("<figure class=\"small\">").count(), part.matches("<figure class=\"small\">").count()),
        (4, 2)
    );
    for wanted in
        ["broke the QoS at", "class=\"ring\"", "first at 1,000 users in 4 of 4 trials", "left out", "EMULATED"]
    {
        assert!(page.contains(wanted) && part.contains(wanted), "{wanted} is missing");
    }
    assert!(!page.contains("NaN") && !part.contains("<figure>\n<figcaption><ul"), "no bars of all levels together");
    assert!(!render("html", &sample::record(), 80).contains("Level by level"), "a load of one level has none");
}

#[test]
fn programs_get_every_level() {
    let csv = render("csv", &stepped(), 80);
    for level in LEVELS {
        for metric in ["throughput", "mean_us", "cpu_us_per_op"] {
            assert!(csv.contains(&format!(",{metric}@{level},")), "{metric} at {level} is missing");
        }
    }
    assert!(!csv.contains(",p99_us@250,") && csv.contains(",p99_us@500,"), "1,000 answers make a p99");
    let report: serde_json::Value = serde_json::from_str(&render("json", &stepped(), 80)).unwrap();
    let response = &report["analysis"]["response"];
    assert_eq!((&response["of"], response["levels"].as_array().unwrap().len()), (&"users".into(), LEVELS.len()));
    let throughput = &response["metrics"][0];
    assert_eq!(throughput["levels"][0][0]["values"].as_array().unwrap().len(), 5, "{throughput:#}");
    let hostnet = response["fared"].as_array().unwrap().iter().find(|arm| arm["arm"] == "container-hostnet").unwrap();
    assert_eq!((&hostnet["levels"][5]["limited"], &hostnet["levels"][5]["trials"]), (&1.into(), &4.into()));
}

#[test]
fn the_service_that_pays_most_is_told_first() {
    let text = render("terminal", &stepped(), 80);
    let from = text.find("CPU time per operation by service at 750 users").expect("it has a part of its own");
    let to = from + text[from..].find("\nA/A").expect("the footing follows");
    insta::assert_snapshot!("costs", &text[from..to]);
    let page = render("html", &stepped(), 80);
    let part = render_part("html", stepped(), &["mean_us"]);
    for wanted in ["container at 750 users: web takes 1.6", "as its guest counts", "rest of hypervisor", ">together<"] {
        assert!(page.contains(wanted) && part.contains(wanted), "{wanted} is missing");
    }
    assert_eq!(page.matches("class=\"f1 part\"").count(), LEVELS.len() * 4, "a part in every bar, and no control");
    assert!(render("csv", &stepped(), 80).contains(",cpu_us_per_op:web@100,us,"));
    let one = render("html", &sample::record(), 80);
    assert!(!one.contains("Which service costs what"), "one service is the whole");
}

#[test]
fn a_load_that_stays_as_it_is_has_costs_by_service_too() {
    let mut record = stepped();
    let LoadProfile::Steps { of, .. } = record.header.study.load.clone() else { panic!("the sample has steps") };
    record.header.study.load = *of;
    let text = render("terminal", &record, 80);
    assert!(text.contains("CPU time per operation by service\n") && !text.contains("by level"), "{text}");
    assert!(text.contains("container: web takes "), "{text}");
}
