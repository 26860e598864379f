//! Where the CPU time of the whole machine went, in words and bars.

use crate::quantity::plain_quantity;
use crate::svg::{self, Stack};
use tare_core::record::Record;
use tare_stats::{Analysis, CpuAccount, CpuPart, CpuUser, interrupts_apart};

/// Parts smaller than this share of the whole are added to the rest.
const TOLD_SHARE: f64 = 0.02;

/// A line for each arm but the control, then how the kernel accounts for interrupts.
pub(crate) fn lines(record: &Record, analysis: &Analysis) -> Vec<String> {
    let told = analysis.cpu.iter().filter(|account| account.arm != analysis.control);
    let mut lines: Vec<String> = told.map(line).collect();
    if !lines.is_empty() {
        lines.push(kernel(record));
        lines.extend(unknown(record, &analysis.cpu));
    }
    lines
}

/// What this machine lacks for the parts to add up by themselves.
fn unknown(record: &Record, accounts: &[CpuAccount]) -> Vec<String> {
    let mut unknown = Vec::new();
    if !accounts.iter().flat_map(|account| &account.parts).any(|part| part.user == CpuUser::Others) {
        unknown.push(TASKS_UNKNOWN.to_owned());
    }
    let charged = record.header.environment.get("cpu.steal_apart").is_some_and(|apart| apart == "no");
    if charged && accounts.iter().any(|account| account.steal_us > TOLD_SHARE * account.busy_us) {
        unknown.push(STEAL_CHARGED.to_owned());
    }
    unknown
}

/// Said where the time of all tasks together was not counted.
const TASKS_UNKNOWN: &str =
    "how long all tasks ran together is not known here: other processes and kernel threads are in the rest";
/// Said where tasks are charged with what a hypervisor took.
const STEAL_CHARGED: &str = "this kernel charges tasks with what a hypervisor took from them (no \
                             PARAVIRT_TIME_ACCOUNTING): the rest is too small by so much";

/// `native: 27.6 us per op on all CPUs: generator 12.1 us, redis 11.9 us, rest 3.6 us; 6.1 us of it in soft interrupts,
/// 4.9 us of them on the generator's CPUs`.
fn line(account: &CpuAccount) -> String {
    let us = |us: f64| plain_quantity(us, "us");
    let parts: Vec<String> = parts(account).iter().map(|(name, size)| format!("{name} {}", us(*size))).collect();
    let mut text = format!("{}: {} per op on all CPUs: {}", account.arm, us(account.busy_us), parts.join(", "));
    if let Some(soft) = &account.soft {
        let all = us(soft.generator_us + soft.others_us);
        text += &format!("; {all} of it in soft interrupts, {} of them on the generator's CPUs", us(soft.generator_us));
    }
    if account.steal_us > TOLD_SHARE * account.busy_us {
        text += &format!("; a hypervisor took another {}", us(account.steal_us));
    }
    text
}

/// The parts worth a name; what is small is part of the rest.
fn parts(account: &CpuAccount) -> Vec<(String, f64)> {
    let is_told = |part: &&CpuPart| part.user != CpuUser::Rest && part.us >= TOLD_SHARE * account.busy_us;
    let mut told: Vec<(String, f64)> =
        account.parts.iter().filter(is_told).map(|part| (name(&part.user).to_owned(), part.us)).collect();
    let rest = account.busy_us - told.iter().map(|(_, us)| us).sum::<f64>();
    told.push((name(&CpuUser::Rest).to_owned(), rest));
    told
}

fn name(user: &CpuUser) -> &str {
    match user {
        CpuUser::Scope(name) => name,
        CpuUser::Tool => "tool inside",
        CpuUser::Generator => "generator",
        CpuUser::Interrupts => "interrupts",
        CpuUser::Others => "others",
        CpuUser::IdleCpus => "idle CPUs",
        CpuUser::Rest => "rest",
    }
}

/// What the kernel's accounting means for the parts.
fn kernel(record: &Record) -> String {
    let hz = record.header.environment.get("cpu.tick_hz").and_then(|hz| hz.parse::<f64>().ok());
    let ticks = hz.map_or_else(|| "ticks".to_owned(), |hz| format!("ticks of {} ms", 1e3 / hz));
    let apart = interrupts_apart(record);
    let turns = record.trials.iter().any(|trial| trial.record.load.as_ref().is_some_and(|load| load.turns.is_some()));
    if apart == Some(true) && turns {
        return "this kernel accounts for interrupts separately (IRQ_TIME_ACCOUNTING): they are in no task's time, so \
                forms that take turns are not compared by CPU time"
            .to_owned();
    }
    let what = match apart {
        Some(true) => "this kernel accounts for interrupts separately (IRQ_TIME_ACCOUNTING)".to_owned(),
        None => {
            "it is not known whether this kernel accounts for interrupts separately (IRQ_TIME_ACCOUNTING)".to_owned()
        }
        Some(false) => format!(
            "this kernel charges interrupts to the task that they interrupt (no IRQ_TIME_ACCOUNTING), sampled by \
             {ticks}"
        ),
    };
    let by = match turns {
        true => "by what was charged to the form and to the generator; the rest belongs to all that take turns",
        false => "by the total, not by its parts",
    };
    format!("{what}: forms are compared {by}")
}

/// The bars, a stack for each arm; none where there is nothing to draw.
pub(crate) fn bars(analysis: &Analysis) -> Option<String> {
    let told = || analysis.cpu.iter().map(|account| (account, parts(account)));
    let mut names: Vec<String> = Vec::new();
    for (name, _) in told().flat_map(|(_, parts)| parts) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let colour = |name: &String| names.iter().position(|known| known == name).unwrap_or(0);
    let emulated = |arm: &str| analysis.arms.iter().any(|known| known.name == arm && analysis.emulated(known));
    let stack = |(account, parts): (&CpuAccount, Vec<(String, f64)>)| Stack {
        name: account.arm.clone(),
        total: crate::quantity::quantity(account.busy_us, "us"),
        hatched: emulated(&account.arm),
        parts: parts.into_iter().map(|(name, us)| (colour(&name), name, us.max(0.0))).collect(),
    };
    let stacks: Vec<Stack> = told().map(stack).collect();
    (!stacks.is_empty()).then(|| svg::stacks("CPU time of the whole machine per operation", &stacks))
}
