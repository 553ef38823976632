//! The page for people: plain HTML that is whole without a script. Whatever comes from a file is escaped.

use std::fmt::Write;

use ackward::storage::JobRow;

use super::board::{Counts, Sample, View};
use crate::cli::output::spelt;
use crate::cli::stats::span;
use crate::cli::values::time;

/// The stylesheet and the script, served beside the page.
pub const STYLE: &str = include_str!("style.css");
pub const SCRIPT: &str = include_str!("script.js");

/// Width and height of the drawing, in its own units.
const WIDTH: i64 = 720;
const HEIGHT: i64 = 120;

/// The page.
pub fn html(view: &View) -> String {
    let mut main = String::new();
    let title = escape(&view.title);
    // Writing to a String cannot fail.
    let _ = write!(main, "<h1>{title}</h1>");
    if let Some(trouble) = &view.trouble {
        let _ = write!(main, "<p class=\"trouble\">{}</p>", escape(trouble));
    }
    match &view.counts {
        Counts::None => main.push_str("<p>Nothing counted yet.</p>"),
        Counts::Queue { stats, dead, audit } => {
            depth(&mut main, &view.samples);
            let mut rows = vec![
                ("pending", stats.pending),
                ("of them ready", stats.ready),
                ("leased", stats.leased),
                ("of them overdue", stats.overdue),
                ("done", stats.done),
                ("dead", stats.dead),
            ];
            rows.extend(stats.dead_by_reason.iter().map(|(reason, count)| (reason.as_str(), *count)));
            table(&mut main, "Jobs", &rows);
            listed(
                &mut main,
                "Dead jobs, the last ones",
                dead,
                &["id", "reason", "attempts", "token", "available_at"],
            );
            listed(&mut main, "Redrives, the newest first", audit, &["at_ms", "id", "token", "note"]);
        }
        Counts::Inbox { totals, received } => {
            let whole = |count| i64::try_from(count).unwrap_or(i64::MAX);
            let rows = [
                ("events that took effect, over the file's life", totals.count),
                ("the sum of their quantities", totals.qty),
                ("new since the start", whole(received.applied)),
                ("repeats since the start", whole(received.repeats)),
                ("refused since the start", whole(received.refused)),
                ("connections since the start", whole(received.connections)),
            ];
            table(&mut main, "Events", &rows);
        }
    }
    let _ = write!(main, "<p>As of {}.</p>", time(view.at_ms));
    format!(
        "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><link rel=\"stylesheet\" href=\"/style.css\">\
         <noscript><meta http-equiv=\"refresh\" content=\"5\"></noscript><script src=\"/script.js\" defer></script>\
         </head><body><main>{main}</main><footer>ackward {}. Read only: <a href=\"/metrics\">metrics</a>, \
         <a href=\"/status.json\">JSON</a>.</footer></body></html>",
        env!("CARGO_PKG_VERSION")
    )
}

/// The jobs not yet finished, over time.
fn depth(main: &mut String, samples: &[Sample]) {
    main.push_str("<h2>Jobs not finished, over time</h2>");
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
        main.push_str("<p>No samples yet.</p>");
        return;
    };
    let most = samples.iter().map(|sample| sample.depth).max().unwrap_or(0).max(1);
    let spread = (last.at_ms - first.at_ms).max(1);
    let points: Vec<_> = samples
        .iter()
        .map(|sample| {
            let x = (sample.at_ms - first.at_ms).clamp(0, spread) * WIDTH / spread;
            let y = HEIGHT - sample.depth * HEIGHT / most;
            format!("{x},{y}")
        })
        .collect();
    let _ = write!(
        main,
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-label=\"{} now, {most} at most\"><polyline points=\"{}\"/></svg><p>{} now, {most} at most, over {}.</p>",
        last.depth,
        points.join(" "),
        last.depth,
        span(spread)
    );
}

fn table(main: &mut String, title: &str, rows: &[(&str, i64)]) {
    let _ = write!(main, "<h2>{title}</h2><table>");
    for (name, count) in rows {
        let _ =
            write!(main, "<tr><th scope=\"row\">{}</th><td class=\"number\">{count}</td></tr>", escape(name));
    }
    main.push_str("</table>");
}

fn listed(main: &mut String, title: &str, rows: &[JobRow], columns: &[&str]) {
    let _ = write!(main, "<h2>{title}</h2>");
    if rows.is_empty() {
        main.push_str("<p>None.</p>");
        return;
    }
    main.push_str("<table><tr>");
    for column in columns {
        let _ = write!(main, "<th scope=\"col\">{column}</th>");
    }
    main.push_str("</tr>");
    for row in rows {
        main.push_str("<tr>");
        for column in columns {
            let _ = write!(main, "<td>{}</td>", escape(&spelt(column, row.get(column))));
        }
        main.push_str("</tr>");
    }
    main.push_str("</table>");
}

/// Text that is only text, between tags and in quotes.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use ackward::storage::Stats;
    use rusqlite::types::Value;

    /// Another program's id or note cannot become part of the page.
    #[test]
    fn what_stands_in_the_file_is_only_text() {
        let evil = "<script>alert('1')</script>\"&";
        let row = |column: &str| JobRow(vec![(column.to_owned(), Value::Text(evil.to_owned()))]);
        let mut stats = Stats { dead: 1, ..Stats::default() };
        stats.dead_by_reason.insert(evil.to_owned(), 1);
        let view = View {
            title: evil.to_owned(),
            at_ms: 0,
            trouble: Some(evil.to_owned()),
            samples: vec![Sample { at_ms: 0, depth: 3 }, Sample { at_ms: 10, depth: 0 }],
            counts: Counts::Queue { stats, dead: vec![row("id")], audit: vec![row("note")] },
        };
        let page = html(&view);
        assert!(!page.contains("<script>alert"), "{page}");
        assert_eq!(page.matches("&lt;script&gt;").count(), 6, "{page}");
        assert!(page.contains("points=\"0,0 720,120\""), "{page}");
        assert!(!page.contains(" style="), "the policy forbids it");
    }
}
