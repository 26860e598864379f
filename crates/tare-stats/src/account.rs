//! Where the CPU time of the whole machine goes, per operation: to each scope that was sampled, to the generator, to
//! other tasks, to interrupts where the kernel keeps them apart, to CPUs between tasks, and to the rest.
//!
//! The parts do not overlap and add up to the machine's busy time. The kernel knows exactly how long each task ran, and
//! how long each CPU was idle. Work in interrupts and software interrupts, most of receiving a packet, is part of the
//! time of the task that they interrupted, whoever that was, unless the kernel accounts for them apart
//! (`IRQ_TIME_ACCOUNTING`). So two forms are compared by the sum, and the parts say where to look. How much of it was
//! soft interrupts, and on whose CPUs, the ticks tell.
//!
//! A CPU without a task is busy too: it takes interrupts, and goes into idleness and out of it. That is what the busy
//! time has more than the run queues count as occupied by tasks. These count a task when it leaves its CPU, so they are
//! asked only where they agree with what the tasks say of themselves; else this work is in the rest.

use crate::arm::Arm;
use crate::cpu::{all_cpus, busy_cpu_s, cpu_total_s, spent};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use tare_core::design::Arrangement;
use tare_core::load::LoadSummary;
use tare_core::record::{INTERRUPTS_APART, Record, TrialData};
use tare_core::telemetry::{TelemetryRow, Vantage, WHOLE_MACHINE};
use tare_core::units::CpuSet;

/// Whose time it was.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CpuUser {
    /// Processes that were sampled together, by the scope's name; what ran in a guest is its hypervisor's.
    Scope(String),
    /// A tool that ran inside the form and is in no scope.
    Tool,
    /// The load process, with what the kernel did in its name.
    Generator,
    /// Interrupts and software interrupts, where they are in no task's time.
    Interrupts,
    /// All other processes and threads, those of the kernel included, where the time of all tasks is known.
    Others,
    /// CPUs that had no task and were not idle: interrupts, and the way into idleness and out of it. Told only where
    /// the kernel counts it apart from tasks and interrupts.
    IdleCpus,
    /// Everything else: what the last two would be where they are not told.
    Rest,
}

/// A part of the busy time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CpuPart {
    /// Whose time it is.
    pub user: CpuUser,
    /// Per operation, us. Of other tasks, idle CPUs and the rest it may be a little less than nothing, for ticks and
    /// moments are not exact.
    pub us: f64,
}

/// Interrupts and software interrupts on some CPUs, per operation, us.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct SoftInterrupts {
    /// On the CPUs of the generator, which most of them interrupt there.
    pub generator_us: f64,
    /// On all others.
    pub others_us: f64,
}

/// Where the CPU time of an arm went: the means of its trials.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CpuAccount {
    /// The arm.
    pub arm: String,
    /// All CPUs' busy time per operation, us.
    pub busy_us: f64,
    /// Its parts, which add up to it, the largest first and the rest last.
    pub parts: Vec<CpuPart>,
    /// How much of it was interrupts and software interrupts; none where they were not counted.
    pub soft: Option<SoftInterrupts>,
    /// What a hypervisor took away from the machine meanwhile, per operation, us. It is no part of the busy time.
    pub steal_us: f64,
}

/// As a share of the busy time, how far apart two counts of the same time may be.
const AGREE_SHARE: f64 = 0.01;

/// Whether the kernel accounts for interrupts apart from the tasks that they interrupt; none where that is not known.
pub fn interrupts_apart(record: &Record) -> Option<bool> {
    record.header.environment.get(INTERRUPTS_APART).map(|told| told == "yes")
}

