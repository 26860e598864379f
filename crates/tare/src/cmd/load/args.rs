//! The arguments of `tare load`, and the plan that they mean.

use super::resolve;
use crate::catalog;
use crate::mistake::Mistake;
use anyhow::Result;
use clap::{ArgGroup, Args};
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tare_core::config::{Node, Problems, parse};
use tare_core::load::{Arrivals, Behaviour, Distribution, LoadPlan, LoadProfile, Pause, UserConnections};
use tare_core::units::{CpuSet, parse_duration};
use tare_load::ErasedProtocol;

/// The default of `--in-flight`.
const IN_FLIGHT: u32 = 10_000;

const EXAMPLES: &str = "\
Exit codes: 0 success; 1 failure, or more than 1 % of the operations failed; 2 a mistake on the command line, nothing \
was started; 3 the generator was saturated or missed the rate: the figures are its own, not the service's.

Examples:
  tare load --protocol redis --target 127.0.0.1:6379 --for 10s --populate
  tare load --url http://127.0.0.1:8080/index.html --rate 2000 --poisson
  tare load --protocol redis --target 127.0.0.1:6379 \\
    --users 10000 --think 1s --option 'mix={get: 1}'";

/// See `Verb::Load`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(group(ArgGroup::new("where").required(true).args(["target", "url"])))]
pub(crate) struct LoadArgs {
    /// Protocol, such as redis or http
    #[arg(long, value_name = "NAME", required_unless_present = "url")]
    pub(super) protocol: Option<String>,
    /// Address of the service
    #[arg(long, value_name = "HOST:PORT")]
    pub(super) target: Option<String>,
    /// GET this URL, instead of --protocol http and --target
    #[arg(long, value_name = "URL", conflicts_with_all = ["protocol", "options", "option"])]
    pub(super) url: Option<String>,
    /// Number of connections; each waits for its answer before the next request [default: 50]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) connections: Option<u32>,
    /// Number of operations in flight on each connection
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with_all = ["rate", "users"],
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) pipeline: u32,
    /// Start this many operations per second, whether or not earlier ones were answered
    #[arg(long, value_name = "N", conflicts_with = "users", value_parser = rate)]
    pub(super) rate: Option<f64>,
    /// Space them at random, as if from many independent users
    #[arg(long, requires = "rate")]
    pub(super) poisson: bool,
    /// Number of operations in flight beyond which others are dropped [default: 10000]
    #[arg(long, value_name = "N", requires = "rate", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(super) in_flight: Option<u32>,
    /// Simulate this many users who think between operations, each with a connection unless --connections is given
    #[arg(long, value_name = "N", requires = "think", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub(super) users: Option<u32>,
    /// How long a user thinks, such as 1s
    #[arg(long, value_name = "TIME", requires = "users", value_parser = parse_duration)]
    pub(super) think: Option<Duration>,
    /// How long to measure, such as 10s
    #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub(super) measure: Duration,
    /// How long to run load before measuring, such as 2s
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_duration)]
    pub(super) settle: Duration,
    /// Timeout of one operation
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    pub(super) timeout: Duration,
    /// Option of the protocol, as in a workload, such as keys=10000; may be repeated
    #[arg(long, value_name = "KEY=VALUE", conflicts_with = "options")]
    pub(super) option: Vec<String>,
    /// YAML file with options of the protocol, as in a workload
    #[arg(long, value_name = "FILE")]
    pub(super) options: Option<PathBuf>,
    /// First write the data set that the operations expect
    #[arg(long)]
    pub(super) populate: bool,
    /// CPUs for the generator, one worker each, such as 0-3,8 [default: one worker on any CPU]
    #[arg(long, value_name = "LIST", value_parser = CpuSet::parse)]
    pub(super) cpus: Option<CpuSet>,
    /// Seed for all random choices
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Allow load on this host outside this machine, at your own responsibility; may be repeated
    #[arg(long, value_name = "HOST")]
    pub(super) allow_target: Vec<String>,
    /// Print the result as JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Write the response times as an HdrHistogram log
    #[arg(long, value_name = "FILE")]
    pub(super) hdr: Option<PathBuf>,
}

