//! The answer in sentences: what each form costs in each panel. Each claim rests on a verdict.

use super::shown::{Row, ShownPart, forms, panels};
use tare_stats::{MetricAnalysis, Verdict, percent_at_most, percent_text};

/// So many costs are named with their figures in the headline; more would not be read.
const FIGURES_MAX: usize = 3;

/// The answer.
pub(super) struct SuiteHeadline {
    /// What was found, in a sentence on all forms.
    pub(super) sentence: String,
    /// What was not found, in others; may be empty.
    pub(super) rest: String,
    /// By form: its name and what it costs, panel by panel.
    pub(super) forms: Vec<(String, String)>,
}

impl SuiteHeadline {
    /// The sentences on all forms.
    pub(super) fn whole(&self) -> String {
        format!("{} {}", self.sentence, self.rest).trim_end().to_owned()
    }

    /// All of it, a line each.
    pub(super) fn lines(&self) -> Vec<String> {
        let forms = self.forms.iter().map(|(form, text)| format!("{form}: {text}"));
        std::iter::once(self.whole()).chain(forms).collect()
    }
}

/// The verdict on one form in one panel.
enum PanelVerdict {
    /// It is worse, better, or both, in these metrics, the largest first; the `others` have no verdict.
    Differs { worse: Vec<String>, better: Vec<String>, others: Vec<String> },
    /// No difference was found in any metric: how small a one would have been found, in words and as a share.
    Quiet(String, Option<f64>),
    /// There are differences, and the A/A control may lie as far off.
    Noise(String),
    /// Measured under emulation.
    Emulated,
    /// No verdict, with the reason.
    Unsaid(String),
}

