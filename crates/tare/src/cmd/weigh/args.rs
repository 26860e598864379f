//! The arguments of `tare weigh` and `tare init`.

use crate::cli::duration;
use crate::mistake::Mistake;
use anyhow::Result;
use clap::{ArgGroup, Args};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tare_core::units::{parse_bytes, typed_duration};

/// The default of `--at-most`.
const AT_MOST: Duration = Duration::from_secs(120);

const EXAMPLES: &str = "\
Examples:
  tare weigh my/app:1
  tare weigh ./app --http /health --port 8080
  tare weigh compose.yaml --service web --http /
  tare weigh apt:redis-server --command '/usr/bin/redis-server --port {port} \\
    --bind 0.0.0.0 --protected-mode no'
  tare weigh my/db:1 --env POSTGRES_PASSWORD=x --sql 'SELECT 1'
  tare weigh my/app:1 --k6 script.js
  tare weigh my/app:1 -- wrk -t1 -c{connections} -d{seconds} http://{address}/
  tare weigh --http /health -- ./server --port {port}";

/// The options that choose the load.
const LOADS: [&str; 8] = ["http", "redis", "memcached", "sql", "tool", "k6", "jmeter", "locust"];

/// See `Verb::Weigh`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct WeighArgs {
    #[command(flatten)]
    pub(super) about: About,
    /// Print the report as JSON; everything else goes to standard error
    #[arg(long)]
    pub(super) json: bool,
    /// Print the full report: causes, CPU time, resources, methods
    #[arg(long, short)]
    pub(super) verbose: bool,
}

/// See `Verb::Init`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InitArgs {
    #[command(flatten)]
    pub(super) about: About,
}

/// What is weighed, and whatever is not to be guessed.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("load").args(LOADS)))]
pub(super) struct About {
    /// An image that the engine here has (my/app:1), an archive or OCI layout (./app.tar), an image of a registry, a
    /// folder with a Dockerfile (./app), a Compose file (compose.yaml), or a Debian package (apt:redis-server). Without
    /// it, the words after -- are a command of this machine
    pub(super) what: Option<String>,
    /// Load: GET this path
    #[arg(long, value_name = "PATH")]
    pub(super) http: Option<String>,
    /// Load: GET and SET of Redis
    #[arg(long)]
    pub(super) redis: bool,
    /// Load: get of memcached
    #[arg(long)]
    pub(super) memcached: bool,
    /// Load: this SQL statement, to PostgreSQL or MySQL
    #[arg(long, value_name = "TEXT")]
    pub(super) sql: Option<String>,
    /// With --sql: the user to log in as [default: from the image's variables]
    #[arg(long, value_name = "USER[:PASSWORD]", requires = "sql")]
    pub(super) login: Option<String>,
    /// With --sql: the database [default: from the image's variables]
    #[arg(long, value_name = "NAME", requires = "sql")]
    pub(super) database: Option<String>,
    /// Load: this tool, with {address}, {host}, {port}, {connections} and {seconds} filled in
    #[arg(long, value_name = "COMMAND")]
    pub(super) tool: Option<String>,
    /// Load: this k6 script, which takes the address from __ENV.TARGET, or from __ENV.HOST and __ENV.PORT
    #[arg(long, value_name = "SCRIPT")]
    pub(super) k6: Option<PathBuf>,
    /// Load: this JMeter plan, which takes the address from ${__P(host)} and ${__P(port)}
    #[arg(long, value_name = "PLAN")]
    pub(super) jmeter: Option<PathBuf>,
    /// Load: this Locust file
    #[arg(long, value_name = "FILE")]
    pub(super) locust: Option<PathBuf>,
    /// Where the tool prints operations per second, if Tare does not know the tool: a JSON pointer (/summary/rps), a
    /// regular expression with one group, or the name of a known tool whose output it prints
    #[arg(long, value_name = "PATTERN")]
    pub(super) number: Option<String>,
    /// Port that gets the load
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) port: Option<u16>,
    /// For a Compose file: the service that gets the load [default: the first that publishes a port]
    #[arg(long, value_name = "NAME")]
    pub(super) service: Option<String>,
    /// For a Compose file: also deploy the services of this profile; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(super) profile: Vec<String>,
    /// Number of connections
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) connections: Option<u32>,
    /// Start this instead of the image's program; {port} stands for the port
    #[arg(long, value_name = "COMMAND")]
    pub(super) command: Option<String>,
    /// Run the service as this user, in numbers
    #[arg(long, value_name = "UID:GID")]
    pub(super) user: Option<String>,
    /// Set a variable of the service; without a value, use this shell's, and write it nowhere; may be repeated
    #[arg(long, value_name = "NAME[=VALUE]", value_parser = variable)]
    pub(super) env: Vec<String>,
    /// Let the service write to this path, empty at first; may be repeated
    #[arg(long, value_name = "PATH")]
    pub(super) volume: Vec<String>,
    /// With a command of this machine: copy this file or folder too; may be repeated
    #[arg(long, value_name = "PATH")]
    pub(super) with: Vec<PathBuf>,
    /// Number of CPUs of the service, in every form [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(super) cpus: Option<u32>,
    /// Memory of the service, in every form [default: 512MiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(super) memory: Option<String>,
    /// Longest time to measure [default: 2m]
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(super) at_most: Option<Duration>,
    /// Name of the workload and the study [default: from WHAT]
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub(super) name: Option<String>,
    /// Write the workload and the study to this folder [default: ./weigh-NAME]
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Wait for a run in progress on this machine to end
    #[arg(long)]
    pub(super) wait: bool,
    /// The load tool with its arguments, instead of --tool; without WHAT, the command to weigh, with {port} filled in
    #[arg(last = true, value_name = "LOAD")]
    pub(super) tool_words: Vec<String>,
}

