//! `prepared:` of a workload: which volumes hold a data set that may be kept instead of being made again.

use super::Service;
use crate::config::{Fields, Node, Problems};
use serde::{Deserialize, Serialize};

/// A data set that services make when they are deployed, and that a copy of their volumes can replace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepared {
    /// The services whose volumes hold it, all of which start before `by`.
    pub volumes: Vec<String>,
    /// The service that makes it: the data are there once it is ready.
    pub by: String,
}

impl Prepared {
    /// Reads `prepared:` of a workload with these services.
    pub(super) fn read(node: &Node, services: &[Service], problems: &mut Problems) -> Option<Prepared> {
        let mut fields = Fields::of(node, "prepared", problems)?;
        let maker = fields.require("by", problems);
        let by = maker.and_then(|node| service(node, services, problems));
        let mut volumes = Vec::new();
        let list = fields.require("volumes", problems);
        let items = list.and_then(|node| node.items(problems));
        if let (Some(node), Some([])) = (list, items) {
            problems.add(node.place, "no volume is said to hold the data", "write for example `volumes: [database]`");
        }
        for item in items.unwrap_or_default() {
            let Some(at) = service(item, services, problems) else { continue };
            let Service { name, volumes: own, .. } = &services[at];
            if own.is_empty() && !services[at].awaits_image() {
                let message = format!("service '{name}' has no volume that could hold data");
                problems.add(item.place, message, "name services with `volumes:`");
            }
            if shares(&services[at]) {
                let message = format!("service '{name}' shares a volume, and no copy can be kept of what is shared");
                problems.add(item.place, message, "let it hold the data in a volume of its own");
            }
            if let Some(by) = by.filter(|by| *by <= at) {
                let message =
                    format!("service '{name}' does not start before '{}', which is to fill it", services[by].name);
                problems.add(item.place, message, "services start in the order under `services:`");
            }
            if volumes.contains(name) {
                problems.add(item.place, format!("service '{name}' is named twice"), "");
            }
            volumes.push(name.clone());
        }
        // What they leave in it would be there in the deployment that makes the copy, and in no later one.
        let makers = by.map_or(&services[..0], |by| &services[..=by]);
        let other = makers.iter().find(|one| shares(one) && !volumes.contains(&one.name));
        if let (Some(node), Some(other)) = (maker, other) {
            let message = format!("'{}', which is started to make the data, shares a volume", other.name);
            problems.add(node.place, message, "let services that share one start after this, or leave 'prepared' out");
        }
        fields.finish(problems);
        Some(Prepared { volumes, by: services[by?].name.clone() })
    }

    /// Of the services of a spelled-out workload, those needed to make the data: in each tile, all up to the last one
    /// that makes them.
    pub fn makers<'a>(&self, services: &'a [Service]) -> Vec<&'a Service> {
        let last = |tile| services.iter().rposition(|service| service.tile() == tile && service.role() == self.by);
        let all = services.iter().enumerate();
        all.filter(|(at, service)| last(service.tile()) >= Some(*at)).map(|(_, service)| service).collect()
    }
}

fn shares(service: &Service) -> bool {
    service.volumes.values().any(|volume| volume.shared.is_some())
}

