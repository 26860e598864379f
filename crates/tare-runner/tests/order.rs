//! The order in which a run does things, what it keeps when something fails, and how it goes on: on hosts that only
//! write down what is asked of them, under a clock that only the test moves.

use crate::stage;

use stage::{Trouble, fresh, header, outcomes, run, run_with};
use std::time::Duration;
use tare_core::load::{LoadOrigin, LoadProfile};
use tare_core::study::Study;
use tare_core::telemetry::RestHalf;
use tare_core::trial::{Outcome, Stage};
use tare_runner::{Ending, Event, RecordDir, read_record};

#[test]
fn a_trial_goes_through_its_stages_in_order_and_leaves_nothing_open() {
    let (_folder, path) = fresh();
    let ran = run(&path, &header(&["plain"], 1), &[], None);
    let one = [
        "open plain",
        "resources",
        "start toy",
        "drive Ready",
        "drive Populate",
        "begin probe",
        "drive Run",
        "end probe",
        "files of toy",
        "stop toy",
        "close",
    ];
    // The control comes second, on a deployment of its own, without another look at resources and files.
    let again = one.iter().filter(|step| !["resources", "files of toy"].contains(step));
    let wanted: Vec<&str> = one.iter().chain(again).copied().collect();
    assert_eq!(ran.log, wanted);
    assert_eq!(ran.ending, Ending::Complete);
    let stages: Vec<Stage> = ran
        .events
        .iter()
        .filter_map(|e| if let Event::StageStarted { stage } = e { Some(*stage) } else { None })
        .collect();
    use Stage::{Deploy, Measure, Populate, Provision, Settle, Teardown, Verify};
    assert_eq!(stages[..7], [Provision, Deploy, Populate, Settle, Measure, Verify, Teardown]);
    assert!(read_record(&path).unwrap().end.is_some_and(|end| end.how == "complete"));
}

#[test]
fn the_samplers_rest_while_a_closed_load_runs_long_enough_and_never_at_its_ends() {
    let folder = tempfile::tempdir().unwrap();
    let rests = |name: &str, change: &dyn Fn(&mut Study)| -> Vec<String> {
        let mut header = header(&["plain"], 2);
        change(&mut header.study);
        let ran = run(&folder.path().join(name), &header, &[], None);
        assert_eq!(ran.ending, Ending::Complete);
        let at = |step: &str| ran.log.iter().position(|said| said.starts_with(step));
        if let (Some(rest), Some(begun), Some(driven)) = (at("rest"), at("begin probe"), at("drive Run")) {
            assert!(begun < rest && rest < driven, "{:?}", ran.log);
        }
        ran.log.into_iter().filter(|step| step.starts_with("rest")).collect()
    };
    let closed = LoadProfile::Closed { connections: 1, pipeline: 1 };
    let of = |seconds: u64| {
        let (load, measure) = (closed.clone(), Duration::from_secs(seconds));
        move |study: &mut Study| (study.load, study.measure) = (load.clone(), measure)
    };
    // After a second of settling, in one half of four seconds in the middle; the control is in the same block.
    assert_eq!(rests("short", &of(9)), Vec::<String>::new());
    assert_eq!(rests("usual", &of(10)), [["rest at 6s for 2s"; 2], ["rest at 4s for 2s"; 2]].concat());
    assert_eq!(
        rests("long", &of(40)),
        [["rest at 11s for 2s, 31s for 2s"; 2], ["rest at 9s for 2s, 29s for 2s"; 2]].concat()
    );
    let trials = read_record(&folder.path().join("usual")).unwrap().trials;
    let halves = trials.iter().map(|trial| trial.record.rest_half).collect::<Vec<_>>();
    assert_eq!(halves, [[Some(RestHalf::Second); 2], [Some(RestHalf::First); 2]].concat());
    let beside = |study: &mut Study| {
        of(40)(study);
        study.from = LoadOrigin::Inside;
    };
    assert_eq!(rests("inside", &beside), Vec::<String>::new());
}

