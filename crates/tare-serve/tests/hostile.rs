//! What must not be answered, and records that mean no good.

use crate::browser::{Site, sample};
use crate::events;
use rustix::fs::{CWD, Mode, mkfifoat};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};
use tare_core::record::Record;
use tare_runner::Event;

#[test]
fn only_who_has_the_key_and_asks_from_here_is_answered() {
    let site = Site::of(|folder| _ = sample(folder, "one", |_| {}));
    let port = site.address.port();
    let key = format!("/{}", site.key);
    let status = |lines: &str| site.get_with(&format!("{key}/"), lines).status;
    assert_eq!(status(&format!("Host: 127.0.0.1:{port}\r\n")), 200);
    assert_eq!(status(&format!("Host: localhost:{port}\r\nOrigin: http://localhost:{port}\r\n")), 200);
    for host in [format!("evil.example:{port}"), "127.0.0.1".to_owned(), "127.0.0.1:1".to_owned()] {
        assert_eq!(status(&format!("Host: {host}\r\n")), 421, "{host}");
    }
    let host = format!("Host: 127.0.0.1:{port}\r\n");
    assert_eq!(status(&format!("{host}Origin: http://evil.example\r\n")), 403);
    assert_eq!(status(&format!("{host}Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n")), 403);
    let pages = ["", "/", "/run/one", "/now/events?run=one", "/compare", "/history", "/assets/serve.css"];
    for (before, page) in ["", "/0000", &key[..9]].into_iter().flat_map(|before| pages.map(|page| (before, page))) {
        let path = if page.is_empty() && before.is_empty() { "/open".to_owned() } else { format!("{before}{page}") };
        // Neither in the path nor where a browser would send it to other ports of this address, too.
        let said = site.get_with(&path, &format!("{host}Cookie: tare-{port}={}\r\n", site.key));
        assert_eq!(said.status, 403, "{path}");
        assert!(!said.body.contains(&site.key) && !said.head.contains(&site.key), "{path}: {said:?}");
    }
    for method in ["PUT", "DELETE", "OPTIONS"] {
        assert_eq!(site.ask(&format!("{method} {key}/ HTTP/1.1\r\n{host}")).status, 405, "{method}");
    }
    // What changes something is asked for by a page of its own.
    let own = format!("Origin: http://127.0.0.1:{port}\r\n");
    let post = |path: &str, lines: &str| site.ask(&format!("POST {path} HTTP/1.1\r\n{host}{lines}")).status;
    let end = format!("{key}/now/end?run=one&when=at-once");
    let elsewhere = format!("{own}Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n");
    for lines in ["", "Origin: null\r\n", "Origin: http://evil.example\r\n", elsewhere.as_str()] {
        assert_eq!(post(&end, lines), 403, "{lines}");
    }
    assert_eq!(post("/now/end?run=one&when=at-once", &own), 403, "the key is missing");
    assert_eq!((post(&format!("{key}/"), &own), post(&end, &own)), (405, 409), "no such run goes on");
    assert_eq!(site.get("/now/end?run=one&when=at-once").status, 404, "a link changes nothing");
    assert_eq!(site.get("/assets/serve.css").status, 200);
    for page in ["/", "/run/one", "/now", "/compare", "/history", "/nobody"] {
        let said = site.get(page);
        assert!(!said.head.contains("set-cookie") && said.head.contains("no-referrer"), "{page}: {}", said.head);
        let body = said.body.replace("&#x2f;", "/");
        let count = |to: &str| ["href", "src", "action"].map(|by| body.matches(&format!("{by}=\"{to}/")).count());
        let [links, own] = ["", key.as_str()].map(|to| count(to).iter().sum::<usize>());
        assert!(own > 0 && own == links, "{page} has links that lack the key: {}", said.body);
    }
    let said = site.get("/");
    for wanted in ["script-src 'self'", "nosniff", "no-referrer", "no-store", "x-frame-options: deny"] {
        assert!(said.head.contains(wanted), "{wanted}: {}", said.head);
    }
    assert!(!said.head.contains("script-src 'self' 'unsafe-inline'") && !said.body.contains("<script>"));
}

