//! A connection to a container engine in which no call can hang.

use super::podman::Service;
use super::rootless::User;
use super::socket;
use crate::cgroup::Group;
use crate::network::UserHere;
use bollard::models::{SystemInfo, SystemVersion};
use bollard::{API_DEFAULT_VERSION, ClientVersion, Docker, errors::Error};
use futures_util::{Stream, StreamExt};
use std::future::Future;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tare_core::fault::{Doing, Fault};
use tare_core::host::Facts;

/// This file exists where this code runs in a guest that Tare made.
const GUEST_MARKER: &str = "/run/tare/guest";
/// How long an engine may take for an ordinary call. One that takes longer counts as not answering at all.
const CALL_LIMIT: Duration = Duration::from_secs(60);
/// The same for an engine in a guest, which may be emulated, and so about fifteen times slower; on a busy machine,
/// slower still.
const GUEST_CALL_LIMIT: Duration = Duration::from_secs(240);
/// How long it may take to report its version: short, for this decides whether there is an engine.
const HELLO_LIMIT: Duration = Duration::from_secs(10);
/// How long the import of an image may take.
pub(crate) const IMPORT_LIMIT: Duration = Duration::from_secs(600);

/// More than any answer to a call that makes nothing but a change, bytes.
const ANSWER_MAX: u64 = 64 << 10;

/// Whether this process runs in a Tare guest.
pub(crate) fn is_guest() -> bool {
    Path::new(GUEST_MARKER).exists()
}

/// How long this machine's engine may take for an ordinary call.
pub(crate) fn call_limit() -> Duration {
    if is_guest() { GUEST_CALL_LIMIT } else { CALL_LIMIT }
}

/// The first API version in which a network can declare that its addresses are reached directly (Docker 28).
const GATEWAY_MODE_SINCE: (u32, u32) = (1, 48);

/// A container engine that has answered.
pub(crate) struct Engine {
    runtime: tokio::runtime::Runtime,
    docker: Docker,
    socket: PathBuf,
    version: SystemVersion,
    /// Its service, if that was started here: it ends with the connection.
    service: Option<Service>,
}

/// Why a call to the engine failed: what it said, or that it said nothing.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The engine refused.
    Refused {
        /// HTTP status.
        status: u16,
        /// What it said.
        message: String,
    },
    /// It reports a state that the client does not know: Podman's `stopped`, for a container that has ended and is not
    /// tidied up yet. That lasts only a moment.
    Ending(Fault),
    /// Anything else.
    Broken(Fault),
}

/// The result of waiting for a stream.
pub(crate) enum Heard<T> {
    /// Its next item.
    Item(T),
    /// Nothing in time.
    Nothing,
    /// There are no more.
    End,
}

impl From<Error> for CallError {
    fn from(error: Error) -> Self {
        match error {
            Error::DockerResponseServerError { status_code, message } => {
                CallError::Refused { status: status_code, message }
            }
            Error::DockerStreamError { error } => CallError::Refused { status: 500, message: error },
            error => {
                let ending = error.to_string().contains("unknown variant `stopped`");
                let fault = Fault::from_error("talk to the container engine", &error);
                if ending { CallError::Ending(fault) } else { CallError::Broken(fault) }
            }
        }
    }
}

impl CallError {
    /// Whether the engine said that the object does not exist.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, CallError::Refused { status: 404, .. })
    }

    /// As a fault in what was being done.
    pub(crate) fn doing(self, what: impl std::fmt::Display) -> Fault {
        match self {
            CallError::Refused { message, .. } => {
                Fault::new(format!("could not {what}: the container engine refused: {}", message.trim()))
            }
            CallError::Ending(fault) | CallError::Broken(fault) => fault.context(format!("could not {what}")),
        }
    }
}

impl Engine {
    /// Connects to the first engine that answers. `Ok(None)` when nothing listens in any of the known places.
    ///
    /// # Errors
    /// When something listens but does not answer like an engine, or the user chose an engine elsewhere.
    pub(crate) fn find() -> Result<Option<Engine>, Fault> {
        Engine::first_of(&socket::candidates()?, crate::environment::docker_host().is_some())
    }