#[test]
fn every_trouble_is_a_row_and_the_other_trials_go_on() {
    let (_folder, path) = fresh();
    let troubles = [
        ("a-open", Trouble::Open),
        ("b-absent", Trouble::Absent),
        ("c-start", Trouble::Start),
        ("d-never-ready", Trouble::NeverReady),
        ("e-dies", Trouble::DiesUnderLoad),
        ("f-wrong", Trouble::WrongAnswers),
        ("h-close", Trouble::Close),
    ];
    let mut forms = vec!["plain"];
    forms.extend(troubles.iter().map(|(form, _)| *form));
    let ran = run(&path, &header(&forms, 2), &troubles, None);
    assert_eq!(ran.ending, Ending::Complete);
    let outcomes = outcomes(&path);
    assert_eq!(outcomes["plain"], [Outcome::Measured, Outcome::Measured]);
    assert_eq!(outcomes["h-close"], [Outcome::Measured, Outcome::Measured]);
    let check = |form: &str, stage: Stage, text: &str| {
        for outcome in &outcomes[form] {
            assert!(matches!(outcome, Outcome::Failed { stage: at, .. } if *at == stage), "{form}: {outcome:?}");
            assert!(outcome.why().unwrap().message.contains(text), "{form}: {outcome:?}");
        }
    };
    check("a-open", Stage::Provision, "would not open");
    check("c-start", Stage::Deploy, "port 7000 is taken");
    check("d-never-ready", Stage::Deploy, "not ready within");
    check("e-dies", Stage::Measure, "killed by signal 9");
    assert!(matches!(&outcomes["b-absent"][0], Outcome::Skipped { why } if why.remedy == "install one"));
    assert!(matches!(&outcomes["f-wrong"][0], Outcome::Invalid { why } if why.message.contains("counts")));
    // Whatever was opened was closed.
    let count = |what: &str| ran.log.iter().filter(|line| line.starts_with(what)).count();
    let refused = outcomes["a-open"].len() + outcomes["b-absent"].len();
    assert_eq!(count("open"), count("close") + refused);
}

#[test]
fn what_a_service_fails_at_is_measured_and_not_repeated_away() {
    let (folder, path) = fresh();
    let troubles = [("refuses", Trouble::Refuses)];
    run(&path, &header(&["plain", "refuses"], 3), &troubles, None);
    let record = read_record(&path).unwrap();
    assert_eq!(record.trials.len(), 9, "no block is run again");
    for trial in record.trials.iter().map(|trial| &trial.record).filter(|trial| trial.trial.form == "refuses") {
        assert_eq!((&trial.outcome, trial.metrics["failed_share"]), (&Outcome::Measured, 0.75), "{trial:?}");
        assert!(!trial.metrics.contains_key("p50_us") && trial.at_least["p50_us"] > 99.0, "{trial:?}");
        assert!(trial.warnings.iter().any(|said| said.contains("75.0000 %")), "{:?}", trial.warnings);
        assert!(trial.warnings.iter().any(|said| said.contains("could be reached")), "{:?}", trial.warnings);
    }
    // A service that dies under load has died, and a second run of the block would not undo it.
    let path = folder.path().join("dies");
    run(&path, &header(&["plain", "dies"], 3), &[("dies", Trouble::DiesUnderLoad)], None);
    let record = read_record(&path).unwrap();
    assert_eq!(record.trials.len(), 9, "no block is run again");
    let dead = record.trials.iter().filter(|trial| trial.record.service_ended.as_deref() == Some("toy")).count();
    assert_eq!(dead, 3);
}