#[test]
fn who_has_no_key_holds_no_connection() {
    let site = Site::of(|_| {});
    let connect = || {
        let stream = TcpStream::connect(site.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    };
    let mut asking = connect();
    let one = format!("GET /assets/report.css HTTP/1.1\r\nHost: {}\r\n\r\n", site.address);
    // What is sent behind the first request may be refused by then.
    let _ = asking.write_all(one.repeat(100).as_bytes());
    let mut said = Vec::new();
    let _ = asking.read_to_end(&mut said);
    let said = String::from_utf8(said).unwrap().to_lowercase();
    assert!(said.matches("http/1.1 ").count() == 1 && said.contains("connection: close"), "{said}");
    // All places are taken by who says nothing, and the first of them leave.
    let mut silent: Vec<_> = (0..200).map(|_| connect()).collect();
    let began = Instant::now();
    assert_eq!(site.get("/").status, 200);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(silent[0].read(&mut [0]).unwrap_or_default(), 0, "nothing was said to it");
    drop(silent);
    // Who has the key stays for as long as it takes.
    let (mut known, mut piece) = (connect(), vec![0; 1 << 16]);
    for wait in [Duration::ZERO, Duration::from_secs(6)] {
        std::thread::sleep(wait);
        let one = format!("GET /{}/assets/bar.css HTTP/1.1\r\nHost: {}\r\n\r\n", site.key, site.address);
        known.write_all(one.as_bytes()).unwrap();
        assert!(known.read(&mut piece).unwrap() > 0);
    }
}

#[test]
fn no_address_leads_out_of_the_folder() {
    let above = tempfile::tempdir().unwrap();
    sample(above.path(), "outside", |record| record.header.study.question = "hunter2".into());
    let site = Site::of(|folder| {
        sample(folder, "inside", |_| {});
        symlink(above.path().join("outside"), folder.join("link")).unwrap();
        symlink(above.path().join("outside/record.json"), folder.join("inside/hunter.json")).unwrap();
    });
    let outside = above.path().join("outside");
    let [plain, encoded] =
        ["/run//", "/run/%2F"].map(|before| format!("{before}{}", &outside.display().to_string()[1..]));
    let paths = ["/run/../outside", "/run/..%2foutside", "/run/%2e%2e/outside", "/run/link", "/run/inside/..", "/run/"];
    for path in paths.into_iter().chain([plain.as_str(), encoded.as_str(), "/run/inside%00", "/run/%ff", "/etc/passwd"])
    {
        let said = site.get(path);
        assert_eq!(said.status, 404, "{path}");
        assert!(!said.body.contains("hunter2"), "{path}");
    }
    assert_eq!(site.get("/assets/../Cargo.toml").status, 404);
    assert_eq!(site.get("/compare?run=inside&run=link").status, 422);
    assert!(!site.listed("inside").contains("hunter2"));
}

/// Puts `text` wherever a record holds words.
fn say_everywhere(record: &mut Record, text: &str) {
    let header = &mut record.header;
    let words = [
        &mut header.tare,
        &mut header.started,
        &mut header.command,
        &mut header.study.question,
        &mut header.study.name,
        &mut header.workload.name,
        &mut header.workload.about,
    ];
    words.into_iter().for_each(|words| text.clone_into(words));
    header.environment.values_mut().for_each(|value| text.clone_into(value));
    header.environment.insert(text.into(), text.into());
    for state in header.forms.values_mut() {
        text.clone_into(&mut state.describe);
    }
    for trial in &mut record.trials {
        trial.record.warnings.push(text.into());
        text.clone_into(&mut trial.record.path);
        trial.record.logs.insert(text.into(), text.into());
    }
    if let Some(end) = &mut record.end {
        text.clone_into(&mut end.how);
    }
}

#[test]
fn scripts_in_a_record_are_text() {
    let script = "</script></title><script>alert(1)</script><img src=x onerror=alert(1)>\"'><b>";
    let name = "<img src=x onerror=alert(2)>";
    let site = Site::of(|folder| {
        sample(folder, name, |record| {
            say_everywhere(record, script);
            // Forms are named in many places, which must agree.
            let rename = |form: &mut String| {
                if form == "container" {
                    "<svg onload=alert(3)>".clone_into(form);
                }
            };
            record.header.study.forms.iter_mut().for_each(|form| rename(&mut form.name));
            record.header.plan.iter_mut().for_each(|trial| rename(&mut trial.form));
            record.trials.iter_mut().for_each(|trial| rename(&mut trial.record.trial.form));
            let state = record.header.forms.remove("container").unwrap();
            record.header.forms.insert("<svg onload=alert(3)>".into(), state);
        });
        ["other", "third"].iter().for_each(|name| _ = sample(folder, name, |_| {}));
    });
    site.listed("3 runs");
    let path = "%3Cimg%20src%3Dx%20onerror%3Dalert(2)%3E";
    let pages = [
        "/".to_owned(),
        "/?q=%22%3E%3Cscript%3Ealert(4)%3C/script%3E&study=%22%3E%3Cscript%3E".to_owned(),
        format!("/run/{path}"),
        format!("/timeline?run={path}&from=%22%3E%3Cscript%3E"),
        format!("/trial?run={path}&trial=0"),
        format!("/now?run={path}"),
        format!("/compare?run={path}&run=other"),
        format!("/compare?run={path}&run=other&run=third&first={path}"),
        "/compare?run=%3Cscript%3Ealert(4)%3C/script%3E&run=other".to_owned(),
        "/history".to_owned(),
        "/history?study=%3Cscript%3Ealert(4)%3C/script%3E&from=%22%3E%3Cscript%3E".to_owned(),
    ];
    for page in pages {
        let body = site.get(&page).body;
        assert!(body.contains("&lt;"), "{page} shows nothing of the record");
        for markup in ["<script>alert", "<img src=x", "<svg onload", "</script></title>"] {
            assert!(!body.contains(markup), "{markup} is in {page}");
        }
    }
    for (event, data) in site.follow(path).take_while(|(event, _)| event != "end") {
        if let Some(html) = data["html"].as_str() {
            assert!(!html.contains("<svg onload") && !html.contains("<script"), "{event}: {html}");
        }
    }
}

#[test]
fn only_a_form_of_its_own_pages_changes_notes_and_what_is_typed_is_text() {
    let site = Site::of(|folder| _ = sample(folder, "one", |_| {}));
    site.listed("1 run");
    let (host, form) = (format!("Host: {}\r\n", site.address), "run=one&tags=a&text=b");
    let own = format!("{host}Origin: http://{}\r\n", site.address);
    let status = |lines: &str| site.post_with("/notes", form, lines).status;
    for origin in ["", "Origin: null\r\n", "Origin: http://evil.example\r\n", "Origin: http://127.0.0.1:1\r\n"] {
        assert_eq!(status(&format!("{host}{origin}")), 403, "{origin}");
    }
    assert_eq!(status(&format!("{own}Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n")), 403);
    assert_eq!(status(&own.replace("Host: 127.0.0.1", "Host: evil.example")), 421);
    assert_eq!(site.ask(&format!("POST /notes HTTP/1.1\r\n{own}")).status, 403);
    for name in ["..", "nobody", "one/..", "%2Fetc", ".tare-notes.json", ""] {
        assert_eq!(site.post("/notes", &format!("run={name}&tags=a")).status, 404, "{name}");
    }
    for long in [format!("tags={}", "x".repeat(41)), format!("text={}", "x".repeat(4001))] {
        assert_eq!(site.post("/notes", &format!("run=one&{long}")).status, 422);
    }
    assert!(!site.folder.path().join(".tare-notes.json").exists());
    let script = "%3Cscript%3Ealert(1)%3C%2Fscript%3E";
    let said = site.post("/notes", &format!("run=one&tags={script}&text={script}&back=%0d%0aSet-Cookie:+a=b"));
    assert!(said.status == 303 && !said.head.contains("\r\nset-cookie"), "{said:?}");
    let tagged = format!("/?tag={script}");
    for page in ["/", "/run/one", "/notes?run=one&back=%22%3E%3Cscript%3Ealert(1)", tagged.as_str()] {
        let body = site.get(page).body;
        assert!(body.contains("&lt;script&gt;alert(1)") && !body.contains("<script>alert"), "{page}: {body}");
    }
    // What was written by hand may be longer: it is shown whole where it is edited, and never shortened unasked.
    let long = "z".repeat(5000);
    let text = serde_json::json!({"schema": 1, "runs": {"one": {"text": long}}}).to_string();
    fs::write(site.folder.path().join(".tare-notes.json"), text).unwrap();
    assert!(site.get("/notes?run=one").body.contains(&long) && !site.get("/").body.contains(&long));
    let said = site.post("/notes", &format!("run=one&text={long}"));
    assert!(said.status == 422 && said.body.contains("A note has at most 4000 characters."), "{said:?}");
    assert!(fs::read_to_string(site.folder.path().join(".tare-notes.json")).unwrap().contains(&long));
    // A file that is not theirs takes only the notes away.
    fs::write(site.folder.path().join(".tare-notes.json"), "<script>alert(1)").unwrap();
    let body = site.get("/").body;
    assert!(body.contains("tags and notes are left out") && body.contains("/run/one"), "{body}");
    assert_eq!((site.get("/run/one").status, site.get("/notes?run=one").status), (200, 422));
    assert_eq!(site.post("/notes", form).status, 422);
}

#[test]
fn what_links_lead_to_is_neither_exported_nor_deleted() {
    let above = tempfile::tempdir().unwrap();
    let outside = sample(above.path(), "outside", |record| record.header.study.question = "hunter2".into());
    let site = Site::of(|folder| {
        let one = sample(folder, "one", |_| {});
        symlink(&outside, one.join("link")).unwrap();
        symlink(outside.join("record.json"), one.join("linked.json")).unwrap();
        symlink(&outside, folder.join("link")).unwrap();
        symlink(folder, folder.join("loop")).unwrap();
    });
    let archive = String::from_utf8_lossy(&site.download("/export?run=one")).into_owned();
    assert!(archive.contains("one/record.json") && !archive.contains("hunter2"));
    assert!(archive.contains("one/link: a link") && archive.contains("one/linked.json: a link"));
    let page = site.get("/delete?run=one&run=link&run=loop/one&run=..").body;
    assert!(page.contains("1 in all") && page.contains("and 2 that are no files"), "{page}");
    assert!(page.contains("These are not here") && page.contains("<li>link</li>"), "{page}");
    let seen = page.split("name=\"seen\" value=\"").nth(1).unwrap().split('"').next().unwrap().replace(' ', "+");
    let form = format!("run=one&seen={seen}");
    for lines in ["", "Origin: null\r\n", "Origin: http://evil.example\r\n"] {
        let lines = format!("Host: {}\r\n{lines}", site.address);
        assert_eq!(site.post_with("/delete", &form, &lines).status, 403, "{lines}");
    }
    for name in ["link", "loop/one", "..", "../outside", "%2Fetc", "."] {
        assert_eq!(site.get(&format!("/export?run={name}")).status, 404, "{name}");
        assert_eq!(site.post("/delete", &format!("run={name}&seen=")).status, 404, "{name}");
    }
    // Asking for the page deletes nothing.
    assert_eq!(site.get(&format!("/delete?{form}")).status, 200);
    assert!(site.folder.path().join("one").is_dir());
    assert_eq!(site.post("/delete", &form).status, 303);
    assert!(!site.folder.path().join("one").exists() && outside.join("record.json").is_file());
    assert!(site.folder.path().join("link").exists());
}

/// What to do to a record so that it cannot be read.
type Spoil = fn(&Path);

#[test]
fn spoilt_records_are_named_and_the_others_stay() {
    let spoils: [(&str, Spoil); 11] = [
        ("cut", |path| cut(&path.join("record.json"))),
        ("cut-trial", |path| cut(&path.join("trials/0001/trial.json"))),
        ("not-utf8", |path| fs::write(path.join("trials/0000/trial.json"), b"{\"trial\": \"\xff\xfe\"}").unwrap()),
        ("newer", |path| fs::write(path.join("record.json"), "{\"schema\": 99}").unwrap()),
        ("link", |path| {
            fs::remove_dir_all(path.join("trials")).unwrap();
            symlink("/proc", path.join("trials")).unwrap();
        }),
        ("no-trials", |path| fs::remove_dir_all(path.join("trials")).unwrap()),
        ("header-link", |path| {
            fs::rename(path.join("record.json"), path.join("other.json")).unwrap();
            symlink("other.json", path.join("record.json")).unwrap();
        }),
        ("header-pipe", |path| {
            fs::remove_file(path.join("record.json")).unwrap();
            mkfifoat(CWD, path.join("record.json"), Mode::RUSR).unwrap();
        }),
        ("header-folder", |path| {
            fs::remove_file(path.join("record.json")).unwrap();
            fs::create_dir(path.join("record.json")).unwrap();
        }),
        ("parts-link", |path| {
            fs::remove_file(path.join("record.json")).unwrap();
            symlink("other.json", path.join("suite.json")).unwrap();
        }),
        ("long", |path| fs::write(path.join("events.jsonl"), vec![b'x'; 3 << 20]).unwrap()),
    ];
    let site = Site::of(|folder| {
        sample(folder, "sound", |_| {});
        spoils.iter().for_each(|(name, spoil)| spoil(&sample(folder, name, |_| {})));
    });
    let list = site.listed("12 runs");
    assert!(list.contains("10 cannot be read"), "{list}");
    for kind in ["link", "pipe", "folder"] {
        let reason = format!("record header-{kind}/record.json is a {kind} instead of a file");
        assert!(list.replace("&#x2f;", "/").contains(&reason), "{reason}: {list}");
    }
    for (name, _) in &spoils[..10] {
        let said = site.get(&format!("/run/{name}"));
        assert!(said.status == 422 && said.body.contains("To do:"), "{name}: {said:?}");
        assert!(list.contains(name) && !said.body.contains("/proc/self"), "{name}");
    }
    assert_eq!(site.get("/run/sound").status, 200);
    // Events are not needed for a report; what is no event says nothing.
    assert_eq!(site.get("/run/long").status, 200);
    let told: Vec<_> = site.follow("long").map(|(event, _)| event).take_while(|event| event != "end").collect();
    assert_eq!(told, ["begin", "state", "ratios"]);
}

#[test]
fn a_record_that_was_mended_is_read_again_though_size_and_time_are_the_same() {
    let site = Site::of(|folder| {
        let header = sample(folder, "one", |_| {}).join("record.json");
        let text = fs::read_to_string(&header).unwrap();
        fs::write(folder.join("kept.json"), &text).unwrap();
        fs::write(&header, "x".repeat(text.len())).unwrap();
    });
    assert!(site.listed("1 run").contains("1 cannot be read"));
    let header = site.folder.path().join("one/record.json");
    let before = fs::metadata(&header).unwrap().modified().unwrap();
    let text = fs::read(site.folder.path().join("kept.json")).unwrap();
    fs::write(&header, text).unwrap();
    fs::File::options().write(true).open(&header).unwrap().set_modified(before).unwrap();
    let list = site.listed("native = 1");
    assert!(!list.contains("cannot be read"), "{list}");
}

fn cut(path: &Path) {
    let text = fs::read(path).unwrap();
    fs::write(path, &text[..text.len() / 2]).unwrap();
}

/// Events as the sample's, but with these throughputs by turns of blocks.
fn with_rates(record: &Record, rates: [f64; 2]) -> String {
    let lines = events::events(record).into_iter().map(|(at, mut event)| {
        if let Event::TrialEnded { trial, throughput, .. } = &mut event {
            let is_turned = trial.form == "container" && trial.block.is_multiple_of(2);
            *throughput = Some(rates[usize::from(is_turned)]);
        }
        format!("{}\n", serde_json::json!({ "at": at, "event": event }))
    });
    lines.collect()
}

#[test]
fn figures_beyond_all_measure_are_drawn_within_bounds() {
    let rates = [("absurd", [1e-300, 1e300]), ("wide", [2e-9, 1e14]), ("even", [1e14, 1e14])];
    let site = Site::of(|folder| {
        for (name, rates) in rates {
            let path = sample(folder, name, |_| {});
            fs::write(path.join("events.jsonl"), with_rates(&crate::sample::record(), rates)).unwrap();
        }
    });
    for (name, _) in rates {
        let told: Vec<_> = site.follow(name).take_while(|(event, _)| event != "end").collect();
        let (_, ratios) = told.iter().find(|(event, _)| event == "ratios").unwrap();
        let html = ratios["html"].as_str().unwrap();
        assert!(html.len() < 1 << 20 && html.contains("<svg") == (name != "absurd"), "{name}: {html}");
    }
}

#[test]
fn events_without_measure_are_kept_and_told_within_bounds() {
    let record = crate::sample::record();
    let mut trial = record.trials[0].record.trial.clone();
    (trial.form, trial.block, trial.control, trial.profiled) = ("nobody".to_owned(), u32::MAX, false, false);
    let row = record.trials.iter().find_map(|data| data.seconds.first()).cloned().unwrap_or_default();
    let outcome = tare_core::trial::Outcome::Measured;
    let mut all = vec![
        Event::RunStarted { trials: 1, done: u32::MAX },
        Event::TrialStarted { trial: trial.clone(), blocks: 1, left: Duration::MAX },
        Event::Second { row },
        Event::TrialEnded { trial, outcome, throughput: Some(1.0), p99_us: Some(1e300) },
    ];
    let words = "\u{e4}".repeat(5000);
    all.extend((0..1000).map(|_| Event::Searched { words: words.clone() }));
    let line = |event: &Event| format!("{}\n", serde_json::json!({ "at": words, "event": event }));
    let site = Site::of(|folder| {
        let path = sample(folder, "loud", |_| {});
        fs::write(path.join("events.jsonl"), all.iter().map(line).collect::<String>()).unwrap();
    });
    let told: Vec<_> = site.follow("loud").take_while(|(event, _)| event != "end").collect();
    assert!(told.iter().all(|(event, _)| event != "seconds"), "an arm that the header does not have is drawn");
    let said: Vec<_> = told.iter().filter(|(event, _)| event == "said").collect();
    assert_eq!(said.len(), 300);
    assert!(said.iter().all(|(_, data)| data.to_string().len() < 5000), "{:?}", said[0]);
}
