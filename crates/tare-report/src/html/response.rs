//! The levels of a load in steps, for the pages: charts, a table with the same figures, and what must be known of them.

use super::{plain, safe};
use crate::quantity::interval_text;
use crate::response::{arms, figure, is_bad, notes, shown, title, value};
use crate::svg::{self, Dot, Line, Look};
use minijinja::{Value, context};
use serde_json::json;
use tare_core::peak::level_text;
use tare_stats::{Analysis, Estimate, LevelMetric, LoadResponse};

/// All of it; undefined where the load had no levels.
pub(crate) fn response(analysis: &Analysis, looks: &[Look], wanted: &[&str]) -> Value {
    let Some(response) = &analysis.response else { return Value::UNDEFINED };
    let metrics = shown(response, wanted);
    let looks: Vec<Look> =
        looks.iter().filter(|look| arms(analysis).iter().any(|a| a.name == look.name)).cloned().collect();
    let chart = |metric: &&LevelMetric| {
        let lines: Vec<Line> = looks.iter().map(|look| levels_line(response, metric, look)).collect();
        let drawing = svg::response(&metric.title, &metric.unit, &response.of, &lines);
        context! { title => title(metric), svg => safe(drawing) }
    };
    let key =
        |look: &Look| context! { name => plain(&look.name), hatched => look.hatched, svg => safe(svg::key(look)) };
    let bad = looks
        .iter()
        .any(|look| (0..response.levels.len()).any(|level| response.state(&look.name, level).is_some_and(is_bad)));
    let names: Vec<&str> = looks.iter().map(|look| look.name.as_str()).collect();
    context! {
        of => plain(&response.of),
        charts => metrics.iter().map(chart).collect::<Vec<_>>(),
        legend => looks.iter().map(key).collect::<Vec<_>>(),
        bad => bad,
        forms => plain(looks.iter().map(|look| json!({ "name": look.name, "emulated": look.hatched })).collect::<Vec<_>>()),
        tables => plain(metrics.iter().map(|metric| table(response, metric, &names)).collect::<Vec<_>>()),
        qos => plain(qos(response, &names)),
        notes => plain(notes(response, analysis, &metrics)),
    }
}

/// A form's line in the drawing of a metric.
pub(crate) fn levels_line(response: &LoadResponse, metric: &LevelMetric, look: &Look) -> Line {
    let dot = |(number, level): (usize, &f64)| {
        let estimate = metric.estimate(&look.name, number)?;
        let bad = response.state(&look.name, number).is_some_and(is_bad);
        Some(Dot { level: *level, value: value(estimate), interval: estimate.interval, bad })
    };
    Line { look: look.clone(), dots: response.levels.iter().enumerate().filter_map(dot).collect() }
}

/// A metric: a row a level, a cell a form.
fn table(response: &LoadResponse, metric: &LevelMetric, names: &[&str]) -> serde_json::Value {
    let cell = |number: usize, name: &&str| {
        let estimate = metric.estimate(name, number);
        let bad = response.state(name, number).is_some_and(is_bad);
        json!({
            "figure": estimate.map(|estimate| figure(metric, estimate).replace("us", "\u{b5}s")),
            "interval": estimate.and_then(|estimate| interval(metric, estimate)),
            "bad": bad,
        })
    };
    let row = |(number, level): (usize, &f64)| {
        let cells: Vec<_> = names.iter().map(|name| cell(number, name)).collect();
        json!({ "level": level_text(*level), "cells": cells })
    };
    json!({ "title": title(metric), "rows": response.levels.iter().enumerate().map(row).collect::<Vec<_>>() })
}

/// `[11.9, 12.8]`, in the unit of the figure.
fn interval(metric: &LevelMetric, estimate: &Estimate) -> Option<String> {
    Some(interval_text(value(estimate), estimate.interval?, &metric.unit))
}

/// In how many trials each level kept the QoS; none where the study has none.
fn qos(response: &LoadResponse, names: &[&str]) -> Option<Vec<serde_json::Value>> {
    let kept = |number: usize, name: &&str| {
        let qos = response.state(name, number)?.qos.as_ref()?;
        let why = qos.broken.as_ref().map(crate::qos::broken);
        Some(json!({ "text": format!("{} of {}", qos.kept, qos.of), "bad": qos.kept < qos.of, "why": why }))
    };
    let row = |(number, level): (usize, &f64)| {
        let cells: Vec<_> = names.iter().map(|name| kept(number, name)).collect();
        json!({ "level": level_text(*level), "cells": cells })
    };
    let any = (0..response.levels.len()).any(|number| names.iter().any(|name| kept(number, name).is_some()));
    any.then(|| response.levels.iter().enumerate().map(row).collect())
}
