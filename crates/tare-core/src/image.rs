//! What an image says about how its program is started: the defaults of a service made from it.

use crate::config::{Place, Problems};
use crate::units::DURATION_MAX;
use crate::users::{why_not_in_image, why_not_stated};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;

/// The size assumed for a volume that an image asks for, since images name no size; in bytes.
pub const IMAGE_VOLUME_BYTES: u64 = 512 << 20;

/// The most ports that a range such as `8000-8010` may stand for.
const PORT_RANGE_MAX: u16 = 100;
/// The most ports to name among those of an image that are not used.
const UNREAD_NAMED: usize = 8;

/// The name of this machine's processor in images.
pub fn this_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// How an image says that its program is to be started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageConfig {
    /// The program and its first arguments.
    #[serde(default)]
    pub entrypoint: Vec<String>,
    /// The further arguments; with no entrypoint, the program too.
    #[serde(default)]
    pub command: Vec<String>,
    /// `NAME=value` for each variable.
    #[serde(default)]
    pub environment: Vec<String>,
    /// The user that runs it, as the image writes it; empty for root.
    #[serde(default)]
    pub user: String,
    /// The directory it starts in; empty for `/`.
    #[serde(default)]
    pub directory: String,
    /// Where it listens: `6379/tcp`, `53/udp`, `8000-8010/tcp`, or a number alone.
    #[serde(default)]
    pub ports: Vec<String>,
    /// The paths where it writes what should last.
    #[serde(default)]
    pub volumes: Vec<String>,
    /// The signal that asks the program to end, as the image writes it; empty for SIGTERM.
    #[serde(default)]
    pub stop_signal: String,
    /// The shell that its command lines are for, and its arguments; empty for [`USUAL_SHELL`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shell: Vec<String>,
    /// How its running program is asked whether it works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<HealthCheck>,
}

/// The shell of an image that names none.
pub const USUAL_SHELL: [&str; 2] = ["/bin/sh", "-c"];

/// How a running program is asked whether it works, as images and Compose files say it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthCheck {
    /// The program, a path or a name to be found in PATH, and its arguments. It works if that ends with exit code 0.
    pub command: Vec<String>,
    /// The time between two attempts.
    pub interval: Duration,
    /// How long one attempt may take.
    pub timeout: Duration,
    /// How long the program may take to start; failures do not count until then.
    pub start_period: Duration,
    /// The number of failures in a row after which it does not work.
    pub retries: u32,
}

impl HealthCheck {
    /// The usual time between two attempts.
    pub const INTERVAL: Duration = Duration::from_secs(30);
    /// The usual time that one attempt may take.
    pub const TIMEOUT: Duration = Duration::from_secs(30);
    /// The usual number of failures.
    pub const RETRIES: u32 = 3;
    /// The longest time between two attempts while a service starts: engines ask as seldom as `interval` says, which
    /// would add to the time of each start.
    const EVERY_MAX: Duration = Duration::from_secs(1);
    /// The least time that a service has to become ready.
    const WITHIN_MIN: Duration = Duration::from_secs(30);

    /// A check with the usual times.
    pub fn of(command: Vec<String>) -> HealthCheck {
        let (interval, timeout) = (HealthCheck::INTERVAL, HealthCheck::TIMEOUT);
        HealthCheck { command, interval, timeout, start_period: Duration::ZERO, retries: HealthCheck::RETRIES }
    }

    /// The command of a `test` as images and Compose files write it: `CMD` and words, or `CMD-SHELL` and a line for
    /// `shell`, which is [`USUAL_SHELL`] if empty. None for `NONE`, and where no command is named.
    pub fn command_of(test: &[String], shell: &[String]) -> Option<Vec<String>> {
        let (kind, words) = test.split_first()?;
        let named = words.first().is_some_and(|word| !word.is_empty());
        match kind.as_str() {
            "CMD" if named => Some(words.to_vec()),
            "CMD-SHELL" if named && shell.is_empty() => {
                Some(USUAL_SHELL.iter().map(|word| (*word).to_owned()).chain(words.iter().cloned()).collect())
            }
            "CMD-SHELL" if named => Some(shell.iter().chain(words).cloned().collect()),
            _ => None,
        }
    }

    /// How often it is run while a service starts.
    pub fn every(&self) -> Duration {
        self.interval.min(HealthCheck::EVERY_MAX)
    }

