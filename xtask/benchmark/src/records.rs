//! Synthetic records, as many as somebody has after years: real files of runs that never were. A few are written
//! whole; the others have headers of their own and share the files of their trials with one of these, by links.

use anyhow::{Context, Result, anyhow};
use base64::Engine;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;
use tare_core::bundle::{Recipe, Source};
use tare_core::form::Form;
use tare_core::layer::LayerUse;
use tare_core::load::{Check, LoadOrigin, LoadProfile, LoadSummary, OperationSummary, SecondRow};
use tare_core::plan::{PlannedTrial, plan};
use tare_core::record::{End, FormState, Header, SCHEMA, TrialData, TrialRecord};
use tare_core::study::Study;
use tare_core::telemetry::{TelemetryRow, Vantage, WHOLE_MACHINE};
use tare_core::trial::{Outcome, Stage};
use tare_core::units::CpuSet;
use tare_core::workload::{ProtocolUse, Readiness, Resources, Service, StopSignal, Workload};
use tare_runner::RecordDir;

/// Records that are written whole. A file can have some 65000 links, so that of ten thousand records and these it has
/// a thousand.
const WHOLE: u32 = 10;
/// Trials in a block: the baseline, its A/A control and two forms.
pub(crate) const ARMS: u32 = 4;
/// The studies that records are of, by turns. All are of one workload.
pub(crate) const STUDIES: [&str; 3] = ["canonical", "nightly", "kernel-update"];
/// The form that is followed.
pub(crate) const FORM: &str = "container";

const SECOND: u64 = 1_000_000_000;
const SEED: u64 = 7;
/// Seconds that a trial measures.
const SECONDS: u64 = 10;
/// The files of a trial.
const FILES: [&str; 3] = ["trial.json", "seconds.jsonl", "telemetry.jsonl"];

/// Makes so many records of so many blocks in a folder.
///
/// # Errors
/// When they cannot be written.
pub(crate) fn make(folder: &Path, records: u32, blocks: u32) -> Result<()> {
    fs::create_dir_all(folder)?;
    for number in 0..records {
        let header = header(number, blocks);
        let path = folder.join(name(number));
        if number < WHOLE {
            write(&path, &header, number)?;
        } else {
            link(&folder.join(name(number % WHOLE)), &path, &header)?;
        }
    }
    Ok(())
}

/// The name of a record's folder, as runs call it.
pub(crate) fn name(number: u32) -> String {
    let (year, month, day) = day(number);
    format!("{year}{month:02}{day:02}-{}-{}", STUDIES[number as usize % STUDIES.len()], run(number))
}

/// The id of its run.
pub(crate) fn run(number: u32) -> String {
    format!("r{number:05}")
}

/// Four records a day, the first of them years ago, in months of 28 days.
fn day(number: u32) -> (u32, u32, u32) {
    let day = number / 4;
    (2020 + day / 336, 1 + day / 28 % 12, 1 + day % 28)
}

/// A record of its own.
fn write(path: &Path, header: &Header, number: u32) -> Result<()> {
    let written = RecordDir::create(path, header)?;
    for planned in &header.plan {
        written.write_trial(&trial(planned, number)?)?;
    }
    let end = End { ended: header.started.clone(), how: "complete".to_owned(), asked_by: None };
    written.write_end(&end)?;
    Ok(())
}

/// A record that has the trials of another one.
fn link(from: &Path, to: &Path, header: &Header) -> Result<()> {
    fs::create_dir(to)?;
    fs::write(to.join("record.json"), serde_json::to_vec_pretty(header)?)?;
    fs::hard_link(from.join("end.json"), to.join("end.json"))?;
    fs::create_dir(to.join("trials"))?;
    for planned in &header.plan {
        let trial = format!("trials/{:04}", planned.index);
        let (from, to) = (from.join(&trial), to.join(&trial));
        fs::create_dir(&to)?;
        for file in FILES {
            let linked = fs::hard_link(from.join(file), to.join(file));
            linked.with_context(|| format!("could not link {} to {}", from.display(), to.display()))?;
        }
    }
    Ok(())
}

fn header(number: u32, blocks: u32) -> Header {
    let (year, month, day) = day(number);
    let study = study(number, blocks);
    let states = study.forms.iter().map(|form| (form.name.clone(), state(form)));
    Header {
        schema: SCHEMA,
        tare: env!("CARGO_PKG_VERSION").to_owned(),
        run: run(number),
        started: format!("{year}-{month:02}-{day:02}T{:02}:14:02Z", 5 * (number % 4)),
        command: format!("tare run {}", study.name),
        workload: workload(),
        seed: SEED,
        plan: plan(&study, &[], SEED),
        forms: states.collect(),
        topology: None,
        environment: texts(&[
            ("cpu.model", "AMD EPYC 9354P 32-Core Processor"),
            ("cpu.logical", "4"),
            ("kernel", ["6.1.0-28-amd64", "6.12.9"][(number / 3000) as usize % 2]),
            ("memory.total", "15.6 GiB"),
            ("os", "Debian GNU/Linux 12 (bookworm)"),
        ]),
        bundles: texts(&[("redis", "sha256:5c1f0f3b8a6d4e2790b1c3d5e7f9a0b2c4d6e8fa1b3c5d7e9f0a2b4c6d8eaf01")]),
        placement: texts(&[("generator", "2-3"), ("system under test", "0-1")]),
        study,
    }
}

fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn state(form: &Form) -> FormState {
    let describe = form.describe();
    FormState { describe, emulated: None, unavailable: None, facts: BTreeMap::new(), placement: None }
}

fn study(number: u32, blocks: u32) -> Study {
    let container =
        |network: &str| LayerUse { layer: "container".into(), options: serde_json::json!({ "network": network }) };
    let form = |name: &str, layers| Form { name: name.into(), layers, ..Form::default() };
    Study {
        name: STUDIES[number as usize % STUDIES.len()].to_owned(),
        question: "What does each form cost one Redis server?".into(),
        workload: "redis".into(),
        baseline: "native".into(),
        repeat: blocks,
        design: Default::default(),
        at_most: None,
        from: LoadOrigin::Outside,
        load: LoadProfile::Closed { connections: 50, pipeline: 1 },
        settle: Duration::from_secs(1),
        measure: Duration::from_secs(SECONDS),
        timeout: Duration::from_secs(10),
        qos: None,
        peak: None,
        emulated_blocks: 1,
        placement: None,
        kept: tare_core::placement::ReservedCpus::default(),
        instances: tare_core::instances::Instances::default(),
        forms: vec![
            form("native", Vec::new()),
            form(FORM, vec![container("published")]),
            form("container-hostnet", vec![container("host")]),
        ],
        options: BTreeMap::new(),
        parameters: Default::default(),
        seed: None,
        part: None,
        ruler: None,
        ladder: None,
        advice: None,
        profile: None,
    }
}

fn workload() -> Workload {
    let service = Service {
        name: "redis".into(),
        recipe: Recipe::plain(Source::Packages(vec!["redis-server".into()])),
        command: vec!["/usr/bin/redis-server".into()],
        environment: BTreeMap::new(),
        user: (65_534, 65_534),
        own_user: false,
        as_image: false,
        ports: [("main".to_owned(), 6379)].into(),
        names: Default::default(),
        ready: Readiness::Port { port: "main".into(), within: Duration::from_secs(10) },
        volumes: BTreeMap::new(),
        resources: Resources { cpus: 1, cpu_quota: None, memory_bytes: 512 << 20 },
        stop_signal: StopSignal::TERM,
        stop_within: Duration::from_secs(10),
        options: BTreeMap::new(),
        instances: 1,
        directory: None,
        image: None,
        replica: None,
    };
    let protocol = ProtocolUse {
        protocol: "redis".into(),
        service: "redis".into(),
        port: Some("main".into()),
        spread: false,
        options: serde_json::Value::Null,
        unit: None,
        metrics: Vec::new(),
        behaviours: Default::default(),
    };
    Workload {
        name: "redis".into(),
        about: "A key-value store in memory, one thread".into(),
        services: vec![service],
        protocol,
        qos: None,
        qos_sets: Default::default(),
        file: None,
        parameters: Default::default(),
        prepared: None,
    }
}

/// Of the record with this number.
fn trial(planned: &PlannedTrial, number: u32) -> Result<TrialData> {
    let (load, telemetry) = (load(planned, number)?, telemetry(planned, number));
    let figures = tare_stats::trial_metrics(&load, &telemetry).map_err(|why| anyhow!("no figures: {why}"))?;
    let started = format!("2026-03-05T10:{:02}:00Z", 14 + planned.index / 4 % 40);
    let record = TrialRecord {
        stages: [(Stage::Deploy, 0.3), (Stage::Settle, 1.0), (Stage::Measure, 10.0), (Stage::Verify, 0.2)].into(),
        load: Some(load),
        path: "veth".into(),
        ran_on: [("redis".to_owned(), CpuSet::new([0, 1]))].into(),
        metrics: figures.metrics,
        ..TrialRecord::new(planned.clone(), started, Outcome::Measured)
    };
    Ok(TrialData { record, seconds: seconds(planned, number), telemetry })
}

/// What a form comes to beside the baseline: throughput.
fn speed(form: &str) -> f64 {
    match form {
        FORM => 0.87,
        "container-hostnet" => 0.98,
        _ => 1.0,
    }
}

/// A deviation of some per mille, which trial, record and purpose decide.
fn noise(planned: &PlannedTrial, number: u32, purpose: u64) -> f64 {
    let mut state = (u64::from(planned.index) << 32) | (u64::from(number) << 8) | purpose;
    let mut next = || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
    };
    (0..4).map(|_| next()).sum::<f64>() * 0.01
}

fn throughput(planned: &PlannedTrial, number: u32) -> f64 {
    98_200.0 * speed(&planned.form) * noise(planned, number, 1).exp()
}

