//! What differs between the conditions of several records.

use crate::condition::{Condition, Conditions, OfForm};
use std::collections::BTreeSet;

/// A condition in which several records are not all alike. Its words are made in reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Differing {
    /// What.
    pub condition: Condition,
    /// By record: what it is there, as JSON; none where it is not.
    pub values: Vec<Option<String>>,
}

/// What differs between several lists of conditions. Records that lack a form say nothing of that form, and one that
/// only one of them has differs in nothing.
pub fn differing(all: &[Conditions]) -> Vec<Differing> {
    let conditions: BTreeSet<&Condition> = all.iter().flat_map(Conditions::keys).collect();
    let is_apart = |condition: &Condition| {
        let form = condition.form().map(|form| Condition::of_form(form, OfForm::Layers));
        let has_form = |of: &&Conditions| form.as_ref().is_none_or(|form| of.contains_key(form));
        let values: BTreeSet<Option<&String>> = all.iter().filter(has_form).map(|of| of.get(condition)).collect();
        values.len() > 1
    };
    let row = |condition: &Condition| Differing {
        condition: condition.clone(),
        values: all.iter().map(|of| of.get(condition).cloned()).collect(),
    };
    conditions.into_iter().filter(|condition| is_apart(condition)).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions(pairs: &[(&str, &str)]) -> Conditions {
        pairs.iter().map(|(key, value)| (Condition::from_key(key).unwrap(), (*value).to_owned())).collect()
    }

    #[test]
    fn what_is_not_the_same_everywhere_is_a_row_with_a_value_for_each_record() {
        let of = |kernel: &str, engine: Option<&str>| {
            let kernel = ("environment.kernel", kernel);
            let form = engine.map(|engine| [("form.box.layers", "[]"), ("form.box.fact.engine", engine)]);
            conditions(&form.into_iter().flatten().chain([kernel, ("workload", "w")]).collect::<Vec<_>>())
        };
        let found = differing(&[of("6.1", Some("26")), of("6.1", None), of("6.12", Some("27"))]);
        let keys: Vec<String> = found.iter().map(|row| row.condition.key()).collect();
        assert_eq!(keys, ["form.box.fact.engine", "environment.kernel"]);
        assert_eq!(found[0].values, [Some("26".to_owned()), None, Some("27".to_owned())]);
        // Of the engine of a form that one record alone has there is nothing to compare.
        assert_eq!(differing(&[of("6.1", Some("26")), of("6.1", None), of("6.1", None)]), []);
        assert_eq!(differing(&[of("6.1", None)]), []);
    }
}
