//! The order in which services start.

use crate::model::Service;
use crate::sources::Sources;

/// Which services start before which.
pub(crate) struct Order {
    /// For each service, by its number, those that start before it.
    before: Vec<Vec<usize>>,
}

impl Order {
    /// The order that `depends_on` and `links` ask for. `left_out` are services that are in the file and not deployed.
    pub(crate) fn of(services: &[Service], left_out: &[String], sources: &mut Sources) -> Order {
        let mut order = Order { before: vec![Vec::new(); services.len()] };
        for (number, service) in services.iter().enumerate() {
            for dependency in &service.after {
                let other = services.iter().position(|other| other.name == dependency.name);
                let Some(other) = other else {
                    let name = &dependency.name;
                    if left_out.contains(name) && !dependency.optional {
                        let why = "its profile is not asked for, it is scaled to 0, or it has mistakes";
                        let message = format!("'{name}' is not deployed: {why}");
                        sources.wrong(dependency.at, message, "ask for its profile by --profile, or remove this");
                    } else if !dependency.optional {
                        let known: Vec<&str> = services.iter().map(|service| service.name.as_str()).collect();
                        sources.unknown(dependency.at, format!("there is no service '{name}'"), name, &known);
                    }
                    continue;
                };
                if !order.add(other, number) {
                    let message = format!("'{}' and '{}' wait for each other", service.name, dependency.name);
                    sources.wrong(dependency.at, message, "remove one of the two");
                }
            }
        }
        order
    }

    /// Has `first` start before `second`; false if that is impossible.
    pub(crate) fn add(&mut self, first: usize, second: usize) -> bool {
        let possible = first != second && !self.precedes(second, first);
        if possible && !self.before[second].contains(&first) {
            self.before[second].push(first);
        }
        possible
    }

    /// Whether `first` starts before `second`, directly or by others between them.
    fn precedes(&self, first: usize, second: usize) -> bool {
        let (mut open, mut seen) = (vec![second], vec![false; self.before.len()]);
        while let Some(service) = open.pop() {
            if service == first {
                return true;
            }
            if !std::mem::replace(&mut seen[service], true) {
                open.extend(&self.before[service]);
            }
        }
        false
    }

    /// All services in an order that keeps to this, and otherwise to that of the file.
    pub(crate) fn sorted(&self) -> Vec<usize> {
        let (mut sorted, mut placed) = (Vec::new(), vec![false; self.before.len()]);
        while sorted.len() < self.before.len() {
            let free = |service: &usize| !placed[*service] && self.before[*service].iter().all(|other| placed[*other]);
            let Some(next) = (0..self.before.len()).find(free) else { break };
            sorted.push(next);
            placed[next] = true;
        }
        sorted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_keep_their_places_unless_one_waits_for_another() {
        let mut order = Order { before: vec![Vec::new(); 4] };
        assert!(order.add(2, 0) && order.add(3, 2));
        assert_eq!(order.sorted(), [1, 3, 2, 0]);
        assert!(!order.add(0, 3) && !order.add(1, 1));
        assert_eq!(order.sorted(), [1, 3, 2, 0]);
    }
}
