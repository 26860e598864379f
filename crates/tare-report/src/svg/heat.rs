//! Busy time of each CPU over time, split into user, system and interrupts, and by the services that ran there.

use super::scale::{Scale, tick_text};
use super::{Anchor, Canvas, PANEL_WIDTH};
use std::collections::BTreeMap;
use tare_core::telemetry::{TelemetryRow, Vantage, WHOLE_MACHINE};

const LEFT: f64 = 44.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 18.0;
const GAP: f64 = 24.0;
const AXIS: f64 = 32.0;

/// CPU time of a service's threads by the CPU that they were seen on.
const ON: &str = "cpu_on_s";

/// Cells carry their figure as a tooltip up to so many CPUs; beyond, the page would grow by megabytes.
const TOOLTIPS_CPUS_MAX: usize = 16;

/// Class, title and the metrics that are summed.
const KINDS: [(&str, &str, &[&str]); 3] = [
    ("heat-user", "user", &["cpu_user_s"]),
    ("heat-system", "system", &["cpu_system_s"]),
    ("heat-interrupts", "interrupts (soft and hard)", &["cpu_softirq_s", "cpu_irq_s"]),
];

/// So many services at most have a block of their own.
const SERVICES_MAX: usize = 6;

/// A block of the picture: a line for each CPU.
struct Block<'t> {
    class: String,
    title: String,
    rows: Vec<&'t TelemetryRow>,
    metrics: &'static [&'static str],
}

/// By what the CPUs did, then by whom they did it for, as far as threads were seen on them.
fn blocks(telemetry: &[TelemetryRow]) -> Vec<Block<'_>> {
    let of = |scope: &str| {
        let mut rows: Vec<&TelemetryRow> =
            telemetry.iter().filter(|row| row.vantage == Vantage::Host && row.scope == scope).collect();
        rows.sort_by_key(|row| row.at_ns);
        rows
    };
    let machine = of(WHOLE_MACHINE);
    let kind = |(class, title, metrics): &(&str, &str, &'static [&'static str])| Block {
        class: (*class).to_owned(),
        title: (*title).to_owned(),
        rows: machine.clone(),
        metrics,
    };
    let mut blocks: Vec<Block> = KINDS.iter().map(kind).collect();
    let mut scopes: Vec<&str> = Vec::new();
    for row in telemetry.iter().filter(|row| row.vantage == Vantage::Host && row.serving) {
        let is_seen = row.values.iter().any(|(key, seconds)| key.starts_with(ON) && *seconds > 0.0);
        if is_seen && !scopes.contains(&row.scope.as_str()) && scopes.len() < SERVICES_MAX {
            scopes.push(&row.scope);
        }
    }
    for (number, scope) in scopes.into_iter().enumerate() {
        let class = format!("heat-service f{}", (number + 1) % super::COLOURS);
        blocks.push(Block { class, title: format!("by {scope}"), rows: of(scope), metrics: &[ON] });
    }
    blocks
}

