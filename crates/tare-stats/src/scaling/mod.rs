//! Scaling: how throughput grows with the number of users, connections or instances. Speed-up and efficiency are
//! measured; the universal scalability law (Gunther) is fitted to them and sums them up in two coefficients, when it
//! fits at all. It serves to explain and to plan measurements, never to state a maximum: that is what a peak search
//! is for.

mod caution;
mod law;
mod records;
mod sweep;
mod table;

pub use caution::Caution;
pub use law::Law;
pub use records::{FormScaling, scaling_of_records, scaling_of_steps};
pub use sweep::{LevelValue, Pairing, Scaling, scaling};
pub use table::{LawFit, LevelRow, Parameter};
