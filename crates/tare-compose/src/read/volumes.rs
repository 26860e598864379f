//! `volumes:`, `tmpfs:`, `secrets:` and `configs:`: what is writable, and which files are put on top of the image.

use super::sharing::Mounted;
use super::{Reader, nested};
use crate::disk::Thing;
use crate::keys::Keys;
use crate::model::{Copied, Service};
use crate::sources::{At, Weight, is_below, plain};
use crate::yaml::{Entry, Kind, Value};
use std::path::{Component, Path, PathBuf};
use tare_core::workload::Volume;

/// The size of a volume for which none is stated, in bytes.
pub(crate) use tare_core::image::IMAGE_VOLUME_BYTES as VOLUME_BYTES;
/// The largest file that a workload may put on top of an image.
const FILE_BYTES_MAX: usize = 1 << 20;
/// The most files of a folder that is copied.
const FILES_MAX: usize = 200;
/// Files of the machine that nothing depends on but what the time is called.
const CLOCKS: [&str; 2] = ["/etc/localtime", "/etc/timezone"];

/// What becomes of `nocopy`.
const COPIED: &str = "the volume begins with what the image has there";
/// What becomes of `propagation`.
const STAYS: &str = "what is mounted below it later, inside or outside, stays there alone";
/// The keys of a mount that are about one kind alone, each with its own keys.
const MOUNT_OPTIONS: [(&str, &[&str]); 4] = [
    ("bind", &["create_host_path", "propagation", "recursive", "selinux"]),
    ("image", &["subpath"]),
    ("tmpfs", &["mode", "size"]),
    ("volume", &["labels", "nocopy", "subpath"]),
];

/// What is mounted where.
struct Mount {
    at: At,
    source: Option<String>,
    target: String,
    kind: MountKind,
    read_only: bool,
    bytes: Option<u64>,
    /// Whether it is a folder of a volume, and not the whole of it.
    partial: bool,
}

#[derive(PartialEq, Eq)]
enum MountKind {
    Volume,
    Bind,
    Tmpfs,
    Other,
}

