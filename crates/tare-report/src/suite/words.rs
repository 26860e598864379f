//! The answer in sentences: which panel costs which form how much. Nothing is said here that no verdict says.

use super::shown::{Row, ShownPart, forms, panels};
use tare_stats::{MetricAnalysis, Verdict, percent_text, ratio_text};

/// So many costs are named with their figures in the headline; more would not be read.
const FIGURES_MAX: usize = 3;

/// The answer.
pub(super) struct Headline {
    /// One sentence or a few on all forms.
    pub(super) sentence: String,
    /// By form: its name and what it costs, panel by panel.
    pub(super) forms: Vec<(String, String)>,
}

impl Headline {
    /// All of it, a line each.
    pub(super) fn lines(&self) -> Vec<String> {
        let forms = self.forms.iter().map(|(form, text)| format!("{form}: {text}"));
        std::iter::once(self.sentence.clone()).chain(forms).collect()
    }
}

/// What may be said of one form in one panel.
enum Finding {
    /// It is worse, better, or both, in these metrics; the first is the largest.
    Differs { worse: Vec<String>, better: Vec<String> },
    /// No difference was found in any metric; the text says how small a one would have been.
    Quiet(String),
    /// Measured under emulation.
    Emulated,
    /// No verdict, with the reason.
    Unsaid(String),
}

/// The answer of all parts.
pub(super) fn headline(parts: &[ShownPart<'_>]) -> Headline {
    let panels = panels(parts);
    let forms = forms(parts);
    let found: Vec<(&str, Vec<(&str, Finding)>)> = panels
        .iter()
        .map(|(panel, parts)| (*panel, forms.iter().map(|form| (*form, finding(parts, form))).collect()))
        .collect();
    let of_form = |form: &&str| {
        let of = found.iter().filter_map(|(panel, of)| Some((*panel, &of.iter().find(|(name, _)| name == form)?.1)));
        ((*form).to_owned(), form_sentence(&of.collect::<Vec<_>>()))
    };
    Headline { sentence: sentence(&found), forms: forms.iter().map(of_form).collect() }
}

fn finding(parts: &[&ShownPart<'_>], form: &str) -> Finding {
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
            _ => unsaid.push(row.verdict.trim_start_matches("no verdict: ").to_owned()),
        }
    }
    if !differing.is_empty() {
        differing.sort_by(|a, b| b.0.total_cmp(&a.0));
        let of = |wanted| differing.iter().filter(move |(_, worse, _)| *worse == wanted).map(|(.., said)| said.clone());
        return Finding::Differs { worse: of(true).collect(), better: of(false).collect() };
    }
    match (unsaid.into_iter().next(), emulated) {
        (Some(why), _) => Finding::Unsaid(why),
        (None, true) => Finding::Emulated,
        (None, false) if quiet.is_empty() => Finding::Unsaid("not part of it".to_owned()),
        (None, false) => Finding::Quiet(how_quiet(&quiet)),
    }
}

/// `rr p50 longer: +9.3 us [8.1, 10.4]`, of what is no time the ratio.
fn figure(label: &str, row: &Row<'_>) -> String {
    let ratio = row.ratio.map(|ratio| ratio_text(ratio.ratio, ratio.interval)).unwrap_or_default();
    format!("{label} {}: {}", row.verdict, row.difference.clone().unwrap_or(ratio))
}

