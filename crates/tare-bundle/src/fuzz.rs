//! What must bear any bytes: archives, images and their documents. The table makes a test of each for the gate;
//! `cargo xtask fuzz` runs them for as long as one likes.

use crate::digest;
use crate::image;
use crate::needs::{Needs, needs};
use crate::packages;
use crate::unpack::compression;
use crate::unpack::layer::Assembly;
use crate::unpack::rooted::Rooted;
use crate::unpack::tarball::Tarball;
use sha2::{Digest, Sha256};
use std::io::{Cursor, Read};
use std::path::Path;
use tar::{EntryType, Header};
use tare_core::fault::{Doing, Fault};

hostile::targets! {
    tar { made: archives, words: TAR, cases: 800 }
    layers { made: archives, words: TAR, cases: 300 }
    image { samples: &[OCI, OCI_INDEX, SAVED], words: DOCUMENTS, cases: 400 }
    image_archive { made: image_archives, words: TAR, cases: 300 }
    compressed { made: compressed_archives, cases: 400, memory: 64 << 20 }
    starts { made: programs, words: STARTS }
    maintainers { samples: &[SCRIPTS.as_bytes()], words: MAINTAINERS }
}

const BLOCK: usize = 512;

/// An archive's entries, and what kept it from being read further.
type Entries = (Vec<String>, Option<String>);

/// Any archive: in pieces, whole and by seeking it comes to the same.
pub fn tar(bytes: &[u8]) {
    for bytes in [bytes.to_vec(), believable(bytes)] {
        let whole = entries(Tarball::new(&bytes[..]));
        assert_eq!(entries(Tarball::new(InPieces(&bytes))), whole);
        let mut seeking = Tarball::new(Cursor::new(&bytes));
        let mut found = Vec::new();
        while let Ok(Some(item)) = seeking.next_seeking() {
            found.push(format!("{item:?}"));
        }
        if whole.1.is_none() {
            assert_eq!(found.len(), whole.0.len());
        }
        let same = whole.0.iter().zip(&found).filter(|(entry, found)| entry.starts_with(found.as_str())).count();
        assert_eq!(same, whole.0.len(), "{:#?}\n{found:#?}", whole.0);
    }
}

fn entries<R: Read>(mut tarball: Tarball<R>) -> Entries {
    let mut found = Vec::new();
    loop {
        match tarball.next() {
            Ok(None) => return (found, None),
            Err(fault) => {
                assert!(!fault.message.is_empty());
                return (found, Some(fault.message));
            }
            Ok(Some(item)) => {
                let mut hash = Sha256::new();
                let copied = std::io::copy(&mut tarball, &mut Hashing(&mut hash)).expect("memory can be read");
                found.push(format!("{item:?} {copied} {}", digest::named(hash)));
            }
        }
    }
}

struct Hashing<'h>(&'h mut Sha256);

impl std::io::Write for Hashing<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Reads one to seven bytes at a time.
struct InPieces<'b>(&'b [u8]);

impl Read for InPieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let piece = (1 + self.0.len() % 7).min(buffer.len());
        self.0.read(&mut buffer[..piece])
    }
}

/// The same archive with the checksum of each header put right, as far as headers are found: a damage that nobody
/// notices.
fn believable(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while let Some(block) = bytes.get_mut(at..at + BLOCK).filter(|block| block.iter().any(|byte| *byte != 0)) {
        let mut header = Header::from_byte_slice(block).clone();
        header.set_cksum();
        block.copy_from_slice(header.as_bytes());
        let Some(size) = header.entry_size().ok().and_then(|size| usize::try_from(size).ok()) else { break };
        let Some(next) = size.checked_next_multiple_of(BLOCK).and_then(|size| at.checked_add(BLOCK + size)) else {
            break;
        };
        at = next;
    }
    bytes
}

/// Runs something in a folder `tree` beside which stands another with a file in it: nothing but the tree may change.
fn nothing_outside(run: impl FnOnce(&Path, &Path)) {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let path = folder.path();
    for name in ["tree", "outside", "work"] {
        std::fs::create_dir(path.join(name)).expect("it is ours");
    }
    std::fs::write(path.join("outside/kept"), "kept").expect("it is ours");
    run(&path.join("tree"), &path.join("work"));
    let names = |path: &Path| std::fs::read_dir(path).expect("it is there").count();
    assert_eq!((names(path), names(&path.join("outside"))), (3, 1), "something was made outside of the tree");
    assert_eq!(std::fs::read(path.join("outside/kept")).expect("it is there"), b"kept");
}

