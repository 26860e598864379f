//! Whether a port is free on this machine, and who has it.

use crate::listening::listeners;
use crate::processes;
use std::collections::BTreeMap;
use tare_core::fault::Fault;

/// Refuses ports that something on this machine already listens on, at any address: most services listen on all.
pub(crate) fn check_free(ports: &BTreeMap<String, u16>) -> Result<(), Fault> {
    for (name, port) in ports {
        let sockets: Vec<u64> = ["/proc/net/tcp", "/proc/net/tcp6"]
            .iter()
            .flat_map(|path| listeners(&std::fs::read_to_string(path).unwrap_or_default()))
            .filter(|listener| listener.address.port() == *port)
            .map(|listener| listener.inode)
            .collect();
        let Some(first) = sockets.first() else { continue };
        let by = match owner(*first) {
            Some(pid) => format!("by process {pid} ({})", processes::name(pid)),
            None => "by a process that cannot be seen from here".to_owned(),
        };
        return Err(Fault::new(format!("port {port} ({name}) is already in use on this host, {by}"))
            .remedy("stop it, or give the service another port"));
    }
    Ok(())
}

/// A process that has the socket open.
fn owner(inode: u64) -> Option<u32> {
    let wanted = format!("socket:[{inode}]");
    processes::all().into_iter().find(|pid| {
        let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        entries
            .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
            .any(|link| link.to_str() == Some(wanted.as_str()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn a_port_in_use_is_told_with_its_owner() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let fault = check_free(&BTreeMap::from([("main".to_owned(), port)])).unwrap_err();
        assert!(fault.message.contains(&port.to_string()), "{fault}");
        assert!(fault.message.contains(&std::process::id().to_string()), "{fault}");
        drop(listener);
        // A child that another test is starting holds all descriptors of this process until it has become its program,
        // and so keeps the socket alive.
        let (began, main) = (Instant::now(), BTreeMap::from([("main".to_owned(), port)]));
        while began.elapsed() < Duration::from_secs(10) && check_free(&main).is_err() {
            std::thread::sleep(Duration::from_millis(10));
        }
        check_free(&main).unwrap();
    }
}
