//! A browser that comes while a run goes on, and sees it go on.

use crate::end_to_end::lab::{Lab, said, text};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const STUDY: &str = "\
study: watched
question: Does it show?
workload: redis
repeat: 9
design: blocks
load: {closed: {connections: 4}}
time: {settle: 0s, measure: 2s}
forms: {native: []}
";

/// A browser that has the key.
struct Browser {
    host: String,
    /// What all paths begin with.
    key: String,
}

impl Browser {
    /// Opens the link that the server prints.
    fn of(server: &mut Child) -> Browser {
        let link = link(server);
        let rest = link.strip_prefix("http://").unwrap();
        let (host, path) = rest.split_once('/').unwrap();
        Browser { host: host.to_owned(), key: path.trim_end_matches('/').to_owned() }
    }

    fn ask(&self, path: &str, more: &str) -> TcpStream {
        self.send("GET", path, more)
    }

    /// Asks for a change as a script of a page does; what was answered.
    fn change(&self, path: &str) -> String {
        let mut answer = String::new();
        let origin = format!("Origin: http://{}\r\nContent-Length: 0\r\nConnection: close\r\n", self.host);
        self.send("POST", path, &origin).read_to_string(&mut answer).unwrap();
        answer
    }

    fn send(&self, method: &str, path: &str, more: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let Browser { host, key } = self;
        write!(stream, "{method} /{key}{path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n").unwrap();
        stream
    }

    fn get(&self, path: &str) -> String {
        let mut page = String::new();
        self.ask(path, "Connection: close\r\n").read_to_string(&mut page).unwrap();
        page
    }
}

/// The link that the server prints.
pub(crate) fn link(server: &mut Child) -> String {
    let mut link = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut link).unwrap();
    link.trim().to_owned()
}

#[test]
fn a_run_is_seen_in_a_browser_as_it_goes_on_and_ends_when_that_asks() {
    let Some(lab) = Lab::open(&["mmdebstrap"]) else { return };
    let records = lab.path("records");
    std::fs::create_dir(&records).unwrap();
    let study = lab.write("watched.yaml", STUDY);
    lab.expect(0, &["bundle", "build", "--workload", "redis"]);
    let mut server = lab.command(&["serve", "--records", text(&records)]).stdout(Stdio::piped()).spawn().unwrap();
    let browser = Browser::of(&mut server);
    assert!(browser.get("/now").contains("No run goes on"));
    let out = records.join("live");
    let run = lab.command(&["run", text(&study), "--out", text(&out)]).stdout(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    while !browser.get("/now").contains("data-run=\"live\"") {
        assert!(began.elapsed() < Duration::from_secs(60), "no run goes on");
        std::thread::sleep(Duration::from_millis(200));
    }
    let (mut event, mut seen, mut is_asked) = (String::new(), Vec::new(), false);
    for line in BufReader::new(browser.ask("/now/events", "")).lines().map_while(Result::ok) {
        if let Some(name) = line.strip_prefix("event: ") {
            name.trim().clone_into(&mut event);
        }
        let Some(data) = line.strip_prefix("data: ") else { continue };
        if event == "end" {
            break;
        }
        let is_there = out.join("end.json").exists();
        let data: serde_json::Value = serde_json::from_str(data.trim()).unwrap();
        // In the third of nine blocks of two trials.
        if event == "state" && data["done"] == 5 && !is_asked {
            let answer = browser.change("/now/end?run=live&when=after-block");
            assert!(answer.ends_with("The run ends after this block."), "{answer}");
            is_asked = true;
        }
        seen.push((event.clone(), data, is_there));
    }
    let output = run.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let came = |wanted: &str, holds: &dyn Fn(&serde_json::Value) -> bool| {
        seen.iter().any(|(event, data, ended)| event == wanted && !ended && holds(data))
    };
    assert!(came("state", &|state| state["stage"] == "measure"), "{seen:#?}");
    assert!(came("seconds", &|data| data["html"].as_str().unwrap().contains("polyline")), "{seen:#?}");
    let ratios = seen.iter().rev().find(|(event, ..)| event == "ratios").unwrap().1["html"].as_str().unwrap();
    assert!(ratios.contains("native (A/A)") && !ratios.contains("needs 3 blocks"), "{ratios}");
    let last = &seen.iter().rev().find(|(event, ..)| event == "state").unwrap().1;
    assert!(last["ended"] == "on request" && last["done"] == 6, "{last}");
    let asked_by = lab.record(&out).end.unwrap().asked_by.unwrap();
    assert!(asked_by.user == 0 && asked_by.program.is_some(), "{asked_by:?}");
    assert!(browser.get("/run/live").contains("asked the run to end early, after 6 of 18 planned trials"));
    assert!(browser.get("/run/live").contains("Does it show?"));
    kill_process(Pid::from_child(&server), Signal::INT).unwrap();
    assert!(server.wait().unwrap().success());
    lab.expect_clean();
}
