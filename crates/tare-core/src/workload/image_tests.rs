//! Workloads made from images: what is taken, what overrides it, and what cannot be known yet.

use super::{NOBODY, Readiness, Service, StopSignal, Volume, Workload};
use crate::catalog::Catalog;
use crate::config::{Node, Problems};
use crate::fault::Fault;
use crate::image::{HealthCheck, ImageConfig};
use crate::layer::LayerOptions;
use crate::parameters::Parameters;
use crate::protocol::ProtocolInfo;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// Knows one image, or none.
struct Shelf(Result<Option<ImageConfig>, Fault>);

impl Catalog for Shelf {
    fn layers(&self) -> Vec<&'static dyn LayerOptions> {
        Vec::new()
    }

    fn protocols(&self) -> Vec<&'static dyn ProtocolInfo> {
        vec![NOTHING]
    }

    fn image(&self, image: &str) -> Result<Option<ImageConfig>, Fault> {
        assert!(image.ends_with("app.tar"), "{image}");
        self.0.clone()
    }
}

const NOTHING: &dyn ProtocolInfo = &Nothing;

/// A protocol without options.
struct Nothing;

impl ProtocolInfo for Nothing {
    fn name(&self) -> &'static str {
        "null"
    }

    fn read(&self, _: &Node, _: &mut Problems) -> Option<Value> {
        Some(Value::Null)
    }
}

fn texts(all: &[&str]) -> Vec<String> {
    all.iter().map(|text| (*text).to_owned()).collect()
}

/// As in the image of a well-known server.
fn redis() -> ImageConfig {
    ImageConfig {
        entrypoint: texts(&["docker-entrypoint.sh"]),
        command: texts(&["redis-server"]),
        environment: texts(&["PATH=/opt/bin:/bin", "REDIS_VERSION=7"]),
        user: String::new(),
        directory: "/data".to_owned(),
        ports: texts(&["6379/tcp"]),
        volumes: texts(&["/data"]),
        ..ImageConfig::default()
    }
}

fn read_on(shelf: Shelf, more: &str, load: &str) -> Result<Workload, String> {
    let text = format!(
        "workload: w\nservices:\n  s:\n    bundle: {{image: ./app.tar}}\n{more}load: {{protocol: {{null: \
         {{}}}}{load}}}\n"
    );
    let mut problems = Problems::new("w.yaml", &text);
    let read = Workload::read(&text, Path::new("f"), &Parameters::new(), &shelf, &mut problems);
    let found: Vec<String> = problems.into_vec().iter().map(ToString::to_string).collect();
    read.filter(|_| found.is_empty()).ok_or(found.join("\n"))
}

fn service(config: ImageConfig, more: &str) -> Service {
    read_on(Shelf(Ok(Some(config))), more, "").unwrap().services.remove(0)
}

fn taken(service: &Service) -> Vec<&str> {
    service.image.as_ref().unwrap().taken.keys().map(String::as_str).collect()
}

#[test]
fn what_a_workload_leaves_out_is_the_images() {
    let service = service(redis(), "");
    assert_eq!(service.command, ["docker-entrypoint.sh", "redis-server"]);
    assert_eq!(service.environment["PATH"], "/opt/bin:/bin");
    assert!(service.own_user && service.user == (NOBODY, NOBODY), "root in the image");
    assert_eq!(service.directory.as_deref(), Some("/data"));
    assert_eq!(service.ports, [("6379".to_owned(), 6379)].into());
    assert!(matches!(&service.ready, Readiness::Port { port, .. } if port == "6379"));
    assert_eq!(service.volumes, [("/data".to_owned(), Volume::of(512 << 20))].into());
    let told = service.image.as_ref().unwrap().lines();
    assert_eq!(
        told,
        [
            "command from the image: docker-entrypoint.sh redis-server",
            "directory from the image: /data",
            "environment from the image: PATH, REDIS_VERSION",
            "ports from the image: 6379",
            "user from the image: a separate one for each instance, instead of root: services run unprivileged",
            "volumes from the image: /data, empty, with 512 MiB each",
        ]
    );
    let workload = read_on(Shelf(Ok(Some(redis()))), "", "").unwrap();
    assert_eq!(workload.protocol.port.as_deref(), Some("6379"), "the load finds it");
}

