//! A layer of a form, and what layers say about themselves: how they could be had with fewer features or changed, and
//! where services in them listen.

use crate::config::{Node, Problems};
use crate::load::LoadOrigin;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One layer of a form, with its options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayerUse {
    /// The layer's name in the table of layers.
    pub layer: String,
    /// The options as the layer wrote them after checking the user's, with every default filled in.
    pub options: Value,
}

/// The layer option that says how many copies of the layer there are, each with a part of what is deployed.
const GUESTS: &str = "guests";

impl LayerUse {
    /// How many copies of the layer there are.
    pub fn guests(&self) -> u64 {
        self.options.get(GUESTS).and_then(Value::as_u64).unwrap_or(1)
    }

    /// Whether `other` is the same layer with the same options, apart from the number of copies.
    pub fn is_like(&self, other: &LayerUse) -> bool {
        let options = |layer: &LayerUse| {
            let mut options = layer.options.clone();
            options.as_object_mut().map(|options| options.remove(GUESTS));
            options
        };
        self.layer == other.layer && options(self) == options(other)
    }
}

/// A layer with some of its features. When the layer itself makes the rung, the options have the layer's own type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerRung<O = Value> {
    /// What the rung adds to the name of the form being climbed to: short, a-z and -.
    pub name: &'static str,
    /// What it has that the rung before it lacks, for the reader.
    pub adds: &'static str,
    /// The layer's options, with every default filled in.
    pub options: O,
}

/// A layer with one thing changed. When the layer itself makes the variant, the options have the layer's own type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerVariant<O = Value> {
    /// What the variant adds to the name of the form it varies: short, a-z and -. It stays the same from version to
    /// version because others refer to it.
    pub name: &'static str,
    /// What changes, for the reader: "the host's network instead of a published port".
    pub changes: &'static str,
    /// What is given up for it, for the reader; empty if nothing is.
    pub trades: &'static str,
    /// The layer's options, with every default filled in.
    pub options: O,
}

/// Where services in a layer listen, as seen from the machine that the layer runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listens {
    /// At addresses of the layer's own, so it never conflicts with another form.
    Apart,
    /// At [`TrialContext::address`](crate::host::TrialContext::address), which is different for each of the forms that
    /// stand side by side.
    AtItsAddress,
    /// At every address of the machine, as plain processes do: nothing else can listen on the same ports there. The
    /// form without layers gets a network of its own when it stands beside others; a form with layers does not.
    Everywhere,
}

/// What a study asks of a layer: how its options are read, and what follows from them alone. `options` are always those
/// that [`LayerOptions::read`] returned. Every [`Layer`](crate::host::Layer) implements this automatically.
pub trait LayerOptions: Sync {
    /// The layer's name in study files.
    fn name(&self) -> &'static str;

    /// What it is, in a sentence.
    fn about(&self) -> &'static str;

    /// Checks a user's options and returns them with every default filled in. When it returns `None` it has added
    /// problems.
    fn read(&self, node: &Node, problems: &mut Problems) -> Option<Value>;

    /// The layer built up feature by feature, one more in each rung, up to the whole layer as given. It stands on the
    /// layers `below`; the load comes from `from`.
    fn rungs(&self, options: &Value, below: &[LayerUse], from: LoadOrigin) -> Vec<LayerRung>;

    /// Changes to the layer that may win back what it costs, one in each variant. The load comes from `from`.
    fn variants(&self, options: &Value, from: LoadOrigin) -> Vec<LayerVariant>;

    /// Where services in this layer listen, when it runs on this machine beside other forms.
    fn listens(&self, options: &Value) -> Listens;

    /// Whether services in this layer have a CPU quota, whatever the workload says.
    fn has_quota(&self, options: &Value) -> bool;
}
