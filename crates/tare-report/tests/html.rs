//! The page: self-contained, well-formed, and safe against what a record may hold.

use crate::sample;

use sample::{record, scratch};
use tare_core::record::Record;
use tare_core::trial::Outcome;
use tare_report::{FORMATS, Style};
use tare_stats::analyse;

fn page(record: &Record) -> String {
    let row = FORMATS.iter().find(|row| row.name == "html").expect("the format is in the table");
    (row.render)(record, &analyse(record), &Style::default()).expect("the sample can be rendered")
}

#[test]
fn the_sample_page_says_what_it_must() {
    let page = page(&record());
    std::fs::write(scratch().join("sample.html"), &page).expect("the scratch folder can be written to");
    for wanted in [
        "What does each form cost one Redis server?",
        "container serves 0.8",
        "EMULATED",
        "class=\"floor\"",
        "url(#hatch",
        "no container engine",
        "Address already in use",
        "canonical.yaml --seed 7",
        "Same bits",
        "sha256:",
        "prefers-color-scheme",
        "@media print",
        "heat-interrupts",
        "by redis",
        "Threads seen on",
        "<td>3.00</td><td>12.0 ms</td>",
    ] {
        assert!(page.contains(wanted), "{wanted} is missing");
    }
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let page = page(&record());
    for forbidden in ["<script", "<link", "<img", "<iframe", "@import", "@font-face", "http:", "https:", "javascript:"]
    {
        assert!(!page.to_lowercase().contains(forbidden), "{forbidden} is in the page");
    }
    let outside = page.split("url(").skip(1).filter(|rest| !rest.starts_with('#')).count();
    assert_eq!(outside, 0, "a style refers to something outside of the page");
}

#[test]
fn profiles_are_flame_graphs_tables_and_one_script_that_is_ours() {
    let page = page(&sample::watched::profiled());
    std::fs::write(scratch().join("profile.html"), &page).expect("the scratch folder can be written to");
    for wanted in [
        "<h2>Profiles</h2>",
        "Flame graph of native",
        "Difference from native",
        "class=\"flame\"",
        "flame-more",
        "nf_&lt;hook&gt;_[k]",
        "epoll_wait",
        "No call stacks: could not sample call stacks (perf_event_open): not permitted (to do: run as root).",
        "script-src 'sha256-",
    ] {
        assert!(page.contains(wanted), "{wanted} is missing");
    }
    assert_eq!((page.matches("<script").count(), page.matches("class=\"flame\"").count()), (1, 3));
    assert!(!page.contains("http:") && !page.contains("https:"), "the page needs something from elsewhere");
}

#[test]
fn a_ladder_is_drawn_as_a_waterfall() {
    let mut record = sample::asked::ladder();
    // By what was charged to the service a rung costs nothing, by what the machine did it does.
    for trial in &mut record.trials {
        trial.record.metrics.remove("cpu_busy_us_per_op");
    }
    let page = page(&record);
    std::fs::write(scratch().join("ladder.html"), &page).expect("the scratch folder can be written to");
    for wanted in
        ["Which part costs what", "step loss", "step even", "step whole", "network namespace, veth and bridge"]
    {
        assert!(page.contains(wanted), "{wanted} is missing");
    }
    assert_balanced(&page);
    assert!(!self::page(&sample::record()).contains("Which part costs what"));
}

#[test]
fn advice_has_a_section_of_its_own() {
    let page = page(&sample::asked::advice());
    for wanted in ["What would win it back", "host-network", "given up: isolation of the network", "container.missing"]
    {
        assert!(page.contains(wanted), "{wanted} is missing");
    }
    assert_balanced(&page);
    assert!(!self::page(&record()).contains("What would win it back"));
}

