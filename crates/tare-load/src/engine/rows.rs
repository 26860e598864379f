//! Turns what was counted into rows for the process that started the load.

use super::saturation;
use super::window::Window;
use crate::histogram::Histogram;
use tare_core::load::{SecondRow, WindowCounts, WindowRow, WindowTimes};

fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

/// The row of a span that every worker has handed over.
pub(super) fn second(row: SecondRow, parts: &[Histogram], lingers: &[bool]) -> SecondRow {
    let times = awaited(parts, lingers);
    SecondRow {
        operations: parts.iter().map(Histogram::total).sum(),
        p50_us: us(times.quantile(0.5)),
        p99_us: us(times.quantile(0.99)),
        max_us: us(times.longest()),
        ..row
    }
}

/// The response times of a window, without those of operations that linger.
pub(super) fn response(window: &Window, lingers: &[bool]) -> Histogram {
    awaited(window.outcomes.iter().map(|outcomes| &outcomes.response), lingers)
}

fn awaited<'h>(parts: impl IntoIterator<Item = &'h Histogram>, lingers: &[bool]) -> Histogram {
    let mut all = Histogram::new();
    parts.into_iter().zip(lingers).filter(|(_, lingers)| !**lingers).for_each(|(part, _)| all.merge(part));
    all
}

/// The row of a window that every worker has handed over.
pub(super) fn row(
    operations: &[String],
    lingers: &[bool],
    window: &Window,
    busy: f64,
    closed: Option<String>,
) -> WindowRow {
    let counts = window.outcomes.iter().map(|outcomes| WindowCounts {
        planned: outcomes.planned,
        answered: outcomes.answered,
        over_limit: outcomes.over_limit,
        failed: outcomes.failed + outcomes.dropped,
        unanswered: outcomes.unanswered(),
        p50_us: us(outcomes.response.quantile(0.5)),
        p99_us: us(outcomes.response.quantile(0.99)),
    });
    let all = response(window, lingers);
    let awaited = window.outcomes.iter().zip(lingers).filter(|(_, lingers)| !**lingers);
    let failed: u64 = awaited.map(|(of, _)| of.failed + of.dropped + of.unanswered()).sum();
    // Operations without an answer rank as the longest.
    let ranked = |quantile: f64| {
        let rank = quantile * (all.total() + failed) as f64 / all.total() as f64;
        us(all.quantile(rank.min(1.0)))
    };
    let times = (all.total() > 0).then(|| WindowTimes {
        count: all.total(),
        mean_us: all.mean_ns() / 1e3,
        p50_us: ranked(0.5),
        p99_us: ranked(0.99),
    });
    WindowRow {
        number: window.span.number,
        level: window.span.level,
        from_ns: window.span.from_ns,
        to_ns: window.span.to_ns,
        offered: window.outcomes.iter().map(|outcomes| outcomes.planned).sum(),
        started: window.started,
        dropped: window.outcomes.iter().map(|outcomes| outcomes.dropped).sum(),
        operations: operations.iter().cloned().zip(counts).collect(),
        saturated: closed.or_else(|| saturation::planned(&window.late, &all, busy)),
        times,
    }
}
