//! A study: the question asked, with factors and their levels, repetitions, the load, and the forms to compare.

mod combination;
mod deployment;
mod forms;
mod overlay;
mod profiled;
mod published;
mod round;
mod ruler;
mod rungs;
mod services;
mod suite;
mod variants;

pub use combination::Conflict;
pub use published::{Published, PublishedValues};
pub(crate) use round::Arm;
pub use ruler::{RULER, check as check_ruler};
pub use suite::{FindWorkload, Part, Suite};

use crate::advice::Advice;
use crate::catalog::Catalog;
use crate::config::{Fields, Node, Place, Problems};
use crate::design::{Arrangement, Chosen, Design, Idle, Until, read_arrangement, read_margin};
use crate::form::Form;
use crate::instances::Instances;
use crate::ladder::Ladder;
use crate::load::{LoadOrigin, LoadProfile, SpokenNames};
use crate::parameters::{self, Parameters};
use crate::peak::PeakPlan;
use crate::placement::{ReservedCpus, Rules};
use crate::profile::Profiled;
use crate::protocol::ProtocolFacts;
use crate::qos::Qos;
use crate::telemetry::RESTS_FROM;
use crate::workload::Workload;
use deployment::{read_instances, read_placement};
use forms::{read_baseline, read_forms};
use serde::{Deserialize, Serialize};
use services::{override_resources, read_options};
use std::collections::BTreeMap;
use std::time::Duration;

/// The JSON Schema (draft 2020-12) of study files, without the layers, which [`Catalog`] knows.
pub const FILE_SCHEMA: &str = include_str!("../assets/study.schema.json");

/// A study, read from a file and checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Study {
    /// Its name.
    pub name: String,
    /// The question, in words.
    pub question: String,
    /// The workload's name.
    pub workload: String,
    /// The form that the others are compared with.
    pub baseline: String,
    /// The number of blocks; with [`Design::half_width`], the most there may be.
    pub repeat: u32,
    /// How the trials are arranged, and when enough have been run.
    #[serde(default)]
    pub design: Design,
    /// Apart from the first, no round of blocks begins that would end later than this after the start. The time between
    /// an interruption and the resumption does not count.
    pub at_most: Option<Duration>,
    /// Where the load comes from.
    pub from: LoadOrigin,
    /// How operations are started.
    pub load: LoadProfile,
    /// The QoS that a trial must keep, if the study or its workload asks for one.
    #[serde(default)]
    pub qos: Option<Qos>,
    /// How to search for the greatest load that keeps the QoS; the search then guides `load`.
    #[serde(default)]
    pub peak: Option<PeakPlan>,
    /// How long load runs before it counts.
    pub settle: Duration,
    /// How long the measurement takes.
    pub measure: Duration,
    /// How long one operation may take before it counts as timed out.
    pub timeout: Duration,
    /// The number of blocks that an emulated form takes part in; its figures only show correctness.
    pub emulated_blocks: u32,
    /// The forms, in the order of the file.
    pub forms: Vec<Form>,
    /// The weight of a ruler that is measured beside the forms: the baseline, making this share more operations than
    /// count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ruler: Option<f64>,
    /// The ladder whose rungs the forms are, if the study asks which part of a form costs what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ladder: Option<Ladder>,
    /// What the forms are variants of, if the study asks what could win back a form's cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<Advice>,
    /// Which forms are profiled, in trials that never count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profiled>,
    /// The rules by which services get their CPUs, for forms that have none of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Rules>,
    /// The part of the machine that services do not get.
    #[serde(default)]
    pub kept: ReservedCpus,
    /// How many instances of services are deployed, unless a form says otherwise.
    #[serde(default, skip_serializing_if = "Instances::is_empty")]
    pub instances: Instances,
    /// Levels chosen for service options, unless a form says otherwise.
    pub options: BTreeMap<String, String>,
    /// Values chosen for parameters of the workload.
    #[serde(default, skip_serializing_if = "Parameters::is_empty")]
    pub parameters: Parameters,
    /// Seed of every random choice; drawn when the study starts if the file names none.
    pub seed: Option<u64>,
    /// Which part of a study of several parts this is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
}

/// How many blocks a study has by default.
const USUAL_BLOCKS: u32 = 5;

impl Study {
    /// Whether samplers rest now and then while `loads` deployments are measured together, so that the report can say
    /// what they cost: if throughput shows it, because the load waits for answers and stays at one level, and there is
    /// enough time ([`RESTS_FROM`]).
    pub fn samplers_rest(&self, loads: u32) -> bool {
        let closed = matches!(self.load, LoadProfile::Closed { .. }) && self.from != LoadOrigin::Inside;
        let time = match &self.design.arrangement {
            Arrangement::Blocks => self.measure,
            Arrangement::Chop(chop) if chop.pieces.is_none() => self.measure * loads,
            Arrangement::Chop(_) | Arrangement::Alternate(_) | Arrangement::Duet => return false,
        };
        closed && self.peak.is_none() && time >= RESTS_FROM
    }

