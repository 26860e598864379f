//! Looks at a service before anything is known of its load: starts it once, as a run would, and sees where it listens
//! and which protocols it speaks. Also finds how many connections suit it. Nothing is left of either.

mod connections;

pub(crate) use connections::{Found, Tried, connections, try_tool};

use crate::layers::{LAYERS, layer_of_form};
use crate::ready::{new_seed, ready};
use crate::{machine, session};
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tare_core::fault::Fault;
use tare_core::form::Form;
use tare_core::host::{Availability, InstanceState, MachineServices};
use tare_core::layer::{LayerUse, Listens};
use tare_core::load::{LoadOrigin, LoadProfile};
use tare_core::record::Header;
use tare_core::study::Study;
use tare_core::telemetry::Scope;
use tare_core::workload::{Service, Workload};
use tare_layers::listening;
use tare_layers::lock::MachineLock;
use tare_load::greeting::{Spoken, ask};
use tare_load::page::{self, Answer};
use tare_runner::{Apparatus, Once, Stop, SystemClock, Watched};

/// The name of the form that is looked at, as errors may show it.
const FORM: &str = "look";
/// How often the service is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// A service that has listened at the same addresses for this long has probably opened all of its ports.
const STEADY: Duration = Duration::from_millis(500);
/// How long each address is asked which protocol it speaks.
const PATIENCE: Duration = Duration::from_millis(1500);
/// How long a web server that answers with an error of its own may take until it does not: some answer long before
/// what is behind them.
const WARM: Duration = Duration::from_secs(5);
/// The most ports that are asked.
const PORTS_MAX: usize = 16;
/// The most addresses at which a port is asked.
const PLACES_MAX: usize = 2;
/// How many of the last lines of its output are kept.
const LINES: usize = 15;

/// The machine, taken for as long as services are looked at.
pub(crate) struct Ground {
    pub(crate) carrier: Arc<MachineServices>,
    /// Raised by Ctrl-C: everything is then taken down, and what was being done ends with an error.
    pub(crate) stop: Stop,
    _machine: MachineLock,
}

impl Ground {
    /// Takes the machine for `tare <verb> <what>`; with `wait`, waits for another run to end. Drop it before a run
    /// starts, which takes the machine itself.
    ///
    /// # Errors
    /// Without root, when another run is in progress, or when a dead run left something.
    pub(crate) fn take(verb: &str, what: &str, wait: bool) -> Result<Ground> {
        session::require_root(verb)?;
        let machine = session::take_machine(&format!("tare {verb} {what}"), wait)?;
        session::require_clean_host()?;
        let (carrier, stop) = (machine::carrier()?, session::stop_on_signals()?);
        Ok(Ground { carrier, stop, _machine: machine })
    }

    /// What has to be known to deploy the first form of a study. Builds bundles that do not exist yet.
    fn header(&self, study: Study, workload: &mut Workload, say: &mut dyn FnMut(&str)) -> Result<Header> {
        let bundles = machine::build_bundles(workload, self.carrier.bundles.as_ref(), say)?;
        let forms = machine::form_states(&study, &self.carrier);
        // Nothing is measured that the environment would explain.
        Ok(ready(study, workload.clone(), forms, bundles, Some(BTreeMap::new()))?.header(new_seed()))
    }

    /// Has `work` deploy that form on this machine, under a run's mark.
    fn deploy<T>(
        &self,
        header: &Header,
        work: impl FnOnce(&Once<'_>, &mut dyn Apparatus) -> Result<T, Fault>,
    ) -> Result<T> {
        session::on_machine(header, Arc::clone(&self.carrier), false, |machine, generator_cpus| {
            let (service_cpus, clock) = (machine.cpus.clone(), SystemClock::new());
            let (generator_cpus, service_cpus, clock) = (&generator_cpus, &service_cpus, &clock);
            work(&Once { header, generator_cpus, service_cpus, clock, stop: &self.stop }, machine)
        })
    }
}

/// What was seen of a service.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Seen {
    /// The TCP ports at which it listens, in order.
    pub(crate) listening: Vec<u16>,
    /// Those of them at which it listens on the loopback only: other forms cannot be reached there.
    pub(crate) loopback_only: Vec<u16>,
    /// The protocol of each port; of the first 16, if there are more.
    pub(crate) spoken: BTreeMap<u16, Spoken>,
    /// What the ports that speak HTTP answered to a request for the page, if one was asked for.
    pub(crate) answers: BTreeMap<u16, Answer>,
    /// The UDP ports at which it receives, if it listens at no TCP port.
    pub(crate) datagrams: BTreeSet<u16>,
    /// How it exited, if it did: "exit code 1". Its ports are then unknown.
    pub(crate) exited: Option<String>,
    /// The last lines of its output, without secrets.
    pub(crate) output: String,
}

