//! Guests, really booted: start, reach, read, die, tear down, and nothing left. Needs root, QEMU, mmdebstrap and apt;
//! prints what it lacks otherwise.
//!
//! The agent in the guests is this very program, which is statically linked. Hence no usual test harness.

#[path = "vm/checks.rs"]
mod checks;
#[path = "vm/stage.rs"]
mod stage;

use std::panic::catch_unwind;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["agent", ..] => tare_layers::agent::run_guest(|| Ok(Box::new(stage::OneRow))),
        ["resources"] => {
            println!("{}", stage::report());
            return ExitCode::SUCCESS;
        }
        ["ask", place] => return stage::ask(place),
        ["doomed", run] => return checks::doomed(run),
        // What test runners ask for first.
        words if words.contains(&"--list") => return ExitCode::SUCCESS,
        _ => {}
    }
    if let Err(why) = stage::needs() {
        println!("skipped: {why}");
        return ExitCode::SUCCESS;
    }
    let wanted: Vec<&&str> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let mut failed = 0;
    for (name, check) in checks::ALL {
        if !wanted.is_empty() && !wanted.iter().any(|word| name.contains(**word)) {
            continue;
        }
        let outcome = catch_unwind(check);
        println!("test {name} ... {}", if outcome.is_ok() { "ok" } else { "FAILED" });
        failed += usize::from(outcome.is_err());
    }
    ExitCode::from(u8::from(failed > 0))
}
