//! What was asked, and how the answer is to be read.

use super::document::Piece;
use super::study::Study;

/// The chapter of a study.
pub(super) fn pieces(study: &Study<'_>) -> Vec<Piece> {
    let of = &study.record.header.study;
    let question = if of.question.is_empty() { &of.name } else { &of.question };
    let how = format!(
        "What a form costs is said relative to {}, the baseline, as the ratio of the two within the same block of trials; a \
         trial is one fresh deployment, measured once. An identical copy of the baseline is measured like a form: as far \
         apart as these two may lie, the noise floor, nothing is called a difference.",
        study.analysis.baseline
    );
    vec![Piece::Text(question.clone()), Piece::Text(how)]
}
