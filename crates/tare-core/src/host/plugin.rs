//! A layer as its author writes it, with options of its own type, and as the rest of the program sees it, with options
//! as JSON. One adapter stands between the two, and converts them. Without their type, the JSON is only compared and
//! merged by key (ladders), and asked for `guests` ([`LayerUse::guests`](crate::layer::LayerUse::guests)).

use super::{
    Availability, CachedItem, Facts, GuestNeeds, Host, Leftover, LocalOuter, MachineServices, OpenError, TrialContext,
};
use crate::config::{Node, Problems};
use crate::fault::{Doing, Fault};
use crate::layer::{LayerOptions, LayerRung, LayerUse, LayerVariant, Listens};
use crate::load::LoadOrigin;
use crate::workload::Service;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::Write;

/// Fetches an image from a registry, by its reference, and writes it as `docker save` does. The writer may refuse more
/// for lack of room.
pub type FetchImage = fn(&str, &mut dyn Write) -> Result<(), Fault>;

/// All the layers there are. The binary makes the list and hands it to whoever needs it.
pub type Layers = &'static [&'static dyn ErasedLayer];

/// The layer of this name.
pub fn layer_named(layers: Layers, name: &str) -> Option<&'static dyn ErasedLayer> {
    layers.iter().find(|layer| layer.name() == name).copied()
}

/// A kind of layer. Implement it for a type without fields and put a reference to that type into the list of
/// [`Layers`]. Each method with a default says what the default is; write the methods where the layer differs.
pub trait Layer: Sync + 'static {
    /// The layer's options, with a value for each. They are serialized into records, so an option that is added later
    /// needs a `#[serde(default)]`. A layer in this repository serializes each option under the name that it has in
    /// studies: a test compares these names with the layers' README.
    type Options: Serialize + DeserializeOwned + Clone;

    /// The layer's name in study files: a-z, 0-9 and -, like `container`.
    const NAME: &'static str;
    /// What it is, in a sentence, for `tare doctor` and the documentation.
    const ABOUT: &'static str;
    /// Fetches an image from a registry, where the layer has an engine that can.
    const PULL: Option<FetchImage> = None;

    /// Checks a user's options and fills in every default. When it returns `None` it has added problems.
    fn read(node: &Node, problems: &mut Problems) -> Option<Self::Options>;

    /// Whether this machine can have the layer, and what it would be. Called before a study starts; may take seconds.
    /// The facts are recorded with the form and passed to [`Layer::words`]; a trial records the [`Host::facts`] of the
    /// host that [`Layer::open`] returned.
    fn probe(options: &Self::Options, carrier: &MachineServices) -> Availability;

    /// What [`Layer::probe`] found, in a few words: which software it is, and which version.
    fn words(facts: &Facts) -> String;

    /// Whether [`Layer::probe`] may find that this machine only emulates the layer ([`Availability::Emulated`]).
    const MAY_BE_EMULATED: bool = false;

    /// The ways in which this machine can have the layer, where its options choose among several, for `tare doctor`:
    /// each in a few words, with the option that asks for it. May take seconds. None by default.
    fn ways() -> Vec<String> {
        Vec::new()
    }

    /// Opens the layer on a host of this machine; the contract is [`Host::open`]'s.
    ///
    /// # Errors
    /// See [`Host::open`].
    fn open(
        options: Self::Options,
        outer: Box<dyn LocalOuter>,
        surroundings: &TrialContext,
    ) -> Result<Box<dyn Host>, OpenError>;

    /// Where services in this layer listen, when it runs on this machine beside other forms. By default
    /// [`Listens::Apart`]: a layer that leaves services in the network of its outer host must return
    /// [`Listens::Everywhere`].
    fn listens(_options: &Self::Options) -> Listens {
        Listens::Apart
    }

    /// Whether services in this layer have a CPU quota, whatever the workload says. By default they do not.
    fn has_quota(_options: &Self::Options) -> bool {
        false
    }

    /// How much of this machine's memory a deployment takes when this layer is its outermost one, bytes, given what its
    /// services are allowed and what the layers further inside need for themselves. By default, what the services are
    /// allowed.
    fn memory_bytes(_options: &Self::Options, services: u64, _inner: u64) -> u64 {
        services
    }

    /// The layer built up feature by feature, one more in each rung, up to the whole layer as given. It stands on the
    /// layers `below`; the load comes from the given origin. By default the whole layer is the only rung.
    fn rungs(options: &Self::Options, _below: &[LayerUse], _from: LoadOrigin) -> Vec<LayerRung<Self::Options>> {
        vec![LayerRung { name: "whole", adds: "the layer as a whole", options: options.clone() }]
    }

    /// Changes to the layer that may win back what it costs, one in each variant, with the load from the given origin.
    /// None by default.
    fn variants(_options: &Self::Options, _from: LoadOrigin) -> Vec<LayerVariant<Self::Options>> {
        Vec::new()
    }

    /// Whether what a form deploys can be distributed as the options say. By default it can.
    ///
    /// # Errors
    /// Why it cannot.
    fn fits(_options: &Self::Options, _services: &[Service]) -> Result<(), Fault> {
        Ok(())
    }

    /// What a guest must have for this layer to be opened in it; bundles are attached to it as disks, in this order. By
    /// default, only the services' bundles, as trees.
    fn in_guest(_options: &Self::Options) -> GuestNeeds {
        GuestNeeds::default()
    }

    /// What this layer left on this machine, from any run, alive or dead. Never anything that is not ours. Nothing by
    /// default: what the local host left is found without the layer.
    ///
    /// # Errors
    /// When that cannot be determined, for example because an engine does not answer.
    fn leftovers() -> Result<Vec<Leftover>, Fault> {
        Ok(Vec::new())
    }

    /// Removes one of them; removing what is already gone succeeds.
    ///
    /// # Errors
    /// When it is still there.
    fn remove(_leftover: &Leftover) -> Result<(), Fault> {
        Ok(())
    }

    /// What this layer keeps on this machine between runs, to save time. Nothing by default.
    ///
    /// # Errors
    /// When that cannot be determined.
    fn kept() -> Result<Vec<CachedItem>, Fault> {
        Ok(Vec::new())
    }

    /// Removes one of them; removing what is already gone succeeds.
    ///
    /// # Errors
    /// When it is still there.
    fn forget(_kept: &CachedItem) -> Result<(), Fault> {
        Ok(())
    }
}

