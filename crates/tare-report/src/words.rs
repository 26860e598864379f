//! Sentences that several formats say.

use crate::qos;
use crate::quantity::{difference_text, plain_quantity};
use crate::verdict::{VerdictWords, Way, ratio_figure};
use std::collections::BTreeSet;
use tare_core::design::Arrangement;
use tare_core::fault::Fault;
use tare_core::load::LoadOrigin;
use tare_core::plan::rounds_after;
use tare_core::record::{End, FITTED, ON_REQUEST, Record};
use tare_core::units::{exact_duration, grouped};
use tare_stats::{
    Analysis, AtSpeed, BitsDifference, Follows, Method, MetricAnalysis, Nested, QosKept, Ratio, Reason, ServiceBits,
    absolute_difference, percent_at_most, percent_text,
};

/// The load in words: `closed load: 50 connections, pipeline 1, from outside`.
pub(crate) fn load(record: &Record) -> String {
    let from = match record.header.study.from {
        LoadOrigin::Outside => "from outside",
        LoadOrigin::Host => "from the host's loopback",
        LoadOrigin::Inside => "from inside the form, by a tool on the service's CPUs",
    };
    format!("{}, {from}", record.header.study.load.describe())
}

/// The design in words: `5 blocks, 10 s measured after 1 s of settling`.
pub(crate) fn design(record: &Record) -> String {
    let study = &record.header.study;
    let by_itself = study.design.ends_by_itself();
    let blocks = how_many(record);
    if let Some(plan) = &study.peak {
        let qos = study.qos.as_ref().map(tare_core::qos::Qos::describe).unwrap_or_default();
        let window = exact_duration(plan.window);
        return format!("{blocks}, each trial a search for the greatest load that keeps {qos}, in windows of {window}");
    }
    let (measure, settle) = (exact_duration(study.measure), exact_duration(study.settle));
    let text = format!("{blocks}, {measure} measured after {settle} of settling");
    let settled = study.design.steady_within.map(|within| format!(" until steady, at most {}", exact_duration(within)));
    let text = text + &settled.unwrap_or_default();
    if study.design.arrangement == Arrangement::Blocks && !by_itself {
        return text;
    }
    let by_aim = |end: &End| end.is_early() && end.how != FITTED && end.how != ON_REQUEST;
    let reached = by_itself && record.end.as_ref().is_some_and(by_aim);
    format!("{text}; {}{}", study.design.describe(), if reached { " (reached)" } else { "" })
}

/// The blocks in words: `5 blocks`, `at most 40 blocks`, `4 blocks of 5, as many as 5m allow`, `4 blocks of 5, ended on
/// request`.
fn how_many(record: &Record) -> String {
    let study = &record.header.study;
    let short = match (record.end.as_ref().map_or("", |end| end.how.as_str()), study.at_most) {
        (FITTED, Some(most)) => Some(format!("as many as {} allow", exact_duration(most))),
        (ON_REQUEST, _) => Some("ended on request".to_owned()),
        _ => None,
    };
    if let Some(why) = short {
        let there = record.trials.iter().map(|trial| &trial.record.trial).filter(|trial| trial.again.is_none());
        let last = there.map(|trial| trial.block).max().unwrap_or_default();
        let rounds = rounds_after(&record.header.plan, study, last);
        let blocks = if rounds == 1 { "1 block" } else { &format!("{rounds} blocks") };
        let of = if study.design.ends_by_itself() { String::new() } else { format!(" of {}", study.repeat) };
        return format!("{blocks}{of}, {why}");
    }
    match study.repeat {
        1 => "1 block".to_owned(),
        blocks if study.design.ends_by_itself() => format!("at most {blocks} blocks"),
        blocks => format!("{blocks} blocks"),
    }
}

/// How a run ended, as readers are told; a record has the word that programs know.
pub fn how_ended(how: &str) -> &str {
    if how == FITTED { "time limit reached" } else { how }
}

/// The machine in a line.
pub(crate) fn machine(record: &Record) -> String {
    let facts = &record.header.environment;
    let fact = |key: &str| facts.get(key).cloned();
    let parts = [
        fact("cpu.model"),
        fact("cpu.logical").map(|n| if n == "1" { "1 CPU".to_owned() } else { format!("{n} CPUs") }),
        fact("memory.total"),
        fact("kernel").map(|kernel| format!("Linux {kernel}")),
    ];
    let line = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    if line.is_empty() { "machine unknown".to_owned() } else { line }
}

/// The ratio of `arm` in the metric called `name`.
pub(crate) fn ratio<'a>(analysis: &'a Analysis, name: &str, arm: &str) -> Option<&'a Ratio> {
    let metric = analysis.metrics.iter().find(|metric| metric.name == name)?;
    metric.ratios.iter().find(|ratio| ratio.arm == arm)
}

