//! What an engine is told to build, and what is copied.

use crate::lab::{Memory, imported, of_text};
use std::path::{Path, PathBuf};

#[test]
fn a_file_that_is_no_text_is_copied_too() {
    let text = "services: {a: {image: x, ports: ['80'], volumes: ['./logo:/logo:ro', './x:/x:rslave']}}\n";
    let files = [("c/compose.yaml", text.as_bytes()), ("c/logo", &[0xff, 0xd8][..]), ("c/x", &b"x"[..])];
    let files = files.map(|(name, content)| (PathBuf::from(name), content.to_vec()));
    let made = imported(&Memory(files.into()), "c/compose.yaml", &[]).unwrap();
    assert_eq!(made.other_files["files/a/logo"], [0xff, 0xd8]);
    assert_eq!((made.files["files/a/x"].as_str(), made.is_stopped()), ("x", false));
    assert!(made.notes.iter().any(|note| note.instead.contains("stays there alone")), "{:?}", made.notes);
}

#[test]
fn a_build_is_told_as_an_engine_takes_it() {
    let text = "services:\n  a:\n    build: {context: app, dockerfile: x.Dockerfile, target: t, args: [A=1, TOKEN, NO]}\n    \
                ports: ['80']\n  b: {image: b:1, build: {context: ., secrets: [s], network: default}}\n  \
                c: {build: ../d}\n";
    let made = of_text(text).unwrap();
    let [a, b, c] = &made.built[..] else { panic!("{:?}", made.built) };
    assert_eq!((a.tag.as_str(), a.context.as_path(), a.place.line), ("c-a", Path::new("c/app"), 3));
    assert_eq!((a.dockerfile.as_deref(), a.target.as_deref(), &a.by_hand), (Some("x.Dockerfile"), Some("t"), &None));
    let args: Vec<_> = a.args.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(args, ["A=1", "TOKEN=t0ken"]);
    assert_eq!((b.tag.as_str(), b.by_hand.as_deref()), ("b:1", Some("it has 'secrets'")));
    assert!(c.by_hand.as_ref().unwrap().contains("outside of the folder"), "{c:?}");
}

#[test]
fn a_build_does_not_take_the_name_of_one_of_our_own_images() {
    let text = "services:\n  a:\n    image: localhost/tare-bundle:1\n    build: .\n    ports: ['80']\n  \
                b: {image: docker.io/library/tare-built, build: .}\n";
    let told = of_text(text).unwrap_err().join("\n");
    let message = "'localhost/tare-bundle:1' is a name of Tare's own images";
    for wanted in ["compose.yaml:3:12", message, "compose.yaml:6:14", "give 'image:' another name"] {
        assert!(told.contains(wanted), "{wanted}:\n{told}");
    }
}