/// A [`Layer`] with untyped options: all that the rest of the program sees of a layer. Every layer implements it
/// automatically. Its methods are the layer's, with options as [`LayerOptions::read`] returned them.
pub trait ErasedLayer: LayerOptions {
    /// See [`Layer::probe`]. If the layer cannot read the options, it is unavailable.
    fn probe(&self, options: &Value, carrier: &MachineServices) -> Availability;

    /// See [`Layer::words`].
    fn words(&self, facts: &Facts) -> String;

    /// See [`Layer::MAY_BE_EMULATED`].
    fn may_be_emulated(&self) -> bool;

    /// See [`Layer::ways`].
    fn ways(&self) -> Vec<String>;

    /// See [`Layer::memory_bytes`].
    fn memory_bytes(&self, options: &Value, services: u64, inner: u64) -> u64;

    /// See [`Layer::fits`].
    ///
    /// # Errors
    /// Why it does not fit, or that the layer cannot read the options.
    fn fits(&self, options: &Value, services: &[Service]) -> Result<(), Fault>;

    /// See [`Layer::in_guest`].
    ///
    /// # Errors
    /// When the layer cannot read the options.
    fn in_guest(&self, options: &Value) -> Result<GuestNeeds, Fault>;

    /// See [`Layer::open`].
    ///
    /// # Errors
    /// See [`Host::open`].
    fn open(
        &self,
        options: &Value,
        outer: Box<dyn LocalOuter>,
        surroundings: &TrialContext,
    ) -> Result<Box<dyn Host>, OpenError>;

    /// See [`Layer::leftovers`].
    ///
    /// # Errors
    /// When that cannot be determined.
    fn leftovers(&self) -> Result<Vec<Leftover>, Fault>;

