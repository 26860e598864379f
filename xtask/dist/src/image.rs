//! The image: an OCI layout in an archive, with the list that `docker load` of older engines wants beside it.

use crate::archive::{compressed, packed};
use crate::shipped::{DOCUMENTS, Release};
use crate::tree::Tree;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// The name and the bytes of the archive.
pub(crate) fn image(release: &Release) -> Result<(String, Vec<u8>)> {
    let time = i64::try_from(release.time).ok().and_then(|time| jiff::Timestamp::from_second(time).ok());
    let created = time.context("the time is none of a calendar")?.to_string();
    let layer = packed(&root(release), release.time)?;
    let mut layout = Layout { tree: Tree::default() };
    let config = layout.document(
        CONFIG,
        &json!({
            "created": created,
            "architecture": release.architecture(),
            "os": "linux",
            "config": {
                "Entrypoint": ["/usr/bin/tare"],
                "Cmd": ["--help"],
                "Env": ["PATH=/usr/bin"],
                "WorkingDir": "/work",
                "Labels": {
                    "org.opencontainers.image.title": "tare",
                    "org.opencontainers.image.description": "A scale for deployment forms",
                    "org.opencontainers.image.version": release.version,
                    "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
                },
            },
            "rootfs": {"type": "layers", "diff_ids": [digest(&layer)]},
            "history": [{"created": created, "created_by": "cargo xtask dist"}],
        }),
    );
    let layer = layout.blob(LAYER, compressed(&layer, release.level())?);
    let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": &config, "layers": [&layer]});
    let mut manifest = layout.document(MANIFEST, &manifest);
    let name = format!("tare:{}", release.version);
    manifest["platform"] = json!({"architecture": release.architecture(), "os": "linux"});
    manifest["annotations"] = json!({
        "io.containerd.image.name": format!("docker.io/library/{name}"),
        "org.opencontainers.image.ref.name": release.version,
    });
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [manifest]});
    let saved = json!([{"Config": place(&config), "RepoTags": [name], "Layers": [place(&layer)]}]);
    let mut tree = layout.tree;
    tree.file("oci-layout", json!({"imageLayoutVersion": "1.0.0"}).to_string().into_bytes());
    tree.file("index.json", index.to_string().into_bytes());
    tree.file("manifest.json", saved.to_string().into_bytes());
    Ok((format!("{}-linux-image.tar", release.name()), packed(&tree, release.time)?))
}

/// The image's root: the static program needs nothing but its data, somewhere to work, and a folder for temporary
/// files.
fn root(release: &Release) -> Tree {
    let documents = format!("{DOCUMENTS}/");
    let mut tree = release.tree.below("usr", |path| {
        let licence = path.strip_prefix(&documents).is_some_and(|name| !name.ends_with(".md"));
        (path.starts_with("bin/") || path.starts_with("share/tare/") || licence).then(|| path.to_owned())
    });
    tree.folder("tmp", 0o1777);
    tree.folder("work", 0o1777);
    tree
}

/// The parts of an image, named by what is in them.
struct Layout {
    tree: Tree,
}

impl Layout {
    /// Adds a part; how others refer to it.
    fn blob(&mut self, kind: &str, bytes: Vec<u8>) -> Value {
        let descriptor = json!({"mediaType": kind, "digest": digest(&bytes), "size": bytes.len()});
        self.tree.file(&place(&descriptor), bytes);
        descriptor
    }

    fn document(&mut self, kind: &str, document: &Value) -> Value {
        self.blob(kind, document.to_string().into_bytes())
    }
}

/// Where the part lies that is referred to.
fn place(descriptor: &Value) -> String {
    format!("blobs/{}", descriptor["digest"].as_str().unwrap_or_default().replace(':', "/"))
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", crate::hexadecimal(&Sha256::digest(bytes)))
}
