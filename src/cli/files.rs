//! Files as the command line is given them. The database files: regular files only, created for their owner alone, not
//! on a file system whose locks cannot be trusted. What is read from outside, settings, secrets, events: regular files
//! and the shell's pipes, since opening or reading anything else may never end.

use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use ackward::storage::{FileKind, StorageError};
use rusqlite::ErrorCode;

use super::exit::{Ended, Exit};

/// The most that a file of settings or secrets may hold, in bytes.
const TEXT_BYTES_MAX: u64 = 1024 * 1024;
/// What a database, or a log that is written or served, must be.
const REGULAR: &str = "a regular file";
/// What may be read from.
const READABLE: &str = "a regular file, or a pipe of the shell such as <(...)";

/// Checks a file that may be missing, and creates it then, with mode 0600. SQLite gives its journal the same.
/// Returns whether it was created. A file of another kind is refused as it is.
pub fn prepare(path: &Path, kind: FileKind) -> Result<bool, Ended> {
    let created = create(path).map_err(|error| failed(path, &error))?;
    if !created {
        of_kind(path, kind)?;
    }
    Ok(created)
}

fn create(path: &Path) -> io::Result<bool> {
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
}

/// Refuses a file that has the tables of another kind and not those of its own. One that cannot be looked at passes:
/// whoever opens it next says why.
pub fn of_kind(path: &Path, kind: FileKind) -> Result<(), Ended> {
    let Ok(found) = FileKind::look(path) else { return Ok(()) };
    let Some(other) = found.first().filter(|_| !found.contains(&kind)) else { return Ok(()) };
    let why = format_args!(
        "{}: it is {} (with the tables {}), allowed: {}, or a new path",
        path.display(),
        other.name(),
        other.tables().join(", "),
        kind.name()
    );
    Err(Ended::new(Exit::Storage, why))
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
        (_, Some(ErrorCode::DiskFull)) => {
            ": make room and try again (where there is room, see what `ackward doctor` says)"
        }
        (_, Some(ErrorCode::ReadOnly)) => {
            ": check the permissions of the file and its directory, and that it was not moved or replaced"
        }
        (_, Some(ErrorCode::SystemIoFailure)) if error.is_failed_write() => {
            ": check the disk, and whether the file may grow (ulimit -f, the largest file of its file system)"
        }
        (_, Some(ErrorCode::DatabaseCorrupt)) => ": see what `ackward doctor` says, and restore a backup",
        (StorageError::Row(_), _) => {
            ": another program wrote it, and no claim takes it; see what `ackward doctor` says"
        }
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

/// Opens a file to read it from its beginning to its end. It is looked at first: opening a named pipe would wait for
/// somebody who writes, and a device may have no end.
pub fn open(path: &Path) -> io::Result<File> {
    let kind = fs::metadata(path)?.file_type();
    if kind.is_file() || (kind.is_fifo() && has_no_name(path)) {
        return File::open(path);
    }
    Err(refused(kind, READABLE))
}

/// The text of a file of settings or secrets, at most 1 MiB.
pub fn text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    open(path)?.take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > TEXT_BYTES_MAX {
        return Err(wrong_text("it is larger than 1 MiB, allowed: up to 1 MiB"));
    }
    String::from_utf8(bytes).map_err(|_| wrong_text("it is not UTF-8, allowed: UTF-8 text"))
}

/// A file that can be read, with something in it that is not allowed.
fn wrong_text(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// How a command ends that could not read a file: what is in it may be wrong input, all else is the file.
pub fn exit_of(error: &io::Error) -> Exit {
    if error.kind() == io::ErrorKind::InvalidData { Exit::Usage } else { Exit::Storage }
}

/// Checks a file that is to be appended to, and may be missing.
pub fn appendable(path: &Path) -> io::Result<()> {
    match check(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        checked => checked,
    }
}

/// Whether a pipe is one without a name, as those of the shell (`/dev/fd/63`) are: opening one that has a name waits
/// for its other end. The kernel keeps the nameless ones apart, on a file system of their own.
fn has_no_name(pipe: &Path) -> bool {
    const PIPEFS_MAGIC: i128 = 0x5049_5045;
    rustix::fs::statfs(pipe).is_ok_and(|found| i128::from(found.f_type) == PIPEFS_MAGIC)
}

/// Looks at the file without opening it: closing it again would drop the locks that this process holds on it.
fn check(path: &Path) -> io::Result<()> {
    let kind = fs::metadata(path)?.file_type();
    if kind.is_file() { Ok(()) } else { Err(refused(kind, REGULAR)) }
}

fn refused(kind: FileType, allowed: &str) -> io::Error {
    let is = match kind {
        kind if kind.is_dir() => "a directory",
        kind if kind.is_fifo() => "a named pipe",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    };
    io::Error::other(format!("it is {is}, allowed: {allowed}"))
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
