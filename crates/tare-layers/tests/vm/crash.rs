//! A run that is killed while a guest of it runs.

use crate::passt;
use crate::stage::{DebianStore, Stage, left_of, program, redis, vm};
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use tare_core::bundle::BundleStore;
use tare_layers::{LAYERS, leftovers};

/// Boots a guest, says so, and waits to be killed.
pub(crate) fn doomed(run: &str, network: &str) -> ExitCode {
    let stage = Stage::open_as(run, &[redis()], &[]);
    let host = stage.guest(&vm(json!({"network": network})), &program()).unwrap();
    println!("made");
    std::thread::sleep(Duration::from_secs(1000));
    drop(host);
    ExitCode::SUCCESS
}

/// A guest goes with who started it, and the rest is found.
pub(crate) fn killed_run(network: &str) {
    if network == "passt" && !passt::is_here() {
        return;
    }
    let run = format!("{:04x}k{}", std::process::id() & 0xffff, &network[..1]);
    // Built before, so that the doomed process does nothing but boot.
    DebianStore.bundle(&redis().service.recipe).unwrap();
    let mut doomed = Command::new(program()).args(["doomed", &run, network]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(doomed.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "made\n");
    let guests = || left_of(&run).into_iter().filter(|leftover| leftover.kind.starts_with("guest")).count();
    assert_eq!(guests(), if network == "passt" { 2 } else { 1 });
    doomed.kill().unwrap();
    doomed.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while guests() > 0 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(guests(), 0, "it goes with who started it");
    let left = left_of(&run);
    assert!(left.iter().any(|leftover| leftover.kind == "link"), "{left:#?}");
    for leftover in &left {
        leftovers::remove(LAYERS, leftover).unwrap_or_else(|fault| panic!("{leftover:?}: {fault}"));
    }
    assert_eq!(left_of(&run), []);
}
