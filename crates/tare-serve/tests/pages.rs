//! Every page, of sound records.

use crate::browser::{Site, sample};
use crate::events;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use tare_core::record::Record;
use tare_runner::{Event, RecordDir};

fn two(folder: &Path) {
    sample(folder, "20260305-first", |_| {});
    sample(folder, "20260306-second", |record| {
        record.header.started = "2026-03-06T09:00:00Z".into();
        record.header.study.name = "other".into();
        for trial in record.trials.iter_mut().filter(|trial| trial.record.trial.form == "container") {
            if let Some(throughput) = trial.record.metrics.get_mut("throughput") {
                *throughput *= 0.5;
            }
        }
    });
}

#[test]
fn the_list_has_every_record_and_is_narrowed_down_by_its_address() {
    let site = Site::of(two);
    let list = site.listed("2 runs");
    for wanted in ["20260305-first", "native = 1", "EMULATED", "hatched", "class=\"worse\">0.8", "complete", "Linux"] {
        assert!(list.contains(wanted), "{wanted} is missing: {list}");
    }
    let second = list.find("20260306-second").unwrap();
    assert!(second < list.find("20260305-first").unwrap(), "the latest record comes first");
    let found = |query: &str| {
        let page = site.get(&format!("/?{query}")).body;
        (page.contains("/run/20260305-first"), page.contains("/run/20260306-second"))
    };
    assert_eq!(found("q=first+CONTAINER"), (true, false));
    assert_eq!(found("study=other"), (false, true));
    assert_eq!(found("form=vm&from=2026-03-06&to=2026-03-06"), (false, true));
    assert_eq!(found("state=interrupted"), (false, false));
    let page = site.get("/?study=other&q=redis").body;
    assert!(page.contains("<option selected>other</option>") && page.contains("value=\"redis\""), "{page}");
    // The index is kept, and a record that is gone or new is seen.
    assert!(site.folder.path().join(".tare-serve.sqlite").is_file());
    std::fs::remove_dir_all(site.folder.path().join("20260305-first")).unwrap();
    sample(site.folder.path(), "20260307-third", |_| {});
    let list = site.listed("20260307-third");
    assert!(!list.contains("20260305-first"), "{list}");
}

#[test]
fn many_new_records_are_listed_before_they_are_read() {
    let site = Site::of(|folder| {
        let one = sample(folder, "one", |_| {});
        let text = std::fs::read_to_string(one.join("record.json")).unwrap();
        for number in 0..39 {
            // Copies, which wait for no disk.
            let (run, path) = (format!("copy{number:02}"), folder.join(format!("20260305-copy{number:02}")));
            copy(&one, &path);
            std::fs::write(path.join("record.json"), text.replace("\"one\"", &format!("\"{run}\""))).unwrap();
        }
    });
    let began = std::time::Instant::now();
    let first = loop {
        let list = site.get("/?part=list&again=yes").body;
        if list.contains("40 runs") {
            break list;
        }
        assert!(began.elapsed() < std::time::Duration::from_secs(60), "{list}");
    };
    let last = site.listed("40 runs");
    let without_figure = |list: &str| list.matches("<span class=\"quiet\">").count();
    assert!(without_figure(&first) > without_figure(&last), "all had been read when they were listed");
    let trials = |list: &str| {
        let cells = list.split("<small>").filter_map(|cell| cell.split_once(" trials</small>"));
        cells.map(|(trials, _)| trials.to_owned()).collect::<Vec<_>>()
    };
    assert!(trials(&first).len() == 40 && trials(&first) == trials(&last), "{first}");
    assert!(site.get("/?part=list&q=copy38").body.contains("1 run found"));
}

/// Copies a record.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), &target).unwrap();
        }
    }
}

#[test]
fn a_run_is_the_report_of_its_record_with_the_bar_above() {
    let site = Site::of(two);
    for _ in 0..2 {
        let said = site.get("/run/20260305-first");
        assert_eq!(said.status, 200, "{said:?}");
        for wanted in ["aria-label=\"Tare\"", "What does each form cost one Redis server?", "url(#hatch"] {
            assert!(said.body.contains(wanted), "{wanted} is missing");
        }
        assert!(said.head.contains("frame-ancestors 'none'"), "{}", said.head);
    }
    assert_eq!(site.get("/run/20260305-nobody").status, 404);
}