/// How much longer a time of `arm` is than the baseline's: `+9.3 us [8.1, 10.4]`; none of what is no time,
/// and none of an emulated form, whose microseconds say nothing.
pub(crate) fn difference(analysis: &Analysis, metric: &MetricAnalysis, arm: &str) -> Option<String> {
    let emulated = analysis.arms.iter().any(|candidate| candidate.name == arm && analysis.emulated(candidate));
    if !["us", "ms", "s"].contains(&metric.unit.as_str()) || emulated {
        return None;
    }
    let difference = absolute_difference(metric, &analysis.baseline, arm)?;
    let sign = metric.bound(arm, &analysis.baseline).map_or("", |bound| bound.side.sign());
    Some(format!("{sign}{}", difference_text(&difference, &metric.unit)))
}

/// What an arm came to, not compared with anything: `98,500 op/s`.
pub(crate) fn level(metric: &MetricAnalysis, arm: &str) -> String {
    let estimate = metric.estimates.iter().find(|estimate| estimate.arm == arm);
    let value = estimate.map(|estimate| estimate.geometric_mean.unwrap_or(estimate.mean));
    let sign = if estimate.is_some_and(|estimate| !estimate.at_least.is_empty()) { ">=" } else { "" };
    value.map_or_else(|| "-".to_owned(), |value| format!("{sign}{}", plain_quantity(value, &metric.unit)))
}

/// The metrics that ratios are made of.
pub(crate) fn compared(analysis: &Analysis) -> impl Iterator<Item = &MetricAnalysis> {
    analysis.metrics.iter().filter(|metric| metric.compared)
}

/// How the intervals were made: each method, with the metrics it holds for.
pub(crate) fn methods(analysis: &Analysis) -> Vec<(String, Vec<&str>)> {
    let mut methods: Vec<(String, Vec<&str>)> = Vec::new();
    for metric in compared(analysis) {
        let text = method(metric);
        match methods.iter_mut().find(|(known, _)| *known == text) {
            Some((_, metrics)) => metrics.push(&metric.title),
            None => methods.push((text, vec![&metric.title])),
        }
    }
    methods
}

/// How a metric's intervals were made, and what they are checked by.
fn method(metric: &MetricAnalysis) -> String {
    let method = match metric.method {
        Method::OwnError => {
            "paired within blocks on the log scale; each form's own error (Student's t), 95 % for all forms together (Sidak)"
        }
        Method::None => "no intervals: fewer than 3 blocks with both forms",
    };
    match metric.nested {
        Nested::Whole => method.to_owned(),
        Nested::Windows => format!("{method}; checked by the 20 % trimmed mean of each trial's 15 s windows"),
        Nested::Slices => format!(
            "{method}; checked by the 20 % trimmed mean of each trial's slices, each relative to its round's mean"
        ),
        Nested::Turns => format!(
            "{method}; checked by the 20 % trimmed mean of up to eight parts of each trial's turns, each relative to its \
             round's mean"
        ),
    }
}

/// What a form costs, or why that is not known, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Headline {
    /// The throughput, or what the load is about instead, in a sentence.
    pub(crate) sentence: String,
    /// What else is certain, in another; empty if nothing is.
    pub(crate) rest: String,
}

impl Headline {
    /// Both in one line.
    pub(crate) fn line(&self) -> String {
        format!("{} {}", self.sentence, self.rest).trim_end().to_owned()
    }
}

/// Verdicts of an arm over all compared metrics; equal ones said once.
pub(crate) fn verdicts(analysis: &Analysis, arm: &str) -> String {
    let mut said: Vec<(String, VerdictWords, Vec<&str>)> = Vec::new();
    for metric in compared(analysis) {
        let Some(ratio) = metric.ratios.iter().find(|ratio| ratio.arm == arm) else { continue };
        let verdict = VerdictWords::of(analysis, metric, ratio);
        // The figures stand in the row above.
        let words = if verdict.is_certain() { verdict.beside_figures() } else { verdict.whole() };
        match said.iter_mut().find(|(text, ..)| *text == words) {
            Some((.., metrics)) => metrics.push(&metric.title),
            None => said.push((words, verdict, vec![&metric.title])),
        }
    }
    let one = said.len() == 1 && compared(analysis).count() > 1;
    let parts = said.iter().map(|(words, verdict, metrics)| {
        let metrics = metrics.join(", ");
        match verdict.way() {
            _ if one => words.clone(),
            Some(Way::Rate) => words.clone(),
            Some(Way::Time) => format!("{metrics} {words}"),
            Some(Way::Cost { more }) => {
                format!("{metrics} {}{}", if more { "more" } else { "less" }, verdict.negligible())
            }
            _ => format!("{metrics}: {words}"),
        }
    });
    parts.collect::<Vec<_>>().join("; ")
}

