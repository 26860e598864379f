//! Users of their own: no instance can reach into another, and each finds its name in its root, alike in every form.

use crate::commands::printed;
use crate::native::scope_of;
use crate::stage::{self, OWN, Stage, free_port, property, service};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use tare_core::host::{Availability, Host, ServiceStart};
use tare_core::layer::LayerUse;
use tare_testkit::files;

const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
const GROUP: &str = "root:x:0:\nnogroup:x:65534:\n";

/// A container by a runtime that differs from a plain process in as little as can be.
const LEAST: &str = "{by: runtime, root: directory, namespaces: host, limits: affinity}";

/// Two instances as a workload has them that is spelled out and states no user.
fn two() -> [ServiceStart; 2] {
    [("one", OWN), ("two", OWN + 1)].map(|(name, id)| {
        let mut start = service(name, free_port(), &[]);
        (start.service.user, start.service.own_user) = ((id, id), true);
        // As the first process of a container it does not hear that it is to end.
        start.service.stop_within = std::time::Duration::from_millis(200);
        start
    })
}

/// Runs a check in the plain form and in those containers that this machine can have.
fn in_forms(options: &[&str], check: impl Fn(&str, &[LayerUse])) {
    check("native", &[]);
    let kind = crate::checks::named("container");
    for text in options {
        let layer = crate::checks::layer(kind, text);
        match kind.probe(&layer.options, &stage::carrier(Path::new("/"))) {
            Availability::Ready(_) => check(text, &[layer]),
            Availability::Emulated(_, why) | Availability::Unavailable(why) => {
                println!("skipped: the users of '{text}': {why}");
            }
        }
    }
}

fn usual(tree: &Path) {
    files::write(&tree.join("etc/passwd"), PASSWD);
    files::write(&tree.join("etc/group"), GROUP);
}

pub(crate) fn apart() {
    in_forms(&["{}", "{by: runtime}", LEAST, "{by: nspawn}", "{by: lxc}"], |form, layers| {
        let stage = Stage::open_numbered(2, usual);
        let starts = two();
        let mut host = stage.host(&starts, layers);
        for (start, id) in starts.iter().zip(OWN..) {
            let instance = host.start(start).unwrap();
            assert_eq!(instance.warnings, [] as [String; 0], "{form}");
            let report = stage.ask(instance.endpoints["main"]);
            for name in ["uid", "gid"] {
                assert_eq!(property(&report, name), format!("{id} {id} {id} {id}"), "{form}: {name}");
            }
            // Engines put a user's own group among the others.
            let groups = property(&report, "groups");
            assert!(groups.is_empty() || groups == id.to_string(), "{form}: {groups}");
            assert_eq!(property(&report, "write /data"), "yes", "{form}: its volume is its own");
        }
        out_of_reach(form, host.as_mut(), &starts[1]);
        host.close().unwrap();
        stage.close();
    });
}

/// What the first instance can do to the second, and as a control each to itself.
fn out_of_reach(form: &str, host: &mut dyn Host, two: &ServiceStart) {
    let pids = ["one", "two"].map(|name| scope_of(host, name).pids[0]);
    let mut told = |by: &str, words: &[&str]| printed(host, by, "/bin/service", words);
    let sees_all = form == "native" || form == LEAST;
    let signals = [pids[0], pids[1]].map(|pid| told("one", &["signal", &pid.to_string()]));
    let wanted = if sees_all { ["signalled\n", "not permitted\n"] } else { ["no such process\n"; 2] };
    assert_eq!(signals, wanted, "{form}");

    let secret = host.volumes(two).expect("volumes stand on this machine")[0].join("secret");
    std::fs::write(&secret, "s").unwrap();
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::chown(&secret, Some(two.service.user.0), Some(two.service.user.1)).unwrap();
    let mut told = |by: &str, words: &[&str]| printed(host, by, "/bin/service", words);
    let way = format!("/proc/{}/root/data/secret", pids[1]);
    assert_eq!(told("two", &["read", "/data/secret"]), "read\n", "{form}");
    let wanted = if sees_all { ["permission denied\n", "read\n"] } else { ["entity not found\n"; 2] };
    assert_eq!(["one", "two"].map(|by| told(by, &["read", &way])), wanted, "{form}");
}

