//! How much a thread has allocated: a length that somebody claims must not be believed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    // What is allocated now, and the most there was since the peak was last forgotten. It is negative when a thread
    // frees what another one allocated.
    static NOW: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

fn count(change: isize) {
    // A thread that ends may have no counters any more; nobody asks for them then.
    let _ = NOW.try_with(|now| {
        now.set(now.get() + change);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(now.get())));
    });
}

// SAFETY: everything is the system's allocator's; counting allocates nothing, as the counters need no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: what holds for us holds for it.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: what holds for us holds for it.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: what holds for us holds for it.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both may be there for a moment.
        count(size as isize);
        count(-(layout.size() as isize));
        // SAFETY: what holds for us holds for it.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// Runs something; how much more was allocated at its height than before, bytes.
pub(crate) fn most_during(run: impl FnOnce()) -> usize {
    let before = NOW.get();
    PEAK.set(before);
    run();
    usize::try_from(PEAK.get() - before).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_height_is_found_even_if_nothing_is_left() {
        let most = most_during(|| drop(std::hint::black_box(Vec::<u8>::with_capacity(3 << 20))));
        assert!((3 << 20..4 << 20).contains(&most), "{most}");
        let grown = most_during(|| {
            let mut bytes = std::hint::black_box(vec![0_u8; 1 << 20]);
            bytes.reserve_exact(2 << 20);
            drop(std::hint::black_box(bytes));
        });
        assert!((3 << 20..5 << 20).contains(&grown), "{grown}");
        assert!(most_during(|| ()) < 1 << 10);
    }
}
