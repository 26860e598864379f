//! Which container engines this machine has, and the one that a form asks for.

use super::engine::{Engine, is_guest};
use super::options::{ContainerOptions, EngineKind};
use super::podman::{self, Service};
use super::podman_files;
use super::rootless;
use super::{programs, runtimes, socket};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tare_core::fault::Fault;
use tare_core::host::TrialContext;

/// How long a service that was started here may take to answer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The engine that such containers are to be made with, if it can be asked for them; `None` if the options name no
/// engine and none answers. If Podman's service must be started for it, it is for this `trial`.
///
/// # Errors
/// Why the engine that is named cannot be had, or cannot be asked for such containers.
pub(super) fn find_for(options: &ContainerOptions, trial: Option<&TrialContext>) -> Result<Option<Engine>, Fault> {
    let runtime = options.runtime.named();
    let run = trial.map(|trial| trial.run.as_str());
    let found = match options.engine {
        EngineKind::Podman | EngineKind::PodmanRootless if is_guest() => return Err(not_in_a_guest()),
        EngineKind::PodmanRootless => Some(podman_as_user(options, trial)?),
        EngineKind::Podman => Some(podman_with(listening_podman()?, run, runtime)?),
        // A guest's engine is started by whoever opens the layer.
        EngineKind::Docker if is_guest() => Engine::find()?,
        EngineKind::Docker => Some(docker()?),
        EngineKind::Auto => match Engine::find()? {
            Some(engine) if engine.is_podman() => Some(podman_with(Some(engine), run, runtime)?),
            other => other,
        },
    };
    match found.as_ref().and_then(|engine| options.refused_by(engine.is_podman())) {
        Some(fault) => Err(fault),
        None => Ok(found),
    }
}

/// Every engine that may hold something of Tare's, each once; first the one that is used where no form names another.
///
/// # Errors
/// When that one does not answer, or Podman cannot be asked though runs have used it. Others that do not answer are
/// passed over: whatever is wrong with an engine that nobody uses must not keep anybody from a run.
pub(super) fn all() -> Result<Vec<Engine>, Fault> {
    let mut found = answering()?;
    if podman::was_used() {
        found.extend(podman_that_sleeps(&found)?);
    }
    Ok(found)
}

/// The same, of those that may have containers or networks of Tare's.
///
/// # Errors
/// As [`all`].
pub(super) fn all_with_ours() -> Result<Vec<Engine>, Fault> {
    let mut found = answering()?;
    if podman::may_have_ours() {
        found.extend(podman_that_sleeps(&found)?);
    }
    Ok(found)
}

/// The first engine of which `look` finds the image of this name: of those that answer, and then of Podman, if it is
/// installed and may have it. With what was found.
///
/// # Errors
/// When the engine that is used where no form names another does not answer, or what `look` returns.
pub(super) fn first_with<T>(
    name: &str,
    look: impl Fn(&Engine) -> Result<Option<T>, Fault>,
) -> Result<Option<(Engine, T)>, Fault> {
    let engines = answering()?;
    let is_awake = engines.iter().any(Engine::is_podman);
    for engine in engines {
        if let Some(found) = look(&engine)? {
            return Ok(Some((engine, found)));
        }
    }
    if podman_files::may_have_image(name)
        && let Some(engine) = podman_unless(is_awake).ok().flatten()
        && let Some(found) = look(&engine)?
    {
        return Ok(Some((engine, found)));
    }
    Ok(None)
}

/// Every engine that may have images, each once; in the same order.
///
/// # Errors
/// When the engine that is used where no form names another does not answer.
pub(super) fn all_with_images() -> Result<Vec<Engine>, Fault> {
    let mut found = answering()?;
    if found.is_empty() || podman_files::may_have_images() {
        found.extend(podman_that_sleeps(&found).ok().flatten());
    }
    Ok(found)
}

/// The engines that answer at the usual places and where the user says.
fn answering() -> Result<Vec<Engine>, Fault> {
    let mut found: Vec<Engine> = Engine::find()?.into_iter().collect();
    for path in socket::USUAL.map(Path::new) {
        if !found.iter().any(|engine| engine.is_at(path)) {
            found.extend(Engine::at(path).ok().flatten());
        }
    }
    Ok(found)
}

/// Podman if it is installed and none of `others`, with a service that is started for as long as it is used here.
fn podman_that_sleeps(others: &[Engine]) -> Result<Option<Engine>, Fault> {
    podman_unless(others.iter().any(Engine::is_podman))
}

/// The same, unless its service is awake.
fn podman_unless(is_awake: bool) -> Result<Option<Engine>, Fault> {
    let program = podman::program().filter(|_| !is_awake && !is_guest());
    program.map(|program| serve(&program, None, None)).transpose()
}

/// Docker Engine, where the user says or at its usual place.
fn docker() -> Result<Engine, Fault> {
    let mut other = None;
    for path in places(socket::USUAL[0])? {
        match Engine::at(&path)? {
            Some(engine) if engine.is_podman() => other = Some(path),
            Some(engine) => return Ok(engine),
            None => {}
        }
    }
    Err(match other {
        Some(path) => Fault::new(format!("at {} Podman answers, and no Docker Engine elsewhere", path.display()))
            .remedy("use 'engine: podman', or install Docker Engine: apt-get install docker.io"),
        None => no_docker(),
    })
}

/// How Docker Engine is started.
pub(super) const START_DOCKER: &str = "start it: systemctl start docker, or dockerd where there is no systemd";

/// Whether Docker Engine is installed, running or not.
pub(super) fn docker_is_installed() -> bool {
    ["/usr/sbin/dockerd", "/usr/bin/dockerd"].iter().any(|path| Path::new(path).exists())
}