/// A bundle, by number and by what is in it, and its /etc/passwd and /etc/group as an instance sees them.
type Case<'a> = (u8, &'a dyn Fn(&Path), String, String);

pub(crate) fn named() {
    let nothing = |_: &Path| {};
    let linked = |tree: &Path| {
        usual(tree);
        // Without an end of its last line, and with the name that is wanted.
        files::write(&tree.join("lib/users"), "tare-66536:x:5:5::/:/x");
        std::fs::remove_file(tree.join("etc/passwd")).unwrap();
        symlink("/lib/users", tree.join("etc/passwd")).unwrap();
    };
    let line = |name: &str| format!("{name}:x:66536:66536::/nonexistent:/usr/sbin/nologin\n");
    let group = "tare-66536:x:66536:\n";
    let cases: [Case; 3] = [
        (2, &usual, format!("{PASSWD}{}", line("tare-66536")), format!("{GROUP}{group}")),
        (3, &nothing, line("tare-66536"), group.to_owned()),
        (4, &linked, format!("tare-66536:x:5:5::/:/x\n{}", line("tare-66536-")), format!("{GROUP}{group}")),
    ];
    in_forms(&["{}", "{read_only: true}", "{by: runtime}", "{by: nspawn}", "{by: lxc}"], |form, layers| {
        // A root that cannot be written to is another matter only where something is missing in it.
        let (all, lacking) = (0..cases.len(), 1..2);
        for (number, fill, passwd, group) in &cases[if form.contains("read_only") { lacking } else { all }] {
            let stage = Stage::open_numbered(*number, fill);
            let [start, _] = two();
            let mut host = stage.host(std::slice::from_ref(&start), layers);
            let instance = host.start(&start).unwrap();
            assert_eq!(instance.warnings, [] as [String; 0], "{form}, {number}");
            stage.ask(instance.endpoints["main"]);
            for (path, text) in [("/etc/passwd", passwd), ("/etc/group", group)] {
                let seen = printed(host.as_mut(), "one", "/bin/service", &["print-file", path]);
                assert_eq!(seen, *text, "{form}, {number}: {path}");
            }
            let mounts = std::fs::read_to_string(format!("/proc/{}/mounts", scope_of(host.as_mut(), "one").pids[0]));
            let (mounts, name) = (mounts.unwrap(), if *number == 4 { "/lib/users" } else { "/etc/passwd" });
            let line = mounts.lines().find(|line| line.contains(&format!(" {name} "))).unwrap_or_default();
            assert!(line.contains(" ro,"), "{form}, {number}: '{line}' in {mounts}");
            host.close().unwrap();
            stage.close();
        }
    });
}

/// A bundle whose /etc leads out of it, or to what cannot be read as a file.
pub(crate) fn hostile() {
    let fill = |tree: &Path| {
        std::fs::create_dir(tree.join("etc")).unwrap();
        symlink("../../../../../../../../../etc/passwd-", tree.join("etc/passwd")).unwrap();
        std::fs::create_dir(tree.join("etc/group")).unwrap();
    };
    let stage = Stage::open(fill);
    let [start, _] = two();
    let mut host = stage.host(&[], &[]);
    let instance = host.start(&start).unwrap();
    let wanted = ["/etc/passwd does not name the user 66536", "/etc/group does not name the user 66536"];
    assert!(instance.warnings.len() == 2, "{:?}", instance.warnings);
    for (warning, wanted) in instance.warnings.iter().zip(wanted) {
        assert!(warning.contains("service 'one'") && warning.contains(wanted), "{warning}");
    }
    let report = stage.ask(instance.endpoints["main"]);
    assert_eq!(property(&report, "uid"), "66536 66536 66536 66536");
    assert_eq!(printed(host.as_mut(), "one", "/bin/service", &["read", "/etc/passwd"]), "entity not found\n");
    host.close().unwrap();
    stage.close();
}
