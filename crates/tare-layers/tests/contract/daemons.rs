//! A daemon that detaches itself, as many do, is part of its service in every form; a command beside the service is
//! not.

use crate::commands::{self, LONG, living, marked, wait_until_living};
use crate::stage::{self, Stage, free_port, service};
use std::path::Path;
use tare_core::host::{Availability, Host, Wait};
use tare_core::layer::LayerUse;

/// The forms, by the options of a container where there is one. Only a PID namespace gives a daemon back to its
/// service.
const FORMS: [(&str, Option<&str>); 6] = [
    ("native", None),
    ("container", Some("{}")),
    ("the machine's PID namespace", Some("{namespaces: host}")),
    ("Podman", Some("{engine: podman, runtime: runc, namespaces: host}")),
    ("runtime", Some("{by: runtime}")),
    ("runtime without namespaces", Some("{by: runtime, root: directory, namespaces: host, limits: affinity}")),
];

pub(crate) fn seen() {
    let kind = crate::checks::named("container");
    for (form, options) in FORMS {
        let layers: Vec<LayerUse> = options.map(|text| crate::checks::layer(kind, text)).into_iter().collect();
        let carrier = stage::carrier(Path::new("/"));
        match layers.first().map(|layer| kind.probe(&layer.options, &carrier)) {
            Some(Availability::Unavailable(why)) => {
                println!("skipped: a daemon that detaches itself, in '{form}': {why}");
            }
            _ => seen_in(form, &layers),
        }
    }
}

fn seen_in(form: &str, layers: &[LayerUse]) {
    let (daemon, beside) = (commands::mark(), commands::mark());
    let stage = Stage::open_numbered(15, |tree| {
        for name in ["daemon", "beside"] {
            std::fs::copy(tree.join("bin/service"), tree.join("bin").join(name)).unwrap();
        }
    });
    let start = service("one", free_port(), &["daemon", &daemon]);
    let mut host = stage.host(std::slice::from_ref(&start), layers);
    stage.ask(host.start(&start).unwrap().endpoints["main"]);
    // The service has it as a word, too.
    wait_until_living(&daemon, 2);
    let mapped = |host: &mut dyn Host| -> Vec<String> {
        host.mapped_files("one", Wait::always()).unwrap().into_iter().map(|file| file.path).collect()
    };
    assert_eq!(mapped(host.as_mut()), ["/bin/daemon", "/bin/service"], "{form}");
    let sampled = |host: &mut dyn Host, mark: &str| {
        let all = host.serving().unwrap();
        let scope = all.into_iter().find(|scope| scope.name == "one").expect("it is sampled");
        marked(mark).into_iter().filter(|pid| is_reached(*pid, &scope.pids)).count()
    };
    assert_eq!(sampled(host.as_mut(), &daemon), 2, "{form}");
    let mut command = commands::start(&["hang", &beside], LONG);
    "/bin/beside".clone_into(&mut command.command[0]);
    host.begin_command("one", &command).unwrap();
    wait_until_living(&beside, 2);
    assert_eq!(mapped(host.as_mut()), ["/bin/daemon", "/bin/service"], "{form}: beside a command");
    assert_eq!([&daemon, &beside].map(|mark| sampled(host.as_mut(), mark)), [2, 0], "{form}: beside a command");
    host.end_command("one").unwrap();
    host.stop("one").unwrap();
    assert_eq!(living(&daemon), 0, "{form}: the daemon lives on");
    host.close().unwrap();
    stage.close();
}

/// Whether a process is one of these or descends from one.
fn is_reached(pid: u32, from: &[u32]) -> bool {
    let parent = |pid: &u32| -> Option<u32> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    std::iter::successors(Some(pid), parent).any(|pid| from.contains(&pid))
}
