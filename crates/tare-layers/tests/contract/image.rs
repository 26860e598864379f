//! A service that runs as its image does: root there, on a root of its own, alike in every form.

use crate::commands::{printed, seen};
use crate::escapes::forms_as_image;
use crate::names;
use crate::stage::{self, Stage, free_port, property, service};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tare_core::host::{Availability, Host, ServiceStart};
use tare_core::layer::LayerUse;
use tare_core::workload::Volume;
use tare_testkit::files;

/// Chown, write, drop and the like, but neither raw sockets nor devices: see SECURITY.md.
const ELEVEN: &str = "00000000800405fb";
/// Who the image's server is.
const WEB: u32 = 33;

/// What an image with an entry script holds.
fn image(tree: &Path) {
    files::write(&tree.join("etc/passwd"), "root:x:0:0::/root:/bin/sh\nweb:x:33:33::/var/www:/bin/sh\n");
    files::write(&tree.join("data/begun"), "by the image\n");
    for owned in ["data", "data/begun"] {
        chown(tree.join(owned), Some(WEB), Some(WEB)).unwrap();
    }
    for folder in ["tmp", "run"] {
        std::fs::create_dir(tree.join(folder)).unwrap();
    }
    std::fs::set_permissions(tree.join("tmp"), std::fs::Permissions::from_mode(0o1777)).unwrap();
}

fn start() -> ServiceStart {
    let mut start = service("one", free_port(), &[]);
    (start.service.user, start.service.as_image) = ((0, 0), true);
    names::tell(&mut start);
    // As the first process of a container it does not hear that it is to end.
    start.service.stop_within = Duration::from_millis(200);
    start
}

pub(crate) fn alike() {
    let kind = crate::checks::named("container");
    for (form, options) in forms_as_image() {
        let layers: Vec<LayerUse> = options.map(|text| crate::checks::layer(kind, text)).into_iter().collect();
        let carrier = stage::carrier(Path::new("/"));
        if let Some(Availability::Unavailable(why)) = layers.first().map(|layer| kind.probe(&layer.options, &carrier)) {
            println!("skipped: a service that runs as its image in '{form}': {why}");
            continue;
        }
        runs(form, &layers);
    }
}

fn runs(form: &str, layers: &[LayerUse]) {
    let (stage, start) = (Stage::open_numbered(11, image), start());
    let mut host = stage.host(std::slice::from_ref(&start), layers);
    let probed = host.resources(&start).unwrap();
    let instance = host.start(&start).unwrap();
    let served = stage.ask(instance.endpoints["main"]);
    for report in [&probed, &served] {
        let told = |name: &str| property(report, name).to_owned();
        assert_eq!(told("uid"), "0 0 0 0", "{form}");
        for set in ["capabilities", "permitted", "bounds"] {
            assert_eq!(told(set), ELEVEN, "{form}: {set}");
        }
        assert_eq!(told("ambient"), "0000000000000000", "{form}");
        // Engines also add root's own group to the further ones, which changes nothing.
        assert!(["", "0"].contains(&told("groups").trim()), "{form}: {}", told("groups"));
        assert_eq!(told("no new privileges"), "1", "{form}: set-user-id programs have no effect in any form");
        for place in ["/", "/tmp", "/run", "/data", "/run/kept", "/dev/shm"] {
            assert_eq!(told(&format!("write {place}")), "yes", "{form}: {place}");
        }
        assert_ne!(told("write /sys"), "yes", "{form}");
        assert!(told("environment").contains("\"HOME\": \"/root\""), "{form}: {}", told("environment"));
    }
    owners(form, host.as_mut(), &start);
    names::known(form, host.as_mut(), &instance);
    assert_eq!(printed(host.as_mut(), "one", "/bin/service", &["give", "/etc/hosts", "0"]), "given\n", "{form}");
    assert_eq!(printed(host.as_mut(), "one", "/bin/service", &["give", "/left", "0"]), "given\n", "{form}");
    host.stop("one").unwrap();
    let instance = host.start(&start).unwrap();
    stage.ask(instance.endpoints["main"]);
    assert!(!seen(host.as_mut(), "/left"), "{form}: each deployment begins with the image");
    names::known(form, host.as_mut(), &instance);
    assert!(seen(host.as_mut(), "/data/given"), "{form}: and with the volumes as they were left");
    host.close().unwrap();
    for nothing in ["left", "probe", "data/given"] {
        assert!(!stage.folder().join("tree").join(nothing).exists(), "{form}: {nothing} is in the bundle");
    }
    stage.close();
}