impl Reader<'_> {
    /// Reads `volumes:`.
    pub(super) fn volumes(&mut self, value: &Value, service: &mut Service) {
        let key = service.key("volumes");
        for item in value.items(self.sources).to_vec() {
            let mount = match &item.kind {
                Kind::Map(_) => self.long_mount(&item, &key),
                _ => self.short_mount(&item, &key),
            };
            if let Some(mount) = mount {
                self.mount(mount, service);
            }
        }
    }

    /// Reads `tmpfs:`, paths with options behind a colon.
    pub(super) fn tmpfs(&mut self, value: &Value, service: &mut Service) {
        for item in value.items(self.sources).to_vec() {
            let Some(text) = item.text(self.sources) else { continue };
            let (target, options) = text.split_once(':').unwrap_or((&text, ""));
            let size = options.split(',').find_map(|option| option.strip_prefix("size="));
            let bytes = size.and_then(|size| {
                let value = Value { at: item.at, kind: Kind::Scalar { text: size.to_owned(), quoted: true } };
                value.bytes(self.sources)
            });
            let is_kept = |option: &str| matches!(option, "" | "rw") || option.starts_with("size=");
            let others: Vec<&str> = options.split(',').filter(|option| !is_kept(option)).collect();
            if !others.is_empty() {
                let instead = format!("of its options only the size is kept, and not {}", others.join(", "));
                self.sources.note(item.at, service.key("tmpfs"), Weight::Differs, instead);
            }
            let target = target.to_owned();
            let (kind, read_only, partial) = (MountKind::Tmpfs, false, false);
            self.mount(Mount { at: item.at, source: None, target, kind, read_only, bytes, partial }, service);
        }
    }

    /// `[SOURCE:]TARGET[:MODE]`.
    fn short_mount(&mut self, item: &Value, key: &str) -> Option<Mount> {
        let text = item.text(self.sources)?;
        let mut parts = text.split(':');
        let (first, second, mode) = (parts.next().unwrap_or_default(), parts.next(), parts.next().unwrap_or_default());
        if parts.next().is_some() {
            self.sources.wrong(item.at, format!("'{text}' is no volume"), "write SOURCE:TARGET or SOURCE:TARGET:ro");
            return None;
        }
        let read_only = mode.split(',').any(|mode| mode == "ro");
        if mode.split(',').any(|mode| mode == "nocopy") {
            self.sources.note(item.at, key, Weight::Differs, COPIED);
        }
        if mode.split(',').any(propagates) {
            self.sources.note(item.at, key, Weight::Differs, STAYS);
        }
        let (source, target) = match second {
            Some(target) => (Some(first.to_owned()), target.to_owned()),
            None => (None, first.to_owned()),
        };
        let is_path = source.as_ref().is_some_and(|source| source.starts_with(['.', '/', '~']));
        let kind = if is_path { MountKind::Bind } else { MountKind::Volume };
        Some(Mount { at: item.at, source, target, kind, read_only, bytes: None, partial: false })
    }

    fn long_mount(&mut self, item: &Value, key: &str) -> Option<Mount> {
        let mut keys = Keys::of(item, "a volume", self.sources)?;
        keys.know(&["consistency"]);
        let kind = match keys.text("type", self.sources).as_deref() {
            Some("volume") | None => MountKind::Volume,
            Some("bind") => MountKind::Bind,
            Some("tmpfs") => MountKind::Tmpfs,
            Some(_) => MountKind::Other,
        };
        let source = keys.text("source", self.sources);
        let target = keys.text("target", self.sources);
        let read_only = keys.flag("read_only", false, self.sources);
        let (bytes, partial) = self.mount_options(&mut keys, key);
        keys.finish(self.sources);
        if target.is_none() {
            self.sources.wrong(item.at, "a volume has no 'target'", "add 'target:', the path inside the container");
        }
        Some(Mount { at: item.at, source, target: target?, kind, read_only, bytes, partial })
    }

    /// What is said of one kind of mount alone. Returns the size of a `tmpfs`, and whether no more than a folder of a
    /// volume is mounted.
    fn mount_options(&mut self, keys: &mut Keys, key: &str) -> (Option<u64>, bool) {
        let (mut bytes, mut partial) = (None, false);
        for (kind, known) in MOUNT_OPTIONS {
            let Some(entry) = keys.get(kind) else { continue };
            nested::check(&entry.value, &format!("'{kind}'"), known, self.sources);
            for Entry { key: name, at, value, .. } in entry.value.entries() {
                let instead = match (kind, name.as_str()) {
                    ("tmpfs", "size") if !value.is_null() => {
                        bytes = value.bytes(self.sources);
                        continue;
                    }
                    _ if value.is_null() => continue,
                    ("bind", "propagation") if value.scalar().is_some_and(propagates) => STAYS,
                    ("tmpfs", "mode") => "its mode is that of every volume",
                    ("volume", "nocopy") if is_true(value) => COPIED,
                    ("volume", "subpath") => {
                        partial = true;
                        "the mount is a volume of its own, which begins empty in each trial"
                    }
                    _ => continue,
                };
                self.sources.note(*at, format!("{key}.{kind}.{name}"), Weight::Differs, instead);
            }
        }
        (bytes, partial)
    }

    fn mount(&mut self, mount: Mount, service: &mut Service) {
        let Some(target) = inside(&mount.target) else {
            let message = format!("'{}' is no absolute path inside the container", mount.target);
            self.sources.wrong(mount.at, message, "write for example ./data:/data");
            return;
        };
        let bytes = mount.bytes.filter(|bytes| *bytes > 0).unwrap_or(VOLUME_BYTES);
        let named = mount.kind == MountKind::Volume && mount.source.is_some() && !mount.partial;
        if mount.read_only && !named && matches!(mount.kind, MountKind::Volume | MountKind::Tmpfs) {
            let instead = "the service can write to the volume, too";
            self.sources.note(mount.at, service.key("volumes"), Weight::Differs, instead);
        }
        match (mount.kind, mount.source) {
            (MountKind::Bind, Some(source)) => self.bind(mount.at, &source, target, mount.read_only, service),
            (MountKind::Other | MountKind::Bind, _) => {
                let instead = "this kind of mount is there in no form; use a volume, or put the files into the image";
                self.sources.note(mount.at, service.key("volumes"), Weight::Stops, instead);
            }
            (MountKind::Volume, Some(name)) => {
                self.named(mount.at, &name, service);
                let volume = if mount.partial {
                    Volume::of(VOLUME_BYTES)
                } else {
                    Volume::shared(&name, VOLUME_BYTES, mount.read_only)
                };
                service.volumes.insert(target.clone(), volume);
                self.mounted.push(Mounted { at: mount.at, service: service.name.clone(), target });
            }
            (MountKind::Volume | MountKind::Tmpfs, _) => {
                service.volumes.insert(target, Volume::of(bytes));
            }
        }
    }

    /// A named volume must be declared; one that lies elsewhere is not the same.
    fn named(&mut self, at: At, name: &str, service: &Service) {
        let Some(declared) = self.project.section("volumes").iter().find(|entry| entry.key == name) else {
            let known: Vec<&str> = self.project.section("volumes").iter().map(|entry| entry.key.as_str()).collect();
            self.sources.unknown(at, format!("there is no volume '{name}'"), name, &known);
            return;
        };
        let external = declared.value.entries().iter().any(|entry| entry.key == "external" && is_true(&entry.value));
        if external {
            let instead = "the volume begins empty in each trial, whatever it holds elsewhere";
            self.sources.note(at, service.key("volumes"), Weight::Differs, instead);
        }
    }

    /// Copies what stands at a path of this machine.
    fn bind(&mut self, at: At, source: &str, target: String, read_only: bool, service: &mut Service) {
        let path = self.sources.resolve(at, source);
        let key = service.key("volumes");
        if CLOCKS.contains(&source) {
            let instead = format!("{source} is not copied: services have their image's own");
            return self.sources.note(at, key, Weight::Differs, instead);
        }
        if let Some(what) = of_machine(&plain(Path::new(source))) {
            return self.sources.note(at, key, Weight::Stops, format!("{source} is {what}: no form hands it over"));
        }
        if source.starts_with('~') || !is_below(self.root, &path) {
            let instead = format!("{source} is outside of the folder of the Compose file: copy what is needed into it");
            return self.sources.note(at, key, Weight::Stops, instead);
        }
        match self.disk.at(&path) {
            None => {
                let instead = format!("{source} does not exist, so {target} is a volume that begins empty");
                self.sources.note(at, key, Weight::Differs, instead);
                service.volumes.insert(target, Volume::of(VOLUME_BYTES));
            }
            Some(Thing::Other) => {
                self.sources.note(at, key, Weight::Stops, format!("{source} is neither a file nor a folder"));
            }
            Some(Thing::File { executable }) => {
                if self.copy(at, &path, &target, executable, "volumes", service) && !read_only {
                    let instead = format!("the service gets a copy of {source} that it can only read");
                    self.sources.note(at, key, Weight::Differs, instead);
                }
            }
            Some(Thing::Folder) => self.bind_folder(at, &path, target, read_only, service),
        }
    }

    fn bind_folder(&mut self, at: At, path: &Path, target: String, read_only: bool, service: &mut Service) {
        let key = service.key("volumes");
        let files = match self.below(path) {
            Ok(files) => files,
            Err(why) => return self.sources.note(at, key, Weight::Stops, why),
        };
        let shown = path.display();
        if files.is_empty() {
            if !read_only {
                let instead = format!("{shown} is empty; {target} is a volume that begins empty in each trial");
                self.sources.note(at, key, Weight::Differs, instead);
                service.volumes.insert(target, Volume::of(VOLUME_BYTES));
            }
            return;
        }
        for (file, executable) in files {
            let Some(name) = file.strip_prefix(path).ok().and_then(Path::to_str) else { continue };
            self.copy(at, &file, &format!("{target}/{name}"), executable, "volumes", service);
        }
        if !read_only {
            let instead = format!("the service gets copies of the files in {shown} that it can only read");
            self.sources.note(at, key, Weight::Differs, instead);
        }
    }

    /// All files below a folder, each with whether it may be executed.
    fn below(&self, folder: &Path) -> Result<Vec<(PathBuf, bool)>, String> {
        let (mut found, mut open) = (Vec::new(), vec![folder.to_owned()]);
        while let Some(current) = open.pop() {
            let names = self.disk.list(&current).map_err(|why| format!("cannot read {}: {why}", current.display()))?;
            for name in names {
                let path = current.join(name);
                match self.disk.at(&path) {
                    Some(Thing::Folder) => open.push(path),
                    Some(Thing::File { executable }) => found.push((path, executable)),
                    Some(Thing::Other) | None => {}
                }
                if found.len() + open.len() > FILES_MAX {
                    let shown = folder.display();
                    return Err(format!("{shown} has more than {FILES_MAX} files: put them into the image"));
                }
            }
        }
        found.sort();
        Ok(found)
    }

    /// Copies a file that a key names; whether it could be copied.
    fn copy(
        &mut self,
        at: At,
        path: &Path,
        target: &str,
        executable: bool,
        of: &'static str,
        service: &mut Service,
    ) -> bool {
        let key = service.key(of);
        let content = self.disk.read(path).and_then(|bytes| {
            let long = bytes.len() > FILE_BYTES_MAX;
            if long { Err("it is longer than 1 MiB".to_owned()) } else { Ok(bytes) }
        });
        match content {
            Ok(content) => {
                if executable {
                    let shown = path.display();
                    let instead = format!("{shown} is put in without the right to execute it: name its shell");
                    self.sources.note(at, key, Weight::Differs, instead);
                }
                self.put(at, target, content, of, service);
                true
            }
            Err(why) => {
                let instead = format!("{} cannot be copied: {why}; put it into the image", path.display());
                self.sources.note(at, key, Weight::Stops, instead);
                false
            }
        }
    }

    fn put(&mut self, at: At, target: &str, content: Vec<u8>, of: &'static str, service: &mut Service) {
        let is_below = |path: &str, file: &str| path != file && Path::new(path).starts_with(file);
        let clashes = |other: &&String| is_below(target, other) || is_below(other, target);
        if let Some(other) = service.files.keys().find(clashes) {
            let other = other.as_str();
            let (file, below) = if is_below(target, other) { (other, target) } else { (target, other) };
            let message = format!("'{file}' is a file, and '{below}' cannot lie below it");
            self.sources.wrong(at, message, "give one of the two another target");
            return;
        }
        let name = format!("files/{}{target}", service.own);
        service.files.insert(target.to_owned(), Copied { name, content, at, of });
    }

    /// Reads `secrets:` or `configs:` of a service, which stand in the section of that name.
    pub(super) fn given(&mut self, section: &'static str, value: &Value, service: &mut Service) {
        for item in value.items(self.sources).to_vec() {
            let (mut source, mut target) = (item.scalar().map(str::to_owned), None);
            if let Kind::Map(_) = item.kind {
                let Some(mut keys) = Keys::of(&item, format!("an item of '{section}'"), self.sources) else { continue };
                for name in ["uid", "gid", "mode"] {
                    if let Some(entry) = keys.get(name) {
                        let key = service.key(&format!("{section}.{name}"));
                        let instead = "every user of the service can read the file, and none can write it";
                        self.sources.note(entry.at, key, Weight::Differs, instead);
                    }
                }
                source = keys.text("source", self.sources);
                target = keys.text("target", self.sources);
                keys.finish(self.sources);
            }
            let Some(name) = source.filter(|name| !name.is_empty()) else {
                self.sources.wrong(item.at, format!("an item of '{section}' names none"), "name one of the file's own");
                continue;
            };
            let usual = if section == "secrets" { "/run/secrets/" } else { "/" };
            let target = target.unwrap_or_else(|| name.clone());
            let target = if target.starts_with('/') { target } else { format!("{usual}{target}") };
            let Some(target) = inside(&target) else {
                let message = format!("'{target}' is no path of a file inside the container");
                self.sources.wrong(item.at, message, "write an absolute path without '..'");
                continue;
            };
            let declared = self.project.section(section);
            match declared.iter().find(|entry| entry.key == name) {
                Some(entry) => self.give(section, item.at, entry, &target, service),
                None => {
                    let known: Vec<&str> = declared.iter().map(|entry| entry.key.as_str()).collect();
                    self.sources.unknown(item.at, format!("there is no '{name}' among '{section}'"), &name, &known);
                }
            }
        }
    }

    fn give(&mut self, section: &'static str, at: At, declared: &Entry, target: &str, service: &mut Service) {
        let Some(mut keys) = Keys::of(&declared.value, format!("'{}'", declared.key), self.sources) else { return };
        keys.know(&["name", "labels", "driver", "driver_opts", "template_driver"]);
        let file = keys.text("file", self.sources);
        let variable = keys.text("environment", self.sources);
        let content = keys.text("content", self.sources);
        let external = keys.get("external").is_some_and(|entry| is_true(&entry.value));
        keys.finish(self.sources);
        let key = service.key(section);
        match (file, variable, content) {
            (Some(file), ..) => {
                let path = self.sources.resolve(declared.value.at, &file);
                if !is_below(self.root, &path) {
                    let instead = format!("{file} is outside of the folder of the Compose file: copy it there");
                    return self.sources.note(at, key, Weight::Stops, instead);
                }
                if self.copy(at, &path, target, false, section, service) && section == "secrets" {
                    let instead = "the secret is a file of the workload's folder, which every service's user can read";
                    self.sources.note(at, key, Weight::Differs, instead);
                }
            }
            (None, Some(name), _) => match self.project.environment.get(&name).cloned() {
                Some(content) => {
                    self.put(at, target, content.into_bytes(), section, service);
                    let instead = format!("the value of '{name}' now stands in a file of the workload's folder");
                    self.sources.note(at, key, Weight::Differs, instead);
                }
                None => {
                    let hint = format!("export {name}=..., and import again");
                    self.sources.wrong(at, format!("the variable '{name}' is not set"), hint);
                }
            },
            (None, None, Some(content)) => self.put(at, target, content.into_bytes(), section, service),
            (None, None, None) => {
                let instead = if external { "it is known to an engine alone" } else { "nothing says what it holds" };
                self.sources.note(at, key, Weight::Stops, format!("{instead}: give it a 'file:'"));
            }
        }
    }
}

