//! What is delivered, whatever it is packed into: a tree with `bin` and `share`, as it stands below `/usr`.

use crate::archive::compressed;
use crate::compile::{Metadata, git, time};
use crate::tree::Tree;
use crate::{licences, output_of};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Where documents and licences stand.
pub(crate) const DOCUMENTS: &str = "share/doc/tare";
/// Where zsh looks for completions in a prefix such as `/usr/local`.
pub(crate) const ZSH_COMPLETIONS: &str = "share/zsh/site-functions";
/// The licences of what is linked.
pub(crate) const THIRD_PARTY: &str = "share/doc/tare/THIRD-PARTY.txt";

/// What is delivered, and what each kind of package has to know of it.
pub(crate) struct Release {
    /// Below a prefix, as below `/usr`.
    pub(crate) tree: Tree,
    /// The version, such as `0.1.0`.
    pub(crate) version: &'static str,
    /// The processor, as the platform names it: `x86_64`.
    pub(crate) processor: String,
    /// What the program says of its version.
    pub(crate) told: String,
    /// The time of everything, in seconds since 1970.
    pub(crate) time: u64,
    /// Whether little is to be compressed.
    pub(crate) quick: bool,
}

impl Release {
    /// Collects it: the program and what it says of itself, and the files that git tracks.
    pub(crate) fn of(root: &Path, binary: &Path, metadata: &Metadata, quick: bool) -> Result<Release> {
        let version = env!("CARGO_PKG_VERSION");
        let binary = fs::canonicalize(binary).with_context(|| format!("there is no program {}", binary.display()))?;
        let says = |arguments: &[&str]| output_of(Command::new(&binary).args(arguments));
        let told = String::from_utf8(says(&["--version"])?)?.trim().to_owned();
        let is_it = told.strip_prefix("tare ").and_then(|rest| rest.split(' ').next()) == Some(version);
        ensure!(is_it, "{} is not tare {version}: it says '{told}'", binary.display());

        let mut tree = Tree::default();
        tree.program("bin/tare", fs::read(&binary)?);
        let pages = tempfile::tempdir()?;
        let folder = pages.path().to_str().context("the folder for temporary files has no plain name")?;
        says(&["man", folder])?;
        for page in fs::read_dir(pages.path())? {
            let page = page?;
            let name = page.file_name().to_string_lossy().into_owned();
            tree.file(&format!("share/man/man1/{name}.gz"), compressed(&fs::read(page.path())?, 9)?);
        }
        tree.file("share/bash-completion/completions/tare", says(&["completions", "bash"])?);
        tree.file(&format!("{ZSH_COMPLETIONS}/_tare"), says(&["completions", "zsh"])?);
        tree.file("share/fish/vendor_completions.d/tare.fish", says(&["completions", "fish"])?);
        let tracked = git(root, &["ls-files", "-z", "--stage", "workloads", "studies", "*.md", "LICENSE-*"])?;
        for line in tracked.split_terminator('\0') {
            let (kind, path) = line.split_once('\t').context("git ls-files names no path")?;
            let at = match path.starts_with("workloads/") || path.starts_with("studies/") {
                true => format!("share/tare/{path}"),
                // Documents of crates are for who reads their source.
                false if path.contains('/') && !path.starts_with("docs/") => continue,
                false => format!("{DOCUMENTS}/{path}"),
            };
            let content = fs::read(root.join(path)).with_context(|| format!("could not read {path}"))?;
            // Git knows one bit of the mode; the others are whatever its user's mask left.
            if kind.starts_with("100755") { tree.program(&at, content) } else { tree.file(&at, content) }
        }
        tree.file(THIRD_PARTY, licences::third_party(&metadata.all)?.into_bytes());
        let processor = metadata.triple.split('-').next().unwrap_or_default().to_owned();
        Ok(Release { tree, version, processor, told, time: time(root)?, quick })
    }

    /// What the names of files begin with: `tare-0.1.0-x86_64`.
    pub(crate) fn name(&self) -> String {
        format!("tare-{}-{}", self.version, self.processor)
    }

    /// What Debian and images call the processor.
    pub(crate) fn architecture(&self) -> &str {
        match self.processor.as_str() {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        }
    }

    /// How much gzip is to compress.
    pub(crate) fn level(&self) -> u32 {
        if self.quick { 1 } else { 9 }
    }
}
