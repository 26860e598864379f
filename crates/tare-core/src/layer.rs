//! A layer of a form, and what layers say of themselves: what they could be with less, or otherwise, and where services
//! in them listen.

use crate::config::{Node, Problems};
use crate::load::LoadOrigin;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One layer of a form, with its options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayerUse {
    /// The layer's name in the table of layers.
    pub layer: String,
    /// The options as the layer itself wrote them down after checking the user's, every default filled in.
    pub options: Value,
}

/// The option of a layer that says how often it stands there, with a part of what is deployed in each.
const GUESTS: &str = "guests";

impl LayerUse {
    /// How often the layer stands there.
    pub fn guests(&self) -> u64 {
        self.options.get(GUESTS).and_then(Value::as_u64).unwrap_or(1)
    }

    /// Whether the other one is the same layer with the same options, but for how often it stands there.
    pub fn is_like(&self, other: &LayerUse) -> bool {
        let options = |layer: &LayerUse| {
            let mut options = layer.options.clone();
            options.as_object_mut().map(|options| options.remove(GUESTS));
            options
        };
        self.layer == other.layer && options(self) == options(other)
    }
}

/// A layer with a part of its features; its options are of the layer's own type where the layer makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerRung<O = Value> {
    /// By which the form is called after the one that is climbed to: short, a-z and -.
    pub name: &'static str,
    /// What it has that the rung before had not, for the reader.
    pub adds: &'static str,
    /// The layer's options, every default filled in.
    pub options: O,
}

/// A layer with one thing otherwise; its options are of the layer's own type where the layer makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerVariant<O = Value> {
    /// By which the form is called after the one that it varies: short, a-z and -. It stays the same from version to
    /// version, for others refer to it.
    pub name: &'static str,
    /// What is otherwise, for the reader: "the host's network instead of a published port".
    pub changes: &'static str,
    /// What is given up for it, for the reader; nothing where nothing is.
    pub trades: &'static str,
    /// The layer's options, every default filled in.
    pub options: O,
}

/// Where services in a layer listen, as seen from the machine that the layer stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listens {
    /// At addresses of the layer's own: it gets in nobody's way.
    Apart,
    /// At [`TrialContext::address`](crate::host::TrialContext::address), which forms that stand side by side have each
    /// for itself.
    AtItsAddress,
    /// At every address of the machine, as plain processes do: nothing else can listen at the same ports there. The
    /// form without layers gets a network of its own beside others; a form with layers does not.
    Everywhere,
}

/// What a study asks of a layer: how its options are read, and what follows from them alone. Options are those that
/// [`LayerOptions::read`] wrote down. Every [`Layer`](crate::host::Layer) answers these by itself.
pub trait LayerOptions: Sync {
    /// The layer's name in study files.
    fn name(&self) -> &'static str;

    /// What it is, in a sentence.
    fn about(&self) -> &'static str;

    /// Checks a user's options and writes them down with every default filled in. `None` adds problems.
    fn read(&self, node: &Node, problems: &mut Problems) -> Option<Value>;

    /// The layer by its features, one more in each rung, up to the whole layer as it is given; on the layers `below`
    /// it, with the load from there.
    fn rungs(&self, options: &Value, below: &[LayerUse], from: LoadOrigin) -> Vec<LayerRung>;

    /// What could be otherwise in the layer and may win back what it costs, one thing in each; with the load from
    /// there.
    fn variants(&self, options: &Value, from: LoadOrigin) -> Vec<LayerVariant>;

    /// Where services in this layer listen, when it stands on this machine beside other forms.
    fn listens(&self, options: &Value) -> Listens;

    /// Whether services in this layer get their CPU time by quota, whatever the workload says.
    fn has_quota(&self, options: &Value) -> bool;
}
