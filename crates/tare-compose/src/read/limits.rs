//! Limits, replicas and health checks.

use super::nested;
use crate::keys::Keys;
use crate::model::{Health, Ready, Service};
use crate::sources::{At, Sources, Weight};
use crate::yaml::{Entry, Kind, Value};
use std::time::Duration;
use tare_core::image::HealthCheck;
use tare_core::units::{CpuSet, DURATION_MAX};

/// A service must have so much memory, in bytes.
const MEMORY_MIN: u64 = 8 << 20;
/// A quota must give so much of a CPU.
const CPUS_MIN: f64 = 0.01;

/// Reads `cpus`, `cpuset`, `mem_limit`, `scale` and `deploy`. Returns false for a service that is not deployed at all.
pub(super) fn read(keys: &mut Keys, service: &mut Service, sources: &mut Sources) -> bool {
    if let Some(entry) = keys.get_filled("mem_limit") {
        service.memory = memory(&entry.value, sources);
    }
    if let Some(entry) = keys.get_filled("cpus") {
        service.cpus = cpus(&entry.value, sources);
    }
    if let Some(entry) = keys.get_filled("cpuset") {
        let set = entry.value.text(sources).and_then(|text| match CpuSet::parse(&text) {
            Ok(set) => Some(set),
            Err(why) => {
                sources.wrong(entry.value.at, why, "");
                None
            }
        });
        service.cpuset = set.and_then(|set| u32::try_from(set.len()).ok()).filter(|count| *count > 0);
        let instead = "the service gets as many CPUs; which ones is the study's business: see `placement:` there";
        sources.note(entry.at, service.key("cpuset"), Weight::Differs, instead);
    }
    let mut count = keys.get("scale").map(|entry| (entry.at, entry.value.number(sources), "scale"));
    if let Some(entry) = keys.get("deploy") {
        let replicas = deploy(&entry.value, service, sources);
        count = replicas.or(count);
    }
    let Some((at, Some(number), name)) = count else { return true };
    if number > 1.0 {
        let instead = "one instance is deployed; a study may deploy more (`instances:`) of a service that takes its \
                       port from ${{port.NAME}}";
        sources.note(at, service.key(name), Weight::Differs, instead);
    }
    number != 0.0
}

