//! What `tare load` shows: a line while it runs, a table at the end.

use super::outcome::Measured;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::time::Duration;
use tare_core::load::{LoadPlan, LoadProfile, SecondRow, UserConnections};
use tare_core::units::{grouped, show_duration};
use tare_report::{paragraph, plain_quantity};
use tare_stats::Percentiles;

/// Shows each second as it ends: in one live line on a terminal, in a plain line each elsewhere. Always on standard
/// error, so that standard output has the result only.
pub(super) struct Progress {
    bar: ProgressBar,
    live: bool,
    silent: bool,
    whole: f64,
    passed: f64,
}

impl Progress {
    /// For the load of this plan; `silent` shows nothing, except on a terminal.
    pub(super) fn new(plan: &LoadPlan, silent: bool) -> Self {
        let live = std::io::stderr().is_terminal();
        let whole = (plan.settle + plan.measure).as_secs_f64();
        let bar = ProgressBar::new((whole * 10.0) as u64);
        bar.set_draw_target(if live { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() });
        let style = ProgressStyle::with_template("{bar:6.cyan/dim} {wide_msg}");
        bar.set_style(style.expect("the template is well formed"));
        bar.set_message("connecting");
        Progress { bar, live, silent, whole, passed: 0.0 }
    }

    /// Shows what is going on.
    pub(super) fn say(&self, what: &str) {
        self.bar.set_message(what.to_owned());
        self.bar.tick();
        if !self.live && !self.silent {
            eprintln!("{what}");
        }
    }

    /// Shows a second.
    pub(super) fn show(&mut self, row: &SecondRow) {
        self.passed += row.seconds;
        self.bar.set_position((self.passed * 10.0) as u64);
        if row.seconds > 0.0 {
            let line = line(row, self.passed, self.whole);
            self.bar.set_message(line.trim_start().to_owned());
            self.bar.tick();
            if !self.live && !self.silent {
                eprintln!("{line}");
            }
        }
    }