#[test]
fn a_form_that_dies_now_and_then_before_it_is_loaded_is_not_repeated_away() {
    let folder = tempfile::tempdir().unwrap();
    for (trouble, stage, said) in [
        (Trouble::DiesAtStart, Stage::Deploy, "service toy ended before it was ready: killed by signal 9"),
        (Trouble::DiesWhileFilled, Stage::Populate, "service toy ended under load: killed by signal 9"),
    ] {
        let path = folder.path().join(stage.to_string());
        let once = |form: &str, opened| if form == "box" && opened == 2 { trouble } else { Trouble::None };
        assert_eq!(run_with(&path, &header(&["plain", "box"], 6), &once, None).ending, Ending::Complete);
        let record = read_record(&path).unwrap();
        assert_eq!(record.trials.len(), 18, "no block is run again");
        let dead = record.trials.iter().find(|trial| trial.record.service_ended.is_some()).unwrap();
        assert_eq!(dead.record.service_ended.as_deref(), Some("toy"));
        assert!(matches!(&dead.record.outcome, Outcome::Failed { stage: at, .. } if *at == stage), "{dead:?}");
        assert!(dead.record.outcome.why().unwrap().message.starts_with(said), "{dead:?}");
        let analysis = tare_stats::analyse(&record);
        let throughput = analysis.metrics.iter().find(|metric| metric.name == "throughput").unwrap();
        let ratio = throughput.ratios.iter().find(|ratio| ratio.arm == "box").unwrap();
        assert_eq!(ratio.bound.map(|bound| bound.side), Some(tare_stats::Side::AtMost), "{ratio:?}");
        let row = analysis.failed.iter().find(|row| row.arm == "box").unwrap();
        assert_eq!(row.ended, [dead.record.trial.index]);
    }
    // That another has the port, or that it takes too long, says nothing of the form.
    for (name, trouble) in [("port", Trouble::LosesItsPort), ("slow", Trouble::NeverReady)] {
        let path = folder.path().join(name);
        let once = |form: &str, opened| if form == "box" && opened == 2 { trouble } else { Trouble::None };
        run_with(&path, &header(&["plain", "box"], 6), &once, None);
        let record = read_record(&path).unwrap();
        assert_eq!(record.trials.len(), 21, "{name}: its block is run again");
        assert!(record.trials.iter().all(|trial| trial.record.service_ended.is_none()), "{name}");
    }
}

#[test]
fn what_a_load_wants_run_inside_runs_beside_the_service_of_its_form() {
    let (_folder, path) = fresh();
    let troubles = [("tooled", Trouble::Inside), ("untooled", Trouble::InsideFails)];
    let ran = run(&path, &header(&["plain", "tooled", "untooled"], 1), &troubles, None);
    let wanted = ["drive Run", "begin tool -x beside toy", "end probe"];
    assert!(ran.log.windows(3).any(|lines| lines == wanted), "{:#?}", ran.log);
    let outcomes = outcomes(&path);
    assert_eq!(outcomes["tooled"], [Outcome::Measured]);
    let why = outcomes["untooled"][0].why().unwrap();
    assert!(why.message.contains("could not run tool"), "{why}");
    // What could not be run is ended all the same, and nothing else has to be.
    assert_eq!(ran.log.iter().filter(|line| line.starts_with("end the command")).count(), outcomes["untooled"].len());
}

#[test]
fn an_interrupt_ends_what_runs_inside() {
    let (_folder, path) = fresh();
    let ran = run(&path, &header(&["plain"], 1), &[("plain", Trouble::InsideEndless)], None);
    assert_eq!(ran.ending, Ending::Interrupted);
    let end = ran.log.iter().position(|line| line == "end the command beside toy").expect("it was ended");
    assert_eq!(ran.log[end..], ["end the command beside toy", "end probe", "stop toy", "close"]);
    assert!(read_record(&path).unwrap().trials.is_empty());
}

#[test]
fn other_bits_void_a_trial() {
    let (_folder, path) = fresh();
    run(&path, &header(&["plain", "other"], 2), &[("other", Trouble::OtherBits)], None);
    let record = read_record(&path).unwrap();
    let invalid: Vec<_> = record.trials.iter().filter(|t| t.record.outcome.word() == "invalid").collect();
    assert!(!invalid.is_empty());
    let why = invalid[0].record.outcome.why().unwrap();
    assert!(why.message.contains("/usr/bin/toy is sha256:"), "{why}");
}

