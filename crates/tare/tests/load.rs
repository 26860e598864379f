//! `tare load` when its user has seen enough.

use assert_cmd::cargo::CommandCargoExt as _;
use rustix::process::{Pid, Signal, kill_process};
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::Duration;

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
fn what_was_measured_until_an_interrupt_is_a_whole_result() {
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
