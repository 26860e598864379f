//! CPU time per operation by service, for the pages: stacked bars, a table, and the largest difference in words.

use super::{plain, safe};
use crate::costs::{at, chosen, difference, label, notes, parts, row_of, sentences};
use crate::quantity::quantity;
use crate::svg::{self, COLOURS, Stack};
use minijinja::{Value, context};
use serde_json::json;
use tare_stats::{Analysis, ArmCosts, PartCost, Seen, ServiceCosts, ratio_text};

/// All of it; undefined where nothing is known by service.
pub(crate) fn costs(analysis: &Analysis) -> Value {
    let Some(first) = chosen(analysis) else { return Value::UNDEFINED };
    let names = names(&analysis.costs);
    let emulated = |arm: &ArmCosts| analysis.arms.iter().any(|a| a.name == arm.arm && analysis.emulated(a));
    let chart = |costs: &ServiceCosts| {
        let stacks: Vec<Stack> = shown(analysis, costs).map(|arm| stack(arm, &names, emulated(arm))).collect();
        let at = at(analysis, costs);
        context! { title => plain(&at), svg => safe(svg::stacks(&format!("CPU time per operation by service {at}"), &stacks)) }
    };
    let key = |(number, name): (usize, &String)| json!({ "class": format!("f{}", number % COLOURS), "name": name });
    let forms = shown(analysis, first).map(|arm| json!({ "name": arm.arm, "emulated": emulated(arm) }));
    context! {
        sentences => plain(sentences(analysis, first).iter().map(|text| micro(text)).collect::<Vec<_>>()),
        charts => analysis.costs.iter().map(chart).collect::<Vec<_>>(),
        legend => plain(names.iter().enumerate().map(key).collect::<Vec<_>>()),
        forms => plain(forms.collect::<Vec<_>>()),
        tables => plain(analysis.costs.iter().map(|costs| table(analysis, costs, first)).collect::<Vec<_>>()),
        notes => plain(notes(analysis, first)),
    }
}

fn micro(text: &str) -> String {
    text.replace(" us per", " \u{b5}s per")
}

/// The arms that have a bar: all but the A/A control.
fn shown<'a>(analysis: &'a Analysis, costs: &'a ServiceCosts) -> impl Iterator<Item = &'a ArmCosts> {
    costs.arms.iter().filter(|arm| arm.arm != analysis.control)
}

/// The rows of all loads; a part has the colour of its place among them.
fn names(all: &[ServiceCosts]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in all.iter().flat_map(parts) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn stack(arm: &ArmCosts, names: &[String], hatched: bool) -> Stack {
    let part = |part: &PartCost| {
        let name = row_of(part);
        (names.iter().position(|known| *known == name).unwrap_or(0), name, part.estimate.mean)
    };
    let name = if hatched { format!("{} (EMULATED)", arm.arm) } else { arm.arm.clone() };
    Stack { name, total: quantity(arm.total_us(), "us"), hatched, parts: arm.parts.iter().map(part).collect() }
}

/// A row a part, a cell an arm of those of `first`.
fn table(analysis: &Analysis, costs: &ServiceCosts, first: &ServiceCosts) -> serde_json::Value {
    let arm_of = |name: &str| costs.arms.iter().find(|arm| arm.arm == name);
    let cell = |part: &PartCost| {
        let clear = part.ratio.filter(tare_stats::CostRatio::is_clear).map(|ratio| ratio.ratio > 1.0);
        json!({
            "figure": quantity(part.estimate.mean, "us"),
            "ratio": part.ratio.map(|ratio| ratio_text(ratio.ratio, ratio.interval)),
            "difference": part.ratio.map(|ratio| difference(&ratio).replace("us", "\u{b5}s")),
            "class": match clear { Some(true) => "worse", Some(false) => "better", None => "" },
            "guest": part.seen == Seen::Guest,
            "title": label(part),
        })
    };
    let row = |name: &String| {
        let cells = shown(analysis, first)
            .map(|arm| arm_of(&arm.arm).and_then(|arm| arm.parts.iter().find(|part| row_of(part) == *name)).map(cell));
        json!({ "name": name, "cells": cells.collect::<Vec<_>>() })
    };
    let totals = shown(analysis, first).map(|arm| arm_of(&arm.arm).map(|arm| quantity(arm.total_us(), "us")));
    json!({
        "title": at(analysis, costs),
        "rows": parts(costs).iter().map(row).collect::<Vec<_>>(),
        "totals": totals.collect::<Vec<_>>(),
    })
}