/// Root gives files to others and becomes one of them, who may do what the image lets it; and a volume holds the
/// owners that the image has, whatever they are called on this machine.
fn owners(form: &str, host: &mut dyn Host, start: &ServiceStart) {
    let mut tool = |words: &[&str]| printed(host, "one", "/bin/service", words);
    assert_eq!(tool(&["give", "/data/given", "33"]), "given\n", "{form}");
    assert_eq!(tool(&["give", "/run/kept/given", "0"]), "given\n", "{form}");
    for (place, outcome) in [
        ("/data/begun", "written\n"),
        ("/data/given", "written\n"),
        ("/run/kept/given", "permission denied\n"),
        ("/etc/passwd", "permission denied\n"),
    ] {
        assert_eq!(tool(&["write-as", "33", place]), outcome, "{form}: {place}");
    }
    let volumes = host.volumes(start).expect("they are folders of this machine");
    let owner = |path: &Path| {
        let facts = std::fs::metadata(path).unwrap();
        (facts.uid(), facts.gid())
    };
    assert_eq!(owner(&volumes[0]), (WEB, WEB), "{form}: as in the image");
    for name in ["begun", "given"] {
        assert_eq!(owner(&volumes[0].join(name)), (WEB, WEB), "{form}: {name}");
    }
    assert_eq!(owner(&volumes[1].join("given")), (0, 0), "{form}");
    // Nobody else of this machine may come across a set-user-id program that root there has made.
    let above = std::fs::metadata(volumes[0].parent().unwrap()).unwrap();
    assert_eq!(above.mode() & 0o7777, 0o700, "{form}");
}

/// Options of containers by which such a service would be root of more than its container.
pub(crate) fn refused() {
    let kind = crate::checks::named("container");
    for options in [
        "{namespaces: host}",
        "{capabilities: all}",
        "{by: runtime}",
        "{by: nspawn}",
        "{by: lxc}",
        "{seccomp: unconfined}",
    ] {
        let layer = crate::checks::layer(kind, options);
        let carrier = stage::carrier(Path::new("/"));
        if let Availability::Unavailable(why) = kind.probe(&layer.options, &carrier) {
            println!("skipped: what is refused with '{options}': {why}");
            continue;
        }
        let (stage, start) = (Stage::open_numbered(11, image), start());
        let mut host = stage.host(std::slice::from_ref(&start), &[layer]);
        let fault = host.start(&start).expect_err("it was started");
        let said = fault.to_string();
        assert!(said.contains("'as_image'") && said.contains(options.trim_matches(['{', '}'])), "{options}: {fault}");
        assert!(host.resources(&start).is_err(), "{options}: it was probed");
        host.close().unwrap();
        stage.close();
    }
}

/// A volume over `/dev`, reached by a link of the image, which holds a link to a file of this machine in the place of
/// what Tare makes in `/dev`.
pub(crate) fn linked() {
    fn target() -> PathBuf {
        std::env::temp_dir().join(format!("tare-canary-{}", std::process::id()))
    }
    let hostile = |tree: &Path| {
        image(tree);
        std::fs::create_dir_all(tree.join("dev")).unwrap();
        symlink(target(), tree.join("dev/.tare-program")).unwrap();
        symlink("/dev", tree.join("linked")).unwrap();
    };
    let (stage, mut start) = (Stage::open_numbered(12, hostile), start());
    start.service.volumes.insert("/linked".to_owned(), Volume::of(1 << 20));
    let mut host = stage.host(std::slice::from_ref(&start), &[]);
    // Whether it can be had like this does not matter.
    let _ = host.resources(&start);
    let _ = host.start(&start);
    host.close().unwrap();
    stage.close();
    assert!(!target().exists(), "a link of the image was followed out of it");
}
