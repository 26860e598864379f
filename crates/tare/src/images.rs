//! What services take from the images that their bundles are made of, resolved by the image's files once the bundle
//! exists.

use crate::paths;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use tare_bundle::{Needs, needs};
use tare_core::bundle::Bundle;
use tare_core::fault::Fault;
use tare_core::image::{FromImage, ImageConfig, user_numbers};
use tare_core::workload::{NOBODY, Readiness, Service, USUAL_PATH, Workload, why_not_in_image};
use tare_layers::{engine_image, engine_name};

/// The most that is read of a file in an image, bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Whether an image is a file or folder of this machine rather than a reference to a registry, no part of which begins
/// with a dot.
pub(crate) fn is_path(image: &str) -> bool {
    image.starts_with(['/', '.']) || image.contains("/.")
}

/// The canonical name of an image: a path without detours, the name and ID of one that the engine on this machine has,
/// or the reference as it is.
///
/// # Errors
/// The engine does not have the image, it is for another processor, or no engine answers.
pub(crate) fn named_image(image: &str) -> Result<String, Fault> {
    if let Some(name) = engine_name(image) {
        return Ok(engine_image(name)?.pinned(name));
    }
    Ok(if is_path(image) { paths::plain(Path::new(image)).display().to_string() } else { image.to_owned() })
}

/// The same. The name of an image that the engine does not hand out stays as it is: reading the workload has reported
/// why, or else building its bundle does.
pub(crate) fn plain_image(image: &str) -> String {
    named_image(image).unwrap_or_else(|_| image.to_owned())
}

/// What an image that the engine on this machine has says; none if no engine answers, which matters only to who builds
/// the bundle.
///
/// # Errors
/// The engine does not have it, or it is for another processor.
pub(crate) fn engine_says(name: &str) -> Result<Option<ImageConfig>, Fault> {
    let found = match engine_image(name) {
        Ok(found) => found,
        Err(fault) if fault.mistake => return Err(fault),
        Err(_) => return Ok(None),
    };
    match tare_bundle::image_says(&paths::bundles(), &found.pinned(name))? {
        Some(says) => Ok(Some(says)),
        None => tare_bundle::says_of(&found.document).map(Some),
    }
}

/// What the services of a workload take from images, one line each.
pub(crate) fn lines(workload: &Workload) -> Vec<String> {
    let of = |service: &Service| {
        let lines = service.image.iter().flat_map(FromImage::lines);
        lines.map(|line| format!("service {}: {line}", service.name)).collect::<Vec<_>>()
    };
    workload.services.iter().flat_map(of).collect()
}

