//! Images from registries, fetched by the engine: it has the user's credentials, mirrors and trust.

use super::engine::{Engine, IMPORT_LIMIT};
use bollard::query_parameters::CreateImageOptionsBuilder;
use futures_util::TryStreamExt;
use std::io::Write;
use tare_core::fault::{Doing, Fault};

/// Fetches the image called `reference` and writes it to `into` in the format of `docker save`. An image that the
/// engine already has is not fetched again.
///
/// # Errors
/// When there is no engine, the registry refuses, or `into` accepts no more.
pub(super) fn pull(reference: &str, into: &mut dyn Write) -> Result<(), Fault> {
    let engine = Engine::find()?.ok_or_else(super::no_engine)?;
    if engine.call(engine.docker().inspect_image(reference)).is_err() {
        let (name, tag) = split(reference);
        let options = CreateImageOptionsBuilder::new().from_image(name).tag(tag).build();
        let progress = engine.docker().create_image(Some(options), None, None);
        let fetched = engine.call_within(IMPORT_LIMIT, progress.try_for_each(|_| async { Ok(()) }));
        fetched.map_err(|error| {
            let remedy =
                "check the name and `docker pull` it by hand; a file is named by a path that starts with '.' or '/'";
            error.doing(format!("fetch the image {reference}")).remedy(remedy)
        })?;
    }
    let doing = format!("save the image {reference}");
    let mut refused = None;
    let saved = engine.docker().export_image(reference).try_for_each(|chunk| {
        // An error of ours ends the stream, and is reported in its own words.
        refused = into.write_all(&chunk).err();
        let gone_on = if refused.is_none() { Ok(()) } else { Err(std::io::Error::other("").into()) };
        async { gone_on }
    });
    let saved = engine.call_within(IMPORT_LIMIT, saved);
    match refused {
        Some(error) => Err(error).doing(doing),
        None => saved.map_err(|error| error.doing(doing)),
    }
}

/// A reference's name and its tag, `latest` when it names none. A digest is part of the name.
fn split(reference: &str) -> (&str, &str) {
    if reference.contains('@') {
        return (reference, "");
    }
    match reference.rsplit_once(':') {
        // A colon before a slash belongs to the registry's port.
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        _ => (reference, "latest"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_split_where_its_tag_begins() {
        assert_eq!(split("redis"), ("redis", "latest"));
        assert_eq!(split("redis:7"), ("redis", "7"));
        assert_eq!(split("host:5000/redis"), ("host:5000/redis", "latest"));
        assert_eq!(split("host:5000/redis:7"), ("host:5000/redis", "7"));
        assert_eq!(split("redis@sha256:ab"), ("redis@sha256:ab", ""));
    }
}