/// Why trials were not measured, and what to do about it: `2 x FAILED in deploy: no space`.
pub(crate) fn outcome(reason: &Reason) -> String {
    let stage = reason.stage.map(|stage| format!(" in {stage}")).unwrap_or_default();
    let trials = if reason.trials.len() > 1 { format!("{} x ", reason.trials.len()) } else { String::new() };
    format!("{trials}{}{stage}: {}", reason.outcome.to_uppercase(), fault_text(&reason.why))
}

/// What went wrong and what to do about it.
pub(crate) fn fault_text(why: &Fault) -> String {
    if why.remedy.is_empty() { why.message.clone() } else { format!("{}. To do: {}", why.message, why.remedy) }
}

/// How a form's trials kept the QoS: "QoS kept in 5 of 5 trials".
pub(crate) fn qos(kept: &QosKept) -> String {
    let broken = kept.broken.as_ref().map(|what| format!("; broken: {}", qos::broken(what))).unwrap_or_default();
    format!("QoS kept in {} of {} trials{broken}", kept.kept, kept.of)
}

/// Whether the bits were the same, in a line.
pub(crate) fn same_bits(bits: &ServiceBits) -> String {
    if bits.read.is_empty() {
        return "not readable in any form".to_owned();
    }
    let unread =
        if bits.unread.is_empty() { String::new() } else { format!("; not readable in {}", bits.unread.join(", ")) };
    if let Some(digest) = &bits.digest {
        let forms = if bits.read.len() == 1 { "1 form".to_owned() } else { format!("{} forms", bits.read.len()) };
        let bundle = match bits.bundle_files {
            Some(files) => format!(", {files} files of its bundle seen unchanged"),
            None => String::new(),
        };
        return format!("yes ({}), {} files mapped in {forms}{bundle}{unread}", short_digest(digest), bits.files);
    }
    let (bundle, forms): (Vec<_>, Vec<_>) = bits.differences.iter().partition(|found| found.is_from_the_bundle());
    let named = |found: &[&BitsDifference], unnamed: u64, how: &str| {
        let paths: Vec<&str> = found.iter().take(3).map(|difference| difference.path.as_str()).collect();
        let more = found.len().saturating_sub(3) as u64 + unnamed;
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        (!paths.is_empty()).then(|| format!("{}{more} {how}", paths.join(", ")))
    };
    let seen_in: BTreeSet<&str> = bundle.iter().flat_map(|found| found.by_form.keys().map(String::as_str)).collect();
    let seen_in: Vec<&str> = seen_in.into_iter().collect();
    let bundle = named(&bundle, bits.unnamed, &format!("not as in the bundle in {}", seen_in.join(", ")));
    let all: Vec<String> = named(&forms, 0, "differ between forms").into_iter().chain(bundle).collect();
    format!("NO: {}{unread}", all.join("; "))
}

/// `sha256:5c1f0f3b8a6d` of a full digest.
pub(crate) fn short_digest(digest: &str) -> String {
    let (kind, hex) = digest.split_once(':').unwrap_or(("", digest));
    let short: String = hex.chars().take(12).collect();
    if kind.is_empty() { short } else { format!("{kind}:{short}") }
}

/// What matched of the resources of a service, in a line.
pub(crate) fn resources(service: &tare_stats::ServiceResources) -> String {
    use tare_stats::Sameness;
    let (mut equal, mut unequal, mut asked) = (0, Vec::new(), Vec::new());
    for row in service.rows.iter().filter(|row| row.matters) {
        let cells = || row.cells.iter().zip(&service.forms);
        let those = |sameness: Sameness| -> Vec<&str> {
            cells().filter(|(cell, _)| cell.sameness == sameness).map(|(_, form)| form.as_str()).collect()
        };
        let differing = those(Sameness::Differs);
        let wanted = those(Sameness::Asked);
        if !wanted.is_empty() {
            asked.push(format!("{} (in {})", row.property, wanted.join(", ")));
        }
        if !differing.is_empty() {
            unequal.push(format!("{} (in {})", row.property, differing.join(", ")));
        } else if cells().all(|(cell, _)| cell.sameness == Sameness::Matches) {
            equal += 1;
        }
    }
    let total = service.rows.iter().filter(|row| row.matters).count();
    let differ = if unequal.is_empty() { String::new() } else { format!("; different: {}", unequal.join(", ")) };
    let asked = if asked.is_empty() { String::new() } else { format!("; set by the study: {}", asked.join(", ")) };
    format!("{equal} of {total} relevant properties match in {} forms{differ}{asked}", service.forms.len())
}

