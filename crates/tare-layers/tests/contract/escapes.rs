//! A hostile program in each form: what it tries is refused in all of them alike, or the difference stands here with
//! its reason, and in SECURITY.md. Four forms in some six seconds: nothing else holds what a service may not do at all.

use crate::attempts::ATTEMPTS;
use crate::commands::printed;
use crate::stage::{self, OWN, Stage, free_port, service};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr as LocalAddr, UnixListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tare_core::form::LayerUse;
use tare_core::host::Availability;

/// The forms, by the options of a container where there is one.
const FORMS: [(&str, Option<&str>); 4] = [
    ("native", None),
    ("container", Some("{}")),
    ("host network", Some("{network: host}")),
    ("runtime", Some("{by: runtime}")),
];

/// What may succeed, in which forms, and why. What is not named here is refused everywhere. It is a bound: what a
/// machine or an engine refuses by itself is no mistake.
#[rustfmt::skip]
const ALLOWED: &[(&str, &[&str], &str)] = &[
    ("connect to the machine", &["native", "container", "host network", "runtime"],
     "services are not kept from the network"),
    ("make a user namespace", &["native", "runtime"], "they have no filter of system calls, and the machine lets everybody"),
    ("mount in a user namespace", &["native", "runtime"], "it is seen there and nowhere else"),
    ("reach a socket by its name", &["native", "host network", "runtime"],
     "a socket without a file belongs to a network, and theirs is the machine's"),
    ("listen at a low port", &["container"], "in a network of its own an engine lets everybody"),
];

/// Files, sockets and a process of somebody else's.
struct Somebody {
    secret: tempfile::NamedTempFile,
    name: String,
    _listens: (UnixListener, TcpListener),
    port: u16,
    sleeper: Child,
}

impl Somebody {
    fn new() -> Somebody {
        let secret = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(secret.path(), "s").unwrap();
        let name = format!("somebody-{}", std::process::id());
        let by_name = UnixListener::bind_addr(&LocalAddr::from_abstract_name(&name).unwrap()).unwrap();
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let sleeper = Command::new("sleep").arg("1000").stdout(Stdio::null()).spawn().unwrap();
        Somebody { secret, name, _listens: (by_name, listener), port, sleeper }
    }
}

impl Drop for Somebody {
    fn drop(&mut self) {
        let _ = self.sleeper.kill();
        let _ = self.sleeper.wait();
    }
}

/// A bundle with a set-user-id program and a device.
fn hostile(tree: &Path) {
    std::fs::copy(tree.join("bin/service"), tree.join("bin/raised")).unwrap();
    std::fs::set_permissions(tree.join("bin/raised"), std::fs::Permissions::from_mode(0o6755)).unwrap();
    let (place, all) = (tree.join("bin/node"), Mode::from(0o666));
    mknodat(CWD, &place, FileType::CharacterDevice, all, makedev(1, 1)).unwrap();
    std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o666)).unwrap();
}

pub(crate) fn alike() {
    let row = crate::checks::row("container");
    let mut wrong = Vec::new();
    for (form, options) in FORMS {
        let layers: Vec<LayerUse> = options.map(|text| crate::checks::layer(row, text)).into_iter().collect();
        let carrier = stage::carrier(Path::new("/"));
        if let Some(Availability::Unavailable(why)) = layers.first().map(|layer| (row.probe)(&layer.options, &carrier))
        {
            println!("skipped: what a hostile program can do in '{form}': {why}");
            continue;
        }
        for (attempt, outcome) in tried(&layers) {
            let allowed = ALLOWED.iter().any(|(name, forms, _)| *name == attempt && forms.contains(&form));
            if outcome == "done" && !allowed {
                wrong.push(format!("{form}: {attempt}: {outcome}"));
            }
        }
    }
    assert!(wrong.is_empty(), "not as it is written down:\n{}", wrong.join("\n"));
}

/// What every attempt comes to, by its name.
fn tried(layers: &[LayerUse]) -> BTreeMap<String, String> {
    let (stage, somebody) = (Stage::open_numbered(9, hostile), Somebody::new());
    let mut start = service("one", free_port(), &[]);
    (start.service.user, start.service.own_user) = ((OWN, OWN), true);
    // As the first process of a container it does not hear that it is to end.
    start.service.stop_within = std::time::Duration::from_millis(200);
    let mut host = stage.host(std::slice::from_ref(&start), layers);
    let place = host.start(&start).unwrap().endpoints["main"];
    stage.ask(place);
    let file = somebody.secret.path().to_str().unwrap();
    let machine = format!("{}:{}", stage.surroundings(&[], &[]).address, somebody.port);
    let pid = somebody.sleeper.id().to_string();
    let words = ["escape", &pid, file, &somebody.name, &machine];
    let said = printed(host.as_mut(), "one", "/bin/service", &words);
    stage.ask(place);
    let processes = printed(host.as_mut(), "one", "/bin/service", &["fork-bomb"]);
    // It prints nothing where the kernel has ended it for want of memory.
    assert!(processes.trim().parse().unwrap_or(0) <= tare_layers::local::PROCESSES, "{processes}");
    host.close().unwrap();
    stage.close();
    let outcomes = said.lines().filter_map(|line| line.split_once(": "));
    let outcomes: BTreeMap<_, _> = outcomes.map(|(name, how)| (name.to_owned(), how.to_owned())).collect();
    assert!(ATTEMPTS.iter().all(|(name, _)| outcomes.contains_key(*name)), "{said}");
    outcomes
}

/// Each difference is told to whoever reads what is promised.
pub(crate) fn told() {
    let page = include_str!("../../../../SECURITY.md").split_whitespace().collect::<Vec<_>>().join(" ");
    for (name, forms, why) in ALLOWED {
        assert!(ATTEMPTS.iter().any(|(attempt, _)| attempt == name), "nobody tries to {name}");
        let line = format!("| {name} | {} | {why} |", forms.join(", "));
        assert!(page.contains(&line), "SECURITY.md does not say: {line}");
    }
    assert!(page.contains(&format!("{} attempts", ATTEMPTS.len())), "SECURITY.md says another number of attempts");
}
