//! What else differs between two forms: what the kernel counted while both served the same load, by operation.
//!
//! Where a difference in throughput comes from is not measured here; what goes with it is. Counters of a trial become
//! figures by operation or by second, and two forms are compared inside blocks, on the plain scale, for many of these
//! figures are zero in one of the two.

use crate::analysis::{Arm, Interval};
use crate::cpu::{all_cpus, spent};
use crate::family::CONFIDENCE;
use crate::ladder::Climb;
use crate::paired::{BLOCKS_MIN, sd};
use crate::quantile::student_quantile;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use tare_core::design::Arrangement;
use tare_core::record::{Record, TrialData};
use tare_core::telemetry::{TelemetryRow, Vantage, WHOLE_MACHINE};

/// Smaller than this share of what the other form has, a difference explains nothing.
const SHARE_MIN: f64 = 0.05;

/// Whose counters a figure is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    /// The whole machine's, the generator's share included.
    Machine,
    /// Those of all processes that serve the request, as the host counts them.
    Serving,
}

/// By what a counter is divided.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Per {
    Operation,
    Second,
}

/// A figure: name, title and unit, whose counters, which, with which factor, and by what.
type Row = (&'static str, &'static str, &'static str, Of, &'static [&'static str], f64, Per);

/// The figures, in the order in which a reader would ask for them.
const ROWS: &[Row] = &[
    ("user_us_per_op", "CPU in user mode by op", "us", Of::Serving, &["cpu_user_s"], 1e6, Per::Operation),
    ("system_us_per_op", "CPU in the kernel by op", "us", Of::Serving, &["cpu_system_s"], 1e6, Per::Operation),
    (
        "softirq_us_per_op",
        "CPU in software interrupts by op",
        "us",
        Of::Machine,
        &["cpu_softirq_s"],
        1e6,
        Per::Operation,
    ),
    (
        "switches_per_op",
        "context switches of the machine by op",
        "",
        Of::Machine,
        &["context_switches"],
        1.0,
        Per::Operation,
    ),
    (
        "waits_per_op",
        "times that services waited by op",
        "",
        Of::Serving,
        &["context_switches_voluntary"],
        1.0,
        Per::Operation,
    ),
    (
        "preempted_per_op",
        "times that services were preempted by op",
        "",
        Of::Serving,
        &["context_switches_involuntary"],
        1.0,
        Per::Operation,
    ),
    ("run_queue_us_per_op", "wait for a CPU by op", "us", Of::Serving, &["run_queue_wait_s"], 1e6, Per::Operation),
    ("migrations_per_op", "moves between CPUs by op", "", Of::Serving, &["migrations"], 1.0, Per::Operation),
    ("minor_faults_per_op", "page faults by op", "", Of::Serving, &["minor_faults"], 1.0, Per::Operation),
    ("major_faults_per_op", "page faults from disk by op", "", Of::Serving, &["major_faults"], 1.0, Per::Operation),
    ("read_bytes_per_op", "bytes read from disk by op", "", Of::Serving, &["disk_read_bytes"], 1.0, Per::Operation),
    ("write_bytes_per_op", "bytes written to disk by op", "", Of::Serving, &["disk_write_bytes"], 1.0, Per::Operation),
    (
        "packets_per_op",
        "packets by op, of all interfaces but loopback",
        "",
        Of::Machine,
        &["net_rx_packets", "net_tx_packets"],
        1.0,
        Per::Operation,
    ),
    ("retransmits_per_op", "TCP segments sent again by op", "", Of::Machine, &["tcp_retransmits"], 1.0, Per::Operation),
    ("listen_drops_per_s", "connections dropped a second", "", Of::Machine, &["listen_drops"], 1.0, Per::Second),
    ("throttled_share", "time held back by a CPU quota", "share", Of::Serving, &["throttled_s"], 1.0, Per::Second),
    ("psi_cpu_share", "time some task waited for a CPU", "share", Of::Serving, &["psi_cpu_some_s"], 1.0, Per::Second),
    (
        "psi_memory_share",
        "time some task waited for memory",
        "share",
        Of::Serving,
        &["psi_memory_some_s"],
        1.0,
        Per::Second,
    ),
    ("psi_io_share", "time some task waited for I/O", "share", Of::Serving, &["psi_io_some_s"], 1.0, Per::Second),
    ("steal_share", "CPUs taken by a hypervisor", "", Of::Machine, &["cpu_steal_s"], 1.0, Per::Second),
];

/// What of one figure's title is the scope's name.
const CPU_OF: &str = "CPU of ";

/// What else differs between two forms.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Contrast {
    /// The form.
    pub form: String,
    /// The one that it is held against: the baseline, or the rung before it.
    pub against: String,
    /// Figures that differ beyond doubt and beyond what equals differ by, the clearest first.
    pub figures: Vec<Figure>,
}

/// A figure of two forms.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Its name; of one scope's CPU time with the scope's name.
    pub name: String,
    /// For readers.
    pub title: String,
    /// `us`, `share`, or nothing.
    pub unit: String,
    /// Its mean in the form.
    pub here: f64,
    /// Its mean in the other one.
    pub there: f64,
    /// The mean difference inside blocks.
    pub difference: f64,
    /// Its interval by Student's t; those of all figures and forms of a record hold together (Bonferroni, 95 %).
    pub interval: Interval,
    /// The mean difference by the standard deviation of the differences; none where they are all the same.
    pub standardised: Option<f64>,
}

