//! The names by which services find each other: `names:` of a service, beside its own name.

use crate::config::{Fields, Node, NodeKind, Place, Problems};
use std::collections::{BTreeMap, BTreeSet};

/// The longest name of a host, and the longest part of one between dots, in bytes.
const NAME_MAX: usize = 253;
const LABEL_MAX: usize = 63;

/// Whether a service may be called so: parts of `a-z`, `0-9`, `-` and `_` with dots between them, as in `db.internal`.
/// `localhost` is everybody's own.
pub fn is_host_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    let is_label = |label: &str| (1..=LABEL_MAX).contains(&label.len()) && label.chars().all(allowed);
    name.len() <= NAME_MAX && name != "localhost" && name.split('.').all(is_label)
}

/// Reads `names:` of a service.
pub(super) fn read_names(node: &Node, problems: &mut Problems) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for item in node.items(problems).unwrap_or_default() {
        let Some(name) = item.text(problems) else { continue };
        if !is_host_name(&name) {
            let hint = "use a-z, 0-9, '-' and '_', with dots between parts, at most 253 characters; not localhost";
            problems.add(item.place, format!("'{name}' is no name of a host"), hint);
        }
        names.insert(name);
    }
    names
}

/// Reports which names in `node`, the map of services, lead to two services.
pub(super) fn refuse_shared_names(node: &Node, problems: &mut Problems) {
    let Some(fields) = Fields::of(node, "services", &mut Problems::default()) else { return };
    let own = fields.entries().iter().map(|(name, ..)| (name.as_str(), name.as_str()));
    let mut known: BTreeMap<&str, &str> = own.collect();
    for (service, _, node) in fields.entries() {
        for (name, place) in stated(node) {
            let other = *known.entry(name).or_insert(service);
            if other != service {
                let message = format!("'{name}' is a name of service '{other}' already");
                problems.add(place, message, "a name leads to one service: give it to one of the two");
            }
        }
    }
}

/// The names that a service states, each with its place.
fn stated(service: &Node) -> Vec<(&str, Place)> {
    let Some(names) = service.find(&["names"]) else { return Vec::new() };
    let items = match &names.kind {
        NodeKind::List(items) => items.as_slice(),
        _ => std::slice::from_ref(names),
    };
    let mut stated = Vec::new();
    for item in items {
        if let NodeKind::Scalar { text, .. } = &item.kind {
            stated.push((text.as_str(), item.place));
        }
    }
    stated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_hosts_may_have() {
        for name in ["db", "db.internal", "my_db-1", "1.db", &"a".repeat(63)] {
            assert!(is_host_name(name), "{name}");
        }
        for name in ["", "localhost", "DB", ".db", "db.", "a..b", "a b", "a\nb", "a:1", "é", &"a".repeat(64)] {
            assert!(!is_host_name(name), "{name:?}");
        }
        assert!(!is_host_name(&["ab"; 100].join(".")));
    }

    fn told(services: &str) -> Vec<String> {
        let text = format!("services:\n{services}");
        let mut problems = Problems::new("workload.yaml", &text);
        let root = crate::config::parse(&text, &mut problems).unwrap();
        let services = root.find(&["services"]).unwrap();
        for (_, _, service) in Fields::of(services, "services", &mut Problems::default()).unwrap().entries() {
            if let Some(names) = service.find(&["names"]) {
                read_names(names, &mut problems);
            }
        }
        refuse_shared_names(services, &mut problems);
        problems.into_vec().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_name_of_two_services_is_a_mistake_with_its_place() {
        assert!(told("  a: {names: [db, db, a]}\n  b: {}\n").is_empty());
        let shared = told("  a: {names: [db, b]}\n  b: {names: [x, db]}\n");
        assert_eq!(shared.len(), 2, "{shared:?}");
        assert!(shared[0].contains(":2:") && shared[0].contains("'b' is a name of service 'b'"), "{shared:?}");
        assert!(shared[1].contains(":3:") && shared[1].contains("'db' is a name of service 'a'"), "{shared:?}");
        let wrong = told("  a: {names: [Db]}\n");
        assert!(wrong.len() == 1 && wrong[0].contains("'Db' is no name of a host"), "{wrong:?}");
    }
}