    /// How long a service may take until it succeeds: engines give it up after this time.
    pub fn within(&self) -> Duration {
        let attempts = self.interval.saturating_add(self.timeout).saturating_mul(self.retries.max(1));
        self.start_period.saturating_add(attempts).clamp(HealthCheck::WITHIN_MIN, DURATION_MAX)
    }
}

impl ImageConfig {
    /// The program with all its arguments; empty when the image starts nothing by itself.
    pub fn whole_command(&self) -> Vec<String> {
        self.entrypoint.iter().chain(&self.command).cloned().collect()
    }

    /// Its variables by name.
    pub fn variables(&self) -> BTreeMap<String, String> {
        let pairs = self.environment.iter().filter_map(|pair| pair.split_once('='));
        pairs.filter(|(name, _)| !name.is_empty()).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// Its TCP ports, each named by its number.
    pub fn tcp_ports(&self) -> BTreeMap<String, u16> {
        let numbers = self.ports.iter().filter_map(|port| tcp_numbers(port)).flatten();
        numbers.map(|number| (number.to_string(), number)).collect()
    }

    /// The ports it names that are not used, in words; none if all are used.
    pub fn unread_ports(&self) -> Option<String> {
        let unread: Vec<&str> = self.ports.iter().map(String::as_str).filter(|p| tcp_numbers(p).is_none()).collect();
        let named = unread.iter().take(UNREAD_NAMED).copied().collect::<Vec<_>>().join(", ");
        match unread.len().saturating_sub(UNREAD_NAMED) {
            _ if unread.is_empty() => None,
            0 => Some(named),
            more => Some(format!("{named} and {more} more")),
        }
    }

    /// The directory it starts in, if that is not the root.
    pub fn start_directory(&self) -> Option<String> {
        let directory = plain_path(&self.directory);
        (directory != "/").then_some(directory)
    }

    /// Its volumes, each once, without those that cannot be volumes: the root, and paths with `..`.
    pub fn volume_paths(&self) -> BTreeSet<String> {
        let fits = |path: &String| path != "/" && path.split('/').all(|part| part != "..");
        self.volumes.iter().map(|path| plain_path(path)).filter(fits).collect()
    }
}

/// The canonical form of a path: `/data/`, `/data` and `//data/.` are the same, as they are for engines.
pub(crate) fn plain_path(path: &str) -> String {
    let parts = path.split('/').filter(|part| !matches!(*part, "" | "."));
    format!("/{}", parts.collect::<Vec<_>>().join("/"))
}

/// The TCP ports that `80`, `80/tcp` or `8000-8010/tcp` stands for; none for another protocol, for what is not a port,
/// and for more than [`PORT_RANGE_MAX`].
fn tcp_numbers(port: &str) -> Option<RangeInclusive<u16>> {
    let (numbers, protocol) = port.split_once('/').unwrap_or((port, "tcp"));
    let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
    let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
    let some = first != 0 && first <= last && last - first < PORT_RANGE_MAX;
    (some && protocol.eq_ignore_ascii_case("tcp")).then_some(first..=last)
}

/// The user of a service that takes it from its image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageUser {
    /// The image says root, or names no user: a service runs unprivileged.
    Root,
    /// These numbers.
    Numbers(u32, u32),
    /// A name, or a number whose group only the image's own files show.
    Named(String),
}

impl ImageUser {
    /// What an image's `USER` means, as far as it can be seen without its files.
    pub fn of(user: &str) -> ImageUser {
        let (name, group) = user.split_once(':').unwrap_or((user, ""));
        match (name, name.parse(), group.parse()) {
            ("" | "root", ..) | (_, Ok(0), _) => ImageUser::Root,
            (_, Ok(uid), Ok(gid)) if why_not_stated((uid, gid)).is_none() => ImageUser::Numbers(uid, gid),
            // Forbidden numbers are reported where they are looked up.
            _ => ImageUser::Named(user.to_owned()),
        }
    }

    /// The same for a service that runs as its image does, and so may be root.
    pub fn with_root(user: &str) -> ImageUser {
        let (name, group) = user.split_once(':').unwrap_or((user, ""));
        match ImageUser::of(user) {
            ImageUser::Root if matches!(name, "" | "0" | "root") && matches!(group, "" | "0" | "root") => {
                ImageUser::Numbers(0, 0)
            }
            ImageUser::Numbers(uid, gid) if why_not_in_image((uid, gid)).is_none() => ImageUser::Numbers(uid, gid),
            _ => ImageUser::Named(user.to_owned()),
        }
    }
}

