//! What `tare load` shows: a line while it runs, a table at the end. All fits into 80 columns.

use super::outcome::Measured;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::time::Duration;
use tare_core::load::{LoadPlan, LoadProfile, SecondRow, UserConnections};
use tare_core::units::{grouped, show_duration};
use tare_stats::Percentiles;

/// Shows the seconds as they come: one live line on a terminal, a plain line each elsewhere. Always on standard error,
/// so that the result can be taken from standard output.
pub(super) struct Progress {
    bar: ProgressBar,
    live: bool,
    silent: bool,
    whole: f64,
    passed: f64,
}

impl Progress {
    /// For a load of so long; `silent` shows nothing but on a terminal.
    pub(super) fn new(plan: &LoadPlan, silent: bool) -> Self {
        let live = std::io::stderr().is_terminal();
        let whole = (plan.settle + plan.measure).as_secs_f64();
        let bar = ProgressBar::new((whole * 10.0) as u64);
        bar.set_draw_target(if live { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() });
        let style = ProgressStyle::with_template("{bar:10.cyan/dim} {wide_msg}");
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

    /// Takes the live line away.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

fn line(row: &SecondRow, passed: f64, whole: f64) -> String {
    let settling = if row.measured { "" } else { " settling" };
    let errors = if row.errors > 0 { format!(" {} errors", grouped(row.errors as f64)) } else { String::new() };
    let dropped = if row.dropped > 0 { format!(" {} dropped", grouped(row.dropped as f64)) } else { String::new() };
    let rate = grouped(row.operations as f64 / row.seconds);
    let p99 = if row.operations > 0 { time(row.p99_us) } else { "-".to_owned() };
    format!("{passed:>4.0}/{whole:.0} s {rate:>9} op/s p99 {p99:>7}{errors}{dropped}{settling}")
}

/// `233 us`, `1.23 ms`, `4.5 s`: three digits.
pub(super) fn time(us: f64) -> String {
    let scaled = |value: f64, unit: &str| {
        let digits = if value >= 100.0 {
            0
        } else if value >= 10.0 {
            1
        } else {
            2
        };
        format!("{value:.digits$} {unit}")
    };
    match us {
        us if us < 999.5 => scaled(us, "us"),
        us if us < 999_500.0 => scaled(us / 1e3, "ms"),
        us => scaled(us / 1e6, "s"),
    }
}

fn profile(profile: &LoadProfile) -> String {
    match profile {
        LoadProfile::Closed { connections, pipeline: 1 } => format!("{connections} connections"),
        LoadProfile::Closed { connections, pipeline } => {
            format!("{connections} connections of {pipeline} operations")
        }
        LoadProfile::Open { rate, connections, .. } => {
            format!("{} op/s over {connections} connections", grouped(*rate))
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

/// The table at the end.
pub(super) fn table(plan: &LoadPlan, target: &str, measured: &Measured) -> String {
    let mut text = format!("{} at {target}, {}\n", plan.protocol, profile(&plan.profile));
    let seconds = show_duration(Duration::from_secs_f64(measured.seconds));
    let _ = writeln!(
        text,
        "{} operations answered in {seconds}, {} not\n",
        grouped(measured.operations as f64),
        grouped(measured.errors as f64)
    );
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<14}{value}");
    };
    row("throughput", &format!("{} op/s", grouped(measured.throughput)));
    if let Some(offered) = measured.offered {
        let dropped = if measured.dropped > 0 {
            format!(", {} dropped", grouped(measured.dropped as f64))
        } else {
            String::new()
        };
        row("offered", &format!("{} op/s{dropped}", grouped(offered)));
    }
    for (name, count) in &measured.failures {
        row("errors", &format!("{name}: {}", grouped(*count as f64)));
    }
    times(&mut text, measured);
    closing(&mut text, measured);
    text
}

fn times(text: &mut String, measured: &Measured) {
    let heads = ["p50", "p90", "p99", "p99.9", "max"].map(|head| format!("{head:>10}")).concat();
    let _ = writeln!(text, "\n{:<22}{heads}", "");
    let mut row = |name: &str, times: &Percentiles| {
        let cells = [times.p50_us, times.p90_us, times.p99_us, times.p999_us, times.max_us];
        let cells: String = cells.map(|cell| format!("{:>10}", cell.map_or_else(|| "-".to_owned(), time))).concat();
        let name: String = name.chars().take(21).collect();
        let _ = writeln!(text, "{name:<22}{cells}");
    };
    let several = measured.by_operation.len() > 1;
    // In a closed loop nothing is planned, and the two are the same.
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

fn closing(text: &mut String, measured: &Measured) {
    let _ = writeln!(text);
    if let Some((cpu_s, cpus)) = measured.generator {
        let per_operation = if measured.operations > 0 { cpu_s * 1e6 / measured.operations as f64 } else { 0.0 };
        let share = cpu_s / measured.seconds;
        let _ = writeln!(text, "{:<14}{share:.2} of {cpus} CPU(s), {per_operation:.2} us an operation", "generator");
    }
    for (name, why) in &measured.trouble {
        let _ = writeln!(text, "{}", wrapped(&format!("{name:<14}{why}"), 14));
    }
}

/// Lines of at most 80 columns, all but the first indented.
fn wrapped(text: &str, indent: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_inclusive(' ') {
        let line = lines.last_mut().expect("there is one");
        if line.chars().count() + word.trim_end().chars().count() > 80 && line.len() > indent {
            lines.push(" ".repeat(indent) + word);
        } else {
            line.push_str(word);
        }
    }
    lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        let times = [0.5, 99.94, 233.4, 999.6, 12_345.0, 4.2e6].map(time);
        assert_eq!(times, ["0.50 us", "99.9 us", "233 us", "1.00 ms", "12.3 ms", "4.20 s"]);
    }

    #[test]
    fn lines_keep_to_a_terminal() {
        let long = format!("{:<14}{}", "saturated", "word ".repeat(40));
        let lines = wrapped(&long, 14);
        assert!(lines.lines().all(|line| line.chars().count() <= 80), "{lines}");
        assert!(lines.lines().skip(1).all(|line| line.starts_with("              word")), "{lines}");
        let row = SecondRow {
            seconds: 1.0,
            operations: 9_999_999,
            errors: 999_999,
            dropped: 999_999,
            p99_us: 1e9,
            ..SecondRow::default()
        };
        // The bar in front takes eleven columns.
        assert!(line(&row, 86_400.0, 86_400.0).len() <= 80, "{}", line(&row, 86_400.0, 86_400.0));
    }
}