#[test]
fn two_runs_are_compared_by_their_start_and_the_address_says_which() {
    let site = Site::of(two);
    let page = site.get("/compare?run=20260306-second&run=20260305-first").body;
    for wanted in ["What else differs", "class=\"certain\"", "YES", "| form | metric |", "Copy as Markdown"] {
        assert!(page.contains(wanted), "{wanted} is missing: {page}");
    }
    let sides = |page: &str| page.find("/run/20260305-first").unwrap() < page.find("/run/20260306-second").unwrap();
    assert!(sides(&page), "the record that started first is the one before");
    let swap = page.split("/compare?").nth(1).unwrap().split('"').next().unwrap();
    let swapped = site.get(&format!("/compare?{}", swap.replace("&amp;", "&"))).body;
    assert!(!sides(&swapped), "{swap}");
    assert!(site.get("/compare").body.contains("Choose two runs"));
    assert_eq!(site.get("/compare?run=20260306-second&run=nobody").status, 422);
}

/// Fourteen nights; from the eleventh on containers are a fifth slower, on another kernel.
fn nights(folder: &Path) {
    for night in 1..=14_u32 {
        sample(folder, &format!("202603{night:02}-night"), |record| {
            record.header.started = format!("2026-03-{night:02}T09:00:00Z");
            let is_later = night > 10;
            if is_later {
                record.header.environment.insert("kernel".into(), "6.12.9".into());
            }
            let factor = (1.0 + 0.0005 * f64::from(night % 3)) * if is_later { 0.8 } else { 1.0 };
            for trial in record.trials.iter_mut().filter(|trial| trial.record.trial.form == "container") {
                if let Some(throughput) = trial.record.metrics.get_mut("throughput") {
                    *throughput *= factor;
                }
            }
        });
    }
}

#[test]
fn a_planted_step_is_found_in_the_history_with_what_changed_there() {
    let site = Site::of(nights);
    site.listed("14 runs");
    let page = site.get("/history?study=canonical&form=container&metric=throughput").body;
    let page = page.replace("&#x2f;", "/");
    for wanted in [
        "1 regression, 0 improvements",
        "<h2>Regressions</h2>",
        "-20 % from <a",
        "environment kernel",
        "6.1.0-28-amd64 \u{2192} 6.12.9",
        "run=20260310-night&amp;run=20260311-night",
        "class=\"change worse\"",
        "redis 5c1f0f3b8a6d",
        "<option selected>container</option>",
        "/history?study=canonical%2Fredis%2Fnative&amp;form=container&amp;metric=throughput",
    ] {
        assert!(page.contains(wanted), "{wanted} is missing: {page}");
    }
    assert!(!page.contains("<h2>Improvements</h2>"));
    assert_eq!(page.matches("<circle").count(), 14);
    assert_eq!(page.matches(" band\"").count(), 2, "an interval before the step and one after it");
    let rows = page.matches("<td class=\"when\">").count();
    assert!(rows == 14 && page.contains(&format!("/{}/run/20260311-night", site.key)), "{rows}");
    // By the workload, without a choice, and of some days alone.
    for query in ["?workload=redis", "", "?study=canonical/redis/native&from=2026-03-02&to=2026-03-04"] {
        let page = site.get(&format!("/history{query}")).body;
        let wanted = if query.contains("from") { 3 } else { 14 };
        assert_eq!(page.matches("<circle").count(), wanted, "{query}");
    }
    // Before the step, it is the ratio before it that counts; and of days without a run there is none.
    let of = |query: &str| site.get(&format!("/history?form=container&{query}")).body;
    let [before, after] = ["to=2026-03-09", "to=2026-03-14"].map(of);
    assert!(before.contains("The ratio at the end of these days") && after.contains("The ratio since the last change"));
    let figure = |page: &str| page.split(": <b>").nth(1).unwrap().split("</b>").next().unwrap().to_owned();
    assert_ne!(figure(&before), figure(&after));
    let empty = of("from=2026-04-01&to=2026-04-02");
    assert!(!empty.contains(": <b>") && !empty.contains("No change"), "{empty}");
    assert!(empty.contains("No run of this history started on these days."), "{empty}");
    let other = site.get("/history?form=nobody&metric=nothing").body;
    for wanted in ["form “nobody”", "metric “nothing”"] {
        assert!(other.contains(&format!("There is no {wanted} in this history")), "{wanted}: {other}");
    }
    assert!(!before.contains("There is no"), "{before}");
    let none = site.get("/history?study=nothing");
    assert!(none.status == 200 && none.body.contains("can be followed"), "{none:?}");
}

