//! That no other machine reaches the networks that a run makes: ports that an engine publishes there, and containers'
//! own addresses.

use crate::checks::{layer, named};
use crate::confined::{Ask, expect_closed, is_answered};
use crate::stage::{self, Stage, free_port, service};
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use tare_core::host::{Availability, Host, Instance, TrialContext};
use tare_core::layer::LayerUse;
use tare_layers::network::Networks;

/// A container that serves.
struct Serving {
    host: Box<dyn Host>,
    instance: Instance,
}

impl Serving {
    fn start(stage: &Stage, layers: &[LayerUse], around: TrialContext) -> Serving {
        let start = service("one", free_port(), &[]);
        let mut host = stage.host_in(TrialContext { services: vec![start.clone()], ..around }, layers);
        let instance = host.start(&start).unwrap();
        Serving { host, instance }
    }

    /// Where the load reaches it, and where other containers do.
    fn places(&self) -> Vec<SocketAddr> {
        self.instance.endpoints.values().chain(self.instance.peers.values()).copied().collect()
    }

    fn end(mut self) {
        self.host.stop("one").unwrap();
        self.host.close().unwrap();
    }
}

/// The container layer with each of these options; none where this machine has no engine.
fn containers<const N: usize>(options: [&str; N]) -> Option<[Vec<LayerUse>; N]> {
    let all = options.map(|options| vec![layer(named("container"), options)]);
    match named("container").probe(&all[0][0].options, &stage::carrier(Path::new("/"))) {
        Availability::Unavailable(why) => {
            println!("skipped: the networks of containers: {why}");
            None
        }
        _ => Some(all),
    }
}

/// The lab reaches none of these places.
fn expect_private(form: &str, lab: &Stage, serving: &Serving) {
    let ways: Vec<(&Stage, Ask, SocketAddr)> =
        serving.places().into_iter().map(|place| (lab, is_answered as Ask, place)).collect();
    expect_closed(form, &ways, &serving.instance.path);
}

/// Forms that stand beside each other, each in networks of its own.
pub(crate) fn side_by_side() {
    let Some([published, bridge]) = containers(["{network: published}", "{network: bridge}"]) else { return };
    // Another run's seat for load is a machine of the lab, on another link.
    let (stage, lab) = (Stage::open(|_| {}), Stage::open(|_| {}));
    let mut networks = Networks::of(&stage.run);
    let all = [("published", &published), ("bridge", &bridge)].map(|(form, layers)| {
        let place = if form == "published" { 1 } else { 2 };
        let subnets = networks.at(place).unwrap();
        (form, Serving::start(&stage, layers, stage.surroundings_beside(place, subnets)))
    });
    if let Some(why) = networks.reached_by_others() {
        println!("skipped: whether networks are private: {why}");
    } else {
        for (form, serving) in &all {
            stage.ask(serving.instance.endpoints["main"]);
            expect_private(form, &lab, serving);
        }
        // What listens at an address that is no run's own the lab does reach, in the same way.
        let listener = TcpListener::bind((lab.surroundings(&[], &[]).address, 0)).unwrap();
        let place = listener.local_addr().unwrap();
        let answer = move || listener.accept().map(|(mut peer, _)| peer.write_all(b"{\"properties\": {}}"));
        let answered = std::thread::spawn(answer);
        assert!(is_answered(&lab, place), "the lab reaches nothing at all");
        answered.join().unwrap().unwrap().unwrap();
    }
    all.into_iter().for_each(|(_, serving)| serving.end());
    drop(networks);
    stage.close();
    lab.close();
}

/// Forms whose load comes from this machine itself, without a network of its own.
pub(crate) fn from_host() {
    let Some(all) = containers(["{network: published}", "{network: bridge}"]) else { return };
    let (stage, lab) = (Stage::open_without_seat(), Stage::open(|_| {}));
    let subnets = stage.surroundings(&[], &[]).subnets;
    let mut networks = Networks::of(&stage.run);
    networks.keep(0, subnets);
    if let Some(why) = networks.reached_by_others() {
        println!("skipped: whether networks are private: {why}");
    } else {
        for (form, layers) in ["published", "bridge"].into_iter().zip(&all) {
            let serving = Serving::start(&stage, layers, stage.surroundings(&[], &[]));
            stage.ask(serving.instance.endpoints["main"]);
            expect_private(form, &lab, &serving);
            serving.end();
        }
    }
    drop(networks);
    stage.close();
    lab.close();
}
