//! A machine's disk: what a program sees, and what would survive a power cut.
//!
//! Bytes become durable when their file is synced, directory entries when the directory is. What was not
//! synced is, at a power cut, lost or kept one sector of 512 bytes at a time. A failed sync leaves the
//! bytes readable and marked clean, but not durable: they are lost at a power cut unless written again.
//! A sector that was written twice between two syncs survives in its last version or not at all.

use std::collections::BTreeSet;

/// The unit in which unsynced writes are torn at a power cut, in bytes.
pub const SECTOR_BYTES: usize = 512;

/// A file's number on its disk.
pub(super) type FileId = usize;

/// A disk with one directory.
#[derive(Debug, Default)]
pub struct Disk {
    files: Vec<File>,
    /// What a program sees.
    entries: Vec<Entry>,
    /// What survives a power cut.
    durable_entries: Vec<Entry>,
    /// Changes of the directory since it was last synced, in order.
    pending: Vec<Pending>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    name: String,
    file: FileId,
}

#[derive(Debug, Clone)]
pub(super) enum EntryChange {
    Create(String, FileId),
    Delete(String, FileId),
}

/// A change of the directory, with the files that had been cut shorter before it and not synced, and how long they were: a
/// file system with a journal keeps the order of such changes, so that who sees the later one sees the earlier ones.
#[derive(Debug)]
struct Pending {
    change: EntryChange,
    shorter: Vec<(FileId, usize)>,
}

#[derive(Debug, Default)]
pub(super) struct File {
    content: Vec<u8>,
    durable: Vec<u8>,
    /// Runs of sectors (first, last) that were written since the last sync, as they were written.
    dirty: Vec<(usize, usize)>,
    /// Whether the length changed since the last sync.
    length_dirty: bool,
    /// Open handles, which keep a deleted file alive.
    pub(super) handles: u32,
    pub(super) lock: super::lock::Locks,
}

/// What is decided about one unsynced part at a power cut; the answer is whether it was kept.
pub(super) enum Unsynced<'a> {
    Entry(&'a EntryChange),
    Length,
    Sector,
}

impl Disk {
    /// Puts a file there, durably, as if it had always been.
    pub fn install(&mut self, name: &str, content: &[u8]) {
        self.files.push(File { content: content.to_vec(), durable: content.to_vec(), ..File::default() });
        let file = self.files.len() - 1;
        for entries in [&mut self.entries, &mut self.durable_entries] {
            entries.retain(|entry| entry.name != name);
            entries.push(Entry { name: name.to_owned(), file });
        }
    }

    /// A file's content as programs see it.
    #[must_use]
    pub fn read(&self, name: &str) -> Option<&[u8]> {
        self.find(name).map(|file| self.files[file].content.as_slice())
    }

    /// The names in the directory, in the order of their creation.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }

    pub(super) fn find(&self, name: &str) -> Option<FileId> {
        self.entries.iter().find(|entry| entry.name == name).map(|entry| entry.file)
    }

    pub(super) fn file(&mut self, file: FileId) -> &mut File {
        &mut self.files[file]
    }

    pub(super) fn create(&mut self, name: &str) -> FileId {
        let file = self.create_unnamed();
        self.entries.push(Entry { name: name.to_owned(), file });
        self.note(EntryChange::Create(name.to_owned(), file));
        file
    }

    /// A file without an entry, such as a temporary one that was deleted on opening.
    pub(super) fn create_unnamed(&mut self) -> FileId {
        self.files.push(File::default());
        self.files.len() - 1
    }

    /// Removes an entry; open handles keep the file.
    pub(super) fn delete(&mut self, name: &str) -> bool {
        let Some(index) = self.entries.iter().position(|entry| entry.name == name) else {
            return false;
        };
        let entry = self.entries.remove(index);
        self.note(EntryChange::Delete(entry.name, entry.file));
        true
    }

    fn cut_shorter(&mut self, shorter: Vec<(FileId, usize)>) {
        for (file, len) in shorter {
            self.files[file].durable.truncate(len);
        }
    }

    fn note(&mut self, change: EntryChange) {
        let files = self.files.iter().enumerate();
        let shorter = files.filter(|(_, file)| file.content.len() < file.durable.len());
        let shorter = shorter.map(|(number, file)| (number, file.content.len())).collect();
        self.pending.push(Pending { change, shorter });
    }

