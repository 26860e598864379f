use super::*;
use crate::host::ServiceStart;
use crate::study::Study;
use crate::study::tests::read_toy;

const SHARDED: &str = r#"
workload: toy
services:
  shard:
    bundle: {packages: [toy]}
    command: [/usr/bin/toy, "${{port.main}}", "--name=${{instance.name}}", "--number=${{instance.number}}"]
    ports: {main: 7000}
    instances: 2
  proxy:
    bundle: {packages: [toy]}
    command: [/usr/bin/proxy, --listen, "${{port.in}}", --admin, "${{port.admin}}"]
    environment: {SHARDS: "${{addresses.shard}}"}
    ports: {in: 7001, admin: 7100}
load: {service: proxy, port: in, protocol: {"null": {}}}
"#;

fn read(workload: &str, study: &str) -> Result<(Study, Workload), String> {
    let text = format!("study: s\nworkload: toy\nload: {{closed: {{}}}}\n{study}\n");
    read_toy(&text, workload)
}

fn names(workload: &Workload) -> Vec<String> {
    workload.services.iter().map(|service| service.name.clone()).collect()
}

fn deployed(workload: &str, study: &str, form: &str) -> Workload {
    let (study, workload) = read(workload, study).unwrap();
    let form = study.forms.iter().find(|known| known.name == form).unwrap();
    study.deployed(&workload, form)
}

fn started(service: &Service, at: &str) -> Instance {
    let endpoint = |port: &u16| format!("{at}:{port}").parse().unwrap();
    Instance {
        instance: service.name.clone(),
        endpoints: service.ports.iter().map(|(name, port)| (name.clone(), endpoint(port))).collect(),
        peers: BTreeMap::new(),
        path: String::new(),
        cpus: None,
        warnings: Vec::new(),
    }
}

#[test]
fn each_instance_has_a_name_and_ports_of_its_own() {
    let workload = deployed(SHARDED, "forms: {a: []}", "a");
    assert_eq!(names(&workload), ["shard-1", "shard-2", "proxy"]);
    let ports: Vec<u16> = workload.services.iter().flat_map(|service| service.ports.values().copied()).collect();
    // 7001 belongs to the proxy.
    assert_eq!(ports, [7000, 7002, 7100, 7001]);
    assert_eq!(workload.services[1].command, ["/usr/bin/toy", "7002", "--name=shard-2", "--number=2"]);
    assert_eq!((workload.services[1].role(), workload.services[2].role()), ("shard", "proxy"));
    assert!(workload.services.iter().all(|service| service.instances == 1));
}

#[test]
fn each_instance_has_a_user_of_its_own_the_same_in_every_form() {
    let users = |workload: &str, study: &str, form: &str| -> Vec<(u32, u32)> {
        deployed(workload, study, form).services.iter().map(|service| service.user).collect()
    };
    let own = |count: u32| (FIRST_OWN..FIRST_OWN + count).map(|id| (id, id)).collect::<Vec<_>>();
    let study = "forms: {a: [], b: [box: {}], c: {layers: [], instances: {tiles: 3, shard: 10}}}";
    assert_eq!((users(SHARDED, study, "a"), users(SHARDED, study, "b")), (own(3), own(3)));
    assert_eq!(users(SHARDED, study, "c"), own(33));
    let most = users(SHARDED, "instances: {shard: 999}\nforms: {a: []}", "a");
    assert!(most.len() == INSTANCES_MAX as usize && most.iter().all(|(uid, _)| *uid < 100_000));

    // A service that states a user shares it with its other instances, and with no other service.
    let stated = SHARDED.replace("    instances: 2", "    instances: 2\n    user: \"65534\"");
    assert_eq!(users(&stated, study, "a"), [(65_534, 65_534), (65_534, 65_534), (65_536, 65_536)]);
    // As in an older record.
    let (read_study, mut older) = read(&stated, study).unwrap();
    older.services[0].user = (65_536, 65_534);
    let deployed = read_study.deployed(&older, &read_study.forms[0]);
    let users: Vec<_> = deployed.services.iter().map(|service| service.user).collect();
    assert_eq!(users, [(65_536, 65_534), (65_536, 65_534), (65_537, 65_537)]);
}