    /// Removes the live line.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

fn line(row: &SecondRow, passed: f64, whole: f64) -> String {
    let settling = if row.measured { "" } else { " settling" };
    let errors = if row.errors > 0 { format!(" {} errors", grouped(row.errors as f64)) } else { String::new() };
    let dropped = if row.dropped > 0 { format!(" {} dropped", grouped(row.dropped as f64)) } else { String::new() };
    let rate = rate(row.operations as f64 / row.seconds);
    let p99 = if row.operations > 0 { plain_quantity(row.p99_us, "us") } else { "-".to_owned() };
    format!("{passed:>4.0}/{whole} s {rate:>14} p99 {p99:>7}{errors}{dropped}{settling}")
}

fn rate(per_s: f64) -> String {
    plain_quantity(per_s, "op/s")
}

fn profile(profile: &LoadProfile) -> String {
    match profile {
        LoadProfile::Closed { connections, pipeline: 1 } => format!("{connections} connections"),
        LoadProfile::Closed { connections, pipeline } => {
            format!("{connections} connections with {pipeline} operations in flight each")
        }
        LoadProfile::Open { rate, connections, .. } => {
            format!("{} over {connections} connections", self::rate(*rate))
        }
        LoadProfile::Users { users, connections, .. } => match connections {
            UserConnections::Own => format!("{users} users with a connection each"),
            UserConnections::Shared(connections) => format!("{users} users over {connections} connections"),
            UserConnections::Fresh => format!("{users} users with a new connection each time"),
        },
        LoadProfile::Guided { of, .. } | LoadProfile::Steps { of, .. } => self::profile(of),
        LoadProfile::Replay { connections, .. } => format!("a recording over {connections} connections"),
    }
}

/// Columns of a row's name.
const NAME: usize = 14;

/// The table at the end, in lines of at most `width` columns.
pub(super) fn table(plan: &LoadPlan, target: &str, measured: &Measured, width: usize) -> String {
    let about = format!("{} at {target}, {}", plan.protocol, profile(&plan.profile));
    let mut text = paragraph("", 2, &about, width);
    let mut row = |name: &str, value: &str| text += &paragraph(&format!("{name:<NAME$}"), NAME, value, width);
    if measured.nothing() {
        row("nothing measured", "");
    } else {
        let seconds = show_duration(Duration::from_secs_f64(measured.seconds));
        let answered = grouped(measured.operations as f64);
        row(&format!("{answered} operations answered in {seconds}, {} not", grouped(measured.errors as f64)), "");
        row("", "");
        let answered = measured.throughput > 0.0;
        row("throughput", &if answered { rate(measured.throughput) } else { "nothing measured".to_owned() });
        if let Some(offered) = measured.offered {
            let dropped = grouped(measured.dropped as f64);
            let dropped = if measured.dropped > 0 { format!(", {dropped} dropped") } else { String::new() };
            row("offered", &format!("{}{dropped}", rate(offered)));
        }
        for (name, count) in &measured.failures {
            row("errors", &format!("{name}: {}", grouped(*count as f64)));
        }
        times(&mut text, measured);
    }
    closing(&mut text, measured, width);
    text
}

fn times(text: &mut String, measured: &Measured) {
    const NAME: usize = 22;
    let heads = ["p50", "p90", "p99", "p99.9", "max"].map(|head| format!("{head:>10}")).concat();
    let _ = writeln!(text, "\n{:NAME$}{heads}", "");
    let mut row = |name: &str, times: &Percentiles| {
        let cells = [times.p50_us, times.p90_us, times.p99_us, times.p999_us, times.max_us];
        let time = |us| plain_quantity(us, "us");
        let cells: String = cells.map(|cell| format!("{:>10}", cell.map_or_else(|| "-".to_owned(), time))).concat();
        // A name that is too long gets a line of its own.
        let wide = name.chars().count() >= NAME;
        let _ =
            if wide { writeln!(text, "{name}\n{:NAME$}{cells}", "") } else { writeln!(text, "{name:NAME$}{cells}") };
    };
    let several = measured.by_operation.len() > 1;
    // A closed loop has no planned starts, so the two are the same.
    let same = measured.response == measured.service;
    row(if same { "time to answer" } else { "response time" }, &measured.response);
    if several {
        measured.by_operation.iter().for_each(|(name, (response, _))| row(&format!("  {name}"), response));
    }
    if !same {
        row("service time", &measured.service);
        if several {
            measured.by_operation.iter().for_each(|(name, (_, service))| row(&format!("  {name}"), service));
        }
    }
}

fn closing(text: &mut String, measured: &Measured, width: usize) {
    let mut row = |name: &str, value: &str| text.push_str(&paragraph(&format!("{name:<NAME$}"), NAME, value, width));
    row("", "");
    if let Some((cpu_s, cpus)) = measured.generator.filter(|_| !measured.nothing()) {
        let share = cpu_s / measured.seconds;
        let operations = Some(measured.operations as f64).filter(|operations| *operations > 0.0);
        let cost = operations.map(|operations| plain_quantity(cpu_s * 1e6 / operations, "us"));
        let cost = cost.map(|cost| format!(", {cost} per operation")).unwrap_or_default();
        row("generator", &format!("{share:.2} of {cpus} CPU(s){cost}"));
    }
    measured.trouble.iter().for_each(|(name, why)| row(name, why));
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_core::load::Arrivals;

    fn measured(seconds: f64, name: &str) -> Measured {
        let times = Percentiles { p50_us: Some(233.4), p99_us: Some(12_345.0), ..Percentiles::default() };
        let both = (times, Percentiles::default());
        Measured {
            seconds,
            operations: (9_999_999.0 * seconds) as u64,
            throughput: if seconds > 0.0 { 9_999_999.0 } else { 0.0 },
            offered: Some(9_999_999.0),
            failures: [(format!("answer-of-{name}"), 1234)].into(),
            response: times,
            by_operation: [(name.to_owned(), both), ("set".to_owned(), both)].into(),
            generator: Some((17.5, 2)),
            trouble: vec![("rate missed", "word ".repeat(40))],
            ..Measured::default()
        }
    }

    fn plan() -> LoadPlan {
        let open = LoadProfile::Open { rate: 9_999_999.0, arrivals: Arrivals::Constant, connections: 1, in_flight: 1 };
        let (options, measure) = (serde_json::json!({}), Duration::from_secs(10));
        LoadPlan { measure, ..LoadPlan::of("x", options, ([127, 0, 0, 1], 1).into(), open) }
    }

    #[test]
    fn a_table_fits_a_terminal_without_cutting_anything() {
        let name = "an-operation-with-a-rather-long-name";
        let text = table(&plan(), "127.0.0.1:1", &measured(10.0, name), 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        for wanted in ["10,000,000 op/s", "233 us", "12.3 ms", "99,999,990 operations answered in 10 s, 0 not", name] {
            assert!(text.contains(wanted), "{wanted} is missing in:\n{text}");
        }
        assert!(text.lines().any(|line| line.starts_with("              word")), "{text}");
    }

    #[test]
    fn without_a_measurement_no_figure_is_shown() {
        let text = table(&plan(), "127.0.0.1:1", &measured(0.0, "get"), 80);
        assert!(text.contains("\nnothing measured\n") && text.contains("rate missed"), "{text}");
        for wrong in ["throughput", "233 us", "generator"] {
            assert!(!text.contains(wrong), "{wrong} is in:\n{text}");
        }
    }

    #[test]
    fn lines_fit_a_terminal() {
        let row = SecondRow {
            seconds: 1.0,
            operations: 9_999_999,
            errors: 999_999,
            dropped: 999_999,
            p99_us: 9e7,
            measured: true,
            ..SecondRow::default()
        };
        // The bar in front takes seven columns.
        let line = line(&row, 3600.0, 3600.0);
        assert!(line.contains("10,000,000 op/s p99  90.0 s"), "{line}");
        assert!(line.len() + 7 <= 80, "{}: {line}", line.len());
    }
}