/// The index of the service that `node` names.
fn service(node: &Node, services: &[Service], problems: &mut Problems) -> Option<usize> {
    let name = node.text(problems)?;
    let found = services.iter().position(|service| service.name == name);
    if found.is_none() {
        let known: Vec<&str> = services.iter().map(|service| service.name.as_str()).collect();
        Node::unknown(&name, node.place, "service", &known, problems);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::{Recipe, Source};
    use crate::config::parse;
    use crate::instances::Instances;
    use crate::workload::{Readiness, Volume, Workload};
    use std::collections::BTreeMap;

    fn services() -> Vec<Service> {
        let recipe = Recipe::plain(Source::Packages(vec!["p".to_owned()]));
        let ready = Readiness::Log { text: "ready".to_owned(), within: std::time::Duration::ZERO };
        let service = |name: &str, volumes: &[(&str, u64)]| Service {
            user: (1, 1),
            own_user: false,
            volumes: volumes.iter().map(|(path, bytes)| ((*path).to_owned(), Volume::of(*bytes))).collect(),
            ..Service::of(name, recipe.clone(), vec!["/p".to_owned()], ready.clone())
        };
        let data = [("/data", 1)];
        vec![service("database", &data), service("data", &[]), service("cache", &data)]
    }

    fn read(text: &str) -> (Option<Prepared>, Vec<String>) {
        read_for(&services(), text)
    }

    fn read_for(services: &[Service], text: &str) -> (Option<Prepared>, Vec<String>) {
        let mut problems = Problems::new("workload.yaml", text);
        let node = parse(text, &mut problems).unwrap();
        let read = Prepared::read(&node, services, &mut problems);
        let told =
            problems.into_vec().into_iter().map(|problem| format!("{}: {}", problem.place.line, problem.message));
        (read, told.collect())
    }

    #[test]
    fn it_says_whose_volumes_are_filled_by_whom() {
        let wanted = Prepared { volumes: vec!["database".to_owned()], by: "data".to_owned() };
        assert_eq!(read("{volumes: [database], by: data}"), (Some(wanted), Vec::new()));
    }

    #[test]
    fn mistakes_are_told_with_their_places() {
        let told = |text: &str| read(text).1.join("; ");
        assert!(told("by: data\nvolumes:\n- databse\n").starts_with("3: "), "the third line has it");
        assert!(told("volumes: [database]\nby: dta").contains("2: "));
        assert!(told("{volumes: [data], by: cache}").contains("'data' has no volume"));
        assert!(told("{volumes: [cache], by: data}").contains("'cache' does not start before 'data'"));
        assert!(told("{volumes: [database, database], by: data}").contains("named twice"));
        assert!(told("{volumes: [], by: data}").contains("no volume is said"));
        assert!(told("{volumes: [database]}").contains("by"));
        assert!(told("{volumes: [database], by: data, of: x}").contains("of"));
    }

    #[test]
    fn no_copy_is_kept_of_what_is_shared() {
        let mut services = services();
        services[0].volumes.insert("/more".to_owned(), Volume::shared("site", 1, false));
        let told = read_for(&services, "by: data\nvolumes:\n- database\n").1.join("; ");
        assert!(told.starts_with("3: service 'database' shares a volume"), "{told}");
        services[0].volumes.remove("/more");
        services[1].volumes.insert("/more".to_owned(), Volume::shared("site", 1, false));
        let told = read_for(&services, "by: data\nvolumes:\n- database\n").1.join("; ");
        assert!(told.starts_with("1: 'data', which is started to make the data, shares a volume"), "{told}");
    }

    fn made_by<T>(workload: &Workload, instances: &Instances, what: impl Fn(&Service) -> T) -> Vec<T> {
        let spelled = instances.spell_out(workload);
        workload.prepared.as_ref().unwrap().makers(&spelled.services).into_iter().map(what).collect()
    }

    #[test]
    fn in_each_tile_the_makers_are_those_up_to_who_makes_the_data() {
        let (prepared, _) = read("{volumes: [database], by: data}");
        let workload = Workload {
            name: "w".to_owned(),
            about: String::new(),
            services: services(),
            protocol: crate::workload::ProtocolUse {
                protocol: "null".to_owned(),
                service: "cache".to_owned(),
                port: None,
                spread: false,
                options: serde_json::Value::Null,
                unit: None,
                metrics: Vec::new(),
                behaviours: BTreeMap::new(),
            },
            qos: None,
            qos_sets: BTreeMap::new(),
            file: None,
            parameters: BTreeMap::new(),
            prepared,
        };
        let names = |instances: Instances| made_by(&workload, &instances, |service| service.name.clone());
        assert_eq!(names(Instances::default()), ["database", "data"]);
        let two = Instances { tiles: Some(2), services: [("data".to_owned(), 2)].into() };
        assert_eq!(names(two), ["database-1", "data-1-1", "data-1-2", "database-2", "data-2-1", "data-2-2"]);

        // The owner of the data's files does not depend on later services: a copy serves every form with the same
        // number of makers.
        let mut own = workload;
        own.services.iter_mut().for_each(|service| service.own_user = true);
        let users = |caches: u32| {
            let instances = Instances { tiles: None, services: [("cache".to_owned(), caches)].into() };
            made_by(&own, &instances, |service| service.user)
        };
        assert_eq!((users(1), users(7)), (vec![(65_536, 65_536), (65_537, 65_537)], users(1)));
    }
}
