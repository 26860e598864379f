//! Runs over a stage of our own: designs, order, profiles, preparation.

mod designs;
mod order;
mod preparing;
mod profiles;
mod stage;