    /// See [`Layer::remove`].
    ///
    /// # Errors
    /// When it is still there.
    fn remove(&self, leftover: &Leftover) -> Result<(), Fault>;

    /// See [`Layer::kept`].
    ///
    /// # Errors
    /// When that cannot be determined.
    fn kept(&self) -> Result<Vec<CachedItem>, Fault>;

    /// See [`Layer::forget`].
    ///
    /// # Errors
    /// When it is still there.
    fn forget(&self, kept: &CachedItem) -> Result<(), Fault>;

    /// See [`Layer::PULL`].
    fn pull(&self) -> Option<FetchImage>;
}

/// Options as they are stored.
fn written<O: Serialize>(options: &O) -> Value {
    serde_json::to_value(options).expect("a layer's options are plain data")
}

/// Options as the layer has them.
fn read_back<L: Layer>(options: &Value) -> Result<L::Options, Fault> {
    L::Options::deserialize(options).doing(format!("understand the options of the layer '{}'", L::NAME))
}

/// What the layer answers; `otherwise` if it cannot read its options, which probing and opening it report.
fn answer<L: Layer, T>(options: &Value, otherwise: T, ask: impl FnOnce(&L::Options) -> T) -> T {
    read_back::<L>(options).map_or(otherwise, |options| ask(&options))
}

impl<L: Layer> LayerOptions for L {
    fn name(&self) -> &'static str {
        L::NAME
    }

    fn about(&self) -> &'static str {
        L::ABOUT
    }

    fn read(&self, node: &Node, problems: &mut Problems) -> Option<Value> {
        <L as Layer>::read(node, problems).map(|options| written(&options))
    }

    fn rungs(&self, options: &Value, below: &[LayerUse], from: LoadOrigin) -> Vec<LayerRung> {
        let rungs = answer::<L, _>(options, Vec::new(), |options| <L as Layer>::rungs(options, below, from));
        let erased = |LayerRung { name, adds, options }| LayerRung { name, adds, options: written(&options) };
        rungs.into_iter().map(erased).collect()
    }

    fn variants(&self, options: &Value, from: LoadOrigin) -> Vec<LayerVariant> {
        let variants = answer::<L, _>(options, Vec::new(), |options| <L as Layer>::variants(options, from));
        let erased = |LayerVariant { name, changes, trades, options }| LayerVariant {
            name,
            changes,
            trades,
            options: written(&options),
        };
        variants.into_iter().map(erased).collect()
    }

    fn listens(&self, options: &Value) -> Listens {
        answer::<L, _>(options, Listens::Apart, <L as Layer>::listens)
    }

    fn has_quota(&self, options: &Value) -> bool {
        answer::<L, _>(options, false, <L as Layer>::has_quota)
    }
}

impl<L: Layer> ErasedLayer for L {
    fn probe(&self, options: &Value, carrier: &MachineServices) -> Availability {
        match read_back::<L>(options) {
            Ok(options) => <L as Layer>::probe(&options, carrier),
            Err(fault) => Availability::Unavailable(fault),
        }
    }

    fn words(&self, facts: &Facts) -> String {
        <L as Layer>::words(facts)
    }

    fn may_be_emulated(&self) -> bool {
        <L as Layer>::MAY_BE_EMULATED
    }

    fn ways(&self) -> Vec<String> {
        <L as Layer>::ways()
    }

    fn memory_bytes(&self, options: &Value, services: u64, inner: u64) -> u64 {
        answer::<L, _>(options, services, |options| <L as Layer>::memory_bytes(options, services, inner))
    }

    fn fits(&self, options: &Value, services: &[Service]) -> Result<(), Fault> {
        <L as Layer>::fits(&read_back::<L>(options)?, services)
    }

    fn in_guest(&self, options: &Value) -> Result<GuestNeeds, Fault> {
        read_back::<L>(options).map(|options| <L as Layer>::in_guest(&options))
    }

