//! Plain samples of what is handed from crate to crate, of which each test states only what it is about.

use std::net::IpAddr;
use std::path::Path;
use tare_core::host::TrialContext;
use tare_core::units::CpuSet;
use tare_core::workload::{ProtocolUse, Service, Workload};

/// The surroundings of a trial `t1` that has CPU 0, starts nothing and stands alone; its scratch is below `scratch`.
pub fn surroundings(run: &str, scratch: &Path, address: impl Into<IpAddr>, subnets: (u8, u8)) -> TrialContext {
    TrialContext {
        run: run.to_owned(),
        trial: "t1".to_owned(),
        scratch: scratch.join("t1"),
        address: address.into(),
        subnets,
        third_octets: tare_core::host::third_octets(),
        cpus: CpuSet::new([0]),
        hypervisor: CpuSet::default(),
        services: Vec::new(),
        inner: Vec::new(),
        place: 0,
    }
}

/// A workload of these services, of which the first is loaded with the protocol `null` at its port `main`.
pub fn workload(name: &str, services: Vec<Service>) -> Workload {
    let protocol = ProtocolUse {
        protocol: "null".to_owned(),
        service: services.first().map_or("s", |service| service.name.as_str()).to_owned(),
        port: Some("main".to_owned()),
        spread: false,
        options: serde_json::Value::Null,
        unit: None,
        metrics: Vec::new(),
        behaviours: Default::default(),
    };
    Workload {
        name: name.to_owned(),
        about: String::new(),
        services,
        protocol,
        qos: None,
        qos_sets: Default::default(),
        parameters: Default::default(),
        prepared: None,
        file: None,
    }
}
