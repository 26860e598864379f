use super::*;
use rustix::fs::{Mode, OFlags};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tare_core::bundle::{Bundle, Kernel, Recipe, Source};
use tare_core::workload::{Readiness, Volume};

struct Stage {
    folder: tempfile::TempDir,
    sets: DataSets,
}

impl Stage {
    fn new() -> Stage {
        let folder = tempfile::tempdir().unwrap();
        let sets = DataSets::open(&folder.path().join("store")).unwrap();
        Stage { folder, sets }
    }

    /// Two volumes, the first of which has something of every kind.
    fn volumes(&self) -> Vec<PathBuf> {
        let places = ["a", "b"].map(|name| self.folder.path().join("volumes").join(name)).to_vec();
        for place in &places {
            fs::create_dir_all(place.join("deep")).unwrap();
        }
        let holes = fs::File::create(places[0].join("deep/holes")).unwrap();
        holes.write_all_at(b"begin", 0).unwrap();
        holes.write_all_at(b"middle", 40 << 20).unwrap();
        holes.set_len(80 << 20).unwrap();
        holes.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1000)).unwrap();
        fs::set_permissions(places[0].join("deep/holes"), fs::Permissions::from_mode(0o4710)).unwrap();
        std::os::unix::fs::symlink("/nowhere", places[0].join("link")).unwrap();
        let _listens = std::os::unix::net::UnixListener::bind(places[0].join("socket")).unwrap();
        fs::set_permissions(places[0].join("deep"), fs::Permissions::from_mode(0o500)).unwrap();
        fs::write(places[1].join("file"), "b").unwrap();
        places
    }

    fn unfinished(&self) -> usize {
        fs::read_dir(self.folder.path().join("store/building")).unwrap().count()
    }
}

#[test]
fn what_was_kept_comes_back_with_modes_times_and_holes() {
    let stage = Stage::new();
    let places = stage.volumes();
    assert!(!stage.sets.restore("k", &places).unwrap(), "there is none yet");
    assert!(places[1].join("file").is_file(), "and what is there stays");
    stage.sets.keep("k", &places).unwrap();
    assert!(places.iter().all(|place| !place.exists()), "it is taken away");
    for _ in 0..2 {
        fs::create_dir_all(places[0].join("rest")).unwrap();
        assert!(stage.sets.restore("k", &places).unwrap());
        assert!(!places[0].join("rest").exists(), "nothing else is there");
        let holes = fs::metadata(places[0].join("deep/holes")).unwrap();
        assert_eq!((holes.len(), holes.mode() & 0o7777, holes.mtime()), (80 << 20, 0o4710, 1000));
        assert!(holes.blocks() * 512 < 1 << 20, "{} blocks", holes.blocks());
        let content = fs::read(places[0].join("deep/holes")).unwrap();
        assert_eq!((&content[..6], &content[40 << 20..][..7]), (&b"begin\0"[..], &b"middle\0"[..]));
        assert_eq!(fs::read_link(places[0].join("link")).unwrap(), Path::new("/nowhere"));
        assert_eq!(fs::metadata(places[0].join("deep")).unwrap().mode() & 0o7777, 0o500);
        assert_eq!(fs::read_to_string(places[1].join("file")).unwrap(), "b");
        // What a trial does to its copy, no other sees.
        fs::write(places[1].join("file"), "changed").unwrap();
    }
    assert_eq!(stage.unfinished(), 0);
}

#[test]
fn what_cannot_be_kept_leaves_nothing() {
    let stage = Stage::new();
    let mut places = stage.volumes();
    places.push(stage.folder.path().join("volumes/missing"));
    let fault = stage.sets.keep("k", &places).unwrap_err();
    assert!(fault.message.contains("missing"), "{fault}");
    assert!(stage.sets.list().unwrap().is_empty());
    assert!(places.iter().all(|place| !place.exists()));
    assert_eq!(stage.unfinished(), 0);
}

#[test]
fn a_half_of_a_dead_maker_is_never_taken_and_goes() {
    let stage = Stage::new();
    let half = stage.folder.path().join("store/building/1-0/data/0");
    fs::create_dir_all(&half).unwrap();
    assert!(!stage.sets.restore("k", &[]).unwrap());
    DataSets::open(&stage.folder.path().join("store")).unwrap();
    assert_eq!(stage.unfinished(), 0);
}

#[test]
fn what_cannot_be_restored_leaves_the_places_empty() {
    let stage = Stage::new();
    let mut places = stage.volumes();
    stage.sets.keep("k", &places).unwrap();
    // Nothing can be made below a file.
    fs::write(stage.folder.path().join("file"), "").unwrap();
    places[1] = stage.folder.path().join("file/b");
    assert!(stage.sets.restore("k", &places).is_err());
    assert!(!places[0].exists());
}

