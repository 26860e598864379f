//! Images that the engine hands out: those that it has, and those that it fetches from registries, for it has the
//! user's credentials, mirrors and trust.

use super::engine::{Engine, IMPORT_LIMIT};
use super::inventory::{engine_image, engine_name, holder_of, pinned_id, split};
use bollard::query_parameters::CreateImageOptionsBuilder;
use futures_util::TryStreamExt;
use std::io::Write;
use tare_core::fault::{Doing, Fault};

/// Writes the image called `reference` to `into` in the format of `docker save`, and fetches it first if the engine
/// does not have it. One of [`super::EngineImage::pinned`] is never fetched, and is found by its ID.
///
/// # Errors
/// When there is no engine, it lacks the image or the registry refuses, it breaks off, or `into` accepts no more.
pub(super) fn pull(reference: &str, into: &mut dyn Write) -> Result<(), Fault> {
    if let Some(name) = engine_name(reference) {
        return hand_out(name, into);
    }
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
    save(&engine, reference, reference, into)
}

/// An image that the engine has. Its name alone is not enough: by the time of the export it may mean another image, and
/// the bundle would be kept under a name that says nothing of what is in it.
fn hand_out(name: &str, into: &mut dyn Write) -> Result<(), Fault> {
    let Some(id) = pinned_id(name) else {
        // Usually the reason why its ID is not known.
        engine_image(name)?;
        let fault = Fault::new(format!("the image {name} was not found when the workload was read, but is there now"));
        return Err(fault.remedy("run the command again"));
    };
    let held = holder_of(id)?;
    // Without a holder the first engine says that it has no such image.
    let engine = held.map_or_else(Engine::find, |engine| Ok(Some(engine)))?.ok_or_else(super::no_engine)?;
    save(&engine, id, name, into)
}

/// Writes the image that the engine knows by `name` to `into`; messages call it `shown`.
fn save(engine: &Engine, name: &str, shown: &str, into: &mut dyn Write) -> Result<(), Fault> {
    let doing = format!("save the image {shown}");
    let mut refused = None;
    let saved = engine.docker().export_image(name).try_for_each(|chunk| {
        // An error of ours ends the stream, and is reported in its own words.
        refused = into.write_all(&chunk).err();
        let gone_on = if refused.is_none() { Ok(()) } else { Err(std::io::Error::other("").into()) };
        async { gone_on }
    });
    let saved = engine.call_within(IMPORT_LIMIT, saved);
    match refused {
        Some(error) => Err(error).doing(doing),
        None => saved.map_err(|error| {
            let fault = error.doing(doing);
            let remedy = "see whether the engine still runs and has the image, then run the command again";
            if fault.remedy.is_empty() { fault.remedy(remedy) } else { fault }
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::{UnixListener, UnixStream};

    /// Answers as an engine does until it is asked for an image, of which it sends the beginning.
    fn breaks_off(listener: &UnixListener) {
        for stream in listener.incoming() {
            if answer(stream.unwrap()) {
                return;
            }
        }
    }

    /// Answers the one question that is asked on a connection; whether that was for an image.
    fn answer(mut stream: UnixStream) -> bool {
        const VERSION: &str = r#"{"Version": "20.10.24", "ApiVersion": "1.41", "MinAPIVersion": "1.12"}"#;
        let (mut asked, mut byte) = (Vec::new(), [0]);
        while !asked.ends_with(b"\r\n\r\n") {
            if !stream.read(&mut byte).is_ok_and(|count| count == 1) {
                return false;
            }
            asked.push(byte[0]);
        }
        let is_image = String::from_utf8_lossy(&asked).lines().next().is_some_and(|line| line.contains("/get "));
        let reply = if is_image {
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n".to_owned()
        } else {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length:";
            format!("{head} {}\r\n\r\n{VERSION}", VERSION.len())
        };
        stream.write_all(reply.as_bytes()).unwrap();
        is_image
    }

    #[test]
    fn an_export_that_breaks_off_is_a_fault() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("engine.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let other = std::thread::spawn(move || breaks_off(&listener));
        let engine = Engine::at(&path).unwrap().expect("it answers");
        let mut taken = Vec::new();
        let fault = save(&engine, "sha256:ab", "app:1", &mut taken).unwrap_err();
        assert!(fault.message.starts_with("could not save the image app:1"), "{fault}");
        assert!(fault.remedy.contains("run the command again"), "{fault}");
        assert_eq!(taken, b"hello");
        drop(engine);
        other.join().unwrap();
    }
}
