//! One container, from creation to end.

use super::engine::{CallError, Engine, call_limit};
use super::spec::{self, Order};
use crate::local::logs::{SHOWN_MAX, said};
use crate::local::volumes::make_volumes;
use crate::register;
use bollard::models::{ContainerInspectResponse, ContainerState};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, LogsOptionsBuilder, RemoveContainerOptionsBuilder, StopContainerOptionsBuilder,
    UploadToContainerOptionsBuilder,
};
use bytes::Bytes;
use futures_util::StreamExt;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};
use tare_core::fault::Fault;
use tare_core::host::{InstanceState, ServiceStart};

/// How much of a container's output is kept, bytes.
const LOG_BYTES: usize = SHOWN_MAX as usize;
/// How many lines of it are requested: the log tells when a service is ready, and is then read fifty times a second.
const LOG_LINES: u64 = 2000;
/// How long an engine may take to remove a container whose removal has begun.
const GONE_WITHIN: Duration = Duration::from_secs(60);
/// How long an engine may take to tidy up after a container that has ended, before its state can be read.
const TIDIED_WITHIN: Duration = Duration::from_secs(30);
/// How long to wait before asking again.
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// The exit code after a kill: engines report death by a signal as a shell does, 128 plus the signal.
const KILLED: i64 = 128 + 9;

/// Creates and starts a container. On failure nothing of it is left.
///
/// # Errors
/// When a volume cannot be made, or the engine refuses: the port is taken, the program missing, a limit refused.
pub(crate) fn launch(engine: &Engine, order: &Order, name: &str, place: Option<Place>) -> Result<(), Fault> {
    let doing = format!("start the container of service '{}'", order.start.instance);
    make_volumes(&spec::volume_folders(order), &order.start.service, order.bundle)?;
    let body = spec::container(order, name)?;
    let options = CreateContainerOptionsBuilder::new().name(name).build();
    let create = || engine.call(engine.docker().create_container(Some(options), body));
    let created = register::asking(&order.surroundings.run, name, create)?;
    created.map_err(|error| error.doing(&doing))?;
    start_created(engine, order, name, place).map_err(|error| {
        let fault = match error {
            StartError::Refused(message) => refusal(order, &message, &doing),
            StartError::Broken(fault) => fault,
        };
        // Report the first failure, not one in the cleanup.
        let _ = remove(engine, name);
        fault
    })
}

/// Puts a container's first process, given its id, to where its limits are before it becomes the service.
pub(crate) type Place<'p> = &'p dyn Fn(u32) -> Result<(), Fault>;

enum StartError {
    Refused(String),
    Broken(Fault),
}

fn start_created(engine: &Engine, order: &Order, name: &str, place: Option<Place>) -> Result<(), StartError> {
    let broken = |error: CallError| match error {
        CallError::Refused { message, .. } => StartError::Refused(message),
        CallError::Ending(fault) | CallError::Broken(fault) => StartError::Broken(fault),
    };
    let in_writable_layer = order.options.storage == super::options::Storage::Overlay;
    if in_writable_layer && order.start.service.volumes.values().any(|volume| volume.shared.is_none()) {
        let archive = Bytes::from(spec::volume_archive(order).map_err(StartError::Broken)?);
        let options = UploadToContainerOptionsBuilder::new().path("/").build();
        let body = bollard::body_full(archive);
        engine.call(engine.docker().upload_to_container(name, Some(options), body)).map_err(broken)?;
    }
    if let Some(place) = place {
        // Its first process is there then, and waits for the start to become the service.
        engine.post(&format!("/v4.0.0/libpod/containers/{name}/init")).map_err(broken)?;
        let state = inspect(engine, name).map_err(StartError::Broken)?.and_then(|found| found.state);
        let pid = state.and_then(|state| state.pid).and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0);
        place(pid).map_err(StartError::Broken)?;
    }
    engine.call(engine.docker().start_container(name, None)).map_err(broken)
}

/// What it means when the engine refuses to start a container.
fn refusal(order: &Order, message: &str, doing: &str) -> Fault {
    let service = &order.start.service;
    if is_port_conflict(message) {
        let address = order.surroundings.address;
        let port = service.ports.values().find(|port| message.contains(&format!(":{port}")));
        let place = port.map_or_else(|| address.to_string(), |port| format!("{address}:{port}"));
        return port_taken(&place, &order.start.instance);
    }
    let fault = Fault::new(format!("could not {doing}: the container engine refused: {}", message.trim()));
    let program = service.command.first().map(String::as_str).unwrap_or_default();
    match remedy(message, program) {
        Some(remedy) => fault.remedy(remedy),
        None => fault,
    }
}

/// What to do when the engine refuses to start `program`, where that is known.
fn remedy(message: &str, program: &str) -> Option<String> {
    if message.contains("apparmor_parser") {
        // The kernel confines programs with AppArmor, and the tool that loads the engine's profile is in another
        // package.
        return Some("apt-get install apparmor".to_owned());
    }
    let missing = ["no such file or directory", "not found"].iter().any(|words| message.contains(words));
    missing.then(|| format!("check that the bundle holds {program}"))
}