/// How many instances are asked for, where, and by which key.
type Count = (At, Option<f64>, &'static str);

fn deploy(value: &Value, service: &mut Service, sources: &mut Sources) -> Option<Count> {
    let mut keys = Keys::of(value, "'deploy'", sources)?;
    keys.know(&["labels", "endpoint_mode"]);
    for (name, known) in nested::DEPLOY {
        if let Some(entry) = keys.get(name) {
            nested::check(&entry.value, &format!("'{name}'"), known, sources);
            if name == "placement" {
                let instead = "all services run on one machine; which CPUs they get is the study's `placement:`";
                sources.note(entry.at, service.key("deploy.placement"), Weight::Differs, instead);
            }
        }
    }
    if let Some(entry) = keys.get("mode") {
        mode(entry, service, sources);
    }
    let replicas = keys.get("replicas").map(|entry| (entry.at, entry.value.number(sources), "deploy.replicas"));
    let resources = keys.get("resources");
    keys.finish(sources);
    if let Some(entry) = resources {
        resources_of(&entry.value, service, sources);
    }
    replicas
}

/// Notes how a cluster would deploy it. A job ends by itself.
fn mode(entry: &Entry, service: &mut Service, sources: &mut Sources) {
    const MODES: [&str; 4] = ["global", "global-job", "replicated", "replicated-job"];
    match entry.value.scalar().unwrap_or_default() {
        "" | "replicated" => {}
        "global" => {
            let instead = "one instance is deployed, for there is one machine";
            sources.note(entry.at, service.key("deploy.mode"), Weight::Differs, instead);
        }
        "global-job" | "replicated-job" => service.ready = Ready::Ended,
        mode => sources.unknown(entry.value.at, format!("there is no mode '{mode}'"), mode, &MODES),
    }
}

fn resources_of(value: &Value, service: &mut Service, sources: &mut Sources) {
    let Some(mut keys) = Keys::of(value, "'resources'", sources) else { return };
    let limits = keys.get("limits");
    if let Some(entry) = keys.get("reservations") {
        let devices = entry.value.entries().iter().any(|entry| entry.key == "devices");
        let (weight, instead) = match devices {
            true => (Weight::Stops, super::ignored::DEVICES),
            false => (Weight::Differs, "nothing is reserved; each form has the limits"),
        };
        sources.note(entry.at, service.key("deploy.resources.reservations"), weight, instead);
    }
    keys.finish(sources);
    if let Some(mut keys) = limits.and_then(|entry| Keys::of(&entry.value, "'limits'", sources)) {
        if let Some(entry) = keys.get_filled("cpus") {
            service.cpus = cpus(&entry.value, sources);
        }
        if let Some(entry) = keys.get_filled("memory") {
            service.memory = memory(&entry.value, sources);
        }
        if let Some(entry) = keys.get("pids") {
            let instead = "the number of processes is not limited";
            sources.note(entry.at, service.key("deploy.resources.limits.pids"), Weight::Differs, instead);
        }
        keys.finish(sources);
    }
}

fn memory(value: &Value, sources: &mut Sources) -> Option<u64> {
    let bytes = value.bytes(sources)?;
    if bytes < MEMORY_MIN {
        sources.wrong(value.at, "no service starts with less than 8 MiB of memory", "write for example 256m");
    }
    Some(bytes.max(MEMORY_MIN))
}

/// Zero means that there is no limit.
fn cpus(value: &Value, sources: &mut Sources) -> Option<f64> {
    let cpus = value.number(sources).filter(|cpus| *cpus > 0.0)?;
    if !(CPUS_MIN..=4096.0).contains(&cpus) {
        sources.wrong(value.at, format!("{cpus} CPUs are out of range"), "from 0.01 to 4096");
        return None;
    }
    Some(cpus)
}

/// Reads `healthcheck:`. What it leaves out is the image's.
pub(super) fn health(value: &Value, service: &mut Service, sources: &mut Sources) {
    let Some(mut keys) = Keys::of(value, "'healthcheck'", sources) else { return };
    keys.know(&["start_interval"]);
    let of_image = service.says.as_ref().and_then(|says| says.health.clone());
    let mut time = |name, usual: fn(&HealthCheck) -> Duration, otherwise| {
        let read = keys.get_filled(name).and_then(|entry| entry.value.duration(sources));
        // Zero stands for what is usual.
        read.filter(|time| !time.is_zero()).or(of_image.as_ref().map(usual)).unwrap_or(otherwise)
    };
    let interval = time("interval", |check: &HealthCheck| check.interval, HealthCheck::INTERVAL);
    let timeout = time("timeout", |check: &HealthCheck| check.timeout, HealthCheck::TIMEOUT);
    let start_period = time("start_period", |check: &HealthCheck| check.start_period, Duration::ZERO);
    let retries = keys.get("retries").and_then(|entry| entry.value.number(sources));
    let retries = retries.or(of_image.as_ref().map(|check| f64::from(check.retries))).unwrap_or(3.0);
    let disabled = keys.flag("disable", false, sources);
    let test = keys.get("test");
    keys.finish(sources);
    let (at, command) = match test {
        Some(test) => (Some(test.at), command(test, service, sources)),
        None => (None, of_image.map(|check| check.command)),
    };
    service.health = None;
    let Some(command) = command.filter(|_| !disabled) else { return };
    let whole = start_period.as_secs_f64() + interval.as_secs_f64() * (retries + 1.0);
    service.within = Some(Duration::from_secs_f64(whole.clamp(10.0, DURATION_MAX.as_secs_f64()).ceil()));
    let retries = retries.clamp(1.0, 1000.0) as u32;
    service.health = Some(Health { at, check: HealthCheck { command, interval, timeout, start_period, retries } });
}

/// The command of `test`: a list that begins with how it is run, or a line for the image's shell. None for `NONE`.
fn command(test: &Entry, service: &Service, sources: &mut Sources) -> Option<Vec<String>> {
    const KINDS: [&str; 3] = ["CMD", "CMD-SHELL", "NONE"];
    let shell = service.says.as_ref().map(|says| says.shell.clone()).unwrap_or_default();
    let Kind::List(items) = &test.value.kind else {
        let line = test.value.text(sources).filter(|line| line != "NONE")?;
        return HealthCheck::command_of(&["CMD-SHELL".to_owned(), line], &shell);
    };
    let words: Vec<String> = items.iter().filter_map(|item| item.text(sources)).collect();
    if let Some(first) = words.first().filter(|first| !KINDS.contains(&first.as_str())) {
        sources.unknown(test.value.at, format!("a health check does not begin with '{first}'"), first, &KINDS);
    }
    HealthCheck::command_of(&words, &shell)
}