/// Any two archives, cut from one, as the layers of a tree.
pub fn layers(bytes: &[u8]) {
    let bytes = believable(bytes);
    let cut = (bytes.len() / 2).next_multiple_of(BLOCK).min(bytes.len());
    nothing_outside(|tree, _| {
        let unpacked = || -> Result<(), Fault> {
            let mut assembly = Assembly::new(Rooted::open(tree)?);
            assembly.apply(&bytes[..], &|_| false)?;
            assembly.apply(&bytes[cut..], &|_| false)?;
            assembly.finish()
        };
        if let Err(fault) = unpacked() {
            assert!(!fault.message.is_empty());
        }
    });
}

/// Any stream that begins as a compressed one does: in pieces it comes to the same.
pub fn compressed(bytes: &[u8]) {
    let read = |reader: &mut dyn Read| -> Result<Vec<u8>, Fault> {
        let mut plain = Vec::new();
        let reader = compression::plain(reader, compression::LAYER_WINDOW_LOG)?;
        let whole = reader.take(1 << 20).read_to_end(&mut plain).doing("read it");
        whole.map(|_| plain)
    };
    match (read(&mut &bytes[..]), read(&mut InPieces(bytes))) {
        (Ok(whole), Ok(pieces)) => assert_eq!(whole, pieces),
        (Err(whole), Err(_)) => assert!(!whole.message.is_empty()),
        (whole, pieces) => panic!("whole {whole:?}, in pieces {pieces:?}"),
    }
}

/// Any file as a program that a service starts.
pub fn starts(bytes: &[u8]) {
    let mut file = tempfile::tempfile().expect("there is room for a file");
    std::io::Write::write_all(&mut file, bytes).expect("there is room for it");
    std::io::Seek::rewind(&mut file).expect("it is a file");
    match needs(&mut file) {
        Ok(Needs::Interpreter(other)) => assert!(!other.is_empty() && other.len() <= 3 * 256, "{other:?}"),
        Ok(Needs::Loader(other)) => assert!(other.len() <= 3 * 4096, "{} bytes", other.len()),
        Ok(Needs::Nothing) => {}
        Err(why) => assert!(why.starts_with("is "), "{why}"),
    }
}

/// Any text as what a hook of packages tells, with their scripts, and as a list of where packages come from.
pub fn maintainers(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    packages::chew(&text);
}

/// The documents of an image, with a zero byte between them: an index or the list of `docker save`, then others, which
/// are named by the number of their place, as in `@1`. `@L` is a layer that is in order.
pub fn image(bytes: &[u8]) {
    let documents: Vec<&[u8]> = bytes.splitn(6, |byte| *byte == 0).collect();
    nothing_outside(|tree, work| {
        let image = work.join("image");
        std::fs::create_dir_all(image.join("blobs/sha256")).expect("it is ours");
        let mut names = vec![("@L".to_owned(), stored(&image, &archive(&[entry(EntryType::Regular, "f", "")])))];
        for (number, document) in documents.iter().enumerate().skip(1).rev() {
            names.push((format!("@{number}"), stored(&image, &named(document, &names))));
        }
        let first = named(documents[0], &names);
        let file = if first.starts_with(b"[") { "manifest.json" } else { "index.json" };
        std::fs::write(image.join(file), first).expect("it is ours");
        build(&image, work, tree);
    });
}

/// Stores a part under its digest, which is returned.
fn stored(image: &Path, bytes: &[u8]) -> String {
    let digest = digest::named(Sha256::new().chain_update(bytes));
    let name = digest.strip_prefix("sha256:").expect("it is named so");
    std::fs::write(image.join("blobs/sha256").join(name), bytes).expect("it is ours");
    digest
}

fn named(document: &[u8], names: &[(String, String)]) -> Vec<u8> {
    let text = String::from_utf8_lossy(document).into_owned();
    names.iter().fold(text, |text, (name, digest)| text.replace(name.as_str(), digest)).into_bytes()
}

fn build(image: &Path, work: &Path, tree: &Path) {
    let built = Rooted::open(tree).map(Assembly::new).and_then(|mut assembly| {
        image::build(image, work, &mut assembly)?;
        assembly.finish()
    });
    if let Err(fault) = built {
        assert!(!fault.message.is_empty());
    }
}

/// Any archive as that of an image.
pub fn image_archive(bytes: &[u8]) {
    nothing_outside(|tree, work| {
        let file = work.join("image");
        std::fs::write(&file, believable(bytes)).expect("it is ours");
        build(&file, work, tree);
    });
}