/// As before instances had users of their own.
#[test]
fn a_service_of_an_older_record_runs_as_it_did() {
    let (study, workload) = read(SHARDED, "forms: {a: []}").unwrap();
    let mut written = serde_json::to_value(&workload).unwrap();
    for service in written["services"].as_array_mut().unwrap() {
        assert_eq!(service.as_object_mut().unwrap().remove("own_user"), Some(true.into()));
    }
    let old: Workload = serde_json::from_value(written).unwrap();
    assert!(study.deployed(&old, &study.forms[0]).services.iter().all(|service| service.user == (65_534, 65_534)));
    let new: Workload = serde_json::from_str(&serde_json::to_string(&workload).unwrap()).unwrap();
    assert_eq!(study.deployed(&new, &study.forms[0]), study.deployed(&workload, &study.forms[0]));
}

#[test]
fn a_form_says_more_than_the_study_and_the_study_more_than_the_workload() {
    let study = "instances: {shard: 1}\nforms: {a: [], b: {layers: [], instances: {shard: 3}}, \
                 c: {layers: [], instances: 2}, d: {layers: [], instances: {tiles: 2, shard: 2}}}";
    assert_eq!(names(&deployed(SHARDED, study, "a")), ["shard", "proxy"]);
    assert_eq!(names(&deployed(SHARDED, study, "b")), ["shard-1", "shard-2", "shard-3", "proxy"]);
    assert_eq!(names(&deployed(SHARDED, study, "c")), ["shard-1", "proxy-1", "shard-2", "proxy-2"]);
    let tiles = deployed(SHARDED, study, "d");
    assert_eq!(names(&tiles), ["shard-1-1", "shard-1-2", "proxy-1", "shard-2-1", "shard-2-2", "proxy-2"]);
    let ports: BTreeSet<u16> = tiles.services.iter().flat_map(|service| service.ports.values().copied()).collect();
    assert_eq!(ports.len(), 8, "{ports:?}");
    assert_eq!(tiles.services[4].command[3], "--number=2");
}

#[test]
fn deployments_beside_each_other_share_no_port() {
    let (study, workload) = read(SHARDED, "forms: {a: [], b: {layers: [], instances: {shard: 3}}, c: []}").unwrap();
    assert!(has_movable_ports(&workload));
    let mut ports = Ports::default();
    let beside: Vec<Workload> =
        study.forms.iter().map(|form| study.deployed_beside(&workload, form, &mut ports)).collect();
    assert_eq!(beside[0], study.deployed(&workload, &study.forms[0]), "the first one listens where it always does");
    let all: Vec<u16> =
        beside.iter().flat_map(|one| &one.services).flat_map(|one| one.ports.values().copied()).collect();
    assert_eq!(all.len(), 4 + 5 + 4);
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "{all:?}");
    for service in beside.iter().flat_map(|one| &one.services).filter(|service| service.role() == "shard") {
        assert_eq!(service.command[1], service.ports["main"].to_string());
    }
    let (_, fixed) = read(&SHARDED.replace("${{port.admin}}", "7100"), "forms: {a: []}").unwrap();
    assert!(!has_movable_ports(&fixed));
}

#[test]
fn an_instance_is_told_the_addresses_of_its_own_tile() {
    let tiles = deployed(SHARDED, "instances: 2\nforms: {a: []}", "a");
    let mut running: Vec<(&Service, Instance)> = Vec::new();
    let mut told = Vec::new();
    for service in &tiles.services {
        let known: Vec<(&Service, &Instance)> =
            running.iter().map(|(service, instance)| (*service, instance)).collect();
        told.extend(introduced(service, &known).environment.get("SHARDS").cloned());
        let mut instance = started(service, "10.0.0.1");
        if service.name == "shard-1-2" {
            instance.peers = [("main".to_owned(), "172.18.0.3:7002".parse().unwrap())].into();
        }
        running.push((service, instance));
    }
    assert_eq!(told[0], "10.0.0.1:7000 172.18.0.3:7002", "inside, an instance may have another address");
    assert!(told[1].split(' ').count() == 2 && !told[1].contains(":7000"), "{told:?}");
}

