//! The load against real servers and against peers that misbehave.

mod admitted;
mod asked;
mod companions;
mod contract;
mod databases;
mod echo;
mod nginx;
mod peer;
mod truth;
mod turns;
