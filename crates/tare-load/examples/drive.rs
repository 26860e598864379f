//! The load process by itself: `cargo run --release -p tare-load --example drive < plan.json`.

use std::process::ExitCode;

fn main() -> ExitCode {
    tare_load::serve(std::io::stdin(), std::io::stdout())
}