    /// The first engine that answers at these sockets, which the user may have `chosen`.
    fn first_of(paths: &[PathBuf], chosen: bool) -> Result<Option<Engine>, Fault> {
        for path in paths {
            let found = Engine::at(path);
            let found = if chosen { found.map_err(|fault| socket::of_choice(fault, path)) } else { found };
            if let Some(engine) = found? {
                return Ok(Some(engine));
            }
        }
        Ok(None)
    }

    /// Connects to the engine at a socket. `Ok(None)` when nothing listens there.
    ///
    /// # Errors
    /// When something listens there but does not answer like an engine.
    pub(crate) fn at(path: &Path) -> Result<Option<Engine>, Fault> {
        match UnixStream::connect(path) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                let message = format!("the container engine's socket {} may not be opened", path.display());
                return Err(Fault::new(message).remedy("run as root"));
            }
            Err(_) => return Ok(None),
        }
        Engine::connect(path, HELLO_LIMIT).map(Some)
    }

    fn connect(path: &Path, limit: Duration) -> Result<Engine, Fault> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .doing("make a runtime for the container engine's client")?;
        let address = path.display().to_string();
        // `call` sets the time limits; this one only must not be shorter than the longest of them.
        let speak = |version: &ClientVersion| {
            let connected = Docker::connect_with_unix(&address, IMPORT_LIMIT.as_secs() + 60, version);
            connected.doing("connect to the container engine")
        };
        let (socket, version) = (path.to_owned(), SystemVersion::default());
        let mut engine = Engine { runtime, docker: speak(API_DEFAULT_VERSION)?, socket, version, service: None };
        // Once: Podman asks the machine's packages for the versions of all its parts, which takes half a second.
        let docker = engine.docker.clone();
        let asked = engine.call_within(limit, docker.version());
        engine.version = asked.map_err(|error| error.doing("ask the container engine for its version"))?;
        if let Some((major, minor)) = engine.api()
            && (major as usize, minor as usize) < (API_DEFAULT_VERSION.major_version, API_DEFAULT_VERSION.minor_version)
        {
            engine.docker = speak(&ClientVersion { major_version: major as usize, minor_version: minor as usize })?;
        }
        Ok(engine)
    }

    /// The version of the API that it speaks, if it says one.
    fn api(&self) -> Option<(u32, u32)> {
        let (major, minor) = self.version.api_version.as_deref()?.split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    }

    /// The client to make calls with.
    pub(crate) fn docker(&self) -> &Docker {
        &self.docker
    }

    /// Makes a call within the usual limit.
    pub(crate) fn call<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, CallError> {
        self.call_within(call_limit(), call)
    }

    /// Makes a call within a limit of its own.
    pub(crate) fn call_within<T>(
        &self,
        limit: Duration,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, CallError> {
        let outcome = self.runtime.block_on(async { tokio::time::timeout(limit, call).await });
        match outcome {
            Ok(outcome) => outcome.map_err(CallError::from),
            Err(_) => Err(CallError::Broken(self.silent(limit))),
        }
    }

    /// Waits for the next item of a stream that a call has opened, for at most `limit`.
    pub(crate) fn hear<T>(
        &self,
        limit: Duration,
        stream: &mut (impl Stream<Item = Result<T, Error>> + Unpin),
    ) -> Result<Heard<T>, CallError> {
        match self.runtime.block_on(async { tokio::time::timeout(limit, stream.next()).await }) {
            Ok(Some(item)) => Ok(Heard::Item(item?)),
            Ok(None) => Ok(Heard::End),
            Err(_) => Ok(Heard::Nothing),
        }
    }

    fn silent(&self, limit: Duration) -> Fault {
        let message = format!(
            "the container engine at {} has not answered for {} s; it hangs or is overloaded",
            self.socket.display(),
            limit.as_secs()
        );
        Fault::new(message).remedy("look at its log (journalctl -u docker), then restart it")
    }

    /// The same engine, which keeps the service that answers for it.
    pub(super) fn served_by(self, service: Service) -> Engine {
        Engine { service: Some(service), ..self }
    }

    /// The user who runs it, and the group of all that it has started, if Tare has it run by a plain user.
    pub(super) fn rootless(&self) -> Option<(&User, &Group)> {
        self.service.as_ref()?.rootless()
    }

    /// The process in whose namespaces a plain user's containers are mounted.
    pub(super) fn keeper(&self) -> Option<u32> {
        self.service.as_ref()?.keeper()
    }

    /// Its version, as it says it.
    pub(super) fn version(&self) -> &str {
        self.version.version.as_deref().unwrap_or_default()
    }

    /// Makes a call of Podman's own API, which the client does not know, with nothing but a path.
    ///
    /// # Errors
    /// When it is refused or not answered.
    pub(super) fn post(&self, path: &str) -> Result<(), CallError> {
        let exchange = || -> io::Result<String> {
            let mut stream = UnixStream::connect(&self.socket)?;
            stream.set_read_timeout(Some(call_limit()))?;
            stream.set_write_timeout(Some(call_limit()))?;
            write!(stream, "POST {path} HTTP/1.0\r\nHost: engine\r\nContent-Length: 0\r\n\r\n")?;
            let mut answer = Vec::new();
            stream.take(ANSWER_MAX).read_to_end(&mut answer)?;
            Ok(String::from_utf8_lossy(&answer).into_owned())
        };
        let answer = exchange().doing("talk to the container engine").map_err(CallError::Broken)?;
        let status = answer.split(' ').nth(1).and_then(|code| code.parse::<u16>().ok()).unwrap_or(0);
        if (200..400).contains(&status) {
            return Ok(());
        }
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let said = serde_json::from_str::<serde_json::Value>(body).unwrap_or_default();
        let message = said["message"].as_str().unwrap_or(body).to_owned();
        Err(CallError::Refused { status, message })
    }

    /// Whether it listens at this path, or at one that leads to it.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        real(&self.socket) == real(path)
    }

    /// The command line with which a person talks to this very engine, without the subcommand.
    pub(crate) fn command_line(&self) -> String {
        let socket = self.socket.display();
        if self.rootless().is_some() {
            return format!("podman --remote --url unix://{socket}");
        }
        if self.service.is_some() {
            // Whoever types it talks to another service, which has the same containers.
            return "podman".to_owned();
        }
        match (self.is_podman(), socket::USUAL.iter().any(|usual| Path::new(usual) == self.socket)) {
            (false, true) => "docker".to_owned(),
            (false, false) => format!("docker --host unix://{socket}"),
            // By default it talks to no engine: it looks at what root has.
            (true, true) => "podman".to_owned(),
            (true, false) => format!("podman --remote --url unix://{socket}"),
        }
    }

    /// Whether Podman is behind Docker's API.
    pub(crate) fn is_podman(&self) -> bool {
        let components = self.version.components.iter().flatten();
        components.into_iter().any(|component| component.name.to_ascii_lowercase().contains("podman"))
    }

    /// Whether a network must be told that its addresses are reached directly from outside.
    pub(crate) fn has_gateway_mode(&self) -> bool {
        !self.is_podman() && self.api().is_some_and(|api| api >= GATEWAY_MODE_SINCE)
    }

    /// Which user of this machine a container's user is.
    ///
    /// # Errors
    /// When the engine does not answer.
    pub(crate) fn user_here(&self) -> Result<UserHere, Fault> {
        let facts = self.facts()?;
        let maps = |security: &String| security.contains("name=rootless") || security.contains("name=userns");
        Ok(if facts.get("engine.security").is_some_and(maps) { UserHere::Another } else { UserHere::Same })
    }

    /// What it says of itself.
    ///
    /// # Errors
    /// When it does not answer.
    pub(crate) fn info(&self) -> Result<SystemInfo, Fault> {
        self.call(self.docker.info()).map_err(|error| error.doing("ask the container engine what it is"))
    }

    /// What the engine is.
    ///
    /// # Errors
    /// When it does not answer.
    pub(crate) fn facts(&self) -> Result<Facts, Fault> {
        let info = self.info()?;
        let mut facts = Facts::new();
        let name = if self.is_podman() { "Podman" } else { "Docker Engine" };
        facts.insert("engine.name".to_owned(), name.to_owned());
        let started = self.service.is_some();
        let socket = if started { "started for the form".to_owned() } else { self.socket.display().to_string() };
        facts.insert("engine.socket".to_owned(), socket);
        let mut add = |key: &str, value: Option<String>| {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                facts.insert(format!("engine.{key}"), value);
            }
        };
        add("version", self.version.version.clone());
        add("api", self.version.api_version.clone());
        for component in self.version.components.iter().flatten() {
            let key = match component.name.as_str() {
                "containerd" => "containerd",
                "runc" | "crun" => "runtime.version",
                _ => continue,
            };
            add(key, Some(component.version.clone()));
        }
        add_info(&info, add);
        Ok(facts)
    }
}