/// Fails when somebody else listens at this machine's address `at` on ports that the service will use. Without this
/// check a service with the host's network would die and leave the reason only in its log.
///
/// # Errors
/// When a port is taken.
pub(crate) fn check_ports(start: &ServiceStart, at: IpAddr) -> Result<(), Fault> {
    for port in start.service.ports.values() {
        let place = SocketAddr::new(at, *port);
        // Anything else is for the engine to judge.
        if TcpListener::bind(place).is_err_and(|error| error.kind() == ErrorKind::AddrInUse) {
            return Err(port_taken(&place.to_string(), &start.instance));
        }
    }
    Ok(())
}

/// The fault for a port that somebody else listens on.
fn port_taken(place: &str, instance: &str) -> Fault {
    let message = format!("port {place}, which service '{instance}' needs, is in use already");
    Fault::new(message).remedy(format!("find out what listens there (ss -ltnp | grep {place}) and stop it"))
}

/// Whether the engine says that a port is taken, in Docker's words for its own ports and for those of others, or in
/// Podman's.
fn is_port_conflict(message: &str) -> bool {
    ["already allocated", "address already in use", "address in use", "port is already"]
        .iter()
        .any(|words| message.contains(words))
}

/// What the engine knows about a container; `None` when there is none of this name.
///
/// # Errors
/// When the engine does not answer.
pub(crate) fn inspect(engine: &Engine, name: &str) -> Result<Option<ContainerInspectResponse>, Fault> {
    match once_tidied(|| engine.call(engine.docker().inspect_container(name, None))) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(error.doing(format!("look at the container {name}"))),
    }
}

/// What a call returns, once the engine has tidied up what has ended. See [`CallError::Ending`].
///
/// # Errors
/// Those of the call.
pub(super) fn once_tidied<T>(call: impl Fn() -> Result<T, CallError>) -> Result<T, CallError> {
    let until = Instant::now() + TIDIED_WITHIN;
    loop {
        match call() {
            Err(CallError::Ending(_)) if Instant::now() < until => std::thread::sleep(ASK_AGAIN),
            ended => return ended,
        }
    }
}

/// What a container's state says about the service in it.
///
/// With version 2 control groups an engine learns of an end and of a kill for lack of memory in different ways, and
/// drops the second if it comes later. So for a killed service, `for_memory` asks the kernel's log.
pub(crate) fn state_of(state: &ContainerState, for_memory: impl FnOnce() -> bool) -> InstanceState {
    if state.running == Some(true) && state.dead != Some(true) {
        return InstanceState::Running;
    }
    if state.oom_killed == Some(true) || (state.exit_code == Some(KILLED) && for_memory()) {
        return InstanceState::Ended("killed for lack of memory".to_owned());
    }
    // Engines report death by a signal as a shell does, 128 plus the signal.
    InstanceState::Ended(match state.exit_code {
        Some(code @ 129..=192) => format!("killed by signal {}", code - 128),
        Some(code) => format!("exit code {code}"),
        None => "for a reason the container engine does not know".to_owned(),
    })
}

/// The end of a container's output.
///
/// # Errors
/// When the engine does not answer or knows no such container.
pub(crate) fn log(engine: &Engine, name: &str) -> Result<String, Fault> {
    let (text, left_out, lines) = output(engine, name, true)?;
    let is_part = most_lines(engine).is_some_and(|most| lines >= most);
    let before = if is_part { format!("[only the last {LOG_LINES} lines are read]\n") } else { String::new() };
    Ok(before + &said(left_out) + &text)
}

/// What a container wrote to its standard output, or at least the end of it.
///
/// # Errors
/// When the engine does not answer or knows no such container.
pub(crate) fn standard_output(engine: &Engine, name: &str) -> Result<String, Fault> {
    output(engine, name, false).map(|(text, ..)| text)
}

/// How many lines of a container's output are requested; `None` for all that the engine keeps. Asked for the last
/// lines, Podman 4 joins a last line that has no end to the one before it, and leaves it out if it is the only one.
fn most_lines(engine: &Engine) -> Option<u64> {
    (!engine.is_podman()).then_some(LOG_LINES)
}

