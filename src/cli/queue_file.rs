//! The queue file as the commands are given it, and how each opens it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ackward::storage::{Durability, FileKind, OpenOptions, Queue, StorageError};
use clap::{Args, ValueEnum};

use super::exit::Ended;
use super::files;

/// Where the queue is.
#[derive(Debug, Clone, Args)]
pub struct QueueFile {
    /// The queue's SQLite file
    #[arg(long = "queue", env = "ACKWARD_QUEUE", value_name = "FILE")]
    path: PathBuf,
    /// Open the file although it lies on a network file system, whose locks may not hold between hosts
    #[arg(long, env = "ACKWARD_ALLOW_NETWORK_FS")]
    allow_network_fs: bool,
}

/// What a commit survives.
#[derive(Debug, Clone, Copy, Args)]
pub struct Durable {
    /// What a commit survives
    #[arg(long, env = "ACKWARD_DURABILITY", value_enum, default_value_t = Survives::Power)]
    durability: Survives,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Survives {
    /// Loses nothing in a power cut: journal mode DELETE, synchronous EXTRA, five syncs a commit
    Power,
    /// Loses nothing to a killed process; a power cut can take back the last commit, and its token is then issued
    /// again: journal mode DELETE, synchronous FULL, four syncs a commit
    Process,
}

impl Durable {
    /// As storage calls it.
    pub const fn get(self) -> Durability {
        match self.durability {
            Survives::Power => Durability::Extra,
            Survives::Process => Durability::Full,
        }
    }

    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self.durability {
            Survives::Power => "power",
            Survives::Process => "process",
        }
    }
}

impl QueueFile {
    /// The path as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the file, and makes it where it is missing. The second value tells whether it was.
    pub fn create(&self, durable: Durable) -> Result<(Queue, bool), Ended> {
        files::local(&self.path, self.allow_network_fs)?;
        let created = files::prepare(&self.path, FileKind::Queue)?;
        let queue = Queue::open(&self.path, &OpenOptions::new(durable.get()));
        Ok((queue.map_err(|error| self.failed(&error))?, created))
    }

    /// Opens an existing file to change it.
    pub fn open(&self, durable: Durable) -> Result<Queue, Ended> {
        self.try_open(durable)?.map_err(|error| self.failed(&error))
    }

    /// The same, with SQLite's error as it is.
    pub fn try_open(&self, durable: Durable) -> Result<Result<Queue, StorageError>, Ended> {
        self.check()?;
        Ok(Queue::open(&self.path, &OpenOptions::new(durable.get()).create(false)))
    }

    /// Opens an existing file to look at it.
    pub fn look(&self) -> Result<Queue, Ended> {
        self.try_look()?.map_err(|error| self.failed(&error))
    }

    /// The same, with SQLite's error as it is.
    pub fn try_look(&self) -> Result<Result<Queue, StorageError>, Ended> {
        files::existing(&self.path)?;
        files::of_kind(&self.path, FileKind::Queue)?;
        Ok(self.open_to_look()())
    }

    /// What opens the file to look at it, for another thread.
    pub fn open_to_look(&self) -> impl Fn() -> Result<Queue, StorageError> + Clone + Send + 'static {
        let path = self.path.clone();
        move || Queue::open(&path, &OpenOptions::new(Durability::Full).read_only())
    }

    /// What opens the file for the worker, which waits for locks by itself.
    pub fn open_to_work(
        &self,
        durable: Durable,
    ) -> impl Fn() -> Result<Queue, StorageError> + Clone + Send + 'static {
        let path = self.path.clone();
        let options = OpenOptions::new(durable.get()).create(false).busy_timeout(Duration::ZERO);
        move || Queue::open(&path, &options)
    }

    /// Whether the file opens, if it is not just locked.
    pub fn check_opens(&self, durable: Durable) -> Result<(), Ended> {
        match self.open_to_work(durable)() {
            Err(error) if !error.is_busy() => Err(self.failed(&error)),
            _ => Ok(()),
        }
    }

    /// Whether there is a file that can be worked on.
    pub fn check(&self) -> Result<(), Ended> {
        files::existing(&self.path)?;
        files::local(&self.path, self.allow_network_fs)?;
        files::of_kind(&self.path, FileKind::Queue)
    }

    /// Whether the path leads to a file that has a queue's tables.
    pub fn is_set_up(&self) -> bool {
        FileKind::look(&self.path).is_ok_and(|found| found.contains(&FileKind::Queue))
    }

    /// An error of SQLite with the file's name.
    pub fn failed(&self, error: &StorageError) -> Ended {
        files::storage(&self.path, error)
    }
}