fn rate(text: &str) -> Result<f64, String> {
    match text.replace('_', "").parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= 1e9 => Ok(rate),
        _ => Err("write operations per second, above 0 and at most 1000000000".to_owned()),
    }
}

/// The plan that the arguments mean.
pub(super) struct Wish {
    /// The plan of the run; populating uses the same with another task.
    pub(super) plan: LoadPlan,
    /// The target as the user named it.
    pub(super) target: String,
}

impl LoadArgs {
    /// The plan that was typed.
    ///
    /// # Errors
    /// Every mistake is one of the user's.
    pub(super) fn wish(&self) -> Result<Wish> {
        let (protocol, target, options) = match &self.url {
            Some(url) => {
                let (target, options) = of_url(url)?;
                ("http", target, options)
            }
            None => {
                let protocol = self.protocol.as_deref().unwrap_or_default();
                (protocol, self.target.clone().unwrap_or_default(), self.options_text()?)
            }
        };
        let protocol = protocol_named(protocol)?;
        let mut options = read_options(protocol, &options, self.options.as_deref())?;
        if protocol.facts(&options).runs_inside {
            let text = "a tool with `where: inside` runs inside a form, but `tare load` deploys none";
            let instead = "write `where: beside`, or let a study deploy the workload: tare run";
            return Err(Mistake::new(format!("{text}\n  to do: {instead}")).into());
        }
        // Do not check for a data set that nobody wrote.
        if let Some(count) = options.get_mut("populate").filter(|count| count.is_u64() && !self.populate) {
            *count = 0.into();
        }
        let allowed = self.allowed()?;
        let endpoint = resolve::endpoint(&target)?;
        require_allowed(&target, endpoint, &allowed)?;
        if self.measure < Duration::from_secs(1) || self.timeout.is_zero() {
            return Err(Mistake::new("--for must be at least 1s, and --timeout above 0").into());
        }
        let plan = LoadPlan {
            settle: self.settle,
            measure: self.measure,
            timeout: self.timeout,
            seed: self.seed,
            cpus: self.cpus.clone().unwrap_or_default(),
            hdr_log: self.hdr.as_ref().map(std::path::absolute).transpose()?,
            allowed,
            ..LoadPlan::of(protocol.name(), options, endpoint, self.profile())
        };
        Ok(Wish { plan, target })
    }

    fn profile(&self) -> LoadProfile {
        let connections = self.connections.unwrap_or(50);
        if let Some(rate) = self.rate {
            let arrivals = if self.poisson { Arrivals::Poisson } else { Arrivals::Constant };
            return LoadProfile::Open { rate, arrivals, connections, in_flight: self.in_flight.unwrap_or(IN_FLIGHT) };
        }
        let Some(users) = self.users else { return LoadProfile::Closed { connections, pipeline: self.pipeline } };
        LoadProfile::Users {
            users,
            behaviour: Behaviour::Mix,
            pause: Pause::Think(Distribution::Constant(self.think.unwrap_or_default())),
            connections: self.connections.map_or(UserConnections::Own, UserConnections::Shared),
            ramp: Duration::ZERO,
        }
    }

    /// The options as the text of a YAML file.
    fn options_text(&self) -> Result<String> {
        if let Some(path) = &self.options {
            return crate::files::read_text(path);
        }
        let mut text = String::new();
        for option in &self.option {
            let Some((key, value)) = option.split_once('=').filter(|(key, _)| !key.trim().is_empty()) else {
                return Err(Mistake::new(format!("--option takes KEY=VALUE, not '{option}'")).into());
            };
            let _ = writeln!(text, "{key}: {value}");
        }
        Ok(text)
    }

    fn allowed(&self) -> Result<Vec<IpAddr>> {
        self.allow_target.iter().map(|host| resolve::host(host)).collect()
    }
}

