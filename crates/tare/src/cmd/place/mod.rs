//! `tare place`: finds the placement under which a study's services perform best.
//!
//! A model ranks the possible placements. The best few, and what the kernel does by itself, are measured as forms of
//! one study until one is better than all others beyond chance, or the time is up. The outcome is read from the record
//! alone, so an interrupted search can be resumed like any run.

mod args;
mod placing;
mod settings;
mod show;

pub(crate) use args::PlaceArgs;

use crate::mistake::Mistake;
use crate::outlook::{self, Outlook};
use crate::terminal::{columns, note, print, tell};
use crate::{EXIT_OK, files, places, run, session};
use anyhow::Result;
use placing::Placing;
use show::{Choice, Finding};
use std::path::Path;
use tare_core::design::{Arrangement, Chosen};
use tare_core::form::Form;
use tare_core::placement::{Candidate, Manner, candidates};
use tare_core::plan::plan;
use tare_core::study::Study;
use tare_core::topology::Topology;
use tare_core::units::CpuSet;
use tare_report::{paragraph, whole};
use tare_runner::{Ending, Pace};
use tare_stats::contest;

/// The default limit on blocks: with more, a run takes hours.
const BLOCKS_MAX: u32 = 32;

pub(crate) fn place(args: &PlaceArgs) -> Result<u8> {
    let read = files::read_to_run(&args.run)?;
    let (mut study, workload) = files::only_part(read, "place")?;
    let (topology, aside) = places::machine(&study)?;
    let asked = args.asked(&study, &workload, &topology)?;
    run::check_times(&args.run, &study)?;
    if args.run.design.is_some() {
        let text = "--design has no effect here: deployments that use each other's CPUs are measured in blocks";
        return Err(Mistake::new(format!("{text}\n  to do: omit it")).into());
    }
    let ranked = candidates(&asked.deployed.services, aside, &topology, &asked.demand).map_err(|reasons| {
        let list: String = reasons.iter().map(|why| format!("\n  - {why}")).collect();
        let remedy = "lower 'cpus' of 'resources', or keep fewer CPUs aside in 'placement' of the study";
        Mistake::new(format!("the services do not fit on this machine:{list}\n  to do: {remedy}"))
    })?;
    let measured = chosen(&ranked, args.top as usize);
    let (json, width) = (args.run.json, columns(std::io::stdout()));
    if !json && measured.len() > 1 {
        print(&show::ranking(&study, &asked.form, &ranked, &measured, width));
    }
    let nothing = (measured.len() < 2).then(|| show::nothing_to_choose(&ranked[0]));
    if args.run.dry_run || nothing.is_some() {
        let best = measured[0];
        let choice = Choice { name: best.name.clone(), words: nothing.unwrap_or_else(|| show::by_model(best)) };
        derive(&mut study, &asked, &measured, args);
        let placings = measured.iter().map(|candidate| Placing::ranked(candidate)).collect();
        let machine = all_cpus(&topology);
        let finding = Finding { study: &study, workload: &asked.deployed, placings, contest: None, choice, machine };
        if json {
            print(&finding.json(Some(&ranked), None)?);
            return Ok(EXIT_OK);
        }
        print(&finding.text(width));
        if args.run.dry_run && measured.len() > 1 {
            print(&would(&study, &outlook::pace(&study, &workload, None), width));
        }
        return Ok(EXIT_OK);
    }
    derive(&mut study, &asked, &measured, args);
    let typed = crate::cli::RunArgs { forms: Vec::new(), ..args.run.clone() };
    let finish = |path: &Path, ending| finish(path, ending, Some(&ranked), json);
    run::start_and(&typed, study, workload, Some(args.command()), finish)
}

/// The best few by the model, in its order, and what the kernel does by itself, wherever the model ranks that.
fn chosen(ranked: &[Candidate], top: usize) -> Vec<&Candidate> {
    let mut others = 0;
    let keeps = |candidate: &&Candidate| {
        let free = candidate.manner == Manner::Free;
        others += usize::from(!free);
        free || others <= top
    };
    ranked.iter().filter(keeps).collect()
}