    /// A study with defaults for everything else: the first form is the baseline, load comes from outside, and there
    /// are five blocks of trials that settle for three seconds and measure for ten. Without forms it has no baseline.
    pub fn of(name: &str, workload: &str, load: LoadProfile, forms: Vec<Form>) -> Study {
        let times = Times::default();
        Study {
            name: name.to_owned(),
            question: String::new(),
            workload: workload.to_owned(),
            baseline: forms.first().map(|form| form.name.clone()).unwrap_or_default(),
            repeat: USUAL_BLOCKS,
            design: Design::default(),
            at_most: None,
            from: LoadOrigin::Outside,
            load,
            qos: None,
            peak: None,
            settle: times.settle,
            measure: times.measure,
            timeout: times.timeout,
            emulated_blocks: 1,
            forms,
            ruler: None,
            ladder: None,
            advice: None,
            profile: None,
            placement: None,
            kept: ReservedCpus::default(),
            instances: Instances::default(),
            options: BTreeMap::new(),
            parameters: Parameters::new(),
            seed: None,
            part: None,
        }
    }

    /// Reads a study of one workload. `None` when anything is wrong; then at least one problem was added.
    ///
    /// `find_workload` gets the workload's name, its place in the file and the parameters chosen for it; it returns the
    /// workload or adds problems.
    pub fn read(
        text: &str,
        catalog: &dyn Catalog,
        problems: &mut Problems,
        find_workload: &mut FindWorkload<'_>,
    ) -> Option<(Study, Workload)> {
        let suite = Suite::read(text, None, catalog, problems, find_workload)?;
        if suite.is_divided() {
            let place = Place { line: 1, column: 1, width: 1 };
            problems.add(place, "expected a study of one workload, but this one has parts", "");
            return None;
        }
        suite.parts.into_iter().next()
    }

    /// Reads a study, or a part of one merged with the fields of the whole.
    fn read_node(
        root: &Node,
        part: Option<Part>,
        catalog: &dyn Catalog,
        problems: &mut Problems,
        find_workload: &mut FindWorkload<'_>,
    ) -> Option<(Study, Workload)> {
        let before = problems.len();
        let mut fields = Fields::of(root, "the study", problems)?;
        let name = read_name(&mut fields, problems);
        let name = name.map(|name| part.as_ref().map_or(name.clone(), |part| format!("{name}.{}", part.name)));
        let parameters_node = fields.get("parameters");
        let chosen = parameters_node.map(|node| parameters::read(node, "parameters", problems)).unwrap_or_default();
        let workload_node = fields.require("workload", problems);
        let workload_name = workload_node.and_then(|node| node.text(problems));
        let workload = match (&workload_name, workload_node) {
            (Some(name), Some(node)) => find_workload(name, node.place, &chosen, problems),
            _ => None,
        };
        if let (Some(workload), Some(node)) = (&workload, parameters_node) {
            workload.refuse_unknown_parameters(node, problems);
        }
        let read = Self::read_fields(&mut fields, name, workload_name, workload, catalog, problems);
        // Already read for the whole file, but allowed here as well.
        let apart: &[&str] = if part.is_some() { &["panel", "shows", "published"] } else { &["parts", "presets"] };
        for name in apart {
            fields.get(name);
        }
        if let Some((study, workload)) = &read {
            for conflict in study.conflicts(workload, catalog) {
                let place = fields.get(conflict.field).map_or(root.place, |node| node.place);
                problems.add(place, conflict.message, conflict.hint);
            }
        }
        fields.finish(problems);
        let (mut study, workload) = read.filter(|_| problems.len() == before)?;
        study.set_apart(&workload, catalog);
        (study.parameters, study.part) = (chosen, part);
        Some((study, workload))
    }