/// The machine's CPUs during one trial, which was measured from `start_ns` to `end_ns`. None without telemetry by CPU.
pub(crate) fn heat(name: &str, telemetry: &[TelemetryRow], start_ns: u64, end_ns: u64) -> Option<String> {
    let blocks = blocks(telemetry);
    let rows = &blocks[0].rows;
    let mut cpus: Vec<u32> = rows.first()?.values.keys().filter_map(|key| cpu_number(key)).collect();
    cpus.sort_unstable();
    cpus.dedup();
    if cpus.is_empty() || rows.len() < 2 {
        return None;
    }
    let cell = (112.0 / cpus.len() as f64).clamp(2.0, 16.0);
    let block = cell * cpus.len() as f64;
    let height = TOP + blocks.len() as f64 * (block + GAP) - GAP + AXIS;
    let seconds = |at_ns: u64| (at_ns as f64 - start_ns as f64) / 1e9;
    let x = Scale::linear(seconds(rows[0].at_ns), seconds(rows[rows.len() - 1].at_ns), LEFT, PANEL_WIDTH - RIGHT);
    let mut canvas = Canvas::new(PANEL_WIDTH, height);
    for (number, one) in blocks.iter().enumerate() {
        let top = TOP + number as f64 * (block + GAP);
        cells(&mut canvas, one, &cpus, (top, cell), &|at_ns| x.place(seconds(at_ns)), &seconds);
        for edge in [0.0, seconds(end_ns)] {
            canvas.line((x.place(edge), top - 3.0), (x.place(edge), top + block + 3.0), "one");
        }
    }
    let bottom = height - AXIS;
    for tick in x.ticks(5) {
        canvas.text(x.place(tick), bottom + 14.0, Anchor::Middle, "tick", &tick_text(tick));
    }
    canvas.text((LEFT + PANEL_WIDTH) / 2.0, bottom + 28.0, Anchor::Middle, "axis", "seconds since measuring began");
    Some(canvas.finish(&format!("Busy share of each CPU during a trial of {name}")))
}

/// The cells of a block whose first line is at `top`, each `cell` high.
fn cells(
    canvas: &mut Canvas,
    Block { class, title, rows, metrics }: &Block<'_>,
    cpus: &[u32],
    (top, cell): (f64, f64),
    place: &dyn Fn(u64) -> f64,
    seconds: &dyn Fn(u64) -> f64,
) {
    canvas.text(LEFT, top - 6.0, Anchor::Start, "axis", title);
    canvas.rect((LEFT, top), (PANEL_WIDTH - RIGHT - LEFT, cell * cpus.len() as f64), "heat-ground", "");
    for (line, cpu) in cpus.iter().enumerate() {
        let y = top + line as f64 * cell;
        // Every label when they fit, else the first and the last.
        if cell >= 11.0 || line == 0 || line + 1 == cpus.len() {
            canvas.text(LEFT - 5.0, y + cell / 2.0 + 4.0, Anchor::End, "tick", &format!("cpu{cpu}"));
        }
        for pair in rows.windows(2) {
            let Some(share) = share(pair[0], pair[1], *cpu, metrics).filter(|share| *share >= 0.005) else { continue };
            let (from, to) = (place(pair[0].at_ns), place(pair[1].at_ns));
            let size = (to - from - 0.5, cell - if cell > 6.0 { 1.0 } else { 0.0 });
            let more = format!(" fill-opacity=\"{share:.2}\"");
            if cpus.len() > TOOLTIPS_CPUS_MAX {
                canvas.rect((from, y), size, class, &more);
                continue;
            }
            let (until, percent) = (seconds(pair[1].at_ns), share * 100.0);
            canvas.push(format_args!("<g><title>cpu{cpu}, {until:.0} s: {percent:.0} % {title}</title>"));
            canvas.rect((from, y), size, class, &more);
            canvas.push(format_args!("</g>"));
        }
    }
}

fn cpu_number(key: &str) -> Option<u32> {
    key.strip_prefix("cpu_user_s@")?.parse().ok()
}

/// The share of the time between two samples that one CPU spent so.
fn share(before: &TelemetryRow, after: &TelemetryRow, cpu: u32, metrics: &[&str]) -> Option<f64> {
    let total = |values: &BTreeMap<String, f64>| -> Option<f64> {
        let read = metrics.iter().filter_map(|metric| values.get(&format!("{metric}@{cpu}")));
        read.copied().reduce(|sum, value| sum + value)
    };
    let seconds = after.at_ns.checked_sub(before.at_ns)? as f64 / 1e9;
    // A service's time on a CPU is first told when there is any.
    let began = if metrics == [ON] { Some(total(&before.values).unwrap_or(0.0)) } else { total(&before.values) };
    let spent = total(&after.values)? - began?;
    (seconds > 0.0).then(|| (spent / seconds).clamp(0.0, 1.0))
}
