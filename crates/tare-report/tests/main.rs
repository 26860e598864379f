//! Reports, pages and messages, as they read.

mod golden;
mod html;
mod paper;
mod peak;
mod response;
mod sample;
mod schema;
mod side_by_side;
mod suite;
mod told;
mod verdicts;
