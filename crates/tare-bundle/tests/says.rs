//! What images say of how they are started: read before they are unpacked, and kept by image, not by tree.

use crate::images::{architecture, digest, gzip, pack, recipe, tarball, write};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use tare_bundle::{Store, image_says, says_of};
use tare_core::bundle::BundleStore;
use tare_core::image::{HealthCheck, ImageConfig};

/// The parts of an OCI layout of one layer, whose configuration says `run`; `index` gets the manifest's descriptor.
fn layout(run: &Value, layer: &[u8], index: impl FnOnce(Value) -> Value) -> Vec<(String, Vec<u8>)> {
    let mut parts = Vec::new();
    let mut add = |bytes: &[u8], media_type: &str| {
        parts.push((format!("blobs/sha256/{}", digest(bytes)), bytes.to_vec()));
        json!({"mediaType": media_type, "digest": format!("sha256:{}", digest(bytes)), "size": bytes.len()})
    };
    let layer = add(layer, "application/vnd.oci.image.layer.v1.tar");
    let config = json!({"architecture": architecture(), "os": "linux", "config": run});
    let config = add(config.to_string().as_bytes(), "application/vnd.oci.image.config.v1+json");
    let manifest = json!({"schemaVersion": 2, "config": config, "layers": [layer]}).to_string();
    let manifest = add(manifest.as_bytes(), "application/vnd.oci.image.manifest.v1+json");
    parts.push(("index.json".to_owned(), index(manifest).to_string().into_bytes()));
    parts
}

fn plain(manifest: Value) -> Value {
    json!({ "manifests": [manifest] })
}

fn says(store: &Path, image: &Path) -> Option<ImageConfig> {
    image_says(store, &image.display().to_string()).unwrap()
}

#[test]
fn all_that_an_image_says_is_read_without_unpacking_it() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let run = json!({"Entrypoint": ["/entry", "-x"], "Cmd": ["run"], "Env": ["A=b", "PATH=/x"], "User": "me:us",
        "WorkingDir": "/data", "ExposedPorts": {"6379/tcp": {}, "53/udp": {}}, "Volumes": {"/data": {}},
        "Labels": null, "StopSignal": "SIGQUIT", "Shell": ["/bin/ash", "-c"], "OnBuild": null,
        "Healthcheck": {"Test": ["CMD-SHELL", "ask"], "Interval": 2_000_000_000_u64, "StartPeriod": -1, "Retries": 0}});
    let parts = layout(&run, &tarball(&[("x", b"x")]), plain);
    let image = write(folder.path(), "image.tar", &pack(&parts));
    let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let wanted = ImageConfig {
        entrypoint: texts(&["/entry", "-x"]),
        command: texts(&["run"]),
        environment: texts(&["A=b", "PATH=/x"]),
        user: "me:us".to_owned(),
        directory: "/data".to_owned(),
        ports: texts(&["53/udp", "6379/tcp"]),
        volumes: texts(&["/data"]),
        stop_signal: "SIGQUIT".to_owned(),
        shell: texts(&["/bin/ash", "-c"]),
        health: Some(HealthCheck {
            interval: Duration::from_secs(2),
            ..HealthCheck::of(texts(&["/bin/ash", "-c", "ask"]))
        }),
    };
    assert_eq!(says(&root, &image).as_ref(), Some(&wanted));
    let document = json!({"architecture": "any", "config": run}).to_string();
    assert_eq!(says_of(document.as_bytes()).unwrap(), wanted, "its configuration says the same by itself");
    assert!(says_of(b"{").is_err() && says_of(b"{\"config\": null}").unwrap() == ImageConfig::default());
    assert!(!root.exists(), "who only looks makes nothing");
    let nulls = json!({"Entrypoint": null, "Cmd": null, "Env": null, "ExposedPorts": null, "Volumes": null,
        "Healthcheck": {"Test": ["NONE"]}, "Shell": null});
    let bare = write(folder.path(), "bare.tar", &pack(&layout(&nulls, &tarball(&[("x", b"x")]), plain)));
    assert_eq!(says(&root, &bare), Some(ImageConfig::default()));
    assert_eq!(says(&root, &folder.path().join("missing.tar")), None, "the workload's reader says so, with its place");
    assert_eq!(image_says(&root, "no/such:image").unwrap(), None);
    let none = write(folder.path(), "none.tar", b"no image");
    assert!(image_says(&root, &none.display().to_string()).is_err());

    // One that would have to be decompressed is known from its first build on, and no longer when it has changed.
    let store = Store::open(&root).unwrap();
    let packed = write(folder.path(), "packed.tar.gz", &gzip(&pack(&parts)));
    assert_eq!(says(&root, &packed), None);
    let bundle = store.bundle(&recipe(&packed)).unwrap();
    assert_eq!(bundle.image(), Some(&wanted));
    assert_eq!(says(&root, &packed).as_ref(), Some(&wanted));
    assert!(bundle.directory().unwrap().join("data").is_dir(), "where it starts is made, as by an engine");
    write(folder.path(), "packed.tar.gz", &gzip(&pack(&layout(&nulls, &tarball(&[("y", b"y")]), plain))));
    assert_eq!(says(&root, &packed), None);
}

