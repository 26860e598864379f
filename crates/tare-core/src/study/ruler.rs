//! `ruler:` of a study: a known weight, measured beside the forms, so that a report can say how small a difference this
//! run saw.
//!
//! A ruler is the baseline, deployed once more, whose load makes more operations than count. Whether the server, the
//! network or the generator is the limit, each operation that counts takes that much more of it. So the true result is
//! known in any closed loop: at a weight of w, throughput is 1/(1+w) of the baseline's and CPU time per operation 1+w
//! times the baseline's.

use super::Study;
use crate::config::{Node, Problems};
use crate::form::Form;
use crate::load::LoadProfile;

/// What the ruler is called among the forms.
pub const RULER: &str = "ruler";

/// The lightest and the heaviest.
const WEIGHTS: (f64, f64) = (0.001, 1.0);

/// Reads `ruler: 1%`.
pub(super) fn read(node: &Node, problems: &mut Problems) -> Option<f64> {
    let share = node.percent(problems)?;
    if let Err(message) = check(share) {
        problems.add(node.place, message, "write for example 1%");
        return None;
    }
    Some(share)
}

/// Checks that a ruler may have this weight.
///
/// # Errors
/// Which weights it may have.
pub fn check(share: f64) -> Result<(), String> {
    let (lightest, heaviest) = WEIGHTS;
    if (lightest..=heaviest).contains(&share) {
        return Ok(());
    }
    Err(format!("a ruler must be {} % to {} %", lightest * 100.0, heaviest * 100.0))
}

impl Study {
    /// Whether a ruler may be added to the forms: rungs, variants and placements are compared with each other and need
    /// none.
    pub fn takes_ruler(&self) -> bool {
        self.ladder.is_none() && self.advice.is_none() && self.design.best_in.is_none()
    }

    /// Adds the ruler to the forms, if the study has one and [takes it](Study::takes_ruler).
    pub fn lay_ruler(&mut self) {
        let there = self.forms.iter().any(|form| form.weight.is_some());
        let (Some(_), true, false) = (self.ruler, self.takes_ruler(), there) else { return };
        let Some(baseline) = self.forms.iter().find(|form| form.name == self.baseline) else { return };
        let ruler = Form { name: RULER.to_owned(), weight: self.ruler, ..baseline.clone() };
        self.forms.push(ruler);
    }

    /// Why the ruler cannot be added to the forms, if there is one.
    pub(super) fn no_ruler(&self, told_nothing: bool) -> Option<&'static str> {
        self.ruler?;
        let taken = self.forms.iter().any(|form| form.name == RULER && form.weight.is_none());
        match &self.load {
            _ if taken => Some("a form of this study is called so already"),
            _ if told_nothing => Some("this protocol runs a tool, whose operations all count"),
            LoadProfile::Closed { .. } if self.peak.is_none() => None,
            _ => Some("its true size is known only in a closed loop"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::study::tests::read;

    fn text(load: &str, more: &str) -> String {
        format!("study: s\nworkload: toy\nload: {load}\nforms: {{plain: [], boxed: [box]}}\nruler: {more}\n")
    }

    #[test]
    fn a_ruler_is_the_baseline_with_a_weight() {
        let (mut study, _) = read(&text("{closed: {}}", "2%")).unwrap();
        assert_eq!(study.forms.len(), 2);
        study.lay_ruler();
        study.lay_ruler();
        let ruler = &study.forms[2];
        assert_eq!((study.forms.len(), ruler.name.as_str(), ruler.weight), (3, "ruler", Some(0.02)));
        assert_eq!(ruler.layers, study.forms[0].layers);
        assert_eq!(ruler.describe(), "plain process, 2 % more operations than count");
    }

    #[test]
    fn where_its_truth_is_not_known_there_is_none() {
        for (load, more, wanted) in [
            ("{closed: {}}", "0%", "a ruler must be 0.1 % to 100 %"),
            ("{closed: {}}", "101%", "a ruler must be"),
            ("{open: {rate: 10}}", "1%", "only in a closed loop"),
            ("{steps: {of: {closed: {}}, levels: [1, 2]}}", "1%", "only in a closed loop"),
        ] {
            let found = read(&text(load, more)).unwrap_err().join("\n");
            assert!(found.contains(wanted) && found.contains("s.yaml:5"), "{load}: {found}");
        }
        let named = text("{closed: {}}", "1%").replace("boxed", "ruler");
        assert!(read(&named).unwrap_err().join("").contains("called so already"));
    }
}
