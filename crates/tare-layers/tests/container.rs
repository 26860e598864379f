//! The container layer against a real engine. Needs root and a running engine; prints what it lacks otherwise.
//!
//! The service under test is this very program (see `service.rs`), which is statically linked: so a bundle is one
//! file, and what a service really gets is read by the service itself. Hence no usual test harness.

#[path = "container/checks.rs"]
mod checks;
#[path = "container/runtime.rs"]
mod runtime;
#[path = "container/service.rs"]
mod service;
#[path = "container/stage.rs"]
mod stage;

use std::panic::catch_unwind;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["serve", port, rest @ ..] => return service::serve(port.parse().expect("a port"), rest),
        ["ask", place, question] => return service::ask(place, question),
        ["resources"] => return service::resources(),
        // What test runners ask for first.
        words if words.contains(&"--list") => return ExitCode::SUCCESS,
        _ => {}
    }
    if let Some(why) = stage::lacks() {
        println!("skipped: {why}");
        return ExitCode::SUCCESS;
    }
    let wanted: Vec<&&str> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let all = checks::ALL.iter().chain(runtime::ALL);
    let chosen = all.filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|w| name.contains(**w)));
    let mut failed = 0;
    for (name, check) in chosen {
        let outcome = catch_unwind(check);
        println!("test {name} ... {}", if outcome.is_ok() { "ok" } else { "FAILED" });
        failed += usize::from(outcome.is_err());
    }
    if let Some(image) = stage::image() {
        tare_layers::container::remove_image(&image.name).expect("the image can be removed");
    }
    ExitCode::from(u8::from(failed > 0))
}
