//! A machine of a lab over real ssh: a server in a network of its own on this machine, with keys and settings of its
//! own. The program is brought there, compressed, which takes some ten seconds; it is the only test in which Tare's
//! words go through a shell and a connection that breaks.

use crate::end_to_end::lab::{Lab, flat, said, text};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tare_layers::network::{self, GeneratorSeat};
use tare_layers::run_mark::RunMark;

const PORT: u16 = 2222;
/// What ssh servers on Debian have as their root while they know nobody; without it they do not start.
const SERVERS_ROOT: &str = "/run/sshd";
/// An agent whose pipes are closed ends within this time, with what it has started.
const ORPHANED_AT_MOST: Duration = Duration::from_secs(10);

/// A server in a network of its own, and the user's own side of it.
struct Server {
    child: Child,
    /// Kept until the end; the namespace and its links go with it.
    network: Option<(RunMark, GeneratorSeat)>,
    address: IpAddr,
    made_root: bool,
    /// The folder of the programs that ssh and Tare find.
    programs: PathBuf,
    /// Where Tare keeps things there.
    home: PathBuf,
    /// A small file system.
    small: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if self.made_root {
            let _ = fs::remove_dir(SERVERS_ROOT);
        }
        let _ = Command::new("umount").arg(&self.small).stderr(Stdio::null()).status();
        if let Some((mark, seat)) = self.network.take() {
            let closed = seat.close().and_then(|()| mark.close());
            // What is left is found by the next look at the machine.
            closed.unwrap_or_else(|fault| println!("{fault}"));
        }
    }
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// The server's settings: nothing of the machine's own settings, keys and ways in.
fn settings(lab: &Lab, address: IpAddr) -> String {
    // Without PAM a server lets nobody into an account that is locked.
    let shadow = fs::read_to_string("/etc/shadow").unwrap_or_default();
    let is_locked = shadow.lines().any(|line| line.starts_with("root:!"));
    let pam = if is_locked { "yes" } else { "no" };
    let (key, let_in) = (lab.path("host_key"), lab.path("user_key.pub"));
    format!(
        "ListenAddress {address}\nPort {PORT}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nUsePAM {pam}\n\
         StrictModes no\nPermitRootLogin prohibit-password\nPasswordAuthentication no\n\
         KbdInteractiveAuthentication no\nUseDNS no\n",
        key.display(),
        let_in.display()
    )
}

fn serve(lab: &Lab) -> Server {
    let id = format!("{:06x}", std::process::id() & 0xff_ffff);
    let mark = RunMark::create(&id).unwrap();
    let seat = GeneratorSeat::open(&id, network::free_subnets().unwrap()).unwrap();
    let address = seat.generator_address();
    for key in ["host_key", "user_key"] {
        run("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", text(&lab.path(key))]);
    }
    let made_root = !Path::new(SERVERS_ROOT).exists();
    fs::create_dir_all(SERVERS_ROOT).unwrap();
    let configuration = lab.write("sshd_config", settings(lab, address));
    let log = File::create(lab.path("sshd.log")).unwrap();
    let mut command = Command::new("/usr/sbin/sshd");
    command.args(["-D", "-e", "-f", text(&configuration)]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    seat.enter(&mut command);
    let child = command.spawn().unwrap();
    let small = lab.path("small");
    fs::create_dir(&small).unwrap();
    // What is made for runs of Tare is kept there between tests; who has no such place gets one that goes.
    let home = std::env::var_os("TARE_HOME").map_or_else(|| lab.path("there/tare"), PathBuf::from);
    let (programs, network) = (lab.path("bin"), Some((mark, seat)));
    let mut server = Server { child, network, address, made_root, programs, home, small };
    let deadline = Instant::now() + Duration::from_secs(30);
    while TcpStream::connect_timeout(&SocketAddr::new(address, PORT), Duration::from_secs(1)).is_err() {
        let said = fs::read_to_string(lab.path("sshd.log")).unwrap_or_default();
        assert!(server.child.try_wait().unwrap().is_none() && Instant::now() < deadline, "no server: {said}");
        std::thread::sleep(Duration::from_millis(50));
    }
    server
}

