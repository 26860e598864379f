//! The places that connections take. There is an end to them, and who has not brought the key gives way to who comes:
//! others of this machine cannot keep the owner out by connections that they leave open.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// How long a connection stays in all while nothing on it has brought the key.
const STRANGER_WITHIN: Duration = Duration::from_secs(5);

/// All places.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    free: Arc<Semaphore>,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    /// By the order in which they came.
    all: BTreeMap<u64, Visitor>,
}

/// Who has a place.
#[derive(Debug, Clone, Default)]
struct Visitor {
    is_known: Arc<AtomicBool>,
    leaves: Arc<Notify>,
}

/// The place of a connection, until this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Places,
    number: u64,
    visitor: Visitor,
    _free_again: OwnedSemaphorePermit,
}

impl Places {
    /// So many.
    pub(crate) fn of(most: usize) -> Places {
        Places { free: Arc::new(Semaphore::new(most)), taken: Arc::default() }
    }

    /// A place for who comes. Where there is none, the connection that has been without the key for longest leaves; if
    /// all have brought it, one of them is waited for.
    pub(crate) async fn take(&self) -> Option<Place> {
        if self.free.available_permits() == 0 {
            self.have_one_leave();
        }
        let free_again = self.free.clone().acquire_owned().await.ok()?;
        let visitor = Visitor::default();
        let mut taken = self.taken();
        let number = taken.next;
        taken.next += 1;
        taken.all.insert(number, visitor.clone());
        drop(taken);
        Some(Place { places: self.clone(), number, visitor, _free_again: free_again })
    }

    fn have_one_leave(&self) {
        let taken = self.taken();
        let stranger = taken.all.values().find(|visitor| !visitor.is_known.load(Ordering::Relaxed));
        if let Some(stranger) = stranger {
            stranger.leaves.notify_one();
        }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Becomes true when a request on this connection brings the key.
    pub(crate) fn is_known(&self) -> Arc<AtomicBool> {
        self.visitor.is_known.clone()
    }

    /// Is over when the connection is to end: when it has had its time without the key, whether it sends nothing or
    /// takes no answer, or when somebody else needs its place.
    pub(crate) async fn is_to_end(&self) {
        tokio::select! {
            () = self.visitor.leaves.notified() => {}
            () = self.stays_strange() => {}
        }
    }

    async fn stays_strange(&self) {
        tokio::time::sleep(STRANGER_WITHIN).await;
        if self.visitor.is_known.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken().all.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a future is over by now.
    async fn is_over(future: impl Future<Output = ()>) -> bool {
        tokio::time::timeout(Duration::from_millis(1), future).await.is_ok()
    }

    #[test]
    fn who_came_first_without_the_key_gives_way_to_who_comes() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let places = Places::of(3);
            let (known, first, second) =
                (places.take().await.unwrap(), places.take().await.unwrap(), places.take().await.unwrap());
            known.is_known().store(true, Ordering::Relaxed);
            assert!(!is_over(known.is_to_end()).await && !is_over(first.is_to_end()).await);
            let comes = tokio::spawn({
                let places = places.clone();
                async move { places.take().await.unwrap() }
            });
            tokio::task::yield_now().await;
            assert!(is_over(first.is_to_end()).await && !is_over(second.is_to_end()).await);
            drop(first);
            let third = comes.await.unwrap();
            // Where all have the key, none of them leaves.
            [&second, &third].iter().for_each(|place| place.is_known().store(true, Ordering::Relaxed));
            assert!(!is_over(async { drop(places.take().await) }).await);
            assert!(!is_over(second.is_to_end()).await && !is_over(known.is_to_end()).await);
            drop(known);
            assert!(is_over(async { drop(places.take().await) }).await);
        });
    }
}
