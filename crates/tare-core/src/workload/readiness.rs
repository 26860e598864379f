//! `ready:` of a service: when it counts as ready.

use crate::config::{Fields, Node, Place, Problems};
use crate::image::{FromImage, HealthCheck};
use crate::units::exact_duration;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a service may take to become ready, unless it is stated.
const WITHIN: Duration = Duration::from_secs(30);

/// When a service counts as ready. Ports are asked from where the load will come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Readiness {
    /// A TCP connection to this port (by name) is accepted, and one operation of the load's protocol succeeds if that
    /// is spoken there.
    Port {
        /// The port's name.
        port: String,
        /// How long it may take.
        within: Duration,
    },
    /// Its output has a line with this text.
    Log {
        /// The text.
        text: String,
        /// How long it may take.
        within: Duration,
    },
    /// It has done its work and ended with exit code 0. Nothing of it is left when the next service starts.
    Ended {
        /// How long it may take.
        within: Duration,
    },
    /// A command that is run inside the running service ends with exit code 0. If the load goes to the service, the
    /// load's port must then be ready, too, as by [`Readiness::Port`]. Once it is ready, the command is never run.
    Command {
        /// The program, an absolute path in the bundle, and its arguments. One of an image may be a name to be found in
        /// PATH until the bundle is there.
        command: Vec<String>,
        /// The time between the end of an attempt and the next one.
        every: Duration,
        /// How long one attempt may take.
        timeout: Duration,
        /// How long all of it may take.
        within: Duration,
    },
}

impl Readiness {
    /// How long the service may take to become ready.
    pub fn within(&self) -> Duration {
        match self {
            Readiness::Port { within, .. }
            | Readiness::Log { within, .. }
            | Readiness::Ended { within }
            | Readiness::Command { within, .. } => *within,
        }
    }

    /// Whether the service does its work and ends, so that it is gone once it is ready.
    pub fn ends(&self) -> bool {
        matches!(self, Readiness::Ended { .. })
    }

    /// The program that is run inside the service until it succeeds, and its arguments; none if no command is run.
    pub fn command(&self) -> Option<&[String]> {
        match self {
            Readiness::Command { command, .. } => Some(command),
            _ => None,
        }
    }

    /// Its texts, in which references are replaced: the words of the command, or the text that is looked for.
    pub fn texts_mut(&mut self) -> &mut [String] {
        match self {
            Readiness::Command { command, .. } => command.as_mut_slice(),
            Readiness::Log { text, .. } => std::slice::from_mut(text),
            Readiness::Port { .. } | Readiness::Ended { .. } => &mut [],
        }
    }
}

/// A service whose `ready:` is read.
pub(super) struct Sought<'a> {
    /// Its name.
    pub(super) name: &'a str,
    /// Its ports, by name.
    pub(super) ports: &'a BTreeMap<String, u16>,
    /// Whether its command or environment takes a port from here, so that it may listen elsewhere in each instance.
    pub(super) moves: bool,
    /// Whether the load goes to it.
    pub(super) loaded: bool,
    /// Its port that the load names.
    pub(super) loaded_port: Option<&'a str>,
}

/// Reads `ready:`, or finds what stands for it: the image's health check, or a port.
pub(super) fn read_ready(
    fields: &mut Fields,
    sought: &Sought,
    image: Option<&mut FromImage>,
    problems: &mut Problems,
) -> Option<Readiness> {
    let place = fields.place();
    let Some(node) = fields.get("ready") else {
        let Some(image) = image else { return unstated(place, sought, None, problems) };
        let checked = take_health(image, sought.moves);
        return checked.or_else(|| unstated(place, sought, Some(&*image), problems));
    };
    let mut ready = Fields::of(node, "ready", problems)?;
    let within = ready.duration("within", problems).unwrap_or(WITHIN);
    let (every, timeout) = (ready.get("every"), ready.get("timeout"));
    let port = ready.get("port");
    let log = ready.text("log", problems);
    let ended = ready.get("ended");
    let command = ready.get("command");
    let words = ready.texts("command", problems);
    ready.finish(problems);
    if command.is_none() {
        for (name, node) in [("every", every), ("timeout", timeout)] {
            let Some(node) = node else { continue };
            problems.add(node.place, format!("'{name}' applies only to a 'command'"), "leave it out");
        }
    }
    match (port, log, ended, command) {
        (Some(node), None, None, None) => read_port(node, within, sought, image.as_deref(), problems),
        (None, Some(text), None, None) => Some(Readiness::Log { text, within }),
        (None, None, Some(node), None) => read_ended(node, within, sought, problems),
        (None, None, None, Some(node)) => {
            let mut time = |node: Option<&Node>, usual| node.and_then(|node| node.duration(problems)).unwrap_or(usual);
            let every = time(every, Duration::from_secs(1));
            let timeout = time(timeout, HealthCheck::TIMEOUT);
            refuse_no_program(node, words.as_deref()?, image.is_some(), problems);
            Some(Readiness::Command { command: words?, every, timeout, within })
        }
        _ => {
            problems.add(node.place, "ready takes one of 'port', 'log', 'ended' and 'command'", "");
            None
        }
    }
}

