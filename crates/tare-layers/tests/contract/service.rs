//! The service: tells what it was given to whoever connects.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

/// Listens on all addresses and answers each connection with what it was given. Other words make it misbehave.
pub(crate) fn serve(port: u16, rest: &[&str]) -> ExitCode {
    println!("serving with {rest:?}");
    eprintln!("and this goes to standard error");
    let children: Vec<_> = rest.iter().filter(|word| **word == "child").map(|_| stubborn_child(port)).collect();
    if let ["daemon", mark] = rest {
        let begun = Command::new("/bin/daemon").args(["tool", "detach", &format!("1:{mark}")]).status();
        assert!(begun.expect("a daemon starts").success());
    }
    if rest.contains(&"stubborn") {
        // SAFETY: ignoring a signal runs no code.
        unsafe { libc::signal(libc::SIGTERM, libc::SIG_IGN) };
    }
    if rest.contains(&"fail") {
        return ExitCode::from(3);
    }
    if rest.contains(&"hog") {
        let hog = vec![1_u8; 256 << 20];
        println!("hogged {}", hog.iter().map(|byte| u64::from(*byte)).sum::<u64>());
    }
    if rest.contains(&"datagrams") {
        std::thread::spawn(move || answer_datagrams(port + 2));
    }
    let listener = TcpListener::bind(("0.0.0.0", port)).expect("the port is free");
    println!("{} children, ready", children.len());
    for stream in listener.incoming() {
        let _ = stream.expect("accept").write_all(given().as_bytes());
    }
    ExitCode::SUCCESS
}

/// A child that survives the polite way of being asked to end.
fn stubborn_child(port: u16) -> std::process::Child {
    let own = std::env::current_exe().expect("the program knows its path");
    Command::new(own).args(["serve", &(port + 1).to_string(), "stubborn"]).spawn().expect("a child starts")
}

/// Sends back what comes by datagrams.
fn answer_datagrams(port: u16) {
    let socket = UdpSocket::bind(("0.0.0.0", port)).expect("the port is free");
    let mut buffer = [0; 64];
    while let Ok((length, from)) = socket.recv_from(&mut buffer) {
        let _ = socket.send_to(&buffer[..length], from);
    }
}

