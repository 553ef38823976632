//! What a terminal shows: a bar for what takes long, from its first part on, and tables that fit.

use std::fs::File;
use std::io::Read;
use std::process::Child;

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::{command, text_of};

/// Found once in thousands of seeds: a hunt for it takes a while.
const RARE: &str = "repeat-unsynced";

/// What clears a line of a terminal.
const TAKEN_AWAY: &str = "\u{1b}[2K";

#[test]
fn a_bar_is_shown_within_the_first_part_of_what_takes_long() {
    let cases: &[(&[&str], &str, &str)] = &[
        (&["zoo", "--only", RARE, "--starts", "100"], "  0%  repeat-unsynced", "Survivors"),
        (
            &["strategies", "--only", "finish-by-id", "--campaigns", "1000"],
            "  0%  finish-by-id",
            "median runs to detection",
        ),
        (&["bench", "--rounds", "1"], "%  round 1 of 1", "one core"),
    ];
    for (args, bar, result) in cases {
        let text = Terminal::start(args, 100).show(Some(bar));
        assert!(text.contains(bar), "{args:?}: no bar in {text}");
        assert!(!text.contains(result), "{args:?}: too late in {text}");
    }
}

#[test]
fn the_board_of_the_zoo_fits_a_terminal_with_all_names_whole() {
    const NAME: &str = "stale-finish";
    let show = |columns| {
        let args = ["zoo", "--only", NAME, "--only", "gap", "--starts", "1"];
        let text = Terminal::start(&args, columns).show(None);
        // A bar is taken away before the board is shown.
        text.rsplit(TAKEN_AWAY).next().unwrap().to_owned()
    };
    let narrow = show(60);
    assert!(
        narrow.contains(NAME) && narrow.contains("caught by") && !narrow.contains("found by"),
        "{narrow}"
    );
    let mut table = narrow.lines().filter(|line| !line.contains("hunted"));
    assert!(table.all(|line| line.trim_end().chars().count() <= 60), "{narrow}");
    let wide = show(300);
    assert!(wide.contains(NAME) && wide.contains("found by") && wide.contains("median ms"), "{wide}");
    // It does not know how wide it is.
    let unknown = show(0);
    assert!(unknown.contains("| mistake ") && unknown.contains("| found by "), "{unknown}");
}

/// Some terminals say that they have no columns: nothing is cut there, as in a pipe.
#[test]
fn the_table_of_a_campaign_is_whole_where_the_width_is_not_known() {
    const LONG: &str = "scenarios/lease-runs-out-during-a-slow-send.toml";
    let args = ["fuzz", LONG, "--seeds", "2", "--details", "--no-shrink"];
    let row_on = |columns| {
        let text = Terminal::start(&args, columns).show(None);
        let table = text.rsplit(TAKEN_AWAY).next().unwrap().to_owned();
        table.lines().find(|line| line.contains(LONG)).map(str::to_owned)
    };
    let row = row_on(0).expect("the scenario's line has its whole path");
    // More than 80 columns, and the last of them is there.
    assert!(row.len() > 120 && row.starts_with("| ") && row.trim_end().ends_with(" |"), "{row}");
    assert_eq!(row.matches('|').count(), 9, "eight columns: {row}");
    assert_eq!(row_on(100), None, "names are short, and broken, where room is short");
}

/// A program on a terminal of its own.
struct Terminal {
    child: Child,
    screen: File,
}

impl Terminal {
    /// Starts it on a terminal so many columns wide.
    fn start(args: &[&str], columns: u16) -> Self {
        let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&screen).unwrap();
        unlockpt(&screen).unwrap();
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&screen, size).unwrap();
        let name = ptsname(&screen, Vec::new()).unwrap();
        let end = || rustix::fs::open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        let mut command = command();
        command.env("TERM", "xterm").args(args).stdin(end()).stdout(end()).stderr(end());
        let child = command.spawn().unwrap();
        Self { child, screen: screen.into() }
    }

    /// All that it shows, or what it shows until a part of it is there.
    fn show(mut self, until: Option<&str>) -> String {
        let (mut shown, mut buffer) = (Vec::new(), [0; 4096]);
        // Where all others have closed it, reading ends with an error.
        while let Ok(len @ 1..) = self.screen.read(&mut buffer) {
            shown.extend_from_slice(&buffer[..len]);
            if until.is_some_and(|part| text_of(&shown).contains(part)) {
                break;
            }
        }
        // It may have ended by itself.
        let _ = self.child.kill();
        self.child.wait().unwrap();
        text_of(&shown)
    }
}
