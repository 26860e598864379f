//! `profile:` of a study: which of its forms are profiled.

use super::Study;
use crate::config::{Node, NodeKind, Problems};
use crate::form::Form;
use crate::profile::Profiled;

impl Profiled {
    /// Reads `true`, `false` or a list of forms.
    pub(super) fn read(node: &Node, forms: &[Form], problems: &mut Problems) -> Option<Profiled> {
        let NodeKind::List(items) = &node.kind else {
            return node.boolean(problems)?.then_some(Profiled::All);
        };
        let mut named = Vec::new();
        for item in items {
            let Some(name) = item.text(problems) else { continue };
            if !forms.iter().any(|form| form.name == name) {
                let known: Vec<&str> = forms.iter().map(|form| form.name.as_str()).collect();
                let hint = format!("its forms: {}", known.join(", "));
                problems.add(item.place, format!("the study has no form '{name}' to profile"), hint);
            }
            named.push(name);
        }
        Some(Profiled::Forms(named))
    }
}

impl Study {
    /// The forms that are profiled. The baseline comes first, since nothing could be compared without it.
    pub fn profiled(&self) -> Vec<String> {
        let Some(profiled) = &self.profile else { return Vec::new() };
        let wanted = |form: &&Form| match (profiled, &self.ladder) {
            _ if form.name == self.baseline => true,
            (Profiled::Forms(names), _) => names.contains(&form.name),
            (Profiled::All, Some(ladder)) => form.name == ladder.to,
            (Profiled::All, None) => true,
        };
        let mut names: Vec<String> = self.forms.iter().filter(wanted).map(|form| form.name.clone()).collect();
        names.sort_by_key(|name| *name != self.baseline);
        names
    }
}

#[cfg(test)]
mod tests {
    use crate::study::tests::{TextOf, read};

    fn profiled(more: &str) -> Result<Vec<String>, String> {
        let forms = "{boxed: [box: {}], plain: [], caged: [cage: {}]}";
        let text = TextOf { baseline: "plain", forms, design: "blocks" };
        read(&format!("{text}{more}\n")).map(|(study, _)| study.profiled()).map_err(|found| found.join("\n"))
    }

    #[test]
    fn a_study_says_which_forms_are_profiled_and_the_baseline_always_is() {
        assert_eq!(profiled("").unwrap(), Vec::<String>::new());
        assert_eq!(profiled("profile: false").unwrap(), Vec::<String>::new());
        assert_eq!(profiled("profile: true").unwrap(), ["plain", "boxed", "caged"]);
        assert_eq!(profiled("profile: [caged]").unwrap(), ["plain", "caged"]);
        assert_eq!(profiled("profile: true\nladder: boxed").unwrap(), ["plain", "boxed"]);
        assert!(profiled("profile: [none]").unwrap_err().contains("no form 'none' to profile"));
        assert!(profiled("profile: maybe").is_err());
    }
}
