//! Images that are sound in every shape, and images that are not in every way we could think of.

use sha2::{Digest, Sha256};
use std::io::Write;
use std::path::{Path, PathBuf};
use tare_bundle::Store;
use tare_core::bundle::{BundleStore, ExtraFile, Recipe, Source};
use tare_core::fault::Fault;

pub(crate) fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn tarball(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_uid(u64::from(rustix::process::geteuid().as_raw()));
        header.set_gid(u64::from(rustix::process::getegid().as_raw()));
        builder.append_data(&mut header, path, *content).unwrap();
    }
    builder.into_inner().unwrap()
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn architecture() -> &'static str {
    if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }
}

pub(crate) type Parts = Vec<(String, Vec<u8>)>;

/// The parts of an OCI layout with these layers.
fn layout(layers: &[Vec<u8>]) -> Parts {
    let mut parts = Vec::new();
    let mut add = |bytes: &[u8]| {
        parts.push((format!("blobs/sha256/{}", digest(bytes)), bytes.to_vec()));
        format!(
            "{{\"mediaType\": \"application/vnd.oci.image.manifest.v1+json\", \"digest\": \"sha256:{}\"}}",
            digest(bytes)
        )
    };
    let layers: Vec<String> = layers.iter().map(|layer| add(layer)).collect();
    let run = "{\"Entrypoint\": [\"/bin/x\"], \"Cmd\": null, \"Env\": [\"A=b\"]}";
    let arch = architecture();
    let config = add(format!("{{\"architecture\": \"{arch}\", \"os\": \"linux\", \"config\": {run}}}").as_bytes());
    let manifest = add(format!("{{\"layers\": [{}], \"config\": {config}}}", layers.join(",")).as_bytes());
    parts.push(("index.json".to_owned(), format!("{{\"manifests\": [{manifest}]}}").into_bytes()));
    parts
}

/// The parts of what `docker save` wrote before it wrote OCI layouts.
fn saved(layer: &[u8]) -> Parts {
    let config = format!("{{\"rootfs\": {{\"diff_ids\": [\"sha256:{}\"]}}}}", digest(layer)).into_bytes();
    let name = format!("{}.json", digest(&config));
    let manifest = format!("[{{\"Config\": \"{name}\", \"Layers\": [\"one/layer.tar\"], \"RepoTags\": null}}]");
    vec![
        (name, config),
        ("one/layer.tar".to_owned(), layer.to_vec()),
        ("manifest.json".to_owned(), manifest.into_bytes()),
    ]
}

pub(crate) fn pack(parts: &Parts) -> Vec<u8> {
    let files: Vec<(&str, &[u8])> = parts.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
    tarball(&files)
}

pub(crate) fn recipe(path: &Path) -> Recipe {
    Recipe::plain(Source::Image(path.display().to_string()))
}

pub(crate) fn write(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// These parts as the folder of a layout.
fn unpack(folder: &Path, parts: &Parts) -> PathBuf {
    let unpacked = folder.join("layout");
    parts.iter().for_each(|(name, bytes)| drop(tare_testkit::files::write(&unpacked.join(name), bytes)));
    unpacked
}

#[test]
fn a_folder_of_links_or_of_another_kind_is_told_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store")).unwrap();
    let parts = layout(&[gzip(&tarball(&[("bin/x", b"program")]))]);
    let image = unpack(folder.path(), &parts);
    // As some tools leave a layout: each part is a link to where it was made.
    for (name, _) in parts.iter().rev() {
        let (part, moved) = (image.join(name), folder.path().join("moved"));
        std::fs::rename(&part, &moved).unwrap();
        std::os::unix::fs::symlink(&moved, &part).unwrap();
        let fault = store.bundle(&recipe(&image)).err().unwrap();
        let told = format!("its part '{name}' is a link, to '{}'", moved.display());
        assert!(fault.message.contains(&told) && fault.remedy.contains("cp -rL FOLDER COPY"), "{fault}");
        std::fs::rename(&moved, &part).unwrap();
    }
    store.bundle(&recipe(&image)).unwrap();
    // As `skopeo copy ... dir:` writes it.
    let manifest = (String::from("manifest.json"), b" {\"schemaVersion\": 2, \"layers\": []}".to_vec());
    let other = unpack(&folder.path().join("other"), &vec![manifest]);
    let fault = store.bundle(&recipe(&other)).err().unwrap();
    assert!(fault.remedy.contains("skopeo copy dir:DIR oci:OTHER"), "{fault}");
}