#[test]
fn what_a_workload_says_goes_over_it_field_by_field() {
    let more = "    command: [redis-server, --port, '${{port.main}}']\n    environment: {REDIS_VERSION: '8', B: b}\n    \
                user: '5:6'\n    directory: /\n    ports: {main: 7000}\n    volumes: {/data: 1MiB, /more: 2MiB}\n";
    let service = service(redis(), more);
    assert_eq!(service.command, ["redis-server", "--port", "${{port.main}}"], "the entry point goes with it");
    let environment: Vec<_> = service.environment.iter().map(|(k, v)| format!("{k}={v}")).collect();
    assert_eq!(environment, ["B=b", "PATH=/opt/bin:/bin", "REDIS_VERSION=8"]);
    assert_eq!((service.user, service.own_user, service.directory.as_deref()), ((5, 6), false, None));
    assert_eq!(service.ports, [("main".to_owned(), 7000)].into());
    let volume = |path: &str, bytes| (path.to_owned(), Volume::of(bytes));
    assert_eq!(service.volumes, [volume("/data", 1 << 20), volume("/more", 2 << 20)].into());
    assert_eq!(taken(&service), ["environment"]);
    let service = self::service(redis(), "    directory: /srv/x\n");
    assert_eq!(service.directory.as_deref(), Some("/srv/x"));
}

#[test]
fn a_place_is_one_volume_however_it_is_written() {
    let service = service(redis(), "    volumes: {/data/: 1MiB, /more//x/./: 2MiB}\n");
    let volume = |path: &str, bytes| (path.to_owned(), Volume::of(bytes));
    assert_eq!(service.volumes, [volume("/data", 1 << 20), volume("/more/x", 2 << 20)].into());
    assert!(!taken(&service).contains(&"volumes"), "the image's is the same one");
    let read = |volumes: &str| read_on(Shelf(Ok(Some(redis()))), &format!("    volumes: {volumes}\n"), "").unwrap_err();
    let told = read("{/data: 1MiB, /data/: 2MiB}");
    assert!(told.contains("w.yaml:5:28") && told.contains("the volume /data is named twice"), "{told}");
    for refused in ["//", "data/", "/a/..", "''"] {
        let told = read(&format!("{{{refused}: 1MiB}}"));
        assert!(told.contains("w.yaml:5:15") && told.contains("must be absolute"), "{refused}: {told}");
    }
}

#[test]
fn a_range_of_ports_is_read_and_what_is_not_is_told() {
    let read = |ports: &[&str], more: &str, load: &str| {
        let config = ImageConfig { ports: texts(ports), ..redis() };
        read_on(Shelf(Ok(Some(config))), more, load).unwrap().services.remove(0)
    };
    let service = read(&["8000-8001/tcp", "53/udp"], "    ready: {port: 8001}\n", ", port: 8001");
    assert_eq!(service.ports, [("8000".to_owned(), 8000), ("8001".to_owned(), 8001)].into());
    assert_eq!(service.image.unwrap().taken["ports"], "8000, 8001; not read: 53/udp");
    assert_eq!(read(&["80/TCP"], "", "").image.unwrap().taken["ports"], "80");
    let other = "    ready: {log: up}\n  t: {bundle: {packages: [p]}, command: [/p], ports: {main: 1}}\n";
    let none = read(&["9/sctp"], other, ", service: t");
    assert_eq!((none.ports.len(), none.image.unwrap().taken["ports"].as_str()), (0, "none; not read: 9/sctp"));
}