/// Asks for a datagram to be sent back; several times, for one may be lost.
pub(crate) fn ask_by_datagram(place: &str) -> ExitCode {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("a port is free");
    socket.set_read_timeout(Some(Duration::from_millis(200))).expect("a limit can be set");
    let mut asked = (0..3).map(|_| socket.send_to(b"x", place).is_ok() && socket.recv_from(&mut [0; 8]).is_ok());
    if asked.any(|answered| answered) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Asks a service, prints the answer.
pub(crate) fn ask(place: &str) -> ExitCode {
    let address = place.parse().expect("an address");
    let Ok(mut stream) = TcpStream::connect_timeout(&address, Duration::from_secs(3)) else {
        return ExitCode::FAILURE;
    };
    stream.set_read_timeout(Some(Duration::from_secs(2))).expect("a limit can be set");
    let mut text = String::new();
    match stream.read_to_string(&mut text) {
        Ok(count) if count > 0 => print!("{text}"),
        _ => return ExitCode::FAILURE,
    }
    ExitCode::SUCCESS
}

/// Plays the resource probe.
pub(crate) fn resources() -> ExitCode {
    print!("{}", given());
    ExitCode::SUCCESS
}

/// Plays a tool that is run beside the service.
pub(crate) fn tool(words: &[&str]) -> ExitCode {
    match words {
        ["given"] => println!("{}", given()),
        ["seen", path] => println!("{}", if std::path::Path::new(path).exists() { "yes" } else { "no" }),
        ["exit", code] => {
            eprintln!("ending with {code}");
            return ExitCode::from(code.parse::<u8>().expect("a code"));
        }
        ["print", count] => {
            let text = vec![b'x'; count.parse().expect("a number")];
            // Who stops reading ends the tool.
            let written = std::io::stdout().write_all(&text).and_then(|()| std::io::stdout().flush());
            return ExitCode::from(u8::from(written.is_err()));
        }
        ["give", path, user] => give(path, user.parse().expect("a number")),
        ["write", path] => {
            let written = std::fs::write(path, "x");
            println!("{}", written.map_or_else(|error| error.kind().to_string(), |()| "written".to_owned()));
        }
        ["link", to, at] => {
            let _ = std::fs::remove_file(at);
            std::os::unix::fs::symlink(to, at).expect("a link can be made");
            println!("linked");
        }
        ["write-as", user, path] => write_as(user.parse().expect("a number"), path),
        ["ids"] => println!("{}", field("/proc/self/status", "Uid:")),
        ["listen", port] => match TcpListener::bind(("0.0.0.0", port.parse().expect("a port"))) {
            Ok(_) => println!("listening"),
            Err(error) => println!("{}", error.kind()),
        },
        ["read", path] => match std::fs::File::open(path).and_then(|mut file| file.read(&mut [0])) {
            Ok(_) => println!("read"),
            Err(error) => println!("{}", error.kind()),
        },
        ["escape", pid, file, name, place] => crate::attempts::all(&crate::attempts::Others {
            pid: pid.parse().expect("a number"),
            file: (*file).to_owned(),
            name: (*name).to_owned(),
            place: place.parse().expect("an address"),
        }),
        ["fork-bomb"] => fork_bomb(),
        ["print-file", path] => print!("{}", std::fs::read_to_string(path).expect("it can be read")),
        ["signal", pid] => println!("{}", signalled(pid.parse().expect("a number"))),
        ["reopen"] => std::fs::write("/dev/stdout", "by its name\n").expect("standard output has a name"),
        ["spin", millis] => {
            let wanted = Duration::from_millis(millis.parse().expect("a number"));
            while Duration::from_nanos(tare_clock::process_cpu_ns()) < wanted {}
        }
        ["visit", port] => print!("{}", visited(port.parse().expect("a port"))),
        ["hang", mark] => {
            let mut child = hanging_child(mark, Stdio::inherit());
            println!("hanging");
            std::thread::sleep(Duration::from_secs(1000));
            let _ = child.wait();
        }
        ["detach", how] => drop(detached(how)),
        ["leave", mark] => drop(hanging_child(mark, Stdio::null())),
        ["stubborn", _] => {
            // SAFETY: ignoring a signal runs no code.
            unsafe { libc::signal(libc::SIGTERM, libc::SIG_IGN) };
            std::thread::sleep(Duration::from_secs(1000));
        }
        other => panic!("a tool does not know {other:?}"),
    }
    ExitCode::SUCCESS
}

/// What comes of signalling a process.
fn signalled(pid: i32) -> String {
    let pid = rustix::process::Pid::from_raw(pid).expect("a process");
    match rustix::process::test_kill_process(pid) {
        Ok(()) => "signalled".to_owned(),
        Err(rustix::io::Errno::PERM) => "not permitted".to_owned(),
        Err(rustix::io::Errno::SRCH) => "no such process".to_owned(),
        Err(other) => other.to_string(),
    }
}

/// Makes a file and gives it to a user.
fn give(path: &str, user: u32) {
    let given = std::fs::write(path, "").and_then(|()| std::os::unix::fs::chown(path, Some(user), Some(user)));
    println!("{}", given.map_or_else(|error| error.kind().to_string(), |()| "given".to_owned()));
}

/// Drops to another user for good, as entry scripts do, and writes to a file that is there.
fn write_as(user: u32, path: &str) {
    // SAFETY: plain numbers; an empty list of groups needs no memory.
    let dropped =
        unsafe { libc::setgroups(0, std::ptr::null()) == 0 && libc::setgid(user) == 0 && libc::setuid(user) == 0 };
    assert!(dropped, "{}", std::io::Error::last_os_error());
    // SAFETY: a plain number.
    assert!(unsafe { libc::setuid(0) } != 0, "root again");
    let written = std::fs::OpenOptions::new().append(true).open(path).and_then(|mut file| file.write_all(b"x"));
    println!("{}", written.map_or_else(|error| error.kind().to_string(), |()| "written".to_owned()));
}

/// A child of the tool that does not end when it is asked to.
fn hanging_child(mark: &str, output: Stdio) -> std::process::Child {
    let own = std::env::current_exe().expect("the program knows its path");
    let mut command = Command::new(own);
    command.args(["tool", "stubborn", mark]).stdout(output).stderr(Stdio::null());
    command.spawn().expect("a child starts")
}

/// A child that goes on in a session of its own once its parent, which is this program, has ended. Before the colon
/// stands how often that child detaches itself in the same way.
fn detached(how: &str) -> std::process::Child {
    let (more, mark) = how.split_once(':').expect("a number and a mark");
    let mut command = Command::new(std::env::current_exe().expect("the program knows its path"));
    match more.parse::<u32>().expect("a number") {
        0 => command.args(["tool", "stubborn", mark]),
        more => command.args(["tool", "detach", &format!("{}:{mark}", more - 1)]),
    };
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: setsid(2) is a plain system call.
    unsafe { command.pre_exec(|| rustix::process::setsid().map(drop).map_err(Into::into)) };
    command.spawn().expect("a child starts")
}

fn visited(port: u16) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the service is at the loopback");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    text
}