    pub(super) fn sync_directory(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        self.durable_entries.clone_from(&self.entries);
        for Pending { change, shorter } in std::mem::take(&mut self.pending) {
            self.cut_shorter(shorter);
            let EntryChange::Delete(_, file) = change else { continue };
            let is_linked = self.entries.iter().any(|entry| entry.file == file);
            if !is_linked && self.files[file].handles == 0 {
                self.files[file] = File::default();
            }
        }
    }

    /// As after an fsync of the directory that failed: the changes are seen, but no sync will write them.
    pub(super) fn fail_directory_sync(&mut self) {
        self.pending.clear();
    }

    /// Loses what was not synced, except what `keep` decides to keep. Returns how many parts were lost.
    pub(super) fn cut_power(&mut self, mut keep: impl FnMut(Unsynced<'_>) -> bool) -> usize {
        let mut lost = 0;
        for Pending { change, shorter } in std::mem::take(&mut self.pending) {
            if !keep(Unsynced::Entry(&change)) {
                lost += 1;
                continue;
            }
            self.cut_shorter(shorter);
            match change {
                EntryChange::Create(name, file) => {
                    self.durable_entries.retain(|entry| entry.name != name);
                    self.durable_entries.push(Entry { name, file });
                }
                EntryChange::Delete(name, file) => {
                    self.durable_entries.retain(|entry| (entry.name != name) || (entry.file != file));
                }
            }
        }
        self.entries.clone_from(&self.durable_entries);
        // A file without an entry is gone: what becomes of its bytes decides nothing.
        let linked: Vec<FileId> = self.entries.iter().map(|entry| entry.file).collect();
        for file in linked {
            lost += self.files[file].cut_power(&mut keep);
        }
        lost
    }

    pub(super) fn release_locks_of(&mut self, is_dead: impl Fn(usize) -> bool) {
        for file in &mut self.files {
            file.lock.release_all(&is_dead);
        }
    }
}

impl File {
    pub(super) fn len(&self) -> usize {
        self.content.len()
    }

    /// Copies from `offset` on; what lies beyond the end is zero. Returns whether all of it existed.
    pub(super) fn read(&self, offset: usize, into: &mut [u8]) -> bool {
        let have = self.content.get(offset..).unwrap_or_default();
        let have = &have[..have.len().min(into.len())];
        into[..have.len()].copy_from_slice(have);
        into[have.len()..].fill(0);
        have.len() == into.len()
    }

    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        if end > self.content.len() {
            self.content.resize(end, 0);
            self.length_dirty = true;
        }
        self.content[offset..end].copy_from_slice(bytes);
        if !bytes.is_empty() {
            self.mark_dirty(offset / SECTOR_BYTES, (end - 1) / SECTOR_BYTES);
        }
    }

    pub(super) fn truncate(&mut self, len: usize) {
        self.length_dirty |= len != self.content.len();
        self.content.resize(len, 0);
    }

    pub(super) fn sync(&mut self) {
        self.durable.resize(self.content.len(), 0);
        for (first, last) in self.dirty.drain(..) {
            copy_sectors(&self.content, &mut self.durable, first, last);
        }
        self.length_dirty = false;
    }

    /// As after an fsync that failed: the bytes are seen and clean, but not durable.
    pub(super) fn fail_sync(&mut self) {
        self.dirty.clear();
        self.length_dirty = false;
    }

