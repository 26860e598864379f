//! The machine without PCI. It also has a clock of another kind: the guest must keep time, and end when it is told to.

use crate::stage::{Stage, program, redis, vm};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tare_core::command::{CommandEnd, CommandStart, Ended};
use tare_core::host::Host;
use tare_core::telemetry::Vantage;

pub(crate) fn boots() {
    let start = redis();
    let stage = Stage::open(std::slice::from_ref(&start), &[]);
    let began = Instant::now();
    let mut host = stage.guest(&vm(json!({"machine": "microvm"})), &program()).unwrap();
    println!("  a guest without PCI answers after {:.1} s", began.elapsed().as_secs_f64());
    let facts = host.facts().unwrap();
    assert_eq!(facts["vm.machine"], "microvm");
    // Its speed is refined for a second after the boot, and it is `tsc-early` until then.
    assert!(facts["guest.clock.source"].starts_with("tsc"), "it has no other: {facts:#?}");
    let instance = host.start(&start).unwrap();
    assert!(stage.answers(instance.endpoints["main"]), "{}", host.log("redis").unwrap());

    let (end, took) = sleep_inside(host.as_mut(), 3);
    // An emulated command may begin and end late, and never early.
    assert!(end.ended == Ended::Exit(0) && (2.9..20.0).contains(&took), "{took} s: {end:?}");
    host.begin_probe(&[], Duration::from_millis(500)).unwrap();
    assert!(host.end_probe().unwrap().iter().any(|row| row.vantage == Vantage::Guest));

    host.stop("redis").unwrap();
    let asked = Instant::now();
    host.close().unwrap();
    // Later, QEMU would have been ended for it.
    assert!(asked.elapsed() < Duration::from_secs(15), "{:?}", asked.elapsed());
    stage.close();
}

/// A command that sleeps by the guest's clock, and how many seconds that took by this machine's.
fn sleep_inside(host: &mut dyn Host, seconds: u32) -> (CommandEnd, f64) {
    let command = ["busybox".to_owned(), "sleep".to_owned(), seconds.to_string()].to_vec();
    let within = Duration::from_secs(60);
    let start = CommandStart { command, environment: BTreeMap::new(), directory: "/data".to_owned(), within };
    let began = Instant::now();
    host.begin_command("redis", &start).unwrap();
    loop {
        if let Some(end) = host.await_command("redis", Duration::from_millis(500)).unwrap() {
            return (end, began.elapsed().as_secs_f64());
        }
    }
}
