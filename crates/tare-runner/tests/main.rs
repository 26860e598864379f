//! Runs over a stage of our own: designs, order, profiles, preparation, stops, and records of others.

mod designs;
mod order;
mod pacing;
mod preparing;
mod profiles;
mod stage;
mod stopping;
mod strangers;