fn no_docker() -> Fault {
    if docker_is_installed() {
        return Fault::new("Docker Engine is installed and does not run").remedy(START_DOCKER);
    }
    Fault::new("there is no Docker Engine on this machine").remedy("apt-get install docker.io")
}

/// Podman, if it listens where the user says or at its usual place.
fn listening_podman() -> Result<Option<Engine>, Fault> {
    // Whatever else DOCKER_HOST names is for those who ask for Docker.
    for path in places(socket::USUAL[1]).unwrap_or_else(|_| vec![PathBuf::from(socket::USUAL[1])]) {
        let found = match Engine::at(&path) {
            Err(_) if path != Path::new(socket::USUAL[1]) => None,
            found => found?,
        };
        if let Some(engine) = found.filter(Engine::is_podman) {
            return Ok(Some(engine));
        }
    }
    Ok(None)
}

/// Where the user says, if anything, and the usual place of an engine.
fn places(usual: &str) -> Result<Vec<PathBuf>, Fault> {
    let mut places = match crate::environment::docker_host() {
        Some(_) => socket::candidates()?,
        None => Vec::new(),
    };
    places.push(PathBuf::from(usual));
    places.dedup();
    Ok(places)
}

/// Podman with a runtime for all containers, which its API takes from nobody: if the one that listens has another, or
/// none listens, a service is started.
fn podman_with(listening: Option<Engine>, run: Option<&str>, runtime: Option<&str>) -> Result<Engine, Fault> {
    if let Some(engine) = listening {
        let has = match runtime {
            Some(wanted) => runtimes::own_runtime(&engine.info()?).as_deref() == Some(wanted),
            None => true,
        };
        if has {
            return Ok(engine);
        }
    }
    let program = podman::program().ok_or_else(podman_missing)?;
    serve(&program, run, runtime)
}

/// Starts a service and waits until it answers.
fn serve(program: &Path, run: Option<&str>, runtime: Option<&str>) -> Result<Engine, Fault> {
    answered_by(Service::start(program, run, runtime)?, runtime)
}

/// Podman as a plain user, with a service that is of this trial, or only to be asked what it is.
fn podman_as_user(options: &ContainerOptions, trial: Option<&TrialContext>) -> Result<Engine, Fault> {
    let program = podman::program().ok_or_else(podman_missing)?;
    let user = rootless::user(options)?;
    let trial = trial.map(|trial| (trial.run.as_str(), trial.scratch.as_path()));
    let runtime = options.runtime.named();
    let engine = answered_by(Service::start_as(user, &program, trial, runtime)?, runtime)?;
    rootless::refused_by(engine.version(), options).map_or(Ok(engine), Err)
}

fn podman_missing() -> Fault {
    Fault::new("Podman is not installed on this machine").remedy("apt-get install podman")
}

/// Waits until a service that was started answers.
fn answered_by(mut service: Service, runtime: Option<&str>) -> Result<Engine, Fault> {
    let deadline = Instant::now() + ANSWERS_WITHIN;
    loop {
        let late = Instant::now() >= deadline;
        match Engine::at(&service.socket()) {
            Ok(Some(engine)) => return Ok(engine.served_by(service)),
            Err(fault) if late => return Err(fault),
            Ok(None) if late => {
                let seconds = ANSWERS_WITHIN.as_secs();
                let message = format!("Podman's service was started and does not answer within {seconds} s");
                return Err(Fault::new(message).remedy("systemctl start podman.socket, or see what `podman info` says"));
            }
            Ok(None) | Err(_) => {}
        }
        if let Some(words) = service.last_words() {
            return Err(refusal(&words, runtime));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Why Podman's service has ended instead of answering, in its own last words.
fn refusal(words: &str, runtime: Option<&str>) -> Fault {
    let last = words.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    match runtime {
        Some(runtime) => {
            Fault::new(format!("Podman does not start with the runtime {runtime}: {last}")).remedy(format!(
                "install {runtime}; if it is in an unusual place, name that in /etc/containers/containers.conf under \
             [engine.runtimes]"
            ))
        }
        None => Fault::new(format!("Podman's service does not start: {last}")).remedy("see what `podman info` says"),
    }
}

fn not_in_a_guest() -> Fault {
    Fault::new("in a guest there is no engine but the Docker Engine that Tare brings along")
        .remedy("leave 'engine' out where the container stands in a guest")
}

/// The engines of this machine in a few words each, with the option that asks for each.
pub(super) fn in_words(describe: impl Fn(&Engine) -> String) -> Vec<String> {
    let found = answering().unwrap_or_default();
    let mut told: Vec<String> = Vec::new();
    for (kind, is_podman) in [("docker", false), ("podman", true)] {
        if let Some(engine) = found.iter().find(|engine| engine.is_podman() == is_podman) {
            told.push(format!("engine: {kind} ({})", describe(engine)));
        } else if let Some(program) = podman::program().filter(|_| is_podman) {
            let version = programs::version_of(&program).map_or_else(String::new, |version| format!(" {version}"));
            told.push(format!("engine: podman (Podman{version}, started when a form asks for it)"));
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_that_podman_does_not_have_is_named() {
        let words = "time=\"x\" level=warning msg=\"y\"\nError: default OCI runtime \"youki\" not found\n\n";
        let fault = refusal(words, Some("youki"));
        assert!(fault.message.contains("with the runtime youki: Error: "), "{fault}");
        assert!(fault.message.ends_with("\"youki\" not found"), "{fault}");
        assert!(fault.remedy.contains("[engine.runtimes]"), "{fault}");
        assert!(refusal("", None).message.ends_with("it said nothing"));
    }
}