fn add_info(info: &SystemInfo, mut add: impl FnMut(&str, Option<String>)) {
    add("storage_driver", info.driver.clone());
    let backing =
        info.driver_status.iter().flatten().find(|pair| pair.first().is_some_and(|k| k.starts_with("Backing")));
    add("backing_filesystem", backing.and_then(|pair| pair.get(1).cloned()));
    add("cgroup_driver", info.cgroup_driver.map(|driver| driver.to_string()));
    add("cgroup_version", info.cgroup_version.map(|version| version.to_string()));
    add("runtime", info.default_runtime.clone());
    add("security", info.security_options.as_ref().map(|options| options.join(" ")));
    add("firewall", info.firewall_backend.as_ref().and_then(|backend| backend.driver.clone()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::time::Instant;

    #[test]
    fn an_engine_that_does_not_answer_is_a_fault_and_no_wait_without_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("engine.sock");
        // The kernel accepts connections; nobody ever reads from them.
        let _listener = UnixListener::bind(&path).unwrap();
        let began = Instant::now();
        let fault = Engine::connect(&path, Duration::from_millis(200)).err().expect("nobody answered");
        assert!(fault.message.contains("has not answered") && fault.message.contains("engine.sock"), "{fault}");
        assert!(fault.remedy.contains("restart"), "{fault}");
        assert!(began.elapsed() >= Duration::from_millis(200));
    }

    #[test]
    fn where_nothing_listens_there_is_no_engine() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("engine.sock");
        assert!(Engine::at(&path).unwrap().is_none());
        drop(UnixListener::bind(&path).unwrap());
        assert!(Engine::at(&path).unwrap().is_none(), "a socket that a dead engine left");
    }

    #[test]
    fn something_else_that_answers_is_a_fault() {
        use std::io::{Read, Write};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("engine.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let other = std::thread::spawn(move || {
            for stream in listener.incoming().take(6) {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(b"220 mail.example ESMTP\r\n");
            }
        });
        let fault = Engine::at(&path).err().expect("this is no engine");
        assert!(fault.message.contains("ask the container engine for its version"), "{fault}");
        // Among the usual places a user would not know which one it was, and need not.
        let fault = Engine::first_of(std::slice::from_ref(&path), false).err().expect("this is no engine");
        assert!(!fault.to_string().contains("DOCKER_HOST"), "{fault}");
        let fault = Engine::first_of(std::slice::from_ref(&path), true).err().expect("this is no engine");
        let place = format!("DOCKER_HOST says that an engine listens at {}", path.display());
        assert!(fault.message.contains("for its version") && fault.message.ends_with(&place), "{fault}");
        assert_eq!(fault.remedy, "unset DOCKER_HOST, or set it to the socket of a container engine");
        other.join().unwrap();
    }
}