/// Looks up in a service's bundle what only its files say, such as the numbers of a user and the path of a program, and
/// checks that the program can be started.
///
/// # Errors
/// What is wrong and what to write instead, with the field of the workload.
pub(crate) fn settle(service: &mut Service, bundle: &dyn Bundle) -> Result<(), (&'static str, Fault)> {
    let directory = bundle.directory().map_err(|fault| ("bundle", fault))?;
    let opened = rustix::fs::open(&directory, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let tree = Tree(opened.map_err(|error| {
        ("bundle", Fault::from_error(format_args!("open the bundle of service '{}'", service.name), &error))
    })?);
    if let Some(mut image) = service.image.take() {
        let settled = settle_image(service, &mut image, bundle, &tree);
        service.image = Some(image);
        settled?;
    }
    let name = &service.name;
    let Some(program) = service.command.first() else {
        return Err(("bundle", Fault::new(format!("service '{name}' has no command: its image was not read"))));
    };
    can_start(&tree, program).map_err(|(why, remedy)| {
        ("command", Fault::new(format!("service '{name}' starts {program}, which {why}")).remedy(remedy).as_mistake())
    })?;
    if let Some(program) = service.ready.command().and_then(|command| command.first()) {
        can_start(&tree, program).map_err(|(why, remedy)| {
            let told = format!("service '{name}' has the ready command {program}, which {why}");
            ("ready", Fault::new(told).remedy(remedy).as_mistake())
        })?;
    }
    let made = |path: &str| service.volumes.keys().any(|volume| Path::new(path).starts_with(volume));
    if let Some(directory) = service.directory.as_deref().filter(|path| !made(path) && !tree.is_folder(path)) {
        let fault =
            Fault::new(format!("service '{name}' starts in {directory}, which is not a directory in its bundle"));
        return Err((
            "directory",
            fault.remedy("set 'directory:' to one that exists, or to one below a volume").as_mistake(),
        ));
    }
    Ok(())
}

/// Why a program of the tree cannot be started, and what to do about it.
fn can_start(tree: &Tree, program: &str) -> Result<(), (String, &'static str)> {
    const NAME_IT: &str = "name the program by its path in the bundle; `tare bundle show` lists its files";
    let facts = tree.program(program).ok_or(("is not in its bundle".to_owned(), NAME_IT))?;
    if facts.mode() & 0o111 == 0 {
        return Err(("is not executable".to_owned(), "make it executable in the bundle's source: `chmod +x`"));
    }
    let Some(mut file) = tree.open(program, OFlags::RDONLY | OFlags::NONBLOCK) else { return Ok(()) };
    let (what, other) = match needs(&mut file) {
        Ok(Needs::Nothing) => return Ok(()),
        Ok(Needs::Interpreter(other)) => ("is a script for", other),
        Ok(Needs::Loader(other)) => ("is linked for the loader", other),
        Err(why) => return Err((why, "put a program into the bundle that this machine can start")),
    };
    match tree.program(&other) {
        Some(_) => Ok(()),
        None => Err((
            format!("{what} {other}, which is not in its bundle"),
            "add it to the bundle, or start another program",
        )),
    }
}

/// What is wrong, after the field in which it is.
type Wrong = (&'static str, Fault);

fn settle_image(service: &mut Service, image: &mut FromImage, bundle: &dyn Bundle, tree: &Tree) -> Result<(), Wrong> {
    let name = &service.name;
    if image.says.as_ref() != bundle.image() {
        let fault = Fault::new(format!("the image {} of service '{name}' has changed since it was read", image.image));
        return Err(("bundle", fault.remedy("run the command again; it will read the image anew")));
    }
    if let Some(user) = image.user.clone() {
        let (passwd, group) = (tree.text("/etc/passwd"), tree.text("/etc/group"));
        let beyond = |numbers| why_not_in_image(numbers).filter(|_| service.as_image);
        let found = user_numbers(&user, &passwd, &group).and_then(|numbers| match beyond(numbers) {
            Some(why) => Err(format!("its numbers are {}:{}, and {why}", numbers.0, numbers.1)),
            None => Ok(numbers),
        });
        let numbers = found.map_err(|why| {
            let fault = Fault::new(format!("the image of service '{name}' runs as '{user}', but {why}"));
            let remedy = "write the user's number in the workload, for example `user: \"999:999\"`";
            ("user", fault.remedy(remedy).as_mistake())
        })?;
        service.own_user = numbers.0 == 0 && !service.as_image;
        if service.own_user {
            service.user = (NOBODY, NOBODY);
            image.note_root();
        } else {
            service.user = numbers;
            image.note_user(&user, numbers);
        }
    }
    if let Some(program) = service.command.first().filter(|program| !program.starts_with('/')) {
        let found = found_in_path(service, program, tree).ok_or_else(|| {
            let path = path_of(service);
            let fault =
                Fault::new(format!("service '{name}' starts '{program}', which is not in any folder of PATH {path}"));
            let remedy = "name the program by its path in the bundle; `tare bundle show` lists its files";
            ("command", fault.remedy(remedy).as_mistake())
        })?;
        service.command[0] = found;
        if image.taken.contains_key("command") {
            image.note("command", service.command.join(" "));
        }
    }
    settle_check(service, image, tree)?;
    let hidden = |path: &&String| image.taken.contains_key("volumes") && tree.holds_something(path);
    if let Some(path) = service.volumes.keys().find(hidden).filter(|_| !service.as_image) {
        let line = format!("{}; the image's own content of {path} is hidden", image.taken["volumes"]);
        image.note("volumes", line);
    }
    Ok(())
}

/// Finds the program by which the service is asked whether it is ready. Without it, an image's own check is replaced by
/// the service's port: engines start such an image all the same.
fn settle_check(service: &mut Service, image: &mut FromImage, tree: &Tree) -> Result<(), Wrong> {
    let Some(program) = service.ready.command().and_then(|command| command.first()).cloned() else { return Ok(()) };
    let path = if program.starts_with('/') { Some(program.clone()) } else { found_in_path(service, &program, tree) };
    if let Some(path) = path.filter(|path| can_start(tree, path).is_ok()) {
        service.ready.texts_mut()[0] = path;
        return Ok(());
    }
    let only = service.ports.keys().next().filter(|_| service.ports.len() == 1);
    if let Some(port) = only.filter(|_| image.taken.contains_key("ready")) {
        let told = format!("not its health check, because {program} is not in it: port {port} is tested instead");
        image.note("ready", told);
        service.ready = Readiness::Port { port: port.clone(), within: service.ready.within() };
        return Ok(());
    }
    let name = &service.name;
    let told = format!("service '{name}' has the ready command '{program}', which its image does not have");
    let remedy = "write `ready:` in the workload, for example `ready: {port: NAME}`";
    Err(("ready", Fault::new(told).remedy(remedy).as_mistake()))
}

/// The PATH of a service.
fn path_of(service: &Service) -> &str {
    service.environment.get("PATH").map_or(USUAL_PATH, String::as_str)
}

/// The path of a program that is named without one, as its service would find it.
fn found_in_path(service: &Service, program: &str, tree: &Tree) -> Option<String> {
    let here = service.directory.as_deref().unwrap_or("/");
    let folders: Vec<&str> = if program.contains('/') { vec![here] } else { path_of(service).split(':').collect() };
    let places = folders.into_iter().map(|folder| if folder.is_empty() { here } else { folder });
    let mut places = places.map(|folder| format!("{}/{program}", folder.trim_end_matches('/')));
    places.find(|place| place.starts_with('/') && tree.program(place).is_some_and(|file| file.mode() & 0o111 != 0))
}

/// A bundle's tree. Links are followed inside it only, because strangers made it.
struct Tree(OwnedFd);

impl Tree {
    fn open(&self, path: &str, flags: OFlags) -> Option<File> {
        rustix::fs::openat2(&self.0, path, flags | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::IN_ROOT)
            .ok()
            .map(File::from)
    }

    /// The file that a program would be started from.
    fn program(&self, path: &str) -> Option<std::fs::Metadata> {
        self.open(path, OFlags::PATH)?.metadata().ok().filter(std::fs::Metadata::is_file)
    }

    fn is_folder(&self, path: &str) -> bool {
        self.open(path, OFlags::PATH | OFlags::DIRECTORY).is_some()
    }

    fn holds_something(&self, path: &str) -> bool {
        let Some(folder) = self.open(path, OFlags::RDONLY | OFlags::DIRECTORY) else { return false };
        let names = rustix::fs::Dir::read_from(folder).into_iter().flatten().flatten();
        names.filter(|item| ![c".", c".."].contains(&item.file_name())).count() > 0
    }

    /// The text of a file; empty when there is none.
    fn text(&self, path: &str) -> String {
        let is_file = |file: &File| file.metadata().is_ok_and(|facts| facts.is_file());
        let mut bytes = Vec::new();
        if let Some(file) = self.open(path, OFlags::RDONLY | OFlags::NONBLOCK).filter(is_file) {
            // A file that cannot be read names no users.
            let _ = file.take(FILE_BYTES_MAX).read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Tables;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;
    use tare_core::config::Problems;
    use tare_core::image::HealthCheck;
    use tare_core::parameters::Parameters;

    struct Laid(PathBuf, Option<ImageConfig>);

    impl Bundle for Laid {
        fn digest(&self) -> &str {
            "sha256:0"
        }

        fn directory(&self) -> Result<PathBuf, Fault> {
            Ok(self.0.clone())
        }

        fn archive(&self) -> Result<PathBuf, Fault> {
            unreachable!("nobody asks for it")
        }

        fn disk(&self) -> Result<PathBuf, Fault> {
            unreachable!("nobody asks for it")
        }

        fn image(&self) -> Option<&ImageConfig> {
            self.1.as_ref()
        }
    }

    /// A tree with a program in `/opt/bin`, reached by a link, and one that is no program in `/bin`.
    fn tree() -> tempfile::TempDir {
        let tree = tempfile::tempdir().unwrap();
        let at = |path: &str| tree.path().join(path);
        for folder in ["etc", "bin", "opt/real", "data", "srv"] {
            std::fs::create_dir_all(at(folder)).unwrap();
        }
        symlink("/opt/real", at("opt/bin")).unwrap();
        for program in ["opt/real/server", "srv/own"] {
            std::fs::write(at(program), "#!").unwrap();
            std::fs::set_permissions(at(program), std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        std::fs::write(at("bin/server"), "no program").unwrap();
        std::fs::set_permissions(at("bin/server"), std::fs::Permissions::from_mode(0o644)).unwrap();
        std::fs::write(at("etc/passwd"), "root:x:0:0::/:/x\nserver:x:7:8::/:/x\nadmin:x:0:0::/:/x\n").unwrap();
        std::fs::write(at("etc/group"), "extra:x:9:\n").unwrap();
        tree
    }

    /// The service of a workload that uses an image, with `more` fields, settled by that tree.
    fn settled(more: &str, change: impl FnOnce(&mut ImageConfig)) -> Result<Service, Fault> {
        let tree = tree();
        let mut says = ImageConfig {
            command: vec!["server".to_owned(), "-x".to_owned()],
            environment: vec!["PATH=/none:/bin:/opt/bin".to_owned()],
            ports: vec!["80/tcp".to_owned()],
            ..ImageConfig::default()
        };
        change(&mut says);
        let text = format!(
            "workload: w\nservices: {{s: {{bundle: {{image: some/image}}, ports: {{m: 1}}{more}}}}}\n\
             load: {{protocol: {{redis: {{}}}}}}\n"
        );
        let mut problems = Problems::new("w.yaml", &text);
        let read = Workload::read(&text, Path::new("w"), &Parameters::new(), &Knowing(says.clone()), &mut problems);
        let mut service = read.unwrap_or_else(|| panic!("{:?}", problems.into_vec())).services.remove(0);
        settle(&mut service, &Laid(tree.path().to_owned(), Some(says))).map_err(|(_, fault)| fault)?;
        Ok(service)
    }

    /// The usual tables, and an image.
    struct Knowing(ImageConfig);

    impl tare_core::catalog::Catalog for Knowing {
        fn layers(&self) -> Vec<&'static dyn tare_core::layer::LayerOptions> {
            Tables.layers()
        }

        fn protocols(&self) -> Vec<&'static dyn tare_core::protocol::ProtocolInfo> {
            Tables.protocols()
        }

        fn image(&self, _: &str) -> Result<Option<ImageConfig>, Fault> {
            Ok(Some(self.0.clone()))
        }
    }

    fn fault(more: &str, change: impl FnOnce(&mut ImageConfig)) -> String {
        settled(more, change).unwrap_err().message
    }

    #[test]
    fn a_program_is_found_in_path_and_by_links_inside_the_bundle() {
        let service = settled("", |_| {}).unwrap();
        assert_eq!(service.command, ["/opt/bin/server", "-x"], "what is not executable is passed");
        assert!(
            lines(&Workload { services: vec![service.clone()], ..workload() })
                .contains(&"service s: command from the image: /opt/bin/server -x".to_owned())
        );
        let own = settled(", command: [server], environment: {PATH: '/opt/real'}", |_| {}).unwrap();
        assert_eq!(own.command, ["/opt/real/server"]);
        assert!(!own.image.unwrap().taken.contains_key("command"));
        let relative = settled("", |says| {
            (says.command, says.directory) = (vec!["./own".to_owned()], "/srv".to_owned());
        });
        assert_eq!(relative.unwrap().command, ["/srv/./own"]);
        assert!(
            fault(", command: [nothing]", |_| {}).contains("'nothing', which is not in any folder of PATH /none:/bin")
        );
        assert!(fault(", command: [/bin/nothing]", |_| {}).contains("starts /bin/nothing, which is not in its bundle"));
        assert!(fault(", command: [/opt/bin]", |_| {}).contains("not in its bundle"));
        assert!(fault(", directory: /none", |_| {}).contains("starts in /none, which is not a directory"));
        settled(", directory: /none/below, volumes: {/none: 1MiB}", |_| {}).unwrap();
    }

    #[test]
    fn a_health_check_whose_program_is_missing_gives_way_to_the_port() {
        let health = |program: &'static str| {
            move |says: &mut ImageConfig| says.health = Some(HealthCheck::of(vec![program.to_owned(), "-h".to_owned()]))
        };
        let found = settled("", health("server")).unwrap();
        assert_eq!(found.ready.command(), Some(&["/opt/bin/server".to_owned(), "-h".to_owned()][..]));
        let missing = settled("", health("curl")).unwrap();
        assert!(matches!(&missing.ready, Readiness::Port { port, .. } if port == "m"), "{:?}", missing.ready);
        let told = &missing.image.unwrap().taken["ready"];
        assert_eq!(told, "not its health check, because curl is not in it: port m is tested instead");
        let stated = ", ready: {command: [curl, localhost]}";
        assert!(fault(stated, |_| {}).contains("'curl', which its image does not have"));
        let own = settled(", ready: {command: [/srv/own]}", health("curl")).unwrap();
        assert_eq!(own.ready.command(), Some(&["/srv/own".to_owned()][..]));
    }

    #[test]
    fn a_user_is_looked_up_in_the_image() {
        let user = |user: &str| settled("", |says| user.clone_into(&mut says.user));
        let server = user("server").unwrap();
        assert_eq!((server.user, server.own_user), ((7, 8), false));
        let told = &server.image.unwrap().taken["user"];
        assert_eq!(told, "server, which is 7:8");
        assert_eq!(user("server:extra").unwrap().user, (7, 9));
        assert_eq!(user("1001").unwrap().user, (1001, 0));
        let admin = user("admin").unwrap();
        assert!(admin.own_user && admin.user == (NOBODY, NOBODY), "another name of root");
        assert!(admin.image.unwrap().taken["user"].starts_with("a separate one for each instance, instead of root"));
        let root = settled(", as_image: true", |says| "admin".clone_into(&mut says.user)).unwrap();
        assert_eq!((root.user, root.own_user), ((0, 0), false));
        assert!(user("mysql").unwrap_err().message.contains("no user 'mysql' in its /etc/passwd"));
        assert_eq!(settled(", user: '5:6'", |says| "mysql".clone_into(&mut says.user)).unwrap().user, (5, 6));
    }

    #[test]
    fn links_out_of_the_bundle_lead_nowhere() {
        let tree = tree();
        std::fs::remove_file(tree.path().join("etc/passwd")).unwrap();
        symlink("../../../../../../../../etc/passwd", tree.path().join("etc/passwd")).unwrap();
        let opened = Tree(rustix::fs::open(tree.path(), OFlags::PATH, Mode::empty()).unwrap());
        assert_eq!(opened.text("/etc/passwd"), "", "it is a link to itself in there");
        symlink("/etc/hostname", tree.path().join("etc/own")).unwrap();
        assert_eq!(opened.text("/etc/own"), "");
        rustix::fs::mkfifoat(rustix::fs::CWD, tree.path().join("etc/pipe"), Mode::RWXU).unwrap();
        assert_eq!(opened.text("/etc/pipe"), "", "it does not wait for somebody to write");
    }

    #[test]
    fn content_hidden_by_a_volume_is_reported() {
        let with = |says: &mut ImageConfig| says.volumes = vec!["/data".to_owned(), "/srv".to_owned()];
        let told = settled("", with).unwrap().image.unwrap().taken["volumes"].clone();
        assert_eq!(told, "/data, /srv, empty, with 512 MiB each; the image's own content of /srv is hidden");
        let told = settled(", as_image: true", with).unwrap().image.unwrap().taken["volumes"].clone();
        assert_eq!(told, "/data, /srv, with what the image holds there, with 512 MiB each");
    }

    #[test]
    fn an_image_that_has_changed_is_not_started() {
        let mut service = settled("", |_| {}).unwrap();
        let tree = tree();
        let other = Laid(tree.path().to_owned(), Some(ImageConfig::default()));
        assert!(settle(&mut service, &other).unwrap_err().1.message.contains("has changed since it was read"));
    }

    fn workload() -> Workload {
        let text = "workload: w\nservices: {s: {bundle: {packages: [p]}, command: [/p], ports: {m: 1}}}\n\
                    load: {protocol: {redis: {}}}\n";
        Workload::read(text, Path::new("w"), &Parameters::new(), &Tables, &mut Problems::new("w.yaml", text)).unwrap()
    }
}