/// Starts the services of a workload once, and looks at the one that the load addresses until it listens somewhere and
/// has answered, for at most `within` and the three seconds that the last questions may take. Its `ready:` and the
/// load's protocol have no meaning yet; services beside it must become ready. They are started in a layer on this
/// machine's own network if one can be had, else as plain processes; each in a network of its own if two of them have
/// the same port. Ports that speak HTTP are asked for the page at `path`, for at most five seconds more if the server
/// only has an error to tell.
///
/// # Errors
/// When a bundle or a service could not be made or started, on an interrupt, or when something of it is left.
pub(crate) fn look(
    ground: &Ground,
    workload: &mut Workload,
    within: Duration,
    path: Option<&str>,
    say: &mut dyn FnMut(&str),
) -> Result<Seen> {
    let closed = LoadProfile::Closed { connections: 1, pipeline: 1 };
    let form = form_to_look_at(workload, &ground.carrier);
    let is_apart = |used: &LayerUse| layer_of_form(&used.layer).listens(&used.options) == Listens::Apart;
    let apart = form.layers.first().is_some_and(is_apart);
    let study = Study::of(FORM, &workload.name, closed, vec![form]);
    let header = ground.header(Study { from: LoadOrigin::Host, ..study }, workload, say)?;
    let looked = Looked { apart, within, path };
    ground.deploy(&header, |once, machine| once.watch(machine, |service| watch(service, &looked, &ground.stop)))
}

/// A form in which every port of a service can be reached without having been declared: in this machine's own network,
/// or, if two services have the same port, each at its own address. By the first layer that can be had so, as it is or
/// with one change, else without any.
fn form_to_look_at(workload: &Workload, carrier: &MachineServices) -> Form {
    let wanted = if shares_port(workload) { Listens::Apart } else { Listens::Everywhere };
    let usable = LAYERS.iter().find_map(|layer| {
        let usual = machine::usual_options(layer.name());
        let varied = layer.variants(&usual, LoadOrigin::Host).into_iter().map(|variant| variant.options);
        let all: Vec<_> = std::iter::once(usual.clone()).chain(varied).collect();
        // What never shares this machine's network has a kernel of its own, whose processes cannot be seen from here.
        let is_seen = all.iter().any(|options| layer.listens(options) == Listens::Everywhere);
        let options = all.into_iter().find(|options| is_seen && layer.listens(options) == wanted)?;
        let ready = matches!(layer.probe(&options, carrier), Availability::Ready(_));
        ready.then(|| LayerUse { layer: layer.name().to_owned(), options })
    });
    Form { name: FORM.to_owned(), layers: usable.into_iter().collect(), ..Form::default() }
}

/// Whether two services have the same port, so that only one of them can listen where they share a network.
fn shares_port(workload: &Workload) -> bool {
    let mut taken = BTreeSet::new();
    let ports = |service: &Service| service.ports.values().copied().collect::<BTreeSet<u16>>();
    workload.services.iter().flat_map(ports).any(|port| !taken.insert(port))
}

/// What a started service does.
enum Doing {
    /// It listens at these addresses, or nowhere.
    Listens(BTreeSet<SocketAddr>),
    /// It has exited, in this way.
    Exited(String),
}

/// How a service is looked at.
struct Looked<'a> {
    /// Whether it has a network of its own.
    apart: bool,
    /// How long it may take until it listens and answers.
    within: Duration,
    /// The page that HTTP servers are asked for.
    path: Option<&'a str>,
}