#[test]
fn one_image_in_every_shape_makes_one_tree() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store")).unwrap();
    let layer = tarball(&[("bin/x", b"program"), ("etc/config", b"c")]);
    let zstd = zstd::encode_all(&layer[..], 1).unwrap();
    // As `zstd --long` writes it.
    let mut long = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    long.window_log(27).unwrap();
    long.write_all(&pack(&layout(std::slice::from_ref(&layer)))).unwrap();
    let mut shapes = vec![
        write(folder.path(), "plain.tar", &pack(&layout(std::slice::from_ref(&layer)))),
        write(folder.path(), "gzip-layer.tar", &pack(&layout(&[gzip(&layer)]))),
        write(folder.path(), "zstd-layer.tar", &pack(&layout(&[zstd]))),
        write(folder.path(), "whole.tar.gz", &gzip(&pack(&layout(std::slice::from_ref(&layer))))),
        write(folder.path(), "whole.tar.zst", &long.finish().unwrap()),
        write(folder.path(), "saved.tar", &pack(&saved(&layer))),
    ];
    shapes.push(unpack(folder.path(), &layout(&[gzip(&layer)])));
    let digests: Vec<String> =
        shapes.iter().map(|path| store.bundle(&recipe(path)).unwrap().digest().to_owned()).collect();
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:#?}");
    assert_eq!(store.list().unwrap().len(), 1);
    let shown = store.show(&digests[0]).unwrap();
    let image = shown.image.unwrap();
    assert_eq!((image.entrypoint, image.environment), (vec!["/bin/x".to_owned()], vec!["A=b".to_owned()]));
    let mut with_file = recipe(&shapes[0]);
    with_file.files.push(ExtraFile { path: "/etc/config".to_owned(), content: "other".to_owned().into(), mode: 0o600 });
    let other = store.bundle(&with_file).unwrap();
    assert_ne!(other.digest(), digests[0]);
    assert_eq!(std::fs::read(other.directory().unwrap().join("etc/config")).unwrap(), b"other");
}

/// Two links that name each other.
fn looped() -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut link = tar::Header::new_gnu();
    link.set_entry_type(tar::EntryType::Symlink);
    link.set_size(0);
    link.set_mode(0o777);
    builder.append_link(&mut link, "index.json", "other").unwrap();
    builder.append_link(&mut link, "other", "index.json").unwrap();
    builder.into_inner().unwrap()
}

/// An archive whose entry announces 8 GiB.
fn huge() -> Vec<u8> {
    let mut huge = tarball(&[("x", b"")]);
    huge[124..136].copy_from_slice(b"77777777777\0");
    let header = tar::Header::from_byte_slice(&huge[..512]).clone();
    let mut header = header;
    header.set_cksum();
    huge[..512].copy_from_slice(header.as_bytes());
    huge
}

