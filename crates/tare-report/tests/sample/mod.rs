//! A record of a run that never was, the same in every build: a baseline and its A/A control, a slower form, a form
//! with a failed trial, an emulated one and one that this machine cannot have.

#[allow(dead_code, reason = "not every test that has the sample looks at other studies")]
pub(crate) mod asked;
#[allow(dead_code, reason = "not every test that has the sample looks at what sampling costs")]
pub(crate) mod probed;
#[allow(dead_code, reason = "not every test that has the sample looks at speeds")]
pub(crate) mod speeds;
#[allow(dead_code, reason = "not every test that has the sample looks at levels")]
pub(crate) mod stepped;
pub(crate) mod watched;
use base64::Engine;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use std::collections::BTreeMap;
use std::time::Duration;
use tare_core::bundle::{Recipe, Source};
use tare_core::fault::Fault;
use tare_core::form::Form;
use tare_core::host::{Property, ResourceReport, SeenFile};
use tare_core::layer::LayerUse;
use tare_core::load::{Check, LoadOrigin, LoadProfile, LoadSummary, OperationSummary, SecondRow};
use tare_core::placement::{Placed, Placement};
use tare_core::plan::{PlannedTrial, plan};
use tare_core::record::{End, FormState, Header, Record, SCHEMA, TrialData, TrialRecord};
use tare_core::study::Study;
use tare_core::telemetry::{TelemetryRow, Vantage, WHOLE_MACHINE};
use tare_core::topology::{Cache, Cpu, Topology};
use tare_core::trial::{Outcome, Stage};
use tare_core::units::CpuSet;
use tare_core::workload::{ProtocolUse, Readiness, Resources, Service, StopSignal, Workload};

const SECOND: u64 = 1_000_000_000;
const SEED: u64 = 7;
const CPUS: usize = 4;

/// How an arm behaves: throughput, p50 and tail, CPU by operation and its share in the kernel.
struct Manner {
    throughput: f64,
    p50_us: f64,
    tail: f64,
    cpu_us: f64,
    kernel: f64,
}

fn manner(form: &str) -> Manner {
    let of = |throughput, p50_us, tail, cpu_us, kernel| Manner { throughput, p50_us, tail, cpu_us, kernel };
    match form {
        "container" => of(0.872, 1.16, 0.30, 1.22, 0.70),
        "container-hostnet" => of(0.978, 1.02, 0.26, 1.02, 0.66),
        "container.bridge-first" => of(0.930, 1.08, 0.27, 1.08, 0.68),
        "container.no-overlay" => of(0.900, 1.12, 0.28, 1.13, 0.69),
        "ruler" => of(1.0 / 1.01, 1.01, 0.25, 1.01, 0.65),
        "vm" => of(0.093, 10.4, 0.42, 9.7, 0.25),
        _ => of(1.0, 1.0, 0.25, 1.0, 0.65),
    }
}

/// Deviation of a trial, a few per mille to a per cent, drawn from its index and a purpose.
fn noise(index: u32, purpose: u64) -> f64 {
    let mut z = u64::from(index).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ purpose.wrapping_mul(0xD1B5_4A32_D192_ED03);
    let parts = (0..4).map(|_| {
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z >> 11) as f64 / (1u64 << 53) as f64 - 0.5
    });
    parts.sum::<f64>() * 0.01
}

/// The record.
pub(crate) fn record() -> Record {
    recorded(study())
}

fn recorded(study: Study) -> Record {
    let plan = plan(&study, &["vm".to_owned(), "vm+container".to_owned()], SEED);
    let trials = plan.iter().map(trial).collect();
    Record {
        header: header(study, plan),
        trials,
        profiles: Vec::new(),
        end: Some(End { ended: "2026-03-05T10:21:44Z".into(), how: "complete".into(), asked_by: None }),
    }
}