    fn open(
        &self,
        options: &Value,
        outer: Box<dyn LocalOuter>,
        surroundings: &TrialContext,
    ) -> Result<Box<dyn Host>, OpenError> {
        match read_back::<L>(options) {
            Ok(options) => <L as Layer>::open(options, outer, surroundings),
            Err(fault) => {
                // Report the first failure, not that of the repair.
                let _ = outer.close();
                Err(OpenError::Failed(fault))
            }
        }
    }

    fn leftovers(&self) -> Result<Vec<Leftover>, Fault> {
        <L as Layer>::leftovers()
    }

    fn remove(&self, leftover: &Leftover) -> Result<(), Fault> {
        <L as Layer>::remove(leftover)
    }

    fn kept(&self) -> Result<Vec<CachedItem>, Fault> {
        <L as Layer>::kept()
    }

    fn forget(&self, kept: &CachedItem) -> Result<(), Fault> {
        <L as Layer>::forget(kept)
    }

    fn pull(&self) -> Option<FetchImage> {
        L::PULL
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Fields, parse};
    use serde_json::json;

    /// Implements only what it must.
    struct Jar;

    #[derive(Clone, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct JarOptions {
        lid: bool,
    }

    impl Layer for Jar {
        type Options = JarOptions;

        const NAME: &'static str = "jar";
        const ABOUT: &'static str = "a jar";

        fn read(node: &Node, problems: &mut Problems) -> Option<JarOptions> {
            let before = problems.len();
            let mut fields = Fields::of(node, "layer 'jar'", problems)?;
            let lid = fields.boolean("lid", problems).unwrap_or(true);
            fields.finish(problems);
            (problems.len() == before).then_some(JarOptions { lid })
        }

        fn probe(_: &JarOptions, _: &MachineServices) -> Availability {
            Availability::Unavailable(Fault::new("there are no jars"))
        }

        fn words(_: &Facts) -> String {
            "jars".to_owned()
        }

        fn open(_: JarOptions, _: Box<dyn LocalOuter>, _: &TrialContext) -> Result<Box<dyn Host>, OpenError> {
            Err(OpenError::Unavailable(Fault::new("there are no jars")))
        }
    }

    const LAYERS: Layers = &[&Jar];

    #[test]
    fn a_layer_says_only_what_is_its_own() {
        assert!(layer_named(LAYERS, "jam").is_none());
        let jar = layer_named(LAYERS, "jar").unwrap();
        let read = |text: &str| {
            let mut problems = Problems::new("s.yaml", text);
            let node = parse(text, &mut problems).unwrap();
            (jar.read(&node, &mut problems), problems.len())
        };
        assert_eq!(read("{lit: true}"), (None, 1));
        let options = read("{}").0.unwrap();
        assert_eq!(options, json!({ "lid": true }));
        let rungs = jar.rungs(&options, &[], LoadOrigin::Outside);
        assert_eq!(rungs.into_iter().map(|rung| rung.options).collect::<Vec<_>>(), std::slice::from_ref(&options));
        assert_eq!(jar.variants(&options, LoadOrigin::Outside), []);
        assert_eq!((jar.listens(&options), jar.has_quota(&options)), (Listens::Apart, false));
        assert_eq!((jar.memory_bytes(&options, 7, 5), jar.fits(&options, &[])), (7, Ok(())));
        assert_eq!(jar.in_guest(&options), Ok(GuestNeeds::default()));
        assert!(jar.leftovers().unwrap().is_empty() && jar.kept().unwrap().is_empty() && jar.pull().is_none());
    }

    #[test]
    fn options_of_another_version_are_named() {
        let jar = layer_named(LAYERS, "jar").unwrap();
        let options = json!({ "lid": true, "label": "plums" });
        for fault in [jar.fits(&options, &[]).unwrap_err(), jar.in_guest(&options).unwrap_err()] {
            let wanted = "could not understand the options of the layer 'jar': unknown field `label`";
            assert!(fault.message.starts_with(wanted), "{fault}");
        }
        assert_eq!(jar.rungs(&options, &[], LoadOrigin::Outside), []);
        assert_eq!((jar.listens(&options), jar.memory_bytes(&options, 7, 5)), (Listens::Apart, 7));
    }
}