impl Server {
    /// The user's configuration, an ssh that uses it, and a lab file.
    fn write_users_side(&self, lab: &Lab) {
        let (key, known, address) = (lab.path("user_key"), lab.path("known_hosts"), self.address);
        let configuration = format!(
            "Host off\n  Port 1\nHost *\n  HostName {address}\n  Port {PORT}\n  User root\n  IdentityFile {}\n  \
             IdentitiesOnly yes\n  IdentityAgent none\n  UserKnownHostsFile {}\n  GlobalKnownHostsFile /dev/null\n",
            key.display(),
            known.display()
        );
        let configuration = lab.write("ssh_config", configuration);
        let ssh = lab.write("bin/ssh", format!("#!/bin/sh\nexec /usr/bin/ssh -F {} \"$@\"\n", configuration.display()));
        fs::set_permissions(ssh, fs::Permissions::from_mode(0o755)).unwrap();
        let (home, small) = (self.home.display(), self.small.display());
        lab.write(
            "lab.yaml",
            format!(
                "machines:\n  sut: {{ssh: sut, network: {address}, home: {home}}}\n  off: {{ssh: off}}\n  \
                 small: {{ssh: sut, home: {small}/tare}}\n  astray: {{ssh: sut, network: 192.0.2.1, home: {home}}}\n"
            ),
        );
    }

    /// Connects once by hand, so to speak.
    fn accept_its_key(&self, lab: &Lab) {
        let key = fs::read_to_string(lab.path("host_key.pub")).unwrap();
        lab.write("known_hosts", format!("[{}]:{PORT} {key}", self.address));
    }

    /// `tare lab VERB --lab FILE` with these options.
    fn tare(&self, lab: &Lab, verb: &str, options: &[&str]) -> Output {
        let file = lab.path("lab.yaml");
        let mut command = lab.command(&[&["lab", verb, "--lab", text(&file)][..], options].concat());
        command.env("PATH", self.path()).output().unwrap()
    }

    /// Where programs are found: its ssh before that of the machine.
    fn path(&self) -> std::ffi::OsString {
        let mut folders = vec![self.programs.clone()];
        folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
        std::env::join_paths(folders).unwrap()
    }
}

fn told(output: &Output) -> String {
    flat(&said(output))
}

/// The processes that run a program.
fn running(program: &str) -> Vec<String> {
    let all = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let runs = |pid: &String| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == Path::new(program));
    all.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).filter(runs).collect()
}

