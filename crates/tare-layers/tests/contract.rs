//! What every form promises: start, reach, read, tear down, and nothing left. By table: the plain process, and every
//! layer that this machine can have. Needs root; prints what it lacks otherwise.
//!
//! The service is this very program (see `service.rs`), which is statically linked: so a bundle is one file, and what
//! a service really gets is told by the service itself. Hence no usual test harness.

#[path = "contract/attempts.rs"]
mod attempts;
#[allow(unreachable_pub, reason = "it is what CONTRIBUTING shows, which stands in a library")]
#[path = "contract/cage.rs"]
mod cage;
#[path = "contract/canaries.rs"]
mod canaries;
#[path = "contract/checks.rs"]
mod checks;
#[path = "contract/commands.rs"]
mod commands;
#[path = "contract/confined.rs"]
mod confined;
#[path = "contract/crash.rs"]
mod crash;
#[path = "contract/daemons.rs"]
mod daemons;
#[path = "contract/escapes.rs"]
mod escapes;
#[path = "contract/image.rs"]
mod image;
#[path = "contract/mock.rs"]
mod mock;
#[path = "contract/names.rs"]
mod names;
#[path = "contract/native.rs"]
mod native;
#[path = "contract/private.rs"]
mod private;
#[path = "contract/service.rs"]
mod service;
#[path = "contract/sharing.rs"]
mod sharing;
#[path = "contract/stage.rs"]
mod stage;
#[path = "contract/users.rs"]
mod users;

use libtest_mimic::{Arguments, Trial};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["serve", port, rest @ ..] => return service::serve(port.parse().expect("a port"), rest),
        ["ask-by-datagram", place] => return service::ask_by_datagram(place),
        ["ask", place] => return service::ask(place),
        ["resources"] => return service::resources(),
        ["tool", rest @ ..] => return service::tool(rest),
        ["doomed", run, options] => return crash::doomed(run, options),
        ["owner", run] => return crash::owner(run),
        _ => {}
    }
    let all = checks::all().into_iter().chain(native::all()).chain(crash::all());
    let trials = all.map(|(name, needs_root, check)| {
        Trial::test(name, move || {
            if !needs_root || tare_testkit::needs::root().is_some() {
                check();
            }
            Ok(())
        })
    });
    let done = libtest_mimic::run(&Arguments::from_args(), trials.collect());
    let images = tare_layers::container::cached_images().unwrap_or_default();
    for image in images.iter().filter(|image| image.name.contains(&stage::program_digits())) {
        tare_layers::container::remove_image(&image.name).expect("the image can be removed");
    }
    done.exit_code()
}