/// A time in which something can be measured.
fn some_time(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if time < Duration::from_secs(1) { Err("it must be at least 1s".to_owned()) } else { Ok(time) }
}

impl About {
    /// The command with every argument that decides what is written.
    pub(super) fn typed(&self) -> String {
        let valued = [
            ("--http", self.http.clone()),
            ("--sql", self.sql.clone()),
            ("--login", self.login.clone()),
            ("--database", self.database.clone()),
            ("--tool", self.tool.clone()),
            ("--k6", self.k6.as_deref().map(shown)),
            ("--jmeter", self.jmeter.as_deref().map(shown)),
            ("--locust", self.locust.as_deref().map(shown)),
            ("--number", self.number.clone()),
            ("--port", self.port.map(|port| port.to_string())),
            ("--service", self.service.clone()),
            ("--connections", self.connections.map(|count| count.to_string())),
            ("--command", self.command.clone()),
            ("--user", self.user.clone()),
            ("--cpus", self.cpus.map(|count| count.to_string())),
            ("--memory", self.memory.clone()),
            ("--at-most", self.at_most.map(typed_duration)),
            ("--name", self.name.clone()),
        ];
        let mut words = vec!["tare".to_owned(), "weigh".to_owned()];
        words.extend(self.what.clone());
        for (option, value) in valued {
            words.extend(value.into_iter().flat_map(|value| [option.to_owned(), value]));
        }
        for (option, set) in [("--redis", self.redis), ("--memcached", self.memcached)] {
            words.extend(set.then(|| option.to_owned()));
        }
        for (option, values) in [("--env", &self.env), ("--volume", &self.volume), ("--profile", &self.profile)] {
            words.extend(values.iter().flat_map(|value| [option.to_owned(), value.clone()]));
        }
        words.extend(self.with.iter().flat_map(|path| ["--with".to_owned(), path.display().to_string()]));
        if !self.tool_words.is_empty() {
            words.push("--".to_owned());
            words.extend(self.tool_words.iter().cloned());
        }
        // Only NUL cannot be quoted, and no argument has one. The command stands in a comment of one line.
        let typed = shlex::try_join(words.iter().map(String::as_str)).unwrap_or_else(|_| words.join(" "));
        typed.replace(char::is_control, " ")
    }

    /// The command of this machine that is weighed, if it is one.
    pub(super) fn local_command(&self) -> Option<&[String]> {
        (self.what.is_none() && !self.tool_words.is_empty()).then_some(&self.tool_words)
    }

    /// What is weighed, in words.
    pub(super) fn shown(&self) -> String {
        let words = || self.local_command().unwrap_or_default().join(" ");
        self.what.clone().unwrap_or_else(words)
    }

    /// Whether two loads were typed, one of them after `--`.
    pub(super) fn two_loads(&self) -> bool {
        let named = [self.http.is_some(), self.sql.is_some(), self.tool.is_some(), self.redis, self.memcached];
        let scripts = [&self.k6, &self.jmeter, &self.locust];
        let other = named.contains(&true) || scripts.into_iter().any(Option::is_some);
        other && self.what.is_some() && !self.tool_words.is_empty()
    }

    /// The variables that were typed.
    pub(super) fn environment(&self) -> BTreeMap<String, String> {
        let pair = |text: &String| match text.split_once('=') {
            Some((name, value)) => (name.to_owned(), value.to_owned()),
            None => (text.clone(), format!("${{{{env.{text}}}}}")),
        };
        self.env.iter().map(pair).collect()
    }

    /// The words of `--command`, if it was typed.
    ///
    /// # Errors
    /// When it is no command line.
    pub(super) fn command(&self) -> Result<Option<Vec<String>>> {
        self.command.as_ref().map(|text| words(text, "--command")).transpose()
    }