fn watch(service: &mut Watched<'_>, looked: &Looked<'_>, stop: &Stop) -> Result<Seen, Fault> {
    let Looked { apart, within, path } = *looked;
    let deadline = Instant::now() + within;
    let mut seen = loop {
        let addresses = match settled(service, apart, deadline, stop)? {
            Doing::Listens(addresses) => addresses,
            Doing::Exited(how) => break Seen { exited: Some(how), ..Seen::default() },
        };
        let own = service.address().filter(|_| apart);
        let seen = of_addresses(&addresses, own);
        // Some listen long before they answer.
        let answered = seen.spoken.values().any(|spoken| *spoken != Spoken::Silent);
        if answered || Instant::now() >= deadline {
            let answers = path.map(|path| answers(&addresses, own, (&seen.spoken, path), stop)).unwrap_or_default();
            break Seen { answers, ..seen };
        }
    };
    if seen.exited.is_none()
        && let InstanceState::Ended(how) = service.state()?
    {
        seen = Seen { exited: Some(how), ..Seen::default() };
    }
    if seen.listening.is_empty()
        && seen.exited.is_none()
        && let (Some(scope), Some(here)) = (service.processes()?, listening::network_of(std::process::id()))
    {
        seen.datagrams = listening::datagram_ports(&scope, &here);
    }
    Ok(Seen { output: last_lines(&service.log()?), ..seen })
}

/// Waits until the service listens somewhere and has not opened or closed a port for a while, or the deadline.
fn settled(service: &mut Watched<'_>, apart: bool, deadline: Instant, stop: &Stop) -> Result<Doing, Fault> {
    let (mut addresses, mut since) = (BTreeSet::new(), Instant::now());
    loop {
        if stop.raised() {
            return Err(Fault::new("interrupted"));
        }
        if let InstanceState::Ended(how) = service.state()? {
            return Ok(Doing::Exited(how));
        }
        let scope = service.processes()?;
        let network = scope.as_ref().and_then(|scope| network(scope, apart)).unwrap_or_default();
        let now = scope.map(|scope| listening::addresses(&scope, &network)).unwrap_or_default();
        if now != addresses {
            (addresses, since) = (now, Instant::now());
        }
        let steady = !addresses.is_empty() && since.elapsed() >= STEADY;
        if steady || Instant::now() >= deadline {
            return Ok(Doing::Listens(addresses));
        }
        std::thread::sleep(LOOK);
    }
}

/// The network in which a service listens: this machine's, or its own if it is `apart`.
fn network(scope: &Scope, apart: bool) -> Option<PathBuf> {
    let here = listening::network_of(std::process::id());
    if !apart {
        return here;
    }
    scope.pids.iter().filter_map(|pid| listening::network_of(*pid)).find(|network| Some(network) != here.as_ref())
}

/// What is seen of a service that listens at these addresses: asks each port which protocol it speaks, all at the same
/// time. A service with a network of its own is reached at the address `own`.
pub(crate) fn of_addresses(addresses: &BTreeSet<SocketAddr>, own: Option<IpAddr>) -> Seen {
    let mut ports: BTreeMap<u16, Vec<IpAddr>> = BTreeMap::new();
    for address in addresses {
        ports.entry(address.port()).or_default().push(address.ip());
    }
    let spoken: BTreeMap<u16, Spoken> = std::thread::scope(|scope| {
        let asked = ports.iter().take(PORTS_MAX);
        let asked: Vec<_> = asked.map(|(port, at)| (*port, scope.spawn(move || ask_port(*port, at, own)))).collect();
        asked.into_iter().map(|(port, answer)| (port, answer.join().expect("asking does not panic"))).collect()
    });
    let is_inner = |at: &&Vec<IpAddr>| at.iter().all(IpAddr::is_loopback);
    let loopback_only = ports.iter().filter(|(_, at)| is_inner(at)).map(|(port, _)| *port).collect();
    Seen { listening: ports.into_keys().collect(), loopback_only, spoken, ..Seen::default() }
}

/// What each port that speaks HTTP answers to a request for the page at `path`. A server that has an error to tell is
/// asked again for a while.
fn answers(
    addresses: &BTreeSet<SocketAddr>,
    own: Option<IpAddr>,
    (spoken, path): (&BTreeMap<u16, Spoken>, &str),
    stop: &Stop,
) -> BTreeMap<u16, Answer> {
    let deadline = Instant::now() + WARM;
    let web = |address: &&SocketAddr| spoken.get(&address.port()) == Some(&Spoken::Http);
    let answer = |address: &SocketAddr| {
        let mut places = reached_at(address.ip(), own).into_iter().map(|at| SocketAddr::new(at, address.port()));
        Some((address.port(), places.find_map(|place| page::get(place, path, PATIENCE))?))
    };
    loop {
        let answers: BTreeMap<u16, Answer> = addresses.iter().filter(web).filter_map(answer).collect();
        let starting = answers.values().any(|answer| answer.status >= 500);
        if !starting || Instant::now() >= deadline || stop.raised() {
            return answers;
        }
        std::thread::sleep(LOOK);
    }
}

