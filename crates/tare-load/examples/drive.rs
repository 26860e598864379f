//! The load process alone: `cargo run --release -p tare-load --example drive < plan.json`. A plan contains a protocol's
//! options in the form they have after reading: `... --example drive options PROTOCOL < options.yaml` prints them.

use std::io::Read;
use std::process::ExitCode;
use tare_core::config::{Problems, parse};
use tare_load::{PROTOCOLS, protocol_named};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["options", protocol] => options(protocol),
        _ => tare_load::serve(PROTOCOLS, std::io::stdin(), std::io::stdout()),
    }
}

fn options(protocol: &str) -> ExitCode {
    let mut text = String::new();
    let Some(known) = protocol_named(PROTOCOLS, protocol) else { return ExitCode::FAILURE };
    if std::io::stdin().read_to_string(&mut text).is_err() {
        return ExitCode::FAILURE;
    }
    let mut problems = Problems::new("options", &text);
    let read = parse(&text, &mut problems).and_then(|node| known.read(&node, &mut problems));
    problems.into_vec().iter().for_each(|problem| eprintln!("{problem}"));
    match read {
        Some(options) => {
            println!("{options}");
            ExitCode::SUCCESS
        }
        None => ExitCode::FAILURE,
    }
}
