//! Images that the engine has and builds: found by name, handed out by ID, removed by `forget`.

use std::path::Path;
use std::process::Command;
use tare_core::fault::Fault;
use tare_core::host::ErasedLayer;
use tare_layers::container::Container;
use tare_layers::{BuildWays, EngineImage, build_image, engine_image};

pub(crate) const ALL: &[(&str, fn())] = &[
    ("a_folder_is_built_found_and_handed_out", a_folder_is_built_found_and_handed_out),
    ("a_rebuilt_tag_is_another_image", a_rebuilt_tag_is_another_image),
    (
        "a_name_that_is_not_there_is_answered_with_those_like_it",
        a_name_that_is_not_there_is_answered_with_those_like_it,
    ),
    ("a_build_that_fails_says_its_last_lines", a_build_that_fails_says_its_last_lines),
];

/// A folder that is built without a network: this program is its only file.
fn folder(dockerfile: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(std::env::current_exe().unwrap(), folder.path().join("service")).unwrap();
    std::fs::write(folder.path().join("secret"), "s").unwrap();
    std::fs::write(folder.path().join(".dockerignore"), "secret\n").unwrap();
    // Builds share what they have in common, and a test that removes its image would take that from another's build.
    let own = format!("FROM scratch\nENV FOLDER={}\n", folder.path().display());
    std::fs::write(folder.path().join("Dockerfile"), dockerfile.replace("FROM scratch\n", &own)).unwrap();
    folder
}

const DOCKERFILE: &str = "FROM scratch\nCOPY service /service\nCMD [\"/service\", \"serve\", \"80\"]\nEXPOSE 80\n";

/// Builds a folder: the image, and what was said.
fn built(folder: &Path) -> (Result<EngineImage, Fault>, Vec<String>) {
    let mut said = Vec::new();
    let image = build_image(folder, &BuildWays { is_no_source: &|_| false, stop: &|| false }, &mut |line: &str| {
        said.push(line.to_owned())
    });
    (image, said)
}

/// The name under which it was built.
fn name(image: &EngineImage) -> &str {
    image.tags.iter().find(|tag| tag.starts_with("localhost/tare-built:")).expect("it has our name")
}

/// What the engine hands out under a name that a bundle has for it.
fn handed_out(pinned: &str) -> Result<Vec<u8>, Fault> {
    let pull = Container.pull().expect("the engine hands out images");
    let mut bytes = Vec::new();
    pull(pinned, &mut bytes).map(|()| bytes)
}

/// Removes a built image as `tare clean --all` does.
fn forget(name: &str) {
    let kept = Container.kept().unwrap();
    let item = kept.iter().find(|item| item.name == name).expect("it is kept");
    Container.forget(item).unwrap();
    assert!(engine_image(name).is_err(), "{name} is still there");
    Container.forget(item).unwrap();
}

fn a_folder_is_built_found_and_handed_out() {
    let folder = folder(DOCKERFILE);
    let (image, said) = built(folder.path());
    let image = image.unwrap();
    assert!(said.iter().any(|line| line.contains("COPY service /service")), "{said:?}");
    let name = name(&image).to_owned();
    assert_eq!(engine_image(&name).unwrap(), image);
    assert_eq!(engine_image(&image.id).unwrap().id, image.id);
    let document: serde_json::Value = serde_json::from_slice(&image.document).unwrap();
    assert_eq!(document["config"]["Cmd"], serde_json::json!(["/service", "serve", "80"]));
    let archive = handed_out(&image.pinned(&name)).unwrap();
    assert!(archive.windows(13).any(|part| part == b"manifest.json"), "{} bytes", archive.len());
    let fault = handed_out(&format!("docker-daemon:{name}")).unwrap_err();
    assert!(fault.remedy.contains("run the command again"), "by its name alone it is not handed out: {fault}");
    forget(&name);
    let fault = handed_out(&image.pinned(&name)).unwrap_err();
    assert!(fault.message.contains("could not save the image"), "{fault}");
}

fn a_rebuilt_tag_is_another_image() {
    let folder = folder(DOCKERFILE);
    let first = built(folder.path()).0.unwrap();
    assert_eq!(built(folder.path()).0.unwrap().id, first.id, "nothing has changed");
    std::fs::write(folder.path().join("secret"), "another").unwrap();
    assert_eq!(built(folder.path()).0.unwrap().id, first.id, "what is ignored changes nothing");
    let dockerfile = folder.path().join("Dockerfile");
    let text = std::fs::read_to_string(&dockerfile).unwrap();
    std::fs::write(&dockerfile, text.replace("EXPOSE 80", "EXPOSE 81")).unwrap();
    let second = built(folder.path()).0.unwrap();
    let name = name(&second);
    assert_ne!(second.id, first.id);
    assert_ne!(second.pinned(name), first.pinned(name));
    assert!(engine_image(&first.id).is_err(), "the replaced one is gone");
    forget(name);
}

fn a_name_that_is_not_there_is_answered_with_those_like_it() {
    let folder = folder(DOCKERFILE);
    let image = built(folder.path()).0.unwrap();
    let tag = format!("tare-test-{}/server:1", std::process::id());
    let docker = |words: &[&str]| Command::new("docker").args(words).output().is_ok_and(|done| done.status.success());
    if docker(&["tag", &image.id, &tag]) {
        let fault = engine_image(&tag.replace("server:1", "sever:2")).unwrap_err();
        assert!(fault.mistake && fault.message.contains("sever:2"), "{fault}");
        assert!(fault.remedy.contains(&format!("did you mean {tag}")), "{fault}");
        assert!(docker(&["rmi", &tag]));
    } else {
        println!("skipped: there is no docker program to name an image with");
    }
    forget(name(&image));
    let fault = engine_image("tare-test-zyxwvutsrq").unwrap_err();
    assert!(fault.mistake && fault.remedy.contains("lists those that it has"), "{fault}");
}

fn a_build_that_fails_says_its_last_lines() {
    // At its first step that makes files: the engine keeps what steps have made.
    let folder = folder("FROM scratch\nCOPY secret /secret\n");
    let (image, said) = built(folder.path());
    let fault = image.unwrap_err();
    assert!(fault.mistake && fault.message.contains("could not be built"), "{fault}");
    assert!(fault.log.contains("COPY secret /secret"), "the file is ignored, so the step fails: {}", fault.log);
    assert!(said.iter().any(|line| line.contains("FROM scratch")), "{said:?}");
    let kept = Container.kept().unwrap();
    let path = folder.path().file_name().unwrap().to_string_lossy().to_lowercase();
    assert!(!kept.iter().any(|item| item.name.contains(path.trim_start_matches('.'))), "{kept:?}");
}
