//! `tare load` when it is interrupted, and a load process that is held up.

use assert_cmd::cargo::CommandCargoExt as _;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;
use tare_core::load::{Arrivals, LoadLine, LoadPlan, LoadProfile, LoadSummary, SecondRow};

/// Starts a load of a minute, interrupts it after some seconds, and returns what it printed.
fn interrupted(load: &[&str], after: Duration) -> serde_json::Value {
    let mut command = Command::cargo_bin("tare").unwrap();
    command.args(["load", "--protocol", "null", "--target", "127.0.0.1:1", "--for", "60s", "--json"]).args(load);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(after);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{text}");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn an_interrupted_load_reports_what_was_measured() {
    for load in [&["--connections", "4"] as &[&str], &["--rate", "2000"]] {
        let result = interrupted(load, Duration::from_millis(2500));
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
    let result = interrupted(&["--rate", "1000", "--settle", "50s"], Duration::from_millis(1500));
    assert_eq!(result["operations"], 0, "{result}");
    assert!(result["trouble"].to_string().contains("before a second was measured"), "{result}");
}

/// A server that answers `OK` on all connections but the first.
fn lame() -> std::net::SocketAddr {
    answers_from(1)
}

/// A server that answers `OK` on all connections from this number on.
fn answers_from(first: usize) -> std::net::SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for (number, mut stream) in listener.incoming().flatten().enumerate() {
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while stream.read(&mut bytes).is_ok_and(|received| received > 0) {
                    if number >= first && stream.write_all(b"OK").is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

#[test]
fn an_interrupt_keeps_the_summary_when_the_server_hangs() {
    let mut command = Command::cargo_bin("tare").unwrap();
    command.args(["load", "--protocol", "tcp", "--target", &lame().to_string(), "--for", "60s", "--json"]);
    command.args(["--connections", "4", "--timeout", "60s", "--option", "request=hi", "--option", "reply={bytes: 2}"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{text}");
    let result: serde_json::Value = serde_json::from_str(&text).unwrap();
    // Rows alone have no percentiles.
    assert!(result["response_time"]["p99_us"].is_number(), "{result}");
    assert!(result["operations"].as_u64().unwrap() > 100, "{result}");
    assert_eq!(result["errors"], 1, "{result}");
}

#[test]
fn an_interrupt_while_populating_exits_as_interrupted() {
    // Nobody answers.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let mut command = Command::cargo_bin("tare").unwrap();
    command.args(["load", "--protocol", "redis", "--target", &target, "--populate", "--timeout", "60s"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{text}");
    assert!(text.contains("interrupted while writing the data set"), "{text}");
}

/// A server that answers each request with this.
fn answering(answer: impl Fn(&str) -> &'static str + Copy + Send + 'static) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(received @ 1..) = stream.read(&mut bytes) {
                    let request = String::from_utf8_lossy(&bytes[..received]).into_owned();
                    if stream.write_all(answer(&request).as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// The exit code and standard output of a load of one second.
fn said(args: &[&str]) -> (Option<i32>, String) {
    let output = Command::cargo_bin("tare").unwrap().args(["load", "--for", "1s"]).args(args).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn reads_that_find_nothing_are_reported_with_a_remedy() {
    let target = answering(|_| "$-1\r\n");
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
    let target = answering(|_| "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
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
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    child.wait().unwrap();
    let (mut rows, mut summary) = (Vec::new(), None);
    for line in text.lines() {
        match serde_json::from_str(line).unwrap() {
            LoadLine::Second(row) => rows.push(row),
            LoadLine::Done(done) => summary = Some(*done),
            other => panic!("{other:?}"),
        }
    }
    (rows, summary.unwrap())
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
