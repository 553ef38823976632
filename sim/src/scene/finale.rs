//! A run's final state as text: all rows without times, and how each process ended.

use std::cell::RefCell;
use std::fmt::Write;

use super::QUEUE_FILE;
use crate::computer::{Ending, MachineId, current};
use crate::judge::Judges;
use crate::sqlite_file::{Catalog, Image, Malformed, ValueRef};

/// The queue file's journal.
const QUEUE_JOURNAL: &str = "queue.db-journal";
/// The place of `status` among the columns of `jobs`.
const STATUS: usize = 3;

/// Tells from the queue file alone, as it lies on the disk, whether it holds only jobs that are done or dead.
pub(super) struct Reader {
    machine: MachineId,
    catalog: RefCell<Catalog>,
}

impl Reader {
    pub(super) fn new(machine: MachineId) -> Self {
        Self { machine, catalog: RefCell::default() }
    }

    /// While a journal is there a transaction is under way, and the answer is no.
    pub(super) fn is_settled(&self) -> bool {
        let Some(world) = current() else { return false };
        world.with_file(self.machine, QUEUE_JOURNAL, |_| ()).is_none()
            && world.with_file(self.machine, QUEUE_FILE, |bytes| self.has_open_jobs(bytes)) == Some(Ok(false))
    }

    fn has_open_jobs(&self, bytes: &[u8]) -> Result<bool, Malformed> {
        let image = Image::new(bytes)?;
        let jobs = self.catalog.borrow_mut().schema(&image)?.table("jobs");
        let Some(jobs) = jobs else { return Ok(true) };
        let mut is_open = false;
        image.for_each_row(jobs, |_, values| {
            is_open |= matches!(values.get(STATUS), Some(ValueRef::Text("pending" | "leased")));
            Ok::<_, Malformed>(())
        })?;
        Ok(is_open)
    }
}

pub(super) fn text(judges: &Judges, processes: &[(String, Option<Ending>)]) -> String {
    let mut text = String::from("jobs\n");
    for (seq, job) in judges.queue.model().jobs() {
        let owner = job.owner.as_ref().map_or("-", |owner| owner.as_str());
        let reason = job.reason.map_or("-", |reason| reason.as_str());
        let budget = format!("{}/{}", job.attempts, job.max_attempts);
        line(
            &mut text,
            &format!(
                "{seq} {} qty={} {} attempts={budget} token={} owner={owner} reason={reason}",
                job.id, job.qty, job.status, job.token
            ),
        );
    }
    text.push_str("redrives\n");
    for row in judges.queue.model().redrives() {
        line(&mut text, &format!("{} {} token={} note={}", row.seq, row.id, row.token, row.note));
    }
    text.push_str("effects\n");
    for row in judges.inbox.model().0.effects() {
        line(&mut text, &format!("{} {} qty={}", row.seq, row.id, row.qty));
    }
    for store in &judges.stores {
        let (last, total) = store.file.model().0.state();
        line(&mut text, &format!("{} last={last} total={total}", store.file.judged().file));
    }
    text.push_str("processes\n");
    for (name, ending) in processes {
        let ending = match ending {
            None => "running".to_owned(),
            Some(Ending::Finished) => "finished".to_owned(),
            Some(Ending::Killed) => "killed".to_owned(),
            Some(Ending::Panicked(panic)) => format!("panicked: {panic}"),
        };
        line(&mut text, &format!("{name} {ending}"));
    }
    text
}

fn line(text: &mut String, line: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "  {line}");
}