fn protocol_named(name: &str) -> Result<&'static dyn ErasedProtocol> {
    catalog::protocol(name).ok_or_else(|| {
        let known: Vec<&str> = catalog::protocols().iter().map(|protocol| protocol.name()).collect();
        Mistake::new(format!("there is no protocol '{name}'; known: {}", known.join(", "))).into()
    })
}

fn read_options(protocol: &dyn ErasedProtocol, text: &str, file: Option<&Path>) -> Result<serde_json::Value> {
    // A comment keeps an empty text a document.
    let (name, text) = match file {
        Some(file) => (file.display().to_string(), text.to_owned()),
        None => ("--option".to_owned(), if text.is_empty() { "{}\n".to_owned() } else { text.to_owned() }),
    };
    let folder = file.and_then(Path::parent).unwrap_or_else(|| Path::new("."));
    let mut problems = Problems::new(name, &text).with_files(crate::files::files_of(folder));
    let node: Option<Node> = parse(&text, &mut problems);
    let options = node.and_then(|node| protocol.read(&node, &mut problems));
    options.filter(|_| problems.is_empty()).ok_or_else(|| Mistake::in_files(problems.into_vec()).into())
}

/// A URL's target, and the options that ask for it.
fn of_url(url: &str) -> Result<(String, String)> {
    let wrong = |why: &str| Mistake::new(format!("'{url}' {why}; write for example http://127.0.0.1:8080/path"));
    let (secure, rest) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
        (Some(rest), _) => (false, rest),
        (_, Some(rest)) => (true, rest),
        _ => return Err(wrong("is not an HTTP URL").into()),
    };
    let at = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, path) = (&rest[..at], &rest[at..]);
    let path = path.split('#').next().unwrap_or_default();
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    if host.is_empty() || host.contains('@') || path.contains(char::is_whitespace) {
        return Err(wrong("has no plain host, or a space in its path").into());
    }
    let with_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let target = if with_port { host.to_owned() } else { format!("{host}:{}", if secure { 443 } else { 80 }) };
    let name = target.rsplit_once(':').map_or(host, |(name, _)| name);
    let mut options = format!("requests: [{{path: {}}}]\n", quoted(&path));
    if name.parse::<IpAddr>().is_err() && !name.starts_with('[') {
        let _ = writeln!(options, "headers: {{Host: {}}}", quoted(host));
    }
    if secure {
        // An IPv6 address is written in brackets in URLs only.
        let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        let _ = writeln!(options, "tls: {{name: {}}}", quoted(name));
    }
    Ok((target, options))
}

/// A text as a YAML scalar in double quotes; `${` is escaped, because it would begin a placeholder.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text.replace("${", "$${")).to_string()
}