/// The end of what a container wrote, how many bytes of what was read came before that, and how many lines were read.
/// What the engine itself has discarded, since it is told to keep only so much, is not counted.
fn output(engine: &Engine, name: &str, errors_too: bool) -> Result<(String, u64, u64), Fault> {
    let most = most_lines(engine).map_or_else(|| "all".to_owned(), |most| most.to_string());
    let options = LogsOptionsBuilder::new().stdout(true).stderr(errors_too).tail(&most).build();
    let output = engine.docker().logs(name, Some(options));
    let collect = async {
        let (mut kept, mut left_out, mut lines): (Vec<u8>, usize, u64) = (Vec::new(), 0, 0);
        let mut output = std::pin::pin!(output);
        while let Some(part) = output.next().await {
            kept.extend_from_slice(&part?.into_bytes());
            lines += 1;
            if kept.len() > 2 * LOG_BYTES {
                left_out += kept.drain(..kept.len() - LOG_BYTES).len();
            }
        }
        left_out += kept.drain(..kept.len().saturating_sub(LOG_BYTES)).len();
        Ok((kept, left_out as u64, lines))
    };
    let (bytes, left_out, lines) =
        engine.call(collect).map_err(|error| error.doing(format!("read the output of the container {name}")))?;
    Ok((String::from_utf8_lossy(&bytes).into_owned(), left_out, lines))
}

/// Asks a container to end, forces it after `within`, removes it and waits until it is gone.
///
/// # Errors
/// When it still exists.
pub(crate) fn stop(engine: &Engine, name: &str, within: Duration) -> Result<(), Fault> {
    let seconds = within.as_secs_f64().ceil() as i32;
    let options = StopContainerOptionsBuilder::new().t(seconds).build();
    let stopping = engine.docker().stop_container(name, Some(options));
    // Whatever went wrong here, the removal below kills what still runs; only a failure of that counts.
    let _ = engine.call_within(within + call_limit(), stopping);
    remove(engine, name)
}

/// Pauses a running container, or resumes it.
///
/// # Errors
/// When the engine refuses: it has ended, or the machine has no freezer.
pub(crate) fn pause(engine: &Engine, name: &str, paused: bool) -> Result<(), Fault> {
    let (docker, word) = (engine.docker(), if paused { "pause" } else { "unpause" });
    let done = match paused {
        true => engine.call(docker.pause_container(name)),
        false => engine.call(docker.unpause_container(name)),
    };
    done.map_err(|error| error.doing(format!("{word} the container {name}")))
}

/// Removes a container, running or not, with its anonymous volumes, and waits until it is gone; one that is already
/// gone is no error.
///
/// # Errors
/// When it still exists.
pub(crate) fn remove(engine: &Engine, name: &str) -> Result<(), Fault> {
    let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
    let removed = engine.call(engine.docker().remove_container(name, Some(options)));
    let refused = match removed {
        Ok(()) => None,
        Err(error) if error.is_missing() => return Ok(()),
        Err(error) => Some(error.doing(format!("remove the container {name}"))),
    };
    // A removal that somebody else has begun is refused, and ends soon.
    let deadline = Instant::now() + GONE_WITHIN;
    while inspect(engine, name)?.is_some() {
        if Instant::now() >= deadline {
            let message = format!("the container {name} is still there though its removal was asked for");
            return Err(refused.unwrap_or_else(|| Fault::new(message)));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_container_is_told_in_words() {
        let ended_with = |exit_code, oom_killed, in_log| {
            let state = ContainerState {
                running: Some(false),
                exit_code: Some(exit_code),
                oom_killed: Some(oom_killed),
                ..Default::default()
            };
            match state_of(&state, || in_log) {
                InstanceState::Ended(how) => how,
                InstanceState::Running => panic!("it does not run"),
            }
        };
        let ended = |exit_code, oom_killed| ended_with(exit_code, oom_killed, false);
        assert_eq!(ended_with(137, false, true), "killed for lack of memory", "the engine has forgotten it");
        assert_eq!(ended_with(1, false, true), "exit code 1", "something of it was killed, and not its first process");
        assert_eq!(ended(0, false), "exit code 0");
        assert_eq!(ended(1, false), "exit code 1");
        assert_eq!(ended(137, false), "killed by signal 9");
        assert_eq!(ended(137, true), "killed for lack of memory");
        let running = ContainerState { running: Some(true), ..Default::default() };
        assert_eq!(state_of(&running, || true), InstanceState::Running);
    }

    /// The first is what Docker 20.10 of Debian 12 says without the package `apparmor`.
    #[test]
    fn what_is_missing_is_named_and_not_taken_for_another() {
        let apparmor = "AppArmor enabled on system but the docker-default profile could not be loaded: running \
                        `apparmor_parser apparmor_parser --version` failed with output: \nerror: exec: \
                        \"apparmor_parser\": executable file not found in $PATH";
        assert_eq!(remedy(apparmor, "/bin/x").as_deref(), Some("apt-get install apparmor"));
        let program = "runc create failed: exec: \"/bin/x\": stat /bin/x: no such file or directory: unknown";
        assert_eq!(remedy(program, "/bin/x").as_deref(), Some("check that the bundle holds /bin/x"));
        assert_eq!(remedy("cgroup: device or resource busy", "/bin/x"), None);
    }

    #[test]
    fn a_taken_port_is_recognised() {
        assert!(is_port_conflict("Bind for 10.9.0.1:80 failed: port is already allocated"));
        assert!(is_port_conflict("listen tcp4 10.9.0.1:80: bind: address already in use"));
        assert!(!is_port_conflict("OCI runtime create failed"));
    }
}
