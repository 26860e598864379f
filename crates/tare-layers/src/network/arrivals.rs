//! Examines a network's links again whenever one has appeared, gone or changed, for the duration of a run: links are
//! created all the time, by whoever starts a container or joins a network, and what must be kept out must be kept out
//! there too.

use crate::netlink::Netlink;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, OwnedFd};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

/// What to do about the existing links, and where it first failed after it had gone well.
struct Looks {
    look: Box<dyn FnMut() -> io::Result<()> + Send>,
    failed: Option<String>,
}

/// The kernel reports an address before all the routes that it creates exist, so everything is examined once more after
/// this delay.
const AFTERWARDS: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// What has failed is tried again after this delay.
const AGAIN: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// A thread that waits for links.
pub(super) struct Arrivals {
    looks: Arc<Mutex<Looks>>,
    /// Tells the thread to end.
    end: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Arrivals {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Arrivals").finish_non_exhaustive()
    }
}

impl Arrivals {
    /// Calls `look` now, and then, from a thread of its own, after each change of the links and addresses of this
    /// thread's network until this is dropped. If a later call fails, it is repeated.
    ///
    /// # Errors
    /// Those of the first look, and when the kernel does not report changes.
    pub(super) fn watch(look: impl FnMut() -> io::Result<()> + Send + 'static) -> io::Result<Arrivals> {
        // Before the first look, so that no change falls between the two.
        let news = Netlink::subscribed()?;
        let looks = Arc::new(Mutex::new(Looks { look: Box::new(look), failed: None }));
        again(&looks)?;
        let end = eventfd(0, EventfdFlags::CLOEXEC)?;
        let (ended, inside) = (end.try_clone()?, Arc::clone(&looks));
        // A thread begins in the network of the thread that starts it.
        let thread = Builder::new().name("links".to_owned()).spawn(move || wait(&news, &ended, &inside))?;
        Ok(Arrivals { looks, end, thread: Some(thread) })
    }

    /// How a look has failed since the first went well: links may have appeared that nothing was done about.
    pub(super) fn failed(&self) -> Option<String> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner).failed.clone()
    }

    /// Looks now, for a caller that cannot wait.
    ///
    /// # Errors
    /// Those of the look.
    pub(super) fn look(&self) -> io::Result<()> {
        again(&self.looks)
    }
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        // It cannot fail until it has been written to 2^64 times.
        let _ = rustix::io::write(&self.end, &1_u64.to_ne_bytes());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn again(looks: &Mutex<Looks>) -> io::Result<()> {
    let mut looks = looks.lock().unwrap_or_else(PoisonError::into_inner);
    let went = (looks.look)();
    if let (Err(error), None) = (&went, &looks.failed) {
        looks.failed = Some(error.to_string());
    }
    went
}

fn wait(news: &Netlink, end: &OwnedFd, looks: &Mutex<Looks>) {
    let mut more = None;
    loop {
        let mut both = [PollFd::new(news, PollFlags::IN), PollFd::from_borrowed_fd(end.as_fd(), PollFlags::IN)];
        match poll(&mut both, more.as_ref()) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
            Ok(_) if !both[1].revents().is_empty() => return,
            Ok(_) => {}
        }
        let told = !both[0].revents().is_empty();
        news.forget_news();
        more = if again(looks).is_err() { Some(AGAIN) } else { told.then_some(AFTERWARDS) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::in_own_network;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    /// The links that each look finds.
    #[test]
    fn a_link_that_comes_is_looked_at_and_one_that_goes_too() {
        in_own_network(|| {
            let (tell, told) = channel();
            let names = || Ok::<_, io::Error>(Netlink::open()?.links()?.into_iter().map(|link| link.name).collect());
            let arrivals = Arrivals::watch(move || {
                let names: Vec<String> = names()?;
                tell.send(names.contains(&"late".to_owned())).map_err(io::Error::other)
            })
            .unwrap();
            assert_eq!(told.recv(), Ok(false));
            let until = |wanted: bool| {
                let next = || told.recv_timeout(Duration::from_secs(20)).expect("nobody looks");
                std::iter::repeat_with(next).find(|there| *there == wanted)
            };
            let netlink = Netlink::open().unwrap();
            netlink.create_bridge("late", [2, 0, 0, 0, 0, 1]).unwrap();
            until(true);
            netlink.delete("late").unwrap();
            until(false);
            drop(arrivals);
            // The looking closure is dropped with its thread.
            assert!(std::iter::repeat_with(|| told.recv()).any(|end| end.is_err()));
        });
    }

    #[test]
    fn what_fails_is_done_again() {
        in_own_network(|| {
            let (tell, told) = channel();
            let mut count = 0;
            let arrivals = Arrivals::watch(move || {
                count += 1;
                let _ = tell.send(count);
                if [2, 3].contains(&count) { Err(io::Error::other("not now")) } else { Ok(()) }
            })
            .unwrap();
            assert_eq!(arrivals.failed(), None);
            Netlink::open().unwrap().create_bridge("late", [2, 0, 0, 0, 0, 1]).unwrap();
            let next = || told.recv_timeout(Duration::from_secs(20)).expect("nobody looks again");
            assert!(std::iter::repeat_with(next).any(|count| count == 4));
            assert_eq!(arrivals.failed().as_deref(), Some("not now"));
        });
    }
}