/// Whether mounts are passed on in this way of propagation; in the usual one, `rprivate`, they are not.
fn propagates(way: &str) -> bool {
    matches!(way, "shared" | "rshared" | "slave" | "rslave")
}

/// The path inside the container that a text names. `None` if it is not absolute, is the root, or leads above it: files
/// are copied to a folder of this machine under these paths.
fn inside(target: &str) -> Option<String> {
    let path = plain(Path::new(target));
    let is_inside = path.is_absolute() && path.components().all(|part| part != Component::ParentDir);
    path.to_str().filter(|_| is_inside && path.parent().is_some()).map(str::to_owned)
}

/// What a path of this machine is, if it is none of the user's files and copying it would make no sense.
fn of_machine(path: &Path) -> Option<&'static str> {
    const SOCKETS: [&str; 4] = ["docker.sock", "podman.sock", "containerd.sock", "crio.sock"];
    let below = |folders: &[&str]| folders.iter().any(|folder| path.starts_with(folder));
    let is_socket = path.is_absolute() && SOCKETS.iter().any(|name| path.ends_with(name));
    match path {
        _ if path.is_absolute() && path.parent().is_none() => Some("the machine's whole file system"),
        _ if is_socket => Some("the engine's socket"),
        _ if below(&["/proc", "/sys"]) => Some("the machine's kernel"),
        _ if below(&["/dev", "/run/udev"]) => Some("the machine's devices"),
        _ if below(&["/var/lib/docker", "/var/lib/containers", "/var/lib/containerd"]) => Some("the engine's storage"),
        _ => None,
    }
}

/// Whether a value is `true`, or a map, which older files write.
fn is_true(value: &Value) -> bool {
    matches!(value.kind, Kind::Map(_)) || matches!(value.scalar(), Some("true" | "True" | "TRUE" | "yes" | "on"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_inside_the_container_never_leads_above_its_root() {
        for (target, wanted) in [("/a..b", "/a..b"), ("/a/../b/", "/b"), ("//etc/./x", "/etc/x")] {
            assert_eq!(inside(target).as_deref(), Some(wanted), "{target}");
        }
        for target in ["", "a", "/", "/..", "/../victim", "/a/../../victim", "../victim"] {
            assert_eq!(inside(target), None, "{target}");
        }
    }
}