#[test]
fn what_keeps_every_ratio_from_a_verdict_is_said_once() {
    let mut record = record();
    record.trials.retain(|trial| trial.record.trial.block == 2);
    let page = page(&record);
    let reason = "no verdict: 1 block measured, 3 needed";
    assert_eq!(page.matches(&format!("<p class=\"why\">\u{2013} {reason}.</p>")).count(), 1);
    assert!(page.contains(&format!("<small title=\"{reason}\">\u{2013}</small>")), "a tooltip says it in each cell");
    assert!(!page.contains(&format!("<small>{reason}")), "and no cell does");
    assert_balanced(&page);
}

#[test]
fn tags_are_balanced() {
    assert_balanced(&page(&record()));
}

/// Every tag of the text is closed in its order.
pub(crate) fn assert_balanced(page: &str) {
    let mut open: Vec<String> = Vec::new();
    for piece in page.split('<').skip(1) {
        let tag = piece.split('>').next().unwrap_or_default();
        let name: String = tag.trim_start_matches('/').chars().take_while(char::is_ascii_alphanumeric).collect();
        if tag.starts_with('!') || tag.ends_with('/') || ["meta", "br"].contains(&name.as_str()) {
            continue;
        }
        if tag.starts_with('/') {
            assert_eq!(open.pop().as_deref(), Some(name.as_str()), "before: {}", &piece[..piece.len().min(80)]);
        } else {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
}

/// The sample with this text in whatever a record has of others.
pub(crate) fn hostile(evil: &str) -> Record {
    let mut record = record();
    let header = &mut record.header;
    for text in [
        &mut header.run,
        &mut header.command,
        &mut header.started,
        &mut header.tare,
        &mut header.study.name,
        &mut header.study.question,
        &mut header.workload.name,
        &mut header.workload.about,
        &mut header.workload.services[0].name,
    ] {
        text.push_str(evil);
    }
    header.environment.insert(evil.into(), evil.into());
    header.bundles.insert(evil.into(), evil.into());
    header.placement.insert(evil.into(), evil.into());
    let evil_form = |form: &mut String| *form = format!("{form}{evil}");
    evil_form(&mut header.study.baseline);
    header.study.forms.iter_mut().for_each(|form| evil_form(&mut form.name));
    header.plan.iter_mut().for_each(|trial| evil_form(&mut trial.form));
    let states = std::mem::take(&mut header.forms);
    for (mut form, mut state) in states {
        evil_form(&mut form);
        state.describe.push_str(evil);
        state.facts.insert(evil.into(), evil.into());
        header.forms.insert(form, state);
    }
    for trial in &mut record.trials {
        let trial = &mut trial.record;
        evil_form(&mut trial.trial.form);
        trial.path.push_str(evil);
        trial.warnings.push(evil.into());
        trial.logs.insert(evil.into(), evil.into());
        trial.facts.insert(evil.into(), evil.into());
        if let Outcome::Failed { why, .. } = &mut trial.outcome {
            why.message.push_str(evil);
            why.remedy.push_str(evil);
            why.log.push_str(evil);
        }
        for files in std::mem::take(&mut trial.mapped).into_values() {
            let files = files.into_iter().map(|mut file| {
                file.path.push_str(evil);
                file
            });
            trial.mapped.insert(format!("redis{evil}"), files.collect());
        }
        for mut report in std::mem::take(&mut trial.resources).into_values() {
            report.properties.values_mut().for_each(|property| property.value.push_str(evil));
            trial.resources.insert(format!("redis{evil}"), report);
        }
        if let Some(load) = &mut trial.load {
            load.facts.insert(evil.into(), evil.into());
            load.checks.iter_mut().for_each(|check| {
                check.passed = false;
                check.detail.push_str(evil);
            });
        }
    }
    record
}

#[test]
fn whatever_the_record_holds_is_shown_as_text() {
    let record = hostile("</svg></style><script>alert(1)</script><img src=x onerror='a' \"b\">");
    let page = page(&record);
    assert!(page.contains("&lt;script&gt;alert(1)") || page.contains("&lt;script>alert(1)"), "it is shown");
    assert!(!page.contains("<script") && !page.contains("<img"), "and never as markup");
}
