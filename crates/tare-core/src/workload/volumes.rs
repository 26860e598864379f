//! `volumes:` of a service: where it may write, and which of these places other services have too.

use super::{Service, why_not_in_image};
use crate::config::{Fields, Node, NodeKind, Place, Problems};
use crate::image::{FromImage, IMAGE_VOLUME_BYTES, plain_path};
use crate::units::show_bytes;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The longest name of a shared volume: it is part of a file name.
const NAME_MAX: usize = 64;

/// A place where a service may write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct Volume {
    /// The bytes that it may need; the same at each service that shares it.
    pub bytes: u64,
    /// How it is shared; none if it is the service's alone.
    pub shared: Option<Shared>,
}

/// How a service takes part in a volume that others may have too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shared {
    /// The volume's name: all services of a tile that state it have the same volume.
    pub name: String,
    /// Whether this service may only read it.
    pub read_only: bool,
}

impl Volume {
    /// A service's own.
    pub const fn of(bytes: u64) -> Volume {
        Volume { bytes, shared: None }
    }

    /// One that all services which state this name have.
    pub fn shared(name: &str, bytes: u64, read_only: bool) -> Volume {
        Volume { bytes, shared: Some(Shared { name: name.to_owned(), read_only }) }
    }
}

/// A volume as records have it: a number alone if it is not shared.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Own(u64),
    Shared {
        shared: String,
        space: u64,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        read_only: bool,
    },
}

impl From<Written> for Volume {
    fn from(written: Written) -> Volume {
        match written {
            Written::Own(bytes) => Volume::of(bytes),
            Written::Shared { shared, space, read_only } => Volume::shared(&shared, space, read_only),
        }
    }
}

impl From<Volume> for Written {
    fn from(volume: Volume) -> Written {
        match volume.shared {
            None => Written::Own(volume.bytes),
            Some(Shared { name, read_only }) => Written::Shared { shared: name, space: volume.bytes, read_only },
        }
    }
}

/// The bytes that the volumes of these services may need together; one that is shared counts once in each tile.
pub fn volume_bytes<'s>(services: impl IntoIterator<Item = &'s Service>) -> u64 {
    let mut counted = BTreeSet::new();
    let mut bytes = 0;
    for service in services {
        for volume in service.volumes.values() {
            let counts = match &volume.shared {
                None => true,
                Some(shared) => counted.insert((service.tile(), shared.name.as_str())),
            };
            bytes += if counts { volume.bytes } else { 0 };
        }
    }
    bytes
}

pub(super) fn read_volumes(
    fields: &mut Fields,
    image: Option<&mut FromImage>,
    as_image: bool,
    problems: &mut Problems,
) -> BTreeMap<String, Volume> {
    let mut volumes = BTreeMap::new();
    let own = fields.get("volumes").and_then(|node| Fields::of(node, "volumes", problems));
    for (written, place, value) in own.iter().flat_map(Fields::entries) {
        let path = plain_path(written);
        if !written.starts_with('/') || path == "/" || path.split('/').any(|part| part == "..") {
            problems.add(*place, "a volume's path must be absolute, without '..'", "");
        } else if is_kernels(&path) {
            problems.add(*place, format!("{path} is the kernel's in every form, so no volume can be there"), "");
        }
        let Some(volume) = read_volume(value, problems) else { continue };
        if volumes.insert(path.clone(), volume).is_some() {
            problems.add(
                *place,
                format!("the volume {path} is named twice"),
                "name each place once, without a '/' at its end",
            );
        }
    }
    let Some(image) = image else { return volumes };
    let wanted = image.says.iter().flat_map(|says| says.volume_paths());
    let wanted = wanted.filter(|path| !volumes.contains_key(path));
    let (left_out, more): (Vec<String>, Vec<String>) = wanted.partition(|path| is_kernels(path));
    let mut told = Vec::new();
    if !more.is_empty() {
        let size = show_bytes(IMAGE_VOLUME_BYTES);
        let holding = if as_image { "with what the image holds there" } else { "empty" };
        told.push(format!("{}, {holding}, with {size} each", more.join(", ")));
        volumes.extend(more.into_iter().map(|path| (path, Volume::of(IMAGE_VOLUME_BYTES))));
    }
    if !left_out.is_empty() {
        told.push(format!("{} left out, the kernel's in every form", left_out.join(", ")));
    }
    if !told.is_empty() {
        image.note("volumes", told.join("; "));
    }
    volumes
}

/// The space alone, or how it is shared. The space of a shared volume is 0 until that of all services is known.
fn read_volume(node: &Node, problems: &mut Problems) -> Option<Volume> {
    if !matches!(node.kind, NodeKind::Map(_)) {
        return read_space(node, problems).map(Volume::of);
    }
    let mut fields = Fields::of(node, "a shared volume", problems)?;
    let named = fields.require("shared", problems);
    let space = fields.get("space").and_then(|node| read_space(node, problems));
    let read_only = fields.boolean("read_only", problems).unwrap_or(false);
    fields.finish(problems);
    let named = named?;
    let name = named.text(problems)?;
    let fits = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(fits) {
        let hint = format!("use a-z, 0-9 and -, at most {NAME_MAX} of them");
        problems.add(named.place, format!("'{name}' cannot name a volume"), hint);
    }
    Some(Volume::shared(&name, space.unwrap_or(0), read_only))
}

fn read_space(node: &Node, problems: &mut Problems) -> Option<u64> {
    let bytes = node.bytes(problems)?;
    if bytes == 0 {
        problems.add(node.place, "a volume of no size holds nothing", "write for example 64MiB");
    }
    // A size was stated, if a wrong one.
    Some(bytes.max(1))
}

