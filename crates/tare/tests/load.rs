//! `tare load` when it is interrupted, and a load process that is held up.

use assert_cmd::cargo::CommandCargoExt as _;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read as _, Write as _};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use tare_core::load::{Arrivals, LoadPlan, LoadProfile, LoadSummary, SecondRow};
use tare_testkit::{load, peer};

/// Starts a load, interrupts it after some time, and returns what it said.
fn cut_short(load: &[&str], after: Duration) -> Output {
    let mut command = Command::cargo_bin("tare").unwrap();
    let child = command.arg("load").args(load).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(after);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    output
}

/// The same of a load of a minute, with what it printed.
fn interrupted(load: &[&str], after: Duration) -> serde_json::Value {
    serde_json::from_slice(&cut_short(&[load, &["--for", "60s", "--json"]].concat(), after).stdout).unwrap()
}

const NOTHING: &[&str] = &["--protocol", "null", "--target", "127.0.0.1:1"];

#[test]
fn an_interrupted_load_reports_what_was_measured() {
    for load in [&["--connections", "4"] as &[&str], &["--rate", "2000"]] {
        let result = interrupted(&[NOTHING, load].concat(), Duration::from_millis(2500));
        let seconds = result["seconds"].as_f64().unwrap();
        assert!(seconds > 1.0 && seconds < 30.0, "{result}");
        assert!(result["response_time"]["p99_us"].is_number(), "{result}");
        assert!(result["operations"].as_u64().unwrap() > 1000, "{result}");
        assert_eq!(result["errors"], 0, "{result}");
        assert!(result["trouble"].to_string().contains("ended after"), "{result}");
    }
}

#[test]
fn an_interrupt_before_anything_was_measured_says_so() {
    let result = interrupted(&[NOTHING, &["--rate", "1000", "--settle", "50s"]].concat(), Duration::from_millis(1500));
    assert_eq!(result["operations"], 0, "{result}");
    assert!(result["trouble"].to_string().contains("before a second was measured"), "{result}");
}

/// A server that answers `OK` on all connections from this number on.
fn answers_from(first: usize) -> std::net::SocketAddr {
    peer::answering(move |number, _| (number >= first).then_some("OK"))
}

#[test]
fn an_interrupt_keeps_the_summary_when_the_server_hangs() {
    // The first connection is never answered.
    let lame = answers_from(1).to_string();
    let load = ["--protocol", "tcp", "--target", &lame, "--connections", "4", "--option", "request=hi"];
    let more = ["--option", "reply={bytes: 2}", "--timeout", "60s"];
    let result = interrupted(&[&load[..], &more].concat(), Duration::from_millis(2500));
    // Rows alone have no percentiles.
    assert!(result["response_time"]["p99_us"].is_number(), "{result}");
    assert!(result["operations"].as_u64().unwrap() > 100, "{result}");
    assert_eq!(result["errors"], 1, "{result}");
}

#[test]
fn an_interrupt_while_populating_exits_as_interrupted() {
    // Nobody answers.
    let (_listener, target) = peer::listen();
    let target = target.to_string();
    let load = ["--protocol", "redis", "--target", &target, "--populate", "--timeout", "60s"];
    let text = String::from_utf8(cut_short(&load, Duration::from_millis(1500)).stderr).unwrap();
    assert!(text.contains("interrupted while writing the data set"), "{text}");
}

/// The exit code and standard output of a load of one second.
fn said(args: &[&str]) -> (Option<i32>, String) {
    let output = Command::cargo_bin("tare").unwrap().args(["load", "--for", "1s"]).args(args).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn reads_that_find_nothing_are_reported_with_a_remedy() {
    let target = peer::answering(|_, _| Some("$-1\r\n")).to_string();
    let options = ["--connections", "2", "--option", "mix={get: 1}", "--option", "verify=false"];
    let args = [&["--protocol", "redis", "--target", &target], &options[..]].concat();
    let (code, text) = said(&args);
    // On a busy machine the generator may be its own limit, which is another note.
    assert!(matches!(code, Some(0 | 3)), "{code:?} {text}");
    assert!(text.contains("nothing found 100.0 % of 'get'") && text.contains("--populate"), "{text}");
    let result: serde_json::Value = serde_json::from_str(&said(&[&args[..], &["--json"]].concat()).1).unwrap();
    assert_eq!(result["summary"]["operations"]["get"]["empty"], result["operations"], "{result}");
    assert!(result["trouble"].to_string().contains("nothing found"), "{result}");
}

#[test]
fn replies_of_another_status_are_counted_under_it() {
    let target = peer::answering(|_, _| Some("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"));
    let url = format!("http://{target}/");
    let (code, text) = said(&["--url", &url, "--connections", "2"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("errors        status 404: "), "{text}");
    let (_, text) = said(&["--url", &url, "--rate", "100", "--json"]);
    let result: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(result["failures"]["status 404"], result["errors"], "{result}");
}

/// The output of a load process with an open load of one second and 10,000 planned operations, which is stopped from
/// 600 ms until 400 ms after its end.
fn held_up(protocol: &str, options: serde_json::Value) -> (Vec<SecondRow>, LoadSummary) {
    let profile =
        LoadProfile::Open { rate: 10_000.0, arrivals: Arrivals::Constant, connections: 50, in_flight: 10_000 };
    let plan = LoadPlan::of(protocol, options, answers_from(0), profile);
    let mut command = Command::cargo_bin("tare").unwrap();
    let mut child = command.arg("drive").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(format!("{}\n", serde_json::to_string(&plan).unwrap()).as_bytes()).unwrap();
    for (after_ms, signal) in [(600, Signal::STOP), (800, Signal::CONT)] {
        std::thread::sleep(Duration::from_millis(after_ms));
        kill_process(Pid::from_child(&child), signal).unwrap();
    }
    let mut printed = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut printed).unwrap();
    child.wait().unwrap();
    let (lines, end) = load::lines(&printed);
    (load::seconds(lines), end.unwrap())
}

#[test]
fn operations_due_while_a_load_is_held_up_count_as_offered() {
    let request = r#"{"name": "x", "weight": 1, "request": {"text": "hi"}, "reply": {"bytes": 2}, "expect": null}"#;
    let asked = format!(r#"{{"requests": [{request}], "populate": []}}"#);
    for (protocol, options) in [("tcp", asked.as_str()), ("null", "{}")] {
        let options = serde_json::from_str(options).unwrap();
        let (rows, summary) = held_up(protocol, options);
        // Some 4000 of them came due when nobody could start them.
        assert_eq!(summary.offered, 10_000, "{protocol}: {summary:?}");
        assert_eq!(summary.offered, summary.started + summary.dropped, "{protocol}: {summary:?}");
        assert!(summary.health.as_ref().unwrap().late > 2000, "{protocol}: {summary:?}");
        // `null` operations are counted when they are done, and so after the end.
        let offered: u64 = rows.iter().map(|row| row.offered).sum();
        assert!(protocol == "null" || offered == 10_000, "{protocol}: {rows:?}");
    }
}