    fn cut_power(&mut self, keep: &mut impl FnMut(Unsynced<'_>) -> bool) -> usize {
        let mut lost = 0;
        let dirty: BTreeSet<usize> = self.dirty.drain(..).flat_map(|(first, last)| first..=last).collect();
        let longer = self.content.len() > self.durable.len();
        if self.length_dirty && !longer {
            if keep(Unsynced::Length) {
                self.durable.truncate(self.content.len());
            } else {
                lost += 1;
            }
        }
        self.length_dirty = false;
        for sector in dirty {
            if keep(Unsynced::Sector) {
                // A kept sector beyond the durable end makes the file that long; a hole reads as zeros.
                let end = ((sector + 1) * SECTOR_BYTES).min(self.content.len());
                if self.durable.len() < end {
                    self.durable.resize(end, 0);
                }
                copy_sectors(&self.content, &mut self.durable, sector, sector);
            } else {
                lost += 1;
            }
        }
        self.content.clone_from(&self.durable);
        lost
    }

    fn mark_dirty(&mut self, first: usize, last: usize) {
        match self.dirty.last_mut() {
            Some(run) if run.0 <= first && first <= run.1 + 1 => run.1 = run.1.max(last),
            _ => self.dirty.push((first, last)),
        }
    }
}

fn copy_sectors(from: &[u8], to: &mut [u8], first: usize, last: usize) {
    let start = first * SECTOR_BYTES;
    let end = ((last + 1) * SECTOR_BYTES).min(from.len()).min(to.len());
    if start < end {
        to[start..end].copy_from_slice(&from[start..end]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_synced_survives_and_what_was_not_is_lost() {
        let mut disk = Disk::default();
        let file = disk.create("a");
        disk.file(file).write(0, &[1; 1_000]);
        disk.file(file).sync();
        disk.sync_directory();
        disk.file(file).write(600, &[2; 1_000]);
        assert_eq!(disk.cut_power(|_| false), 3);
        assert_eq!(disk.read("a"), Some(&[1; 1_000][..]));
    }

    #[test]
    fn an_entry_needs_its_directory_synced() {
        let mut disk = Disk::default();
        let file = disk.create("a");
        disk.file(file).write(0, &[1]);
        disk.file(file).sync();
        disk.cut_power(|_| false);
        assert_eq!(disk.read("a"), None);
    }

    /// ext4, XFS and others keep the order of their metadata: a deletion is not there without a truncation before it, also
    /// where the sync between the two failed.
    #[test]
    fn a_deletion_that_survives_brings_the_truncations_before_it() {
        for (kept, before, len) in [(true, true, 5), (false, true, 1_000), (true, false, 1_000)] {
            let mut disk = Disk::default();
            disk.install("a", &[7; 1_000]);
            disk.install("b", &[7]);
            let file = disk.find("a").unwrap();
            if before {
                disk.file(file).truncate(5);
                disk.file(file).fail_sync();
            }
            assert!(disk.delete("b"));
            if !before {
                disk.file(file).truncate(5);
            }
            disk.cut_power(|part| kept && matches!(part, Unsynced::Entry(_)));
            assert_eq!(disk.read("a").unwrap().len(), len, "{kept} {before}");
            assert_eq!(disk.read("b").is_none(), kept);
        }
    }

    #[test]
    fn a_deleted_file_comes_back_unless_the_directory_was_synced() {
        for synced in [false, true] {
            let mut disk = Disk::default();
            disk.install("a", &[7]);
            assert!(disk.delete("a"));
            assert_eq!(disk.read("a"), None);
            if synced {
                disk.sync_directory();
            }
            disk.cut_power(|_| false);
            assert_eq!(disk.read("a").is_some(), !synced);
        }
    }

    #[test]
    fn each_sector_is_kept_or_lost_on_its_own() {
        let mut disk = Disk::default();
        disk.install("a", &[1; 1_536]);
        let file = disk.find("a").unwrap();
        disk.file(file).write(0, &[2; 1_536]);
        let mut sector = 0;
        disk.cut_power(|part| {
            assert!(matches!(part, Unsynced::Sector));
            sector += 1;
            sector == 2
        });
        let content = disk.read("a").unwrap();
        assert_eq!((content[511], content[512], content[1_023], content[1_024]), (1, 2, 2, 1));
    }

    #[test]
    fn a_failed_sync_leaves_bytes_readable_but_not_durable_until_written_again() {
        let mut disk = Disk::default();
        disk.install("a", &[1; 512]);
        let file = disk.find("a").unwrap();
        disk.file(file).write(0, &[2; 512]);
        disk.file(file).fail_sync();
        assert_eq!(disk.read("a"), Some(&[2; 512][..]));
        disk.file(file).sync();
        disk.cut_power(|_| true);
        assert_eq!(disk.read("a"), Some(&[1; 512][..]));
    }

    #[test]
    fn a_shorter_file_is_durable_only_after_a_sync() {
        let mut disk = Disk::default();
        disk.install("a", &[1; 2_000]);
        let file = disk.find("a").unwrap();
        disk.file(file).truncate(100);
        disk.cut_power(|_| false);
        assert_eq!(disk.read("a").unwrap().len(), 2_000);
        disk.file(file).truncate(100);
        disk.file(file).sync();
        disk.cut_power(|_| false);
        assert_eq!(disk.read("a").unwrap().len(), 100);
    }
}
