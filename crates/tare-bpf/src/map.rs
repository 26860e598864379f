//! Maps that a program and this process share.

use crate::kernel::{Attributes, Command, ask, make};
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, OwnedFd};

mod sealed {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
    impl Sealed for [u32; 5] {}
}

/// A key or value: one or more integers, so that any bytes that a program writes are valid.
pub trait Word: Copy + Default + PartialEq + sealed::Sealed {}
impl Word for u32 {}
impl Word for u64 {}
impl Word for [u32; 5] {}

/// Values by key, in no order.
#[derive(Debug)]
pub struct Map<K, V> {
    descriptor: OwnedFd,
    room: u32,
    of: PhantomData<(K, V)>,
}

const HASH: u32 = 1;

impl<K: Word, V: Word> Map<K, V> {
    /// An empty map with room for this many keys.
    ///
    /// # Errors
    /// When the kernel has no BPF, or does not allow this process to make a map.
    pub fn new(room: u32) -> io::Result<Map<K, V>> {
        allow_locked_memory();
        let shape =
            Shape { kind: HASH, key: size_of::<K>() as u32, value: size_of::<V>() as u32, entries: room, flags: 0 };
        Ok(Map { descriptor: make(Command::MakeMap, &shape)?, room, of: PhantomData })
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// When there is no room for another key.
    pub fn insert(&self, key: K, value: V) -> io::Result<()> {
        ask(Command::Update, &self.entry(&raw const key, (&raw const value).cast_mut())).map(drop)
    }

    /// Removes a key.
    ///
    /// # Errors
    /// When it is not in the map.
    pub fn remove(&self, key: K) -> io::Result<()> {
        ask(Command::Delete, &self.entry(&raw const key, std::ptr::null_mut())).map(drop)
    }

    /// All keys and their values. Those that a program adds or removes meanwhile may be among them or not.
    pub fn entries(&self) -> Vec<(K, V)> {
        let (mut last, mut key, mut value) = (None, K::default(), V::default());
        let mut entries = Vec::new();
        // If the last key is removed meanwhile, the kernel begins again with the first.
        while entries.len() <= self.room as usize {
            let from = last.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
            let next = KeyAfter { map: self.number(), unused: 0, key: from as u64, next: &raw mut key as u64 };
            if ask(Command::NextKey, &next).is_err() {
                break;
            }
            if ask(Command::LookUp, &self.entry(&raw const key, &raw mut value)).is_ok() {
                entries.push((key, value));
            }
            last = Some(key);
        }
        entries
    }

    /// Its descriptor, as programs refer to it.
    pub(crate) fn number(&self) -> i32 {
        self.descriptor.as_raw_fd()
    }

    fn entry(&self, key: *const K, value: *mut V) -> Entry {
        Entry { map: self.number(), unused: 0, key: key as u64, value: value as u64, flags: 0 }
    }
}

/// Kernels before 5.11 count maps and programs as locked memory.
fn allow_locked_memory() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    // If it is not allowed: newer kernels do not need it.
    let _ = setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None });
}

#[repr(C)]
struct Shape {
    kind: u32,
    key: u32,
    value: u32,
    entries: u32,
    flags: u32,
}

#[repr(C)]
struct Entry {
    map: i32,
    unused: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct KeyAfter {
    map: i32,
    unused: u32,
    key: u64,
    next: u64,
}

// SAFETY: these are the fields of `BPF_MAP_CREATE`.
unsafe impl Attributes for Shape {}
// SAFETY: these are the fields of the commands about an entry, made by `Map` alone: a key and a value of its own types.
unsafe impl Attributes for Entry {}
// SAFETY: these are the fields of `BPF_MAP_GET_NEXT_KEY`, made by `Map` alone, with two keys of its own type.
unsafe impl Attributes for KeyAfter {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_is_there_until_it_is_taken_out() {
        let map: Map<u64, u32> = match Map::new(2) {
            Ok(map) => map,
            Err(error) => return println!("skipped: {error}"),
        };
        assert_eq!(map.entries(), []);
        // All bits set is a key like others.
        map.insert(u64::MAX, 7).unwrap();
        map.insert(1 << 40, 8).unwrap();
        assert!(map.insert(3, 9).is_err(), "there is room for two");
        map.insert(1 << 40, 10).unwrap();
        let mut entries = map.entries();
        entries.sort_unstable();
        assert_eq!(entries, [(1 << 40, 10), (u64::MAX, 7)]);
        map.remove(u64::MAX).unwrap();
        assert!(map.remove(u64::MAX).is_err());
        assert_eq!(map.entries(), [(1 << 40, 10)]);
    }
}