#[test]
fn a_form_that_hides_its_bits_voids_no_trial() {
    let (_folder, path) = fresh();
    run(&path, &header(&["plain", "hiding"], 3), &[("hiding", Trouble::HidesBits)], None);
    let record = read_record(&path).unwrap();
    assert!(record.trials.iter().all(|trial| trial.record.outcome.word() == "measured"), "{:?}", record.trials);
    let hides = |form: &str| {
        let trials = record.trials.iter().filter(|trial| trial.record.trial.form == form);
        trials.map(|trial| trial.record.mapped["toy"].is_empty()).collect::<Vec<_>>()
    };
    assert_eq!(hides("hiding"), [true; 3]);
    assert!(hides("plain").iter().all(|hidden| !hidden));
}

#[test]
fn what_services_see_of_their_bundles_is_compared_once_a_form() {
    let (_folder, path) = fresh();
    let troubles = [("other", Trouble::OtherScript), ("many", Trouble::ManyFiles)];
    let ran = run(&path, &header(&["plain", "other", "many"], 2), &troubles, None);
    let record = read_record(&path).unwrap();
    let of = |form: &str| {
        let trials = record.trials.iter().map(|trial| trial.record.clone()).filter(|trial| trial.trial.form == form);
        trials.collect::<Vec<_>>()
    };
    let compared = |form: &str| of(form).iter().map(|trial| trial.files.contains_key("toy")).collect::<Vec<_>>();
    assert_eq!(compared("plain"), [true, false, false, false], "the control included");
    assert_eq!(compared("other"), [true, false]);
    assert_eq!(of("other")[0].files["toy"].differing, ["/app.py"]);
    assert!(record.trials.iter().all(|trial| trial.record.outcome.word() == "measured"));
    let many = &of("many")[0];
    assert!(many.warnings.iter().any(|said| said.contains("against its bundle: its bundle has too many")), "{many:?}");
    assert_eq!(ran.log.iter().filter(|step| *step == "files of toy").count(), 3);
}

#[test]
fn an_interrupted_run_goes_on_without_losing_or_repeating_a_trial() {
    let (_folder, path) = fresh();
    let header = header(&["plain", "boxed"], 3);
    let first = run(&path, &header, &[], Some(4));
    assert_eq!(first.ending, Ending::Interrupted);
    assert_eq!(read_record(&path).unwrap().trials.len(), 3);
    assert_eq!(first.log.last().map(String::as_str), Some("close"), "the trial under way was taken down");
    let second = run(&path, &header, &[], None);
    assert_eq!(second.ending, Ending::Complete);
    assert_eq!(second.log.iter().filter(|line| *line == "drive Run").count(), 9 - 3);
    assert_eq!(read_record(&path).unwrap().trials.len(), 9);
}

#[test]
fn no_block_is_begun_that_would_end_too_late() {
    let (folder, path) = fresh();
    let mut header = header(&["plain"], 10);
    // Two arms of 2 s each: a block takes 4 s.
    header.study.at_most = Some(Duration::from_secs(9));
    let ran = run(&path, &header, &[], None);
    assert_eq!(ran.ending, Ending::Fitted);
    assert_eq!(read_record(&path).unwrap().trials.len(), 4);
    // The time is the run's, not the process's.
    assert_eq!(run(&path, &header, &[], None).ending, Ending::Fitted);
    assert_eq!(read_record(&path).unwrap().trials.len(), 4);
    // Nor where it was to go on for narrow intervals; while a study that was to go on until it had found something did
    // not come to its end.
    header.study.design.half_width = Some(1e-6);
    for (folder_name, best_in, ending) in [("until", None, Ending::Fitted), ("best", Some("p99"), Ending::BudgetSpent)]
    {
        header.study.design.best_in = best_in.map(str::to_owned);
        let path = folder.path().join(folder_name);
        for _ in 0..2 {
            assert_eq!(run(&path, &header, &[], None).ending, ending);
            assert_eq!(read_record(&path).unwrap().trials.len(), 4);
        }
    }
}

