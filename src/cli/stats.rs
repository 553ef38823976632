//! `ackward stats`.

use ackward::adapter::SystemClock;
use ackward::port::Clock;
use ackward::rules::Millis;
use ackward::storage::Stats as Counts;
use clap::Args;

use super::exit::Ended;
use super::output::say;
use super::queue_file::QueueFile;

/// Count a queue's jobs
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  ackward stats --queue jobs.db --json

It reads the whole table, in short pieces, so that no worker waits for it; with workers at it the numbers may belong to \
slightly different moments.")]
pub struct Stats {
    #[command(flatten)]
    queue: QueueFile,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Stats {
    pub fn run(self) -> Result<(), Ended> {
        let now = SystemClock.now()?;
        let counts = self.queue.look()?.stats(now).map_err(|error| self.queue.failed(&error))?;
        if self.json {
            say(json(&counts));
        } else {
            text(&counts, now);
        }
        Ok(())
    }
}

/// The counts for programs.
pub fn json(counts: &Counts) -> serde_json::Value {
    serde_json::json!({
        "pending": counts.pending, "leased": counts.leased, "done": counts.done, "dead": counts.dead,
        "dead_by_reason": counts.dead_by_reason, "ready": counts.ready, "ready_since_ms": counts.ready_since_ms,
        "doomed": counts.doomed,
        "next_ready_ms": counts.next_ready_ms, "next_deadline_ms": counts.next_deadline_ms,
        "overdue": counts.overdue, "redrives": counts.redrives,
    })
}

fn text(counts: &Counts, now: Millis) {
    let Counts { pending, leased, done, dead, ready, doomed, overdue, redrives, .. } = counts;
    let ago = |ms: i64| span(now.get().saturating_sub(ms));
    let mut waits = format!("{ready} ready");
    if let Some(since) = counts.ready_since_ms {
        waits.push_str(&format!(", the oldest for {}", ago(since)));
    }
    if let Some(next) = counts.next_ready_ms {
        waits.push_str(&format!(", the next in {}", span(next.saturating_sub(now.get()))));
    }
    if let Some(deadline) = counts.next_deadline_ms {
        waits.push_str(&format!(", the first deadline in {}", span(deadline.saturating_sub(now.get()))));
    }
    if *doomed > 0 {
        waits.push_str(&format!(", {doomed} dead at the next claim: their time or attempts are over"));
    }
    let reasons: Vec<_> = counts
        .dead_by_reason
        .iter()
        .map(|(reason, count)| format!("{count} {}", reason.escape_debug()))
        .collect();
    say(format_args!("pending {pending:>9}  {waits}"));
    say(format_args!("leased  {leased:>9}  {overdue} overdue"));
    say(format_args!("done    {done:>9}"));
    say(format_args!("dead    {dead:>9}  {}", reasons.join(", ")).to_string().trim_end());
    say(format_args!("redrives{redrives:>9}"));
}

/// A span for people, in its largest fitting unit.
pub fn span(ms: i64) -> String {
    match ms {
        ..0 => format!("{} ago", span(-ms.max(-i64::MAX))),
        0..1_000 => format!("{ms} ms"),
        1_000..120_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        120_000..7_200_000 => format!("{} min", ms / 60_000),
        7_200_000..172_800_000 => format!("{} h", ms / 3_600_000),
        _ => format!("{} days", ms / 86_400_000),
    }
}

#[cfg(test)]
mod tests {
    use super::span;

    #[test]
    fn a_span_has_one_fitting_unit() {
        for (ms, text) in
            [(0, "0 ms"), (999, "999 ms"), (1_550, "1.5 s"), (120_000, "2 min"), (7_200_000, "2 h")]
        {
            assert_eq!(span(ms), text);
        }
        assert_eq!(span(172_800_000), "2 days");
        assert_eq!(span(-5), "5 ms ago");
        assert!(span(i64::MIN).ends_with("days ago"));
    }
}
