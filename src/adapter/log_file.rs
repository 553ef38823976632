//! A publisher's log as a file.

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::shell::LogBytes;

/// A log file, opened for reading. It may grow meanwhile; it must not be replaced or cut, which is noticed.
#[derive(Debug)]
pub struct LogFile {
    file: File,
    path: PathBuf,
    /// Device and inode of the file that was opened.
    identity: (u64, u64),
}

impl LogFile {
    /// Opens an existing file.
    ///
    /// # Errors
    /// The system's error; a directory is refused too.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory));
        }
        Ok(Self { file, path: path.to_owned(), identity: identity(&metadata) })
    }
}

impl LogBytes for LogFile {
    fn len(&mut self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.seek(SeekFrom::Start(offset))?;
        self.file.read(buffer)
    }

    fn is_in_place(&mut self) -> io::Result<bool> {
        Ok(fs::metadata(&self.path).is_ok_and(|there| identity(&there) == self.identity))
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}
