//! Names of services: those that a service is told are in its /etc/hosts, in every form.

use crate::commands::printed;
use crate::stage::{self, Stage, free_port, service};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use tare_core::host::{Availability, Host, Instance, ServiceStart};

/// Names that a service is told.
pub(crate) fn told() -> BTreeMap<String, IpAddr> {
    let names = [("one", [127, 0, 0, 1]), ("database", [10, 9, 8, 7]), ("db.internal_1", [10, 9, 8, 7])];
    names.map(|(name, address)| (name.to_owned(), IpAddr::from(address))).into()
}

/// A name of the service's own, which leads to where it stands.
const OWN: &str = "myself";

/// Tells a service these names, and its own.
pub(crate) fn tell(start: &mut ServiceStart) {
    start.names = told();
    start.names.insert(OWN.to_owned(), IpAddr::from([127, 0, 0, 1]));
    start.service.names.insert(OWN.to_owned());
}

/// What the contract asks of a form in which the service runs as `one`, as this instance, and was told these.
pub(crate) fn known(form: &str, host: &mut dyn Host, instance: &Instance) {
    let text = printed(host, "one", "/bin/service", &["print-file", "/etc/hosts"]);
    let entries: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let leads = |name: &str, address: &str| {
        let named = entries.iter().filter(|entry| entry.iter().skip(1).any(|host| *host == name));
        named.map(|entry| entry[0]).collect::<Vec<_>>() == [address]
    };
    for (name, address) in told() {
        assert!(leads(&name, &address.to_string()), "{form}: {name} in {text}");
    }
    // Where other services reach it, and whoever binds to it.
    let stands = instance.peers.get("main").unwrap_or(&instance.endpoints["main"]).ip().to_string();
    assert!(leads(OWN, &stands), "{form}: {OWN}, which stands at {stands}, in {text}");
    assert!(entries.iter().any(|entry| entry.contains(&"localhost")), "{form}: {text}");
}

/// In the networks that a container may have: with the host's, an engine copies this machine's file unless it is told
/// names.
pub(crate) fn in_each_network() {
    let kind = crate::checks::named("container");
    for options in ["{network: host}", "{network: bridge}", "{network: published}", "{by: nspawn}", "{by: lxc}"] {
        let layer = crate::checks::layer(kind, options);
        if let Availability::Unavailable(why) = kind.probe(&layer.options, &stage::carrier(Path::new("/"))) {
            println!("skipped: names of services in a container with '{options}': {why}");
            continue;
        }
        let (stage, mut start) = (Stage::open(|_| {}), service("one", free_port(), &[]));
        tell(&mut start);
        let mut host = stage.host(std::slice::from_ref(&start), &[layer]);
        let instance = host.start(&start).unwrap();
        stage.ask(instance.endpoints["main"]);
        known(options, host.as_mut(), &instance);
        host.close().unwrap();
        stage.close();
    }
}
