//! `tare load` when its user has seen enough.

use assert_cmd::cargo::CommandCargoExt as _;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read as _, Write as _};
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

/// A server that answers `+OK` to what comes on all connections but the first.
fn lame() -> std::net::SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for (number, mut stream) in listener.incoming().flatten().enumerate() {
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while stream.read(&mut bytes).is_ok_and(|received| received > 0) {
                    if number > 0 && stream.write_all(b"OK").is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

#[test]
fn an_interrupt_at_a_server_that_hangs_keeps_the_summary() {
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
fn an_interrupt_while_the_data_set_is_written_is_one_too() {
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
    assert!(text.contains("interrupted while the data set was written"), "{text}");
}