/// The numbers of a user of an image, from the text of its `/etc/passwd` and `/etc/group`, by the rules of container
/// engines: a number without an entry stands for itself, with group 0. Further groups that `/etc/group` lists the user
/// in, which engines add if `USER` names no group, are not used: a service has one group in every form.
///
/// # Errors
/// Which name the files lack, or why no image may have these numbers.
pub fn user_numbers(user: &str, passwd: &str, group: &str) -> Result<(u32, u32), String> {
    let numbers = numbers_told(user, passwd, group)?;
    // An image whose user is root is run as another user.
    match why_not_stated(numbers).filter(|_| numbers.0 != 0) {
        Some(why) => Err(format!("its numbers are {}:{}, and {why}", numbers.0, numbers.1)),
        None => Ok(numbers),
    }
}

fn numbers_told(user: &str, passwd: &str, group: &str) -> Result<(u32, u32), String> {
    let (name, group_name) = user.split_once(':').unwrap_or((user, ""));
    let number = |fields: &[&str], at: usize| fields.get(at)?.parse::<u32>().ok();
    let entry = find(passwd, name, 2);
    let uid = match &entry {
        Some(fields) => number(fields, 2),
        None => name.parse().ok(),
    };
    let uid = uid.ok_or_else(|| format!("there is no user '{name}' in its /etc/passwd"))?;
    if group_name.is_empty() {
        return Ok((uid, entry.and_then(|fields| number(&fields, 3)).unwrap_or(0)));
    }
    let gid = match find(group, group_name, 2) {
        Some(fields) => number(&fields, 2),
        None => group_name.parse().ok(),
    };
    Ok((uid, gid.ok_or_else(|| format!("there is no group '{group_name}' in its /etc/group"))?))
}

/// The fields of the entry with this name, or otherwise with this number, which is field `at`.
fn find<'t>(text: &'t str, name: &str, at: usize) -> Option<Vec<&'t str>> {
    let entries = || text.lines().map(|line| line.trim().split(':').collect::<Vec<_>>());
    let numbered = || entries().find(|fields| name.parse::<u32>().is_ok() && fields.get(at) == Some(&name));
    entries().find(|fields| fields.first() == Some(&name)).or_else(numbered)
}

/// The names of ports as a list, by number.
pub(crate) fn listed_ports(ports: &BTreeMap<String, u16>) -> String {
    let mut ports: Vec<(u16, &str)> = ports.iter().map(|(name, number)| (*number, name.as_str())).collect();
    ports.sort_unstable();
    ports.into_iter().map(|(_, name)| name).collect::<Vec<_>>().join(", ")
}

/// How a service uses the image that its bundle is made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FromImage {
    /// The image: a path or a reference.
    pub image: String,
    /// What it says; none until the image is here.
    pub says: Option<ImageConfig>,
    /// What the service took from it, in words, by field of the workload.
    #[serde(default)]
    pub taken: BTreeMap<String, String>,
    /// The user whose numbers have yet to be looked up in the image's files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

impl FromImage {
    /// An image that says this, and from which nothing has been taken yet.
    pub fn new(image: impl Into<String>, says: Option<ImageConfig>) -> FromImage {
        FromImage { image: image.into(), says, taken: BTreeMap::new(), user: None }
    }

    /// Notes that a field was taken.
    pub fn note(&mut self, field: &str, what: impl Into<String>) {
        self.taken.insert(field.to_owned(), what.into());
    }

    /// Notes the user's numbers once they are known.
    pub fn note_user(&mut self, name: &str, (uid, gid): (u32, u32)) {
        self.user = None;
        let numbers = format!("{uid}:{gid}");
        self.note("user", if name == numbers { numbers } else { format!("{name}, which is {numbers}") });
    }

    /// Notes that each instance has a user of its own instead of root.
    pub fn note_root(&mut self) {
        self.user = None;
        self.note("user", "a separate one for each instance, instead of root: services run unprivileged");
    }

