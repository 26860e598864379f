//! What the program prints about several records: gate, comparison, history. These records are not measured.

use crate::cli::{one_line as flat, said, tare};
use crate::sample;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tare_core::design::{Arrangement, Chop};
use tare_core::load::LoadProfile;
use tare_core::peak::{PeakPlan, PeakRules};
use tare_core::qos::{Qos, QuantileLimit};
use tare_core::record::Record;
use tare_runner::RecordDir;

/// A folder with records and a history of its own.
struct Desk {
    folder: tempfile::TempDir,
}

impl Desk {
    fn new() -> Desk {
        Desk { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes the sample record with `change` made to it.
    fn record(&self, name: &str, change: impl FnOnce(&mut Record)) -> String {
        let mut record = sample::record();
        name.rsplit('/').next().unwrap_or(name).clone_into(&mut record.header.run);
        change(&mut record);
        let path = self.path(name);
        write_record(&path, &record);
        path.to_str().unwrap().to_owned()
    }

    /// Runs the program and checks its exit code; returns its output, standard output first.
    fn says(&self, code: i32, args: &[&str]) -> String {
        let output = tare().current_dir(self.folder.path()).env("TARE_HOME", self.path("home")).args(args).output();
        let output = output.unwrap();
        let said = said(&output);
        assert_eq!(output.status.code(), Some(code), "tare {args:?}:\n{said}");
        assert!(!said.contains("panicked"), "{said}");
        said
    }
}

/// Writes a whole record.
pub(crate) fn write_record(path: &Path, record: &Record) {
    let written = RecordDir::create(path, &record.header).unwrap();
    record.trials.iter().for_each(|trial| written.write_trial(trial).unwrap());
    written.write_end(record.end.as_ref().unwrap()).unwrap();
}

/// Multiplies the throughput of a form.
fn times(form: &'static str, factor: f64) -> impl FnOnce(&mut Record) {
    move |record| {
        for trial in record.trials.iter_mut().filter(|trial| trial.record.trial.form == form) {
            if let Some(throughput) = trial.record.metrics.get_mut("throughput") {
                *throughput *= factor;
            }
        }
    }
}

const HOSTNET: &str = "container-hostnet";

#[test]
fn a_gate_ends_with_the_code_of_its_outcome() {
    let desk = Desk::new();
    let old = desk.record("old", |_| {});
    let worse = desk.record("worse", times(HOSTNET, 0.8));
    let gate = ["gate", "--record", &old, "--form", HOSTNET];
    let with = |more: &[&'static str]| [&gate[..], more].concat();
    // The sample's form loses 3 %, give or take 2.4 %.
    assert!(desk.says(0, &with(&["--max-overhead", "10%"])).contains("PASS: 1 passed"));
    assert!(desk.says(1, &with(&["--max-overhead", "0.1%"])).contains("FAIL: 0 passed, 1 failed"));
    let said = desk.says(3, &with(&["--max-overhead", "4%"]));
    assert!(said.contains("INCONCLUSIVE") && flat(&said).contains("blocks would decide"), "{said}");
    desk.says(0, &with(&["--max-overhead", "4%", "--on-inconclusive", "pass"]));
    desk.says(1, &with(&["--max-overhead", "4%", "--on-inconclusive", "fail"]));
    let said = desk.says(1, &["gate", "--record", &worse, "--baseline", &old, "--form", HOSTNET]);
    assert!(said.contains("regression: 20 % worse"), "{said}");
    desk.says(0, &["gate", "--record", &old, "--baseline", &old, "--max-regression", "9%"]);
}

#[test]
fn a_gate_writes_json_and_junit() {
    let desk = Desk::new();
    let old = desk.record("old", |_| {});
    let junit = desk.path("gate.xml");
    let args = ["gate", "--record", &old, "--baseline", &old, "--max-overhead", "5%", "--json", "--junit"];
    let said = desk.says(1, &[&args[..], &[junit.to_str().unwrap()]].concat());
    let read: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(read["outcome"], "fail");
    let checks = read["checks"].as_array().unwrap();
    assert_eq!(checks.len(), 4, "two forms that are neither emulated nor left out, two bounds: {checks:#?}");
    let xml = std::fs::read_to_string(&junit).unwrap();
    assert!(xml.starts_with("<?xml") && xml.matches("<testcase ").count() == 4, "{xml}");
}

/// Makes a search of a record, with windows of so many seconds and a limit of so many milliseconds.
fn searched(rules: PeakRules, window_s: u64, limit_ms: u64) -> impl FnOnce(&mut Record) {
    move |record| {
        let closed = LoadProfile::Closed { connections: 1, pipeline: 1 };
        let usual = PeakPlan::usual(&closed, Vec::new()).unwrap();
        record.header.study.peak = Some(PeakPlan { rules, window: Duration::from_secs(window_s), ..usual });
        asks(limit_ms)(record);
    }
}

/// Gives a record a QoS.
fn asks(limit_ms: u64) -> impl FnOnce(&mut Record) {
    move |record| {
        let limit = QuantileLimit { quantile: 0.99, within: Duration::from_millis(limit_ms) };
        let operations = [("get".to_owned(), vec![limit])].into();
        record.header.study.qos = Some(Qos { operations, ..Qos::default() });
    }
}

#[test]
fn a_gate_refuses_peaks_of_another_qos_or_search() {
    let desk = Desk::new();
    let staircase = PeakRules::Staircase;
    let old = desk.record("old", searched(staircase, 15, 5));
    let qos = desk.record("qos", searched(staircase, 15, 6));
    let rules = desk.record("rules", searched(PeakRules::Published, 15, 5));
    let window = desk.record("window", searched(staircase, 30, 5));
    let none = desk.record("none", |_| {});
    for (other, wanted) in [
        (&qos, "the QoS is 'get p99 within 5 ms' in one and 'get p99 within 6 ms' in the other"),
        (&rules, "the search's rules are 'staircase' in one and 'published' in the other"),
        (&window, "the search's window is '15 s' in one and '30 s' in the other"),
        (&none, "the search's rules are 'staircase' in one and 'none' in the other"),
    ] {
        let said = desk.says(2, &["gate", "--record", &old, "--baseline", other]);
        assert!(flat(&said).contains(wanted), "'{wanted}' is missing in:\n{said}");
    }
    // What is not searched is held to no QoS, so its ratios compare; that it differs is said.
    let asked = desk.record("asked", asks(5));
    let said = desk.says(0, &["gate", "--record", &asked, "--baseline", &none, "--max-regression", "9%"]);
    assert!(said.contains("WARNING the QoS: none | get p99 within 5 ms"), "{said}");
}

#[test]
fn mistakes_at_a_gate_come_with_a_hint() {
    let desk = Desk::new();
    let old = desk.record("old", |_| {});
    let other = desk.record("other", |record| record.header.workload.name = "nginx".into());
    let chop = Arrangement::Chop(Chop::default());
    let chopped = desk.record("chopped", |record| record.header.study.design.arrangement = chop);
    let damaged = desk.record("damaged", |_| {});
    std::fs::write(Path::new(&damaged).join("record.json"), "{").unwrap();
    let wrong: &[(&[&str], &str)] = &[
        (&["--record", &old], "add --max-overhead 5%"),
        (&["--record", &old, "--max-overhead", "5"], "write for example 2%"),
        (&["--record", &old, "--max-overhead=-5%"], "write for example 2%"),
        (&["--record", &old, "--max-overhead", "200%"], "cannot lose more than 100%"),
        (&["--record", &old, "--max-regression", "3%"], "--baseline"),
        (&["--record", "nowhere", "--max-overhead", "5%"], "no such directory"),
        (&["--record", &damaged, "--max-overhead", "5%"], "record.json"),
        (&["--max-overhead", "5%"], "no record in ./records"),
        (&["--record", &old, "--baseline", "nowhere"], "no such directory"),
        (&["--record", &old, "--baseline", &other], "the workload is 'redis' in one and 'nginx' in the other"),
        (&["--record", &old, "--baseline", &chopped], "the design is 'blocks' in one and 'chop' in the other"),
        (&["--record", &old, "--max-overhead", "5%", "--form", "kontainer"], "container-hostnet"),
        (&["--record", &old, "--max-overhead", "5%", "--form", "native"], "is the baseline"),
        (&["--record", &old, "--max-overhead", "5%", "--metric", "max_us"], "comparable: throughput"),
        (&["--record", &old, "--max-overhead", "5%", "--junit", "no/such/folder/x.xml"], "could not write"),
    ];
    for (args, hint) in wrong {
        let said = desk.says(2, &[&["gate"], *args].concat());
        assert!(flat(&said).contains(hint), "tare gate {args:?}: '{hint}' is missing in:\n{said}");
    }
}

#[test]
fn a_comparison_can_be_json() {
    let desk = Desk::new();
    let (old, new) = (desk.record("old", |_| {}), desk.record("new", times("container", 1.2)));
    let read: Value = serde_json::from_str(&desk.says(0, &["compare", &old, &new, "--json"])).unwrap();
    assert_eq!((read["before"]["run"].as_str(), read["after"]["run"].as_str()), (Some("old"), Some("new")));
    let change = read["changes"].as_array().unwrap().iter().find(|change| change["form"] == "container").unwrap();
    assert!((change["change"].as_f64().unwrap() - 1.2).abs() < 1e-9, "{change}");
    assert!(desk.says(0, &["compare", &old, &new]).contains("YES"));
}

/// Writes twenty records, the last eight of them with another kernel and 5 % less throughput of one form.
fn twenty(desk: &Desk) {
    for n in 0..20_u32 {
        desk.record(&format!("records/run{n:03}"), |record| {
            record.header.started = format!("2026-03-{:02}T03:00:00Z", n + 1);
            let wobble = 1.0 + 0.003 * f64::from((n * 7) % 11) / 11.0;
            times(HOSTNET, if n < 12 { 1.0 } else { 0.95 } * wobble)(record);
            if n >= 12 {
                record.header.environment.insert("kernel".into(), "6.12.9-amd64".into());
            }
        });
    }
}

#[test]
fn a_history_shows_where_a_form_changed_and_what_else_changed() {
    let desk = Desk::new();
    twenty(&desk);
    let records = desk.path("records");
    let said = desk.says(0, &["history", "--add", records.to_str().unwrap()]);
    assert!(said.contains("CHANGED: throughput of container-hostnet in canonical: -5."), "{said}");
    assert!(said.contains("since run run012"), "{said}");
    let series = desk.says(0, &["history", "canonical", "--form", HOSTNET]);
    assert!(series.contains("environment kernel: 6.1.0-28-amd64 | 6.12.9-amd64"), "{series}");
    let read: Value =
        serde_json::from_str(&desk.says(0, &["history", "canonical", "--metric", "p50_us", "--json"])).unwrap();
    let all = read["series"].as_array().unwrap();
    assert!(all.iter().all(|series| series["changes"].as_array().unwrap().is_empty()), "{all:#?}");
    assert!(all.iter().all(|series| series["form"] != "vm"), "an emulated form has no series");
    assert_eq!(all[0]["points"].as_array().unwrap().len(), 20);
    let list: Value = serde_json::from_str(&desk.says(0, &["history", "--json"])).unwrap();
    assert_eq!(list.as_array().unwrap().len(), 20);
}

#[test]
fn output_about_records_fits_into_eighty_columns() {
    let desk = Desk::new();
    twenty(&desk);
    let old = desk.record("old", |_| {});
    let new = desk.record("new", |record| {
        record.header.environment.insert("kernel".into(), "6.12.9-amd64".into());
        times("container", 1.2)(record);
    });
    let other = desk.record("other", |record| record.header.workload.name = "nginx".into());
    let (one, two, records) = (format!("1={old}"), format!("2={new}"), desk.path("records"));
    let said: &[(i32, &[&str])] = &[
        (0, &["history", "--add", records.to_str().unwrap()]),
        (0, &["history"]),
        (0, &["history", "canonical"]),
        (0, &["history", "canonical", "--form", HOSTNET, "--metric", "p99_us"]),
        (0, &["report", &old]),
        (0, &["compare", &old, &new]),
        (1, &["gate", "--record", &new, "--baseline", &old, "--max-overhead", "5%", "--metric", "p99_us"]),
        (0, &["scaling", "--at", &one, "--at", &two]),
        (2, &["scaling", &old]),
        (2, &["scaling", "--at", "old"]),
        (2, &["gate", "--record", &old, "--baseline", &other]),
        (2, &["gate", "--record", &old, "--max-overhead", "5%", "--metric", "max_us"]),
        (2, &["gate", "--record", &old, "--max-overhead", "5%", "--form", "kontainer"]),
        (2, &["history", "of-nothing"]),
    ];
    for (code, args) in said {
        let said = desk.says(*code, args);
        // A single word, such as a path, may be as long as it is.
        let wide = |line: &&str| line.chars().count() > 80 && line.trim().contains(' ');
        assert_eq!(said.lines().find(wide), None, "tare {args:?}:\n{said}");
    }
}

#[test]
fn a_history_names_what_it_has_instead() {
    let desk = Desk::new();
    assert!(desk.says(0, &["history"]).contains("no runs yet"));
    let says = |code, args: &[&str]| flat(&desk.says(code, args));
    assert!(says(2, &["history", "canonical"]).contains("--add RECORD"));
    let one = desk.record("one", |_| {});
    desk.says(0, &["history", "--add", &one]);
    assert!(says(0, &["history", "canonical"]).contains("1 record(s): finding a change takes 12"));
    assert!(says(2, &["history", "canonnical"]).contains("studies: canonical"));
    assert!(says(2, &["history", "--form", "box"]).contains("container-hostnet"));
    assert!(says(2, &["history", "--metric", "speed"]).contains("throughput"));
    desk.says(0, &["history", "--study", "canonical"]);
}

/// A trial's files are removed, and with them the basis of the figures.
#[test]
fn every_reader_notices_a_missing_trial() {
    let desk = Desk::new();
    let (whole, cut) = (desk.record("whole", |_| {}), desk.record("cut", |_| {}));
    std::fs::remove_dir_all(Path::new(&cut).join("trials/0003")).unwrap();
    let said = flat(&desk.says(0, &["report", &cut]));
    assert!(said.contains("not whole: 1 trial") && said.contains("trial 3"), "{said}");
    assert!(!flat(&desk.says(0, &["report", &whole])).contains("not whole"));
    let read: Value = serde_json::from_str(&desk.says(0, &["report", &cut, "--format", "json"])).unwrap();
    assert_eq!(read["analysis"]["trials_lost"], serde_json::json!([3]));
    assert!(flat(&desk.says(0, &["compare", &whole, &cut])).contains("WARNING after: the record is not whole"));
    let said = flat(&desk.says(0, &["history", "--add", &cut]));
    assert!(said.contains("complete, but 1 of its trials is missing"), "{said}");
    // It is incomplete, so it can be resumed; users other than root get no further than that.
    if !rustix::process::geteuid().is_root() {
        assert!(flat(&desk.says(1, &["resume", &cut])).contains("1 trial(s) are missing from the record"));
    }
    assert!(flat(&desk.says(0, &["resume", &whole])).contains("every trial is on disk"));
}

#[test]
fn a_path_without_a_record_is_a_mistake_everywhere() {
    let desk = Desk::new();
    let record = desk.record("records/old", |_| {});
    let (folder, file) = (desk.path("records"), desk.path("records/old/record.json"));
    let (folder, file) = (folder.to_str().unwrap(), file.to_str().unwrap());
    std::fs::create_dir(desk.path("empty")).unwrap();
    for (wrong, hint) in [
        ("nowhere", "tare history"),
        ("empty", "tare history"),
        (folder, record.as_str()),
        (file, "name its directory"),
    ] {
        let at = format!("2={wrong}");
        let mut commands: Vec<Vec<&str>> = vec![
            vec!["report", wrong],
            vec!["compare", wrong, &record],
            vec!["compare", &record, wrong],
            vec!["gate", "--max-overhead", "5%", "--record", wrong],
            vec!["gate", "--record", &record, "--baseline", wrong],
            vec!["scaling", wrong],
            vec!["scaling", "--at", &at],
            vec!["resume", wrong],
        ];
        if wrong != folder {
            commands.push(vec!["history", "--add", &record, "--add", wrong]);
        }
        for command in commands {
            let said = flat(&desk.says(2, &command));
            assert!(
                said.contains("to do: ") && said.contains(hint),
                "tare {command:?}: '{hint}' is missing in:\n{said}"
            );
        }
    }
}

#[test]
fn every_damage_of_a_record_comes_with_a_remedy() {
    let desk = Desk::new();
    let cut = |text: &str| text[..text.len() / 2].to_owned();
    type Edit<'a> = &'a dyn Fn(&str) -> Option<String>;
    let edits: [(&str, &str, Edit, &str); 9] = [
        ("record.json", "could not read", &|text| Some(cut(text)), "from a copy"),
        (
            "record.json",
            "older than format",
            &|text| Some(text.replacen("\"schema\": 1", "\"schema\": 0", 1)),
            "read it with Tare",
        ),
        (
            "record.json",
            "newer than format",
            &|text| Some(text.replacen("\"schema\": 1", "\"schema\": 2", 1)),
            "or a newer one",
        ),
        ("record.json", "no 'schema'", &|_| Some("{\"name\": \"music\"}".into()), "tare history"),
        ("end.json", "end.json", &|text| Some(cut(text)), "remove"),
        ("trials/0001/trial.json", "it is damaged", &|text| Some(cut(text)), "`tare resume`"),
        ("trials/0001/trial.json", "is missing", &|_| None, "`tare resume`"),
        ("trials/0001/telemetry.jsonl", "is missing", &|_| None, "`tare resume`"),
        ("trials/0001/seconds.jsonl", "seconds.jsonl:1", &|text| Some(format!("{{\n{text}")), "`tare resume`"),
    ];
    for (number, (file, what, edit, hint)) in edits.into_iter().enumerate() {
        let record = desk.record(&format!("r{number}"), |_| {});
        let path = Path::new(&record).join(file);
        match edit(&std::fs::read_to_string(&path).unwrap()) {
            Some(text) => std::fs::write(&path, text).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
        let said = flat(&desk.says(2, &["report", &record]));
        let todo = said.split("to do: ").nth(1).unwrap_or_else(|| panic!("nothing to do in:\n{said}"));
        assert!(said.contains(what) && todo.contains(hint), "'{what}' or '{hint}' is missing in:\n{said}");
    }
    let record = desk.record("bare", |_| {});
    std::fs::remove_dir_all(Path::new(&record).join("trials")).unwrap();
    assert!(flat(&desk.says(2, &["report", &record])).contains("to do: restore it"));
}

#[test]
fn a_torn_last_line_is_left_out_by_every_reader() {
    let desk = Desk::new();
    let record = desk.record("torn", |_| {});
    for file in ["trials/0000/seconds.jsonl", "trials/0001/telemetry.jsonl"] {
        let path = Path::new(&record).join(file);
        let text = std::fs::read(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 9]).unwrap();
    }
    std::fs::write(Path::new(&record).join("events.jsonl"), "{\"at\": \"2026").unwrap();
    let whole = desk.record("whole", |_| {});
    desk.says(0, &["compare", &record, &whole]);
    desk.says(0, &["history", "--add", &record]);
    desk.says(0, &["resume", &record]);
    let html = desk.says(0, &["report", &record, "--format", "html"]);
    assert!(html.contains("line of seconds.jsonl is incomplete") && html.contains("of telemetry.jsonl is incomplete"));
}

#[test]
fn an_unreadable_record_does_not_keep_others_out_of_the_history() {
    let desk = Desk::new();
    for name in ["a", "b", "c"] {
        desk.record(&format!("records/{name}"), |_| {});
    }
    let damaged = desk.path("records/b/record.json");
    std::fs::write(&damaged, "{").unwrap();
    let folder = desk.path("records");
    let said = desk.says(1, &["history", "--add", folder.to_str().unwrap()]);
    assert!(said.contains("[a]") && said.contains("[c]") && !said.contains("[b]"), "{said}");
    let (named, todo) = (damaged.to_str().unwrap(), "from a copy");
    assert!(said.contains(named) && said.contains(todo) && said.contains("1 of 3 records were not added"), "{said}");
    let list: Value = serde_json::from_str(&desk.says(0, &["history", "--json"])).unwrap();
    assert_eq!(list.as_array().unwrap().len(), 2);
    // If no record can be read, the command fails.
    desk.says(2, &["history", "--add", desk.path("records/b").to_str().unwrap()]);
}

#[test]
fn a_sweep_accepts_two_records_of_one_number_but_none_twice() {
    let desk = Desk::new();
    let at = |n: u32, path: &str| format!("{n}={path}");
    let (one, two, again) = (desk.record("one", |_| {}), desk.record("two", |_| {}), desk.record("again", |_| {}));
    let (one, two, again) = (at(1, &one), at(2, &two), at(2, &again));
    let said = desk.says(0, &["scaling", "--at", &one, "--at", &two, "--at", &again]);
    assert!(said.contains("CAUTION 2 records with 2 instances"), "{said}");
    let said = desk.says(2, &["scaling", "--at", &one, "--at", &two, "--at", &two]);
    assert!(said.contains("run two is named twice, at 2 and at 2") && said.contains("to do: "), "{said}");
}

#[test]
fn a_metric_is_known_by_its_short_name() {
    let desk = Desk::new();
    let old = desk.record("old", |_| {});
    desk.says(0, &["history", "--add", &old]);
    for (word, name) in
        [("p50", "p50_us"), ("p99", "p99_us"), ("throughput", "throughput"), ("cpu", "cpu_busy_us_per_op")]
    {
        let args = ["gate", "--record", &old, "--max-overhead", "90%", "--form", HOSTNET, "--json", "--metric", word];
        let read: Value = serde_json::from_str(&desk.says(0, &args)).unwrap();
        assert_eq!(read["checks"][0]["metric"], name);
        let series = desk.says(0, &["history", "canonical", "--json", "--metric", word]);
        let read: Value = serde_json::from_str(&series).unwrap();
        assert_eq!(read["series"][0]["metric"], name);
    }
    for (word, hint) in [("p95", "unknown metric 'p95'"), ("p999", "metric 'p999' is shown but not compared")] {
        for args in [&["gate", "--record", &old, "--max-overhead", "90%"][..], &["history", "canonical"]] {
            let said = flat(&desk.says(2, &[args, &["--metric", word]].concat()));
            assert!(said.contains(hint) && said.contains("throughput, p50_us, p99_us, cpu_busy_us_per_op"), "{said}");
        }
    }
}

#[test]
fn a_dry_run_knows_how_long_trials_took_on_this_machine() {
    let desk = Desk::new();
    let blocks = desk.path("blocks.yaml");
    let text = std::fs::read_to_string("../../studies/canonical.yaml").unwrap().replace("chop\n", "blocks\n");
    let text = text.replace("until: {half_width: 1%, at_most: 5m}", "repeat: 5");
    std::fs::write(&blocks, text.replace("500ms, measure: 3s", "1s, measure: 8s")).unwrap();
    let dry = |more: &[&str]| {
        let said = desk.says(0, &[&["run", blocks.to_str().unwrap(), "--dry-run", "--seed", "1"], more].concat());
        assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
        flat(&said)
    };
    let two = ["--form", "container-hostnet"];
    // Five blocks of three trials of 1 s + 8 s, each a deployment of 3 s.
    let before = dry(&two);
    assert!(
        before.contains(
            "15 trials in 5 blocks, about 3m 00s (a trial is guessed to take 3 s in addition to its load: no earlier"
        ),
        "{before}"
    );
    // The sample's trials take 2.3 s in addition to their load.
    let one = desk.record("one", |_| {});
    desk.says(0, &["history", "--add", &one]);
    let after = dry(&two);
    assert!(after.contains("15 trials in 5 blocks, about 2m 49s (based on earlier trials)"), "{after}");
    let all = dry(&["--form", "container-hostnet", "--form", "vm"]);
    assert!(all.contains("(a trial of vm is guessed to take 3 s in addition to its load: no earlier trials)"), "{all}");
    // Slower runs change the prediction, which uses the median of the latest ones.
    for run in ["two", "three"] {
        let slow = |record: &mut Record| {
            record.header.started = format!("2026-04-0{}T00:00:00Z", run.len());
            for trial in &mut record.trials {
                *trial.record.stages.entry(tare_core::trial::Stage::Deploy).or_default() += 30.0;
            }
        };
        desk.says(0, &["history", "--add", &desk.record(run, slow)]);
    }
    let slow = dry(&two);
    assert!(slow.contains("about 10m 19s (based on"), "{slow}");
    let profiled = dry(&["--form", "container-hostnet", "--profile"]);
    assert!(profiled.contains("15 trials in 5 blocks and 2 profiled after them, about 11m 42s"), "{profiled}");
    assert!(profiled.contains("profiled: native, container-hostnet"), "{profiled}");
    let fit = dry(&["--form", "container-hostnet", "--at-most", "7m"]);
    assert!(fit.contains("about 3 of 5 blocks fit into 7m: 9 trials, about 6m 11s"), "{fit}");
    // Two fit, of 8 s each; of 3 s, three do.
    let short = dry(&["--form", "container-hostnet", "--at-most", "330s"]);
    assert!(short.contains("each trial measures 3 s instead of 8 s"), "{short}");
    assert!(short.contains("1 s to settle, 3 s measured") && !short.contains("warning"), "{short}");
    let typed = dry(&["--form", "container-hostnet", "--at-most", "330s", "--measure", "8s"]);
    assert!(typed.contains("warning: 5m 30s is time for about 2 of 5 blocks; intervals need 3"), "{typed}");
}
