//! A volume that services share: what one writes the other reads, whoever may only read cannot write, and nothing that
//! one puts there leads this machine's root away.

use crate::commands::{printed, seen_by};
use crate::escapes::{FORMS, forms_as_image};
use crate::stage::{self, Stage, free_port, service};
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tare_core::host::{Availability, Host, ServiceStart};
use tare_core::layer::LayerUse;
use tare_core::workload::Volume;
use tare_testkit::files;

/// Who owns what the image holds.
const WEB: u32 = 33;

/// Two services that share a volume.
fn two(places: [&str; 2], as_image: bool, read_only: bool) -> [ServiceStart; 2] {
    let one = [("one", places[0], false), ("two", places[1], read_only)];
    one.map(|(name, place, read_only)| {
        let mut start = service(name, free_port(), &[]);
        start.service.volumes = [(place.to_owned(), Volume::shared("site", 1 << 20, read_only))].into();
        if as_image {
            (start.service.user, start.service.as_image) = ((0, 0), true);
        }
        // As the first process of a container it does not hear that it is to end.
        start.service.stop_within = Duration::from_millis(200);
        start
    })
}

/// Runs a check in those forms that this machine can have.
fn in_forms<'f>(forms: impl Iterator<Item = &'f (&'static str, Option<&'static str>)>, check: fn(&str, &[LayerUse])) {
    let kind = crate::checks::named("container");
    for (form, options) in forms {
        let layers: Vec<LayerUse> = options.map(|text| crate::checks::layer(kind, text)).into_iter().collect();
        let carrier = stage::carrier(Path::new("/"));
        match layers.first().map(|layer| kind.probe(&layer.options, &carrier)) {
            Some(Availability::Unavailable(why)) => println!("skipped: a shared volume in '{form}': {why}"),
            _ => check(form, &layers),
        }
    }
}

fn begin(stage: &Stage, host: &mut dyn Host, start: &ServiceStart) {
    stage.ask(host.start(start).unwrap().endpoints["main"]);
}

/// What no service and nobody else may make.
fn canary() -> PathBuf {
    std::env::temp_dir().join(format!("tare-shared-canary-{}", std::process::id()))
}

pub(crate) fn alike() {
    let overlay = ("container with overlay volumes", Some("{storage: overlay}"));
    in_forms(FORMS.iter().chain([&overlay]), |form, layers| {
        let (stage, starts) = (Stage::open(|_| {}), two(["/srv/site", "/common"], false, true));
        let mut host = stage.host(&starts, layers);
        host.resources(&starts[1]).unwrap();
        for start in &starts {
            begin(&stage, host.as_mut(), start);
        }
        let mut told = |by: &str, words: &[&str]| printed(host.as_mut(), by, "/bin/service", words);
        assert_eq!(told("one", &["write", "/srv/site/file"]), "written\n", "{form}");
        assert_eq!(told("two", &["print-file", "/common/file"]), "x", "{form}");
        let refused = told("two", &["write", "/common/other"]);
        assert!(refused.contains("read-only"), "{form}: {refused}");
        // It leads to what stands there in the root of the service that follows it.
        let secret = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(told("one", &["link", secret.path().to_str().unwrap(), "/srv/site/link"]), "linked\n", "{form}");
        assert_eq!(told("two", &["read", "/common/link"]), "entity not found\n", "{form}");
        host.stop("one").unwrap();
        begin(&stage, host.as_mut(), &starts[0]);
        assert!(seen_by(host.as_mut(), "one", "/srv/site/file"), "{form}: it outlives its services");
        host.close().unwrap();
        stage.close();
    });
}

fn image(tree: &Path) {
    files::write(&tree.join("data/begun"), "by the image\n");
    for owned in ["data", "data/begun"] {
        chown(tree.join(owned), Some(WEB), Some(WEB)).unwrap();
    }
    for folder in ["tmp", "run"] {
        std::fs::create_dir(tree.join(folder)).unwrap();
    }
}

/// Each service is root in a user namespace of its own, and both see the owners that the image has.
pub(crate) fn as_image() {
    in_forms(forms_as_image(), |form, layers| {
        let (stage, starts) = (Stage::open_numbered(13, image), two(["/data", "/data"], true, false));
        let mut host = stage.host(&starts, layers);
        host.resources(&starts[1]).unwrap();
        begin(&stage, host.as_mut(), &starts[0]);
        let mut told = |words: &[&str]| printed(host.as_mut(), "one", "/bin/service", words);
        assert_eq!(told(&["print-file", "/data/begun"]), "by the image\n", "{form}");
        assert_eq!(told(&["give", "/data/given", "33"]), "given\n", "{form}");
        // Where the second one's image would put a file if the volume were begun twice.
        assert_eq!(told(&["link", canary().to_str().unwrap(), "/data/begun"]), "linked\n", "{form}");
        begin(&stage, host.as_mut(), &starts[1]);
        assert!(!canary().exists(), "{form}: a link of a service was followed out of the volume");
        let mut told = |words: &[&str]| printed(host.as_mut(), "two", "/bin/service", words);
        assert_eq!(told(&["write-as", "33", "/data/given"]), "written\n", "{form}: it is the same user's");
        assert_eq!(told(&["read", "/data/begun"]), "entity not found\n", "{form}");
        host.close().unwrap();
        stage.close();
    });
}

/// By a link of the bundle one shared volume would be mounted inside of another, which others change meanwhile.
pub(crate) fn within_another() {
    let stage = Stage::open_numbered(14, |tree| {
        std::fs::create_dir(tree.join("srv")).unwrap();
        symlink("/srv", tree.join("linked")).unwrap();
    });
    let mut start = service("one", free_port(), &[]);
    let shared = |path: &str, name: &str| (path.to_owned(), Volume::shared(name, 1 << 20, false));
    start.service.volumes = [shared("/linked/in", "inner"), shared("/srv", "outer")].into();
    let mut host = stage.host(std::slice::from_ref(&start), &[]);
    let fault = host.start(&start).expect_err("it was started");
    assert!(fault.to_string().contains("inside of the other"), "{fault}");
    host.close().unwrap();
    stage.close();
}