/// The image's health check, if it has one that can be run.
fn take_health(image: &mut FromImage, moves: bool) -> Option<Readiness> {
    let check = image.says.as_ref()?.health.clone()?;
    let words = check.command.join(" ");
    if moves {
        let why = "the service is told its port here, and the check asks at one of its own";
        image.note("ready", format!("not its health check ({words}): {why}"));
        return None;
    }
    let within = check.within();
    let told = format!("its health check ({words}), run until it succeeds, within {}", exact_duration(within));
    image.note("ready", format!("{told}; it is not run after that"));
    Some(Readiness::Command { every: check.every(), timeout: check.timeout, within, command: check.command })
}

/// The port that stands for a missing `ready:`.
fn unstated(place: Place, sought: &Sought, image: Option<&FromImage>, problems: &mut Problems) -> Option<Readiness> {
    let exposed = image.is_some_and(|image| image.taken.contains_key("ports"));
    let named = sought.loaded_port.filter(|port| exposed && sought.ports.contains_key(*port)).map(str::to_owned);
    let port = named.or_else(|| sought.ports.keys().next().cloned());
    let Some(port) = port.or_else(|| awaits_ports(sought, image).then(String::new)) else {
        problems.add(place, "nothing says when this service is ready", "add 'ports:' or 'ready:'");
        return None;
    };
    // For the loaded service, the load asks for the port.
    if let Some(image) = image.filter(|_| !sought.loaded) {
        image.refuse_to_choose(sought.ports, place, &format!("write for example 'ready: {{port: {port}}}'"), problems);
    }
    Some(Readiness::Port { port, within: WITHIN })
}

/// Whether its ports will be those of an image that is not known yet.
fn awaits_ports(sought: &Sought, image: Option<&FromImage>) -> bool {
    sought.ports.is_empty() && image.is_some_and(|image| image.says.is_none())
}

fn read_port(
    node: &Node,
    within: Duration,
    sought: &Sought,
    image: Option<&FromImage>,
    problems: &mut Problems,
) -> Option<Readiness> {
    let port = node.text(problems)?;
    if !awaits_ports(sought, image) && !sought.ports.contains_key(&port) {
        let known: Vec<&str> = sought.ports.keys().map(String::as_str).collect();
        Node::unknown(&port, node.place, "port", &known, problems);
    }
    Some(Readiness::Port { port, within })
}

fn read_ended(node: &Node, within: Duration, sought: &Sought, problems: &mut Problems) -> Option<Readiness> {
    if !node.boolean(problems)? {
        let hint = "write 'ended: true', or 'port', 'log' or 'command' for a service that runs on";
        problems.add(node.place, "'ended: false' says nothing", hint);
        return None;
    }
    if sought.loaded {
        let message = format!("the load goes to '{}', which is gone once it has ended", sought.name);
        problems.add(node.place, message, "name the service that gets the load: 'load: {service: NAME}'");
    }
    Some(Readiness::Ended { within })
}

/// Adds a problem if the words of a command name no program. An image has a PATH of its own.
fn refuse_no_program(node: &Node, words: &[String], of_image: bool, problems: &mut Problems) {
    let program = words.first().map_or("", String::as_str);
    if program.is_empty() {
        problems.add(node.place, "the command names no program", "write for example [/usr/bin/redis-cli, ping]");
    } else if !of_image && !program.starts_with('/') {
        let hint = "start it with '/', the path of the program inside the bundle";
        problems.add(node.place, "the command must name a program by its absolute path", hint);
    }
}
