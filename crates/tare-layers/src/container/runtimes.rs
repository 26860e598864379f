//! The OCI runtime that an engine starts a form's containers with: whether the engine has it, and what it keeps from
//! whoever looks at a container from outside.

use super::engine::{Engine, is_guest};
use super::options::{ContainerOptions, Network};
use super::{programs, runtime};
use bollard::models::SystemInfo;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tare_core::fault::Fault;
use tare_core::host::Facts;

/// What engines use unless they say otherwise.
const USUAL: &str = "runc";
/// Runtimes in whose containers this machine's kernel does not run the service's programs itself, by a part of their
/// names: from outside there is one process, which has other files than the service.
const SEALED: [(&str, &str); 5] = [
    ("runsc", "gVisor"),
    ("gvisor", "gVisor"),
    ("kata", "Kata Containers"),
    ("krun", "libkrun"),
    ("firecracker", "Firecracker"),
];

/// A runtime of an engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EngineRuntime {
    /// What the engine calls it.
    name: String,
    /// Its program, if it is where the engine says or in the usual folders.
    program: Option<PathBuf>,
    /// What a container is that shows nothing of its service to this machine.
    pub(super) sealed: Option<&'static str>,
}

/// The runtime with which `engine` starts such containers.
///
/// # Errors
/// When the engine does not answer, has no such runtime, or cannot have it start such containers.
pub(super) fn of(engine: &Engine, options: &ContainerOptions) -> Result<EngineRuntime, Fault> {
    let info = engine.info()?;
    let found = chosen(&info, options.runtime.named(), engine.is_podman())?;
    if let Some(fault) = runtime::refuses_below(&found.kind(), Path::new("/sys/fs/cgroup")) {
        return Err(fault.remedy("use 'runtime: runc', or boot with 'systemd.unified_cgroup_hierarchy=1'"));
    }
    if let Some(kind) = found.sealed.filter(|_| options.network == Network::Host) {
        let message = format!("a container of {kind} has a network of its own making, even with 'network: host'");
        return Err(Fault::new(message).remedy("use 'network: published' or 'network: bridge'"));
    }
    Ok(found)
}

/// The runtime that was asked for, or the engine's own.
fn chosen(info: &SystemInfo, wanted: Option<&str>, is_podman: bool) -> Result<EngineRuntime, Fault> {
    let configured = configured(info);
    let own = || own_runtime(info).unwrap_or_else(|| USUAL.to_owned());
    let name = wanted.map_or_else(own, str::to_owned);
    let path = configured.get(&name).cloned().flatten();
    let program = path.and_then(|path| located(&path)).or_else(|| shim(&name)).or_else(|| programs::find(&name));
    // Podman was started with it, so it has it.
    let is_there = is_podman || wanted.is_none() || configured.contains_key(&name) || shim(&name).is_some();
    if !is_there {
        return Err(missing(&name, &configured));
    }
    let file = program.as_deref().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
    let told = format!("{name} {file}").to_lowercase();
    // A name that begins otherwise is another: crun is no krun.
    let is_of = |part: &str| told.split(|letter: char| !letter.is_alphanumeric()).any(|word| word.starts_with(part));
    let sealed = SEALED.iter().find(|(part, _)| is_of(part)).map(|(_, kind)| *kind);
    Ok(EngineRuntime { name, program, sealed })
}

/// The runtimes that an engine lists, each with the path of its program if it says one.
fn configured(info: &SystemInfo) -> BTreeMap<String, Option<String>> {
    let listed = info.runtimes.iter().flatten();
    listed.map(|(name, runtime)| (name.clone(), runtime.path.clone().filter(|path| !path.is_empty()))).collect()
}