/// Images that are wrong, each in a way of its own.
fn malformed() -> Vec<(&'static str, Vec<u8>)> {
    let layer = tarball(&[("x", b"content")]);
    let good = layout(&[gzip(&layer)]);
    let packed = pack(&good);
    let with = |name: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let mut parts = good.clone();
        parts.iter_mut().filter(|(known, _)| known.starts_with(name)).for_each(|(_, bytes)| change(bytes));
        pack(&parts)
    };
    let text = |text: &str| pack(&vec![("index.json".to_owned(), text.as_bytes().to_vec())]);
    let docker = |text: &str| pack(&vec![("manifest.json".to_owned(), text.as_bytes().to_vec())]);
    let no_layer = layout(&[b"no layer".to_vec()]);
    let mut wrong_id = saved(&layer);
    wrong_id[1].1 = tarball(&[("y", b"other")]);
    let huge = huge();
    let looped = looped();
    let many = "{\"digest\": \"sha256:x\"},".repeat(2000);
    vec![
        ("empty", Vec::new()),
        ("noise", vec![0xa5; 5000]),
        ("zeroes", vec![0; 10240]),
        ("text", b"this is no archive".to_vec()),
        ("cut in a header", packed[..700].to_vec()),
        ("cut in a part", packed[..packed.len() / 2].to_vec()),
        ("cut gzip", gzip(&packed)[..200].to_vec()),
        ("damaged gzip", {
            let mut b = gzip(&packed);
            let at = b.len() / 2;
            b[at] ^= 0xff;
            b
        }),
        ("gzip magic only", vec![0x1f, 0x8b]),
        ("zstd magic only", vec![0x28, 0xb5, 0x2f, 0xfd]),
        ("every blob damaged", with("blobs/", &|bytes| bytes[0] ^= 1)),
        ("every blob longer", with("blobs/", &|bytes| bytes.push(b' '))),
        ("index is no json", with("index.json", &|bytes| bytes.truncate(10))),
        ("index is a list", text("[]")),
        ("index without manifests", text("{}")),
        ("index with none", text("{\"manifests\": []}")),
        ("index with bad digest", text("{\"manifests\": [{\"digest\": \"md5:00\"}]}")),
        ("digest climbs", text("{\"manifests\": [{\"digest\": \"sha256:../../../../etc/passwd\"}]}")),
        ("missing blob", text(&format!("{{\"manifests\": [{{\"digest\": \"sha256:{}\"}}]}}", "0".repeat(64)))),
        ("deep json", text(&"[".repeat(100_000))),
        ("number for text", text("{\"manifests\": [{\"digest\": 7}]}")),
        ("other platform", text("{\"manifests\": [{\"digest\": \"sha256:0\", \"platform\": {\"os\": \"plan9\"}}]}")),
        ("too many", text(&format!("{{\"manifests\": [{}]}}", many.trim_end_matches(',')))),
        ("docker: none", docker("[]")),
        ("docker: no config", docker("[{\"Config\": \"c\", \"Layers\": []}]")),
        ("docker: climbs", docker("[{\"Config\": \"../../etc/passwd\", \"Layers\": []}]")),
        ("docker: absolute", docker("[{\"Config\": \"/etc/passwd\", \"Layers\": []}]")),
        ("docker: wrong layer", pack(&wrong_id)),
        ("a plain tree", layer.clone()),
        ("layer is no archive", pack(&no_layer)),
        ("layer announces 8 GiB", pack(&layout(std::slice::from_ref(&huge)))),
        ("part announces 8 GiB", huge),
        ("links in a circle", looped),
    ]
}

#[test]
fn malformed_images_are_faults_that_leave_nothing() {
    let cases = malformed();
    assert!(cases.len() > 30);
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store")).unwrap();
    for (name, bytes) in cases {
        let path = write(folder.path(), "image", &bytes);
        let fault: Fault = match store.bundle(&recipe(&path)) {
            Ok(bundle) => panic!("{name} became {}", bundle.digest()),
            Err(fault) => fault,
        };
        assert!(!fault.message.is_empty() && !fault.message.contains('\n'), "{name}: {fault}");
        println!("{name}: {fault}");
        assert_eq!(store.list().unwrap(), [], "{name}");
        let building = folder.path().join("store/building");
        assert_eq!(std::fs::read_dir(building).unwrap().count(), 0, "{name}");
    }
    let missing = store.bundle(&recipe(&folder.path().join("missing.tar"))).err().unwrap();
    assert!(!missing.remedy.is_empty());
    let reference = Recipe::plain(Source::Image("no/such:image".to_owned()));
    assert!(!store.bundle(&reference).err().unwrap().remedy.is_empty());
}
