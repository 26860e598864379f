//! The tarball, which is unpacked anywhere.

use crate::archive::{compressed, packed};
use crate::shipped::Release;
use anyhow::Result;

/// The name and the bytes of the tarball.
pub(crate) fn tarball(release: &Release) -> Result<(String, Vec<u8>)> {
    let name = format!("{}-linux", release.name());
    let tree = release.tree.below(&name, |path| Some(path.to_owned()));
    let archive = packed(&tree, release.time)?;
    Ok((format!("{name}.tar.gz"), compressed(&archive, release.level())?))
}