/// Load on a stranger's machine is an attack, so every address but this machine's own must be allowed explicitly.
fn require_allowed(target: &str, endpoint: SocketAddr, allowed: &[IpAddr]) -> Result<()> {
    let address = endpoint.ip().to_canonical();
    if tare_load::is_own_address(address) || allowed.iter().any(|other| other.to_canonical() == address) {
        return Ok(());
    }
    let host = target.rsplit_once(':').map_or(target, |(host, _)| host);
    let text = format!("{target} is another machine ({address}), which Tare loads only with permission");
    Err(Mistake::new(format!("{text}\n  to do: if you may load it, add --allow-target {host}")).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        load: LoadArgs,
    }

    fn typed(line: &str) -> Result<Wish, String> {
        let words = std::iter::once("load").chain(line.split(' '));
        let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
        line.load.wish().map_err(|error| error.to_string())
    }

    const REDIS: &str = "--protocol redis --target 127.0.0.1:6379";

    fn profile(more: &str) -> LoadProfile {
        typed(&format!("{REDIS} {more}")).map(|wish| wish.plan.profile).unwrap()
    }

    #[test]
    fn flags_select_profiles() {
        assert_eq!(profile("--seed 3"), LoadProfile::Closed { connections: 50, pipeline: 1 });
        assert_eq!(profile("--connections 4 --pipeline 9"), LoadProfile::Closed { connections: 4, pipeline: 9 });
        let LoadProfile::Open { rate, arrivals, in_flight, .. } = profile("--rate 2_000 --poisson") else { panic!() };
        assert_eq!((rate, arrivals, in_flight), (2000.0, Arrivals::Poisson, 10_000));
        let LoadProfile::Users { users, connections, .. } = profile("--users 10 --think 1s --connections 3") else {
            panic!()
        };
        assert_eq!((users, connections), (10, UserConnections::Shared(3)));
    }

    #[test]
    fn a_data_set_is_expected_only_if_it_was_written() {
        let populate = |more: &str| typed(&format!("{REDIS} {more}")).unwrap().plan.options["populate"].clone();
        assert_eq!(populate("--seed 3"), 0);
        assert_eq!(populate("--populate --option keys=77"), 77);
    }

    #[test]
    fn options_are_read_as_a_workload_writes_them() {
        let wish = typed(&format!("{REDIS} --option keys=77 --option value_bytes=1KiB")).unwrap();
        assert_eq!((&wish.plan.options["keys"], &wish.plan.options["value_bytes"]), (&77.into(), &1024.into()));
        let wrong = typed(&format!("{REDIS} --option keys=0 --option kyes=1")).err().unwrap();
        assert!(wrong.contains("--option:1:7") && wrong.contains("did you mean 'keys'"), "{wrong}");
        assert!(typed(&format!("{REDIS} --option keys")).err().unwrap().contains("KEY=VALUE"));
        assert!(typed(&format!("{REDIS} --options /no/such/file")).err().unwrap().contains("cannot read"));
    }

    #[test]
    fn a_url_is_a_target_and_a_request() {
        let wish = typed("--url http://127.0.0.1:8080/a?b=1#c").unwrap();
        assert_eq!((wish.target.as_str(), wish.plan.protocol.as_str()), ("127.0.0.1:8080", "http"));
        assert!(wish.plan.options.to_string().contains("/a?b=1\""), "{}", wish.plan.options);
        assert_eq!(typed("--url http://127.0.0.1").unwrap().target, "127.0.0.1:80");
        for (url, target) in [("https://[::1]/", "[::1]:443"), ("https://[::1]:8443/x", "[::1]:8443")] {
            let wish = typed(&format!("--url {url}")).unwrap();
            assert_eq!((wish.target.as_str(), &wish.plan.options["tls"]["name"]), (target, &"::1".into()), "{url}");
        }
        for bad in ["ftp://x/", "http://", "http://user@127.0.0.1/", "127.0.0.1:80"] {
            assert!(typed(&format!("--url {bad}")).is_err(), "{bad}");
        }
    }

    #[test]
    fn conflicting_options_are_refused() {
        let bad = [
            "--rate 5 --users 3 --think 1s",
            "--poisson",
            "--users 3",
            "--think 1s",
            "--rate 0",
            "--rate 5 --pipeline 3",
        ];
        for more in bad.into_iter().chain(["--for 0s", "--for 10", "--cpus x", "--connections 0", "--timeout 0s"]) {
            assert!(typed(&format!("{REDIS} {more}")).is_err(), "{more}");
        }
        assert!(typed("--target 127.0.0.1:1").is_err());
        assert!(typed("--protocol redis").is_err());
        let unknown = typed("--protocol rdis --target 127.0.0.1:1").err().unwrap();
        assert!(unknown.contains("known: redis"), "{unknown}");
    }

    #[test]
    fn other_machines_are_loaded_only_when_allowed() {
        let refused = typed("--protocol redis --target 192.0.2.1:6379").err().unwrap();
        assert!(refused.contains("--allow-target 192.0.2.1"), "{refused}");
        let wish = typed("--protocol redis --target 192.0.2.1:6379 --allow-target 192.0.2.1").unwrap();
        assert_eq!(wish.plan.allowed, ["192.0.2.1".parse::<IpAddr>().unwrap()]);
    }
}
