//! `tare doctor`: what this host can weigh, and why not the rest.

use crate::cli::DoctorArgs;
use crate::cmd::{columns, print};
use crate::{EXIT_OK, machine, paths};
use anyhow::Result;
use serde::Serialize;
use std::time::Duration;
use tare_core::config::{Fields, Node, NodeKind, Place, Problems};
use tare_core::fault::Fault;
use tare_core::host::{Availability, Carrier};
use tare_core::topology::Topology;
use tare_layers::LAYERS;
use tare_report::paragraph;
use tare_telemetry::{DoctorCheck, NoiseReport, Verdict};

/// How long the noise test takes.
const NOISE_TIME: Duration = Duration::from_secs(5);

/// Everything the doctor found.
#[derive(Serialize)]
struct Findings {
    forms: Vec<FormFinding>,
    checks: Vec<DoctorCheck>,
    topology: Topology,
    noise: Option<NoiseReport>,
}

/// Whether a layer can be had here.
#[derive(Serialize)]
struct FormFinding {
    layer: String,
    about: String,
    availability: Availability,
}

pub(crate) fn doctor(args: &DoctorArgs) -> Result<u8> {
    if args.topology {
        let topology = tare_telemetry::topology();
        print(&match args.json {
            true => serde_json::to_string_pretty(&topology)?,
            false => tare_report::topology_text(&topology, columns(std::io::stdout())),
        });
        return Ok(EXIT_OK);
    }
    let mut checks = tare_telemetry::checks();
    checks.push(tare_telemetry::disk_check(&paths::home()));
    let findings = Findings {
        forms: layers(),
        checks,
        topology: tare_telemetry::topology(),
        noise: (!args.no_noise).then(|| tare_telemetry::noise(NOISE_TIME)),
    };
    if args.json {
        print(&serde_json::to_string_pretty(&findings)?);
    } else {
        print(&show(&findings, columns(std::io::stdout())));
    }
    Ok(EXIT_OK)
}

/// Asks every layer with its default options. One that stands for tests only is left out.
fn layers() -> Vec<FormFinding> {
    let carrier = machine::carrier();
    let real = LAYERS.iter().filter(|row| !row.for_tests);
    real.map(|row| {
        let availability = match &carrier {
            _ if !rustix::process::geteuid().is_root() => {
                Availability::Unavailable(Fault::new("it takes root to find out").remedy("sudo tare doctor"))
            }
            Ok(carrier) => probe_with_defaults(row, carrier),
            Err(error) => Availability::Unavailable(Fault::new(format!("{error:#}"))),
        };
        FormFinding { layer: row.name.to_owned(), about: row.about.to_owned(), availability }
    })
    .collect()
}

fn probe_with_defaults(row: &tare_core::host::LayerRow, carrier: &Carrier) -> Availability {
    let nothing = Node { place: Place::default(), kind: NodeKind::Map(Vec::new()) };
    let mut problems = Problems::default();
    debug_assert!(Fields::of(&nothing, "options", &mut problems).is_some());
    match (row.options)(&nothing, &mut problems) {
        Some(options) => (row.probe)(&options, carrier),
        None => Availability::Unavailable(Fault::new("it has no defaults")),
    }
}

fn show(findings: &Findings, width: usize) -> String {
    let line = |mark: &str, name: &str, value: &str, remedy: &str| mark_line(mark, name, value, remedy, width);
    let mut text = "forms\n".to_owned() + &line("ok", "native", "plain processes, always", "");
    for form in &findings.forms {
        let (mark, value, remedy) = match &form.availability {
            Availability::Ready(facts) => ("ok", facts_in_words(facts), String::new()),
            Availability::Emulated(_, why) => ("note", format!("EMULATED: {}", why.message), why.remedy.clone()),
            Availability::Unavailable(why) => ("no", why.message.clone(), why.remedy.clone()),
        };
        text += &line(mark, &form.layer, &value, &remedy);
    }
    text += "\nmachine\n";
    text += &line("", "CPUs", &topology_in_words(&findings.topology), "");
    for check in &findings.checks {
        let mark = match check.verdict {
            Verdict::Good => "ok",
            Verdict::Note => "note",
            Verdict::Bad => "bad",
        };
        let meaning = if check.verdict == Verdict::Good { String::new() } else { format!(" - {}", check.meaning) };
        text += &line(mark, &check.name, &format!("{}{meaning}", check.value), &check.remedy);
    }
    if let Some(noise) = &findings.noise {
        text += "\nnoise\n";
        text += &line("", "A/A", &noise.verdict, "");
    }
    text
}

fn topology_in_words(topology: &Topology) -> String {
    let last_level: Vec<String> = topology.last_level().iter().map(ToString::to_string).collect();
    let mut text = format!(
        "{} logical CPUs on {} cores, {} package(s), {} NUMA node(s)",
        topology.cpus.len(),
        topology.cores().len(),
        topology.packages(),
        topology.nodes.len().max(1)
    );
    if !last_level.is_empty() {
        text.push_str(&format!(", last-level caches shared by CPUs {}", last_level.join(" | ")));
    }
    if !topology.offline.is_empty() {
        text.push_str(&format!(", offline: {}", topology.offline));
    }
    text
}

fn facts_in_words(facts: &tare_core::host::Facts) -> String {
    facts.iter().map(|(key, value)| format!("{key} {value}")).collect::<Vec<_>>().join(", ")
}

/// A finding, its words under its name in lines of at most `width` columns.
fn mark_line(mark: &str, name: &str, value: &str, remedy: &str, width: usize) -> String {
    const WORDS: usize = 26;
    let mut text = paragraph(&format!("  {mark:<4} {name:<18} "), WORDS, value, width);
    if !remedy.is_empty() {
        text += &paragraph(&format!("{:WORDS$}to do: ", ""), WORDS, remedy, width);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_here_keeps_to_eighty_columns() {
        let why = Fault::new("a word ".repeat(20)).remedy("do it ".repeat(20));
        let availability = Availability::Unavailable(why);
        let form = FormFinding { layer: "a-layer".into(), about: String::new(), availability };
        let (checks, topology) = (tare_telemetry::checks(), tare_telemetry::topology());
        let text = show(&Findings { forms: vec![form], checks, topology, noise: None }, 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80 || !line.trim().contains(' ')), "{text}");
        assert!(text.contains("  no   a-layer            a word a word"), "{text}");
        assert!(text.contains(&format!("\n{:26}to do: do it", "")), "{text}");
    }
}