/// An entry: what it is, its path, where it leads, what is in it.
type Made = (EntryType, Vec<u8>, Vec<u8>, Vec<u8>);

fn entry(kind: EntryType, path: &str, link: &str) -> Made {
    let content: &[u8] = if kind == EntryType::Regular { b"content" } else { b"" };
    (kind, path.into(), link.into(), content.to_vec())
}

/// An archive of these entries; of a path too long for a header it has the beginning.
pub(crate) fn archive(entries: &[Made]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (kind, path, link, content) in entries {
        let mut header = Header::new_ustar();
        header.set_entry_type(*kind);
        header.set_mode(0o755);
        header.set_uid(u64::from(rustix::process::geteuid().as_raw()));
        header.set_gid(u64::from(rustix::process::getegid().as_raw()));
        header.set_mtime(7);
        header.set_size(content.len() as u64);
        let path = &path[..path.len().min(100)];
        header.as_mut_bytes()[..path.len()].copy_from_slice(path);
        header.as_mut_bytes()[157..157 + link.len()].copy_from_slice(link);
        header.set_cksum();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(content);
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    }
    bytes.resize(bytes.len() + 2 * BLOCK, 0);
    bytes
}

/// Archives of every kind of entry.
fn archives() -> Vec<Vec<u8>> {
    use EntryType::{Directory, Fifo, GNULongName, Link, Regular, Symlink, XHeader};
    let with = |kind, path: &str, content: &[u8]| (kind, path.into(), Vec::new(), content.to_vec());
    vec![
        archive(&[
            entry(Directory, "a/", ""),
            entry(Regular, "a/f", ""),
            entry(Link, "a/g", "a/f"),
            entry(Symlink, "l", "a"),
        ]),
        archive(&[entry(Symlink, "x", "../outside"), entry(Regular, "x/evil", ""), entry(Fifo, "p", "")]),
        archive(&[entry(Regular, "a/.wh.b", ""), entry(Regular, "a/.wh..wh..opq", ""), entry(Regular, "a/new", "")]),
        archive(&[with(GNULongName, "././@LongLink", &[b'n'; 300]), entry(Regular, "n", "")]),
        archive(&[
            with(XHeader, "pax", b"12 path=a/b\n28 SCHILY.xattr.user.x=\x00\xff\n\n11 mtime=9\n"),
            entry(Regular, "n", ""),
        ]),
    ]
}

/// Images as archives: an OCI layout, and what `docker save` once wrote.
/// As gzip and zstd write it, in one piece and in several, with a frame that is skipped, and cut off.
fn compressed_archives() -> Vec<Vec<u8>> {
    let plain = archive(&[entry(EntryType::Regular, "f", "")]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, &plain).expect("memory takes everything");
    let gzip = gzip.finish().expect("memory takes everything");
    let zstd = zstd::stream::encode_all(&plain[..], 1).expect("memory takes everything");
    let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 9, 9, 9, 9], &zstd[..]].concat();
    let (twice, cut) = ([&gzip[..], &gzip].concat(), zstd[..zstd.len() / 2].to_vec());
    vec![plain, gzip, zstd, skipped, twice, cut, b"\xfd7zXZ\0".to_vec(), b"BZh91AY".to_vec()]
}

/// Scripts, and a program with one part, which names a loader.
fn programs() -> Vec<Vec<u8>> {
    let mut linked = b"\x7fELF\x02\x01\x01".to_vec();
    linked.resize(64 + 56, 0);
    linked[18] = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    (linked[32], linked[54], linked[56]) = (64, 56, 1);
    (linked[64], linked[64 + 8], linked[64 + 32]) = (3, 120, 7);
    linked.extend(b"/lib/x\0");
    vec![linked, b"#! /bin/bash -e\nexec x\n".to_vec(), b"#!/bin/sh\r\n".to_vec(), b"#!".to_vec()]
}