    /// The words of the load tool, if one was typed.
    ///
    /// # Errors
    /// When it is no command line.
    pub(super) fn tool(&self) -> Result<Option<Vec<String>>> {
        if self.what.is_some() && !self.tool_words.is_empty() {
            return Ok(Some(self.tool_words.clone()));
        }
        self.tool.as_ref().map(|text| words(text, "--tool")).transpose()
    }

    pub(super) fn memory(&self) -> &str {
        self.memory.as_deref().unwrap_or("512MiB")
    }

    pub(super) fn cpus(&self) -> u32 {
        self.cpus.unwrap_or(1)
    }

    pub(super) fn at_most(&self) -> Duration {
        self.at_most.unwrap_or(AT_MOST)
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Splits a command line as a shell would. No shell runs it.
fn words(text: &str, option: &str) -> Result<Vec<String>> {
    match shlex::split(text) {
        Some(words) if !words.is_empty() => Ok(words),
        Some(_) => Err(Mistake::new(format!("{option} names no program")).into()),
        None => {
            let told = format!("{option} has a quote that is not closed: {text}");
            Err(Mistake::new(format!("{told}\n  to do: close it, or escape it by a backslash")).into())
        }
    }
}

fn variable(text: &str) -> Result<String, String> {
    let name = text.split('=').next().unwrap_or_default();
    let fits = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
    if fits { Ok(text.to_owned()) } else { Err(format!("'{text}' sets no variable; write for example PORT=8080")) }
}

fn size(text: &str) -> Result<String, String> {
    parse_bytes(text).map(|_| text.to_owned())
}

/// A service's name may have these characters only.
fn name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let fitting = !text.is_empty() && text.len() <= 40 && !text.starts_with('-') && text.chars().all(fits);
    if fitting { Ok(text.to_owned()) } else { Err(format!("'{text}' is not a name; use a-z, 0-9 and -")) }
}

/// Command lines, for the tests of what is made of them.
#[cfg(test)]
pub(super) mod typed {
    use super::About;
    use clap::Parser;

    #[derive(Parser)]
    pub(in crate::cmd::weigh) struct Line {
        #[command(flatten)]
        about: About,
    }

    /// What was typed behind the verb.
    pub(in crate::cmd::weigh) fn about(typed: &[&str]) -> About {
        Line::try_parse_from([&["weigh"][..], typed].concat()).unwrap_or_else(|wrong| panic!("{wrong}")).about
    }
}

#[cfg(test)]
mod tests {
    use super::typed::{Line, about};
    use clap::Parser;

    #[test]
    fn the_command_is_written_as_it_can_be_typed_again() {
        let typed = about(&["my/app:1", "--http", "/a b", "--env", "A=1", "--out", "x", "--at-most", "20s"]).typed();
        assert_eq!(typed, "tare weigh my/app:1 --http '/a b' --at-most 20s --env 'A=1'");
        let typed = about(&["./app", "--", "wrk", "-d{seconds}", "http://{address}/"]).typed();
        assert!(typed.starts_with("tare weigh ./app -- wrk ") && !typed.contains('\n'), "{typed}");
    }

    #[test]
    fn a_variable_without_a_value_is_the_shells() {
        let environment = about(&["x", "--env", "A=b=c", "--env", "SECRET"]).environment();
        assert_eq!((environment["A"].as_str(), environment["SECRET"].as_str()), ("b=c", "${{env.SECRET}}"));
    }

    #[test]
    fn one_load_is_chosen_and_commands_are_split_as_in_a_shell() {
        assert!(Line::try_parse_from(["weigh", "x", "--redis", "--http", "/"]).is_err());
        assert!(about(&["x", "--redis", "--", "wrk"]).two_loads() && !about(&["x", "--", "wrk"]).two_loads());
        let command = about(&["x", "--command", "/bin/sh -c 'exec x'"]).command().unwrap().unwrap();
        assert_eq!(command, ["/bin/sh", "-c", "exec x"]);
        let told = about(&["x", "--tool", "wrk 'http"]).tool().unwrap_err().to_string();
        assert!(told.contains("a quote that is not closed"), "{told}");
        assert_eq!(about(&["x", "--", "wrk", "-c 1"]).tool().unwrap().unwrap(), ["wrk", "-c 1"]);
    }

    #[test]
    fn words_without_anything_else_to_weigh_are_the_command() {
        let about = about(&["--redis", "--with", "/a b", "--", "./server", "{port}"]);
        assert_eq!(about.local_command().unwrap(), ["./server", "{port}"]);
        assert!(about.tool().unwrap().is_none() && !about.two_loads());
        assert_eq!(about.typed(), "tare weigh --redis --with '/a b' -- ./server '{port}'");
        assert_eq!(about.shown(), "./server {port}");
    }
}