/// Turns the study into one of placements: each is a form with the same layers, and the kernel's own is the baseline.
fn derive(study: &mut Study, asked: &args::Asked, chosen: &[&Candidate], args: &PlaceArgs) {
    let form = study.forms.iter().find(|form| form.name == asked.form).cloned();
    let form = form.expect("the form is one of the study's");
    let named = |candidate: &&Candidate| Form {
        name: candidate.name.clone(),
        placement: Some(candidate.rules.clone()),
        ..form.clone()
    };
    study.forms = chosen.iter().map(named).collect();
    let free = chosen.iter().find(|candidate| candidate.manner == Manner::Free);
    study.baseline = free.expect("what the kernel does is always measured").name.clone();
    study.question = format!("On which CPUs do the services of {} do best in {}?", study.workload, asked.form);
    study.name = format!("{}-place", study.name);
    study.design.best_in = Some(asked.metric.clone());
    study.design.half_width = None;
    // Deployments side by side would use each other's CPUs.
    (study.design.arrangement, study.design.chosen) = (Arrangement::Blocks, Chosen::Asked);
    study.repeat = args.run.repeat.unwrap_or(BLOCKS_MAX);
    study.at_most = args.run.at_most.or(study.at_most);
    if study.peak.is_none() {
        study.settle = args.run.settle.unwrap_or(study.settle);
        study.measure = args.run.measure.unwrap_or(study.measure);
    }
}

fn all_cpus(topology: &Topology) -> CpuSet {
    CpuSet::new(topology.cpus.iter().map(|cpu| cpu.cpu))
}

/// How long a search would take.
fn would(study: &Study, pace: &Pace, width: usize) -> String {
    let trials = plan(study, &pace.emulated(), 0);
    let outlook = Outlook::of(study, &trials, pace).describe();
    let text = format!("Without --dry-run: {outlook}. {}", whole("Nothing was started."));
    format!("\n{}", paragraph("", 2, &text, width))
}