#[test]
fn users_are_numbers_or_wait_for_the_files() {
    let user = |user: &str| service(ImageConfig { user: user.to_owned(), ..redis() }, "");
    let own = |name: &str| (user(name).user, user(name).own_user);
    for stated in [(65532, 65532), (NOBODY, NOBODY)] {
        assert_eq!(own(&format!("{}:{}", stated.0, stated.1)), (stated, false), "what an image states stays");
    }
    for root in ["", "0", "root:5", "0:0"] {
        assert_eq!(own(root), ((NOBODY, NOBODY), true), "{root}");
    }
    let named = user("memcache");
    assert!(named.own_user, "until it is looked up");
    assert_eq!(named.image.as_ref().unwrap().user.as_deref(), Some("memcache"));
    assert!(named.image.unwrap().lines().iter().any(|line| line.contains("memcache, whose numbers are looked up")));
}

#[test]
fn what_asks_it_to_end_is_stated_or_the_images_or_sigterm() {
    let read = |says: &str, more: &str| service(ImageConfig { stop_signal: says.to_owned(), ..redis() }, more);
    assert_eq!(read("", "").stop_signal, StopSignal::TERM);
    let quit = read("SIGQUIT", "");
    assert_eq!((quit.stop_signal.number(), quit.image.unwrap().taken["stop_signal"].as_str()), (3, "SIGQUIT"));
    let stated = read("SIGQUIT", "    stop_signal: int\n");
    assert_eq!(stated.stop_signal.to_string(), "SIGINT");
    assert!(!taken(&stated).contains(&"stop_signal"));
    let odd = read("SIGNOTHING", "");
    assert_eq!(odd.stop_signal, StopSignal::TERM);
    assert!(odd.image.unwrap().taken["stop_signal"].contains("is not a signal; SIGTERM is used"));
    let told = read_on(Shelf(Ok(Some(redis()))), "    stop_signal: hard\n", "").unwrap_err();
    assert!(told.contains("w.yaml:5:18") && told.contains("'hard' is not a signal"), "{told}");
}

#[test]
fn a_service_may_run_as_its_image_does() {
    let read = |user: &str, more: &str| service(ImageConfig { user: user.to_owned(), ..redis() }, more);
    let root = read("", "    as_image: true\n");
    assert_eq!((root.as_image, root.own_user, root.user), (true, false, (0, 0)));
    let image = root.image.unwrap();
    assert_eq!(image.taken["user"], "root, which is 0:0");
    assert_eq!(image.taken["volumes"], "/data, with what the image holds there, with 512 MiB each");
    assert_eq!(read("redis", "    as_image: true\n").image.unwrap().user.as_deref(), Some("redis"));
    assert_eq!(read("redis", "    as_image: true\n    user: 0\n").user, (0, 0));
    assert!(!read("", "    as_image: false\n").as_image);
    let told = |more: &str| read_on(Shelf(Ok(Some(redis()))), more, "").unwrap_err();
    assert!(told("    as_image: true\n    user: 65536\n").contains("from 0 to 65535"));
    let packages = "  t: {bundle: {packages: [p]}, command: [/p], ports: {main: 1}, as_image: true}\n";
    assert!(told(packages).contains("'as_image' is for services whose bundle is an image"));
}

#[test]
fn a_health_check_says_when_a_service_is_ready_unless_it_would_ask_at_another_port() {
    let checked = || {
        let check = HealthCheck::of(texts(&["redis-cli", "ping"]));
        ImageConfig { health: Some(HealthCheck { interval: Duration::from_secs(5), ..check }), ..redis() }
    };
    let plain = service(checked(), "");
    assert_eq!(plain.ready.command(), Some(&texts(&["redis-cli", "ping"])[..]));
    assert_eq!(plain.ready.within(), Duration::from_secs(105));
    let told = &plain.image.unwrap().taken["ready"];
    let wanted = "its health check (redis-cli ping), run until it succeeds, within 105 s; it is not run after that";
    assert_eq!(told, wanted);
    // It names no port, so several are no question.
    let several = ImageConfig { ports: texts(&["80/tcp", "443/tcp"]), ..checked() };
    let several = read_on(Shelf(Ok(Some(several))), "", ", port: 80").unwrap();
    assert!(several.services[0].ready.command().is_some());
    let stated = service(checked(), "    ready: {port: 6379}\n");
    assert!(stated.ready.command().is_none() && !taken(&stated).contains(&"ready"));
    let moved = service(checked(), "    command: [redis-server, --port, '${{port.6379}}']\n");
    assert!(matches!(&moved.ready, Readiness::Port { port, .. } if port == "6379"));
    assert!(moved.image.unwrap().taken["ready"].starts_with("not its health check (redis-cli ping): "));
}

