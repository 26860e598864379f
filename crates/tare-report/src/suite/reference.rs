//! Published figures beside ours: both relative to the same form, on one scale, and never mixed.

use super::shown::ShownPart;
use crate::html::{looks_beside, plain, safe};
use crate::svg::{self, Beside, Look};
use crate::verdict::ratio_figure;
use minijinja::{Value, context};
use serde_json::json;
use tare_core::study::PublishedValues;
use tare_stats::{Interval, MetricAnalysis, ratio_to};

/// A metric of a part that has published figures that say what they are relative to.
pub(super) struct Reference<'a> {
    pub(super) metric: &'a MetricAnalysis,
    pub(super) values: &'a PublishedValues,
    /// By form: what was published, relative to the same form; in the order of the study, then the others.
    pub(super) published: Vec<(String, f64)>,
    /// By form: ours, relative to the same form here, and whether it is emulated; empty where `why_none`.
    pub(super) ours: Vec<(String, f64, Option<Interval>, bool)>,
    /// Why ours cannot be shown relative to that form.
    pub(super) why_none: Option<String>,
}

/// Those of a part.
pub(super) fn references<'a>(part: &ShownPart<'a>) -> Vec<Reference<'a>> {
    let Some(published) = part.published else { return Vec::new() };
    let of = |metric: &&'a MetricAnalysis| Some(reference(part, metric, published.values.get(&metric.name)?));
    part.metrics.iter().filter_map(of).collect()
}

fn reference<'a>(part: &ShownPart<'a>, metric: &'a MetricAnalysis, values: &'a PublishedValues) -> Reference<'a> {
    let arms = || part.analysis.arms.iter().filter(|arm| !arm.control);
    let here = arms().map(|arm| &arm.name).filter(|name| values.values.contains_key(*name));
    let elsewhere = values.values.keys().filter(|form| !arms().any(|arm| arm.name == **form));
    let ratio = |form: &String| Some((form.clone(), values.ratio(form)?));
    let published = here.chain(elsewhere).filter_map(ratio).collect();
    let to = &values.relative_to;
    let there = arms().find(|arm| arm.name == *to);
    let why_none = match there {
        None => Some(format!("{to} is no form of this run")),
        Some(arm) if arm.emulated.is_some() => Some(format!("{to} ran EMULATED here")),
        Some(arm) if arm.measured == 0 => Some(format!("{to} was not measured here")),
        Some(_) => None,
    };
    let ours = arms().filter(|_| why_none.is_none()).filter_map(|arm| {
        let (ratio, interval) = ratio_to(metric, &arm.name, to)?;
        let emulated = arm.emulated.is_some();
        Some((arm.name.clone(), ratio, interval.filter(|_| !emulated), emulated))
    });
    Reference { metric, values, published, ours: ours.collect(), why_none }
}

impl Reference<'_> {
    /// A ratio of ours, with `<=` or `>=` before it where it is only a bound.
    fn ratio_text(&self, form: &str, ratio: f64, interval: Option<Interval>) -> String {
        ratio_figure(self.metric.bound(form, &self.values.relative_to), ratio, interval)
    }

    /// Two lines: what was published, and ours beside it.
    pub(super) fn lines(&self) -> [String; 2] {
        let to = &self.values.relative_to;
        let others = self.published.iter().filter(|(form, _)| form != to);
        let published: Vec<String> = others.map(|(form, ratio)| format!("{form} {ratio:.2}")).collect();
        let of = |(form, ratio, interval, emulated): &(String, f64, Option<Interval>, bool)| {
            let mark = if *emulated { " EMULATED" } else { "" };
            crate::whole(&format!("{form} {}{mark}", self.ratio_text(form, *ratio, *interval)))
        };
        let ours: Vec<String> = self.ours.iter().filter(|(form, ..)| form != to).map(of).collect();
        let ours = match &self.why_none {
            Some(why) => format!("not shown, {why}"),
            None if ours.is_empty() => "nothing else was measured".to_owned(),
            None => ours.join(", "),
        };
        let title = &self.metric.title;
        [
            format!("{title} as published on another machine, relative to {to}: {}", published.join(", ")),
            format!("{title} here, relative to {to}: {ours}"),
        ]
    }

    /// For programs.
    pub(super) fn json(&self) -> serde_json::Value {
        let published = self.published.iter().map(|(form, ratio)| json!({ "form": form, "ratio": ratio }));
        let ours = self.ours.iter().map(|(form, ratio, interval, emulated)| {
            json!({ "form": form, "ratio": ratio, "interval": interval, "emulated": emulated })
        });
        json!({
            "metric": self.metric.name,
            "relative_to": self.values.relative_to,
            "published": published.collect::<Vec<_>>(),
            "here": ours.collect::<Vec<_>>(),
            "why_none": self.why_none,
        })
    }

    /// Two charts on one scale, for the page.
    pub(super) fn charts(&self, part: &ShownPart<'_>, forms: &[&str]) -> Value {
        let looks = looks_beside(forms, part.analysis);
        let plain_look = |name: &str| Look { name: name.to_owned(), colour: 0, hollow: true, hatched: false };
        let real = self.ours.iter().filter(|(.., emulated)| !emulated);
        let real = real.map(|(_, ratio, interval, _)| interval.map_or(*ratio, |interval| interval.high));
        let highest = self.published.iter().map(|(_, ratio)| *ratio).chain(real).fold(1.0, f64::max);
        let published = self.published.iter().map(|(form, ratio)| Beside {
            look: plain_look(form),
            ratio: *ratio,
            interval: None,
            figure: self.figure(form, *ratio),
            published: true,
        });
        let ours = self.ours.iter().map(|(form, ratio, interval, emulated)| {
            let look = looks.iter().find(|look| look.name == *form).cloned().unwrap_or_else(|| plain_look(form));
            let figure = self.ratio_text(form, *ratio, *interval);
            Beside {
                look: Look { hatched: *emulated, ..look },
                ratio: *ratio,
                interval: *interval,
                figure,
                published: false,
            }
        });
        let (published, ours): (Vec<Beside>, Vec<Beside>) = (published.collect(), ours.collect());
        let title = &self.metric.title;
        context! {
            title => plain(title),
            to => plain(&self.values.relative_to),
            published => safe(svg::beside(&format!("{title} as published"), &published, highest)),
            ours => (!ours.is_empty()).then(|| safe(svg::beside(&format!("{title} here"), &ours, highest))),
            why_none => plain(&self.why_none),
        }
    }

    /// `0.77; 30,657 users`.
    fn figure(&self, form: &str, ratio: f64) -> String {
        let absolute = self.values.unit.as_ref().and_then(|unit| {
            let value = self.values.values.get(form)?;
            Some(format!("{} {unit}, ", tare_core::peak::level_text(*value)))
        });
        format!("{}{ratio:.2}", absolute.unwrap_or_default())
    }
}
