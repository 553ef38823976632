//! The lock levels of one file, as SQLite's unix VFS gives them out over POSIX locks.

/// An open file handle's number.
pub(super) type Handle = usize;

/// What a handle holds on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum Level {
    #[default]
    None,
    Shared,
    Reserved,
    Pending,
    Exclusive,
}

#[derive(Debug, Default)]
pub(super) struct Locks {
    holders: Vec<(Handle, Level)>,
}

impl Locks {
    pub(super) fn level(&self, handle: Handle) -> Level {
        self.holders.iter().find(|(holder, _)| *holder == handle).map_or(Level::None, |(_, level)| *level)
    }

    /// Raises a handle's level; `false` is SQLITE_BUSY. As on POSIX, a refused EXCLUSIVE leaves PENDING
    /// behind, which keeps new readers out.
    pub(super) fn raise(&mut self, handle: Handle, wanted: Level) -> bool {
        if self.level(handle) >= wanted {
            return true;
        }
        let highest_other = self.highest_other(handle);
        match wanted {
            Level::None => true,
            Level::Shared if highest_other >= Level::Pending => false,
            Level::Reserved | Level::Pending if highest_other >= Level::Reserved => false,
            Level::Exclusive if highest_other >= Level::Reserved => false,
            Level::Exclusive if highest_other >= Level::Shared => {
                self.set(handle, Level::Pending);
                false
            }
            level => {
                self.set(handle, level);
                true
            }
        }
    }

    pub(super) fn lower(&mut self, handle: Handle, to: Level) {
        if self.level(handle) > to {
            self.set(handle, to);
        }
    }

    pub(super) fn is_reserved(&self) -> bool {
        self.holders.iter().any(|(_, level)| *level >= Level::Reserved)
    }

    pub(super) fn release_all(&mut self, is_dead: impl Fn(Handle) -> bool) {
        self.holders.retain(|(holder, _)| !is_dead(*holder));
    }

    fn highest_other(&self, handle: Handle) -> Level {
        let others = self.holders.iter().filter(|(holder, _)| *holder != handle);
        others.map(|(_, level)| *level).max().unwrap_or_default()
    }

    fn set(&mut self, handle: Handle, level: Level) {
        self.holders.retain(|(holder, _)| *holder != handle);
        if level > Level::None {
            self.holders.push((handle, level));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_writer_beside_readers_until_it_wants_to_commit() {
        let mut locks = Locks::default();
        assert!(locks.raise(1, Level::Shared) && locks.raise(2, Level::Shared));
        assert!(locks.raise(1, Level::Reserved));
        assert!(!locks.raise(2, Level::Reserved));
        assert!(!locks.raise(1, Level::Exclusive), "a reader is there");
        assert!(!locks.raise(3, Level::Shared), "pending keeps new readers out");
        locks.lower(2, Level::None);
        assert!(locks.raise(1, Level::Exclusive));
        locks.lower(1, Level::Shared);
        assert!(locks.raise(3, Level::Shared));
    }
}
