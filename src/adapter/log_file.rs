//! A publisher's log as a file.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use crate::shell::LogBytes;

/// A log file, opened for reading. It may grow meanwhile; it must not be replaced or cut.
#[derive(Debug)]
pub struct LogFile(File);

impl LogFile {
    /// Opens an existing file.
    ///
    /// # Errors
    /// The system's error; a directory is refused too.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        if file.metadata()?.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory));
        }
        Ok(Self(file))
    }
}

impl LogBytes for LogFile {
    fn len(&mut self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.seek(SeekFrom::Start(offset))?;
        self.0.read(buffer)
    }
}
