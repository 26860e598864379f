//! What every form promises: start, reach, read, tear down, and nothing left. By table: the plain process, and every
//! layer that this machine can have. Needs root; prints what it lacks otherwise.
//!
//! The service is this very program (see `service.rs`), which is statically linked: so a bundle is one file, and what
//! a service really gets is told by the service itself. Hence no usual test harness.

#[path = "contract/checks.rs"]
mod checks;
#[path = "contract/commands.rs"]
mod commands;
#[path = "contract/crash.rs"]
mod crash;
#[path = "contract/native.rs"]
mod native;
#[path = "contract/service.rs"]
mod service;
#[path = "contract/stage.rs"]
mod stage;

use std::panic::catch_unwind;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["serve", port, rest @ ..] => return service::serve(port.parse().expect("a port"), rest),
        ["ask", place] => return service::ask(place),
        ["resources"] => return service::resources(),
        ["tool", rest @ ..] => return service::tool(rest),
        ["doomed", run, options] => return crash::doomed(run, options),
        // What test runners ask for first.
        words if words.contains(&"--list") => return ExitCode::SUCCESS,
        _ => {}
    }
    let wanted: Vec<&&str> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let all = checks::all().into_iter().chain(native::all()).chain(crash::all());
    let mut failed = 0;
    for (name, needs_root, check) in all {
        if !wanted.is_empty() && !wanted.iter().any(|word| name.contains(**word)) {
            continue;
        }
        if needs_root && !rustix::process::geteuid().is_root() {
            println!("test {name} ... skipped: it needs root");
            continue;
        }
        let outcome = catch_unwind(check);
        println!("test {name} ... {}", if outcome.is_ok() { "ok" } else { "FAILED" });
        failed += usize::from(outcome.is_err());
    }
    ExitCode::from(u8::from(failed > 0))
}
