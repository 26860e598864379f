//! Guests whose network passt carries: reached as all are, by a process that can do nothing else and whose end is told.

use crate::checks::{allowed_cpus, container};
use crate::stage::{Stage, fault_of, left_of, program, redis, vm};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tare_core::bundle::{Recipe, Source};
use tare_core::host::{OpenError, ServiceStart};
use tare_layers::{LAYERS, leftovers};

/// A port where only root may listen unless it is allowed to.
const LOW: u16 = 1021;

/// A service that answers by both protocols.
pub(crate) fn serve(port: u16) -> ExitCode {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).expect("the port is free");
    let datagrams = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).expect("the port is free");
    std::thread::spawn(move || {
        let mut bytes = [0; 2048];
        loop {
            let (count, from) = datagrams.recv_from(&mut bytes).expect("receive");
            let _ = datagrams.send_to(&bytes[..count], from);
        }
    });
    for stream in listener.incoming() {
        let _ = stream.expect("accept").write_all(b"+PONG\r\n");
    }
    ExitCode::SUCCESS
}

/// Asks it by datagrams; an emulated guest may take its time.
pub(crate) fn ask(place: &str) -> ExitCode {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a port is free");
    socket.set_read_timeout(Some(Duration::from_secs(2))).expect("a limit can be set");
    let mut asked = (0..10).map(|_| socket.send_to(b"x", place).is_ok() && socket.recv_from(&mut [0; 8]).is_ok());
    if asked.any(|answered| answered) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Whether this machine has a passt; says so where it has not.
pub(crate) fn is_here() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_here = std::env::split_paths(&path).any(|folder| folder.join("passt").is_file());
    if !is_here {
        println!("skipped: passt is not installed");
    }
    is_here
}

pub(crate) fn carries_frames() {
    if is_here() {
        carries("passt", json!({"network": "passt"}));
    }
}

pub(crate) fn shares_memory() {
    if is_here() {
        carries("passt by vhost-user", json!({"network": "passt", "vhost_user": true}));
    }
}

fn carries(named: &str, options: Value) {
    let folder = tempfile::tempdir().unwrap();
    let start = both(folder.path());
    let stage = Stage::open(std::slice::from_ref(&start), &[]);
    let began = Instant::now();
    let mut host = match stage.guest(&vm(options), &program()) {
        Err(OpenError::Unavailable(fault)) => {
            assert!(!fault.remedy.is_empty(), "{fault:?}");
            println!("skipped: {fault}");
            return stage.close();
        }
        opened => opened.unwrap(),
    };
    println!("  a guest by {named} answers after {:.1} s", began.elapsed().as_secs_f64());
    let facts = host.facts().unwrap();
    assert_eq!(facts["vm.network"], named);
    assert!(!facts["vm.passt"].is_empty());
    println!("  passt {}", facts["vm.passt"]);

    let instance = host.start(&start).unwrap();
    let place = instance.endpoints["main"];
    assert!(instance.path.starts_with(&format!("veth, {named} and virtio-net into a guest, ")), "{}", instance.path);
    assert!(stage.answers(place), "{place}: {}", host.log("redis").unwrap());
    assert!(stage.succeeds(&["ask-by-datagram", &place.to_string()]), "{place}: {}", host.log("redis").unwrap());

    let pid = passt_of(&stage.run);
    confined(pid);
    assert_eq!(allowed_cpus(pid), ["0"], "where the hypervisor's own threads are");
    let serving = host.serving().unwrap();
    assert!(serving.iter().any(|scope| scope.name == "passt" && scope.serving && scope.pids == [pid]), "{serving:#?}");
    host.freeze().unwrap();
    host.thaw().unwrap();
    assert!(stage.answers(place), "after a rest");

    let left = left_of(&stage.run).into_iter().find(|left| left.kind == "guest's passt").unwrap();
    leftovers::remove(LAYERS, &left).unwrap();
    let fault = host.state("redis").unwrap_err();
    assert!(fault.message.contains("passt ended (signal: 9"), "{fault}");
    host.close().unwrap();
    stage.close();
}

fn both(folder: &std::path::Path) -> ServiceStart {
    let tree = folder.join("tree");
    std::fs::create_dir_all(tree.join("bin")).unwrap();
    std::fs::copy(program(), tree.join("bin/service")).unwrap();
    let mut start = redis();
    start.service.recipe = Recipe::plain(Source::Folder(tree));
    start.service.command = ["/bin/service", "serve-both", &LOW.to_string()].map(str::to_owned).to_vec();
    start.service.ports = BTreeMap::from([("main".to_owned(), LOW)]);
    start.service.stop_within = Duration::from_millis(200);
    start
}

/// Services that passt cannot forward to are not left unreachable.
pub(crate) fn forwards_no_routes() {
    if !is_here() {
        return;
    }
    let inner = [container("bridge")];
    let stage = Stage::open(&[redis()], &inner);
    let (unavailable, fault) = fault_of(stage.guest(&vm(json!({"network": "passt"})), &program()));
    assert!(unavailable && fault.message.contains("forwards ports of the guest's address alone"), "{fault:?}");
    assert!(fault.remedy.contains("network: published"), "{fault:?}");
    stage.close();
}

/// The process that carries the network of a run's guest.
fn passt_of(run: &str) -> u32 {
    let wanted = format!("TARE_PASST_OF=tare-{run}-t1");
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let mut pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    pids.find(is).expect("passt is there")
}

/// It is nobody else's user, gains nothing, sees no file and has a filter of system calls.
fn confined(pid: u32) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
    for ids in ["Uid:", "Gid:"] {
        let ours = |id: &str| id.parse().is_ok_and(|id: u32| (99_000..99_256).contains(&id));
        assert!(field(ids).split_whitespace().all(ours), "{status}");
    }
    assert_eq!((field("Groups:"), field("NoNewPrivs:"), field("Seccomp:")), ("", "1", "2"), "{status}");
    for set in ["CapPrm:", "CapEff:", "CapInh:", "CapAmb:"] {
        assert_eq!(field(set), "0000000000000000", "{set}");
    }
    assert_eq!(std::fs::read_dir(format!("/proc/{pid}/root")).unwrap().count(), 0, "its root is empty");
}
