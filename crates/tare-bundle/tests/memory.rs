//! Images of a few hundred kilobytes that want hundreds of megabytes of memory: they are refused, and the process that
//! unpacks them stays small. Each is unpacked by a process of its own, for what a process has had at most never falls.

use crate::images::{digest, recipe};
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tare_bundle::{PullImage, Store};
use tare_core::bundle::BundleStore;
use tare_core::fault::{Doing, Fault};

/// What the process that unpacks may have had at most, MiB.
const RESIDENT_MAX_MIB: u64 = 100;
/// Names the image to the process that unpacks it.
const IMAGE: &str = "TARE_TEST_HOSTILE_IMAGE";

type Layer<'a> = (&'static str, Vec<u8>, &'a str);

fn header(kind: tar::EntryType, name: &str, size: u64) -> [u8; 512] {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_uid(u64::from(rustix::process::geteuid().as_raw()));
    header.set_gid(u64::from(rustix::process::getegid().as_raw()));
    header.set_size(size);
    header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
    header.set_cksum();
    *header.as_bytes()
}

/// An entry or header extension with its content, filled up to whole blocks.
fn put(into: &mut impl Write, kind: tar::EntryType, name: &str, content: &[u8]) {
    into.write_all(&header(kind, name, content.len() as u64)).unwrap();
    into.write_all(content).unwrap();
    into.write_all(&vec![0; content.len().next_multiple_of(512) - content.len()]).unwrap();
}

fn gzipped(fill: impl FnOnce(&mut flate2::write::GzEncoder<Vec<u8>>)) -> Vec<u8> {
    let mut into = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    fill(&mut into);
    into.finish().unwrap()
}

fn pax_record(key: &str, value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let length = (1..8).map(|digits| rest + digits).find(|length| length.to_string().len() + rest == *length).unwrap();
    [format!("{length} {key}=").as_bytes(), value, b"\n"].concat()
}

fn layers() -> Vec<Layer<'static>> {
    let filling = vec![b'x'; 1 << 19];
    let pax = gzipped(|into| {
        for at in 0..400 {
            put(into, tar::EntryType::XHeader, "pax", &pax_record(&format!("SCHILY.xattr.user.k{at}"), &filling));
        }
        put(into, tar::EntryType::Regular, "x", b"");
    });
    let other_records = gzipped(|into| {
        for at in 0..300 {
            put(into, tar::EntryType::XHeader, "pax", &pax_record(&format!("comment.{at}"), &filling));
        }
        put(into, tar::EntryType::Regular, "x", b"");
    });
    let global = gzipped(|into| {
        (0..300).for_each(|_| put(into, tar::EntryType::XGlobalHeader, "pax", &pax_record("comment", &filling)));
    });
    let long_names = gzipped(|into| {
        let folders: Vec<String> = (0..15).map(|at| format!("{at:0>250}")).collect();
        for at in 0..20_000 {
            put(into, tar::EntryType::GNULongName, "name", format!("{}/{at:0>200}", folders.join("/")).as_bytes());
            put(into, tar::EntryType::Regular, "x", b"");
        }
    });
    let attributes = gzipped(|into| {
        let value = vec![b'x'; 3_000];
        for at in 0..20_000 {
            put(into, tar::EntryType::XHeader, "pax", &pax_record("SCHILY.xattr.user.a", &value));
            put(into, tar::EntryType::Regular, &format!("file{at}"), b"");
        }
    });
    let trailing = gzipped(|into| {
        put(into, tar::EntryType::Regular, "x", b"");
        std::io::copy(&mut std::io::repeat(0).take(200 << 20), into).unwrap();
    });
    // A frame that refers back by up to 1 GiB, all of which a reader would have to keep.
    let mut window = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    window.window_log(30).unwrap();
    window.long_distance_matching(false).unwrap();
    put(&mut window, tar::EntryType::Regular, "x", &vec![7; 64 << 20]);
    vec![
        ("pax records of one entry", pax, "the limit is 1 MiB"),
        ("pax records that say nothing", other_records, "the limit is 1 MiB"),
        ("global pax headers", global, "the limit is 1 MiB"),
        ("long names", long_names, "names and attributes"),
        ("attributes", attributes, "names and attributes"),
        ("what follows the archive", trailing, "follow the end"),
        ("a zstd window", window.finish().unwrap(), "too much memory"),
    ]
}