fn study() -> Study {
    let container =
        |network: &str| LayerUse { layer: "container".into(), options: serde_json::json!({ "network": network }) };
    let vm = || LayerUse { layer: "vm".into(), options: serde_json::json!({ "cpus": 1 }) };
    let form = |name: &str, layers| Form { name: name.into(), layers, ..Form::default() };
    Study {
        name: "canonical".into(),
        question: "What does each form cost one Redis server?".into(),
        workload: "redis".into(),
        baseline: "native".into(),
        repeat: 5,
        design: Default::default(),
        at_most: None,
        from: LoadOrigin::Outside,
        load: LoadProfile::Closed { connections: 50, pipeline: 1 },
        settle: Duration::from_secs(1),
        measure: Duration::from_secs(10),
        timeout: Duration::from_secs(10),
        qos: None,
        peak: None,
        emulated_blocks: 1,
        placement: None,
        kept: tare_core::placement::ReservedCpus::default(),
        instances: tare_core::instances::Instances::default(),
        forms: vec![
            form("native", Vec::new()),
            form("container", vec![container("published")]),
            form("container-hostnet", vec![container("host")]),
            form("vm", vec![vm()]),
            form("vm+container", vec![vm(), container("published")]),
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

fn header(study: Study, plan: Vec<PlannedTrial>) -> Header {
    let service = Service {
        name: "redis".into(),
        recipe: Recipe::plain(Source::Packages(vec!["redis-server".into()])),
        command: vec!["/usr/bin/redis-server".into(), "--save".into(), String::new()],
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
    Header {
        schema: SCHEMA,
        tare: "0.1.0".into(),
        run: "k3v9qa".into(),
        started: "2026-03-05T10:14:02Z".into(),
        command: "tare run studies/canonical.yaml --seed 7".into(),
        workload: Workload {
            name: "redis".into(),
            about: "A key-value store in memory, one thread".into(),
            services: vec![service],
            protocol,
            qos: None,
            qos_sets: Default::default(),
            file: None,
            parameters: Default::default(),
            prepared: None,
        },
        seed: SEED,
        plan,
        forms: forms(&study),
        study,
        topology: Some(topology()),
        environment: texts(&[
            ("cpu.model", "AMD EPYC 9354P 32-Core Processor"),
            ("cpu.logical", "4"),
            ("cpu.governor", "performance"),
            ("kernel", "6.1.0-28-amd64"),
            ("memory.total", "15.6 GiB"),
            ("os", "Debian GNU/Linux 12 (bookworm)"),
        ]),
        bundles: texts(&[("redis", "sha256:5c1f0f3b8a6d4e2790b1c3d5e7f9a0b2c4d6e8fa1b3c5d7e9f0a2b4c6d8eaf01")]),
        placement: texts(&[("generator", "2-3"), ("system under test", "0-1")]),
    }
}

fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn forms(study: &Study) -> BTreeMap<String, FormState> {
    let mut states = BTreeMap::new();
    for form in &study.forms {
        let mut state = FormState {
            describe: form.describe(),
            emulated: None,
            unavailable: None,
            facts: BTreeMap::new(),
            placement: Some(placement()),
        };
        if form.name.starts_with("container") {
            state.describe =
                if form.name == "container" { "container(network=published)" } else { "container(network=host)" }
                    .into();
            state.facts = texts(&[("engine.name", "Docker Engine"), ("engine.version", "26.1.4")]);
        }
        if form.name.starts_with("vm") {
            state.emulated = Some(no_kvm());
            state.facts = texts(&[
                ("guest.kernel", "6.1.0-28-cloud-amd64"),
                ("qemu.version", "7.2.9"),
                ("vm.accelerator", "tcg"),
            ]);
        }
        if form.name == "vm+container" {
            state.unavailable = Some(no_engine());
        }
        states.insert(form.name.clone(), state);
    }
    states
}

/// Two cores' first CPUs.
fn placement() -> Placement {
    let redis = Placed { cpus: CpuSet::new([0, 1]), free: false, memory: vec![0] };
    let services = [("redis".to_owned(), redis)].into();
    let (generator, system_under_test) = (CpuSet::new([2, 3]), CpuSet::new(0..2));
    Placement { services, generator, system_under_test, ..Placement::default() }
}

fn no_kvm() -> Fault {
    Fault::new("no guest booted under KVM within 5 s, so QEMU translates every instruction")
        .remedy("use a machine whose /dev/kvm works")
}

fn no_engine() -> Fault {
    Fault::new("the guest has no container engine: package docker.io is not in the apt sources")
        .remedy("add Debian's main archive to the host's apt sources")
}

fn trial(planned: &PlannedTrial) -> TrialData {
    let (outcome, logs) = outcome(planned);
    let ran = matches!(outcome, Outcome::Measured | Outcome::Invalid { .. });
    let load = ran.then(|| load(planned));
    let telemetry = if ran { telemetry(planned) } else { Vec::new() };
    let seconds = if ran { seconds(planned) } else { Vec::new() };
    let figures = load.as_ref().filter(|_| outcome == Outcome::Measured);
    let metrics =
        figures.map(|load| tare_stats::trial_metrics(load, &telemetry).expect("the sample load has figures").metrics);
    let emulated = planned.form.starts_with("vm");
    let path = match planned.form.as_str() {
        "container" => "veth, then address translation to a bridge",
        "vm" => "veth, then a bridge to the guest's tap",
        _ => "veth",
    };
    let stage_s = |stage, seconds: f64| (stage, seconds + noise(planned.index, stage as u64));
    let stages = [
        stage_s(Stage::Provision, 0.4),
        stage_s(Stage::Deploy, 0.3),
        stage_s(Stage::Populate, 0.9),
        stage_s(Stage::Settle, 1.0),
        stage_s(Stage::Measure, 10.0),
        stage_s(Stage::Verify, 0.2),
        stage_s(Stage::Teardown, 0.5),
    ];
    let started = format!("2026-03-05T10:{:02}:00Z", 14 + planned.index / 4);
    let record = TrialRecord {
        stages: stages.into_iter().filter(|(stage, _)| ran || *stage <= Stage::Deploy).collect(),
        emulated,
        load,
        mapped: if ran { [("redis".to_owned(), mapped())].into() } else { BTreeMap::new() },
        resources: if ran { [("redis".to_owned(), resources(&planned.form))].into() } else { BTreeMap::new() },
        path: path.into(),
        logs,
        ran_on: if ran { [("redis".to_owned(), CpuSet::new([0, 1]))].into() } else { BTreeMap::new() },
        metrics: metrics.unwrap_or_default(),
        ..TrialRecord::new(planned.clone(), started, outcome)
    };
    TrialData { record, seconds, telemetry }
}

fn outcome(planned: &PlannedTrial) -> (Outcome, BTreeMap<String, String>) {
    match (planned.form.as_str(), planned.block) {
        ("vm+container", _) => (Outcome::Skipped { why: no_engine() }, BTreeMap::new()),
        ("container-hostnet", 3) => {
            let log = "1:M 05 Mar 2026 # Warning: <script>alert('x')</script>\n1:M 05 Mar 2026 # bind: Address already in use";
            let why =
                Fault::new("redis ended with exit code 1 before it was ready").remedy("see its log").with_log(log);
            let logs = [("redis".to_owned(), log.to_owned())].into();
            (Outcome::Failed { stage: Stage::Deploy, why }, logs)
        }
        ("container", 4) => {
            let why =
                Fault::new("the generator used 97 % of its CPUs: it may have been measured instead of the service");
            (Outcome::Invalid { why: why.remedy("give the generator more CPUs") }, BTreeMap::new())
        }
        _ => (Outcome::Measured, BTreeMap::new()),
    }
}

/// Throughput of the trial: the machine drifts by some per cent between blocks.
fn throughput(planned: &PlannedTrial) -> f64 {
    let machine = [0.0, 0.012, -0.018, 0.027, -0.006][planned.block as usize % 5];
    98_200.0 * manner(&planned.form).throughput * f64::exp(machine + noise(planned.index, 1))
}

fn measure_start_ns(planned: &PlannedTrial) -> u64 {
    u64::from(planned.index) * 20 * SECOND + 5 * SECOND + 130_000_000
}

fn load(planned: &PlannedTrial) -> LoadSummary {
    let manner = manner(&planned.form);
    let count = (throughput(planned) * 10.0) as u64;
    let p50_ns = 482_000.0 * manner.p50_us * (noise(planned.index, 2)).exp();
    let mut times = Histogram::<u64>::new(3).expect("three digits are supported");
    let slices = 4_000;
    for slice in 0..slices {
        // A lognormal body by its logistic likeness, with a heavier end.
        let u = (f64::from(slice) + 0.5) / f64::from(slices);
        let logit = (u / (1.0 - u)).ln() * 0.55 * manner.tail * (1.0 + noise(planned.index, 3) * 3.0);
        let value = p50_ns * logit.exp() * (1.0 + 0.5 * u.powi(200));
        times.record_n(value as u64, count / slices as u64).expect("the histogram grows");
    }
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(&times, &mut bytes).expect("a histogram can be written");
    let text = base64::engine::general_purpose::STANDARD.encode(bytes);
    let (service_time, response_time) = (text.clone(), text);
    let (name, detail) = ("server's own count".into(), format!("{count} = {count}"));
    let operation = OperationSummary { count: times.len(), service_time, response_time, ..Default::default() };
    LoadSummary {
        measure_start_ns: measure_start_ns(planned),
        measure_end_ns: measure_start_ns(planned) + 10 * SECOND,
        operations: [("get".to_owned(), operation)].into(),
        generator_cpu_s: count as f64 * 4.1e-6,
        generator_cpus: 2,
        checks: vec![Check { name, passed: true, detail, always: false, outcome: false }],
        facts: texts(&[("server.version", "7.0.15")]),
        ..Default::default()
    }
}

fn seconds(planned: &PlannedTrial) -> Vec<SecondRow> {
    let manner = manner(&planned.form);
    let row = |second: u32| {
        let wobble = noise(planned.index * 100 + second, 4) * 2.0;
        let warm = if second == 0 { 0.93 } else { 1.0 };
        SecondRow {
            at_ns: measure_start_ns(planned) + u64::from(second) * SECOND,
            measured: second > 0,
            seconds: 1.0,
            operations: (throughput(planned) * warm * (1.0 + wobble)) as u64,
            errors: 0,
            p50_us: 482.0 * manner.p50_us * (1.0 - wobble),
            p99_us: 482.0 * manner.p50_us * (1.0 + 4.0 * manner.tail) * (1.0 - 8.0 * wobble),
            max_us: 4_000.0 * manner.p50_us,
            ..SecondRow::default()
        }
    };
    (0..=10).map(row).collect()
}

fn telemetry(planned: &PlannedTrial) -> Vec<TelemetryRow> {
    let manner = manner(&planned.form);
    let serving_rate = (9.8e-6 * manner.cpu_us * throughput(planned) * (1.0 + noise(planned.index, 5))).min(0.99);
    let mut rows = Vec::new();
    for second in 0..=13_u64 {
        let at_ns = u64::from(planned.index) * 20 * SECOND + (4 + second) * SECOND;
        // The load is there from the first second on.
        let busy_s = second.saturating_sub(1) as f64;
        let mut machine = BTreeMap::new();
        for cpu in 0..CPUS {
            let share = [serving_rate, 0.12, 0.52, 0.31][cpu]
                * (1.0 + noise(planned.index * 31 + second as u32, cpu as u64 + 6));
            let user = share * (1.0 - manner.kernel) * busy_s;
            let system = share * manner.kernel * 0.75 * busy_s;
            let softirq = share * manner.kernel * 0.25 * busy_s;
            for (name, value) in [("user", user), ("system", system), ("softirq", softirq), ("irq", 0.0)] {
                machine.insert(format!("cpu_{name}_s@{cpu}"), value);
                *machine.entry(format!("cpu_{name}_s")).or_insert(0.0) += value;
            }
            machine.insert(format!("cpu_idle_s@{cpu}"), second as f64 - share * busy_s);
        }
        let mut push = |scope: &str, serving, values| {
            rows.push(TelemetryRow { at_ns, vantage: Vantage::Host, scope: scope.into(), serving, values });
        };
        push(WHOLE_MACHINE, false, machine);
        let scope = if planned.form == "vm" { "hypervisor" } else { "redis" };
        // Mostly on one CPU, at times on the other.
        let [there, beside] = [0.8, 0.2].map(|share| share * serving_rate * busy_s);
        let values = [
            ("cpu_total_s", serving_rate * busy_s),
            ("cpu_on_s@0", there),
            ("cpu_on_s@1", beside),
            ("migrations", 3.0 * busy_s),
            ("run_queue_wait_s", 0.012 * busy_s),
        ];
        push(scope, true, values.map(|(metric, value)| (metric.to_owned(), value)).into());
    }
    rows
}

fn mapped() -> Vec<SeenFile> {
    let files = [
        ("/usr/bin/redis-server", "a"),
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", "b"),
        ("/usr/lib/x86_64-linux-gnu/libssl.so.3", "c"),
    ];
    let digest = |letter: &str| format!("sha256:{}", letter.repeat(64));
    files.map(|(path, letter)| SeenFile { path: path.into(), digest: digest(letter) }).into()
}

fn resources(form: &str) -> ResourceReport {
    let property = |value: &str, number: Option<f64>, tolerance: f64, matters: bool| Property {
        value: value.into(),
        number,
        tolerance,
        matters,
    };
    let guest = form == "vm";
    let mut properties: BTreeMap<String, Property> = [
        ("cpus", property("1", Some(1.0), 0.0, true)),
        ("memory_limit_bytes", property("512 MiB", Some(536_870_912.0), 0.02, true)),
        ("open_files", property("1048576", Some(1_048_576.0), 0.0, true)),
        ("somaxconn", property("4096", Some(4096.0), 0.0, true)),
        (
            "spin_ns",
            if guest {
                property("9.81 ns", Some(9.81), 0.05, true)
            } else {
                property("0.31 ns", Some(0.31), 0.05, true)
            },
        ),
        ("kernel", property(if guest { "6.1.0-28-cloud-amd64" } else { "6.1.0-28-amd64" }, None, 0.0, false)),
        ("page_size", property("4096", Some(4096.0), 0.0, true)),
    ]
    .map(|(name, property)| (name.to_owned(), property))
    .into();
    if !guest {
        properties.insert("fsync_us".into(), property("118 us", Some(118.0), 0.3, true));
    }
    ResourceReport { properties }
}

/// A place for files of tests, kept between runs so that they can be looked at.
#[allow(dead_code, reason = "not every test writes files")]
pub(crate) fn scratch() -> std::path::PathBuf {
    env!("CARGO_TARGET_TMPDIR").into()
}

/// Four CPUs on two cores, under one cache.
fn topology() -> Topology {
    let cpu = |cpu: u32| Cpu {
        cpu,
        package: 0,
        die: 0,
        core: i64::from(cpu % 2),
        siblings: CpuSet::new([cpu % 2, cpu % 2 + 2]),
        node: Some(0),
        capacity: None,
    };
    let caches = vec![Cache { level: 3, kind: "Unified".into(), bytes: 32 << 20, cpus: "0-3".into() }];
    let nodes = [(0, CpuSet::new(0..4))].into();
    Topology { cpus: (0..4).map(cpu).collect(), nodes, caches, ..Topology::default() }
}