/// The accounts of all arms. None of duets, in which two forms share the machine.
pub(crate) fn accounts(record: &Record, counted: &[&TrialData], arms: &[Arm]) -> Vec<CpuAccount> {
    if record.header.study.design.arrangement == Arrangement::Duet {
        return Vec::new();
    }
    let apart = interrupts_apart(record) == Some(true);
    let generator = record.header.placement.get("generator").and_then(|cpus| CpuSet::parse(cpus).ok());
    let of_arm = |arm: &Arm| {
        let trials = counted.iter().filter(|trial| trial.record.trial.arm() == arm.name);
        let spent: Vec<Spent> = trials.filter_map(|trial| Spent::of(trial, apart, generator.as_ref())).collect();
        mean(&arm.name, &spent)
    };
    arms.iter().filter_map(of_arm).collect()
}

/// What a trial took, per operation, us.
struct Spent {
    busy_us: f64,
    parts: BTreeMap<CpuUser, f64>,
    soft: Option<SoftInterrupts>,
    steal_us: f64,
}

impl Spent {
    fn of(trial: &TrialData, apart: bool, generator: Option<&CpuSet>) -> Option<Spent> {
        let load = trial.record.load_alone()?;
        let operations: u64 = load.operations.values().map(|operation| operation.count).sum();
        let by_operation = |seconds: f64| seconds * 1e6 / operations as f64;
        let windows = windows(trial, load);
        let busy_s: f64 = windows.iter().map(|window| busy_cpu_s(window, &trial.telemetry)).sum::<Option<f64>>()?;
        let rows = |scope: &str| -> Vec<&TelemetryRow> {
            trial.telemetry.iter().filter(|row| row.vantage == Vantage::Host && row.scope == scope).collect()
        };
        let went = |rows: &[&TelemetryRow], read: &dyn Fn(&TelemetryRow) -> Option<f64>| -> Option<f64> {
            windows.iter().map(|window| spent(rows, read, window)).sum()
        };
        let machine = rows(WHOLE_MACHINE);
        let mut parts = BTreeMap::new();
        let scopes: BTreeSet<&str> = trial.telemetry.iter().map(|row| row.scope.as_str()).collect();
        for scope in scopes.into_iter().filter(|scope| *scope != WHOLE_MACHINE) {
            let used = went(&rows(scope), &cpu_total_s);
            parts.extend(used.map(|used| (CpuUser::Scope(scope.to_owned()), by_operation(used))));
        }
        let tool = load.inside.and_then(|inside| inside.cpu_s).filter(|used| *used > 0.0);
        parts.extend(tool.map(|used| (CpuUser::Tool, by_operation(used))));
        parts.insert(CpuUser::Generator, by_operation(load.generator_cpu_s));
        let known: f64 = parts.values().sum();
        let tasks = went(&machine, &|row| row.values.get("cpu_tasks_s").copied());
        parts.extend(tasks.map(|used| (CpuUser::Others, by_operation(used) - known)));
        let steal_s = went(&machine, &|row| all_cpus(row, "cpu_steal_s")).unwrap_or(0.0);
        let occupied = went(&machine, &|row| row.values.get("cpu_occupied_s").copied());
        let between = between_tasks_s(busy_s, tasks, occupied, steal_s).filter(|_| !apart);
        parts.extend(between.map(|seconds| (CpuUser::IdleCpus, by_operation(seconds))));
        let soft = soft_s(&|cpus| went(&machine, &|row| interrupts_s(row, cpus)), generator);
        let soft =
            soft.map(|(on, all)| SoftInterrupts { generator_us: by_operation(on), others_us: by_operation(all - on) });
        if let Some(soft) = soft.filter(|_| apart) {
            parts.insert(CpuUser::Interrupts, soft.generator_us + soft.others_us);
        }
        let rest = by_operation(busy_s) - parts.values().sum::<f64>();
        parts.insert(CpuUser::Rest, rest);
        let steal_us = by_operation(steal_s);
        (operations > 0).then(|| Spent { busy_us: by_operation(busy_s), parts, soft, steal_us })
    }
}

/// When load was counted: between the ends of slices others may have had the machine.
fn windows(trial: &TrialData, load: &LoadSummary) -> Vec<LoadSummary> {
    let window =
        |from_ns, to_ns| LoadSummary { measure_start_ns: from_ns, measure_end_ns: to_ns, ..Default::default() };
    match trial.record.slices.as_slice() {
        [] => vec![window(load.measure_start_ns, load.measure_end_ns)],
        slices => slices.iter().map(|slice| window(slice.start_ns, slice.end_ns)).collect(),
    }
}

