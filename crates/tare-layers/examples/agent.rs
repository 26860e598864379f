//! The smallest program that can be a guest's agent and a form's resource probe: what the tests of this crate put in
//! the place of `tare` itself.

use tare_core::fault::Fault;
use tare_core::telemetry::{Prober, Scope, TelemetryRow};

/// Samples nothing but that it was asked.
struct Nothing;

impl Prober for Nothing {
    fn begin(&mut self, _: &[Scope], _: std::time::Duration) -> Result<(), Fault> {
        Ok(())
    }

    fn end(&mut self) -> Result<Vec<TelemetryRow>, Fault> {
        Ok(Vec::new())
    }
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("agent") => tare_layers::agent::run_guest(|| Ok(Box::new(Nothing))),
        Some("resources") => println!("{{\"properties\":{{}}}}"),
        _ => {
            eprintln!("usage: agent (agent | resources)");
            std::process::exit(2);
        }
    }
}
