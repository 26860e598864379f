//! The container layer against a real engine. Needs root and a running engine; prints what it lacks otherwise.
//!
//! The service under test is this very program (see `service.rs`), which is statically linked: so a bundle is one
//! file, and what a service really gets is read by the service itself. Hence no usual test harness.

#[path = "container/checks.rs"]
mod checks;
#[path = "container/engines.rs"]
mod engines;
#[path = "container/own_images.rs"]
mod own_images;
#[path = "container/runtime.rs"]
mod runtime;
#[path = "container/service.rs"]
mod service;
#[path = "container/stage.rs"]
mod stage;

use libtest_mimic::{Arguments, Trial};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["serve", port, rest @ ..] => return service::serve(port.parse().expect("a port"), rest),
        ["ask", place, question] => return service::ask(place, question),
        ["resources"] => return service::resources(),
        _ => {}
    }
    let trials =
        checks::ALL.iter().chain(own_images::ALL).chain(engines::ALL).chain(runtime::ALL).map(|(name, check)| {
            Trial::test(*name, || {
                match stage::lacks() {
                    Some(why) => println!("skipped: {why}"),
                    None => check(),
                }
                Ok(())
            })
        });
    let done = libtest_mimic::run(&Arguments::from_args(), trials.collect());
    if stage::lacks().is_none()
        && let Some(image) = stage::image()
    {
        tare_layers::container::remove_image(&image.name).expect("the image can be removed");
    }
    done.exit_code()
}
