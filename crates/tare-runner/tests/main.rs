//! Runs over a stage of our own: designs, order, profiles, preparation, stops, what is kept standing, and records of
//! others.

mod designs;
mod keeping;
mod once;
mod order;
mod pacing;
mod preparing;
mod profiles;
mod readiness;
mod stage;
mod stopping;
mod strangers;
