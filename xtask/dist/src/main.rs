//! What is released: a tarball, a Debian package and an image, of one static program and the data that comes along.
//!
//! The same commit, compiler and C library make the same bytes, wherever the checkout stands and whoever builds it:
//! names are sorted, owners are root, times are the commit's, and no path of the machine gets into the program.

mod archive;
mod compile;
mod deb;
mod image;
mod licences;
mod shipped;
mod tarball;
mod tree;

use anyhow::{Context, Result, ensure};
use clap::{Parser, ValueEnum};
use sha2::{Digest, Sha256};
use shipped::Release;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Makes what is released: a tarball, a Debian package and an OCI image of one static program, its manual pages,
/// completions, workloads and studies; and SHA256SUMS over them. The same commit, compiler and C library make the same
/// bytes; for the Debian package, the same dpkg-deb and xz too. Needs no root.
#[derive(Parser)]
#[command(name = "cargo xtask dist", bin_name = "cargo xtask dist", max_term_width = 80, after_help = NOTES)]
struct Options {
    /// Write to this directory instead of target/dist
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Package this program instead of building one; then files may differ from the commit
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Make only this kind; may be repeated
    #[arg(long, value_enum, value_name = "KIND")]
    only: Vec<Kind>,
    /// Compress little and, without --binary, do not optimise: for a look, and for tests
    #[arg(long)]
    quick: bool,
    /// Release this checkout instead of the one in which this command was built
    #[arg(long, value_name = "DIR")]
    checkout: Option<PathBuf>,
}

const NOTES: &str = "\
The time of everything is the commit's, or SOURCE_DATE_EPOCH. The program is built in a folder of its own, with none of \
the environment's flags for compilers; that takes minutes. Look at it:

  tar -tzf target/dist/tare-*.tar.gz
  dpkg-deb --info target/dist/tare_*.deb
  docker load --input target/dist/tare-*-image.tar";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// bin/ and share/, to be unpacked anywhere
    Tarball,
    /// A package for Debian and Ubuntu
    Deb,
    /// An OCI layout in an archive, which docker load reads too
    Image,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<()> {
    let root = match &options.checkout {
        Some(path) => fs::canonicalize(path).with_context(|| format!("there is no checkout {}", path.display()))?,
        None => root(),
    };
    let metadata = compile::metadata(&root)?;
    let binary = match &options.binary {
        Some(path) => path.clone(),
        None => compile::release(&root, &metadata, options.quick)?,
    };
    let release = Release::of(&root, &binary, &metadata, options.quick)?;
    let out = options.out.clone().unwrap_or(metadata.target.join("dist"));
    fs::create_dir_all(&out).with_context(|| format!("could not make {}", out.display()))?;
    let mut sums = String::new();
    for kind in Kind::value_variants() {
        if !options.only.is_empty() && !options.only.contains(kind) {
            continue;
        }
        let (name, bytes) = match kind {
            Kind::Tarball => tarball::tarball(&release)?,
            Kind::Deb => deb::package(&release)?,
            Kind::Image => image::image(&release)?,
        };
        sums += &format!("{}  {name}\n", hexadecimal(&Sha256::digest(&bytes)));
        write(&out, &name, &bytes)?;
    }
    write(&out, "SHA256SUMS", sums.as_bytes())?;
    print!("{sums}");
    println!("{} in {}", release.told, out.display());
    Ok(())
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    let path = folder.join(name);
    fs::write(&path, bytes).with_context(|| format!("could not write {}", path.display()))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The folder of the workspace: where this program was built from.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// The output of a command that must succeed.
fn output_of(command: &mut Command) -> Result<Vec<u8>> {
    let program = command.get_program().display().to_string();
    let output = command.output().with_context(|| format!("could not run {program}"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} failed: {}", complaint.trim());
    Ok(output.stdout)
}
