//! The drawings of the page, each with its title.

use super::safe;
use crate::advice;
use crate::ladder;
use crate::quantity::{digits, quantity};
use crate::svg::{self, Limits, Look};
use crate::words;
use minijinja::{Value, context};
use tare_core::load::SecondRow;
use tare_core::record::{Record, TrialData};
use tare_core::trial::Outcome;
use tare_core::units::CpuSet;
use tare_stats::{Analysis, latency_curve};

/// All of them: `forest`, `bars`, `curve`, `timelines`, `heat`.
pub(super) fn charts(record: &Record, analysis: &Analysis, looks: &[Look]) -> Value {
    let compared = || words::compared(analysis);
    let panel = |title: &str, markup: String| context! { title => title, svg => safe(markup) };
    let forest = compared().filter(|metric| !metric.ratios.is_empty());
    let forest: Vec<Value> = forest.map(|metric| panel(&metric.title, svg::forest(metric, looks))).collect();
    let bars = compared().filter(|metric| !metric.estimates.is_empty());
    let bars: Vec<Value> = bars.map(|metric| panel(&metric.title, svg::bars(metric, looks))).collect();
    context! {
        forest => forest,
        bars => bars,
        curve => curve(record, looks),
        timelines => timelines(record, analysis, looks),
        heat => heat(record, looks),
        peaks => peaks(record, analysis, looks),
        machine => machine(record),
    }
}

/// The ladder: a waterfall for each metric, and the rungs in words.
pub(super) fn ladder(analysis: &Analysis) -> Value {
    let Some(ladder) = &analysis.ladder else { return Value::UNDEFINED };
    let better = |name: &str| analysis.metrics.iter().any(|metric| metric.name == name && metric.more_is_better);
    let panel = |metric: &tare_stats::MetricRungCosts| {
        let markup = svg::waterfall(metric, &analysis.baseline, better(&metric.name));
        context! { title => metric.title.clone(), svg => safe(markup) }
    };
    let panels: Vec<Value> = ladder.metrics.iter().map(panel).collect();
    let titles: Vec<&str> = ladder.metrics.iter().map(|metric| metric.title.as_str()).collect();
    let (rows, matter) = ladder::rows(ladder, analysis);
    context! {
        to => super::plain(&ladder.to),
        panels => panels,
        titles => super::plain(titles),
        rows => super::plain(rows),
        matter => matter,
        sum => super::plain(ladder::sum(ladder, analysis)),
        orders => super::plain(ladder::orders(ladder)),
        left_out => super::plain(ladder::left_out(ladder)),
    }
}

/// What would win back what a form costs.
pub(super) fn advice(analysis: &Analysis) -> Value {
    let Some(advice) = &analysis.advice else { return Value::UNDEFINED };
    let titles: Vec<&str> = advice.metrics.iter().map(|metric| metric.title.as_str()).collect();
    let (rows, wins) = advice::rows(advice);
    context! {
        of => super::plain(&advice.of),
        titles => super::plain(titles),
        rows => super::plain(rows),
        wins => wins,
        left_out => super::plain(advice::left_out(advice)),
    }
}

/// The machine, with the CPUs that served what.
fn machine(record: &Record) -> Value {
    let Some(topology) = &record.header.topology else { return Value::UNDEFINED };
    let placement = record.header.placement.iter();
    let sets: Vec<(&String, CpuSet)> =
        placement.filter_map(|(name, cpus)| Some((name, CpuSet::parse(cpus).ok()?))).collect();
    let classes: Vec<String> = (1..=sets.len()).map(|number| format!("f{}", number % svg::COLOURS)).collect();
    let of = |((_, cpus), class): (&'_ (&String, CpuSet), &'_ String)| (cpus.clone(), class.clone());
    let colours: Vec<(CpuSet, String)> = sets.iter().zip(&classes).map(of).collect();
    let uses: Vec<svg::Use<'_>> = colours.iter().map(|(cpus, class)| svg::Use { cpus, class }).collect();
    let Some(markup) = svg::machine(topology, &uses) else { return Value::UNDEFINED };
    let key = |((name, cpus), class): (&(&String, CpuSet), &String)| {
        context! { name => (*name).clone(), cpus => cpus.to_string(), class => class.clone() }
    };
    let legend: Vec<Value> = sets.iter().zip(&classes).map(key).collect();
    let devices: Vec<Value> = crate::topology::devices(topology)
        .into_iter()
        .map(|(node, names)| context! { node => node, names => names })
        .collect();
    let rows: Vec<Value> = placed(record);
    let offline = (!topology.offline.is_empty()).then(|| topology.offline.to_string());
    context! { svg => safe(markup), legend => legend, devices => devices, offline => offline, rows => rows }
}