/// What the apparatus itself used, in a line.
pub(crate) fn apparatus(record: &Record, analysis: &Analysis) -> String {
    let apparatus = &analysis.apparatus;
    let mut parts = Vec::new();
    let own = apparatus.null_cpu_us_per_op.map(|us| plain_quantity(us, "us"));
    if let Some(us) = apparatus.generator_cpu_us_per_op {
        let own = own.map(|own| format!(", {own} of it for bookkeeping"));
        let us = plain_quantity(us, "us");
        parts.push(format!("generator {us} CPU per op{}", own.unwrap_or_default()));
    } else if let Some(own) = own {
        // A search for the peak has no figure of its own to compare it with.
        parts.push(format!("generator {own} CPU per op for bookkeeping"));
    }
    if let Some(share) = apparatus.generator_busy_max {
        parts.push(format!("at most {} busy", percent_text(share)));
    }
    parts.extend(crate::ceiling::shares(analysis));
    if let Some(share) = apparatus.probe_share_max {
        let guests = apparatus.guest_probe_share_max.map(|share| format!(", in guests {}", percent_text(share)));
        parts.push(format!("probe at most {} of a CPU{}", percent_text(share), guests.unwrap_or_default()));
    }
    parts.extend(crate::probe_cost::cost(record, analysis));
    parts.push(format!("dropped {}", grouped(apparatus.dropped as f64)));
    parts.push(format!("failed operations {}", grouped(apparatus.errors as f64)));
    parts.join(", ")
}

/// `asked for 1.0 %, reached 1.6 % in throughput of container`, and what keeps it from being less.
pub(crate) fn missed_aim(analysis: &Analysis) -> Option<String> {
    let aim = analysis.missed_aim.as_ref()?;
    let (asked, of) = (percent_text(aim.asked), format!("{} of {}", aim.metric, aim.arm));
    let Some(reached) = aim.reached else { return Some(format!("asked for {asked}, but {of} has no interval yet")) };
    let said = format!("asked for {asked}, reached {} in {of}", percent_at_most(reached));
    let metric = analysis.metrics.iter().find(|metric| metric.title == aim.metric);
    let ratio = metric.and_then(|metric| metric.ratios.iter().find(|ratio| ratio.arm == aim.arm));
    let follows = ratio.and_then(|ratio| follows(analysis, ratio));
    Some(
        follows.map_or_else(|| said.clone(), |follows| format!("{said}, which follows the machine's speed: {follows}")),
    )
}

/// From so many fresh deployments of a form on, its interval is taken to hold for further ones.
const DEPLOYMENTS: usize = 6;

/// `deployments: 4 of each form, so results hold for these only; ...`, where intervals rest on fewer than enough.
pub(crate) fn these_deployments(analysis: &Analysis) -> Option<String> {
    let ratios = analysis.metrics.iter().filter(|metric| metric.compared).flat_map(|metric| &metric.ratios);
    let fewest = ratios.filter(|ratio| ratio.interval.is_some()).map(|ratio| ratio.blocks.len()).min()?;
    let text = format!(
        "deployments: {fewest} of each form, so results hold for these only; from {DEPLOYMENTS} on they are taken to \
         hold for further ones"
    );
    (fewest < DEPLOYMENTS).then_some(text)
}

/// `1.48 where native (A/A) had 114,000 op/s, 1.57 where it had 134,000 op/s`, of a ratio that is so.
pub(crate) fn follows(analysis: &Analysis, ratio: &Ratio) -> Option<String> {
    let Follows { slow, fast } = ratio.follows?;
    let throughput = analysis.metrics.iter().find(|metric| metric.name == "throughput")?;
    let at = |speed: AtSpeed| plain_quantity(speed.throughput, &throughput.unit);
    let [of_slow, of_fast] = [slow, fast].map(|speed| ratio_figure(None, speed.ratio, None));
    Some(format!("{of_slow} where {} had {}, {of_fast} where it had {}", analysis.control, at(slow), at(fast)))
}

/// The A/A control in a line: its ratio to the baseline, and the noise floor.
pub(crate) fn control(metric: &MetricAnalysis, control: &str) -> Option<String> {
    let ratio = metric.ratios.iter().find(|ratio| ratio.arm == control)?;
    let floor = metric.noise_floor.map(|floor| format!(", floor {}", percent_at_most(floor))).unwrap_or_default();
    let differs = if metric.control_differs { " DIFFERS" } else { "" };
    Some(format!("{} {}{floor}{differs}", metric.title, ratio.text()))
}
