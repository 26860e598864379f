//! The program as its users see it.

mod bundles;
mod cli;
mod comparing;
mod end_to_end;
mod finding;
mod import;
mod itself;
mod labs;
mod load;
mod malformed;
mod papers;
mod peak;
mod power;
mod records;
#[path = "../../tare-report/tests/sample/mod.rs"]
mod sample;
mod starting;
mod strange;
mod toy;
