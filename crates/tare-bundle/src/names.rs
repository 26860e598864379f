//! The names in a folder, held in little more memory than their bytes: a hostile image can consist mostly of names.

use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::cell::Cell;
use std::ffi::CStr;
use tare_core::fault::Fault;
use tare_core::units::show_bytes;

/// The error for a folder whose names exceed the budget; no file call returns it.
pub(crate) const TOO_MANY: Errno = Errno::XFULL;

/// How many bytes of names may be held at a time, those of a folder and of the folders above it together.
const HELD_MAX: usize = 48 << 20;

/// The memory left for names.
#[derive(Debug)]
pub(crate) struct Room {
    left: Cell<usize>,
}

impl Default for Room {
    fn default() -> Self {
        Room { left: Cell::new(HELD_MAX) }
    }
}

impl Room {
    fn take(&self, bytes: usize) -> Result<(), Errno> {
        self.left.set(self.left.get().checked_sub(bytes).ok_or(TOO_MANY)?);
        Ok(())
    }
}

/// The names in `folder` exceed the budget.
pub(crate) fn too_many(folder: &str) -> Fault {
    let most = show_bytes(HELD_MAX as u64);
    Fault::new(format!("the names in '{folder}' and in the folders above it take more than {most}"))
        .remedy("put fewer files into one folder")
}

/// The names in one folder, sorted by their bytes.
#[derive(Debug)]
pub(crate) struct Names<'room> {
    /// One after another, each ending in a zero byte.
    bytes: Vec<u8>,
    /// Where each begins.
    starts: Vec<u32>,
    room: &'room Room,
}

impl<'room> Names<'room> {
    /// Lists `folder`. Fails with [`TOO_MANY`] if its names exceed `room`.
    pub(crate) fn read(folder: BorrowedFd<'_>, room: &'room Room) -> Result<Names<'room>, Errno> {
        let mut names = Names::none(room);
        for item in rustix::fs::Dir::read_from(folder)? {
            names.add(item?.file_name())?;
        }
        let Names { bytes, starts, .. } = &mut names;
        starts.sort_unstable_by_key(|start| name_at(bytes, *start));
        Ok(names)
    }

    /// No names.
    pub(crate) fn none(room: &'room Room) -> Names<'room> {
        Names { bytes: Vec::new(), starts: Vec::new(), room }
    }

    fn add(&mut self, name: &CStr) -> Result<(), Errno> {
        let bytes = name.to_bytes_with_nul();
        if matches!(bytes, b".\0" | b"..\0") {
            return Ok(());
        }
        let start = u32::try_from(self.bytes.len()).map_err(|_| TOO_MANY)?;
        self.room.take(bytes.len() + size_of::<u32>())?;
        self.starts.push(start);
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    /// The one with this number, counted from 0.
    pub(crate) fn get(&self, number: usize) -> &[u8] {
        name_at(&self.bytes, self.starts[number])
    }

    /// All of them, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.starts.iter().map(|start| name_at(&self.bytes, *start))
    }
}

impl Drop for Names<'_> {
    fn drop(&mut self) {
        let taken = self.bytes.len() + self.starts.len() * size_of::<u32>();
        self.room.left.set(self.room.left.get() + taken);
    }
}

fn name_at(bytes: &[u8], start: u32) -> &[u8] {
    let rest = &bytes[start as usize..];
    let end = rest.iter().position(|byte| *byte == 0).expect("each name ends with a zero");
    &rest[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;

    #[test]
    fn names_are_sorted_and_take_room_while_they_are_held() {
        let folder = tempfile::tempdir().unwrap();
        ["b", "a-", "a", "\u{fc}"].iter().for_each(|name| drop(std::fs::write(folder.path().join(name), "")));
        let open = std::fs::File::open(folder.path()).unwrap();
        let room = Room { left: Cell::new(30) };
        let names = Names::read(open.as_fd(), &room).unwrap();
        assert_eq!(names.iter().collect::<Vec<_>>(), [&b"a"[..], b"a-", b"b", "\u{fc}".as_bytes()]);
        assert_eq!((names.len(), names.get(1)), (4, &b"a-"[..]));
        assert_eq!(room.left.get(), 30 - 10 - 16);
        assert_eq!(Names::read(open.as_fd(), &room).unwrap_err(), TOO_MANY, "they are held twice");
        assert_eq!(room.left.get(), 4, "what was given up is free again");
        drop(names);
        assert_eq!(room.left.get(), 30);
    }
}
