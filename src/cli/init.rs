//! `ackward init`.

use clap::Args;

use super::exit::Ended;
use super::output::say;
use super::queue_file::{Durable, QueueFile};

/// Set a queue file up; one that is there is left as it is
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  ackward init --queue jobs.db

The file belongs to its owner alone (mode 0600). What a queue file lacks, such as an index, is added; its rows stay. \
enqueue does the same by itself.")]
pub struct Init {
    #[command(flatten)]
    queue: QueueFile,
    #[command(flatten)]
    durable: Durable,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
}

impl Init {
    pub fn run(self) -> Result<(), Ended> {
        let was_set_up = self.queue.is_set_up();
        let (_, created) = self.queue.create(self.durable)?;
        let path = self.queue.path().display();
        if self.json {
            let queue = path.to_string();
            say(serde_json::json!({ "queue": queue, "created": created, "set_up": !was_set_up }));
        } else if created {
            say(format_args!("{path}: created"));
        } else if !was_set_up {
            say(format_args!("{path}: was there already, without a queue's tables; they are set up now"));
        } else {
            say(format_args!("{path}: was there already, its rows are as they were"));
        }
        Ok(())
    }
}
