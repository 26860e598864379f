//! `tare bundle`: builds, lists, shows and removes the root filesystems of services.

use crate::images::named_image;
use crate::kept::forget_bundle;
use crate::terminal::{columns, note, print, tell};
use crate::{EXIT_OK, files, machine, paths, session};
use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use tare_bundle::{BundleInfo, BundleListing, Store};
use tare_core::bundle::{Recipe, Source};
use tare_core::fault::Fault;
use tare_core::units::show_bytes;
use tare_layers::{engine_name, home};
use tare_report::{paragraph, whole};

/// See `Verb::Bundle`.
#[derive(Debug, Args)]
pub(crate) struct BundleArgs {
    #[command(subcommand)]
    verb: BundleVerb,
}

#[derive(Debug, Subcommand)]
enum BundleVerb {
    /// Build a bundle, or find the one already built
    Build(BundleBuildArgs),
    /// List the bundles
    List {
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show one bundle
    Show {
        /// Digest of the bundle, or the beginning of it
        digest: String,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove bundles
    Rm {
        /// Digests of the bundles, or the beginnings of them
        #[arg(required = true)]
        digests: Vec<String>,
    },
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("source").required(true).multiple(false)))]
// The usage that clap derives from the group is wider than a terminal.
#[command(override_usage = "tare bundle build [OPTIONS] <--packages|--image|--folder|--workload> ...")]
struct BundleBuildArgs {
    /// Debian packages, with their dependencies
    #[arg(long, group = "source", num_args = 1.., value_name = "PACKAGE")]
    packages: Vec<String>,
    /// An OCI image: archive, layout folder, `docker save` output, a registry reference, or
    /// `docker-daemon:NAME[:TAG]` for one that the engine on this machine has
    #[arg(long, group = "source", value_name = "IMAGE")]
    image: Option<String>,
    /// A folder
    #[arg(long, group = "source", value_name = "DIR")]
    folder: Option<PathBuf>,
    /// The bundles of a workload, named by its folder or its name in workloads/
    #[arg(long, group = "source", value_name = "WORKLOAD")]
    workload: Option<String>,
    /// Also emit the bundle in these shapes
    #[arg(long, value_enum, value_delimiter = ',')]
    emit: Vec<Emission>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Emission {
    Directory,
    Archive,
    Disk,
}

pub(crate) fn bundle(args: &BundleArgs) -> Result<u8> {
    match &args.verb {
        BundleVerb::Build(args) => build(args)?,
        BundleVerb::List { json } => list(*json)?,
        BundleVerb::Show { digest, json } => show(digest, *json)?,
        BundleVerb::Rm { digests } => remove(digests)?,
    }
    Ok(EXIT_OK)
}

fn build(args: &BundleBuildArgs) -> Result<()> {
    session::require_root("bundle build")?;
    let mut recipes = Vec::new();
    let plain = |source| Recipe::plain(source);
    if let Some(name) = &args.workload {
        let workload = files::find_workload(name, None)?;
        recipes.extend(workload.services.into_iter().map(|service| service.recipe));
    } else if let Some(image) = &args.image {
        if !image.contains('/') && engine_name(image).is_none() && std::path::Path::new(image).exists() {
            note(&format!("fetching '{image}' from a registry; for the file of that name, write ./{image}"));
        }
        recipes.push(plain(Source::Image(image_to_build(image)?)));
    } else if let Some(folder) = &args.folder {
        recipes.push(plain(Source::Folder(folder.canonicalize().unwrap_or_else(|_| folder.clone()))));
    } else {
        recipes.push(plain(Source::Packages(args.packages.clone())));
    }
    let carrier = machine::carrier()?;
    for recipe in &recipes {
        let bundle = carrier.bundles.bundle(recipe)?;
        print(bundle.digest());
        for emission in &args.emit {
            let path = match emission {
                Emission::Directory => bundle.directory()?,
                Emission::Archive => bundle.archive()?,
                Emission::Disk => bundle.disk()?,
            };
            print(&format!("  {}", path.display()));
        }
    }
    Ok(())
}

/// The image as its bundle names it; the path of a file stays as it was typed.
fn image_to_build(image: &str) -> Result<String, Fault> {
    if engine_name(image).is_some() { named_image(image) } else { Ok(image.to_owned()) }
}

fn list(json: bool) -> Result<()> {
    home::look()?;
    let bundles = Store::open(&paths::bundles())?.list()?;
    if json {
        print(&serde_json::to_string_pretty(&bundles)?);
        return Ok(());
    }
    if bundles.is_empty() {
        tell("no bundles yet; `tare run` builds those that it needs, `tare bundle build` builds one ahead of time");
    }
    for info in &bundles {
        print(&line(info, columns(std::io::stdout())));
    }
    Ok(())
}

/// A line of the list: digest, size and recipe of a bundle.
fn line(info: &BundleInfo, width: usize) -> String {
    let short = info.digest.get(..19).unwrap_or(&info.digest);
    paragraph(&format!("{short}  {:>9}  ", show_bytes(info.tree_bytes)), 32, &info.recipe, width)
}

fn show(digest: &str, json: bool) -> Result<()> {
    home::look()?;
    let details = Store::open(&paths::bundles())?.show(digest)?;
    let width = columns(std::io::stdout());
    print(&if json { serde_json::to_string_pretty(&details)? } else { page(&details, width) });
    Ok(())
}

/// The facts of a bundle, then its files in the style of `ls -l`.
fn page(listing: &BundleListing, width: usize) -> String {
    let info = &listing.info;
    let mut text = format!("{}\n", info.digest);
    let mut say = |label: &str, line: &str| text.push_str(&paragraph(&format!("{label:10}"), 10, line, width));
    say("made of:", &info.recipe);
    say("tree:", &format!("{} in {} entries", show_bytes(info.tree_bytes), info.tree_entries));
    say("at:", &whole(&listing.directory.display().to_string()));
    for (number, package) in listing.packages.iter().enumerate() {
        say(if number == 0 { "packages:" } else { "" }, package);
    }
    if let Some(image) = &listing.image {
        say("image:", &format!("starts {:?} {:?}", image.entrypoint, image.command));
        let (ports, volumes) = (image.ports.join(", "), image.volumes.join(", "));
        let more = [
            ("as", &image.user),
            ("in", &image.directory),
            ("ports", &ports),
            ("volumes", &volumes),
            ("ends by", &image.stop_signal),
        ];
        more.iter().filter(|(_, text)| !text.is_empty()).for_each(|(what, text)| say("", &format!("{what} {text}")));
    }
    if !listing.left_out.is_empty() {
        say("left out:", &format!("devices {}", listing.left_out.join(", ")));
    }
    text.push('\n');
    for file in &listing.files {
        let owner = format!("{}:{}", file.owner.0, file.owner.1);
        text.push_str(&format!("{} {owner:>11} {:>10}  {}\n", file.mode, file.bytes, file.path));
    }
    text
}

fn remove(digests: &[String]) -> Result<()> {
    session::require_root("bundle rm")?;
    home::look()?;
    let store = Store::open(&paths::bundles())?;
    for prefix in digests {
        let digest = store.show(prefix)?.info.digest;
        store.remove(&digest)?;
        forget_bundle(&digest);
        print(&format!("removed {digest}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_core::image::ImageConfig;

    #[test]
    fn facts_of_a_bundle_fit_into_eighty_columns() {
        let info = BundleInfo {
            digest: format!("sha256:{}", "0123456789abcdef".repeat(4)),
            recipe: "Debian packages redis-server, redis-tools, ca-certificates, iproute2, strace, procps".into(),
            tree_bytes: 123 << 20,
            tree_entries: 4321,
            archive_bytes: None,
            disk_bytes: None,
            built_at: 0,
            used_at: 0,
        };
        let text = line(&info, 80);
        assert!(text.starts_with("sha256:0123456789ab    123 MiB  Debian packages redis-server,"), "{text}");
        assert!(text.lines().count() > 1 && text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let listing = BundleListing {
            info,
            directory: "/var/lib/tare/bundles/0123".into(),
            packages: vec!["redis-server 7.0 amd64".into(), "libc6 2.36 amd64".into()],
            image: Some(ImageConfig {
                command: vec!["/x".into(), "y".into()],
                directory: "/data".into(),
                ports: vec!["53/udp".into(), "80/tcp".into()],
                ..ImageConfig::default()
            }),
            left_out: vec!["/dev/sda".into(), "/x".into()],
            files: Vec::new(),
        };
        let text = page(&listing, 80);
        assert!(
            text.contains("image:    starts [] [\"/x\", \"y\"]\n          in /data\n          ports 53/udp, 80/tcp\n")
        );
        assert!(text.contains("packages: redis-server 7.0 amd64\n          libc6 2.36 amd64\n"), "{text}");
        assert!(text.contains("left out: devices /dev/sda, /x\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
