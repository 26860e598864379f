//! Runs over a stage of our own: designs, order, profiles, preparation.

mod designs;
mod order;
mod pacing;
mod preparing;
mod profiles;
mod stage;