/// A file system of its own in memory, small enough to be filled; gone when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> SmallDisk {
        SmallDisk::of("size=64m,nr_inodes=2000")
    }

    fn of(bounds: &str) -> SmallDisk {
        let folder = tempfile::tempdir().unwrap();
        let options = ["-t", "tmpfs", "-o", bounds, "tare-test"];
        assert!(Command::new("mount").args(options).arg(folder.path()).status().unwrap().success());
        SmallDisk(folder)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn an_image_that_is_larger_than_the_disk_leaves_room_on_it() {
    let Some(()) = tare_testkit::needs::root() else { return };
    let large = gzipped(|into| put(into, tar::EntryType::Regular, "x", &vec![0; 62 << 20]));
    let many = gzipped(|into| {
        (0..3_000).for_each(|at| put(into, tar::EntryType::Regular, &format!("file{at}"), b""));
    });
    // A compressed archive of an image is decompressed first.
    let mut archive = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    put(&mut archive, tar::EntryType::Regular, "blob", &vec![0; 200 << 20]);
    let archive = archive.finish().unwrap();
    for (layer, wanted) in
        [(Some(large), "62 MiB more are needed"), (Some(many), "inodes are free"), (None, "4 MiB more are needed")]
    {
        let disk = SmallDisk::mount();
        let elsewhere = tempfile::tempdir().unwrap();
        let image = elsewhere.path().join("image");
        match layer {
            Some(layer) => image_of(&image, &layer),
            None => std::fs::write(&image, &archive).unwrap(),
        }
        let store = Store::open(&disk.0.path().join("store")).unwrap();
        let fault = store.bundle(&recipe(&image)).err().unwrap();
        println!("{fault}");
        assert!(fault.message.contains(wanted) && fault.message.contains("kept free"), "{fault}");
        assert!(fault.remedy.contains("TARE_HOME") && !fault.mistake, "{fault}");
        let building = std::fs::read_dir(disk.0.path().join("store/building")).unwrap();
        assert_eq!(building.count(), 0, "what was unpacked is gone again");
    }
}

/// A registry whose image has no end.
struct Endless(Arc<AtomicU64>);

impl PullImage for Endless {
    fn pull(&self, _: &str, into: &mut dyn Write) -> Result<(), Fault> {
        let piece = [0; 1 << 16];
        loop {
            into.write_all(&piece).doing("save the image")?;
            self.0.fetch_add(piece.len() as u64, Ordering::Relaxed);
        }
    }
}

#[test]
fn an_image_without_end_from_a_registry_leaves_room_on_the_disk() {
    let Some(()) = tare_testkit::needs::root() else { return };
    let (disk, written) = (SmallDisk::mount(), Arc::new(AtomicU64::new(0)));
    let root = disk.0.path().join("store");
    let store = Store::open(&root).unwrap().with_puller(Box::new(Endless(written.clone())));
    let fault = store.bundle(&recipe(Path::new("registry.example/endless"))).err().unwrap();
    assert!(fault.message.contains("4 MiB more are needed") && fault.message.contains("kept free"), "{fault}");
    assert!(fault.remedy.contains("TARE_HOME") && !fault.mistake, "{fault}");
    let written = written.load(Ordering::Relaxed) >> 20;
    assert!((50..61).contains(&written), "{written} MiB of 64 were written, and 3 are kept free");
    assert_eq!(std::fs::read_dir(root.join("building")).unwrap().count(), 0, "what was written is gone again");
}

/// An OCI layout folder with one layer.
fn image_of(folder: &Path, layer: &[u8]) {
    image_of_layers(folder, &[layer]);
}

/// An OCI layout folder with these layers.
fn image_of_layers(folder: &Path, layers: &[&[u8]]) {
    let blobs = folder.join("blobs/sha256");
    std::fs::create_dir_all(&blobs).unwrap();
    let add = |bytes: &[u8]| {
        std::fs::write(blobs.join(digest(bytes)), bytes).unwrap();
        format!("{{\"digest\": \"sha256:{}\"}}", digest(bytes))
    };
    let config =
        add(format!("{{\"architecture\": \"{}\", \"os\": \"linux\"}}", crate::images::architecture()).as_bytes());
    let layers = layers.iter().map(|layer| add(layer)).collect::<Vec<_>>().join(", ");
    let manifest = add(format!("{{\"layers\": [{layers}], \"config\": {config}}}").as_bytes());
    std::fs::write(folder.join("index.json"), format!("{{\"manifests\": [{manifest}]}}")).unwrap();
}

/// The most memory that this process has had, MiB.
fn resident_at_most() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

/// Unpacks an image, and says why not, and what it took.
fn unpack(image: &Path) {
    let store = Store::open(&image.with_extension("store")).unwrap();
    let told = store.bundle(&recipe(image)).err().map_or_else(String::new, |fault| fault.to_string());
    println!("told: {told}\nresident: {}", resident_at_most());
}

/// By itself, or as the process that unpacks for it, or for the test below.
#[test]
fn hostile_layers_stay_small_in_memory() {
    if let Ok(image) = std::env::var(IMAGE) {
        return unpack(Path::new(&image));
    }
    for (name, layer, wanted) in layers() {
        assert!(layer.len() < 2_700_000, "{name}: {} bytes", layer.len());
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        image_of(&image, &layer);
        let (told, resident) = unpacked_apart(&image);
        println!("{name}: {} bytes, {resident} MiB, {told}", layer.len());
        assert!(told.contains(wanted), "{name}: {told}");
        assert!(resident < RESIDENT_MAX_MIB, "{name}: {resident} MiB");
    }
}

/// Unpacks an image in a process of its own: what it says against it, and the most memory that it has had, MiB.
fn unpacked_apart(image: &Path) -> (String, u64) {
    let arguments = ["memory::hostile_layers_stay_small_in_memory", "--exact", "--nocapture"];
    let output = Command::new(std::env::current_exe().unwrap()).args(arguments).env(IMAGE, image).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let of = |key: &str| said.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_else(|| panic!("{said}"));
    (of("told: ").to_owned(), of("resident: ").parse().unwrap())
}

/// Layers with about a million entries, as many as an image may have, in the shape that was found to want the most
/// memory: folders in one folder, all of which the layer above hides. The first one is large enough for so many.
fn of_a_million_entries() -> [Vec<u8>; 2] {
    let mut seed = 1_u64;
    let noise = std::iter::repeat_with(|| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed.to_le_bytes()
    });
    let noise: Vec<u8> = noise.take(4 << 20).flatten().collect();
    let hidden = gzipped(|into| {
        put(into, tar::EntryType::Regular, "noise", &noise);
        (0..490_000).for_each(|at| put(into, tar::EntryType::Directory, &format!("a/{at:0>30}"), b""));
    });
    let hides = gzipped(|into| {
        (0..490_000).for_each(|at| put(into, tar::EntryType::Regular, &format!("b{at:0>30}"), b""));
        put(into, tar::EntryType::Regular, ".wh..wh..opq", b"");
    });
    [hidden, hides]
}

#[test]
fn an_image_of_a_million_entries_takes_little_memory() {
    let Some(()) = tare_testkit::needs::root() else { return };
    let disk = SmallDisk::of("size=4g,nr_inodes=2000000");
    let image = disk.0.path().join("image");
    image_of_layers(&image, &of_a_million_entries().each_ref().map(Vec::as_slice));
    let (told, resident) = unpacked_apart(&image);
    println!("{resident} MiB, {told}");
    assert_eq!(told, "");
    assert!(resident < RESIDENT_MAX_MIB, "{resident} MiB");
}