#[test]
fn what_cannot_be_is_said_with_its_place() {
    let told = |from: &str, to: &str, study: &str| {
        assert!(SHARDED.contains(from));
        read(&SHARDED.replace(from, to), study).unwrap_err()
    };
    let forms = "forms: {a: []}";
    let later = told("--listen, \"${{port.in}}\"", "\"${{port.on}}\"", forms);
    assert!(later.contains("'port.on' has no meaning") && later.contains("did you mean 'port.in'"), "{later}");
    let early = told("--number=${{instance.number}}", "${{addresses.proxy.in}}", forms);
    assert!(early.contains("'proxy.in' has no address yet when 'shard' is started"), "{early}");
    let several = told("${{addresses.shard}}", "${{addresses.shard.side}}", forms);
    assert!(several.contains("'addresses.shard.side' has no meaning here"), "{several}");
    let fixed = told("${{port.main}}", "7000", forms);
    assert!(fixed.contains("service 'shard' is to be deployed more than once") && fixed.contains("${{port.main}}"));
    let once = read(&SHARDED.replace("${{port.main}}", "7000"), "instances: {shard: 1}\nforms: {a: []}");
    assert!(once.is_ok(), "{once:?}");
    let unknown = read(SHARDED, "instances: {shards: 1}\nforms: {a: {layers: [], instances: {prox: 2}}}").unwrap_err();
    assert!(unknown.contains("did you mean 'shard'") && unknown.contains("did you mean 'proxy'"), "{unknown}");
    let many = read(SHARDED, "instances: {tiles: 1000, shard: 1000}\nforms: {a: []}").unwrap_err();
    assert!(many.contains("1001000 instances") && many.contains("1000 at most"), "{many}");
    let none = read(SHARDED, "instances: 0\nforms: {a: []}").unwrap_err();
    assert!(none.contains("from 1 to 1000"), "{none}");
}

#[test]
fn a_list_of_numbers_makes_a_form_of_each() {
    let forms = |text: &str| -> Vec<String> {
        let (study, workload) = read(SHARDED, text).unwrap();
        let of = |form: &crate::form::Form| format!("{}: {}", form.name, names(&study.deployed(&workload, form)).len());
        study.forms.iter().map(of).collect()
    };
    let shards = "baseline: a-x1\nforms: {a: {layers: [], instances: {shard: [1, 4]}}, b: []}";
    assert_eq!(forms(shards), ["a-x1: 2", "a-x4: 5", "b: 3"]);
    let tiles =
        "forms: {a: {layers: [], instances: [1, 2]}, b: {layers: [box: {}], instances: {tiles: [3], shard: 1}}}";
    assert_eq!(forms(tiles), ["a-x1: 3", "a-x2: 6", "b-x3: 6"]);
    let told = |text: &str| read(SHARDED, text).unwrap_err();
    let two = told("forms: {a: {layers: [], instances: {shard: [1, 2], proxy: [1, 2]}}}");
    assert!(two.contains("'proxy' is a second list of numbers"), "{two}");
    let study = told("instances: [1, 2]\nforms: {a: []}");
    assert!(study.contains("s.yaml:4:"), "{study}");
    let same = told("baseline: a\nforms: {a: {layers: [], instances: [1, 2]}}");
    assert!(same.contains("a-x1"), "{same}");
}

