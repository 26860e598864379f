//! A hostile program in each form: what it tries is refused in all of them alike, or the difference stands here with
//! its reason, and in SECURITY.md. Six forms in some nine seconds: nothing else holds what a service may not do at all.

use crate::attempts::{ALLOWED, ALLOWED_AS_IMAGE, ATTEMPTS, hostile_tree, not_allowed};
use crate::commands::printed;
use crate::stage::{self, OWN, Stage, free_port, service};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as LocalAddr, UnixListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tare_core::host::Availability;
use tare_core::layer::LayerUse;

/// The forms in which a service may run as its image does: in all but containers without an engine.
pub(crate) fn forms_as_image() -> impl Iterator<Item = &'static (&'static str, Option<&'static str>)> {
    FORMS.iter().filter(|(form, _)| !["runtime", "nspawn", "LXC"].contains(form))
}

/// The forms, by the options of a container where there is one.
pub(crate) const FORMS: [(&str, Option<&str>); 6] = [
    ("native", None),
    ("container", Some("{}")),
    ("host network", Some("{network: host}")),
    ("runtime", Some("{by: runtime}")),
    ("nspawn", Some("{by: nspawn}")),
    ("LXC", Some("{by: lxc}")),
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

pub(crate) fn alike() {
    refused(false);
}

/// The same by a service that runs as its image does, and is root there.
pub(crate) fn alike_as_image() {
    refused(true);
}

fn refused(as_image: bool) {
    let kind = crate::checks::named("container");
    let mut wrong = Vec::new();
    for (form, options) in FORMS.iter().filter(|known| !as_image || forms_as_image().any(|form| form == *known)) {
        let layers: Vec<LayerUse> = options.map(|text| crate::checks::layer(kind, text)).into_iter().collect();
        let carrier = stage::carrier(Path::new("/"));
        if let Some(Availability::Unavailable(why)) = layers.first().map(|layer| kind.probe(&layer.options, &carrier)) {
            println!("skipped: what a hostile program can do in '{form}': {why}");
            continue;
        }
        wrong.extend(not_allowed(form, as_image, &tried(&layers, as_image)));
    }
    assert!(wrong.is_empty(), "not as it is written down:\n{}", wrong.join("\n"));
}

/// What the program says of its attempts.
fn tried(layers: &[LayerUse], as_image: bool) -> String {
    // Its /tmp is the image's own.
    let tree = |tree: &Path| {
        hostile_tree(tree);
        std::fs::create_dir(tree.join("tmp")).unwrap();
    };
    let (stage, somebody) = (Stage::open_numbered(9, tree), Somebody::new());
    let mut start = service("one", free_port(), &[]);
    (start.service.user, start.service.own_user) = ((OWN, OWN), true);
    if as_image {
        (start.service.user, start.service.own_user, start.service.as_image) = ((0, 0), false, true);
    }
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
    // It prints nothing where the kernel has ended it for lack of memory.
    assert!(processes.trim().parse().unwrap_or(0) <= tare_layers::local::PROCESSES, "{processes}");
    host.close().unwrap();
    stage.close();
    said
}

/// Each difference is told to whoever reads what is promised.
pub(crate) fn told() {
    let page = include_str!("../../../../SECURITY.md").split_whitespace().collect::<Vec<_>>().join(" ");
    for (name, forms, why) in ALLOWED.iter().chain(ALLOWED_AS_IMAGE) {
        assert!(ATTEMPTS.iter().any(|(attempt, _)| attempt == name), "nobody tries to {name}");
        let line = format!("| {name} | {} | {why} |", forms.join(", "));
        assert!(page.contains(&line), "SECURITY.md does not say: {line}");
    }
    assert!(page.contains(&format!("{} attempts", ATTEMPTS.len())), "SECURITY.md says another number of attempts");
}