/// Where each service was put and seen, a row for each form.
fn placed(record: &Record) -> Vec<Value> {
    let forms = &record.header.study.forms;
    let state = |name: &str| record.header.forms.get(name).filter(|state| state.unavailable.is_none());
    let placed = forms.iter().filter_map(|form| Some((form, state(&form.name)?.placement.as_ref()?)));
    let row = |(form, service, places): (&str, &str, String)| {
        let seen = crate::placement::seen(record, form, service);
        let seen = if seen.is_empty() { "not seen".to_owned() } else { seen.to_string() };
        let each_second = |counter| crate::placement::growth(record, form, service, counter);
        let moved = each_second("migrations").map(digits);
        let waited = each_second("run_queue_wait_s").map(|waited| quantity(waited * 1e6, "us"));
        let (moved, waited) = (moved.unwrap_or_default(), waited.unwrap_or_default());
        context! { form => form, service => service, places => places, seen => seen, moved => moved, waited => waited }
    };
    let all = placed.flat_map(|(form, placement)| {
        let of = move |(service, placed): (&'_ String, &'_ _)| {
            (form.name.clone(), service.clone(), crate::placement::words(placed))
        };
        placement.services.iter().map(of).collect::<Vec<_>>()
    });
    all.map(|(form, service, places)| row((&form, &service, places))).collect()
}

/// The share of windows that kept the QoS, by load.
fn peaks(record: &Record, analysis: &Analysis, looks: &[Look]) -> Vec<Value> {
    let mut panels = Vec::new();
    for found in crate::peak::peaks(record, analysis) {
        let Some(look) = looks.iter().find(|look| look.name == found.arm.name) else { continue };
        let markup = svg::peak(look, &found.searches).unwrap_or_default();
        let warnings = found.warnings();
        panels.push(
            context! { title => look.name.clone(), note => found.words(), warnings => warnings, svg => safe(markup) },
        );
    }
    panels
}

/// The measured trials of an arm, in their order.
fn trials<'a>(record: &'a Record, arm: &str) -> Vec<&'a TrialData> {
    let measured = record.trials.iter().filter(|trial| trial.record.outcome == Outcome::Measured);
    let mut trials: Vec<&TrialData> = measured.filter(|trial| trial.record.trial.arm() == arm).collect();
    trials.sort_by_key(|trial| trial.record.trial.index);
    trials
}

fn curve(record: &Record, looks: &[Look]) -> Value {
    let mut lines = Vec::new();
    for look in looks {
        let trials = trials(record, &look.name);
        // A histogram that cannot be read has already cost the trial its figures; the curve does without it.
        let points = latency_curve(trials.iter().filter_map(|trial| trial.record.load.as_ref())).unwrap_or_default();
        if points.len() > 1 {
            lines.push((look.clone(), points));
        }
    }
    let Some(markup) = svg::curve(&lines) else { return Value::UNDEFINED };
    let key = |look: &Look| {
        let dashed = look.hollow || look.hatched;
        context! { name => look.name.clone(), class => look.class(), dashed => dashed, emulated => look.hatched }
    };
    let legend: Vec<Value> = lines.iter().map(|(look, _)| key(look)).collect();
    context! { svg => safe(markup), legend => legend }
}

fn timelines(record: &Record, analysis: &Analysis, looks: &[Look]) -> Vec<Value> {
    let throughput = analysis.metrics.iter().find(|metric| metric.name == "throughput");
    let rate_unit = throughput.map_or("op/s", |metric| &metric.unit);
    let seconds_of = |look: &Look| -> Vec<Vec<SecondRow>> {
        trials(record, &look.name).iter().map(|trial| trial.seconds.clone()).filter(|rows| !rows.is_empty()).collect()
    };
    let arms: Vec<(&Look, Vec<Vec<SecondRow>>)> = looks.iter().map(|look| (look, seconds_of(look))).collect();
    // Real forms share their scales; an emulated one has its own.
    let real = arms.iter().filter(|(look, _)| !look.hatched);
    let shared = real.fold(Limits::default(), |limits, (_, trials)| limits.including(trials));
    let drawn = arms.iter().filter(|(_, trials)| !trials.is_empty());
    let panels = drawn.map(|(look, trials)| {
        let limits = if look.hatched { Limits::default().including(trials) } else { shared };
        let count = if trials.len() == 1 { "1 trial".to_owned() } else { format!("{} trials", trials.len()) };
        let note = if look.hatched { format!("{count}; EMULATED, own scale") } else { count };
        let drawing = svg::timeline(look, trials, limits, rate_unit);
        context! { title => look.name.clone(), note => note, svg => safe(drawing) }
    });
    panels.collect()
}

/// The first measured trial of each form that has telemetry by CPU.
fn heat(record: &Record, looks: &[Look]) -> Vec<Value> {
    let mut panels = Vec::new();
    for look in looks.iter().filter(|look| !look.hollow) {
        let drawn = trials(record, &look.name).into_iter().find_map(|trial| {
            let load = trial.record.load.as_ref()?;
            let markup = svg::heat(&look.name, &trial.telemetry, load.measure_start_ns, load.measure_end_ns)?;
            Some((trial.record.trial.index, markup))
        });
        if let Some((index, markup)) = drawn {
            let note = if look.hatched { format!("trial {index}; EMULATED") } else { format!("trial {index}") };
            panels.push(context! { title => look.name.clone(), note => note, svg => safe(markup) });
        }
    }
    panels
}