/// By name: title, unit and value of each figure of a trial.
type Figures = BTreeMap<String, (String, &'static str, f64)>;

/// Of every form that is no emulation, what differs from the baseline; of a ladder, of the rungs that matter what
/// differs from the rung before. Only where forms have the machine to themselves, one after the other.
pub(crate) fn contrasts(record: &Record, counted: &[&TrialData], arms: &[Arm], climb: Option<&Climb>) -> Vec<Contrast> {
    let study = &record.header.study;
    if study.design.arrangement != Arrangement::Blocks || study.peak.is_some() {
        return Vec::new();
    }
    let mut by_arm: BTreeMap<String, BTreeMap<u32, Figures>> = BTreeMap::new();
    for trial in counted {
        let planned = &trial.record.trial;
        by_arm.entry(planned.arm()).or_default().insert(planned.block, figures(trial));
    }
    let real = |name: &str| arms.iter().any(|arm| arm.name == name && arm.emulated.is_none());
    let control = arms.iter().find(|arm| arm.control).map(|arm| arm.name.clone());
    let pairs: Vec<(String, String)> = match climb {
        Some(climb) => {
            let rungs = climb.metrics.iter().flat_map(|metric| &metric.rungs).filter(|rung| rung.matters);
            let pairs: BTreeSet<_> = rungs.map(|rung| (rung.form.clone(), rung.against.clone())).collect();
            pairs.into_iter().collect()
        }
        None => {
            let forms = arms.iter().filter(|arm| !arm.baseline && !arm.control);
            forms.map(|arm| (arm.name.clone(), study.baseline.clone())).collect()
        }
    };
    let pairs: Vec<(String, String)> = pairs.into_iter().filter(|(a, b)| real(a) && real(b)).collect();
    let of = |name: &str| by_arm.get(name);
    // Equals differ too: what the control shows is what no form is blamed for.
    let family = pairs.len().max(1);
    let equals = control.and_then(|control| Some(differences(of(&control)?, of(&study.baseline)?, family)));
    let floor = |name: &str| {
        let equal = equals.iter().flatten().find(|figure| figure.name == name);
        equal.map_or(0.0, |figure| figure.interval.low.abs().max(figure.interval.high.abs()))
    };
    let contrast = |(form, against): (String, String)| {
        let mut figures = differences(of(&form)?, of(&against)?, family);
        figures.retain(|figure| {
            let clear = !figure.interval.contains(0.0) && figure.difference.abs() > floor(&figure.name);
            clear && figure.difference.abs() > SHARE_MIN * figure.there.abs()
        });
        // Who works here and does not even run there says more than any counter.
        let is_new = |figure: &Figure| figure.name.contains(':') && figure.there == 0.0;
        let size = |figure: &Figure| figure.standardised.map_or(f64::INFINITY, f64::abs);
        figures.sort_by(|a, b| is_new(b).cmp(&is_new(a)).then(size(b).total_cmp(&size(a))));
        (!figures.is_empty()).then_some(Contrast { form, against, figures })
    };
    pairs.into_iter().filter_map(contrast).collect()
}

/// The figures of a trial. What cannot be known is absent.
fn figures(trial: &TrialData) -> Figures {
    let Some(load) = &trial.record.load else { return Figures::new() };
    let operations: u64 = load.operations.values().map(|operation| operation.count).sum();
    let seconds = load.measure_end_ns.saturating_sub(load.measure_start_ns) as f64 / 1e9;
    if operations == 0 || seconds <= 0.0 {
        return Figures::new();
    }
    let mut scopes: BTreeMap<&str, Vec<&TelemetryRow>> = BTreeMap::new();
    let is_seen = |row: &&TelemetryRow| row.vantage == Vantage::Host && (row.serving || row.scope == WHOLE_MACHINE);
    for row in trial.telemetry.iter().filter(is_seen) {
        scopes.entry(&row.scope).or_default().push(row);
    }
    let spent_by = |scope: &str, metric: &str| spent(scopes.get(scope)?, |row| all_cpus(row, metric), load);
    let serving: Vec<&str> = scopes.keys().copied().filter(|scope| *scope != WHOLE_MACHINE).collect();
    let mut found = Figures::new();
    for (name, title, unit, of, metrics, factor, per) in ROWS {
        let whose: &[&str] = if *of == Of::Machine { &[WHOLE_MACHINE] } else { &serving };
        let parts = whose.iter().flat_map(|scope| metrics.iter().filter_map(|metric| spent_by(scope, metric)));
        let Some(sum) = parts.reduce(|sum, part| sum + part) else { continue };
        let by = if *per == Per::Operation { operations as f64 } else { seconds };
        found.insert((*name).to_owned(), ((*title).to_owned(), unit, sum * factor / by));
    }
    for scope in serving {
        let Some(cpu_s) = spent_by(scope, "cpu_total_s") else { continue };
        let title = format!("{CPU_OF}{scope} by op");
        found.insert(format!("cpu_us_per_op:{scope}"), (title, "us", cpu_s * 1e6 / operations as f64));
    }
    found
}

/// Every figure that both arms have in three blocks, compared inside them. A scope that one of the two does not have
/// at all spends nothing there.
fn differences(here: &BTreeMap<u32, Figures>, there: &BTreeMap<u32, Figures>, family: usize) -> Vec<Figure> {
    let names: BTreeSet<&String> = here.values().chain(there.values()).flat_map(BTreeMap::keys).collect();
    let known = |side: &BTreeMap<u32, Figures>, name: &str| side.values().any(|figures| figures.contains_key(name));
    let mut found = Vec::new();
    for name in &names {
        let is_of_scope = name.contains(':');
        let value = |side: &BTreeMap<u32, Figures>, block: u32| {
            let figures = side.get(&block).filter(|figures| !figures.is_empty())?;
            let value = figures.get(*name).map(|(.., value)| *value);
            value.or((is_of_scope && !known(side, name)).then_some(0.0))
        };
        let pairs: Vec<(f64, f64)> =
            here.keys().filter_map(|block| Some((value(here, *block)?, value(there, *block)?))).collect();
        let n = pairs.len() as f64;
        let logs: Vec<f64> = pairs.iter().map(|(a, b)| a - b).collect();
        let Some(spread) = sd(&logs).filter(|_| pairs.len() >= BLOCKS_MIN) else { continue };
        let mean = |of: &dyn Fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / n;
        let difference = mean(&|(a, b)| a - b);
        let probability = 1.0 - 0.5 * (1.0 - CONFIDENCE) / (names.len() * family) as f64;
        let half = student_quantile(probability, n - 1.0) * spread / n.sqrt();
        let (title, unit, _) = here.values().chain(there.values()).find_map(|f| f.get(*name)).expect("one has it");
        found.push(Figure {
            name: (*name).clone(),
            title: title.clone(),
            unit: (*unit).to_owned(),
            here: mean(&|(a, _)| *a),
            there: mean(&|(_, b)| *b),
            difference,
            interval: Interval { low: difference - half, high: difference + half },
            standardised: (spread > 0.0).then_some(difference / spread),
        });
    }
    found
}