/// Prints what a search found, from its record; `ranked` is the whole ranking, if known.
pub(crate) fn finish(path: &Path, ending: Ending, ranked: Option<&[Candidate]>, json: bool) -> Result<u8> {
    let record = tare_runner::read_record(path)?;
    let page = session::keep_report(path, &record)?;
    let study = &record.header.study;
    let metric = study.design.best_in.as_deref().unwrap_or_else(|| record.header.deciding_metric());
    let found = contest(&record, metric);
    let choice = Choice::of(&record, found.as_ref(), ending);
    // All forms of a search deploy the same services.
    let form = study.forms.first();
    let deployed =
        form.map_or_else(|| record.header.workload.clone(), |form| study.deployed(&record.header.workload, form));
    let finding = Finding {
        study,
        workload: &deployed,
        placings: Placing::measured(&record),
        contest: found.as_ref(),
        choice,
        machine: record.header.topology.as_ref().map(all_cpus).unwrap_or_default(),
    };
    if json {
        print(&finding.json(ranked, Some(path))?);
    } else {
        print(&finding.text(columns(std::io::stdout())));
        session::say_where(&page, path);
    }
    if ending == Ending::Interrupted {
        let say = if json { note } else { tell };
        say(&format!("\ninterrupted: what was measured is on disk; to continue: tare resume {}", path.display()));
    }
    Ok(session::exit_code(&record, ending))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;
    use tare_core::placement::{Aside, Demand};
    use tare_core::topology::{Cache, Cpu, Device, DeviceKind};
    use tare_core::workload::Workload;

    /// Two packages of four cores with two CPUs each, the second ones numbered behind the first.
    pub(super) fn machine() -> Topology {
        let siblings = |core: u32| CpuSet::new([core, core + 8]);
        let cpu = |cpu: u32| Cpu {
            cpu,
            package: i64::from(cpu % 8 / 4),
            die: 0,
            core: i64::from(cpu % 8),
            siblings: siblings(cpu % 8),
            node: Some(cpu % 8 / 4),
            capacity: None,
        };
        let of = |package: u32| CpuSet::new((package * 4..package * 4 + 4).flat_map(|core| [core, core + 8]));
        let cache = |package| Cache { level: 3, kind: "Unified".into(), bytes: 1 << 25, cpus: of(package).to_string() };
        Topology {
            cpus: (0..16).map(cpu).collect(),
            nodes: [(0, of(0)), (1, of(1))].into(),
            caches: vec![cache(0), cache(1)],
            devices: vec![Device { kind: DeviceKind::Network, name: "eth0".into(), node: Some(1) }],
            ..Topology::default()
        }
    }

    fn read(study: &str) -> (Study, Workload) {
        let folder = tempfile::tempdir().unwrap();
        let service = |resources: &str| {
            format!(
                "{{bundle: {{packages: [dash]}}, command: [/bin/sh], ready: {{log: x}}, resources: {{{resources}}}}}"
            )
        };
        let (db, web) = (service("cpus: 4, cpu_quota: 1.5, memory: 1GiB"), service("cpus: 1, memory: 1GiB"));
        let protocol = "{service: web, protocol: {exec: {where: inside, parser: tare, command: [/bin/true]}}}";
        let text = format!("workload: shop\nservices: {{db: {db}, web: {web}}}\nload: {protocol}\n");
        tare_testkit::files::write(&folder.path().join("shop/workload.yaml"), &text);
        let text = format!("study: s\nworkload: shop\n{study}\n");
        let suite = files::read_suite_text(&text, "s", Some(folder.path())).unwrap();
        files::only_part(suite, "place").unwrap()
    }

    pub(super) fn shop() -> Workload {
        read("load: {closed: {}}\nforms: {native: []}").1
    }

    pub(super) fn candidates_of(workload: &Workload, topology: &Topology) -> Vec<Candidate> {
        candidates(&workload.services, Aside::default(), topology, &Demand::assumed(&workload.services)).unwrap()
    }

    fn typed(args: &[&str]) -> PlaceArgs {
        let typed = crate::verbs::Cli::try_parse_from(["tare", "place"].iter().chain(args)).unwrap();
        match typed.verb {
            crate::verbs::Verb::Place(args) => args,
            other => panic!("{other:?}"),
        }
    }

    fn asked(study: &str, args: &[&str]) -> Result<args::Asked> {
        let (study, workload) = read(study);
        typed(args).asked(&study, &workload, &machine())
    }

    const STUDY: &str = "load: {closed: {}}\nforms: {native: [], two: []}";

    #[test]
    fn arguments_override_assumptions() {
        let usual = asked(STUDY, &[]).unwrap();
        assert_eq!((usual.form.as_str(), usual.metric.as_str()), ("native", "throughput"));
        assert_eq!([usual.demand.cpus["db"], usual.demand.cpus["web"]], [1.5, 1.0], "a quota is all that it can use");
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(usual.demand.talk, [(pair("db", "web"), 0.2)].into());
        let args = [
            "--form",
            "two",
            "--need",
            "db=0.5",
            "--talk",
            "web:db=0.1",
            "--talk",
            "db:web=0.4",
            "--talk",
            "web:eth0=0.3",
            "--by",
            "p99",
        ];
        let asked = asked(STUDY, &args).unwrap();
        assert_eq!((asked.form.as_str(), asked.metric.as_str()), ("two", "p99_us"));
        assert_eq!(asked.demand.cpus["db"], 0.5);
        assert_eq!(asked.demand.talk, [(pair("db", "web"), 0.4), (pair("eth0", "web"), 0.3)].into());
    }

    #[test]
    fn all_mistakes_are_reported_at_once() {
        let args = ["--form", "natve", "--need", "dbb=1", "--talk", "web:eht0=0.1", "--by", "p98", "--part", "x"];
        let said = asked(STUDY, &args).unwrap_err().to_string();
        for wanted in ["'natve'", "'dbb'", "'eht0'", "'p98'", "no part 'x'", "there are: db, web, eth0"] {
            assert!(said.contains(wanted), "{wanted} is missing in: {said}");
        }
        let said = asked(STUDY, &["--form", "native", "--form", "two"]).unwrap_err().to_string();
        assert!(said.contains("one form at a time"), "{said}");
    }

    #[test]
    fn placements_become_forms_with_the_same_layers_and_the_kernels_own_is_the_baseline() {
        let (mut study, workload) = read(STUDY);
        let args = typed(&["--top", "2", "--measure", "1s"]);
        let asked = args.asked(&study, &workload, &machine()).unwrap();
        let ranked = candidates_of(&workload, &machine());
        let best = chosen(&ranked, 2);
        assert_eq!(best.len(), 3, "{best:?}");
        derive(&mut study, &asked, &best, &args);
        let names: Vec<&str> = study.forms.iter().map(|form| form.name.as_str()).collect();
        assert!(names.contains(&"free") && study.baseline == "free", "{names:?}");
        assert_eq!((study.repeat, study.design.best_in.as_deref()), (32, Some("throughput")));
        assert!(study.forms.iter().all(|form| form.placement.is_some() && form.layers.is_empty()));
        assert_eq!(args.command(), "tare place canonical --top 2 --measure 1s");
    }

    #[test]
    fn a_ranking_fits_on_a_screen() {
        let (study, workload) = read(STUDY);
        let few = candidates_of(&workload, &machine());
        assert!(few.len() > 5, "{few:?}");
        let pinned: Vec<&Candidate> = few.iter().filter(|candidate| candidate.manner != Manner::Free).collect();
        let again = |at: usize| Candidate { name: format!("thread-{at}"), ..pinned[at % pinned.len()].clone() };
        let ranked: Vec<Candidate> = few.iter().cloned().chain((few.len()..30).map(again)).collect();
        let text = show::ranking(&study, "native", &ranked, &chosen(&ranked, 3), 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.lines().count() <= 24, "{text}");
        assert!(text.contains("* free") && text.contains("more"), "{text}");
    }
}
