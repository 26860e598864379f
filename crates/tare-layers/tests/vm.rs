//! Guests, really booted: start, reach, read, die, tear down, and nothing left. Needs root, QEMU, mmdebstrap and apt;
//! prints what it lacks otherwise.
//!
//! The agent in the guests is this very program, which is statically linked. Hence no usual test harness.

#[path = "contract/attempts.rs"]
mod attempts;
#[path = "vm/checks.rs"]
mod checks;
#[path = "vm/crash.rs"]
mod crash;
#[path = "vm/escapes.rs"]
mod escapes;
#[path = "vm/micro.rs"]
mod micro;
#[path = "vm/passt.rs"]
mod passt;
#[path = "vm/sharing.rs"]
mod sharing;
#[path = "vm/stage.rs"]
mod stage;

use libtest_mimic::{Arguments, Trial};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["agent", ..] => tare_layers::agent::run_guest(|| Ok(Box::new(stage::OneRow)), tare_layers::LAYERS),
        ["resources"] => {
            println!("{}", stage::report());
            return ExitCode::SUCCESS;
        }
        ["ask", place] => return stage::ask(place),
        ["serve", port] => return escapes::serve(port.parse().expect("a port")),
        ["tool", rest @ ..] => return escapes::tool(rest),
        ["serve-both", port] => return passt::serve(port.parse().expect("a port")),
        ["ask-by-datagram", place] => return passt::ask(place),
        ["doomed", run, network] => return crash::doomed(run, network),
        _ => {}
    }
    let run = |check: fn()| match stage::needs() {
        Ok(()) => check(),
        Err(why) => println!("skipped: {why}"),
    };
    let test = |(name, check): &(&str, fn())| {
        let check = *check;
        Trial::test(*name, move || {
            run(check);
            Ok(())
        })
    };
    libtest_mimic::run(&Arguments::from_args(), checks::ALL.iter().map(test).collect()).exit_code()
}
