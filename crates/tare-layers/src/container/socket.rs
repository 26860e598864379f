//! Where a container engine listens on this machine.

use std::path::{Path, PathBuf};
use tare_core::fault::Fault;

/// Where engines listen unless configured otherwise.
pub(crate) const USUAL: [&str; 2] = ["/var/run/docker.sock", "/run/podman/podman.sock"];

/// The sockets at which an engine may listen, the user's own choice first.
///
/// # Errors
/// When the user's choice is not on this machine: processes and limits of a remote engine cannot be observed.
pub(crate) fn candidates() -> Result<Vec<PathBuf>, Fault> {
    candidates_given(crate::environment::docker_host())
}

fn candidates_given(chosen: Option<String>) -> Result<Vec<PathBuf>, Fault> {
    match chosen {
        None => Ok(USUAL.map(PathBuf::from).into()),
        Some(text) => match text.strip_prefix("unix://").or(text.starts_with('/').then_some(&text)) {
            Some(path) => Ok(vec![PathBuf::from(path)]),
            None => {
                let message = format!("DOCKER_HOST is '{text}', and only an engine on this machine can be weighed");
                Err(Fault::new(message).remedy("unset DOCKER_HOST, or set it to unix:///path/to/the/engine.sock"))
            }
        },
    }
}

/// What is wrong with an engine at the place that the user chose: perhaps only that it was chosen.
pub(super) fn of_choice(mut fault: Fault, path: &Path) -> Fault {
    fault.message += &format!("; DOCKER_HOST says that an engine listens at {}", path.display());
    let other = "unset DOCKER_HOST, or set it to the socket of a container engine";
    fault.remedy = if fault.remedy.is_empty() { other.to_owned() } else { format!("{}; or {other}", fault.remedy) };
    fault
}

/// The fault when nothing listens where the user says that an engine does.
pub(crate) fn nobody_at_choice() -> Option<Fault> {
    nobody_at(crate::environment::docker_host()?)
}

fn nobody_at(chosen: String) -> Option<Fault> {
    let path = candidates_given(Some(chosen)).ok()?.pop()?;
    // A socket that may not be opened is reported where it is used.
    let error = std::os::unix::net::UnixStream::connect(&path).err()?;
    if error.kind() == std::io::ErrorKind::PermissionDenied {
        return None;
    }
    let message = format!("no container engine answers at {}, which DOCKER_HOST names: {error}", path.display());
    Some(Fault::new(message).remedy("start it there, or unset DOCKER_HOST to look at the usual places"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_choice_is_the_only_one() {
        let chosen = candidates_given(Some("unix:///run/user/0/podman.sock".to_owned())).unwrap();
        assert_eq!(chosen, [PathBuf::from("/run/user/0/podman.sock")]);
        assert_eq!(candidates_given(None).unwrap().len(), 2);
    }

    #[test]
    fn a_choice_where_nobody_listens_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("engine.sock");
        let chosen = format!("unix://{}", path.display());
        let fault = nobody_at(chosen.clone()).unwrap();
        assert!(fault.message.contains("DOCKER_HOST") && fault.message.contains("engine.sock"), "{fault}");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(nobody_at(chosen).is_none());
    }

    #[test]
    fn a_choice_that_may_not_be_opened_is_told_with_what_else_to_do() {
        let fault = Fault::new("the container engine's socket /x.sock may not be opened").remedy("run as root");
        let fault = of_choice(fault, Path::new("/x.sock"));
        assert!(
            fault.message.ends_with("may not be opened; DOCKER_HOST says that an engine listens at /x.sock"),
            "{fault}"
        );
        assert!(fault.remedy.starts_with("run as root; or unset DOCKER_HOST, or set it to"), "{fault}");
    }

    #[test]
    fn an_engine_elsewhere_is_refused() {
        let fault = candidates_given(Some("tcp://10.0.0.1:2375".to_owned())).unwrap_err();
        assert!(fault.message.contains("tcp://10.0.0.1:2375"), "{fault}");
    }
}