/// What this process was given, in the form of a resource report.
fn given() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |key: &str| field("/proc/self/status", key);
    let writes = |path: &str| match std::fs::write(format!("{path}/probe"), "x") {
        Ok(()) => "yes".to_owned(),
        Err(error) => error.kind().to_string(),
    };
    let limits = read("/proc/self/limits");
    let limit = |name: &str| {
        let line = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.split_whitespace().next().unwrap_or_default().to_owned()
    };
    let environment: BTreeMap<String, String> = std::env::vars().collect();
    let mut names: Vec<String> =
        std::fs::read_dir("/").into_iter().flatten().filter_map(|e| e.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    let found = [
        ("uid", field("Uid:")),
        ("gid", field("Gid:")),
        ("groups", field("Groups:")),
        ("cpus", field("Cpus_allowed_list:")),
        ("capabilities", field("CapEff:")),
        ("permitted", field("CapPrm:")),
        ("bounds", field("CapBnd:")),
        ("inheritable", field("CapInh:")),
        ("ambient", field("CapAmb:")),
        ("no new privileges", field("NoNewPrivs:")),
        ("open files", open_files()),
        ("umask", field("Umask:")),
        ("open_files", limit("Max open files")),
        ("processes", limit("Max processes")),
        ("directory", std::env::current_dir().map(|path| path.display().to_string()).unwrap_or_default()),
        ("environment", format!("{environment:?}")),
        ("root", names.join(" ")),
        ("memory", memory_limit()),
        ("write /", writes("/")),
        ("write /tmp", writes("/tmp")),
        ("write /run", writes("/run")),
        ("write /dev/shm", writes("/dev/shm")),
        ("write /data", writes("/data")),
        ("write /run/kept", writes("/run/kept")),
        ("write /sys", writes("/sys/kernel")),
        ("null", std::fs::write("/dev/null", "x").map_or_else(|e| e.to_string(), |()| "yes".to_owned())),
    ];
    let properties: BTreeMap<&str, serde_json::Value> =
        found.into_iter().map(|(key, value)| (key, serde_json::json!({ "value": value }))).collect();
    serde_json::json!({ "properties": properties }).to_string()
}

/// A line of a file of the kernel's, without its key.
fn field(path: &str, key: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What this process has open beside the first three, and is no socket of its own.
fn open_files() -> String {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let others = entries.filter(|entry| !["0", "1", "2"].iter().any(|name| entry.file_name() == *name));
    let places = others.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let places = places.map(|place| place.display().to_string());
    // The folder that is being read is open as well.
    let places = places.filter(|place| !place.starts_with("socket:") && !place.ends_with("/fd"));
    places.collect::<Vec<_>>().join(" ")
}

/// The memory limit of this process's cgroup, whichever version it is.
fn memory_limit() -> String {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let places = match controllers {
            "memory" => [format!("/sys/fs/cgroup/memory{path}/memory.limit_in_bytes"), String::new()],
            "" => [format!("/sys/fs/cgroup{path}/memory.max"), format!("/sys/fs/cgroup/unified{path}/memory.max")],
            _ => continue,
        };
        if let Some(text) = places.iter().find_map(|place| std::fs::read_to_string(place).ok()) {
            return text.trim().to_owned();
        }
    }
    "unknown".to_owned()
}

/// Makes as many processes as it can, each of which stays for as long as this one, and says how many. Whoever runs out
/// of memory may be ended before.
fn fork_bomb() {
    let mut count = 0_u64;
    while count < 2 * tare_layers::local::PROCESSES {
        // SAFETY: this process has one thread.
        match unsafe { libc::fork() } {
            0 => loop {
                // SAFETY: plain numbers; it waits for a signal.
                unsafe { (libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL), libc::pause()) };
            },
            ..0 => break,
            _ => count += 1,
        }
    }
    println!("{count}");
}
