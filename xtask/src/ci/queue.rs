//! The tests of a class that have not begun. More may be added while the first of them run.

use crate::ci::programs::Test;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Tests in their order.
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    /// Whether tests are handed out before the queue is complete.
    early: bool,
}

#[derive(Default)]
struct Waiting {
    tests: VecDeque<Test>,
    complete: bool,
}

impl Queue {
    /// An empty queue, whose tests are handed out before it is complete only if it is `early`.
    pub(super) fn new(early: bool) -> Queue {
        Queue { waiting: Mutex::default(), changed: Condvar::new(), early }
    }

    /// Adds tests; all that wait are then in the order of their places.
    pub(super) fn add(&self, tests: Vec<Test>, place: impl Fn(&Test) -> usize) {
        let mut waiting = self.lock();
        waiting.tests.extend(tests);
        waiting.tests.make_contiguous().sort_by_key(place);
        self.changed.notify_all();
    }

    /// Removes the tests that wait.
    pub(super) fn clear(&self) {
        self.lock().tests.clear();
    }

    /// Says that no more tests will be added.
    pub(super) fn complete(&self) {
        self.lock().complete = true;
        self.changed.notify_all();
    }

    /// The next test, waited for as long as there may be one; `None` when there is none left.
    pub(super) fn next(&self) -> Option<Test> {
        let mut waiting = self.lock();
        loop {
            if (self.early || waiting.complete)
                && let Some(test) = waiting.tests.pop_front()
            {
                return Some(test);
            }
            if waiting.complete {
                return None;
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn test(name: &str) -> Test {
        Test {
            name: name.to_owned(),
            within: name.to_owned(),
            program: "p".into(),
            folder: "f".into(),
            in_guest: false,
        }
    }

    fn taken(queue: &Queue) -> Vec<String> {
        std::iter::from_fn(|| queue.next()).map(|test| test.name).collect()
    }

    #[test]
    fn later_tests_are_sorted_among_those_that_wait() {
        let queue = Queue::new(true);
        let by_name = |test: &Test| usize::from(test.name.as_bytes()[0]);
        queue.add(vec![test("d"), test("b")], by_name);
        assert_eq!(queue.next().expect("it is early").name, "b");
        queue.add(vec![test("c"), test("a")], by_name);
        queue.complete();
        assert_eq!(taken(&queue), ["a", "c", "d"]);
    }

    #[test]
    fn a_late_queue_hands_out_nothing_before_it_is_complete() {
        let queue = Queue::new(false);
        queue.add(vec![test("a")], |_| 0);
        std::thread::scope(|scope| {
            let taker = scope.spawn(|| taken(&queue));
            std::thread::sleep(Duration::from_millis(20));
            assert!(!taker.is_finished());
            queue.add(vec![test("b")], |_| 0);
            queue.complete();
            assert_eq!(taker.join().expect("it takes both"), ["a", "b"]);
        });
    }

    #[test]
    fn a_cleared_queue_has_none() {
        let queue = Queue::new(true);
        queue.add(vec![test("a")], |_| 0);
        queue.clear();
        queue.complete();
        assert!(queue.next().is_none());
    }
}