/// What CPUs were busy with while they had no task, s; none where two counts of tasks' time differ by more than
/// [`AGREE_SHARE`] of the busy time, or where a hypervisor took more than that, of which nobody knows from whom.
fn between_tasks_s(busy_s: f64, tasks_s: Option<f64>, occupied_s: Option<f64>, steal_s: f64) -> Option<f64> {
    let (occupied_s, most_s) = (occupied_s?, AGREE_SHARE * busy_s);
    ((occupied_s - tasks_s?).abs() <= most_s && steal_s <= most_s).then_some(busy_s - occupied_s)
}

/// Interrupts on the generator's CPUs and on all CPUs, s; the former 0 where these are not known.
fn soft_s(went: &dyn Fn(Option<&CpuSet>) -> Option<f64>, generator: Option<&CpuSet>) -> Option<(f64, f64)> {
    let all = went(None)?;
    let on = generator.and_then(|cpus| went(Some(cpus))).unwrap_or(0.0);
    Some((on, all))
}

/// What a row says of interrupts and software interrupts, on some CPUs or on all of them, s.
fn interrupts_s(row: &TelemetryRow, cpus: Option<&CpuSet>) -> Option<f64> {
    let of = |metric: &str| match cpus {
        None => all_cpus(row, metric),
        Some(cpus) => {
            let values = cpus.cpus().iter().filter_map(|cpu| row.values.get(&format!("{metric}@{cpu}")).copied());
            values.reduce(|sum, value| sum + value)
        }
    };
    Some(of("cpu_softirq_s")? + of("cpu_irq_s").unwrap_or(0.0))
}