#[test]
fn the_last_used_are_kept() {
    let stage = Stage::new();
    let keep = |key: &str| stage.sets.keep(key, &stage.volumes()).unwrap();
    for key in ["a", "b", "c", "d"] {
        keep(key);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(stage.sets.restore("a", &["a", "b"].map(|name| stage.folder.path().join("volumes").join(name))).unwrap());
    fs::remove_dir_all(stage.folder.path().join("volumes")).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    keep("e");
    assert_eq!(stage.sets.list().unwrap(), ["e", "a", "d", "c"]);
    stage.sets.remove("a").unwrap();
    stage.sets.remove("a").unwrap();
    assert_eq!(stage.sets.list().unwrap(), ["e", "d", "c"]);
    assert_eq!(stage.unfinished(), 0);
}

/// Bundles whose digests are their packages' names.
struct Named;

struct NamedBundle(String);

impl Bundle for NamedBundle {
    fn digest(&self) -> &str {
        &self.0
    }
    fn directory(&self) -> Result<PathBuf, Fault> {
        Err(Fault::new("no tree"))
    }
    fn archive(&self) -> Result<PathBuf, Fault> {
        Err(Fault::new("no archive"))
    }
    fn disk(&self) -> Result<PathBuf, Fault> {
        Err(Fault::new("no disk"))
    }
}

impl BundleStore for Named {
    fn bundle(&self, recipe: &Recipe) -> Result<Arc<dyn Bundle>, Fault> {
        let Source::Packages(names) = &recipe.source else { return Err(Fault::new("no packages")) };
        Ok(Arc::new(NamedBundle(names.concat())))
    }
    fn kernel(&self) -> Result<Kernel, Fault> {
        Err(Fault::new("no kernel"))
    }
}

#[test]
fn the_key_follows_from_what_decides_the_data_and_nothing_else() {
    let recipe = Recipe::plain(Source::Packages(vec!["postgresql".to_owned()]));
    let ready = Readiness::Port { port: "main".to_owned(), within: Duration::ZERO };
    let service = Service {
        environment: [("SEED".to_owned(), "1".to_owned())].into(),
        user: (1, 1),
        own_user: false,
        ports: [("main".to_owned(), 1)].into(),
        volumes: [("/data".to_owned(), Volume::of(1))].into(),
        ..Service::of("database", recipe, vec!["/start".to_owned()], ready)
    };
    let key = |service: &Service, holders: &[&str]| {
        let holders: Vec<String> = holders.iter().map(|name| (*name).to_owned()).collect();
        DataSets::key(&Named, std::slice::from_ref(service), &holders).unwrap()
    };
    let plain = key(&service, &["database"]);
    let mut same = service.clone();
    same.resources.memory_bytes = 2;
    same.stop_within = Duration::from_secs(9);
    assert_eq!(key(&same, &["database"]), plain, "limits decide nothing");
    let changes: [fn(&mut Service); 6] = [
        |service| service.name.push('2'),
        |service| service.recipe = Recipe::plain(Source::Packages(vec!["postgresql-16".to_owned()])),
        |service| service.command.push("-x".to_owned()),
        |service| drop(service.environment.insert("SEED".to_owned(), "2".to_owned())),
        |service| service.user = (2, 2),
        |service| service.volumes.extend([("/more".to_owned(), Volume::of(1))]),
    ];
    for change in changes {
        let mut other = service.clone();
        change(&mut other);
        assert_ne!(key(&other, &["database"]), plain, "{other:?}");
    }
    assert_ne!(key(&service, &[]), plain);
}

/// As a service may leave its volume: a copy, or a removal, that went down folder by folder would have too many open.
#[test]
fn a_set_nested_deeper_than_files_may_be_open_goes_whole() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let stage = Stage::new();
    let places = [stage.folder.path().join("volume")];
    fs::create_dir(&places[0]).unwrap();
    let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = rustix::fs::open(&places[0], how, Mode::empty()).unwrap();
    for _ in 0..1000 {
        rustix::fs::mkdirat(&at, "x", Mode::RWXU).unwrap();
        at = rustix::fs::openat(&at, "x", how, Mode::empty()).unwrap();
    }
    drop(at);
    stage.sets.keep("k", &places).unwrap();
    let usual = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(200), ..usual }).unwrap();
    let restored = stage.sets.restore("k", &places);
    assert!(restored.is_err() && !places[0].exists(), "no half of it stands there: {restored:?}");
    stage.sets.remove("k").unwrap();
    setrlimit(Resource::Nofile, usual).unwrap();
    assert_eq!((stage.sets.list().unwrap().len(), stage.unfinished()), (0, 0));
}
