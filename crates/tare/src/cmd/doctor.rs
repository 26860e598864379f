//! `tare doctor`: reports what this machine can measure, and why not the rest.

use crate::cli::DoctorArgs;
use crate::layers::LAYERS;
use crate::terminal::{columns, print};
use crate::{EXIT_OK, machine, paths};
use anyhow::Result;
use serde::Serialize;
use std::time::Duration;
use tare_core::config::{Fields, Node, NodeKind, Place, Problems};
use tare_core::fault::Fault;
use tare_core::host::{Availability, ErasedLayer, MachineServices};
use tare_core::topology::Topology;
use tare_report::{paragraph, whole};
use tare_telemetry::{DoctorCheck, NoiseReport, PROFILE, TELEMETRY, Verdict};

/// How long the noise test takes.
const NOISE_TIME: Duration = Duration::from_secs(5);

/// Everything that the doctor found.
#[derive(Serialize)]
struct Findings {
    forms: Vec<FormFinding>,
    checks: Vec<DoctorCheck>,
    topology: Topology,
    noise: Option<NoiseReport>,
}

/// Whether a layer is available on this machine.
#[derive(Serialize)]
struct FormFinding {
    layer: String,
    about: String,
    /// What was found, in a few words; empty if nothing was.
    words: String,
    /// Ways to have it, among which its options choose.
    ways: Vec<String>,
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
    checks.extend(tare_telemetry::profiler_checks());
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

/// Probes every layer with its default options.
fn layers() -> Vec<FormFinding> {
    let carrier = machine::carrier();
    let finding = |layer: &&'static dyn ErasedLayer| {
        let availability = match &carrier {
            _ if !rustix::process::geteuid().is_root() => {
                Availability::Unavailable(Fault::new("finding out needs root").remedy("sudo tare doctor"))
            }
            Ok(carrier) => probe_with_defaults(*layer, carrier),
            Err(error) => Availability::Unavailable(Fault::new(format!("{error:#}"))),
        };
        let words = match &availability {
            Availability::Ready(facts) | Availability::Emulated(facts, _) => layer.words(facts),
            Availability::Unavailable(_) => String::new(),
        };
        // What needs root is not looked for without it.
        let ways = if rustix::process::geteuid().is_root() { layer.ways() } else { Vec::new() };
        FormFinding { layer: layer.name().to_owned(), about: layer.about().to_owned(), words, ways, availability }
    };
    LAYERS.iter().map(finding).collect()
}

fn probe_with_defaults(layer: &dyn ErasedLayer, carrier: &MachineServices) -> Availability {
    let nothing = Node { place: Place::default(), kind: NodeKind::Map(Vec::new()) };
    let mut problems = Problems::default();
    debug_assert!(Fields::of(&nothing, "options", &mut problems).is_some());
    match layer.read(&nothing, &mut problems) {
        Some(options) => layer.probe(&options, carrier),
        None => Availability::Unavailable(Fault::new("the layer has no default options")),
    }
}

/// First what a newcomer asks: what this machine can measure, and if not, why and what to do. Then what spoils figures,
/// what would improve them, and the machine.
fn show(findings: &Findings, width: usize) -> String {
    let mut text =
        "what this machine can measure\n".to_owned() + &said(NARROW, "native", "yes: plain processes", &[], width);
    for form in &findings.forms {
        let (value, why, remedy) = match &form.availability {
            Availability::Ready(_) => (format!("yes: {}", form.words), "", ""),
            Availability::Emulated(_, why) => {
                (format!("only EMULATED: {}", form.words), why.message.as_str(), why.remedy.as_str())
            }
            Availability::Unavailable(why) => ("no".to_owned(), why.message.as_str(), why.remedy.as_str()),
        };
        let more: Vec<(&str, &str)> = [("why", why), ("to do", remedy)].into_iter().chain(ways_of(form)).collect();
        text += &said(NARROW, &form.layer, &value, &more, width);
    }
    text += &profiles(&findings.checks, width);
    let of = |verdict| findings.checks.iter().filter(move |check| check.verdict == verdict && check.area != PROFILE);
    for (title, verdict) in [("spoils figures", Verdict::Bad), ("would improve figures", Verdict::Note)] {
        let rows = of(verdict).map(|check| {
            let value = format!("{}: {}", check.value, check.meaning);
            said(WIDE, &check.name, &value, &[("to do", check.remedy.as_str())], width)
        });
        let rows: String = rows.collect();
        if !rows.is_empty() {
            text += &format!("\n{title}\n{rows}");
        }
    }
    let (sources, settings): (Vec<&DoctorCheck>, Vec<&DoctorCheck>) =
        of(Verdict::Good).partition(|check| check.area == TELEMETRY);
    let settings = settings.iter().map(|check| format!("{} {}", check.name, check.value));
    let sources = sources.iter().map(|check| whole(&check.name));
    let machine = [
        ("CPUs", topology_in_words(&findings.topology)),
        ("settings in order", settings.collect::<Vec<_>>().join("; ")),
        ("counters", sources.collect::<Vec<_>>().join(", ")),
        ("noise, A/A", findings.noise.as_ref().map(|noise| noise.verdict.clone()).unwrap_or_default()),
    ];
    text += "\nthe machine\n";
    for (name, value) in machine.iter().filter(|(_, value)| !value.is_empty()) {
        text += &said(WIDE, name, value, &[], width);
    }
    text
}

