//! A run's final state as text: all rows without times, and how each process ended.

use std::fmt::Write;

use crate::computer::Ending;
use crate::judge::Judges;

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
    for row in judges.inbox.model().effects() {
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
