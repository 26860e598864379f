//! A layer of a form, and what layers say of themselves: what they could be with less, or otherwise, and where services
//! in them listen.

use serde::{Deserialize, Serialize};

/// One layer of a form, with its options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LayerUse {
    /// The layer's name in the table of layers.
    pub layer: String,
    /// The options as the layer itself wrote them down after checking the user's, every default filled in.
    pub options: serde_json::Value,
}

/// The option of a layer that says how often it stands there, with a part of what is deployed in each.
const GUESTS: &str = "guests";

impl LayerUse {
    /// How often the layer stands there.
    pub fn guests(&self) -> u64 {
        self.options.get(GUESTS).and_then(serde_json::Value::as_u64).unwrap_or(1)
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

/// A layer with a part of its features.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerRung {
    /// By which the form is called after the one that is climbed to: short, a-z and -.
    pub name: &'static str,
    /// What it has that the rung before had not, for the reader.
    pub adds: &'static str,
    /// The layer's options, every default filled in.
    pub options: serde_json::Value,
}

/// A layer with one thing otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerVariant {
    /// By which the form is called after the one that it varies: short, a-z and -. It stays the same from version to
    /// version, for others refer to it.
    pub name: &'static str,
    /// What is otherwise, for the reader: "the host's network instead of a published port".
    pub changes: &'static str,
    /// What is given up for it, for the reader; nothing where nothing is.
    pub trades: &'static str,
    /// The layer's options, every default filled in.
    pub options: serde_json::Value,
}

/// Where services in a layer listen, as seen from the machine that the layer stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listens {
    /// At addresses of the layer's own: it gets in nobody's way.
    Apart,
    /// At [`Surroundings::address`](crate::host::Surroundings::address), which forms that stand side by side have each
    /// for itself.
    AtItsAddress,
    /// At every address of the machine: nothing else can listen at the same ports there.
    Everywhere,
}
