//! What studies and workloads may refer to, from the tables of the crates that implement it.

use tare_core::advice::LayerVariant;
use tare_core::config::{Node, Problems};
use tare_core::form::LayerUse;
use tare_core::host::{LayerRow, Listens};
use tare_core::ladder::LayerRung;
use tare_core::record::OwnMetric;
use tare_core::study::{Catalog, LoadOrigin};
use tare_layers::LAYERS;
use tare_load::PROTOCOLS;

/// The tables of layers and protocols.
pub(crate) struct Tables;

impl Catalog for Tables {
    fn layers(&self) -> Vec<&'static str> {
        LAYERS.iter().map(|row| row.name).collect()
    }

    fn layer_options(&self, layer: &str, node: &Node, problems: &mut Problems) -> Option<serde_json::Value> {
        (layer_row(layer)?.options)(node, problems)
    }

    fn protocols(&self) -> Vec<&'static str> {
        PROTOCOLS.iter().map(|row| row.name).collect()
    }

    fn protocol_options(&self, protocol: &str, node: &Node, problems: &mut Problems) -> Option<serde_json::Value> {
        (PROTOCOLS.iter().find(|row| row.name == protocol)?.options)(node, problems)
    }

    fn layer_rungs(&self, layer: &LayerUse, from: LoadOrigin) -> Vec<LayerRung> {
        layer_row(&layer.layer).map_or_else(Vec::new, |row| (row.rungs)(&layer.options, from))
    }

    fn layer_variants(&self, layer: &LayerUse, from: LoadOrigin) -> Vec<LayerVariant> {
        layer_row(&layer.layer).map_or_else(Vec::new, |row| (row.variants)(&layer.options, from))
    }

    fn layer_listens(&self, layer: &LayerUse) -> Listens {
        layer_row(&layer.layer).map_or(Listens::Apart, |row| (row.listens)(&layer.options))
    }

    fn protocol_tells_seconds(&self, protocol: &str) -> bool {
        PROTOCOLS.iter().find(|row| row.name == protocol).is_none_or(|row| row.tells_seconds)
    }

    fn protocol_runs_inside(&self, protocol: &str, options: &serde_json::Value) -> bool {
        PROTOCOLS.iter().find(|row| row.name == protocol).is_some_and(|row| (row.runs_inside)(options))
    }

    fn protocol_speaks_to(&self, protocol: &str, options: &serde_json::Value) -> Vec<String> {
        PROTOCOLS.iter().find(|row| row.name == protocol).map_or(Vec::new(), |row| (row.speaks_to)(options))
    }

    fn protocol_metrics(&self, protocol: &str, options: &serde_json::Value) -> Vec<OwnMetric> {
        PROTOCOLS.iter().find(|row| row.name == protocol).map_or(Vec::new(), |row| (row.metrics)(options))
    }

    fn protocol_operations(&self, protocol: &str, options: &serde_json::Value) -> Vec<String> {
        PROTOCOLS.iter().find(|row| row.name == protocol).map_or(Vec::new(), |row| (row.operations)(options))
    }
}

/// The row of a layer.
pub(crate) fn layer_row(layer: &str) -> Option<&'static LayerRow> {
    LAYERS.iter().find(|row| row.name == layer)
}
