//! The machines of a lab as tables.

use super::check::Finding;
use super::clean::Cleaned;
use serde_json::json;
use tare_core::fault::Fault;
use tare_core::lab::Machine;
use tare_layers::agent::ClockReading;
use tare_report::{flow, paragraph, plain_quantity};

/// What stands for what is unknown.
const UNKNOWN: &str = "-";
/// The most lines of a log that are shown below what they explain.
const LOG_LINES_MAX: usize = 8;

/// The machines, without any being reached.
pub(super) fn machines(machines: &[Machine], width: usize) -> String {
    let row = |machine: &Machine| {
        let network = machine.network.map_or_else(|| UNKNOWN.to_owned(), |address| address.to_string());
        vec![machine.name.clone(), network, machine.way.words()]
    };
    table(&["machine", "network", "reached by"], machines.iter().map(row), width)
}

/// The same of one, for scripts.
pub(super) fn machine_as_json(machine: &Machine) -> serde_json::Value {
    let Machine { name, way, network, home } = machine;
    json!({ "machine": name, "way": way.words(), "network": network, "home": home })
}

/// What was found: two tables, for all of it is wider than a terminal; then what is in the way, and what to do.
pub(super) fn findings(findings: &[Finding], width: usize) -> String {
    let said = |known: Option<String>| known.unwrap_or_else(|| UNKNOWN.to_owned());
    let yes = |is: bool| String::from(if is { "yes" } else { "no" });
    let machine = |finding: &Finding| {
        let Finding { machine, reached, root, cpus, architecture, kernel, .. } = finding;
        let cpus = cpus.map(|cpus| cpus.to_string());
        let known = [root.map(yes), cpus, architecture.clone(), kernel.clone()].map(said);
        [machine.clone(), yes(*reached)].into_iter().chain(known).collect::<Vec<String>>()
    };
    let titles = ["machine", "reached", "root", "CPUs", "architecture", "kernel"];
    let mut text = table(&titles, findings.iter().map(machine), width);
    let reached: Vec<&Finding> = findings.iter().filter(|finding| finding.clock.is_some()).collect();
    if !reached.is_empty() {
        let measured = |finding: &&Finding| {
            let ahead = finding.clock.as_ref().map(ahead);
            let trip = finding.clock.map(|clock| plain_quantity(clock.round_trip_ns as f64 / 1e3, "us"));
            let known = [ahead, trip, finding.weighs()].map(said);
            std::iter::once(finding.machine.clone()).chain(known).collect::<Vec<String>>()
        };
        let titles = ["machine", "clock ahead by", "round trip", "weighs"];
        text += &format!("\n{}", table(&titles, reached.iter().map(measured), width));
    }
    for finding in findings {
        if let Some(fault) = &finding.fault {
            text += &format!("\n{}", in_the_way(&finding.machine, fault, width));
        }
    }
    text
}

/// What `tare clean` said on each machine.
pub(super) fn cleaned(all: &[Cleaned], width: usize) -> String {
    let said = |one: &Cleaned| {
        let mut text = format!("{}\n", one.machine);
        if let Some(fault) = &one.fault {
            text = in_the_way(&one.machine, fault, width);
        }
        text + &one.said.lines().map(|line| flow(&format!("  {line}"), width)).collect::<String>()
    };
    all.iter().map(said).collect::<Vec<_>>().join("\n")
}

/// By how much a clock is ahead of this machine's, with its uncertainty, in one scale.
fn ahead(clock: &ClockReading) -> String {
    let far = clock.offset_ns.unsigned_abs().max(clock.uncertainty_ns);
    let (scale, unit, decimals) = match far {
        1_000_000_000.. => (1e9, "s", 3),
        1_000_000.. => (1e6, "ms", 2),
        _ => (1e3, "us", 0),
    };
    let (offset, uncertainty) = (clock.offset_ns as f64 / scale, clock.uncertainty_ns as f64 / scale);
    format!("{offset:+.decimals$} +- {uncertainty:.decimals$} {unit}")
}

/// What keeps a machine from being used, and what to do about it.
fn in_the_way(machine: &str, fault: &Fault, width: usize) -> String {
    let label = format!("{machine}: ");
    let message = fault.message.strip_prefix(&label).unwrap_or(&fault.message);
    let mut text = paragraph(&label, 2, message, width);
    if !fault.remedy.is_empty() {
        text += &paragraph("  to do: ", 4, &fault.remedy, width);
    }
    let lines: Vec<&str> = fault.log.lines().filter(|line| !line.trim().is_empty()).collect();
    // Lines of a log are not Tare's own and are never wrapped.
    let shown = &lines[lines.len().saturating_sub(LOG_LINES_MAX)..];
    text + &shown.iter().map(|line| flow(&format!("    {line}"), usize::MAX)).collect::<String>()
}