#[test]
fn a_service_may_end_or_be_asked_by_a_command() {
    let read = |ready: &str, load: &str| {
        let more = format!(
            "    ready: {ready}\n  t: {{bundle: {{packages: [p]}}, command: [/p], ports: {{main: 1}}, ready: \
             {{command: [/ask, '${{{{port.main}}}}']}}}}\n"
        );
        read_on(Shelf(Ok(Some(redis()))), &more, load)
    };
    let workload = read("{ended: true, within: 1m}", ", service: t").unwrap();
    assert_eq!(workload.services[0].ready, Readiness::Ended { within: Duration::from_secs(60) });
    assert!(workload.services[0].ready.ends() && !workload.services[1].ready.ends());
    assert!(workload.services[0].ports.is_empty(), "they are the server's");
    let usual = Readiness::Command {
        command: texts(&["/ask", "${{port.main}}"]),
        every: Duration::from_secs(1),
        timeout: Duration::from_secs(30),
        within: Duration::from_secs(30),
    };
    assert_eq!(workload.services[1].ready, usual);
    let instance = crate::instances::Instances::default().spell_out(&workload).services.remove(1);
    assert_eq!(instance.ready.command(), Some(&texts(&["/ask", "1"])[..]));
    let json = serde_json::to_string(&workload).unwrap();
    assert_eq!(serde_json::from_str::<Workload>(&json).unwrap(), workload);
    // An image has a PATH.
    let workload = read("{command: [redis-cli, ping], every: 200ms, timeout: 2s}", ", service: t").unwrap();
    let Readiness::Command { every, timeout, .. } = &workload.services[0].ready else { panic!("{workload:?}") };
    assert_eq!((every.as_millis(), timeout.as_secs()), (200, 2));

    let told = |ready: &str, load: &str| read(ready, load).unwrap_err();
    let loaded = told("{ended: true}", "");
    assert!(loaded.contains("w.yaml:5:20") && loaded.contains("the load goes to 's', which is gone"), "{loaded}");
    assert!(told("{ended: false}", ", service: t").contains("'ended: false' says nothing"));
    assert!(told("{port: 6379, every: 1s}", "").contains("'every' applies only to a 'command'"));
    assert!(told("{command: [], timeout: 1s}", "").contains("names no program"));
    for two in ["{ended: true, port: 6379}", "{log: x, command: [/x]}", "{within: 1s}"] {
        assert!(told(two, ", service: t").contains("one of 'port', 'log', 'ended' and 'command'"), "{two}");
    }
    let more = "    ready: {log: x}\n  t: {bundle: {packages: [p]}, command: [/p], ports: {main: 1}, ready: {command: \
                [ask, '${{port.x}}']}}\n";
    let told = read_on(Shelf(Ok(Some(redis()))), more, "").unwrap_err();
    assert!(told.contains("by its absolute path") && told.contains("'port.x' has no meaning"), "{told}");
}

