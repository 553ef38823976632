//! Files from outside that are no regular ones: named pipes would block for ever, and devices never end.

use std::process::{Command, Output};

use super::{PLAIN, folder, text_of};

/// A command that is ended where it hangs.
fn within_seconds(args: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "20", env!("CARGO_BIN_EXE_ackward-sim")]).args(args);
    command.output().unwrap()
}

fn refused(args: &[&str], part: &str) {
    let output = within_seconds(args);
    let errors = text_of(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {errors}");
    assert!(errors.contains(part), "{args:?}: {part:?} is not in {errors}");
}

#[test]
fn named_pipes_are_refused_wherever_a_file_is_read_or_written() {
    let folder = folder(&[("x.toml", PLAIN), ("corpus/y", "")]);
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for name in ["pipe", "corpus/pipe.toml"] {
        assert!(Command::new("mkfifo").arg(path(name)).status().unwrap().success());
    }
    let (file, pipe) = (path("x.toml"), path("pipe"));
    let why = "is a named pipe, which could block for ever; allowed: a regular file";
    refused(&["run", &pipe], why);
    refused(&["merge", &pipe], why);
    refused(&["import", &pipe], why);
    refused(&["fuzz", &file, "--seeds", "1", "--report", &pipe], why);
    refused(&["fuzz", &file, "--seeds", "1", "--junit", &pipe], why);
    refused(&["fuzz", &file, "--seeds", "1", "--cover", "--corpus", &path("corpus")], why);
}

#[test]
fn what_never_ends_is_refused() {
    let folder = folder(&[("x.toml", PLAIN), ("corpus/y", "")]);
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::os::unix::fs::symlink("/dev/zero", path("corpus/zero.toml")).unwrap();
    refused(&["run", "/dev/zero"], "is larger than 1 MiB, allowed: up to 1 MiB");
    refused(&["merge", "/dev/zero"], "is no report, allowed: what cargo sim fuzz --report FILE writes");
    let args = ["fuzz", &path("x.toml"), "--seeds", "1", "--cover", "--corpus", &path("corpus")];
    refused(&args, "is larger than 1 MiB, allowed: up to 1 MiB");
}
