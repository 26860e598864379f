//! `tare bundle`: the root filesystems of services.

use crate::cli::{BundleArgs, BundleBuildArgs, BundleVerb, Emission};
use crate::cmd::{clean, print};
use crate::{EXIT_OK, files, machine, paths, session};
use anyhow::Result;
use tare_bundle::{BundleInfo, BundleListing, Store};
use tare_core::bundle::{Recipe, Source};
use tare_core::units::show_bytes;

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
    let plain = |source| Recipe { source, files: Vec::new() };
    if let Some(name) = &args.workload {
        let workload = files::find_workload(name, None)?;
        recipes.extend(workload.services.into_iter().map(|service| service.recipe));
    } else if let Some(image) = &args.image {
        recipes.push(plain(Source::Image(image.clone())));
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

fn list(json: bool) -> Result<()> {
    let bundles = Store::open(&paths::bundles())?.list()?;
    if json {
        print(&serde_json::to_string_pretty(&bundles)?);
        return Ok(());
    }
    if bundles.is_empty() {
        print("no bundles yet; `tare run` builds what it needs, `tare bundle build` does so ahead of time");
    }
    for info in &bundles {
        print(&line(info));
    }
    Ok(())
}

fn line(info: &BundleInfo) -> String {
    let short = info.digest.get(..19).unwrap_or(&info.digest);
    format!("{short}  {:>9}  {}", show_bytes(info.tree_bytes), info.recipe)
}

fn show(digest: &str, json: bool) -> Result<()> {
    let details = Store::open(&paths::bundles())?.show(digest)?;
    print(&if json { serde_json::to_string_pretty(&details)? } else { page(&details) });
    Ok(())
}

/// What is known of a bundle, then its files as `ls -l` would list them.
fn page(listing: &BundleListing) -> String {
    let info = &listing.info;
    let mut lines = vec![
        format!("{}  {}", info.digest, info.recipe),
        format!("tree:     {} in {} entries", show_bytes(info.tree_bytes), info.tree_entries),
        format!("at:       {}", listing.directory.display()),
    ];
    if !listing.packages.is_empty() {
        lines.push(format!("packages: {}", listing.packages.join("\n          ")));
    }
    if let Some(image) = &listing.image {
        lines.push(format!("image:    starts {:?} {:?} as '{}'", image.entrypoint, image.command, image.user));
    }
    lines.push(String::new());
    let files = listing.files.iter();
    lines.extend(files.map(|file| {
        let owner = format!("{}:{}", file.owner.0, file.owner.1);
        format!("{} {owner:>11} {:>10}  {}", file.mode, file.bytes, file.path)
    }));
    lines.join("\n")
}

fn remove(digests: &[String]) -> Result<()> {
    session::require_root("bundle rm")?;
    let store = Store::open(&paths::bundles())?;
    for prefix in digests {
        let digest = store.show(prefix)?.info.digest;
        store.remove(&digest)?;
        clean::forget_bundle(&digest);
        print(&format!("removed {digest}"));
    }
    Ok(())
}