#[test]
fn a_port_is_not_guessed() {
    let several = || ImageConfig { ports: texts(&["80/tcp", "443/tcp", "8080/tcp"]), ..redis() };
    let read = |more: &str, load: &str| read_on(Shelf(Ok(Some(several()))), more, load);
    let told = read("", "").unwrap_err();
    assert!(told.contains("w.yaml:5:7") && told.contains("the image names the ports 80, 443, 8080"), "{told}");
    assert_eq!(told.matches("error:").count(), 1, "{told}");
    let workload = read("", ", port: 80").unwrap();
    assert_eq!(workload.protocol.port.as_deref(), Some("80"));
    assert!(matches!(&workload.services[0].ready, Readiness::Port { port, .. } if port == "80"));
    let told = read("", ", port: 81").unwrap_err();
    assert!(told.contains("there is no port of service 's' '81'"), "{told}");
    // For a service that is not loaded, nobody has said which port.
    let second = "  t: {bundle: {packages: [p]}, command: [/p], ports: {main: 1}}\n";
    let told = read(second, ", service: t").unwrap_err();
    assert!(told.contains("w.yaml:4:5") && told.contains("'ready: {port: 443}'"), "{told}");
    read(&format!("    ready: {{port: 8080}}\n{second}"), ", service: t").unwrap();
}

#[test]
fn mistakes_have_their_places() {
    let nothing = ImageConfig { entrypoint: Vec::new(), command: Vec::new(), ..redis() };
    let told = read_on(Shelf(Ok(Some(nothing))), "", "").unwrap_err();
    assert!(told.contains("w.yaml:3:3") && told.contains("no ENTRYPOINT and no CMD"), "{told}");
    let portless = ImageConfig { ports: Vec::new(), ..redis() };
    let told = read_on(Shelf(Ok(Some(portless))), "", "").unwrap_err();
    assert!(told.contains("nothing says when this service is ready"), "{told}");
    let told =
        read_on(Shelf(Err(Fault::new("it is no image").remedy("save it"))), "    command: [/x]\n", "").unwrap_err();
    assert!(
        told.contains("w.yaml:4:21") && told.contains("it is no image") && told.contains("hint: save it"),
        "{told}"
    );
    let told = read_on(Shelf(Ok(Some(redis()))), "    command: ['']\n    directory: a/b\n", "").unwrap_err();
    assert!(told.contains("names no program") && told.contains("w.yaml:6:16"), "{told}");
    let text = "workload: w\nservices: {s: {bundle: {packages: [p]}, command: [p], ports: {m: 1}}}\n\
                load: {protocol: {null: {}}}\n";
    let mut problems = Problems::new("w.yaml", text);
    assert!(Workload::read(text, Path::new("f"), &Parameters::new(), &Shelf(Ok(None)), &mut problems).is_none());
    assert!(problems.into_vec()[0].message.contains("absolute path"), "a bundle of packages has no PATH of its own");
}

#[test]
fn of_an_image_that_is_not_here_only_what_is_written_is_checked() {
    let more = "    environment: {LISTEN: '${{port.6379}}'}\n  t:\n    bundle: {packages: [p]}\n    command: [/p, \
                '${{addresses.s}}', '${{addresses.s.6379}}']\n    ports: {main: 1}\n";
    let workload = read_on(Shelf(Ok(None)), more, ", port: 6379").unwrap();
    let service = &workload.services[0];
    assert!(service.awaits_image() && service.command.is_empty() && service.ports.is_empty());
    assert!(service.image.as_ref().unwrap().lines()[0].contains("f/./app.tar"), "{:?}", service.image);
    read_on(Shelf(Ok(Some(redis()))), more, ", port: 6379").unwrap();
    let told = read_on(Shelf(Ok(None)), &more.replace("addresses.s.", "addresses.x."), "").unwrap_err();
    assert!(told.contains("'addresses.x.6379' has no meaning here"), "{told}");
    let told = read_on(Shelf(Ok(None)), "    ports: {main: 1}\n    usr: 1\n", ", port: 6379").unwrap_err();
    assert!(told.contains("no field 'usr'") && told.contains("'6379'"), "{told}");
}

#[test]
fn what_was_taken_stays_in_the_record() {
    let workload = read_on(Shelf(Ok(Some(redis()))), "", "").unwrap();
    let json = serde_json::to_string(&workload).unwrap();
    assert_eq!(serde_json::from_str::<Workload>(&json).unwrap(), workload);
}
