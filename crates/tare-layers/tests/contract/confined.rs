//! That a service has no privileges and no way to gain any, whatever is in its bundle.

use crate::commands::printed;
use crate::stage::{self, Stage, free_port, property, service};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};
use tare_core::host::{Availability, Host, ResourceReport};
use tare_core::layer::LayerUse;
use tare_layers::lock::MachineLock;

/// Users that no service may have, however they got into its workload.
pub(crate) fn refused_users(form: &str, host: &mut dyn Host) {
    for user in [(0, 0), (0, 5), (u32::MAX, 5), (5, u32::MAX)] {
        let mut start = service("one", free_port(), &[]);
        start.service.user = user;
        let fault = host.start(&start).expect_err("it was started");
        assert!(fault.to_string().contains(&format!("{}:{}", user.0, user.1)), "{form}: {fault}");
        assert!(host.resources(&start).is_err(), "{form}: {user:?} was probed");
    }
}

/// What every form takes from a service.
pub(crate) fn without_privileges(form: &str, host: &mut dyn Host, report: &ResourceReport) {
    for name in ["capabilities", "permitted", "inheritable", "ambient"] {
        assert_eq!(property(report, name), "0000000000000000", "{form}: {name}");
    }
    assert_eq!(property(report, "no new privileges"), "1", "{form}");
    assert_eq!(property(report, "open files"), "", "{form}");
    let facts = host.facts().unwrap();
    if facts.values().any(|fact| fact.to_lowercase().contains("podman")) {
        return println!("skipped: the bounding set of '{form}': Podman's is another than Docker's");
    }
    assert_eq!(property(report, "bounds"), "00000000a80425fb", "{form}: as Docker leaves it");
}

