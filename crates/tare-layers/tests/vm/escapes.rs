//! The hostile program of `contract/escapes.rs` as a service of a guest, and of an engine in one: the same attempts,
//! the same table of what may succeed.

use crate::attempts::{Others, all, hostile_tree, not_allowed};
use crate::stage::{Stage, program, redis, vm};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as LocalAddr, UnixListener};
use std::process::ExitCode;
use std::time::Duration;
use tare_core::bundle::{Recipe, Source};
use tare_core::command::CommandStart;
use tare_core::host::{Host, ServiceStart};
use tare_core::layer::LayerUse;

/// How long a guest, which is emulated, may take for all attempts.
const WITHIN: Duration = Duration::from_secs(300);

/// What is started in a guest: answers as a Redis would whoever connects.
pub(crate) fn serve(port: u16) -> ExitCode {
    let listener = TcpListener::bind(("0.0.0.0", port)).expect("the port is free");
    for stream in listener.incoming() {
        let _ = stream.expect("accept").write_all(b"+PONG\r\n");
    }
    ExitCode::SUCCESS
}

/// What is run beside it.
pub(crate) fn tool(words: &[&str]) -> ExitCode {
    match words {
        // SAFETY: they cannot fail.
        ["ids"] => println!("{} {}", unsafe { libc::getuid() }, unsafe { libc::geteuid() }),
        ["escape", pid, file, name, place] => all(&Others {
            pid: pid.parse().expect("a number"),
            file: (*file).to_owned(),
            name: (*name).to_owned(),
            place: place.parse().expect("an address"),
        }),
        other => panic!("a tool does not know {other:?}"),
    }
    ExitCode::SUCCESS
}

fn printed(host: &mut dyn Host, words: &[&str]) -> String {
    let command = ["/bin/service", "tool"].iter().chain(words).map(|word| (*word).to_owned()).collect();
    let start = CommandStart { command, environment: BTreeMap::new(), directory: "/tmp".to_owned(), within: WITHIN };
    host.begin_command("redis", &start).unwrap();
    host.await_command("redis", WITHIN).unwrap().expect("it ends").stdout
}

/// Nothing succeeds that may not, in a guest with these layers in it.
pub(crate) fn refused(form: &str, inner: &[LayerUse]) {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    std::fs::create_dir_all(tree.join("bin")).unwrap();
    std::fs::copy(program(), tree.join("bin/service")).unwrap();
    hostile_tree(&tree);
    let mut start: ServiceStart = redis();
    start.service.recipe = Recipe::plain(Source::Folder(tree));
    start.service.command = ["/bin/service", "serve", "6379"].map(str::to_owned).to_vec();
    // As the first process of a container it does not hear that it is to end.
    start.service.stop_within = Duration::from_millis(200);

    let stage = Stage::open(std::slice::from_ref(&start), inner);
    // Of the machine that the guest is on.
    let name = format!("somebody-{}", std::process::id());
    let _by_name = UnixListener::bind_addr(&LocalAddr::from_abstract_name(&name).unwrap()).unwrap();
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let place = format!("{}:{}", stage.surroundings.address, listener.local_addr().unwrap().port());
    let mut host = stage.guest(&vm(json!({})), &program()).unwrap();
    for layer in inner {
        host = host.open(layer, &stage.surroundings).unwrap();
    }
    let answers = host.start(&start).unwrap().endpoints["main"];
    assert!(stage.answers(answers), "{form}: {}", host.log("redis").unwrap());
    // The guest's first process is the agent, which is root; in a container that number is the service's own, and
    // no process has this one.
    let pid = if inner.is_empty() { "1" } else { "30000" };
    let said = printed(host.as_mut(), &["escape", pid, "/proc/kpagecount", &name, &place]);
    let wrong = not_allowed(form, false, &said);
    assert!(stage.answers(answers), "{form}: it does not answer any more");
    host.close().unwrap();
    stage.close();
    assert!(wrong.is_empty(), "not as it is written down:\n{}", wrong.join("\n"));
}