fn wait_for(what: &str, within: Duration, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + within;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: not within {within:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_machine_is_reached_checked_and_left_clean_over_ssh() {
    let Some(lab) = Lab::open(&["sshd", "ssh", "ssh-keygen", "mount"]) else { return };
    let server = serve(&lab);
    server.write_users_side(&lab);

    // A key that the user has not accepted is not accepted by Tare, and what is off is said beside it.
    let unknown = server.tare(&lab, "check", &["--within", "60s", "sut", "off"]);
    assert_eq!(unknown.status.code(), Some(1), "{}", told(&unknown));
    assert!(told(&unknown).contains("ssh does not know the key of sut"), "{}", told(&unknown));
    assert!(told(&unknown).contains("nothing answers at off"), "{}", told(&unknown));

    server.accept_its_key(&lab);
    let checked = server.tare(&lab, "check", &["--within", "5m", "--json", "sut"]);
    assert_eq!(checked.status.code(), Some(0), "{}", told(&checked));
    let found: Value = serde_json::from_slice(&checked.stdout).unwrap();
    check_finding(&found[0]);
    // As the kernel has it, whatever links there are on the way.
    let program = fs::canonicalize(found[0]["program"].as_str().unwrap()).unwrap();
    let program = text(&program).to_owned();
    let brought = fs::metadata(&program).unwrap();
    assert_eq!(brought.mode() & 0o777, 0o755);

    // The program is there now, and is not sent again. The other machine is the same, with an address that it lacks.
    let again = server.tare(&lab, "check", &["--within", "5m", "sut", "astray"]);
    assert_eq!(again.status.code(), Some(1), "{}", told(&again));
    assert!(told(&again).contains("astray does not have the address 192.0.2.1"), "{}", told(&again));
    assert!(!told(&again).contains("sut does not"), "{}", told(&again));
    assert!(told(&again).contains("clock ahead by") && told(&again).contains("native"), "{}", told(&again));
    let shown = String::from_utf8_lossy(&again.stdout);
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    let still = fs::metadata(&program).unwrap();
    assert_eq!((still.ino(), still.mtime_nsec()), (brought.ino(), brought.mtime_nsec()));

    run("mount", &["-t", "tmpfs", "-o", "size=1m", "tmpfs", text(&server.small)]);
    let full = server.tare(&lab, "check", &["--within", "60s", "small"]);
    assert_eq!(full.status.code(), Some(1), "{}", told(&full));
    assert!(told(&full).contains("the disk of small is full"), "{}", told(&full));

    let cleaned = server.tare(&lab, "clean", &["--within", "60s", "--dry-run", "sut"]);
    assert_eq!(cleaned.status.code(), Some(0), "{}", told(&cleaned));
    assert!(told(&cleaned).contains("is alive and is left alone"), "our own: {}", told(&cleaned));
    assert!(running(&program).is_empty(), "an agent is left: {:?}", running(&program));

    an_orphan_ends(&server, &program);

    drop(server);
    let programs = Path::new(&program).parent().unwrap();
    fs::remove_dir_all(programs).unwrap();
    // Another build may be there.
    let _ = fs::remove_dir(programs.parent().unwrap());
    lab.expect_clean();
}

fn check_finding(found: &Value) {
    let kernel = rustix::system::uname();
    assert_eq!((&found["reached"], &found["root"]), (&Value::Bool(true), &Value::Bool(true)), "{found:#}");
    assert_eq!(found["kernel"], kernel.release().to_string_lossy().into_owned(), "{found:#}");
    assert_eq!(found["architecture"], kernel.machine().to_string_lossy().into_owned(), "{found:#}");
    assert!(found["cpus"].as_u64().unwrap() > 0, "{found:#}");
    let clock = |name: &str| found["clock"][name].as_i64().unwrap();
    // It is this machine's own clock.
    assert!(clock("offset_ns").abs() <= clock("uncertainty_ns") + 1_000_000, "{found:#}");
    assert!(clock("round_trip_ns") > 0, "{found:#}");
    let layers: Vec<&str> =
        found["forms"].as_array().unwrap().iter().filter_map(|form| form["layer"].as_str()).collect();
    assert_eq!(layers, ["container", "vm"], "{found:#}");
}

/// The connection breaks while the agent has something run: both end.
fn an_orphan_ends(server: &Server, program: &str) {
    let mut ssh = Command::new(server.programs.join("ssh"));
    ssh.args(["-T", "-oBatchMode=yes", "sut", program, "agent"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut ssh = ssh.spawn().unwrap();
    let mut input = ssh.stdin.take().unwrap();
    let mut answers = BufReader::new(ssh.stdout.take().unwrap());
    input.write_all(b"{\"id\":1,\"call\":\"greet\"}\n").unwrap();
    let mut answer = String::new();
    answers.read_line(&mut answer).unwrap();
    assert!(answer.contains("\"digest\""), "{answer}");
    let verb = "[[\"peer\",\"--listen\",\"127.0.0.1:7777\"],{\"secs\":600,\"nanos\":0}]";
    input.write_all(format!("{{\"id\":2,\"call\":{{\"verb\":{verb}}}}}\n").as_bytes()).unwrap();
    wait_for("the agent and what it runs", Duration::from_secs(30), || running(program).len() == 2);
    ssh.kill().unwrap();
    ssh.wait().unwrap();
    wait_for("an agent without pipes ends", ORPHANED_AT_MOST, || running(program).is_empty());
    drop((input, answers));
}