/// The runtime that an engine uses unless it is asked for another. Podman may know it by its path.
pub(super) fn own_runtime(info: &SystemInfo) -> Option<String> {
    let name = info.default_runtime.as_deref()?.rsplit('/').next()?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// Where a program is that an engine names by a path or by a bare name.
fn located(path: &str) -> Option<PathBuf> {
    if path.contains('/') { Some(PathBuf::from(path)).filter(|path| path.is_file()) } else { programs::find(path) }
}

/// The program of a runtime that containerd finds by its name alone: `containerd-shim-kata-v2` of
/// `io.containerd.kata.v2`.
fn shim_name(name: &str) -> Option<String> {
    let (kind, version) = name.strip_prefix("io.containerd.")?.rsplit_once('.')?;
    Some(format!("containerd-shim-{kind}-{version}"))
}

/// Where that program is.
fn shim(name: &str) -> Option<PathBuf> {
    programs::find(&shim_name(name)?)
}

/// The fault when an engine has no such runtime.
fn missing(name: &str, configured: &BTreeMap<String, Option<String>>) -> Fault {
    let known: Vec<&str> = configured.keys().map(String::as_str).collect();
    let known = if known.is_empty() { USUAL.to_owned() } else { known.join(", ") };
    let fault = Fault::new(format!("the container engine has no runtime {name}; it has {known}"));
    if is_guest() {
        return fault.remedy("leave 'runtime' out where the container stands in a guest");
    }
    if let Some(shim) = shim_name(name) {
        return fault.remedy(format!("install {shim} where containerd finds it, in /usr/local/bin for example"));
    }
    let install = if programs::find(name).is_some() { String::new() } else { format!("install {name}, then ") };
    fault.remedy(format!(
        "{install}add \"runtimes\": {{\"{name}\": {{\"path\": \"{}\"}}}} to /etc/docker/daemon.json and restart Docker",
        programs::find(name).unwrap_or_else(|| Path::new("/usr/local/bin").join(name)).display()
    ))
}

/// What an engine is, with the runtime that it starts containers with.
///
/// # Errors
/// When it does not answer.
pub(super) fn facts(engine: &Engine, runtime: &EngineRuntime) -> Result<Facts, Fault> {
    let mut facts = engine.facts()?;
    runtime.put_into(&mut facts);
    Ok(facts)
}

impl EngineRuntime {
    /// What its program is called, or else it itself.
    fn kind(&self) -> String {
        let file = self.program.as_deref().and_then(Path::file_name);
        file.map_or_else(|| self.name.clone(), |file| file.to_string_lossy().into_owned())
    }

    /// The facts about an engine, with this runtime in the place of the engine's own.
    fn put_into(&self, facts: &mut Facts) {
        const NAME: &str = "engine.runtime";
        const VERSION: &str = "engine.runtime.version";
        if facts.get(NAME).is_none_or(|name| *name != self.name) {
            facts.remove(VERSION);
        }
        facts.insert(NAME.to_owned(), self.name.clone());
        if !facts.contains_key(VERSION) {
            let version = self.program.as_deref().and_then(programs::version_of);
            facts.extend(version.map(|version| (VERSION.to_owned(), version)));
        }
    }

    /// What keeps whoever looks from outside from the files of a service, if anything does.
    pub(super) fn hides_files(&self) -> Option<Fault> {
        let kind = self.sealed?;
        Some(Fault::new(format!("a container of {kind} shows its service's files to nobody outside of it")))
    }
}

/// The runtimes of an engine whose programs are there, in one line; empty if there is only one.
pub(super) fn in_words(engine: &Engine) -> String {
    let Ok(info) = engine.info() else { return String::new() };
    // Docker lists its usual one by other names, too.
    let is_alias = |name: &str| ["io.containerd.runc.", "io.containerd.runtime."].iter().any(|of| name.starts_with(of));
    let is_there = |(name, path): &(String, Option<String>)| {
        !is_alias(name) && path.as_deref().map_or_else(|| shim(name), located).is_some()
    };
    let names: Vec<String> = configured(&info).into_iter().filter(is_there).map(|(name, _)| name).collect();
    if names.len() < 2 { String::new() } else { format!("; runtime: {}", names.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bollard::models::Runtime;
    use std::collections::HashMap;

    fn info(runtimes: &[(&str, &str)], own: &str) -> SystemInfo {
        let of = |path: &str| Runtime { path: Some(path.to_owned()), ..Default::default() };
        let runtimes: HashMap<String, Runtime> =
            runtimes.iter().map(|(name, path)| ((*name).to_owned(), of(path))).collect();
        SystemInfo { runtimes: Some(runtimes), default_runtime: Some(own.to_owned()), ..Default::default() }
    }

    #[test]
    fn an_engine_s_own_runtime_is_used_unless_another_is_asked_for() {
        let docker = info(&[("runc", "runc"), ("mine", "/nowhere/youki")], "runc");
        assert_eq!(chosen(&docker, None, false).unwrap().name, "runc");
        assert_eq!(chosen(&docker, Some("mine"), false).unwrap().name, "mine");
        assert_eq!(chosen(&info(&[], "/usr/bin/crun"), None, true).unwrap().name, "crun");
        assert_eq!(chosen(&SystemInfo::default(), None, false).unwrap().name, "runc");
    }

    #[test]
    fn a_runtime_that_the_engine_lacks_is_told_with_how_it_is_added() {
        let fault = chosen(&info(&[("runc", "runc")], "runc"), Some("no-such-runtime"), false).unwrap_err();
        assert_eq!(fault.message, "the container engine has no runtime no-such-runtime; it has runc");
        let wanted = "install no-such-runtime, then add \"runtimes\": {\"no-such-runtime\": {\"path\": \
                      \"/usr/local/bin/no-such-runtime\"}} to /etc/docker/daemon.json and restart Docker";
        assert_eq!(fault.remedy, wanted);
        let fault = chosen(&SystemInfo::default(), Some("io.containerd.no-such.v2"), false).unwrap_err();
        assert!(fault.remedy.starts_with("install containerd-shim-no-such-v2 where"), "{fault}");
    }

    #[test]
    fn what_shows_nothing_of_its_service_is_known_by_its_name_or_its_program() {
        let folder = tempfile::tempdir().unwrap();
        let [runsc, crun] = ["runsc", "crun"].map(|name| {
            let path = folder.path().join(name);
            std::fs::write(&path, "").unwrap();
            path.display().to_string()
        });
        let katas = [("kata", "/nowhere"), ("kata-qemu", "/nowhere")];
        let listed = info(&[("safe", runsc.as_str()), ("fast", crun.as_str()), katas[0], katas[1]], "runc");
        let sealed = |name: &str| chosen(&listed, Some(name), false).unwrap().sealed;
        assert_eq!([sealed("safe"), sealed("fast")], [Some("gVisor"), None]);
        assert_eq!([sealed("kata"), sealed("kata-qemu")], [Some("Kata Containers"); 2]);
        assert_eq!(chosen(&listed, None, false).unwrap().sealed, None);
        assert!(chosen(&listed, Some("safe"), false).unwrap().hides_files().unwrap().message.contains("gVisor"));
    }

    #[test]
    fn the_record_names_the_runtime_and_not_the_version_of_another() {
        let facts = |name: &str| {
            let version = ("engine.runtime.version".to_owned(), "1.1.5".to_owned());
            let mut facts = Facts::from([("engine.runtime".to_owned(), "runc".to_owned()), version]);
            EngineRuntime { name: name.to_owned(), program: None, sealed: None }.put_into(&mut facts);
            facts
        };
        assert_eq!(facts("runc").get("engine.runtime.version").map(String::as_str), Some("1.1.5"));
        let other = facts("youki");
        assert_eq!((other["engine.runtime"].as_str(), other.len()), ("youki", 1));
    }
}
