//! Starts a command once, as it is on this machine, and has the kernel tell which files it uses until it serves.

use super::written::{Stamp, now};
use crate::cmd::look;
use crate::machine::new_run_id;
use crate::mistake::Mistake;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};
use tare_core::fault::{Doing, Fault};
use tare_core::workload::NOBODY;
use tare_layers::opened::{Names, Program, Watch};
use tare_load::greeting::Spoken;
use tare_runner::Stop;

/// How long it may take until it listens.
const LISTENS_WITHIN: Duration = Duration::from_secs(30);
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// One that has listened at the same addresses for this long has probably opened all of its ports.
const STEADY: Duration = Duration::from_millis(500);
/// One that has named no new file for this long has probably named all; it is watched for no longer than the second.
const QUIET: Duration = Duration::from_secs(1);
const QUIET_WITHIN: Duration = Duration::from_secs(10);
/// How long a request may take, and how much is read of its answer, bytes.
const PATIENCE: Duration = Duration::from_secs(2);
const ANSWER_MAX: usize = 1 << 20;
/// How many requests it gets: a second one finds what the first one has made.
const REQUESTS: usize = 2;
/// The port of a command that takes any, if nobody listens there.
const USUAL_PORT: u16 = 8080;
/// How many of its last lines are shown.
const LINES: usize = 15;

/// A command to be watched.
pub(super) struct Trial<'a> {
    pub(super) program: Program<'a>,
    /// The port that it was told to listen at, if it was told one.
    pub(super) port: Option<u16>,
    /// The path that is asked for where it speaks HTTP.
    pub(super) path: &'a str,
    /// The names of variables whose values are shown to nobody.
    pub(super) secrets: &'a [&'a String],
}

/// The user who is to run the command, and that in words: who called sudo, or else nobody; never root, who owns the
/// machine's files even without capabilities.
///
/// # Errors
/// When root typed it, and nobody else reaches the program or the current folder.
pub(super) fn user(
    behind_sudo: Option<(u32, u32)>,
    program: &Path,
    here: &Path,
) -> Result<((u32, u32), String), Mistake> {
    let open = |path: &Path, bits: u32| path.metadata().is_ok_and(|facts| facts.mode() & bits == bits);
    let reached = |path: &Path| path.ancestors().skip(1).all(|above| open(above, 0o001));
    if let Some(user) = behind_sudo.filter(|user| user.0 != 0) {
        return Ok((user, format!("user {}, who called sudo", user.0)));
    }
    match [program, here].into_iter().find(|&path| !(open(path, 0o005) && reached(path))) {
        None => Ok(((NOBODY, NOBODY), format!("user {NOBODY}, which suffices"))),
        Some(closed) => Err(Mistake::new(format!(
            "not everybody reaches {}, and no command is started as root to see which files it uses\n  to do: move it \
             below /srv or /opt, readable by everybody, or call sudo as the user whom it belongs to",
            closed.display()
        ))),
    }
}

/// Ports of a command that takes any.
pub(super) struct Ports {
    /// The one that it is told while it is watched.
    pub(super) watched: u16,
    /// The one of the service: another, since that of a server that was killed is not free at once.
    pub(super) service: u16,
}

impl Ports {
    /// Two at which nobody listens; or the one that was typed, for both.
    ///
    /// # Errors
    /// When none is free.
    pub(super) fn choose(typed: Option<u16>) -> Result<Ports, Fault> {
        if let Some(port) = typed {
            return Ok(Ports { watched: port, service: port });
        }
        let bind = |port: u16| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port));
        let port_of = |bound: &TcpListener| bound.local_addr().map(|address| address.port());
        let both = bind(0).and_then(|one| {
            let other = bind(USUAL_PORT).or_else(|_| bind(0))?;
            Ok(Ports { watched: port_of(&one)?, service: port_of(&other)? })
        });
        both.doing("find a port at which nobody listens")
    }
}

