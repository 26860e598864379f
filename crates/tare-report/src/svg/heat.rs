//! Busy time of each CPU over time, split into user, system and interrupts.

use super::scale::{Scale, tick_text};
use super::{Anchor, Canvas, PANEL_WIDTH};
use std::collections::BTreeMap;
use tare_core::telemetry::{TelemetryRow, Vantage, WHOLE_MACHINE};

const LEFT: f64 = 44.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 18.0;
const GAP: f64 = 24.0;
const AXIS: f64 = 32.0;

/// Cells carry their figure as a tooltip up to so many CPUs; beyond, the page would grow by megabytes.
const TOOLTIPS_CPUS_MAX: usize = 16;

/// Class, title and the metrics that are summed.
const KINDS: [(&str, &str, &[&str]); 3] = [
    ("heat-user", "user", &["cpu_user_s"]),
    ("heat-system", "system", &["cpu_system_s"]),
    ("heat-interrupts", "interrupts (soft and hard)", &["cpu_softirq_s", "cpu_irq_s"]),
];

/// The machine's CPUs during one trial, which was measured from `start_ns` to `end_ns`. None without telemetry by CPU.
pub(crate) fn heat(name: &str, telemetry: &[TelemetryRow], start_ns: u64, end_ns: u64) -> Option<String> {
    let of_machine = |row: &&TelemetryRow| row.vantage == Vantage::Host && row.scope == WHOLE_MACHINE;
    let mut rows: Vec<&TelemetryRow> = telemetry.iter().filter(of_machine).collect();
    rows.sort_by_key(|row| row.at_ns);
    let mut cpus: Vec<u32> = rows.first()?.values.keys().filter_map(|key| cpu_number(key)).collect();
    cpus.sort_unstable();
    cpus.dedup();
    if cpus.is_empty() || rows.len() < 2 {
        return None;
    }
    let cell = (112.0 / cpus.len() as f64).clamp(2.0, 16.0);
    let block = cell * cpus.len() as f64;
    let height = TOP + 3.0 * block + 2.0 * GAP + AXIS;
    let seconds = |at_ns: u64| (at_ns as f64 - start_ns as f64) / 1e9;
    let x = Scale::linear(seconds(rows[0].at_ns), seconds(rows[rows.len() - 1].at_ns), LEFT, PANEL_WIDTH - RIGHT);
    let mut canvas = Canvas::new(PANEL_WIDTH, height);
    for (number, (class, title, metrics)) in KINDS.iter().enumerate() {
        let top = TOP + number as f64 * (block + GAP);
        canvas.text(LEFT, top - 6.0, Anchor::Start, "axis", title);
        canvas.rect((LEFT, top), (PANEL_WIDTH - RIGHT - LEFT, block), "heat-ground", "");
        for (line, cpu) in cpus.iter().enumerate() {
            let y = top + line as f64 * cell;
            // Every label when they fit, else the first and the last.
            if cell >= 11.0 || line == 0 || line + 1 == cpus.len() {
                canvas.text(LEFT - 5.0, y + cell / 2.0 + 4.0, Anchor::End, "tick", &format!("cpu{cpu}"));
            }
            for pair in rows.windows(2) {
                let Some(share) = share(pair[0], pair[1], *cpu, metrics) else { continue };
                let (from, to) = (seconds(pair[0].at_ns), seconds(pair[1].at_ns));
                let place = (x.place(from), y);
                let size = (x.place(to) - x.place(from) - 0.5, cell - if cell > 6.0 { 1.0 } else { 0.0 });
                let more = format!(" fill-opacity=\"{share:.2}\"");
                if share < 0.005 {
                    continue;
                }
                if cpus.len() > TOOLTIPS_CPUS_MAX {
                    canvas.rect(place, size, class, &more);
                } else {
                    canvas.push(format_args!("<g><title>cpu{cpu}, {to:.0} s: {:.0} % {title}</title>", share * 100.0));
                    canvas.rect(place, size, class, &more);
                    canvas.push(format_args!("</g>"));
                }
            }
        }
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
    let spent = total(&after.values)? - total(&before.values)?;
    (seconds > 0.0).then(|| (spent / seconds).clamp(0.0, 1.0))
}