#[test]
fn images_of_the_same_files_keep_what_each_of_them_says() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store")).unwrap();
    let built = |command: &str| {
        let parts = layout(&json!({"Cmd": [command]}), &tarball(&[("x", b"x")]), plain);
        let image = write(folder.path(), command, &pack(&parts));
        store.bundle(&recipe(&image)).unwrap()
    };
    let (one, two) = (built("one"), built("two"));
    assert_eq!(one.digest(), two.digest());
    let command = |says: Option<&ImageConfig>| says.unwrap().command.clone();
    assert_eq!((command(one.image()), command(two.image())), (vec!["one".to_owned()], vec!["two".to_owned()]));
    let later = Store::open(&folder.path().join("store")).unwrap();
    let kept = later.bundle(&recipe(&folder.path().join("one"))).unwrap();
    assert_eq!(command(kept.image()), ["one"], "what is remembered is the image's own");
}

#[test]
fn of_many_platforms_and_attestations_the_one_image_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let run = json!({"Cmd": ["/x"]});
    let layer = tarball(&[("x", b"x")]);
    // As buildx writes it: an index within the index, other platforms, and an attestation for each.
    let other = |platform: Value| {
        json!({"mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": format!("sha256:{}", "0".repeat(64)), "platform": platform})
    };
    let mut inner_part = None;
    let mut parts = layout(&run, &layer, |mut manifest| {
        manifest["platform"] = json!({"architecture": architecture(), "os": "linux"});
        let inner = json!({"manifests": [
            other(json!({"architecture": "s390x", "os": "linux"})), manifest,
            other(json!({"architecture": "unknown", "os": "unknown"})),
            other(json!({"architecture": architecture(), "os": "windows"})),
        ]});
        let bytes = inner.to_string().into_bytes();
        let index = json!({"mediaType": "application/vnd.oci.image.index.v1+json",
            "digest": format!("sha256:{}", digest(&bytes))});
        inner_part = Some((format!("blobs/sha256/{}", digest(&bytes)), bytes));
        // One image under two names is listed twice.
        json!({"manifests": [index, index]})
    });
    parts.extend(inner_part);
    let image = write(folder.path(), "image.tar", &pack(&parts));
    assert_eq!(says(folder.path(), &image).unwrap().command, ["/x"]);
    let two = layout(&run, &layer, |manifest| {
        let mut second = manifest.clone();
        second["digest"] = json!(format!("sha256:{}", "1".repeat(64)));
        json!({"manifests": [manifest, second]})
    });
    let two = write(folder.path(), "two.tar", &pack(&two));
    assert!(image_says(folder.path(), &two.display().to_string()).unwrap_err().message.contains("2 images"));
}