/// A table whose columns are as wide as what stands in them; the last is wrapped where it does not fit.
fn table(titles: &[&str], rows: impl Iterator<Item = Vec<String>>, width: usize) -> String {
    let titles = titles.iter().map(|title| (*title).to_owned()).collect();
    let all: Vec<Vec<String>> = std::iter::once(titles).chain(rows).collect();
    let widest = |column: usize| all.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let shown = |row: &Vec<String>| {
        let (last, before) = row.split_last().expect("a table has columns");
        let padded = before.iter().enumerate().map(|(column, cell)| format!("{cell:<0$}  ", widest(column)));
        let label: String = padded.collect();
        paragraph(&label, label.chars().count(), last, width)
    };
    all.iter().map(shown).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use tare_core::lab::Lab;
    use tare_layers::lab::KINDS;

    /// A machine that was not reached.
    pub(in crate::cmd::lab) fn finding(machine: &str) -> Finding {
        Finding {
            machine: machine.to_owned(),
            way: "wire red".to_owned(),
            program: "/there/tare".to_owned(),
            ..Finding::default()
        }
    }

    #[test]
    fn a_lab_is_two_tables_of_eighty_columns_and_what_is_in_the_way() {
        let clock = ClockReading { offset_ns: -310_000, uncertainty_ns: 205_000, round_trip_ns: 410_000 };
        let sut = Finding {
            reached: true,
            root: Some(true),
            cpus: Some(32),
            architecture: Some("x86_64".to_owned()),
            kernel: Some("6.1.0-18-amd64".to_owned()),
            clock: Some(clock),
            forms: Some(Vec::new()),
            ..finding("sut")
        };
        let fault = Fault::new(format!("load-1: nothing answers {}", "there ".repeat(15))).remedy("switch it on");
        let away = Finding { fault: Some(fault.with_log("ssh: \u{1b}[1mrefused")), ..finding("load-1") };
        let text = findings(&[sut, away], 80);
        let wanted = "\
machine  reached  root  CPUs  architecture  kernel
sut      yes      yes   32    x86_64        6.1.0-18-amd64
load-1   no       -     -     -             -

machine  clock ahead by  round trip  weighs
sut      -310 +- 205 us  410 us      native

load-1: nothing answers there";
        assert!(text.starts_with(wanted), "{text}");
        assert!(text.ends_with("\n  to do: switch it on\n    ssh: [1mrefused\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn a_clock_is_shown_in_the_scale_of_what_it_is_off_by() {
        let of = |offset_ns, uncertainty_ns| ahead(&ClockReading { offset_ns, uncertainty_ns, round_trip_ns: 0 });
        assert_eq!(of(1_000, 2_000), "+1 +- 2 us");
        assert_eq!(of(0, 1_500_000), "+0.00 +- 1.50 ms");
        assert_eq!(of(3_600_000_000_000, 200_000), "+3600.000 +- 0.000 s");
        assert_eq!(of(-1_234_567, 10_000), "-1.23 +- 0.01 ms");
    }

    #[test]
    fn machines_are_listed_with_the_way_to_them() {
        let text = "machines:\n  sut: {ssh: root@10.0.0.5, network: 192.168.50.5}\n  \
                    any: {command: [teleport, exec, any, --, \"{tare}\", agent]}\n";
        let lab = Lab::read("lab.yaml", text, &KINDS).unwrap();
        let wanted = "\
machine  network       reached by
sut      192.168.50.5  ssh root@10.0.0.5
any      -             command teleport exec any --
";
        assert_eq!(machines(&lab.machines, 80), wanted);
        assert_eq!(machine_as_json(&lab.machines[1])["network"], serde_json::Value::Null);
    }

    #[test]
    fn what_was_cleaned_is_shown_by_machine() {
        let one = |machine: &str, said: &str, fault| {
            let (machine, said) = (machine.to_owned(), said.to_owned());
            Cleaned { machine, code: Some(0), found: None, said, fault }
        };
        let all = [one("a", "nothing to remove\n", None), one("b", "", Some(Fault::new("it is off")))];
        assert_eq!(cleaned(&all, 80), "a\n  nothing to remove\n\nb: it is off\n");
    }
}