/// Runs the command until it has listened, answered a few requests, and named no new file for a while. Returns what it
/// named, and the time when it began.
///
/// # Errors
/// When it cannot be started, ends by itself, or does not listen; or on an interrupt.
pub(super) fn watch(trial: &Trial<'_>, stop: &Stop) -> Result<(Names, Stamp), Fault> {
    let (output, began) = (tempfile::tempfile().doing("make a file for the command's output")?, now());
    let mut watch = Watch::start(&new_run_id(), &trial.program, output)?;
    match serve(trial, &mut watch, stop) {
        Ok(()) => {
            let (names, _) = watch.end()?;
            Ok((names, began))
        }
        Err(fault) => {
            // That the kernel could not tell is the first cause.
            let (_, printed) = watch.end()?;
            Err(fault.with_log(last_lines(&without_secrets(printed, trial))))
        }
    }
}

fn without_secrets(printed: String, trial: &Trial<'_>) -> String {
    let named = trial.secrets.iter().filter_map(|name| Some((name, trial.program.environment.get(*name)?)));
    named.filter(|(_, value)| !value.is_empty()).fold(printed, |printed, (name, value)| {
        // As it stands in a workload.
        printed.replace(value.as_str(), &format!("${{{{env.{name}}}}}"))
    })
}

fn serve(trial: &Trial<'_>, watch: &mut Watch, stop: &Stop) -> Result<(), Fault> {
    let deadline = Instant::now() + LISTENS_WITHIN;
    let (mut addresses, mut since) = (BTreeSet::new(), Instant::now());
    while addresses.is_empty() || since.elapsed() < STEADY {
        pause(watch, stop)?;
        let now = watch.addresses();
        if now != addresses {
            (addresses, since) = (now, Instant::now());
        }
        if addresses.is_empty() && Instant::now() >= deadline {
            let text = format!("the command runs, but listens at no TCP port within {} s", LISTENS_WITHIN.as_secs());
            return Err(Fault::new(text).remedy("see its last lines; name a command that serves in the foreground"));
        }
    }
    let ports: BTreeSet<u16> = addresses.iter().map(SocketAddr::port).collect();
    if let Some(port) = trial.port.filter(|port| !ports.contains(port)) {
        let list = ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
        let text = format!("the command was told port {port} by {{port}}, but listens at {list}");
        return Err(Fault::new(text).remedy("put {port} where it takes its port, or leave it out").as_mistake());
    }
    let spoken = look::of_addresses(&addresses, None).spoken;
    for (port, _) in spoken.iter().filter(|(_, spoken)| **spoken == Spoken::Http) {
        (0..REQUESTS).for_each(|_| ask(*port, trial.path, stop));
    }
    let (deadline, mut count, mut since) = (Instant::now() + QUIET_WITHIN, watch.count(), Instant::now());
    while since.elapsed() < QUIET && Instant::now() < deadline {
        pause(watch, stop)?;
        if watch.count() != count {
            (count, since) = (watch.count(), Instant::now());
        }
    }
    Ok(())
}

fn pause(watch: &mut Watch, stop: &Stop) -> Result<(), Fault> {
    if stop.raised() {
        return Err(Fault::new("interrupted"));
    }
    if let Some(how) = watch.ended()? {
        let to_do = "see its last lines; give it what it lacks: --env NAME=VALUE; it gets no other variable but PATH";
        return Err(Fault::new(format!("the command ends by itself instead of serving: {how}")).remedy(to_do));
    }
    std::thread::sleep(LOOK);
    Ok(())
}

/// Asks for a path, so that the service opens what it needs for that. Whether it answers does not matter.
fn ask(port: u16, path: &str, stop: &Stop) {
    let deadline = Instant::now() + PATIENCE;
    let places = [SocketAddr::from((Ipv4Addr::LOCALHOST, port)), SocketAddr::from((Ipv6Addr::LOCALHOST, port))];
    let Some(mut talk) = places.iter().find_map(|place| TcpStream::connect_timeout(place, PATIENCE / 2).ok()) else {
        return;
    };
    let text = format!("GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n");
    let _ = exchange(&mut talk, text.as_bytes(), &|| Instant::now() < deadline && !stop.raised());
}

