//! A deployment form is a named stack of layers over a host.

use crate::instances::Instances;
use crate::layer::LayerUse;
use crate::placement::Rules;
use crate::workload::OwnResources;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A deployment form: its name and its layers, outermost first. Without layers it is the plain process.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Form {
    /// The user's name for it.
    pub name: String,
    /// The layers, outermost first.
    pub layers: Vec<LayerUse>,
    /// The rules by which services get their CPUs in this form; otherwise the study's apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Rules>,
    /// How many instances of services are deployed in this form; the study's values apply to what it leaves open.
    #[serde(default, skip_serializing_if = "Instances::is_empty")]
    pub instances: Instances,
    /// Levels of service options in this form; the study's apply to the others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// What services get in this form; the study's values apply to what it leaves open.
    #[serde(default, skip_serializing_if = "OwnResources::is_empty")]
    pub resources: OwnResources,
    /// For a ruler: how many extra operations are made for each that counts. What they take is a known weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
}

impl Form {
    /// How many guests there are in total, if there are any.
    pub fn guests(&self) -> u64 {
        self.layers.iter().map(LayerUse::guests).product()
    }

    /// Whether the other form has the same layers, apart from their number of copies, and gives services the same
    /// options and resources.
    pub fn is_like(&self, other: &Form) -> bool {
        (&self.options, self.resources) == (&other.options, other.resources)
            && self.layers.len() == other.layers.len()
            && self.layers.iter().zip(&other.layers).all(|(one, other)| one.is_like(other))
    }

    /// A short text for tables: `vm > container`, `plain process, persistence=always`.
    pub fn describe(&self) -> String {
        let layers: Vec<&str> = self.layers.iter().map(|layer| layer.layer.as_str()).collect();
        self.with_own(if layers.is_empty() { "plain process".to_owned() } else { layers.join(" > ") })
    }

    /// A text about its layers, followed by what else is its own: the options and resources of services.
    pub fn with_own(&self, layers: String) -> String {
        let told = self.options.iter().map(|(option, level)| format!("{option}={level}"));
        let weight = self.weight.map(|share| format!("{} % more operations than count", percent(share)));
        [layers].into_iter().chain(told).chain(self.resources.words()).chain(weight).collect::<Vec<_>>().join(", ")
    }
}

/// 0.01 as 1, without the digits that binary fractions add.
pub(crate) fn percent(share: f64) -> f64 {
    (share * 1e6).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn forms_are_alike_but_for_the_number_of_guests() {
        let form = |options: serde_json::Value| Form {
            name: "f".to_owned(),
            layers: vec![LayerUse { layer: "box".to_owned(), options }],
            ..Form::default()
        };
        let (one, four) = (form(json!({"lid": true, "guests": 1})), form(json!({"lid": true, "guests": 4})));
        assert_eq!((one.guests(), four.guests(), form(json!({})).guests()), (1, 4, 1));
        assert!(one.is_like(&four) && one.is_like(&form(json!({"lid": true}))));
        assert!(!one.is_like(&form(json!({"lid": false, "guests": 1}))));
        assert!(!one.is_like(&Form { layers: Vec::new(), ..one.clone() }));
        assert!(form(json!(null)).is_like(&form(json!(null))));
    }
}
