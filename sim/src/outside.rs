//! Files from outside: read up to a limit, so that a device that never ends is refused, and never waiting for ever for
//! somebody to open the other end of a named pipe.
//!
//! What the bytes mean is up to whoever reads them.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
pub enum OutsideError {
    /// Nobody may ever write to it. Name a regular file, or let the shell make the pipe.
    #[error(
        "the file is a named pipe, which could block for ever; allowed: a regular file, or a pipe of the shell such as \
         <(...)"
    )]
    NamedPipe,
    /// It holds more bytes than this. Name a smaller file.
    #[error("the file is larger than {limit}, allowed: up to {limit}", limit = Size(*.0))]
    TooLarge(u64),
    /// What the operating system says: make the file accessible, or name another one.
    #[error(transparent)]
    Access(#[from] io::Error),
}

/// Reads a whole file of at most `len_max` bytes.
///
/// # Errors
/// [`OutsideError`] where it is a named pipe, larger, or cannot be read.
pub fn read(path: &Path, len_max: u64) -> Result<Vec<u8>, OutsideError> {
    let mut bytes = Vec::new();
    open(path)?.take(len_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > len_max { Err(OutsideError::TooLarge(len_max)) } else { Ok(bytes) }
}

/// Opens a file for reading. How much is read is up to the caller.
///
/// # Errors
/// [`OutsideError`] where it is a named pipe or cannot be opened.
pub fn open(path: &Path) -> Result<File, OutsideError> {
    refuse_named_pipe(path)?;
    Ok(File::open(path)?)
}

/// Sees that opening a file does not wait for somebody at its other end. A pipe of the shell has one.
///
/// # Errors
/// [`OutsideError::NamedPipe`].
pub fn refuse_named_pipe(path: &Path) -> Result<(), OutsideError> {
    if is_named_pipe(path) { Err(OutsideError::NamedPipe) } else { Ok(()) }
}

/// A pipe of the shell has no path of its own.
#[cfg(unix)]
fn is_named_pipe(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo())
        && path.canonicalize().is_ok()
}

#[cfg(not(unix))]
fn is_named_pipe(_: &Path) -> bool {
    false
}

/// `1 MiB`; limits are whole ones.
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 >> 20 {
            0 => write!(f, "{} bytes", self.0),
            mib if mib.is_multiple_of(1 << 10) => write!(f, "{} GiB", mib >> 10),
            mib => write!(f, "{mib} MiB"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_the_limit_is_read_and_one_byte_more_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "1234").unwrap();
        assert_eq!(read(&path, 4).unwrap(), b"1234");
        assert_eq!(
            read(&path, 3).unwrap_err().to_string(),
            "the file is larger than 3 bytes, allowed: up to 3 bytes"
        );
        assert!(matches!(read(&folder.path().join("none"), 3), Err(OutsideError::Access(_))));
    }

    #[test]
    fn limits_read_well() {
        assert_eq!(
            [1 << 20, 64 << 20, 4 << 30].map(|bytes| Size(bytes).to_string()),
            ["1 MiB", "64 MiB", "4 GiB"]
        );
    }
}