    /// Adds a problem when the ports are the image's and there is more than one: which one is meant is not guessed.
    pub(crate) fn refuse_to_choose(
        &self,
        ports: &BTreeMap<String, u16>,
        place: Place,
        hint: &str,
        problems: &mut Problems,
    ) {
        if ports.len() > 1 && self.taken.contains_key("ports") {
            let ports = listed_ports(ports);
            problems.add(place, format!("the image names the ports {ports}; which is meant here?"), hint);
        }
    }

    /// The numbers of the user that the image names; none until they are looked up, and for root unless the service
    /// runs as its image does.
    pub(crate) fn take_user(&mut self, as_image: bool) -> Option<(u32, u32)> {
        let name = self.says.as_ref()?.user.clone();
        let user = if as_image { ImageUser::with_root(&name) } else { ImageUser::of(&name) };
        match user {
            ImageUser::Root => {
                self.note_root();
                None
            }
            ImageUser::Numbers(uid, gid) => {
                self.note_user(if name.is_empty() { "root" } else { &name }, (uid, gid));
                Some((uid, gid))
            }
            ImageUser::Named(name) => {
                self.note("user", format!("{name}, whose numbers are looked up in the image's files"));
                self.user = Some(name);
                None
            }
        }
    }

    /// Lines, one for each field: what was taken, or that it is not known yet.
    pub fn lines(&self) -> Vec<String> {
        if self.says.is_none() {
            return vec![format!(
                "what the workload leaves out is taken from the image {}, which is read when the bundle is built",
                self.image
            )];
        }
        // A command may be a script of many lines.
        let one = |what: &String| what.split_whitespace().collect::<Vec<_>>().join(" ");
        self.taken.iter().map(|(field, what)| format!("{field} from the image: {}", one(what))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nredis:x:999:1000::/data:/bin/sh\n\n65532:x:7:8::/:/x\nbad:x\n";
    const GROUP: &str = "root:x:0:\nredis:x:1000:\nstaff:x:50:redis\n";

    #[test]
    fn users_are_looked_up_as_engines_do() {
        let found = |user: &str| user_numbers(user, PASSWD, GROUP);
        assert_eq!(found("redis"), Ok((999, 1000)), "it is a member of staff, too, which is not taken over");
        assert_eq!(found("redis:staff"), Ok((999, 50)));
        assert_eq!(found("redis:7"), Ok((999, 7)));
        assert_eq!(found("999"), Ok((999, 1000)), "a number has the group of its entry");
        assert_eq!(found("1001"), Ok((1001, 0)), "and without an entry the group 0");
        assert_eq!(found("1001:staff"), Ok((1001, 50)));
        assert_eq!(found("65532"), Ok((7, 8)), "a name that looks like a number is a name first");
        assert!(found("mysql").unwrap_err().contains("no user 'mysql' in its /etc/passwd"));
        assert!(found("redis:mysql").unwrap_err().contains("no group 'mysql' in its /etc/group"));
        for taken in ["98999", "99000:5", "5:65536"] {
            assert!(found(taken).unwrap_err().contains("65536 to 99999"), "{taken}");
        }
        assert!(found("bad").is_err() && user_numbers("redis", "", "").is_err());
    }

    #[test]
    fn what_needs_no_files_is_known_at_once() {
        for root in ["", "root", "0", "root:root", "0:0", "0:5", "root:5"] {
            assert_eq!(ImageUser::of(root), ImageUser::Root, "{root}");
        }
        assert_eq!(ImageUser::of("65532:65532"), ImageUser::Numbers(65532, 65532));
        for named in ["redis", "65532", "redis:redis", "5:staff", "98999:98999"] {
            assert_eq!(ImageUser::of(named), ImageUser::Named(named.to_owned()));
        }
    }

    #[test]
    fn a_service_that_runs_as_its_image_may_be_root() {
        for root in ["", "root", "0", "root:root", "0:0", "root:0"] {
            assert_eq!(ImageUser::with_root(root), ImageUser::Numbers(0, 0), "{root}");
        }
        assert_eq!(ImageUser::with_root("999:5"), ImageUser::Numbers(999, 5));
        for named in ["redis", "0:5", "root:staff", "70000000:5"] {
            assert_eq!(ImageUser::with_root(named), ImageUser::Named(named.to_owned()));
        }
    }

    #[test]
    fn what_an_image_says_is_read_with_care() {
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let config = ImageConfig {
            entrypoint: texts(&["/bin/sh", "-c"]),
            command: texts(&["run"]),
            environment: texts(&["A=1=2", "B=", "C", "=d"]),
            directory: "srv/app/".to_owned(),
            ports: texts(&["443/tcp", "80", "53/udp", "0/tcp", "x/tcp", "99999"]),
            volumes: texts(&["/data/", "/data", "//data/.", "/", "/a/../b", "var"]),
            ..ImageConfig::default()
        };
        assert_eq!(config.whole_command(), ["/bin/sh", "-c", "run"]);
        let variables: Vec<_> = config.variables().into_iter().collect();
        assert_eq!(variables, [("A".to_owned(), "1=2".to_owned()), ("B".to_owned(), String::new())]);
        assert_eq!(config.tcp_ports(), BTreeMap::from([("443".to_owned(), 443), ("80".to_owned(), 80)]));
        assert_eq!(config.unread_ports().as_deref(), Some("53/udp, 0/tcp, x/tcp, 99999"));
        assert_eq!(config.start_directory().as_deref(), Some("/srv/app"));
        assert_eq!(ImageConfig::default().start_directory(), None);
        assert!(config.volume_paths().iter().eq(["/data", "/var"]), "{:?}", config.volume_paths());
    }

    #[test]
    fn ranges_of_ports_are_spelled_out_and_what_is_not_read_is_named() {
        let says = |ports: &[&str]| ImageConfig {
            ports: ports.iter().map(|port| (*port).to_owned()).collect(),
            ..ImageConfig::default()
        };
        let numbers = |ports: &[&str]| says(ports).tcp_ports().into_values().collect::<Vec<_>>();
        assert_eq!(numbers(&["80/TCP", "8000-8002/tcp", "65535-65535"]), [65535, 80, 8000, 8001, 8002]);
        assert_eq!(numbers(&["1-100"]).len(), 100);
        assert_eq!(says(&["80/TCP", "1-100", "7-7/tcp"]).unread_ports(), None);
        let others = ["1-101", "9-8/tcp", "0-5", "80/sctp", "1-2-3/tcp", "-5", "5-"];
        assert!(numbers(&others).is_empty());
        assert_eq!(says(&others).unread_ports(), Some(others.join(", ")));
        assert_eq!(says(&["x"; 10]).unread_ports().as_deref(), Some("x, x, x, x, x, x, x, x and 2 more"));
    }

    #[test]
    fn a_health_check_is_a_command_or_a_line_for_a_shell() {
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let command = |test: &[&str], shell: &[&str]| HealthCheck::command_of(&texts(test), &texts(shell));
        assert_eq!(command(&["CMD", "redis-cli", "ping"], &[]), Some(texts(&["redis-cli", "ping"])));
        assert_eq!(command(&["CMD-SHELL", "a && b"], &[]), Some(texts(&["/bin/sh", "-c", "a && b"])));
        let bash = command(&["CMD-SHELL", "a"], &["/bin/bash", "-o", "pipefail", "-c"]);
        assert_eq!(bash, Some(texts(&["/bin/bash", "-o", "pipefail", "-c", "a"])));
        for none in [&["NONE"][..], &[], &["CMD"], &["CMD-SHELL", ""], &["redis-cli", "ping"]] {
            assert_eq!(command(none, &[]), None, "{none:?}");
        }
    }

    #[test]
    fn a_health_check_is_given_as_long_as_an_engine_gives_it() {
        let usual = HealthCheck::of(vec!["x".to_owned()]);
        assert_eq!((usual.every(), usual.within()), (Duration::from_secs(1), Duration::from_secs(180)));
        let seconds = Duration::from_secs;
        let often = HealthCheck { interval: Duration::from_millis(200), timeout: seconds(1), ..usual.clone() };
        assert_eq!((often.every(), often.within()), (Duration::from_millis(200), seconds(30)));
        let slow = HealthCheck { start_period: seconds(300), interval: seconds(5), timeout: seconds(5), ..usual };
        assert_eq!(slow.within(), seconds(330));
        assert_eq!(HealthCheck { retries: u32::MAX, interval: Duration::MAX, ..slow }.within(), DURATION_MAX);
    }

    #[test]
    fn what_was_taken_is_a_line_for_each_field() {
        let mut image = FromImage::new("x.tar", Some(ImageConfig::default()));
        image.note("command", "/bin/sh -c set -e\n  exec server\n");
        assert_eq!(image.lines(), ["command from the image: /bin/sh -c set -e exec server"]);
    }
}
