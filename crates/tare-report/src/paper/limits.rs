//! What speaks against believing it, and what it does not say.

use super::document::Piece;
use super::study::Study;
use crate::{advice, failures, finding, ladder, warnings, words};

/// What is true of every paper.
const ALWAYS: [&str; 2] = [
    "Each study is one run on one machine. Its intervals hold what varies between deployments within that run; after \
     another boot, or on another machine, the same may lie further off.",
    "Intervals of one metric hold for all forms of a study together. There is no correction across metrics and studies: \
     of twenty in which nothing differs, expect one that seems to differ.",
];

/// What is true of the paper as a whole: these, and the parts of studies that are not in it.
pub(super) fn of_all(missing: &[String]) -> Vec<Piece> {
    let always = ALWAYS.iter().map(|text| (*text).to_owned());
    vec![Piece::List(always.chain(missing.iter().cloned()).collect())]
}

/// The chapter of a study.
pub(super) fn pieces(study: &Study<'_>) -> Vec<Piece> {
    let (record, analysis) = (study.record, study.analysis);
    let mut lines = warnings::all(analysis);
    for arm in analysis.forms() {
        if let Some(why) = &arm.emulated {
            let what = "is no claim about the real thing";
            lines.push(format!("{} ran EMULATED, so whatever is said of it {what}: {}", arm.name, why.message));
        }
        lines.extend(arm.reasons.iter().map(|reason| format!("{}: {}", arm.name, words::outcome(reason))));
        let broken = arm.qos.as_ref().filter(|qos| qos.kept < qos.of);
        lines.extend(broken.map(|qos| format!("{}: {}", arm.name, words::qos(qos))));
    }
    lines.extend(words::these_deployments(analysis));
    lines.extend(words::missed_aim(analysis).map(|missed| format!("precision: {missed}")));
    lines.extend(failures::lines(analysis).into_iter().map(|(text, _)| text));
    lines.extend(analysis.ladder.iter().filter_map(ladder::left_out));
    lines.extend(analysis.advice.iter().filter_map(advice::left_out));
    let methods = words::methods(analysis).into_iter();
    lines.extend(methods.map(|(text, metrics)| format!("intervals of {}: {text}", metrics.join(", "))));
    lines.extend(finding::not_counted(record).into_iter().map(|line| format!("not counted on this machine: {line}")));
    if lines.is_empty() { Vec::new() } else { vec![Piece::List(lines)] }
}