fn mean(arm: &str, trials: &[Spent]) -> Option<CpuAccount> {
    let n = trials.len() as f64;
    let mean = |of: &dyn Fn(&Spent) -> f64| trials.iter().map(of).sum::<f64>() / n;
    let busy_us = mean(&|trial| trial.busy_us);
    let users: BTreeSet<&CpuUser> = trials.iter().flat_map(|trial| trial.parts.keys()).collect();
    let is_told = |user: &CpuUser| match user {
        // A process that a trial did not have used nothing in it.
        CpuUser::Scope(_) | CpuUser::Tool | CpuUser::Generator => true,
        // Where a trial does not tell one of these, it is in the rest. So it is in the rest of the mean too: the mean
        // of some trials is not comparable with that of all.
        CpuUser::Interrupts | CpuUser::Others | CpuUser::IdleCpus => {
            trials.iter().all(|trial| trial.parts.contains_key(user))
        }
        CpuUser::Rest => false,
    };
    let part = |user: &CpuUser| {
        let us = mean(&|trial| trial.parts.get(user).copied().unwrap_or(0.0));
        CpuPart { user: user.clone(), us }
    };
    let mut parts: Vec<CpuPart> = users.into_iter().filter(|user| is_told(user)).map(part).collect();
    parts.sort_by(|a, b| b.us.total_cmp(&a.us));
    let told_us: f64 = parts.iter().map(|part| part.us).sum();
    parts.push(CpuPart { user: CpuUser::Rest, us: busy_us - told_us });
    let soft = trials.iter().all(|trial| trial.soft.is_some()).then(|| SoftInterrupts {
        generator_us: mean(&|trial| trial.soft.map_or(0.0, |soft| soft.generator_us)),
        others_us: mean(&|trial| trial.soft.map_or(0.0, |soft| soft.others_us)),
    });
    (n > 0.0).then(|| CpuAccount { arm: arm.to_owned(), busy_us, parts, soft, steal_us: mean(&|trial| trial.steal_us) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_core::load::OperationSummary;
    use tare_core::plan::PlannedTrial;
    use tare_core::record::TrialRecord;
    use tare_core::trial::Outcome;

    const SECOND: u64 = 1_000_000_000;

    /// What a second of ten brings: two CPUs, of which the second is the generator's.
    fn trial(machine: &[(&str, f64)]) -> TrialData {
        let planned =
            PlannedTrial { index: 0, block: 0, form: "f".into(), control: false, again: None, profiled: false };
        let mut record = TrialRecord::new(planned, String::new(), Outcome::Measured);
        let operation = OperationSummary { count: 1_000_000, ..OperationSummary::default() };
        record.load = Some(LoadSummary {
            measure_start_ns: SECOND,
            measure_end_ns: 11 * SECOND,
            generator_cpu_s: 6.0,
            operations: [("get".to_owned(), operation)].into(),
            ..LoadSummary::default()
        });
        let row = |second: u64, vantage: Vantage, scope: &str, each: &[(&str, f64)]| TelemetryRow {
            at_ns: second * SECOND,
            vantage,
            scope: scope.into(),
            serving: scope == "redis",
            values: each.iter().map(|(name, value)| ((*name).to_owned(), value * second as f64)).collect(),
        };
        let rows = |second| {
            [
                row(second, Vantage::Host, WHOLE_MACHINE, machine),
                row(second, Vantage::Host, "redis", &[("cpu_total_s", 0.4)]),
                row(second, Vantage::Host, "container engine", &[("cpu_total_s", 0.05)]),
                row(second, Vantage::Guest, "redis", &[("cpu_total_s", 0.3)]),
            ]
        };
        TrialData { record, seconds: Vec::new(), telemetry: (0..=12).flat_map(rows).collect() }
    }

    const IDLE: [(&str, f64); 6] = [
        ("cpu_idle_s@0", 0.5),
        ("cpu_idle_s@1", 0.25),
        ("cpu_steal_s@0", 0.05),
        ("cpu_softirq_s@0", 0.03),
        ("cpu_softirq_s@1", 0.1),
        ("cpu_irq_s@1", 0.02),
    ];

    fn account(apart: bool) -> CpuAccount {
        let generator = CpuSet::new([1]);
        mean("f", &[Spent::of(&trial(&IDLE), apart, Some(&generator)).unwrap()]).unwrap()
    }

    fn us(account: &CpuAccount, user: &CpuUser) -> Option<f64> {
        account.parts.iter().find(|part| part.user == *user).map(|part| part.us)
    }

    #[test]
    fn the_parts_add_up_to_the_busy_time_and_leave_steal_out() {
        for apart in [false, true] {
            let account = account(apart);
            assert!((account.busy_us - 12.0).abs() < 1e-9, "1.2 s a second, 100,000 operations: {account:?}");
            let sum: f64 = account.parts.iter().map(|part| part.us).sum();
            assert!((sum - account.busy_us).abs() < 1e-9, "{account:?}");
            assert!((account.steal_us - 0.5).abs() < 1e-9, "{account:?}");
            let scope = |name: &str| us(&account, &CpuUser::Scope(name.to_owned())).unwrap();
            assert!((scope("redis") - 4.0).abs() < 1e-9, "as the host sees it: {account:?}");
            assert!((scope("container engine") - 0.5).abs() < 1e-9, "who serves nothing is told as well: {account:?}");
            assert_eq!(account.parts.first().map(|part| &part.user), Some(&CpuUser::Generator));
            assert_eq!(account.parts.last().map(|part| &part.user), Some(&CpuUser::Rest));
        }
    }

    #[test]
    fn interrupts_are_a_part_only_where_no_task_has_them() {
        let (within, apart) = (account(false), account(true));
        assert_eq!(us(&within, &CpuUser::Interrupts), None);
        assert!((us(&within, &CpuUser::Rest).unwrap() - 1.5).abs() < 1e-9, "{within:?}");
        assert!((us(&apart, &CpuUser::Interrupts).unwrap() - 1.5).abs() < 1e-9, "{apart:?}");
        assert!(us(&apart, &CpuUser::Rest).unwrap().abs() < 1e-9, "{apart:?}");
        let soft = within.soft.unwrap();
        assert!((soft.generator_us - 1.2).abs() < 1e-9 && (soft.others_us - 0.3).abs() < 1e-9, "{soft:?}");
    }

    #[test]
    fn other_tasks_are_told_apart_from_the_rest_where_the_time_of_all_is_known() {
        for (apart, rest_us) in [(false, 0.7), (true, -0.8)] {
            let rows = [&IDLE[..], &[("cpu_tasks_s", 1.13)]].concat();
            let account = mean("f", &[Spent::of(&trial(&rows), apart, Some(&CpuSet::new([1]))).unwrap()]).unwrap();
            assert!((us(&account, &CpuUser::Others).unwrap() - 0.8).abs() < 1e-9, "1.13 less 1.05: {account:?}");
            assert!((us(&account, &CpuUser::Rest).unwrap() - rest_us).abs() < 1e-9, "{account:?}");
            assert!((account.busy_us - 12.0).abs() < 1e-9, "{account:?}");
        }
    }

    #[test]
    fn work_of_idle_cpus_is_told_apart_where_two_counts_of_tasks_agree() {
        let told = |apart: bool, occupied: f64, steal: f64| {
            let more = [("cpu_tasks_s", 1.13), ("cpu_occupied_s", occupied), ("cpu_steal_s@0", steal)];
            let idle = IDLE.iter().copied().filter(|(name, _)| *name != "cpu_steal_s@0");
            let rows: Vec<(&str, f64)> = idle.chain(more).collect();
            let account = mean("f", &[Spent::of(&trial(&rows), apart, Some(&CpuSet::new([1]))).unwrap()]).unwrap();
            let parts = [CpuUser::IdleCpus, CpuUser::Rest].map(|user| us(&account, &user));
            parts.map(|part| part.map(|us| (us * 1e6).round() / 1e6))
        };
        // Without steal, 1.25 s a second are busy: 1.12 occupied, 0.13 between tasks; tasks say 1.13.
        assert_eq!(told(false, 1.12, 0.0), [Some(1.3), Some(-0.1)]);
        assert_eq!(told(false, 1.1, 0.0), [None, Some(1.2)], "a task has not left its CPU for long");
        assert_eq!(told(true, 1.12, 0.0), [None, Some(-0.3)], "tasks have no interrupts, and occupied CPUs have");
        assert_eq!(told(false, 1.12, 0.05), [None, Some(0.7)], "a hypervisor took some of it");
    }

    #[test]
    fn what_a_trial_of_an_arm_does_not_tell_is_in_the_rest_of_the_arm() {
        let idle: Vec<(&str, f64)> = IDLE.iter().copied().filter(|(name, _)| *name != "cpu_steal_s@0").collect();
        let known = [("cpu_tasks_s", 1.13), ("cpu_occupied_s", 1.12)];
        let of = |known: &[(&str, f64)]| {
            Spent::of(&trial(&[&idle[..], known].concat()), false, Some(&CpuSet::new([1]))).unwrap()
        };
        // Of 1.25 s a second 1.05 are known by name, 0.08 are other tasks', and 0.13 are between tasks.
        for (of_last, told) in [
            (&known[..], [Some(0.8), Some(1.3), Some(-0.1)]),
            (&known[..1], [Some(0.8), None, Some(1.2)]),
            (&known[..0], [None, None, Some(2.0)]),
        ] {
            let account = mean("f", &[of(&known), of(&known), of(of_last)]).unwrap();
            let parts = [CpuUser::Others, CpuUser::IdleCpus, CpuUser::Rest].map(|user| us(&account, &user));
            assert_eq!(parts.map(|part| part.map(|us| (us * 1e6).round() / 1e6)), told, "{account:?}");
            let sum: f64 = account.parts.iter().map(|part| part.us).sum();
            assert!((sum - account.busy_us).abs() < 1e-9, "{account:?}");
        }
    }

    #[test]
    fn without_the_machine_there_is_no_account() {
        assert!(Spent::of(&trial(&[]), false, None).is_none());
    }
}