/// The first answer of a port, at one of the addresses at which it is open.
fn ask_port(port: u16, at: &[IpAddr], own: Option<IpAddr>) -> Spoken {
    let reached = at.iter().flat_map(|address| reached_at(*address, own));
    let mut places: Vec<SocketAddr> = reached.map(|address| SocketAddr::new(address, port)).collect();
    places.dedup();
    let mut answers = places.into_iter().take(PLACES_MAX).map(|place| ask(place, PATIENCE));
    answers.find(|spoken| *spoken != Spoken::Silent).unwrap_or(Spoken::Silent)
}

/// The addresses at which a socket is reached from this machine that is bound to `address`, in this machine's network
/// or in one that is reached at `own`.
fn reached_at(address: IpAddr, own: Option<IpAddr>) -> Vec<IpAddr> {
    let (v4, v6) = (IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST));
    match address {
        _ if address.is_loopback() && own.is_some() => Vec::new(),
        _ if !address.is_unspecified() => vec![address],
        _ if own.is_some() => own.into_iter().collect(),
        IpAddr::V4(_) => vec![v4],
        // It may take IPv4 too, and there may be no IPv6 on the loopback.
        IpAddr::V6(_) => vec![v6, v4],
    }
}

fn last_lines(output: &str) -> String {
    let lines: Vec<&str> = output.trim_end().lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use tare_testkit::peer::answering;

    #[test]
    fn every_port_is_asked_and_those_on_the_loopback_alone_are_told() {
        let redis = answering(|_, said| said.starts_with(b"*1").then_some("+PONG\r\n"));
        let silent = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let everywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, silent.port()));
        let seen = of_addresses(&BTreeSet::from([redis, everywhere]), None);
        assert_eq!(seen.listening.len(), 2, "{seen:?}");
        assert_eq!(seen.loopback_only, [redis.port()]);
        assert_eq!(seen.spoken[&redis.port()], Spoken::Redis);
        assert_eq!(seen.spoken[&silent.port()], Spoken::Silent, "nobody listens there any more");
        assert_eq!(of_addresses(&BTreeSet::new(), None), Seen::default());
    }

    #[test]
    fn web_servers_are_asked_for_the_page() {
        let web = answering(|_, _| Some("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"));
        let starting = answering(|number, _| {
            Some(if number == 0 { "HTTP/1.1 503 Not Yet\r\n\r\n" } else { "HTTP/1.1 200 OK\r\n\r\n" })
        });
        let redis = answering(|_, _| Some("+PONG\r\n"));
        let spoken =
            [(web, Spoken::Http), (starting, Spoken::Http), (redis, Spoken::Redis)].map(|(at, of)| (at.port(), of));
        let at = BTreeSet::from([web, starting, redis]);
        let asked = answers(&at, None, (&spoken.into(), "/x"), &Stop::default());
        assert_eq!(asked.len(), 2, "{asked:?}");
        assert_eq!(asked[&web.port()].to_string(), "404 Not Found");
        assert_eq!(asked[&starting.port()].status, 200, "it has started by then");
    }

    #[test]
    fn a_socket_for_all_addresses_is_reached_at_the_loopback() {
        let at = |text: &str| -> Vec<String> {
            reached_at(text.parse().unwrap(), None).iter().map(ToString::to_string).collect()
        };
        assert_eq!(at("0.0.0.0"), ["127.0.0.1"]);
        assert_eq!(at("::"), ["::1", "127.0.0.1"]);
        assert_eq!(at("10.1.2.3"), ["10.1.2.3"]);
        let own: Option<IpAddr> = Some("172.17.0.2".parse().unwrap());
        assert_eq!(reached_at(Ipv4Addr::UNSPECIFIED.into(), own), own.into_iter().collect::<Vec<_>>());
        assert!(reached_at(Ipv4Addr::LOCALHOST.into(), own).is_empty(), "its loopback is not this machine's");
    }

    #[test]
    fn the_last_lines_are_kept() {
        let lines: String = (1..=20).map(|line| format!("line {line}\n")).collect();
        let kept = last_lines(&lines);
        assert!(kept.starts_with("line 6\n") && kept.ends_with("line 20"), "{kept}");
        assert_eq!((last_lines(""), last_lines("one\n")), (String::new(), "one".to_owned()));
    }
}
