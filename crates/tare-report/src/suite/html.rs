//! One self-contained page for several parts: the answer, then a panel for each thing that was weighed.

use super::AnalysedPart;
use super::reference::references;
use super::shown::{Row, ShownPart, forms, panels, published_sources, shown, warnings};
use super::words::headline;
use crate::html::{STYLE, costs, looks_beside, plain, rendered, response, safe};
use crate::quantity::quantity;
use crate::svg::{self, Bar, Group, Look};
use crate::{Style, words};
use minijinja::{Value, context};
use serde_json::json;
use std::collections::BTreeSet;
use tare_core::fault::Fault;
use tare_core::record::SuiteHeader;
use tare_stats::{MetricAnalysis, Verdict};

/// Renders the page.
pub(crate) fn render(header: &SuiteHeader, parts: &[AnalysedPart<'_>], _: &Style) -> Result<String, Fault> {
    let parts = shown(parts);
    let headline = headline(&parts);
    let forms = forms(&parts);
    let baseline = parts.first().map(|part| part.analysis.baseline.as_str()).unwrap_or_default();
    let panels: Vec<Value> = panels(&parts).iter().map(|(name, parts)| panel(name, parts, &forms)).collect();
    let machine = parts.first().map(|part| words::machine(part.record)).unwrap_or_default();
    let page = context! {
        style => safe(STYLE.to_owned() + include_str!("../../assets/suite.css")),
        title => plain(&header.study),
        study => plain(&header.study),
        question => plain(&header.question),
        headline => plain(&headline.sentence),
        rest => plain(&headline.rest),
        headlines => plain(&headline.forms),
        warnings => plain(warnings(header, &parts)),
        baseline => plain(baseline),
        machine => plain(machine),
        preset => plain(&header.preset),
        started => plain(&header.started),
        tare => plain(&header.tare),
        command => plain(&header.command),
        hatches => safe(svg::hatches()),
        panels => panels,
        parts => plain(parts.iter().map(card).collect::<Vec<_>>()),
        environment => plain(environment(&parts)),
    };
    rendered(include_str!("../../assets/suite.html"), page)
}

/// The letter that stands for an arm in drawings, so that nothing hangs on colour: its place among all arms.
fn sign(place: usize) -> String {
    char::from(b'A' + (place % 26) as u8).to_string()
}

/// A panel: its chart and its table.
fn panel(name: &str, parts: &[&ShownPart<'_>], forms: &[&str]) -> Value {
    let among = parts.len();
    let shown = || parts.iter().flat_map(|part| part.metrics.iter().map(move |metric| (*part, *metric)));
    // What a load in steps came to in all is drawn level by level instead.
    let drawn = shown().filter(|(part, metric)| metric.compared && part.analysis.response.is_none());
    let groups: Vec<Group> = drawn.map(|(part, metric)| group(part, metric, among, forms)).collect();
    let (drawing, width) = svg::groups(name, &groups);
    let sources = published_sources(parts);
    let diamonds = groups.iter().flat_map(|group| &group.bars).any(|bar| bar.published.is_some());
    let references = parts.iter().flat_map(|part| references(part).into_iter().map(move |found| (*part, found)));
    let references: Vec<Value> = references.map(|(part, found)| found.charts(part, forms)).collect();
    let responses = parts.iter().filter(|part| part.analysis.response.is_some()).map(|part| {
        let name = (among > 1).then_some(part.name);
        context! { part => plain(name), response => response(part.analysis, &looks(part, forms), &part.wanted) }
    });
    let responses: Vec<Value> = responses.collect();
    let costs = parts.iter().filter(|part| !part.analysis.costs.is_empty()).map(|part| {
        let name = (among > 1).then_some(part.name);
        context! { part => plain(name), costs => costs(part.analysis) }
    });
    let costs: Vec<Value> = costs.collect();
    let tables: Vec<_> = shown().map(|(part, metric)| table(part, metric, among, forms)).collect();
    let rows = shown().flat_map(|(part, metric)| part.rows(metric)).filter(|row| row.missing);
    let missing: BTreeSet<String> = rows.map(|row| row.verdict).collect();
    context! {
        name => plain(name),
        references => references,
        responses => responses,
        costs => costs,
        drawn => !groups.is_empty(),
        svg => safe(drawing),
        width => width.round() as u32,
        legend => plain(legend(parts, forms)),
        baseline => plain(parts.first().map(|part| &part.analysis.baseline)),
        diamonds => diamonds,
        sources => plain(&sources),
        metrics => plain(tables),
        missing_verdicts => plain(missing),
    }
}

/// How the arms of a part are drawn: by form the same in all parts.
fn looks(part: &ShownPart<'_>, forms: &[&str]) -> Vec<Look> {
    let analysis = part.analysis;
    let mut looks = looks_beside(forms, analysis);
    let nothing_real = analysis.emulated_baseline().is_some();
    looks.iter_mut().for_each(|look| look.hatched |= nothing_real);
    looks
}

/// The sign of an arm: the control comes first, then the forms.
fn sign_of(look: &Look, forms: &[&str]) -> String {
    sign(forms.iter().position(|form| *form == look.name).map_or(0, |place| place + 1))
}

fn group(part: &ShownPart<'_>, metric: &MetricAnalysis, among: usize, forms: &[&str]) -> Group {
    let looks = looks(part, forms);
    let bar = |row: &Row<'_>| {
        let look = looks.iter().find(|look| look.name == row.arm.name)?.clone();
        Some(Bar {
            sign: sign_of(&look, forms),
            look,
            ratio: row.ratio.map(|ratio| (ratio.ratio, ratio.interval)),
            why_none: row.arm.reasons.first().map_or("not measured", |reason| reason.outcome.as_str()).to_owned(),
            published: row.published.and_then(|text| text.trim().parse().ok()).filter(|ratio: &f64| *ratio > 0.0),
        })
    };
    let upper = if among > 1 { part.name.to_owned() } else { String::new() };
    Group {
        title: (upper, metric.title.clone()),
        more_is_better: metric.more_is_better,
        floor: metric.noise_floor,
        bars: part.rows(metric).iter().filter_map(bar).collect(),
    }
}

/// What the bars of a panel stand for.
fn legend(parts: &[&ShownPart<'_>], forms: &[&str]) -> Vec<serde_json::Value> {
    let mut legend: Vec<(String, serde_json::Value)> = Vec::new();
    for look in parts.iter().flat_map(|part| looks(part, forms)) {
        let baseline = parts.iter().any(|part| part.analysis.baseline == look.name);
        if baseline || legend.iter().any(|(name, _)| *name == look.name) {
            continue;
        }
        let key = json!({
            "sign": sign_of(&look, forms),
            "name": look.name,
            "class": look.class(),
            "hollow": look.hollow,
            "hatched": look.hatched,
        });
        legend.push((look.name, key));
    }
    legend.into_iter().map(|(_, key)| key).collect()
}

/// The rows of one metric: the baseline's absolute value, then every other arm.
fn table(part: &ShownPart<'_>, metric: &MetricAnalysis, among: usize, forms: &[&str]) -> serde_json::Value {
    let analysis = part.analysis;
    let looks = looks(part, forms);
    let baseline = analysis.arms.iter().find(|arm| arm.baseline);
    let why = baseline.and_then(|arm| arm.reasons.first()).map(super::shown::reason_words);
    let base = part.base(metric).map(|value| quantity(value, &metric.unit));
    let rows = part.rows(metric).into_iter().map(|row| {
        let look = looks.iter().find(|look| look.name == row.arm.name);
        let text = row.ratio.map(tare_stats::Ratio::text);
        let text = text.or_else(|| row.value.map(|value| quantity(value, &metric.unit)));
        let text = text.unwrap_or_else(|| "\u{2013}".to_owned());
        let absolute = row.ratio.is_none();
        let (figure, interval) =
            if absolute { (text.as_str(), "") } else { text.split_once(' ').unwrap_or((&text, "")) };
        let class = match row.ratio.map(|ratio| ratio.verdict) {
            Some(Verdict::Better) => "better",
            Some(Verdict::Worse) => "worse",
            Some(Verdict::Emulated) => "emulated",
            None if row.value.is_none() => "missing",
            _ => "",
        };
        json!({
            "arm": row.arm.name,
            "key": look.map(Look::class),
            "hollow": row.arm.control,
            "hatched": look.is_some_and(|look| look.hatched),
            "figure": figure,
            "interval": interval,
            "difference": row.difference,
            "class": class,
            "verdict": row.verdict,
            "unsaid": row.missing,
            "published": row.published,
        })
    });
    json!({
        "title": part.heading(metric, among),
        "better": if metric.more_is_better { "more is better" } else { "less is better" },
        "baseline": analysis.baseline,
        "base": base,
        "base_why": why.unwrap_or_else(|| "not measured".to_owned()),
        "published": part.published(metric, &analysis.baseline),
        "rows": rows.collect::<Vec<_>>(),
    })
}

/// A part: how it was measured, and where its own report is.
fn card(part: &ShownPart<'_>) -> serde_json::Value {
    let header = &part.record.header;
    json!({
        "name": part.name,
        "panel": part.panel,
        "workload": header.workload.name,
        "about": header.workload.about,
        "load": words::load(part.record),
        "design": words::design(part.record),
        "counts": part.counts(),
        "end": part.record.end.as_ref().map_or("not ended", |end| words::how_ended(&end.how)),
        "run": header.run,
        "seed": header.seed.to_string(),
        "apparatus": words::apparatus(part.record, part.analysis),
        "bits": part.analysis.bits.iter().map(|bits| format!("{}: {}", bits.service, words::same_bits(bits)))
            .collect::<Vec<_>>(),
        "resources": part.analysis.resources.iter()
            .map(|service| format!("{}: {}", service.service, words::resources(service))).collect::<Vec<_>>(),
        "warnings": crate::warnings::lines(part.analysis),
    })
}

/// The machine, once; what was not the same for all parts says so.
fn environment(parts: &[ShownPart<'_>]) -> Vec<(String, String)> {
    let Some(first) = parts.first() else { return Vec::new() };
    let fact = |(key, value): (&String, &String)| {
        let same = parts.iter().all(|part| part.record.header.environment.get(key) == Some(value));
        (key.clone(), if same { value.clone() } else { format!("{value} (part {}; others differ)", first.name) })
    };
    first.record.header.environment.iter().map(fact).collect()
}
