//! Files from outside: settings, secrets, events to enqueue, logs. What could be waited for or read without end is
//! refused before it is opened.

use super::*;

/// A flag that takes a file, with the rest of its command, and whether the file is read once, so that
/// a pipe of the shell does.
struct Reader {
    command: &'static str,
    arguments: &'static [&'static str],
    flag: &'static str,
    takes_pipe: bool,
}

const READERS: &[Reader] = &[
    Reader { command: "enqueue", arguments: &[], flag: "--json-lines", takes_pipe: true },
    Reader { command: "init", arguments: &[], flag: "--config", takes_pipe: true },
    Reader {
        command: "work",
        arguments: &["--url", "http://127.0.0.1:1/jobs"],
        flag: "--secret-file",
        takes_pipe: true,
    },
    Reader {
        command: "work",
        arguments: &["--url", "http://127.0.0.1:1/jobs"],
        flag: "--events",
        takes_pipe: false,
    },
];

impl Reader {
    fn command(&self, site: &Site) -> Command {
        let mut command = ackward(self.command);
        command.arg("--queue").arg(site.queue()).args(self.arguments);
        command
    }
}

/// Appending to a SQLite file is what its next owner finds, and closing the queue drops this process's locks on it.
#[test]
fn an_event_log_is_no_sqlite_file() {
    let site = Site::new();
    site.enqueue("cake", 1);
    let other = site.path("other.db");
    open(&other).execute_batch("CREATE TABLE t (x)").unwrap();
    for (path, is) in [(site.queue(), "it is the queue"), (other, "it is a SQLite file")] {
        let before = std::fs::read(&path).unwrap();
        let (code, _, err) = run(site.worker("127.0.0.1:1").arg("--events").arg(&path));
        assert!(
            code == Some(5) && err.contains(is) && err.contains("allowed: an event log"),
            "{code:?} {err}"
        );
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
    // What SQLite takes for its own, and removes at the next commit.
    for end in ["-journal", "-wal", "-shm"] {
        let path = site.path(&format!("queue.db{end}"));
        let (code, _, err) = run(site.worker("127.0.0.1:1").arg("--events").arg(&path));
        assert!(code == Some(5) && err.contains("SQLite removes files of such a name"), "{code:?} {err}");
        assert!(!path.exists());
    }
}

/// A worker before this one was killed, or met a full disk, in the middle of a line.
#[test]
fn the_first_event_of_a_worker_stands_in_a_line_of_its_own() {
    let site = Site::new();
    let receiver = Receiver::start(&site, &[]);
    let log = site.write("events.jsonl", "{\"at_ms\":1,\"wha");
    site.enqueue("cake", 1);
    let worker = Process::start(site.worker(&receiver.address).arg("--events").arg(&log));
    site.wait_settled();
    assert_eq!(worker.stop().0, Some(0));
    let text = std::fs::read_to_string(log).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("{\"at_ms\":1,\"wha"));
    assert!(lines.all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{text}");
}

/// Each of these waits or goes on for ever once it is opened or read.
#[test]
fn a_named_pipe_a_device_and_a_directory_are_refused_before_they_are_opened() {
    let site = Site::new();
    site.enqueue("cake", 1);
    let pipe = site.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let directory = site.path("directory");
    std::fs::create_dir(&directory).unwrap();
    for reader in READERS {
        for (path, is) in [
            (pipe.as_path(), "a named pipe"),
            ("/dev/zero".as_ref(), "a device"),
            ("/dev/full".as_ref(), "a device"),
            (&directory, "a directory"),
        ] {
            let (code, _, err) = run(reader.command(&site).arg(reader.flag).arg(path));
            let place = format!("{} {}", reader.command, reader.flag);
            assert_eq!(code, Some(5), "{place} {}: {err}", path.display());
            let said = format!("{}: it is {is}, allowed: a regular file", path.display());
            assert!(err.contains(&said), "{place}: {err}");
        }
    }
    for path in [pipe.as_path(), "/dev/zero".as_ref(), &directory] {
        let (code, _, err) = run(ackward("publish").arg("--log-file").arg(path));
        assert_eq!(code, Some(5), "{err}");
        assert!(err.contains("allowed: a regular file"), "{err}");
    }
    assert_eq!(site.jobs(), ["cake pending 0 0"]);
}

/// A missing file is the same failure, whichever command misses it and whatever for.
#[test]
fn a_missing_file_has_one_exit_code() {
    let site = Site::new();
    site.enqueue("cake", 1);
    let missing = site.path("missing");
    for reader in READERS.iter().filter(|reader| reader.takes_pipe) {
        let (code, _, err) = run(reader.command(&site).arg(reader.flag).arg(&missing));
        assert_eq!((code, err.contains("missing: No such file")), (Some(5), true), "{}: {err}", reader.flag);
    }
    for command in ["list", "stats", "doctor", "tail", "prune", "redrive", "show", "work"] {
        let more: &[&str] = match command {
            "prune" => &["--older-than", "1d"],
            "redrive" => &["--all-dead", "--note", "n"],
            "show" => &["--id", "cake"],
            "work" => &["--url", "http://127.0.0.1:1/jobs"],
            _ => &[],
        };
        let (code, _, err) = run(ackward(command).arg("--queue").arg(&missing).args(more));
        assert_eq!((code, err.contains("missing: No such file")), (Some(5), true), "{command}: {err}");
    }
    let (code, _, err) = run(ackward("publish").arg("--log-file").arg(&missing));
    assert_eq!((code, err.contains("missing: No such file")), (Some(5), true), "publish: {err}");
    let (code, _, err) = run(ackward("man").arg("--dir").arg(&missing));
    assert_eq!((code, err.contains("missing/ackward.1: No such file")), (Some(5), true), "man: {err}");
}

/// `<(...)` is one: a path below /dev/fd that leads to a pipe without a name, whether who writes is still there or not.
#[test]
fn a_pipe_of_the_shell_is_read() {
    let site = Site::new();
    let through = |text: &str, command: &mut Command, flag: &str| {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(text.as_bytes()).unwrap();
        drop(writer);
        run(command.stdin(reader).args([flag, "/dev/fd/0"]))
    };
    let mut enqueue = ackward("enqueue");
    let enqueued =
        through("{\"id\":\"cake\",\"qty\":1}\n", enqueue.arg("--queue").arg(site.queue()), "--json-lines");
    assert_eq!(enqueued, (Some(0), "1 new, 0 duplicates, 0 refused\n".to_owned(), made(&site.queue())));
    let queue = format!("queue = {:?}", site.queue());
    let (code, out, err) = through(&queue, &mut ackward("list"), "--config");
    assert_eq!((code, out.contains("id cake")), (Some(0), true), "{err}");
    for reader in READERS.iter().filter(|reader| reader.takes_pipe) {
        let (code, _, err) = through("nonsense", &mut reader.command(&site), reader.flag);
        assert_eq!(code, Some(2), "{}: {err}", reader.flag);
        assert!(
            !err.contains("allowed: a regular file"),
            "{}: it is read, and refused for its text: {err}",
            reader.flag
        );
    }
}

/// Settings and secrets are small.
#[test]
fn settings_and_secrets_beyond_a_mebibyte_are_refused() {
    let site = Site::new();
    site.enqueue("cake", 1);
    let large = site.write("large", &"# much ado\n".repeat(100_000));
    for reader in READERS.iter().filter(|reader| ["--config", "--secret-file"].contains(&reader.flag)) {
        let (code, _, err) = run(reader.command(&site).arg(reader.flag).arg(&large));
        assert_eq!(code, Some(2), "{}: {err}", reader.flag);
        assert!(
            err.contains("large: it is larger than 1 MiB, allowed: up to 1 MiB"),
            "{}: {err}",
            reader.flag
        );
    }
}

/// Whoever writes a line now and then sees it enqueued, although a batch has room for 500.
#[test]
fn a_line_of_a_slow_producer_is_enqueued_at_once() {
    let site = Site::new();
    let (reader, mut writer) = std::io::pipe().unwrap();
    let mut enqueue = ackward("enqueue");
    enqueue.arg("--queue").arg(site.queue()).args(["--json-lines", "-"]).stdin(reader);
    let enqueue = Process::start(&mut enqueue);
    let jobs = || {
        let is_there = site.queue().exists() && std::fs::metadata(site.queue()).unwrap().len() > 0;
        if is_there {
            number(&site.queue(), "SELECT count(*) FROM sqlite_schema WHERE name = 'jobs'")
        } else {
            0
        }
    };
    for (nth, id) in ["cake", "tea"].into_iter().enumerate() {
        write!(writer, "{{\"id\":\"{id}\",\"qty\":1}}\n{{\"id\":").unwrap();
        wait("the line is in the queue", || {
            jobs() == 1
                && number(&site.queue(), "SELECT count(*) FROM jobs") == i64::try_from(nth).unwrap() + 1
        });
        writeln!(writer, "0}}").unwrap();
    }
    drop(writer);
    let (code, out) = enqueue.ends();
    assert_eq!((code, out.as_str()), (Some(2), "2 new, 0 duplicates, 2 refused"));
}

/// Whoever mixes two paths up hears so, and the file is as it was.
#[test]
fn a_file_of_another_kind_is_refused_as_it_is() {
    let site = Site::new();
    site.enqueue("cake", 1);
    Receiver::start(&site, &[]).process.stop();
    let store = site.path("store.db");
    ackward::storage::Store::open(&store, &full()).unwrap();
    let (queue, inbox) = (site.queue(), site.inbox());
    let work = ["--url", "http://127.0.0.1:1/jobs"];
    let jobs = ["--id", "tea", "--qty", "1"];
    for (command, flag, arguments, files) in [
        ("init", "--queue", &[][..], [&inbox, &store]),
        ("enqueue", "--queue", &jobs, [&inbox, &store]),
        ("work", "--queue", &work, [&inbox, &store]),
        ("doctor", "--queue", &["--fix"], [&inbox, &store]),
        ("receive", "--inbox", &["--listen", "127.0.0.1:0"], [&queue, &store]),
        ("consume", "--store", &["--address", "127.0.0.1:1", "--once"], [&queue, &inbox]),
    ] {
        for path in files {
            let before = std::fs::read(path).unwrap();
            let (code, _, err) = run(ackward(command).arg(flag).arg(path).args(arguments));
            let place = format!("{command} {flag} {}: {err}", path.display());
            assert_eq!(code, Some(5), "{place}");
            assert!(err.contains(": it is a ") && err.contains(", or a new path"), "{place}");
            assert_eq!(std::fs::read(path).unwrap(), before, "{place}");
        }
    }
}

/// Whoever mistypes a path sees it (A14), whatever stdout is for; a queue that is there already is nothing to tell.
#[test]
fn enqueue_says_that_it_has_made_a_new_queue() {
    let site = Site::new();
    let lines = site.write("jobs.jsonl", "{\"id\":\"cake\",\"qty\":1}\n");
    let lines = ["--json-lines", lines.to_str().unwrap()];
    for (nth, arguments) in [&lines[..], &["--id", "cake", "--qty", "1"]].into_iter().enumerate() {
        for json in [&[][..], &["--json"]] {
            let queue = site.path(&format!("tpyo-{nth}-{}.db", json.len()));
            let enqueue = || run(ackward("enqueue").arg("--queue").arg(&queue).args(arguments).args(json));
            let (code, out, err) = enqueue();
            assert_eq!((code, err), (Some(0), made(&queue)), "{arguments:?} {json:?}");
            assert!(!out.contains("made a new"), "{out}");
            let (code, _, err) = enqueue();
            assert_eq!((code, err.as_str()), (Some(0), ""), "{arguments:?} {json:?}");
        }
    }
}

/// SIGTERM ends whoever waits for a secret that somebody has yet to write.
#[test]
fn a_secret_that_is_yet_to_be_written_holds_up_no_signal() {
    let site = Site::new();
    site.enqueue("cake", 1);
    let mut work = ackward("work");
    work.arg("--queue").arg(site.queue()).args(["--url", "http://127.0.0.1:1/jobs"]);
    let mut receive = ackward("receive");
    receive.arg("--inbox").arg(site.inbox()).args(["--listen", "127.0.0.1:0"]);
    for command in [&mut work, &mut receive] {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"whsec_MfKQ9r8").unwrap();
        let process = Process::start(command.stdin(reader).args(["--secret-file", "/dev/fd/0"]));
        wait("the secret is being read", || process.has_thread("secrets"));
        let (code, out) = process.stop();
        assert_eq!((code, out.starts_with("stopped: ")), (Some(0), true), "{out}");
        drop(writer);
    }
}

/// What is no queue file yet becomes one (A14), and that is said.
#[test]
fn init_says_that_it_has_set_an_empty_file_up() {
    let site = Site::new();
    let init = || run(ackward("init").arg("--queue").arg(site.queue()));
    site.write("queue.db", "");
    let (code, out, _) = init();
    assert_eq!(
        (code, out.ends_with("without a queue's tables; they are set up now\n")),
        (Some(0), true),
        "{out}"
    );
    assert_eq!(site.jobs(), [""; 0]);
    let (_, out, _) = init();
    assert!(out.ends_with("was there already, its rows are as they were\n"), "{out}");
}

fn full() -> ackward::storage::OpenOptions {
    ackward::storage::OpenOptions::new(ackward::storage::Durability::Full)
}
