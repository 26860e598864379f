//! What a protocol implements, and the one place where the type of its options is erased.

use crate::engine::Emit;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::marker::PhantomData;
use std::time::Duration;
use tare_core::config::{Node, Problems};
use tare_core::fault::Fault;
use tare_core::load::{LoadPlan, LoadSummary, OwnMetric};
use tare_core::protocol::{ProtocolFacts, ProtocolInfo};

/// A protocol: the options that a workload may set, what follows from them, and what carries out a plan with them.
///
/// The implementing type is only a name for the protocol; no value of it is ever made here. [`erased`] turns it into an
/// item for a list of protocols.
pub trait LoadProtocol: 'static {
    /// The options, checked and with every default filled in. They are written as JSON into plans and records, and must
    /// be unchanged when read back.
    type Options: Serialize + DeserializeOwned;
    /// The name in workload files, under `protocol:`. It is in lower case, with words joined by `-`, and unique.
    const NAME: &'static str;
    /// What it is, in a sentence.
    const ABOUT: &'static str;
    /// Whether it reports every second what was done in it, as every protocol that uses [`drive`](crate::drive) does.
    /// An external tool reports once, at its end.
    const TELLS_SECONDS: bool = true;

    /// Checks a user's options and fills in every default. Returns `None` if it has added problems. The JSON
    /// Schema of workload files is made from these problems, so an unknown key or word is refused with those that are
    /// known: see [`Fields`](tare_core::config::Fields) and [`Node::unknown`].
    fn read(node: &Node, problems: &mut Problems) -> Option<Self::Options>;

    /// The names of the operations, at least one. Studies and workloads may name them, for time limits and for
    /// behaviours of users; they are those of [`Protocol::operations`](crate::operation::Protocol::operations), in any
    /// order.
    fn operations(options: &Self::Options) -> Vec<String>;

    /// The names of the values that operations capture, set or draw. A user's next operation may depend on them. None
    /// by default.
    fn variables(_options: &Self::Options) -> Vec<String> {
        Vec::new()
    }

    /// The metrics that the load itself defines, in addition to those of every trial. None by default.
    fn metrics(_options: &Self::Options) -> Vec<OwnMetric> {
        Vec::new()
    }

    /// The other services that the load connects to, such as those behind a proxy, by name. None by default.
    fn speaks_to(_options: &Self::Options) -> Vec<String> {
        Vec::new()
    }

    /// Whether the load is a tool that runs inside the form, next to the service. `false` by default.
    fn runs_inside(_options: &Self::Options) -> bool {
        false
    }

    /// How long a run of the load may take, if the options say so: then it is waited for as long. The time of the plan
    /// says it by default.
    fn runs_within(_options: &Self::Options) -> Option<Duration> {
        None
    }

    /// Checks that this machine has what the protocol needs. Called before anything is deployed. Nothing is needed by
    /// default.
    ///
    /// # Errors
    /// What is missing, and how to get it.
    fn check_needs(_options: &Self::Options) -> Result<(), Fault> {
        Ok(())
    }

    /// Carries out a plan. Most protocols pass a [`Protocol`](crate::operation::Protocol) made from the options to the
    /// engine: [`drive`](crate::drive).
    ///
    /// # Errors
    /// Why the plan could not be carried out.
    fn drive(plan: &LoadPlan, options: Self::Options, emit: &mut Emit<'_>) -> Result<LoadSummary, Fault>;
}

/// A protocol whose options are JSON: the item of lists of protocols. [`erased`] makes it.
pub trait ErasedProtocol: ProtocolInfo {
    /// See [`LoadProtocol::ABOUT`].
    fn about(&self) -> &'static str;

    /// See [`LoadProtocol::runs_within`]. None if the options are not this protocol's.
    fn runs_within(&self, options: &Value) -> Option<Duration>;

    /// See [`LoadProtocol::check_needs`].
    ///
    /// # Errors
    /// What is missing, and how to get it; or that the options are not this protocol's.
    fn check_needs(&self, options: &Value) -> Result<(), Fault>;

    /// See [`LoadProtocol::drive`].
    ///
    /// # Errors
    /// Why the plan could not be carried out; or that its options are not this protocol's.
    fn drive(&self, plan: &LoadPlan, emit: &mut Emit<'_>) -> Result<LoadSummary, Fault>;
}

/// The protocol of this name.
pub fn protocol_named(protocols: &[&'static dyn ErasedProtocol], name: &str) -> Option<&'static dyn ErasedProtocol> {
    protocols.iter().find(|protocol| protocol.name() == name).copied()
}

/// The protocol `P`, for a list of protocols.
pub const fn erased<P: LoadProtocol>() -> &'static dyn ErasedProtocol {
    Erased::<P>::ONLY
}

/// Stands for a protocol, which has no value of its own.
struct Erased<P>(PhantomData<fn() -> P>);

impl<P: LoadProtocol> Erased<P> {
    const ONLY: &'static dyn ErasedProtocol = &Erased::<P>(PhantomData);
}

impl<P: LoadProtocol> ProtocolInfo for Erased<P> {
    fn name(&self) -> &'static str {
        P::NAME
    }

    fn read(&self, node: &Node, problems: &mut Problems) -> Option<Value> {
        let options = P::read(node, problems)?;
        Some(serde_json::to_value(options).expect("options are plain data"))
    }

    fn facts(&self, options: &Value) -> ProtocolFacts {
        let Ok(options) = options_of::<P::Options>(P::NAME, options) else { return ProtocolFacts::default() };
        ProtocolFacts {
            operations: P::operations(&options),
            variables: P::variables(&options),
            metrics: P::metrics(&options),
            speaks_to: P::speaks_to(&options),
            runs_inside: P::runs_inside(&options),
        }
    }

    fn tells_seconds(&self) -> bool {
        P::TELLS_SECONDS
    }
}

impl<P: LoadProtocol> ErasedProtocol for Erased<P> {
    fn about(&self) -> &'static str {
        P::ABOUT
    }

    fn runs_within(&self, options: &Value) -> Option<Duration> {
        P::runs_within(&options_of::<P::Options>(P::NAME, options).ok()?)
    }

    fn check_needs(&self, options: &Value) -> Result<(), Fault> {
        P::check_needs(&options_of::<P::Options>(P::NAME, options)?)
    }

    fn drive(&self, plan: &LoadPlan, emit: &mut Emit<'_>) -> Result<LoadSummary, Fault> {
        P::drive(plan, options_of::<P::Options>(P::NAME, &plan.options)?, emit)
    }
}

/// Options from their written form.
fn options_of<T: DeserializeOwned>(protocol: &str, options: &Value) -> Result<T, Fault> {
    T::deserialize(options).map_err(|error| {
        Fault::new(format!("the plan's options are not those of protocol '{protocol}': {error}"))
            .remedy("read the workload again with this version of tare")
    })
}
