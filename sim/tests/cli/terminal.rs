//! What a terminal shows: a bar for what takes long, from its first part on.

use std::fs::File;
use std::io::Read;
use std::process::Child;

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::{command, text_of};

/// Found once in thousands of seeds: a hunt for it takes a while.
const RARE: &str = "repeat-unsynced";

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