fn image_archives() -> Vec<Vec<u8>> {
    let layer = archive(&[entry(EntryType::Regular, "f", "")]);
    let digest = |bytes: &[u8]| digest::named(Sha256::new().chain_update(bytes));
    let part = |name: &str, bytes: &[u8]| (EntryType::Regular, name.into(), Vec::new(), bytes.to_vec());
    let blob = |bytes: &[u8]| part(&format!("blobs/sha256/{}", digest(bytes).trim_start_matches("sha256:")), bytes);
    let config = b"{\"config\": {\"Cmd\": [\"/x\"], \"Env\": null}}".to_vec();
    let manifest = format!(
        "{{\"layers\": [{{\"digest\": \"{}\"}}], \"config\": {{\"digest\": \"{}\"}}}}",
        digest(&layer),
        digest(&config)
    );
    let index = format!("{{\"manifests\": [{{\"digest\": \"{}\"}}]}}", digest(manifest.as_bytes()));
    let oci = [part("index.json", index.as_bytes()), blob(manifest.as_bytes()), blob(&config), blob(&layer)];
    let diff = format!("{{\"rootfs\": {{\"diff_ids\": [\"{}\"]}}}}", digest(&layer));
    let list = b"[{\"Config\": \"c.json\", \"Layers\": [\"2/layer.tar\"], \"RepoTags\": [\"x:1\"]}]";
    let saved = [
        part("manifest.json", list),
        part("c.json", diff.as_bytes()),
        part("1/layer.tar", &layer),
        entry(EntryType::Symlink, "2/layer.tar", "../1/layer.tar"),
    ];
    vec![archive(&oci), archive(&saved)]
}

const STARTS: &[&str] = &["#!", "\n", "\r\n", " ", "/bin/sh", "\u{7f}ELF", "\u{1}", "\u{3}", "\0\0\0\0", "@", "8", "x"];
const SCRIPTS: &str = "tool 1.0 amd64
#!/bin/sh
update-alternatives --install /usr/bin/tool tool /usr/bin/tool.real 10 \\
  --slave /usr/bin/other other /usr/bin/other.real
deb [signed-by=/usr/share/keyrings/a.gpg arch=amd64] http://a/debian bookworm main

Types: deb
URIs: http://a/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/a.gpg
Check-Valid-Until: no
";
const MAINTAINERS: &[&str] = &[
    "update-alternatives ",
    "--install ",
    "--slave ",
    "/usr/bin/x ",
    "x ",
    "10",
    ";",
    "\\\n",
    "\n",
    "\n\n",
    "deb ",
    "[",
    "]",
    "#",
    "signed-by=",
    "Types: deb\n",
    "URIs: ",
    "Suites: ",
    "Trusted: ",
    "Signed-By:\n ",
    ".\n",
    "BEGIN PGP",
    "Enabled: no\n",
];
const OCI: &[u8] = b"\
    {\"manifests\": [{\"mediaType\": \"application/vnd.oci.image.manifest.v1+json\", \"digest\": \"@1\",\
    \"platform\": {\"architecture\": \"amd64\", \"os\": \"linux\"}}]}\0\
    {\"layers\": [{\"digest\": \"@L\"}], \"config\": {\"digest\": \"@2\"}}\0\
    {\"architecture\": \"amd64\", \"os\": \"linux\", \"config\": {\"Entrypoint\": [\"/bin/x\"], \"Cmd\": null,\
    \"Env\": [\"A=b\"], \"User\": \"1:2\", \"WorkingDir\": \"/w\"}}";
const OCI_INDEX: &[u8] = b"{\"manifests\": [{\"digest\": \"@1\"}]}\0{\"manifests\": [{\"digest\": \"@2\"}]}\0\
    {\"layers\": [{\"digest\": \"@L\"}, {\"digest\": \"@L\"}], \"config\": {\"digest\": \"@3\"}}\0\
    {\"rootfs\": {\"diff_ids\": []}}";
const SAVED: &[u8] =
    b"[{\"Config\": \"blobs/sha256/x\", \"Layers\": [\"a/layer.tar\"], \"RepoTags\": null}]\0{\"rootfs\": {}}";
const DOCUMENTS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "null",
    "\"manifests\"",
    "\"layers\"",
    "\"config\"",
    "\"digest\"",
    "\"@1\"",
    "\"@2\"",
    "\"@L\"",
    "\"sha256:\"",
    "\"platform\"",
    "\"architecture\"",
    "\"os\"",
    "\"\"",
    "0",
    "\0",
    "\"Entrypoint\"",
    "\"Cmd\"",
    "\"\u{e9}\"",
    "\"../../etc/passwd\"",
    "\"rootfs\"",
    "\"diff_ids\"",
    "@3",
    "\"Layers\"",
    "\"RepoTags\"",
];
const TAR: &[&str] = &[
    "..",
    "/",
    "../outside/kept",
    "a/",
    "x",
    ".wh.",
    ".wh..wh..opq",
    "ustar\u{0}00",
    "ustar  \u{0}",
    "0000777\u{0}",
    "\0",
    "77777777777\u{0}",
    "11 mtime=9\n",
    "20 size=99999999999\n",
    "path=",
    "GNU.sparse.",
    "SCHILY.xattr.user.a=",
    "5",
    "2",
    "1",
];