    /// Reads everything but the names. `None` when something is missing; what is merely wrong is reported as a problem.
    fn read_fields(
        fields: &mut Fields,
        name: Option<String>,
        workload_name: Option<String>,
        mut workload: Option<Workload>,
        catalog: &dyn Catalog,
        problems: &mut Problems,
    ) -> Option<(Study, Workload)> {
        let question = fields.text("question", problems).unwrap_or_default();
        let (repeat, at_most, half_width) = read_length(fields, problems);
        let design = fields.get("design");
        let chosen = if design.is_some() { Chosen::Asked } else { Chosen::Usual };
        let arrangement = design.and_then(|node| read_arrangement(node, problems)).unwrap_or_default();
        let margin = read_margin(fields, problems);
        let ruler = fields.get("ruler").and_then(|node| ruler::read(node, problems));
        let origin = read_origin(fields, workload.as_ref(), catalog, problems);
        let names = workload.as_ref().map(|workload| names(workload, catalog)).unwrap_or_default();
        let sets = workload.as_ref().map(|workload| &workload.qos_sets);
        let qos = fields.get("qos").map(|node| Qos::read_named(node, sets, &names.operations, problems));
        let qos = qos.unwrap_or_else(|| workload.as_ref().and_then(|workload| workload.qos.clone()));
        let load = fields.require("load", problems);
        let load = load.and_then(|node| read_load(node, &names, qos.as_ref(), problems));
        let (load, peak) = load.map_or((None, None), |(load, peak)| (Some(load), peak));
        let times = read_times(fields, load.as_ref(), peak.as_ref(), problems);
        let emulated_blocks = fields.integer("emulated_blocks", 0..=10_000, problems);
        let resources = fields.get("resources");
        if let Some(workload) = &mut workload {
            override_resources(resources, workload, problems);
        }
        let workload = workload.as_ref();
        let forms = fields.require("forms", problems).map(|node| read_forms(node, workload, catalog, problems));
        let forms = forms.unwrap_or_default();
        let baseline = read_baseline(fields, &forms, problems);
        let instances = read_instances(fields, &forms, workload, problems);
        let (placement, kept) = read_placement(fields, &forms, &instances, workload, problems);
        let seed = fields.integer("seed", 0..=u64::MAX, problems);
        let options = read_options(fields.get("options"), workload, problems);
        let usual = Study::of(&name?, &workload_name?, load?, forms);
        let mut study = Study {
            question,
            baseline: baseline?,
            repeat,
            design: Design {
                arrangement,
                chosen,
                half_width,
                steady_within: times.steady_within,
                margin: Some(margin),
                best_in: None,
                idle: Idle::read(fields, problems),
            },
            at_most,
            from: origin,
            qos,
            peak,
            settle: times.settle,
            measure: times.measure,
            timeout: times.timeout,
            emulated_blocks: emulated_blocks.map_or(usual.emulated_blocks, |blocks| blocks as u32),
            ruler,
            placement,
            kept,
            instances,
            options,
            seed,
            ..usual
        };
        let workload = workload?;
        derive(&mut study, workload, fields, catalog, problems);
        study.arrange(workload, catalog);
        Some((study, workload.clone()))
    }
}

/// Turns the study into one of rungs or of variants, if its file asks for that.
fn derive(study: &mut Study, workload: &Workload, fields: &mut Fields, catalog: &dyn Catalog, problems: &mut Problems) {
    if let Some(node) = fields.get("ladder")
        && let Some(to) = node.text(problems)
        && let Err((message, hint)) = study.climb(&to, catalog)
    {
        problems.add(node.place, message, hint);
    }
    if let Some(node) = fields.get("advise")
        && let Some(of) = node.text(problems)
        && let Err((message, hint)) = study.advise(&of, &[], workload, catalog)
    {
        problems.add(node.place, message, hint);
    }
    study.profile = fields.get("profile").and_then(|node| Profiled::read(node, &study.forms, problems));
}

/// Where the load comes from. A workload whose tool runs inside the form leaves no choice.
fn read_origin(
    fields: &mut Fields,
    workload: Option<&Workload>,
    catalog: &dyn Catalog,
    problems: &mut Problems,
) -> LoadOrigin {
    let node = fields.get("from");
    let inside = workload.filter(|workload| workload.protocol.facts(catalog).runs_inside);
    if let Some(workload) = inside {
        if let Some(node) = node {
            let name = &workload.name;
            let message = format!("the tool of workload '{name}' runs inside the form: its load comes from there");
            problems.add(node.place, message, "omit 'from', or let the workload run its tool beside the form");
        }
        return LoadOrigin::Inside;
    }
    match node.and_then(|node| node.choice(&["outside", "host"], problems)) {
        Some("host") => LoadOrigin::Host,
        _ => LoadOrigin::Outside,
    }
}

/// The times of a trial. Steps and searches have their own.
fn read_times(
    fields: &mut Fields,
    load: Option<&LoadProfile>,
    peak: Option<&PeakPlan>,
    problems: &mut Problems,
) -> Times {
    let mut times = fields.get("time").and_then(|node| Times::read(node, problems)).unwrap_or_default();
    if let Some(span) = load.and_then(LoadProfile::span).or_else(|| peak.map(PeakPlan::expected)) {
        (times.settle, times.measure) = (Duration::ZERO, span);
    }
    times
}