/// The ways to have a form, as lines below it.
fn ways_of(form: &FormFinding) -> impl Iterator<Item = (&str, &str)> {
    form.ways.iter().map(|way| ("as", way.as_str()))
}

/// What profiled trials can show on this machine, and what not.
fn profiles(checks: &[DoctorCheck], width: usize) -> String {
    const NAME: &str = "--profile";
    let checks = checks.iter().filter(|check| check.area == PROFILE);
    let (seen, missing): (Vec<&DoctorCheck>, Vec<&DoctorCheck>) =
        checks.partition(|check| check.verdict == Verdict::Good);
    let mut text = String::new();
    if !seen.is_empty() {
        let names: Vec<&str> = seen.iter().map(|check| check.name.as_str()).collect();
        text += &said(NARROW, NAME, &format!("yes: {}", names.join(" and ")), &[], width);
    }
    for check in missing {
        let name = if text.is_empty() { NAME } else { "" };
        let more = [("why", check.meaning.as_str()), ("to do", check.remedy.as_str())];
        text += &said(NARROW, name, &format!("no {}", check.name), &more, width);
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

/// Columns of the names of forms, and of the machine's.
const NARROW: usize = 15;
const WIDE: usize = 26;

/// A finding after its name, wrapped to `width` columns, its words from column `words` on; below it `more`, such as
/// what to do.
fn said(words: usize, name: &str, value: &str, more: &[(&str, &str)], width: usize) -> String {
    let mut text = paragraph(&format!("  {name:<0$} ", words - 3), words, value, width);
    for (what, value) in more.iter().filter(|(_, value)| !value.is_empty()) {
        text += &paragraph(&format!("{:words$}{what}: ", ""), words, value, width);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_core::host::Facts;

    #[test]
    fn findings_fit_into_eighty_columns() {
        let why = Fault::new("a word ".repeat(20)).remedy("do it ".repeat(20));
        let availability = Availability::Unavailable(why);
        let ways = vec!["option: one (with many words) ".repeat(5)];
        let (layer, about, words) = ("a-layer".into(), String::new(), String::new());
        let form = FormFinding { layer, about, words, ways, availability };
        let (checks, topology) = (tare_telemetry::checks(), tare_telemetry::topology());
        let text = show(&Findings { forms: vec![form], checks, topology, noise: None }, 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80 || !line.trim().contains(' ')), "{text}");
        assert!(text.contains(&format!("  a-layer      no\n{:15}why: a word a word", "")), "{text}");
        assert!(text.contains(&format!("\n{:15}to do: do it", "")), "{text}");
    }

    #[test]
    fn what_can_be_measured_comes_first_and_in_words() {
        let facts = || Facts::from([("a.raw_key".to_owned(), "1".to_owned())]);
        let form = |layer: &str, words: &str, availability| FormFinding {
            layer: layer.to_owned(),
            about: String::new(),
            words: words.to_owned(),
            ways: if layer == "box" { vec!["maker: a (Boxes 1.2)".to_owned()] } else { Vec::new() },
            availability,
        };
        let why = Fault::new("it stands still").remedy("use another machine");
        let check = |area: &str, name: &str, verdict, remedy: &str| DoctorCheck {
            area: area.to_owned(),
            name: name.to_owned(),
            value: if verdict == Verdict::Good { "yes" } else { "no" }.to_owned(),
            verdict,
            meaning: format!("what {name} means"),
            remedy: remedy.to_owned(),
        };
        let mut findings = Findings {
            forms: vec![
                form("box", "Boxes 1.2 with runner 3.4", Availability::Ready(facts())),
                form("guest", "Machines 5.6", Availability::Emulated(facts(), why)),
            ],
            checks: vec![
                check("cpu", "SMT", Verdict::Good, ""),
                check("cpu", "steal", Verdict::Bad, "go elsewhere"),
                check("cpu", "turbo", Verdict::Note, "switch it off"),
                check(TELEMETRY, "cgroup", Verdict::Good, ""),
                check(PROFILE, "call stacks", Verdict::Good, ""),
                check(PROFILE, "system calls", Verdict::Good, ""),
            ],
            topology: Topology::default(),
            noise: None,
        };
        let text = show(&findings, 80);
        let wanted = "what this machine can measure
  native       yes: plain processes
  box          yes: Boxes 1.2 with runner 3.4
               as: maker: a (Boxes 1.2)
  guest        only EMULATED: Machines 5.6
               why: it stands still
               to do: use another machine
  --profile    yes: call stacks and system calls

spoils figures
  steal                   no: what steal means
                          to do: go elsewhere

would improve figures
  turbo                   no: what turbo means
                          to do: switch it off

the machine
";
        assert!(text.starts_with(wanted), "{text}");
        assert!(text.contains("  settings in order       SMT yes\n  counters                cgroup\n"), "{text}");
        assert!(!text.contains("raw_key"), "{text}");
        findings.checks[5] = check(PROFILE, "system calls", Verdict::Note, "run as root");
        let text = show(&findings, 80);
        let wanted = "  --profile    yes: call stacks
               no system calls
               why: what system calls means
               to do: run as root
";
        assert!(text.contains(wanted), "{text}");
        assert!(serde_json::to_string(&findings).unwrap().contains("raw_key"));
    }
}