/// Whether a path is in what the kernel shows, which is mounted in every form.
fn is_kernels(path: &str) -> bool {
    ["/proc", "/sys", "/dev"].iter().any(|shown| Path::new(path).starts_with(shown))
}

/// A service's use of a shared volume.
struct Use<'s> {
    service: &'s Service,
    path: &'s str,
    name: &'s str,
    bytes: u64,
    /// Where it is written.
    place: Place,
}

/// Checks what the services of `node`, the map of services, share, and gives each of them the space that is stated at
/// one of them.
pub(super) fn settle_shared(node: &Node, services: &mut [Service], problems: &mut Problems) {
    let mut spaces: BTreeMap<String, u64> = BTreeMap::new();
    let uses = uses(node, services);
    for (number, one) in uses.iter().enumerate() {
        let same: Vec<&Use> = uses.iter().filter(|other| other.name == one.name).collect();
        let is_first = uses[..number].iter().all(|before| before.name != one.name);
        match same.iter().find(|other| other.bytes != 0) {
            Some(first) => {
                spaces.insert(one.name.to_owned(), first.bytes);
                if one.bytes != 0 && one.bytes != first.bytes {
                    let (own, other) = (show_bytes(one.bytes), show_bytes(first.bytes));
                    let at = &first.service.name;
                    let message = format!("the shared volume '{}' has {own} here, and {other} at '{at}'", one.name);
                    problems.add(one.place, message, "state its space once, or the same everywhere");
                }
            }
            None if is_first => {
                let message = format!("nothing says how much space the shared volume '{}' needs", one.name);
                let hint = format!("write for example {{shared: {}, space: 512MiB}}", one.name);
                problems.add(one.place, message, hint);
            }
            None => {}
        }
        refuse_within(node, one, problems);
        if let Some(other) = same.iter().find(|other| other.service.as_image) {
            refuse_unknown_owner(one, other, problems);
        } else if same[0].service.name != one.service.name {
            refuse_other_writer(one, problems);
        }
    }
    for volume in services.iter_mut().flat_map(|service| service.volumes.values_mut()) {
        if let Some(shared) = &volume.shared {
            volume.bytes = spaces.get(&shared.name).copied().unwrap_or(volume.bytes);
        }
    }
}

/// The uses of shared volumes, in the order in which the services start.
fn uses<'s>(node: &Node, services: &'s [Service]) -> Vec<Use<'s>> {
    let of = |service: &'s Service| {
        let used = move |(path, volume): (&'s String, &'s Volume)| {
            let name = volume.shared.as_ref()?.name.as_str();
            Some((path.as_str(), name, volume.bytes))
        };
        service.volumes.iter().filter_map(used).map(move |(path, name, bytes)| (service, path, name, bytes))
    };
    let placed = |(service, path, name, bytes): (&'s Service, &'s str, &'s str, u64)| Use {
        service,
        path,
        name,
        bytes,
        place: place_of(node, &service.name, path).unwrap_or(node.place),
    };
    services.iter().flat_map(of).map(placed).collect()
}

/// Where a service states the volume at a path; none if its image does.
fn place_of(services: &Node, service: &str, path: &str) -> Option<Place> {
    let NodeKind::Map(entries) = &services.find(&[service, "volumes"])?.kind else { return None };
    entries.iter().find(|(written, ..)| plain_path(written) == path).map(|(.., value)| value.place)
}

/// What is mounted inside of a shared volume is mounted while other services change the volume: a link that one of them
/// put there could lead the mount elsewhere.
fn refuse_within(node: &Node, outer: &Use, problems: &mut Problems) {
    let within = |path: &&String| path.as_str() != outer.path && Path::new(path).starts_with(outer.path);
    for path in outer.service.volumes.keys().filter(within) {
        let place = place_of(node, &outer.service.name, path).unwrap_or(outer.place);
        let message = format!("the volume {path} would be inside of {}, which is shared", outer.path);
        problems.add(place, message, "mount it beside the shared volume, or leave it out");
    }
}

/// To a service that runs as its image does, files of users that no image has are nobody's; only in a container its
/// root may change them.
fn refuse_unknown_owner(one: &Use, as_image: &Use, problems: &mut Problems) {
    let service = one.service;
    let looked_up = service.image.as_ref().is_some_and(|image| image.user.is_some());
    if service.as_image || service.awaits_image() || looked_up {
        return;
    }
    let why = if service.own_user {
        "each instance has a user of its own"
    } else if why_not_in_image(service.user).is_some() {
        "its user or group is above 65535"
    } else {
        return;
    };
    let (name, other) = (one.name, &as_image.service.name);
    let own = &service.name;
    let message = format!("'{own}' shares the volume '{name}' with '{other}', which has 'as_image', but {why}");
    let hint = format!("write 'user:' at '{own}' with numbers up to 65535, or 'as_image: true'");
    problems.add(one.place, message, hint);
}

/// The volume belongs to the user of the first service that starts with it.
fn refuse_other_writer(one: &Use, problems: &mut Problems) {
    let service = one.service;
    let reads = service.volumes.get(one.path).and_then(|volume| volume.shared.as_ref()).is_some_and(|it| it.read_only);
    if reads || !service.own_user || service.awaits_image() {
        return;
    }
    let (own, name) = (&service.name, one.name);
    let message = format!("'{own}' could only read the volume '{name}': each instance has a user of its own");
    let hint = "write the same 'user:' at all services that write to it, or 'read_only: true' here";
    problems.add(one.place, message, hint);
}

#[cfg(test)]
#[path = "volumes_tests.rs"]
mod tests;
