//! The service: answers questions about what it was given, one line each.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

/// Listens on all addresses and answers each connection in turn.
pub(crate) fn serve(port: u16, rest: &[&str]) -> ExitCode {
    println!("serving with {rest:?}");
    eprintln!("and this goes to standard error");
    if rest.contains(&"fail") {
        return ExitCode::from(3);
    }
    let listener = TcpListener::bind(("0.0.0.0", port)).expect("the port is free");
    for stream in listener.incoming() {
        let mut stream = stream.expect("accept");
        let mut question = String::new();
        BufReader::new(&stream).read_line(&mut question).expect("read the question");
        let _ = writeln!(stream, "{}", answer(question.trim()));
    }
    ExitCode::SUCCESS
}

/// Asks a service, prints the answer.
pub(crate) fn ask(place: &str, question: &str) -> ExitCode {
    let address = place.parse().expect("an address");
    let Ok(mut stream) = TcpStream::connect_timeout(&address, Duration::from_secs(3)) else {
        return ExitCode::FAILURE;
    };
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    writeln!(stream, "{question}").unwrap();
    let mut line = String::new();
    match BufReader::new(stream).read_line(&mut line) {
        Ok(count) if count > 0 => print!("{line}"),
        _ => return ExitCode::FAILURE,
    }
    ExitCode::SUCCESS
}

/// Plays the resource probe: says one property that depends on how it was started.
pub(crate) fn resources() -> ExitCode {
    let cpus = answer("cpus");
    println!(r#"{{"properties":{{"cpus":{{"value":"{cpus}"}},"ids":{{"value":"{}"}}}}}}"#, answer("ids"));
    ExitCode::SUCCESS
}

fn answer(question: &str) -> String {
    let read = |path: &str| std::fs::read_to_string(path).map(|text| text.trim().to_owned());
    let status = |key: &str| {
        let text = read("/proc/self/status").unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(key).map(|rest| rest.trim().to_owned()));
        line.unwrap_or_default().replace('\t', " ")
    };
    match question.split_once(' ').unwrap_or((question, "")) {
        ("hello", _) => "hello".to_owned(),
        ("cpus", _) => status("Cpus_allowed_list:"),
        ("ids", _) => format!("{} / {}", status("Uid:"), status("Gid:")),
        ("seccomp", _) => status("Seccomp:"),
        ("capabilities", _) => status("CapBnd:"),
        ("pid", _) => std::process::id().to_string(),
        ("environment", _) => {
            let mut names: Vec<String> = std::env::vars().map(|(key, value)| format!("{key}={value}")).collect();
            names.sort();
            names.join(" ")
        }
        ("open-files", _) => {
            let text = read("/proc/self/limits").unwrap_or_default();
            let line = text.lines().find(|line| line.starts_with("Max open files")).unwrap_or_default().to_owned();
            line.split_whitespace().skip(3).take(2).collect::<Vec<_>>().join(" ")
        }
        ("memory", _) => read("/sys/fs/cgroup/memory/memory.limit_in_bytes")
            .or_else(|_| read("/sys/fs/cgroup/memory.max"))
            .unwrap_or_else(|error| error.to_string()),
        ("quota", _) => read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")
            .or_else(|_| read("/sys/fs/cgroup/cpu.max"))
            .unwrap_or_else(|error| error.to_string()),
        ("write", path) => match std::fs::write(path, "x") {
            Ok(()) => "written".to_owned(),
            Err(error) => error.to_string(),
        },
        ("eat", _) => {
            let mut eaten: Vec<Vec<u8>> = Vec::new();
            loop {
                // Not zero: pages of zeros that nobody wrote take up no memory.
                eaten.push(vec![1; 1 << 20]);
            }
        }
        ("eat-below", _) => {
            // SAFETY: this program has one thread, so its child may do what it could.
            let child = unsafe { libc::fork() };
            assert!(child >= 0, "there is room for a child");
            if child == 0 {
                return answer("eat");
            }
            // SAFETY: it is a child of this process, and its status is not asked for.
            unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
            std::process::exit(5)
        }
        ("pretend", _) => {
            // The last words of systemd-nspawn when it has seen a service killed.
            let machine = read("/proc/sys/kernel/hostname").unwrap_or_default();
            println!("src/nspawn/nspawn.c:1: Container {machine} terminated by signal KILL.");
            std::process::exit(1)
        }
        ("exit", code) => std::process::exit(code.parse().unwrap_or(1)),
        _ => format!("unknown question '{question}'"),
    }
}