#[test]
fn a_list_as_an_option_makes_a_form_of_each_value() {
    let forms = |text: &str| -> Vec<String> {
        let (study, _) = read(SHARDED, text).unwrap();
        let of = |form: &crate::form::Form| {
            let options: Vec<String> = form.layers.iter().map(|layer| layer.options["lid"].to_string()).collect();
            format!("{}: {}", form.name, options.join(" "))
        };
        study.forms.iter().map(of).collect()
    };
    let lids = "baseline: a-lid-true\nforms: {a: [box: {lid: [true, false]}], b: []}";
    assert_eq!(forms(lids), ["a-lid-true: true", "a-lid-false: false", "b: "]);
    let both = "baseline: b\nforms: {b: [], a: {layers: [box: {lid: [true, false]}, box: {lid: [false, true]}], \
                instances: [1, 2]}}";
    let made = forms(both);
    assert_eq!(made.len(), 9, "{made:?}");
    assert!(made.contains(&"a-lid-false-lid-true-x2: false true".to_owned()), "{made:?}");
    let told = |text: &str| read(SHARDED, text).unwrap_err();
    assert!(told("baseline: b\nforms: {b: [], a: [box: {lid: []}]}").contains("'lid' has 0 values"));
    assert!(told("baseline: b\nforms: {b: [], a: [box: {lid: [[true]]}]}").contains("s.yaml:"));
    let wrong = told("baseline: b\nforms: {b: [], a: [box: {lid: [true, maybe]}]}");
    assert!(wrong.contains("maybe"), "{wrong}");
    let same = told("baseline: a-x1\nforms: {a-x1: [], a: {layers: [], instances: [1, 2]}}");
    assert!(same.contains("two forms are called 'a-x1'"), "{same}");
    let ten = (0..10).map(|_| "true").collect::<Vec<_>>().join(", ");
    let many =
        told(&format!("baseline: b\nforms: {{b: [], a: [box: {{lid: [{ten}, {ten}]}}, cage: {{lid: [{ten}]}}]}}"));
    assert!(many.contains("these lists make 200 forms of one"), "{many}");
}

#[test]
fn what_several_loads_cannot_do_is_refused() {
    let alone = SHARDED.replace("service: proxy, port: in", "service: shard, port: main");
    for rest in ["design: duet", "time: {settle: {until: steady}}"] {
        let text = format!("{rest}\nforms: {{a: [], b: [box: {{}}]}}");
        let said = read(&alone, &text).unwrap_err();
        assert!(said.contains("several instances are loaded") && said.contains("s.yaml:4:"), "{rest}: {said}");
        let balanced = read(SHARDED, &text);
        assert!(balanced.is_ok(), "{rest}: {balanced:?}");
    }
    let steps =
        "study: s\nworkload: toy\nforms: {a: []}\nload: {steps: {of: {closed: {}}, levels: [1, 2], measure: 5s}}\n";
    let said = read_toy(steps, &alone).unwrap_err();
    assert!(said.contains("levels are reported for one load only"), "{said}");
    assert!(read(&alone, "forms: {a: []}").is_ok());
    let one_site = alone.replace("port: main, protocol", "port: main, spread: true, protocol");
    assert!(read_toy(steps, &one_site).is_ok());
}

#[test]
fn a_rule_may_be_for_one_instance() {
    let study =
        "placement: {over_commit: true, services: {shard: {cpus: \"0\"}, shard-2: {cpus: \"1\"}, shard-3: free}}";
    let wrong = read(SHARDED, &format!("{study}\nforms: {{a: []}}")).unwrap_err();
    assert!(wrong.contains("'shard-3'") && !wrong.contains("'shard-2' is"), "{wrong}");
    let (study, workload) =
        read(SHARDED, &format!("{}\nforms: {{a: []}}", study.replace(", shard-3: free", ""))).unwrap();
    let topology = crate::topology::Topology {
        cpus: (0..4).map(crate::topology::Cpu::bare).collect(),
        ..crate::topology::Topology::default()
    };
    let services = study.deployed(&workload, &study.forms[0]).services;
    let placed = study.placement.unwrap().place(&services, crate::placement::Aside::default(), &topology).unwrap();
    assert_eq!(placed.services["shard-1"].cpus.to_string(), "0");
    assert_eq!(placed.services["shard-2"].cpus.to_string(), "1");
}