#[test]
fn the_record_keeps_beginnings_and_ends_and_leaves_the_rest_to_who_watches() {
    let (_folder, path) = fresh();
    let ran = run(&path, &header(&["plain"], 1), &[], None);
    assert!(ran.events.iter().any(|event| matches!(event, Event::StageStarted { .. })));
    let text = std::fs::read_to_string(path.join("events.jsonl")).unwrap();
    let kinds: Vec<String> = text
        .lines()
        .map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            line["event"].as_object().unwrap().keys().next().unwrap().clone()
        })
        .collect();
    let trial = ["trial-started", "trial-ended"];
    assert_eq!(kinds, [&["run-started"][..], &trial, &trial, &["run-ended"]].concat());
}

#[test]
fn a_record_is_never_overwritten_and_a_damaged_one_is_refused() {
    let (folder, path) = fresh();
    let header = header(&["plain"], 1);
    run(&path, &header, &[], None);
    assert!(RecordDir::create(&path, &header).unwrap_err().message.contains("never overwritten"));
    std::fs::write(path.join("trials/0000/trial.json"), "{").unwrap();
    assert!(read_record(&path).unwrap_err().message.contains("damaged"));
    assert!(read_record(folder.path()).unwrap_err().message.contains("no record.json"));
}

#[test]
fn a_record_is_its_owner_s_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records/r");
    run(&path, &header(&["plain"], 1), &[], None);
    let (mut open, mut seen) = (vec![path], 0);
    while let Some(place) = open.pop() {
        let facts = std::fs::metadata(&place).unwrap();
        assert_eq!(facts.permissions().mode() & 0o077, 0, "{}", place.display());
        seen += 1;
        if facts.is_dir() {
            open.extend(std::fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    assert!(seen > 6, "{seen}");
    let above = std::fs::metadata(folder.path().join("records")).unwrap().permissions().mode();
    assert_ne!(above & 0o055, 0, "the folder above is no part of it");
}

#[test]
fn a_secret_reaches_the_service_and_no_file_of_the_record() {
    let (_folder, path) = fresh();
    let mut header = header(&["plain"], 1);
    let secret = std::env::var("PATH").unwrap();
    let service = &mut header.workload.services[0];
    service.environment.insert("KEY".to_owned(), "${{env.PATH}}".to_owned());
    // The stage's host repeats in its log and its complaint what it was told.
    let ran = run(&path, &header, &[("plain", Trouble::Blabs)], None);
    assert!(ran.log.iter().any(|line| line.contains(&secret)), "it was told: {:?}", ran.log);
    let Outcome::Failed { why, .. } = &outcomes(&path)["plain"][0] else { panic!("{:?}", outcomes(&path)) };
    assert!(why.message.contains("${{env.PATH}}") && why.log.contains("${{env.PATH}}"), "{why:?}");
    for event in &ran.events {
        assert!(!format!("{event:?}").contains(&secret), "{event:?}");
    }
    let mut open = vec![path];
    while let Some(place) = open.pop() {
        if place.is_dir() {
            open.extend(std::fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            assert!(!std::fs::read_to_string(&place).unwrap().contains(&secret), "{}", place.display());
        }
    }
}

#[test]
fn a_torn_last_event_takes_no_other_with_it() {
    let (_folder, path) = fresh();
    let header = header(&["plain"], 2);
    run(&path, &header, &[], Some(2));
    let file = path.join("events.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, &text[..text.len() - 12]).unwrap();
    assert_eq!(run(&path, &header, &[], None).ending, Ending::Complete);
    let text = std::fs::read_to_string(&file).unwrap();
    let whole: Vec<bool> = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()).collect();
    assert_eq!(whole.iter().filter(|whole| !**whole).count(), 1, "{text}");
    assert_eq!(text.matches("\"run-started\"").count(), 2, "{text}");
}

#[test]
fn a_trial_that_is_gone_is_run_again() {
    let (_folder, path) = fresh();
    let header = header(&["plain", "boxed"], 3);
    run(&path, &header, &[], None);
    std::fs::remove_dir_all(path.join("trials/0004")).unwrap();
    assert_eq!(read_record(&path).unwrap().lost(), [4]);
    let again = run(&path, &header, &[], None);
    assert_eq!(again.log.iter().filter(|line| *line == "drive Run").count(), 1);
    let record = read_record(&path).unwrap();
    assert!(record.lost().is_empty() && record.trials.len() == 9);
}