/// Sends `text` and reads the answer to its end as long as it `goes_on`, however slowly the other side does its part.
fn exchange(talk: &mut TcpStream, text: &[u8], goes_on: &dyn Fn() -> bool) -> std::io::Result<()> {
    talk.set_read_timeout(Some(LOOK))?;
    talk.set_write_timeout(Some(LOOK))?;
    // None of what has to wait.
    let done = |done: std::io::Result<usize>| match done {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => {
            Ok(None)
        }
        other => other.map(Some),
    };
    let (mut sent, mut answered, mut piece) = (0, 0, [0; 4096]);
    while sent < text.len() && goes_on() {
        sent += done(talk.write(&text[sent..]))?.unwrap_or(0);
    }
    while answered < ANSWER_MAX && goes_on() {
        match done(talk.read(&mut piece))? {
            Some(0) => break,
            more => answered += more.unwrap_or(0),
        }
    }
    Ok(())
}

fn last_lines(output: &str) -> String {
    let lines: Vec<&str> = output.trim_end().lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

/// The environment of the command: what the service will get, too.
pub(super) fn environment(
    typed: BTreeMap<String, String>,
    own: &BTreeMap<String, String>,
    path: &str,
) -> BTreeMap<String, String> {
    // A variable without a value is that of this shell, which is put in only when a service starts.
    let value = |(name, text): (String, String)| {
        let of_shell = text == format!("${{{{env.{name}}}}}");
        let text = if of_shell { own.get(&name).cloned().unwrap_or_default() } else { text };
        (name, text)
    };
    let usual = [("PATH".to_owned(), path.to_owned()), ("HOME".to_owned(), "/".to_owned())];
    let mut all: BTreeMap<String, String> = usual.into();
    all.extend(typed.into_iter().map(value));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn whoever_called_sudo_runs_it_and_else_nobody_but_never_root() {
        let (open, root) = (Path::new("/usr/bin/env"), Path::new("/"));
        assert_eq!(user(Some((1000, 100)), open, root).unwrap().0, (1000, 100));
        assert_eq!(user(None, open, root).unwrap().0, (NOBODY, NOBODY));
        assert_eq!(user(Some((0, 0)), open, root).unwrap().0, (NOBODY, NOBODY));
        let closed = tempfile::tempdir().unwrap();
        std::fs::set_permissions(closed.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        let program = tare_testkit::files::write(&closed.path().join("server"), b"x");
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        for (program, here, wanted) in [(open, closed.path(), closed.path()), (&*program, root, &*program)] {
            let told = user(Some((0, 0)), program, here).unwrap_err().to_string();
            assert!(told.contains(&format!("reaches {}, ", wanted.display())), "{told}");
            assert!(told.contains("to do: move it below /srv or /opt"), "{told}");
        }
        assert_eq!(user(Some((1000, 100)), open, closed.path()).unwrap().0, (1000, 100), "whom the kernel may refuse");
    }

    #[test]
    fn an_answer_that_trickles_is_not_waited_for() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (port, stop) = (listener.local_addr().unwrap().port(), Stop::default());
        let trickle = std::thread::spawn(move || {
            for _ in 0..2 {
                let (mut talk, _) = listener.accept().unwrap();
                while talk.write_all(b"x").is_ok() {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        });
        let ended_after = || {
            let began = Instant::now();
            ask(port, "/", &stop);
            began.elapsed()
        };
        let took = ended_after();
        assert!(took >= PATIENCE && took < 5 * PATIENCE, "{took:?}");
        stop.raise();
        let took = ended_after();
        assert!(took < PATIENCE, "{took:?}");
        trickle.join().unwrap();
    }

    #[test]
    fn variables_have_their_values() {
        let typed = [("A", "1"), ("SECRET", "${{env.SECRET}}")].map(|(name, text)| (name.to_owned(), text.to_owned()));
        let own = BTreeMap::from([("SECRET".to_owned(), "s".to_owned()), ("OTHER".to_owned(), "o".to_owned())]);
        let all = environment(typed.into(), &own, "/bin");
        let all: Vec<(&str, &str)> = all.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        assert_eq!(all, [("A", "1"), ("HOME", "/"), ("PATH", "/bin"), ("SECRET", "s")]);
    }

    #[test]
    fn two_ports_are_free_unless_one_was_typed() {
        let typed = Ports::choose(Some(7)).unwrap();
        assert_eq!((typed.watched, typed.service), (7, 7));
        let free = Ports::choose(None).unwrap();
        assert_ne!(free.watched, free.service);
    }
}