/// The answer of all parts.
pub(super) fn headline(parts: &[ShownPart<'_>]) -> SuiteHeadline {
    let panels = panels(parts);
    let forms = forms(parts);
    let found: Vec<(&str, Vec<(&str, PanelVerdict)>)> = panels
        .iter()
        .map(|(panel, parts)| (*panel, forms.iter().map(|form| (*form, panel_verdict(parts, form))).collect()))
        .collect();
    let of_form = |form: &&str| {
        let of = found.iter().filter_map(|(panel, of)| Some((*panel, &of.iter().find(|(name, _)| name == form)?.1)));
        ((*form).to_owned(), form_sentence(&of.collect::<Vec<_>>()))
    };
    let mut sentences = sentences(&found).into_iter();
    let sentence = sentences.next().unwrap_or_default();
    let rest = sentences.collect::<Vec<_>>().join(" ");
    SuiteHeadline { sentence, rest, forms: forms.iter().map(of_form).collect() }
}

fn panel_verdict(parts: &[&ShownPart<'_>], form: &str) -> PanelVerdict {
    let mut differing: Vec<(f64, bool, String)> = Vec::new();
    let (mut quiet, mut unsaid, mut emulated) = (Vec::new(), Vec::new(), false);
    for (part, metric) in parts.iter().flat_map(|part| part.metrics.iter().map(move |metric| (*part, *metric))) {
        let Some(row) = part.rows(metric).into_iter().find(|row| row.arm.name == form) else { continue };
        match row.ratio.map(|ratio| (ratio, ratio.verdict)) {
            Some((ratio, verdict @ (Verdict::Better | Verdict::Worse))) => {
                let said = figure(&part.label(metric, parts.len()), &row);
                differing.push((ratio.ratio.ln().abs(), verdict == Verdict::Worse, said));
            }
            Some((_, Verdict::Equivalent | Verdict::NoDifference | Verdict::WithinNoise)) => quiet.push((metric, row)),
            Some((_, Verdict::Emulated)) => emulated = true,
            // A metric that is shown only is nobody's fault.
            None if !metric.compared => {}
            _ => {
                let why = row.verdict.trim_start_matches("no verdict: ").to_owned();
                unsaid.push((part.label(metric, parts.len()), why));
            }
        }
    }
    if !differing.is_empty() {
        differing.sort_by(|a, b| b.0.total_cmp(&a.0));
        let of = |wanted| differing.iter().filter(move |(_, worse, _)| *worse == wanted).map(|(.., said)| said.clone());
        let others = unsaid.into_iter().map(|(label, _)| label).collect();
        return PanelVerdict::Differs { worse: of(true).collect(), better: of(false).collect(), others };
    }
    match (unsaid.into_iter().next(), emulated) {
        (Some((_, why)), _) => PanelVerdict::Unsaid(why),
        (None, true) => PanelVerdict::Emulated,
        (None, false) if quiet.is_empty() => PanelVerdict::Unsaid("not part of it".to_owned()),
        (None, false) => how_quiet(&quiet),
    }
}

/// `rr p50 longer: +9.3 us [8.1, 10.4]`, of what is no time the ratio.
fn figure(label: &str, row: &Row<'_>) -> String {
    let ratio = row.ratio.map(tare_stats::Ratio::text).unwrap_or_default();
    format!("{label} {}: {}", row.verdict, row.difference.clone().unwrap_or(ratio))
}

/// How small a difference would have been found: the largest of several metrics, so that it holds for all.
fn how_quiet(rows: &[(&MetricAnalysis, Row<'_>)]) -> PanelVerdict {
    let ratios = || rows.iter().filter_map(|(_, row)| row.ratio);
    if let [(_, row)] = rows
        && row.ratio.is_some_and(|ratio| ratio.verdict == Verdict::Equivalent)
    {
        return PanelVerdict::Quiet(row.verdict.clone(), None);
    }
    if ratios().any(|ratio| ratio.verdict == Verdict::WithinNoise) {
        let floor = rows.iter().filter_map(|(metric, _)| metric.noise_floor).fold(0.0, f64::max);
        return PanelVerdict::Noise(percent_at_most(floor));
    }
    let smallest = ratios().filter_map(|ratio| ratio.smallest_detectable).reduce(f64::max);
    let words = smallest.map_or_else(|| "unknown".to_owned(), percent_text);
    PanelVerdict::Quiet(format!("smallest detectable {words}"), smallest)
}

/// What a form costs, panel by panel.
fn form_sentence(found: &[(&str, &PanelVerdict)]) -> String {
    let (mut parts, mut emulated) = (Vec::new(), Vec::new());
    let (mut quiet, mut noise, mut unsaid) = (Vec::new(), Vec::new(), Reasons::default());
    for (panel, verdict) in found {
        match verdict {
            PanelVerdict::Differs { worse, better, others } => {
                let said: Vec<&str> = worse.iter().chain(better).map(String::as_str).collect();
                let others =
                    if others.is_empty() { String::new() } else { format!(", no verdict on {}", listed(others)) };
                parts.push(format!("{panel}: {}{others}", said.join(", ")));
            }
            PanelVerdict::Quiet(how, _) => quiet.push(format!("{panel} ({how})")),
            PanelVerdict::Noise(floor) => noise.push(format!("{panel} ({floor})")),
            PanelVerdict::Emulated => emulated.push((*panel).to_owned()),
            PanelVerdict::Unsaid(why) => unsaid.add(why, panel),
        }
    }
    if emulated.len() == found.len() {
        return "EMULATED, no claim about the real thing".to_owned();
    }
    let mut say = |what: &str, of: &[String], end: &str| {
        if !of.is_empty() {
            parts.push(format!("{what} {}{end}", listed(of)));
        }
    };
    say("no difference detectable in", &quiet, "");
    say("within the noise floor in", &noise, "");
    say("no verdict on", &unsaid.said(), "");
    say("EMULATED in", &emulated, ", no claim");
    parts.join("; ")
}

/// What several things have in common.
#[derive(Default)]
struct Reasons(Vec<(String, Vec<String>)>);

impl Reasons {
    fn add(&mut self, why: &str, what: &str) {
        match self.0.iter_mut().find(|(known, _)| known == why) {
            Some((_, of)) => of.push(what.to_owned()),
            None => self.0.push((why.to_owned(), vec![what.to_owned()])),
        }
    }

    /// `memory and network (no engine)`, each reason once.
    fn said(&self) -> Vec<String> {
        self.0.iter().map(|(why, of)| format!("{} ({why})", listed(of))).collect()
    }
}

/// What holds of all forms.
fn sentences(found: &[(&str, Vec<(&str, PanelVerdict)>)]) -> Vec<String> {
    let count = found.iter().flat_map(|(_, of)| of).filter(|(_, verdict)| costs(verdict).is_some()).count();
    let mut differing = Vec::new();
    let (mut quiet, mut noise, mut unsaid) = (Vec::new(), Vec::new(), Vec::new());
    for (panel, of) in found {
        let named = |wanted: fn(&PanelVerdict) -> bool| -> Vec<String> {
            of.iter().filter(|(_, verdict)| wanted(verdict)).map(|(form, _)| (*form).to_owned()).collect()
        };
        let paying = of.iter().filter_map(|(form, verdict)| Some((*form, costs(verdict)?)));
        let with_figure = |(form, figure): (&str, &str)| match count <= FIGURES_MAX {
            true => format!("{form} ({figure})"),
            false => form.to_owned(),
        };
        let paying: Vec<String> = paying.map(with_figure).collect();
        let gaining = named(|verdict| matches!(verdict, PanelVerdict::Differs { .. }));
        let without = named(|verdict| matches!(verdict, PanelVerdict::Quiet(..)));
        let noisy = named(|verdict| matches!(verdict, PanelVerdict::Noise(_)));
        // Forms that were not measured for real have no part in it; with them left out, those that are left are named.
        let all = of.len();
        let whom = |some: &[String]| if some.len() == all { String::new() } else { format!(" of {}", listed(some)) };
        if !paying.is_empty() {
            differing.push(format!("{panel} costs more in {}", listed(&paying)));
        } else if !gaining.is_empty() {
            differing.push(format!("{panel} costs less in {}", listed(&gaining)));
        } else if without.is_empty() && noisy.is_empty() {
            unsaid.push((*panel).to_owned());
        }
        if paying.is_empty() && gaining.is_empty() {
            if !without.is_empty() {
                quiet.push(format!("{panel}{}{}", whom(&without), detectable(of)));
            }
            if !noisy.is_empty() {
                noise.push(format!("{panel}{}", whom(&noisy)));
            }
        }
    }
    let mut sentences = Vec::new();
    if !differing.is_empty() {
        sentences.push(differing.join("; "));
    }
    for (what, of) in
        [("no difference detectable in", quiet), ("within the noise floor in", noise), ("no verdict on", unsaid)]
    {
        if !of.is_empty() {
            sentences.push(format!("{what} {}", listed(&of)));
        }
    }
    sentences.iter().map(|text| capital(text) + ".").collect()
}

/// ` (smallest detectable 2.1 %)`: the largest of all forms in which nothing was found, so that it holds for all.
fn detectable(of: &[(&str, PanelVerdict)]) -> String {
    let quiet = of.iter().filter_map(|(_, verdict)| match verdict {
        PanelVerdict::Quiet(how, share) => Some((how, share.unwrap_or(f64::NAN))),
        _ => None,
    });
    let quiet: Vec<(&String, f64)> = quiet.collect();
    let largest = quiet.iter().map(|(_, share)| *share).fold(0.0, f64::max);
    match quiet.as_slice() {
        [(how, _), rest @ ..] if rest.iter().all(|(other, _)| other == how) => format!(" ({how})"),
        all if all.iter().any(|(_, share)| share.is_nan()) => String::new(),
        _ => format!(" (smallest detectable {})", percent_text(largest)),
    }
}

/// The largest cost among the findings of a form, if it has one.
fn costs(verdict: &PanelVerdict) -> Option<&str> {
    match verdict {
        PanelVerdict::Differs { worse, .. } => worse.first().map(String::as_str),
        _ => None,
    }
}

/// `a, b and c`.
fn listed(items: &[String]) -> String {
    match items {
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
        [] => String::new(),
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worse(text: &str) -> PanelVerdict {
        PanelVerdict::Differs { worse: vec![text.to_owned()], better: Vec::new(), others: vec!["connect".to_owned()] }
    }

    #[test]
    fn the_sentence_says_what_the_verdicts_say() {
        let quiet = || PanelVerdict::Quiet("smallest detectable 2.1 %".into(), Some(0.021));
        let failed = || PanelVerdict::Unsaid("FAILED in deploy: no space".into());
        let found = vec![
            ("arithmetic", vec![("box", quiet()), ("crate", PanelVerdict::Emulated)]),
            ("memory", vec![("box", quiet()), ("crate", PanelVerdict::Noise("1.8 %".into()))]),
            ("network", vec![("box", worse("p50 longer: +9 us")), ("crate", quiet())]),
            ("storage", vec![("box", failed()), ("crate", PanelVerdict::Emulated)]),
        ];
        assert_eq!(
            sentences(&found).join(" "),
            "Network costs more in box (p50 longer: +9 us). No difference detectable in arithmetic of box (smallest \
             detectable 2.1 %) and memory of box (smallest detectable 2.1 %). Within the noise floor in memory of \
             crate. No verdict on storage."
        );
        let said =
            |form: usize| form_sentence(&found.iter().map(|(panel, of)| (*panel, &of[form].1)).collect::<Vec<_>>());
        assert_eq!(
            said(0),
            "network: p50 longer: +9 us, no verdict on connect; no difference detectable in arithmetic (smallest \
             detectable 2.1 %) and memory (smallest detectable 2.1 %); no verdict on storage (FAILED in deploy: \
             no space)"
        );
        assert_eq!(
            said(1),
            "no difference detectable in network (smallest detectable 2.1 %); within the noise floor in memory (1.8 %); \
             EMULATED in arithmetic and storage, no claim"
        );
    }

    #[test]
    fn what_is_said_of_all_forms_holds_for_all() {
        let quiet =
            |share: f64| PanelVerdict::Quiet(format!("smallest detectable {}", percent_text(share)), Some(share));
        assert_eq!(detectable(&[("a", quiet(0.02)), ("b", quiet(0.031))]), " (smallest detectable 3.1 %)");
        assert_eq!(detectable(&[("a", quiet(0.02)), ("b", quiet(0.02))]), " (smallest detectable 2.0 %)");
        assert_eq!(detectable(&[("a", quiet(0.02)), ("b", PanelVerdict::Quiet("equivalent".into(), None))]), "");
    }

    #[test]
    fn many_costs_are_named_without_their_figures() {
        let found = vec![("network", ["a", "b", "c", "d"].map(|form| (form, worse("+1 us"))).into_iter().collect())];
        assert_eq!(sentences(&found), ["Network costs more in a, b, c and d."]);
    }
}
