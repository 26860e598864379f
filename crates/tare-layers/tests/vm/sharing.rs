//! A volume that services of a guest share; services in separate guests cannot.

use crate::checks::numbered_redis;
use crate::stage::{Stage, fault_of, program, vm};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use tare_core::command::{CommandEnd, CommandStart};
use tare_core::host::{Host, ServiceStart};
use tare_core::layer::LayerUse;
use tare_core::workload::Volume;

/// How long a command may take in an emulated guest.
const WITHIN: Duration = Duration::from_secs(120);

/// Two that share a volume, of which the second may only read it.
fn two() -> Vec<ServiceStart> {
    let sharing = |number: u16| {
        let mut start = numbered_redis(number);
        start.service.volumes.insert("/common".to_owned(), Volume::shared("site", 1 << 20, number == 2));
        start
    };
    (1..=2).map(sharing).collect()
}

fn run(host: &mut dyn Host, instance: &str, words: &[&str]) -> CommandEnd {
    let command = words.iter().map(|word| (*word).to_owned()).collect();
    let start = CommandStart { command, environment: BTreeMap::new(), directory: "/data".to_owned(), within: WITHIN };
    host.begin_command(instance, &start).unwrap();
    host.await_command(instance, WITHIN).unwrap().expect("it ends within its time")
}

/// In one guest, as plain processes or in containers.
pub(crate) fn in_guest(inner: &[LayerUse]) {
    let two = two();
    let stage = Stage::open(&two, inner);
    let mut host = stage.guest(&vm(json!({})), &program()).unwrap();
    for layer in inner {
        host = host.open(layer, &stage.surroundings).unwrap();
    }
    for start in &two {
        let place = host.start(start).unwrap().endpoints["main"];
        assert!(stage.answers(place), "{place}: {}", host.log(&start.instance).unwrap());
    }
    let write = |file: &str| format!("echo written > /common/{file}");
    let written = run(host.as_mut(), "redis-1", &["busybox", "sh", "-c", &write("one")]);
    assert_eq!(run(host.as_mut(), "redis-2", &["busybox", "cat", "/common/one"]).stdout, "written\n", "{written:?}");
    let refused = run(host.as_mut(), "redis-2", &["busybox", "sh", "-c", &write("two")]);
    assert!(refused.stderr.contains("Read-only file system"), "{refused:?}");
    host.close().unwrap();
    stage.close();
}

pub(crate) fn in_separate_guests() {
    let stage = Stage::open(&two(), &[]);
    let (unavailable, fault) = fault_of(stage.guest(&vm(json!({"guests": 2})), &program()));
    assert!(unavailable && fault.message.contains("'redis-1' and 'redis-2' share the volume 'site'"), "{fault:?}");
    stage.close();
}
