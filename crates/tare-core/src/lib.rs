//! Tare's vocabulary: what a study asks, what a workload is, what a form is made of, what a trial leaves behind, and
//! the traits through which the other crates meet.
//!
//! **Architecture invariant:** this crate does no I/O, reads no clock, starts nothing and knows no layer, workload,
//! protocol or telemetry source by name. Everything here can be built and compared in a unit test.

pub mod advice;
pub mod bundle;
pub mod catalog;
pub mod command;
pub mod config;
mod counted;
pub mod design;
pub mod draws;
mod ending;
mod environment;
pub mod fault;
pub mod form;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod held;
pub mod host;
pub mod image;
pub mod instances;
pub mod lab;
pub mod ladder;
pub mod layer;
pub mod load;
pub mod parameters;
pub mod peak;
pub mod placement;
pub mod plan;
pub mod profile;
pub mod protocol;
pub mod qos;
pub mod record;
pub mod secrets;
mod seen;
mod stop_signal;
pub mod study;
pub mod telemetry;
pub mod topology;
pub mod trial;
pub mod units;
mod users;
mod way_in;
pub mod workload;