#[test]
fn several_runs_are_compared_with_the_reference_that_the_address_names() {
    let site = Site::of(|folder| {
        two(folder);
        sample(folder, "20260307-third", |record| {
            record.header.started = "2026-03-07T09:00:00Z".into();
            record.header.environment.insert("kernel".into(), "7.1".into());
        });
    });
    let runs = "/compare?run=20260307-third&run=20260306-second&run=20260305-first";
    let page = site.get(runs).body;
    for wanted in
        ["environment kernel", "<td>7.1</td>", "class=\"certain\"", "YES", "Run 3 / run 1", "| metric | 1 | 2 |"]
    {
        assert!(page.contains(wanted), "{wanted} is missing: {page}");
    }
    let place = |page: &str, name: &str| page.find(&format!("/run/{name}")).unwrap();
    let [first, third] = ["20260305-first", "20260307-third"].map(|name| place(&page, name));
    assert!(first < third, "the record that started first is the reference");
    let link = page.split("/compare?").find(|link| link.contains("first=20260307-third")).unwrap();
    let link = link.split('"').next().unwrap().replace("&amp;", "&");
    let other = site.get(&format!("/compare?{link}")).body;
    assert!(place(&other, "20260307-third") < place(&other, "20260305-first"), "{link}");
    let many: String = (0..9).map(|number| format!("&run={number}")).collect();
    assert!(site.get(&format!("/compare?{many}")).body.contains("Choose at most 8 runs"));
}

