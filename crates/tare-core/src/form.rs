//! A deployment form is a named stack of layers over a host.

use crate::instances::Instances;
use crate::placement::Rules;
use serde::{Deserialize, Serialize};

/// A deployment form: its name and its layers, outermost first. No layer at all is the plain process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Form {
    /// The user's name for it.
    pub name: String,
    /// The layers, outermost first.
    pub layers: Vec<LayerUse>,
    /// By which rules services get their CPUs in this form; else those of the study hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Rules>,
    /// How often services are deployed in this form; what it leaves open is the study's.
    #[serde(default, skip_serializing_if = "Instances::is_empty")]
    pub instances: Instances,
}

/// One layer of a form, with its options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayerUse {
    /// The layer's name in the table of layers.
    pub layer: String,
    /// The options as the layer itself wrote them down after checking the user's, every default filled in.
    pub options: serde_json::Value,
}

impl Form {
    /// A short text for tables: `vm > container(network=published)`; options that hold nested values are left out.
    pub fn describe(&self) -> String {
        if self.layers.is_empty() {
            return "plain process".to_owned();
        }
        let layers: Vec<String> = self.layers.iter().map(|layer| layer.layer.clone()).collect();
        layers.join(" > ")
    }
}
