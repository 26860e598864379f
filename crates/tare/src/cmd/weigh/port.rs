//! Which port gets the load: the one that was typed, or else the likeliest of those at which the service listens.

use super::args::About;
use crate::cmd::look::Seen;
use anyhow::Result;
use tare_core::fault::Fault;
use tare_load::greeting::Spoken;

/// The port that gets the load.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) number: u16,
    /// Why this one, in words.
    pub(super) said: String,
    pub(super) spoken: Spoken,
}

/// The ports at which a service should listen.
pub(super) struct Expected<'a> {
    pub(super) ports: &'a [u16],
    /// Who says so, in words.
    pub(super) by: &'a str,
}

/// Chooses among the ports at which the service listens.
///
/// # Errors
/// When it listens at none, or not at the one that was typed.
pub(super) fn choose(about: &About, expected: &Expected, seen: &Seen) -> Result<Port> {
    let of = |port: u16| seen.spoken.get(&port).cloned().unwrap_or(Spoken::Silent);
    let listed = |ports: &[u16]| ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
    let listening: Vec<u16> =
        seen.listening.iter().copied().filter(|port| !seen.loopback_only.contains(port)).collect();
    let list = || listed(&listening);
    if listening.is_empty() {
        let (at, to_do) = if !seen.datagrams.is_empty() {
            let ports: Vec<u16> = seen.datagrams.iter().copied().collect();
            let to_do = "Tare has no load of its own for UDP, and forms publish TCP ports: if it speaks TCP as well, \
                         have it listen there (--command, --env); a workload can load it by a tool inside the form \
                         (protocol exec)";
            (format!("listens at no TCP port, but at UDP port {}", listed(&ports)), to_do)
        } else if seen.loopback_only.is_empty() {
            let to_do = "see its last lines; if it waits for something, give it that: --env, --command";
            ("listens at no TCP port".to_owned(), to_do)
        } else {
            let at = format!("listens on the loopback only, at port {}", listed(&seen.loopback_only));
            (at, "have it listen at all addresses (0.0.0.0): --command, --env")
        };
        let fault = Fault::new(format!("the service runs, but {at}, so a container of it cannot be loaded"));
        return Err(fault.remedy(to_do).with_log(seen.output.clone()).into());
    }
    if let Some(number) = about.port {
        if !listening.contains(&number) {
            let fault = Fault::new(format!("the service does not listen at port {number}, but at {}", list()));
            return Err(fault.remedy("name one of these: --port").as_mistake().into());
        }
        return Ok(Port { number, said: format!("port {number}: as typed (--port)"), spoken: of(number) });
    }
    let rank = |port: &u16| (!suits(about, &of(*port)), !expected.ports.contains(port), !is_known(&of(*port)), *port);
    let number = *listening.iter().min_by_key(|port| rank(port)).expect("it listens at one port at least");
    let why = if expected.ports.contains(&number) { expected.by } else { "the service listens at it" };
    let others = if listening.len() > 1 { format!(", of {}", list()) } else { String::new() };
    Ok(Port { number, said: format!("port {number}: {why}{others} (--port)"), spoken: of(number) })
}

fn is_known(spoken: &Spoken) -> bool {
    !matches!(spoken, Spoken::Silent | Spoken::Unknown(_))
}

/// Whether the load that was typed suits this protocol; any does if none was typed.
fn suits(about: &About, spoken: &Spoken) -> bool {
    if about.http.is_some() {
        matches!(spoken, Spoken::Http | Spoken::Tls)
    } else if about.sql.is_some() {
        matches!(spoken, Spoken::Postgres | Spoken::MySql)
    } else if about.redis {
        *spoken == Spoken::Redis
    } else if about.memcached {
        *spoken == Spoken::Memcached
    } else {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::weigh::args::typed::about;

    fn by_image(ports: &[u16]) -> Expected<'_> {
        Expected { ports, by: "the image exposes it" }
    }

    fn chosen(typed: &[&str], exposed: &[u16], listening: &[(u16, Spoken)]) -> Result<String> {
        let about = about(&[&["x"][..], typed].concat());
        let ports = listening.iter().map(|(port, _)| *port).collect();
        let seen = Seen { listening: ports, spoken: listening.iter().cloned().collect(), ..Seen::default() };
        choose(&about, &by_image(exposed), &seen).map(|port| port.said)
    }

    #[test]
    fn an_exposed_port_comes_first_then_one_that_speaks() {
        let both = [(80, Spoken::Silent), (6379, Spoken::Redis), (9000, Spoken::Http)];
        assert_eq!(chosen(&[], &[9000], &both).unwrap(), "port 9000: the image exposes it, of 80, 6379, 9000 (--port)");
        assert!(chosen(&[], &[], &both).unwrap().starts_with("port 6379: the service listens at it"));
        assert!(chosen(&["--http", "/"], &[6379], &both).unwrap().starts_with("port 9000"), "it speaks HTTP");
        assert_eq!(chosen(&["--port", "80"], &[9000], &both).unwrap(), "port 80: as typed (--port)");
        assert_eq!(chosen(&[], &[80], &both[..1]).unwrap(), "port 80: the image exposes it (--port)");
    }

    #[test]
    fn a_port_at_which_nothing_listens_gets_no_load() {
        let told = chosen(&["--port", "1"], &[], &[(80, Spoken::Http)]).unwrap_err().to_string();
        assert!(told.contains("not listen at port 1, but at 80"), "{told}");
        assert!(chosen(&[], &[80], &[]).unwrap_err().to_string().contains("listens at no TCP port"));
        let datagrams = Seen { datagrams: [53].into(), ..Seen::default() };
        let told = choose(&about(&["x"]), &by_image(&[]), &datagrams).unwrap_err().to_string();
        assert!(told.contains("but at UDP port 53") && told.contains("tool inside the form"), "{told}");
        let inner = Seen { listening: vec![80], loopback_only: vec![80], ..Seen::default() };
        let told = choose(&about(&["x"]), &by_image(&[80]), &inner).unwrap_err().to_string();
        assert!(told.contains("on the loopback only, at port 80"), "{told}");
    }
}
