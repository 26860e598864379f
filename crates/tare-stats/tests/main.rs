//! The statistics over records and simulated experiments.

mod advice;
mod analysis;
mod between_runs;
mod bounds;
mod ceiling;
mod contrast;
mod evidence;
mod failures;
mod ladder;
mod peak;
mod records;
mod ruler;
mod simulated;