/// The number of blocks, how long the run may take, and the precision at which it ends.
fn read_length(fields: &mut Fields, problems: &mut Problems) -> (u32, Option<Duration>, Option<f64>) {
    let repeat_place = fields.get("repeat").map(|node| node.place);
    let repeat = fields.integer("repeat", 1..=10_000, problems).map_or(USUAL_BLOCKS, |blocks| blocks as u32);
    let at_most = fields.duration("at_most", problems);
    let Some(node) = fields.get("until") else { return (repeat, at_most, None) };
    let Some(until) = Until::read(node, problems) else { return (repeat, at_most, None) };
    if let Some(place) = repeat_place {
        let message = "a study has either 'repeat' or 'until'";
        problems.add(place, message, "write the largest number of blocks as 'blocks' of 'until'");
    }
    if at_most.is_some() && until.at_most.is_some() {
        problems.add(node.place, "'at_most' is both here and in 'until'", "write it once");
    }
    (until.blocks, until.at_most.or(at_most), Some(until.half_width))
}

/// The profile, and the plan of the search if a search guides it.
fn read_load(
    node: &Node,
    names: &SpokenNames,
    qos: Option<&Qos>,
    problems: &mut Problems,
) -> Option<(LoadProfile, Option<PeakPlan>)> {
    match node.kind("load", &mut Problems::default()) {
        Some(("peak", place, value)) => {
            let (plan, profile) = PeakPlan::read(value, place, names, qos, problems)?;
            Some((profile, Some(plan)))
        }
        _ => LoadProfile::read(node, names, problems).map(|profile| (profile, None)),
    }
}

/// Everything that the load of a workload names.
fn names(workload: &Workload, catalog: &dyn Catalog) -> SpokenNames {
    let ProtocolFacts { operations, variables, .. } = workload.protocol.facts(catalog);
    SpokenNames { operations, variables, behaviours: workload.protocol.behaviours.clone() }
}

struct Times {
    settle: Duration,
    steady_within: Option<Duration>,
    measure: Duration,
    timeout: Duration,
}

impl Default for Times {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Times { settle: seconds(3), steady_within: None, measure: seconds(10), timeout: seconds(10) }
    }
}

impl Times {
    fn read(node: &Node, problems: &mut Problems) -> Option<Times> {
        let mut fields = Fields::of(node, "time", problems)?;
        let default = Times::default();
        let (settle, steady_within) = match fields.get("settle") {
            Some(node) => read_settle(node, problems).unwrap_or((default.settle, None)),
            None => (default.settle, None),
        };
        let measure_place = fields.get("measure").map_or(node.place, |node| node.place);
        let measure = fields.duration("measure", problems).unwrap_or(default.measure);
        let timeout = fields.duration("timeout", problems).unwrap_or(default.timeout);
        fields.finish(problems);
        if measure < Duration::from_secs(1) {
            problems.add(measure_place, "measuring takes at least a second", "write for example 10s");
        }
        Some(Times { settle, steady_within, measure, timeout })
    }
}

/// Reads `settle: 3s` or `settle: {until: steady, at_least: 3s, at_most: 60s}`: the minimum, and the maximum if the
/// time is open-ended.
fn read_settle(node: &Node, problems: &mut Problems) -> Option<(Duration, Option<Duration>)> {
    if node.text(&mut Problems::default()).is_some() {
        return node.duration(problems).map(|settle| (settle, None));
    }
    let mut fields = Fields::of(node, "settle", problems)?;
    let place = fields.place();
    fields.require("until", problems).and_then(|node| node.choice(&["steady"], problems));
    let at_least = fields.duration("at_least", problems).unwrap_or(Times::default().settle);
    let at_most = fields.duration("at_most", problems).unwrap_or(Duration::from_secs(60));
    fields.finish(problems);
    if at_most < at_least {
        problems.add(place, "'at_most' of settling is less than 'at_least'", "raise 'at_most', or lower 'at_least'");
    }
    Some((at_least, Some(at_most)))
}

/// The study's name as written in its file, for code that refers to it before it is checked.
fn find_name(entries: &[(String, Place, Node)]) -> String {
    let node = entries.iter().find(|(key, ..)| key == "study").map(|(.., node)| node);
    node.and_then(|node| node.text(&mut Problems::default())).unwrap_or_default()
}

/// The study's name is part of the names of its records' folders.
fn read_name(fields: &mut Fields, problems: &mut Problems) -> Option<String> {
    let node = fields.require("study", problems)?;
    let name = node.text(problems)?;
    let fits = |c: char| c.is_ascii_alphanumeric() || "+-_.".contains(c);
    if name.is_empty() || name.len() > 60 || name.starts_with('.') || !name.chars().all(fits) {
        let message = format!("'{name}' cannot name a study, because its records are named after it");
        problems.add(node.place, message, "use letters, digits, '+', '-', '_' and '.', but not '.' first");
        return None;
    }
    Some(name)
}

#[cfg(test)]
mod extremes;
#[cfg(test)]
pub(crate) mod tests;