/// How small a difference would have been found: the largest of several metrics, so that it holds for all.
fn how_quiet(rows: &[(&MetricAnalysis, Row<'_>)]) -> String {
    let ratios = || rows.iter().filter_map(|(_, row)| row.ratio);
    if let [(_, row)] = rows
        && row.ratio.is_some_and(|ratio| ratio.verdict == Verdict::Equivalent)
    {
        return row.verdict.clone();
    }
    if ratios().any(|ratio| ratio.verdict == Verdict::WithinNoise) {
        let floor = rows.iter().filter_map(|(metric, _)| metric.noise_floor).fold(0.0, f64::max);
        return format!("noise floor {}", percent_text(floor));
    }
    match ratios().filter_map(|ratio| ratio.smallest_detectable).reduce(f64::max) {
        Some(share) => format!("smallest detectable {}", percent_text(share)),
        None => "smallest detectable unknown".to_owned(),
    }
}

/// What a form costs, panel by panel.
fn form_sentence(found: &[(&str, &Finding)]) -> String {
    let (mut parts, mut quiet, mut emulated, mut unsaid) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (panel, finding) in found {
        match finding {
            Finding::Differs { worse, better } => {
                let said: Vec<&str> = worse.iter().chain(better).map(String::as_str).collect();
                parts.push(format!("{panel}: {}", said.join(", ")));
            }
            Finding::Quiet(how) => quiet.push(format!("{panel} ({how})")),
            Finding::Emulated => emulated.push((*panel).to_owned()),
            Finding::Unsaid(why) => unsaid.push(format!("{panel} ({why})")),
        }
    }
    if !quiet.is_empty() {
        parts.push(format!("no difference detectable in {}", listed(&quiet)));
    }
    if !unsaid.is_empty() {
        parts.push(format!("no verdict on {}", listed(&unsaid)));
    }
    if emulated.len() == found.len() {
        return "EMULATED, no claim about the real thing".to_owned();
    }
    if !emulated.is_empty() {
        parts.push(format!("EMULATED in {}, no claim", listed(&emulated)));
    }
    parts.join("; ")
}

/// What holds of all forms.
fn sentence(found: &[(&str, Vec<(&str, Finding)>)]) -> String {
    let count = found.iter().flat_map(|(_, of)| of).filter(|(_, finding)| costs(finding).is_some()).count();
    let (mut worse, mut better, mut quiet, mut unsaid) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (panel, of) in found {
        let paying = of.iter().filter_map(|(form, finding)| Some((*form, costs(finding)?)));
        let paying = paying.map(|(form, figure)| match count <= FIGURES_MAX {
            true => format!("{form} ({figure})"),
            false => form.to_owned(),
        });
        let paying: Vec<String> = paying.collect();
        let named = |wanted: fn(&Finding) -> bool| -> Vec<String> {
            of.iter().filter(|(_, finding)| wanted(finding)).map(|(form, _)| (*form).to_owned()).collect()
        };
        let gaining = named(|finding| matches!(finding, Finding::Differs { .. }));
        let without = named(|finding| matches!(finding, Finding::Quiet(_)));
        let real = named(|finding| !matches!(finding, Finding::Emulated));
        if !paying.is_empty() {
            worse.push(format!("{panel} pays in {}", listed(&paying)));
        } else if !gaining.is_empty() {
            better.push(format!("{panel} gains in {}", listed(&gaining)));
        } else if without.is_empty() {
            unsaid.push((*panel).to_owned());
        } else {
            let hows =
                of.iter().filter_map(|(_, finding)| if let Finding::Quiet(how) = finding { Some(how) } else { None });
            let mut hows: Vec<&str> = hows.map(String::as_str).collect();
            hows.dedup();
            let whom = if without.len() == real.len() { String::new() } else { format!(" of {}", listed(&without)) };
            let how = if let [how] = hows.as_slice() { format!(" ({how})") } else { String::new() };
            quiet.push(format!("{panel}{whom}{how}"));
        }
    }
    let mut sentences: Vec<String> = worse.into_iter().chain(better).collect();
    sentences = if sentences.is_empty() { sentences } else { vec![sentences.join("; ")] };
    if !quiet.is_empty() {
        sentences.push(format!("no difference detectable in {}", listed(&quiet)));
    }
    if !unsaid.is_empty() {
        sentences.push(format!("no verdict on {}", listed(&unsaid)));
    }
    sentences.iter().map(|text| capital(text) + ".").collect::<Vec<_>>().join(" ")
}

/// The largest cost among the findings of a form, if it has one.
fn costs(finding: &Finding) -> Option<&str> {
    match finding {
        Finding::Differs { worse, .. } => worse.first().map(String::as_str),
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

    fn worse(text: &str) -> Finding {
        Finding::Differs { worse: vec![text.to_owned()], better: Vec::new() }
    }

    #[test]
    fn the_sentence_says_what_the_verdicts_say() {
        let quiet = || Finding::Quiet("smallest detectable 2.1 %".into());
        let failed = || Finding::Unsaid("FAILED in deploy: no space".into());
        let found = vec![
            ("arithmetic", vec![("box", quiet()), ("crate", Finding::Emulated)]),
            ("memory", vec![("box", quiet()), ("crate", failed())]),
            ("network", vec![("box", worse("p50 longer: +9 us")), ("crate", quiet())]),
            ("storage", vec![("box", failed()), ("crate", Finding::Emulated)]),
        ];
        assert_eq!(
            sentence(&found),
            "Network pays in box (p50 longer: +9 us). No difference detectable in arithmetic (smallest detectable 2.1 %) \
             and memory of box (smallest detectable 2.1 %). No verdict on storage."
        );
        let of_box: Vec<(&str, &Finding)> = found.iter().map(|(panel, of)| (*panel, &of[0].1)).collect();
        assert_eq!(
            form_sentence(&of_box),
            "network: p50 longer: +9 us; no difference detectable in arithmetic (smallest detectable 2.1 %) and memory \
             (smallest detectable 2.1 %); no verdict on storage (FAILED in deploy: no space)"
        );
    }

    #[test]
    fn many_costs_are_named_without_their_figures() {
        let found = vec![("network", ["a", "b", "c", "d"].map(|form| (form, worse("+1 us"))).into_iter().collect())];
        assert_eq!(sentence(&found), "Network pays in a, b, c and d.");
    }
}