/// The machine's lock, when whoever has it is done.
fn to_oneself() -> MachineLock {
    for _ in 0..1200 {
        if let Ok(lock) = MachineLock::take("a check of Tare's").unwrap() {
            return lock;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("another run has been under way on this machine for two minutes");
}

/// A way to ask at a place, and whether there was an answer.
pub(crate) type Ask = fn(&Stage, SocketAddr) -> bool;

pub(crate) fn is_answered(from: &Stage, place: SocketAddr) -> bool {
    from.try_ask(place).is_some()
}

/// Nobody is answered. All ask at once, as whoever is not answered waits.
pub(crate) fn expect_closed(form: &str, ways: &[(&Stage, Ask, SocketAddr)], path: &str) {
    std::thread::scope(|scope| {
        let asked: Vec<_> = ways.iter().map(|(from, ask, place)| scope.spawn(move || ask(from, *place))).collect();
        for ((from, _, place), answered) in ways.iter().zip(asked) {
            let from = from.surroundings(&[], &[]).address;
            assert!(!answered.join().unwrap(), "{form}: from beyond {from}, {place} is reached, {path}");
        }
    });
}

/// Nobody but the load and this machine reaches a service on the machine's own network, at ports that its workload
/// declares or does not, and nobody is kept from what listens there when it has ended.
pub(crate) fn kept_from_others() {
    /// A user that no other check has.
    const KEPT: u32 = stage::OWN + 500;
    let _machine = to_oneself();
    for (form, layers) in on_the_machines_network() {
        // Another run's seat for load is a machine of the lab, on another link.
        let (stage, lab) = (Stage::open(|_| {}), Stage::open(|_| {}));
        // Its child listens at the next port, and it answers datagrams at the one after that: both undeclared.
        let mut start = service("one", three_free_ports(), &["child", "datagrams"]);
        (start.service.user, start.service.own_user) = ((KEPT, KEPT), true);
        // As the first process of a container it does not hear that it is to end.
        start.service.stop_within = Duration::from_millis(200);
        let mut host = stage.host(std::slice::from_ref(&start), &layers);
        let instance = host.start(&start).unwrap();
        // And another machine comes while the service stands.
        let late = Stage::open(|_| {});
        let late_place = |place| SocketAddr::new(late.surroundings(&[], &[]).address, place);
        let declared = instance.endpoints["main"];
        let after = |place: SocketAddr, number| SocketAddr::new(place.ip(), place.port() + number);
        let own = SocketAddr::from(([127, 0, 0, 1], declared.port()));
        let at_lab = SocketAddr::new(lab.surroundings(&[], &[]).address, declared.port());
        let mut closed: Vec<(&Stage, Ask, SocketAddr)> = Vec::new();
        for number in [0, 1] {
            stage.ask(after(declared, number));
            assert!(TcpStream::connect(after(own, number)).is_ok(), "{form}: this machine itself is kept out");
            closed.extend([declared, at_lab].map(|place| (&lab, is_answered as Ask, after(place, number))));
            closed.push((&late, is_answered, late_place(declared.port() + number)));
        }
        assert!(stage.comes_back(after(declared, 2)), "{form}: the load's datagrams are kept out");
        closed.push((&lab, Stage::comes_back, after(at_lab, 2)));
        closed.push((&late, Stage::comes_back, late_place(declared.port() + 2)));
        // To all who hear at that port, in whatever network.
        let all = SocketAddr::from(([224, 0, 0, 1], declared.port() + 2));
        assert!(stage.comes_back(all), "{form}: what the load sends to all is kept out");
        if !instance.path.contains("what is sent to all") {
            closed.push((&lab, Stage::comes_back, all));
        }
        expect_closed(form, &closed, &instance.path);
        if !instance.path.contains("what is sent to all") {
            // Covered as soon as it is told of; what it does by then could still be heard.
            let deadline = Instant::now() + Duration::from_secs(20);
            while late.comes_back(all) {
                assert!(
                    Instant::now() < deadline,
                    "{form}: what who came late sends to all reaches it, {}",
                    instance.path
                );
            }
        }
        // The service has the number for connections alone.
        let other = UdpSocket::bind(("0.0.0.0", declared.port())).unwrap();
        std::thread::spawn(move || other.recv_from(&mut [0; 8]).map(|(_, from)| other.send_to(b"x", from)));
        assert!(lab.comes_back(at_lab), "{form}: another's datagrams are kept from the lab");
        host.stop("one").unwrap();
        for number in [0, 1] {
            let other = TcpListener::bind(("0.0.0.0", declared.port() + number)).unwrap();
            std::thread::spawn(move || other.accept().map(|(mut other, _)| other.write_all(b"{\"properties\": {}}")));
            assert!(lab.try_ask(after(at_lab, number)).is_some(), "{form}: another's service is kept from the lab");
        }
        host.close().unwrap();
        stage.close();
        lab.close();
        late.close();
    }
}

/// A port that nothing uses, and nor the next two: even ones are those of others' connections more often than not.
fn three_free_ports() -> u16 {
    let free =
        |port: &u16| TcpListener::bind(("0.0.0.0", port + 1)).is_ok() && UdpSocket::bind(("0.0.0.0", port + 2)).is_ok();
    std::iter::repeat_with(free_port).find(free).expect("there is no end of them")
}

/// Forms whose services stand on the machine's own network, as far as this machine has them.
fn on_the_machines_network() -> Vec<(&'static str, Vec<LayerUse>)> {
    let kind = crate::checks::named("container");
    let mut forms = vec![("native", Vec::new())];
    for options in ["{network: host}", "{by: runtime}", "{by: nspawn}", "{by: lxc}"] {
        let layer = crate::checks::layer(kind, options);
        match kind.probe(&layer.options, &stage::carrier(Path::new("/"))) {
            Availability::Unavailable(why) => println!("skipped: container '{options}': {why}"),
            _ => forms.push((options, vec![layer])),
        }
    }
    forms
}

/// A service listens at the port below 1024 that it declares; nobody else may, nor the service elsewhere, and the
/// machine's own bound stays as it is.
pub(crate) fn low_port() {
    const PORT: u16 = 617;
    let bound = || std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap();
    for (form, layers) in on_the_machines_network() {
        let before = bound();
        let stage = Stage::open(|_| {});
        let mut start = service("one", PORT, &[]);
        (start.service.user, start.service.own_user) = ((stage::OWN + 501, stage::OWN + 501), true);
        start.service.stop_within = Duration::from_millis(200);
        let mut host = stage.host(std::slice::from_ref(&start), &layers);
        let instance = host.start(&start).unwrap();
        stage.ask(instance.endpoints["main"]);
        let (during, narrow) = (bound(), !instance.path.contains("everybody on this machine may listen"));
        if narrow {
            assert_eq!(during, before, "{form}");
            let listen = |port: u16| printed(host.as_mut(), "one", "/bin/service", &["listen", &port.to_string()]);
            assert_eq!([PORT + 1, 0].map(listen), ["permission denied\n", "listening\n"], "{form}");
        } else {
            assert!(during.trim().parse::<u16>().unwrap() <= PORT, "{form}: {during}, {}", instance.path);
        }
        host.stop("one").unwrap();
        host.close().unwrap();
        stage.close();
        assert_eq!(bound(), before, "{form}: what was before");
    }
}

/// A bundle with what strangers put into theirs, from a process that leaves a file open for its children.
pub(crate) fn hostile_bundle() {
    let fill = |tree: &Path| {
        std::fs::copy(tree.join("bin/service"), tree.join("bin/raised")).unwrap();
        std::fs::set_permissions(tree.join("bin/raised"), std::fs::Permissions::from_mode(0o6755)).unwrap();
        // The same device as /dev/zero, which every machine has and every service may open.
        let (place, all) = (tree.join("bin/node"), Mode::from(0o666));
        mknodat(CWD, &place, FileType::CharacterDevice, all, makedev(1, 5)).unwrap();
        std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o666)).unwrap();
    };
    let stage = Stage::open(fill);
    let open = std::fs::File::create(stage.folder().join("inherited")).unwrap();
    rustix::io::fcntl_setfd(&open, rustix::io::FdFlags::empty()).unwrap();
    let mut host = stage.host(&[], &[]);
    let place = host.start(&service("one", free_port(), &[])).unwrap().endpoints["main"];
    let report = stage.ask(place);
    without_privileges("native", host.as_mut(), &report);
    let uid = stage::USER.0;
    let ids = printed(host.as_mut(), "one", "/bin/raised", &["ids"]);
    assert_eq!(ids, format!("{uid} {uid} {uid} {uid}\n"), "a set-user-id program");
    assert_eq!(printed(host.as_mut(), "one", "/bin/service", &["read", "/dev/zero"]), "read\n");
    assert_eq!(printed(host.as_mut(), "one", "/bin/service", &["read", "/bin/node"]), "permission denied\n");
    let pid = crate::native::scope_of(host.as_mut(), "one").pids[0];
    let mounts = std::fs::read_to_string(format!("/proc/{pid}/mounts")).unwrap();
    for line in mounts.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let has = |word: &str| fields[3].split(',').any(|flag| flag == word);
        let devices = ["/dev", "/dev/pts"].contains(&fields[1]);
        assert!(has("nosuid") && (devices || has("nodev")), "{line}");
    }
    assert!(mounts.lines().any(|line| line.contains(" /data ")), "{mounts}");
    drop(open);
    host.close().unwrap();
    stage.close();
}
