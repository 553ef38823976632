//! The database files: regular files only, created for their owner alone.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::exit::{Ended, Exit};

/// Checks a file that may be missing, and creates it then, with mode 0600. SQLite gives its journal the same.
pub fn prepare(path: &Path) -> Result<(), Ended> {
    match check(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
            match created {
                // Another process was faster.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => check(path),
                created => created.map(drop),
            }
        }
        checked => checked,
    }
    .map_err(|error| failed(path, &error))
}

/// Checks a file that must exist (Q56).
pub fn existing(path: &Path) -> Result<(), Ended> {
    check(path).map_err(|error| failed(path, &error))
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