#[test]
fn a_run_that_goes_on_is_told_from_its_beginning_and_as_it_goes() {
    let record = crate::sample::record();
    let site = Site::of(|_| {});
    assert!(site.get("/now").body.contains("No run goes on"));
    let path = site.folder.path().join("20260305-live");
    let mut written = RecordDir::create(&path, &record.header).unwrap();
    let mut log = written.event_log().unwrap();
    site.lives(&record.header.run);
    let all = events::events(&record);
    let (before, after) = all.split_at(all.len() / 2);
    let is_within = |event: &Event| event.is_within_trial();
    let mut write = |(at, event): &(String, Event)| match is_within(event) {
        true => log.note(at, event),
        false => written.write_event(at, event).unwrap(),
    };
    before.iter().for_each(&mut write);
    site.listed("20260305-live");
    let page = site.get("/now").body;
    assert!(page.contains("data-run=\"20260305-live\"") && page.contains("id=\"hatch0\""), "{page}");
    let mut told = site.follow("20260305-live");
    assert_eq!(told.next().unwrap().0, "begin");
    let (event, state) = told.next().unwrap();
    assert!(event == "state" && state["done"].as_u64() > Some(0) && state["ended"].is_null(), "{state}");
    let (event, ratios) = told.next().unwrap();
    assert!(event == "ratios" && ratios["html"].as_str().unwrap().contains("<svg"), "{ratios}");
    after.iter().for_each(&mut write);
    written.write_end(record.end.as_ref().unwrap()).unwrap();
    let rest: Vec<_> = told.take_while(|(event, _)| event != "end").collect();
    let last = rest.iter().rev().find(|(event, _)| event == "state").unwrap();
    assert_eq!(last.1["ended"], "complete", "{last:?}");
    let seconds = rest.iter().filter(|(event, data)| event == "seconds" && data["arm"] == "native").count();
    assert!(seconds > 1, "{rest:?}");
    // Who comes when all is over is told the same.
    let late: Vec<_> = site.follow("20260305-live").take_while(|(event, _)| event != "end").collect();
    let texts = |of: &[(String, serde_json::Value)]| {
        let said = of.iter().filter(|(event, _)| event == "said");
        said.map(|(_, data)| data["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let late = texts(&late);
    assert!(texts(&rest).iter().all(|text| late.contains(text)), "{late:#?}");
    assert_eq!(late.first().map(String::as_str), Some("started"));
}

#[test]
fn the_page_of_a_run_asks_it_to_end_and_says_why_it_may_not() {
    let site = Site::of(|folder| _ = sample(folder, "live", |record| record.end = None));
    let page = || site.get("/now?run=live").body;
    let [after_block, at_once] = ["after-block", "at-once"].map(|when| format!("/now/end?run=live&when={when}"));
    let barred = |why: &str| {
        let (page, said) = (page(), site.post(&at_once, ""));
        assert!(page.contains(why) && page.contains("aria-disabled=\"true\""), "{why}: {page}");
        assert!(said.status == 409 && said.body.contains(why), "{why}: {said:?}");
    };
    // Its mark may be about to come: the buttons are there, and whoever presses one is told.
    let said = site.post(&at_once, "");
    assert!(said.status == 409 && said.body.contains("This run is not in progress on this machine."), "{said:?}");
    assert!(!page().contains("aria-disabled=\"true\""), "{}", page());
    site.lives("live");
    barred("Run live belongs to another user. Press Ctrl-C.");
    let script = "trap 'echo after-block' USR1; trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done";
    let mut run = Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(run.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert_eq!(said.next().as_deref(), Some("ready"));
    site.carried_out_by(run);
    assert!(!page().contains("aria-disabled=\"true\""), "{}", page());
    let answer = site.post(&after_block, "");
    assert_eq!((answer.status, answer.body.as_str()), (200, "The run ends after this block."));
    assert_eq!(said.next().as_deref(), Some("after-block"));
    // A second signal would end it with everything standing.
    assert_eq!([&at_once, &at_once].map(|path| site.post(path, "").status), [200, 200]);
    assert_eq!(site.run_ended(), Some(7));
    assert_eq!(site.post("/now/end?run=nobody&when=at-once", "").status, 409);
}

#[test]
fn that_a_run_was_asked_to_end_is_told_until_it_is_resumed() {
    let record = crate::sample::record();
    let mut all = events::events(&record);
    let by = tare_core::record::Asker { user: 0, program: Some("<b>".to_owned()) };
    all.truncate(all.len() / 2);
    let at = "2026-03-05T10:59:00Z".to_owned();
    let site = Site::of(|folder| {
        for name in ["asked", "resumed"] {
            let mut written = RecordDir::create(&folder.join(name), &record.header).unwrap();
            all.iter().for_each(|(at, event)| written.write_event(at, event).unwrap());
            written.write_event(&at, &Event::EndAsked { by: by.clone() }).unwrap();
            if name == "resumed" {
                written.write_event(&at, &Event::RunStarted { trials: 9, done: 3 }).unwrap();
            }
        }
    });
    for (name, ends) in [("asked", true), ("resumed", false)] {
        let (_, state) = site.follow(name).find(|(event, _)| event == "state").unwrap();
        assert_eq!(state["ends_after_block"], ends, "{name}: {state}");
    }
}

#[test]
fn a_trial_that_a_resumed_run_repeats_is_drawn_once() {
    let record = crate::sample::record();
    let all = events::events(&record);
    let first_end = all.iter().position(|(_, event)| matches!(event, Event::TrialEnded { .. })).unwrap();
    let later = all[first_end..].iter().position(|(_, event)| matches!(event, Event::Second { .. })).unwrap();
    let trials = record.trials.len() as u32;
    let resumed = ("2026-03-05T11:00:00Z".to_owned(), Event::RunStarted { trials, done: 1 });
    let site = Site::of(|folder| {
        sample(folder, "whole", |_| {});
        // It was killed after a second of another trial, which it begins again.
        let mut written = RecordDir::create(&folder.join("killed"), &record.header).unwrap();
        record.trials.iter().for_each(|trial| written.write_trial(trial).unwrap());
        let before = &all[..=first_end + later];
        for (at, event) in before.iter().chain([&resumed]).chain(&all[first_end + 1..]) {
            written.write_event(at, event).unwrap();
        }
        written.write_end(record.end.as_ref().unwrap()).unwrap();
    });
    let drawn = |name: &str| {
        let told = site.follow(name).take_while(|(event, _)| event != "end");
        let seconds = told.filter(|(event, _)| event == "seconds");
        seconds.map(|(_, data)| (data["arm"].to_string(), data["html"].to_string())).collect::<BTreeMap<_, _>>()
    };
    let whole = drawn("whole");
    assert!(!whole.is_empty());
    assert_eq!(drawn("killed"), whole);
}

#[test]
fn parts_whose_turn_has_not_come_are_to_come_while_another_one_runs() {
    let site = Site::of(|folder| {
        std::fs::create_dir(folder.join("suite")).unwrap();
        std::fs::write(folder.join("suite/suite.json"), "{}").unwrap();
        for part in ["suite/one", "suite/two"] {
            sample(folder, part, |record| record.end = None);
        }
    });
    assert!(site.listed("2 runs").matches(">unfinished<").count() == 2);
    site.lives("one");
    let list = site.listed(">running<");
    assert!(list.contains(">to come<") && !list.contains(">unfinished<"), "{list}");
    let filtered = |state: &str| site.get(&format!("/?part=list&state={state}")).body.replace("&#x2f;", "/");
    assert!(filtered("to%20come").contains("/run/suite/two") && !filtered("to%20come").contains(">running<"));
    assert!(!filtered("unfinished").contains("/run/suite/two"));
}

#[test]
fn tags_and_notes_are_kept_beside_the_records_and_found() {
    let site = Site::of(two);
    site.listed("2 runs");
    let form = "run=20260305-first&tags=nightly%2C+tuned&text=after+the+move&back=q%3Dfirst%26page%3D1";
    let said = site.post("/notes", form);
    assert!(said.status == 303 && said.head.contains(&format!("location: /{}/?q=first&page=1", site.key)), "{said:?}");
    let found = |query: &str| {
        let page = site.get(&format!("/?{query}")).body;
        (page.contains("/run/20260305-first"), page.contains("/run/20260306-second"))
    };
    assert_eq!([found("q=MOVE"), found("q=redis+nightly"), found("tag=tuned")], [(true, false); 3]);
    assert_eq!([found("tag=nobody"), found("q=move+nobody")], [(false, false); 2]);
    let (report, editor) = (site.get("/run/20260305-first").body, site.get("/notes?run=20260305-first&back=run").body);
    assert!(report.contains(">nightly</a>") && report.contains("after the move"));
    assert!(editor.contains("value=\"nightly, tuned\"") && editor.contains("\"same-origin\""), "{editor}");
    assert!(site.post("/notes", "run=20260306-second&tags=apart&back=run").head.contains("/run/20260306-second"));
    // An empty note is none, and what is said of a record that is gone is in nobody's way.
    site.post("/notes", "run=20260306-second");
    std::fs::remove_dir_all(site.folder.path().join("20260305-first")).unwrap();
    site.listed("1 run");
    let page = site.get("/").body;
    assert!(!page.contains("nightly") && !page.contains(">apart<"), "{page}");
    assert_eq!(site.get("/notes?run=20260305-first").status, 404);
    assert_eq!(site.post("/notes", form).status, 404);
}

#[test]
fn chosen_runs_are_exported_as_one_archive() {
    let site = Site::of(two);
    let bytes = site.download("/export?run=20260306-second&run=20260305-first&run=20260305-first");
    let unpacked = tempfile::tempdir().unwrap();
    tar::Archive::new(bytes.as_slice()).unpack(unpacked.path()).unwrap();
    for name in ["20260305-first", "20260306-second"] {
        let [sent, own] = [unpacked.path(), site.folder.path()].map(|folder| folder.join(name));
        assert_eq!(tare_runner::read_record(&sent).unwrap(), tare_runner::read_record(&own).unwrap());
    }
    assert!(!unpacked.path().join("LEFT-OUT.txt").exists());
    assert_eq!(site.get("/export?run=20260306-second&run=nobody").status, 404);
    assert_eq!(site.get("/export").status, 404);
}

/// What the page that says what goes has its form send.
fn asked(page: &str, names: &[&str]) -> String {
    let seen = page.split("name=\"seen\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let seen = seen.replace("&#x2f;", "%2F").replace(' ', "+");
    let runs: String = names.iter().map(|name| format!("run={name}&")).collect();
    format!("{runs}seen={seen}")
}

#[test]
fn what_goes_is_said_before_it_goes_and_a_run_in_progress_stays() {
    let site = Site::of(|folder| {
        two(folder);
        sample(folder, "20260307-third", |record| record.end = None);
    });
    site.listed("3 runs");
    site.lives("20260307-third");
    let records = site.folder.path();
    let there = || ["20260305-first", "20260306-second", "20260307-third"].map(|name| records.join(name).is_dir());
    let page = site.get("/delete?run=20260305-first&run=20260306-second&run=20260307-third").body;
    for wanted in ["These stay", "20260307-third: the run is in progress", "2 in all", "iB</td>", "20260305-first</th>"]
    {
        assert!(page.contains(wanted), "{wanted} is missing: {page}");
    }
    let two = ["20260305-first", "20260306-second"];
    let form = asked(&page, &two);
    assert_eq!(site.post("/delete", &format!("{form}&run=20260307-third")).status, 409);
    std::fs::write(records.join("20260305-first/more"), "more").unwrap();
    let said = site.post("/delete", &form);
    assert!(said.status == 409 && said.body.contains("something has changed") && there() == [true; 3], "{said:?}");
    // As long as before, and something else.
    std::fs::write(records.join("20260305-first/more"), "less").unwrap();
    let said = site.post("/delete", &asked(&said.body, &two));
    assert!(said.status == 409 && there() == [true; 3], "{said:?}");
    std::fs::rename(records.join("20260305-first/more"), records.join("20260305-first/else")).unwrap();
    let said = site.post("/delete", &asked(&said.body, &two));
    assert!(said.status == 409 && there() == [true; 3], "{said:?}");
    // What is said of a record goes with it, so it is shown before it goes.
    let confirmed = asked(&said.body, &two);
    site.post("/notes", "run=20260305-first&tags=nightly");
    let said = site.post("/delete", &confirmed);
    assert!(said.status == 409 && said.body.contains("nightly</span>") && there() == [true; 3], "{said:?}");
    // A name that is of no record is told, and nothing goes.
    let unknown = site.post("/delete", &format!("{}&run=20260309-nobody", asked(&said.body, &two)));
    assert!(unknown.status == 409 && unknown.body.contains("<li>20260309-nobody</li>"), "{unknown:?}");
    assert_eq!(there(), [true; 3]);
    let said = site.post("/delete", &asked(&said.body, &two));
    assert!(said.status == 303 && there() == [false, false, true], "{said:?}");
    let list = site.listed("1 run");
    assert!(list.contains("20260307-third") && !list.contains("20260305-first"), "{list}");
    assert!(!std::fs::read_to_string(records.join(".tare-notes.json")).unwrap().contains("nightly"));
    assert_eq!(site.post("/delete", &form).status, 404);
}

#[test]
fn a_run_that_used_its_time_up_says_so_and_is_found_by_the_word_of_its_record() {
    let site = Site::of(|folder| {
        two(folder);
        let fitted = |record: &mut Record| record.end.as_mut().unwrap().how = "fitted".into();
        sample(folder, "20260307-short", fitted);
    });
    site.listed("3 runs");
    let page = site.get("/?state=fitted").body;
    assert!(page.contains("<option value=\"fitted\" selected>time limit reached</option>"), "{page}");
    assert!(page.contains(">time limit reached</span>") && !page.contains("20260305-first"), "{page}");
    let report = site.get("/run/20260307-short").body;
    assert!(report.contains("time limit reached") && !report.contains(", fitted,"));
}

#[test]
fn a_record_that_is_no_folder_of_records_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let record = sample(folder.path(), "one", |_| {});
    let settings = |records: &Path| tare_serve::Settings { records: records.to_owned(), port: 0 };
    let refused = |records: &Path| {
        let machine = std::sync::Arc::new(crate::browser::Machine::default());
        tare_serve::Server::bind(&settings(records), machine).err().unwrap()
    };
    assert!(refused(&record).message.contains("is a record"));
    assert!(refused(&folder.path().join("missing")).remedy.contains("--records"));
}
