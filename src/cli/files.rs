//! The database files: regular files only, created for their owner alone, not on a file system whose locks cannot be
//! trusted.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use ackward::storage::StorageError;
use rusqlite::ErrorCode;

use super::exit::{Ended, Exit};

/// Checks a file that may be missing, and creates it then, with mode 0600. SQLite gives its journal the same.
/// Returns whether it was created.
pub fn prepare(path: &Path) -> Result<bool, Ended> {
    match check(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
            match created {
                // Another process was faster.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => check(path).map(|()| false),
                created => created.map(|_| true),
            }
        }
        checked => checked.map(|()| false),
    }
    .map_err(|error| failed(path, &error))
}

/// Checks a file that must exist (Q56).
pub fn existing(path: &Path) -> Result<(), Ended> {
    check(path).map_err(|error| failed(path, &error))
}

/// Which file is at the path: device and inode.
pub fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

/// An error of SQLite with the file's name, and what to do where that is known.
pub fn storage(path: &Path, error: &StorageError) -> Ended {
    let hint = match (error, error.code()) {
        (_, Some(ErrorCode::NotADatabase)) => ": give the path of a SQLite file",
        (_, Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)) => {
            ": another process holds the lock; try again"
        }
        (_, Some(ErrorCode::DiskFull)) => ": make room and try again",
        (_, Some(ErrorCode::ReadOnly)) => {
            ": check the permissions of the file and its directory, and that it was not moved or replaced"
        }
        (_, Some(ErrorCode::DatabaseCorrupt)) => ": see what `ackward doctor` says, and restore a backup",
        (StorageError::Empty | StorageError::NoTables { .. }, _) => ": `ackward init` sets a queue file up",
        _ => "",
    };
    Ended::new(Exit::Storage, format_args!("{}: {error}{hint}", path.display()))
}

/// Refuses a file, or the directory of one that is yet to be made, on a file system whose locks SQLite cannot rely on
/// between hosts.
pub fn local(path: &Path, allow_network: bool) -> Result<(), Ended> {
    let Some(name) = network_file_system(path) else { return Ok(()) };
    if allow_network {
        tracing::warn!(path = %path.display(), "on {name}: its locks may not hold between hosts");
        return Ok(());
    }
    let why = format_args!(
        "{}: lies on {name}, whose locks may not hold between hosts, so two workers could own one job: use a local \
         file, or give --allow-network-fs where one host alone opens it",
        path.display()
    );
    Err(Ended::new(Exit::Storage, why))
}

/// The name of the network file system that the path lies on, if it does.
pub fn network_file_system(path: &Path) -> Option<&'static str> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let found = rustix::fs::statfs(path).or_else(|_| rustix::fs::statfs(parent)).ok()?;
    // The kernel's numbers have 32 bits; the field's width and sign differ between machines.
    network_name(u64::try_from(i128::from(found.f_type) & 0xffff_ffff).unwrap_or(0))
}

/// What `linux/magic.h` and the file systems' own headers call these numbers.
const fn network_name(magic: u64) -> Option<&'static str> {
    Some(match magic {
        0x6969 => "NFS",
        0x517b | 0xfe53_4d42 | 0xff53_4d42 => "SMB",
        0x0102_1997 => "9P",
        0x5346_414f | 0x6b41_4653 => "AFS",
        0x7375_7245 => "Coda",
        0x564c => "NCP",
        0x00c3_6400 => "Ceph",
        0x0bd0_0bd0 => "Lustre",
        0x786f_4256 => "a VirtualBox shared folder",
        0x6573_5546 => "FUSE",
        _ => return None,
    })
}

/// Looks at the file without opening it: closing it again would drop the locks that this process holds on it.
fn check(path: &Path) -> io::Result<()> {
    if fs::metadata(path)?.is_file() {
        return Ok(());
    }
    Err(io::Error::other("not a regular file"))
}

fn failed(path: &Path, error: &io::Error) -> Ended {
    Ended::new(Exit::Storage, format_args!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's numbers, as `stat -f` shows them; ext4, tmpfs, btrfs, xfs and overlayfs are no networks.
    #[test]
    fn network_file_systems_are_known_by_their_number() {
        assert_eq!(network_name(0x6969), Some("NFS"));
        assert_eq!(network_name(0xff53_4d42), Some("SMB"));
        for local in [0xef53, 0x0102_1994, 0x9123_683e, 0x5846_5342, 0x794c_7630] {
            assert_eq!(network_name(local), None, "{local:x}");
        }
    }

    #[test]
    fn a_local_directory_passes_also_for_a_file_that_is_yet_to_be_made() {
        let dir = tempfile::tempdir().unwrap();
        assert!(local(&dir.path().join("queue.db"), false).is_ok());
    }
}
