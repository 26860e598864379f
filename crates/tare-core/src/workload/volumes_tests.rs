use super::*;
use crate::bundle::{Recipe, Source};
use crate::config::parse;
use crate::workload::{Readiness, Replica};
use std::time::Duration;

fn service(name: &str) -> Service {
    let recipe = Recipe::plain(Source::Packages(vec!["p".to_owned()]));
    let ready = Readiness::Log { text: String::new(), within: Duration::ZERO };
    Service::of(name, recipe, vec!["/p".to_owned()], ready)
}

/// The services of a map that has no more than `volumes`, `as_image` and `user` of each, and the mistakes, each with
/// its line.
fn settle(text: &str) -> (Vec<Service>, Vec<String>) {
    let mut problems = Problems::new("workload.yaml", text);
    let node = parse(text, &mut problems).unwrap();
    let entries = Fields::of(&node, "services", &mut problems).unwrap();
    let mut services = Vec::new();
    for (name, _, node) in entries.entries() {
        let mut fields = Fields::of(node, "a service", &mut problems).unwrap();
        let volumes = read_volumes(&mut fields, None, false, &mut problems);
        let as_image = fields.boolean("as_image", &mut problems).unwrap_or(false);
        let user = fields.integer("user", 0..=u64::from(u32::MAX), &mut problems).map(|id| id as u32);
        let (own_user, id) = (user.is_none() && !as_image, user.unwrap_or(0));
        services.push(Service { volumes, as_image, own_user, user: (id, id), ..service(name) });
    }
    settle_shared(&node, &mut services, &mut problems);
    let told = problems.into_vec().into_iter().map(|problem| format!("{}: {}", problem.place.line, problem.message));
    (services, told.collect())
}

#[test]
fn the_space_of_a_shared_volume_is_stated_once() {
    let (services, told) = settle(
        "web: {user: 33, volumes: {/srv: {shared: site, read_only: true}, /data: 1MiB}}\n\
         app: {user: 33, volumes: {/var/www/: {shared: site, space: 2MiB}}}\n\
         cron: {user: 33, volumes: {/work: {shared: site, space: 2MiB}}}\n",
    );
    assert_eq!(told, Vec::<String>::new());
    assert_eq!(services[0].volumes["/srv"], Volume::shared("site", 2 << 20, true));
    assert_eq!(services[0].volumes["/data"], Volume::of(1 << 20));
    assert_eq!(services[1].volumes["/var/www"], Volume::shared("site", 2 << 20, false));
    assert_eq!(volume_bytes(&services), 3 << 20);
    let replica = |tile| Some(Replica { of: "app".to_owned(), number: 1, tile });
    let tiles = [1, 2].map(|tile| Service { replica: replica(tile), ..services[1].clone() });
    assert_eq!(volume_bytes(&tiles), 4 << 20, "each tile has its own");
}

#[test]
fn mistakes_in_what_is_shared_are_told_with_their_lines() {
    let told = |text: &str| settle(text).1;
    let one = |text: &str| {
        let told = told(text);
        assert_eq!(told.len(), 1, "{told:?}");
        told[0].clone()
    };
    let first = "a: {volumes: {/srv: {shared: site, space: 1MiB}}}\n";
    let nothing = one("a: {volumes: {/a: {shared: s}}}\nb: {user: 33, volumes: {/b: {shared: s}}}\n");
    assert!(nothing.starts_with("1: nothing says how much space"), "{nothing}");
    let differs = one(&format!("{first}b: {{user: 33, volumes: {{/b: {{shared: site, space: 2MiB}}}}}}\n"));
    assert!(differs.starts_with("2: ") && differs.contains("2 MiB here, and 1 MiB at 'a'"), "{differs}");
    let within = one("a:\n  volumes:\n    /srv: {shared: site, space: 1MiB}\n    /srv/x: 1MiB\n    /srvx: 1MiB\n");
    assert!(within.starts_with("4: the volume /srv/x would be inside of /srv"), "{within}");
    for name in ["A", "a.b", "../x", "''", "a/b"] {
        let told = one(&format!("a: {{volumes: {{/srv: {{shared: {name}, space: 1MiB}}}}}}\n"));
        assert!(told.contains("cannot name a volume"), "{told}");
    }
    assert!(one("a: {volumes: {/srv: {space: 1MiB}}}\n").contains("shared"));
    assert!(one("a: {volumes: {/srv: {shared: s, space: 0}}}\n").contains("no size"));
    assert!(one("a: {volumes: {/srv: {shared: s, space: 1MiB, ro: true}}}\n").contains("ro"));
}

#[test]
fn whoever_has_a_user_of_its_own_may_only_read_what_another_began() {
    let with = |more: &str, how: &str| {
        let first = "a: {volumes: {/srv: {shared: site, space: 1MiB}}}\n";
        settle(&format!("{first}b: {{{more}volumes: {{/srv: {{shared: site{how}}}}}}}\n")).1
    };
    assert!(with("", "")[0].starts_with("2: 'b' could only read the volume 'site'"), "{:?}", with("", ""));
    assert_eq!(with("", ", read_only: true"), Vec::<String>::new());
    assert_eq!(with("user: 33, ", ""), Vec::<String>::new());
    let twice = "a: {volumes: {/a: {shared: site, space: 1MiB}, /b: {shared: site}}}\n";
    assert_eq!(settle(twice).1, Vec::<String>::new(), "it is the same user");
}

#[test]
fn a_user_that_no_image_has_shares_nothing_with_one_that_is_as_in_its_image() {
    let with = |more: &str| {
        settle(&format!(
            "a: {{as_image: true, volumes: {{/srv: {{shared: site, space: 1MiB}}}}}}\n\
             b: {{{more}volumes: {{/srv: {{shared: site}}}}}}\n"
        ))
        .1
    };
    assert!(with("")[0].starts_with("2: 'b' shares the volume 'site' with 'a'"), "{:?}", with(""));
    assert!(with("user: 70000, ")[0].contains("above 65535"));
    for fine in ["user: 33, ", "as_image: true, "] {
        assert_eq!(with(fine), Vec::<String>::new(), "{fine}");
    }
}

#[test]
fn records_have_the_number_alone_for_a_volume_that_is_not_shared() {
    let written = |volume: &Volume| serde_json::to_string(volume).unwrap();
    let (own, shared) = (Volume::of(7), Volume::shared("site", 7, true));
    assert_eq!(written(&own), "7");
    assert_eq!(written(&shared), r#"{"shared":"site","space":7,"read_only":true}"#);
    assert_eq!(written(&Volume::shared("site", 7, false)), r#"{"shared":"site","space":7}"#);
    for volume in [own, shared] {
        assert_eq!(serde_json::from_str::<Volume>(&written(&volume)).unwrap(), volume);
    }
}