const NAMED: &str = r#"
workload: toy
services:
  db:
    bundle: {packages: [toy]}
    command: [/usr/bin/toy]
    ports: {main: 7000}
    names: [database, db.internal]
  app:
    bundle: {packages: [toy]}
    command: [/usr/bin/app, --db, database]
    ports: {in: 7001}
load: {service: app, protocol: {"null": {}}}
"#;

/// The names that each service knows, if all before it were started at these addresses.
fn known(workload: &Workload, at: &[&str]) -> Vec<Vec<String>> {
    let instances: Vec<Instance> =
        workload.services.iter().zip(at).map(|(service, address)| started(service, address)).collect();
    let running: Vec<(&Service, &Instance)> = workload.services.iter().zip(&instances).collect();
    let told = |number: usize| known_names(&workload.services[number], &running[..number]);
    let shown = |(name, address): (String, IpAddr)| format!("{name} {address}");
    (0..running.len()).map(|number| told(number).into_iter().map(shown).collect()).collect()
}

#[test]
fn a_service_knows_itself_and_those_before_it_by_name() {
    let workload = deployed(NAMED, "forms: {a: []}", "a");
    let names = known(&workload, &["10.0.0.1", "10.0.0.2"]);
    assert_eq!(names[0], ["database 127.0.0.1", "db 127.0.0.1", "db.internal 127.0.0.1"]);
    assert_eq!(names[1], ["app 127.0.0.1", "database 10.0.0.1", "db 10.0.0.1", "db.internal 10.0.0.1"]);
    // Its host knows where it stands.
    let start = ServiceStart::on(workload.services[1].clone(), None);
    let start = ServiceStart { names: known_names(&start.service, &[]), ..start };
    assert_eq!(start.standing_at([10, 0, 0, 2].into()).names["app"].to_string(), "10.0.0.2");
    // Where others reach it elsewhere than the load does.
    let (db, app) = (&workload.services[0], &workload.services[1]);
    let apart = Instance { peers: started(db, "172.17.0.2").endpoints, ..started(db, "10.0.0.1") };
    assert_eq!(known_names(app, &[(db, &apart)])["db"].to_string(), "172.17.0.2");
    let nowhere = Instance { endpoints: BTreeMap::new(), ..started(db, "10.0.0.1") };
    assert_eq!(known_names(app, &[(db, &nowhere)]).keys().collect::<Vec<_>>(), ["app"]);
}

#[test]
fn a_name_leads_to_the_instance_with_the_usual_port_alone() {
    let workload = deployed(SHARDED, "forms: {a: []}", "a");
    let names = known(&workload, &["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
    assert_eq!(names[0], ["shard 127.0.0.1", "shard-1 127.0.0.1"]);
    assert_eq!(names[1], ["shard 10.0.0.1", "shard-1 10.0.0.1", "shard-2 127.0.0.1"]);
    assert_eq!(names[2], ["proxy 127.0.0.1", "shard 10.0.0.1", "shard-1 10.0.0.1", "shard-2 10.0.0.2"]);
    // At the usual port of the second tile listens the first, or nobody.
    let tiles = deployed(SHARDED, "instances: 2\nforms: {a: []}", "a");
    let names = known(&tiles, &["10.0.0.1"; 6]);
    assert_eq!(names[5], ["proxy-2 127.0.0.1", "shard-2-1 10.0.0.1", "shard-2-2 10.0.0.1"]);
    // So it is for a form that stands beside another one.
    let (study, workload) = read(SHARDED, "instances: {shard: 1}\nforms: {a: [], b: []}").unwrap();
    let mut ports = Ports::default();
    let beside = [0, 1].map(|form: usize| study.deployed_beside(&workload, &study.forms[form], &mut ports));
    assert_eq!(known(&beside[0], &["10.0.0.1"; 2])[1], ["proxy 127.0.0.1", "shard 10.0.0.1"]);
    assert!(known(&beside[1], &["10.0.0.1"; 2]).iter().all(Vec::is_empty));
}