fn begin_ns(planned: &PlannedTrial) -> u64 {
    (u64::from(planned.index) * 20 + 5) * SECOND
}

fn load(planned: &PlannedTrial, number: u32) -> Result<LoadSummary> {
    let count = throughput(planned, number) * SECONDS as f64;
    let p50_ns = 482_000.0 / speed(&planned.form) * noise(planned, number, 2).exp();
    let mut times = Histogram::<u64>::new(3)?;
    let slices = 2000;
    for slice in 0..slices {
        let share = (f64::from(slice) + 0.5) / f64::from(slices);
        let value = p50_ns * ((share / (1.0 - share)).ln() * 0.15).exp();
        times.record_n(value as u64, (count / f64::from(slices)) as u64)?;
    }
    let mut bytes = Vec::new();
    let written = V2DeflateSerializer::new().serialize(&times, &mut bytes);
    written.map_err(|error| anyhow!("could not write a histogram: {error:?}"))?;
    let text = base64::engine::general_purpose::STANDARD.encode(bytes);
    let (service_time, response_time) = (text.clone(), text);
    let operation = OperationSummary { count: times.len(), service_time, response_time, ..Default::default() };
    let (name, detail) = ("server's own count".to_owned(), format!("{} = {}", times.len(), times.len()));
    Ok(LoadSummary {
        measure_start_ns: begin_ns(planned),
        measure_end_ns: begin_ns(planned) + SECONDS * SECOND,
        operations: [("get".to_owned(), operation)].into(),
        generator_cpu_s: count * 4.1e-6,
        generator_cpus: 2,
        checks: vec![Check { name, passed: true, detail, always: false, outcome: false }],
        facts: texts(&[("server.version", "7.0.15")]),
        ..Default::default()
    })
}

fn seconds(planned: &PlannedTrial, number: u32) -> Vec<SecondRow> {
    let row = |second: u64| {
        let wobble = 2.0 * noise(planned, number, 10 + second);
        let p50_us = 482.0 / speed(&planned.form) * (1.0 - wobble);
        SecondRow {
            at_ns: begin_ns(planned) + second * SECOND,
            measured: second > 0,
            seconds: 1.0,
            operations: (throughput(planned, number) * (1.0 + wobble)) as u64,
            errors: 0,
            p50_us,
            p99_us: 2.0 * p50_us,
            max_us: 8.0 * p50_us,
            ..SecondRow::default()
        }
    };
    (0..=SECONDS).map(row).collect()
}

/// Of the machine's four CPUs and of the service, once a second.
fn telemetry(planned: &PlannedTrial, number: u32) -> Vec<TelemetryRow> {
    let mut rows = Vec::new();
    for second in 0..SECONDS + 4 {
        let at_ns = begin_ns(planned) - SECOND + second * SECOND;
        let busy_s = second.saturating_sub(1) as f64;
        let mut machine = BTreeMap::new();
        for (cpu, share) in [0.8, 0.12, 0.52, 0.31].into_iter().enumerate() {
            let share = share * (1.0 + noise(planned, number, 40 + cpu as u64)) / speed(&planned.form).sqrt();
            for (part, of) in [("user", 0.35), ("system", 0.5), ("softirq", 0.15)] {
                machine.insert(format!("cpu_{part}_s@{cpu}"), of * share * busy_s);
                *machine.entry(format!("cpu_{part}_s")).or_insert(0.0) += of * share * busy_s;
            }
            machine.insert(format!("cpu_idle_s@{cpu}"), second as f64 - share * busy_s);
        }
        let service = [("cpu_total_s", 0.8 * busy_s), ("migrations", 3.0 * busy_s)];
        let service: BTreeMap<String, f64> = service.map(|(metric, value)| (metric.to_owned(), value)).into();
        for (scope, serving, values) in [(WHOLE_MACHINE, false, machine), ("redis", true, service)] {
            rows.push(TelemetryRow { at_ns, vantage: Vantage::Host, scope: scope.into(), serving, values });
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_those_of_runs_are() {
        let folder = std::env::temp_dir().join(format!("tare-records-{}", std::process::id()));
        let (one, other) = (folder.join(name(1)), folder.join(name(WHOLE + 1)));
        write(&one, &header(1, 3), 1).unwrap();
        link(&one, &other, &header(WHOLE + 1, 3)).unwrap();
        let [whole, linked] = [&one, &other].map(|path| tare_runner::read_record(path).unwrap());
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(whole.trials.len(), 3 * ARMS as usize);
        assert_eq!((&whole.trials, &whole.end), (&linked.trials, &linked.end));
        assert!(whole.header.run == run(1) && linked.header.run == run(WHOLE + 1));
        // What a page shows: a ratio with its interval.
        let ratio = tare_stats::ratio_of(&tare_stats::analyse(&linked), FORM, "throughput").unwrap().ratio;
        assert!((0.84..0.90).contains(&ratio), "{ratio}");
    }
}
