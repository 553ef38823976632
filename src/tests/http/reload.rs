//! SIGHUP, and what a process does about a file that is replaced underneath it.

use std::net::TcpStream;

use super::*;

const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// The worker goes on with another batch size and drops nothing; settings that are wrong leave the old ones.
#[test]
fn sighup_reads_the_settings_anew_and_drops_nothing() {
    let site = Site::new();
    let receiver = Receiver::start(&site, &[]);
    let config = site.write("a.toml", "[work]\nbatch = 2\n");
    site.enqueue("cake", 3);
    let mut worker = Process::start(site.worker(&receiver.address).arg("--config").arg(&config));
    worker.says("batch=2");
    site.wait_settled();
    site.write("a.toml", "[work]\nbatch = 'many'\n");
    worker.hang_up();
    worker.says("the settings are refused");
    worker.says("batch=2");
    site.write("a.toml", "[work]\nbatch = 8\n");
    worker.hang_up();
    worker.says("batch=8");
    site.enqueue("tea", 1);
    site.wait_settled();
    let (code, out) = worker.stop();
    assert_eq!(code, Some(0));
    assert!(out.contains("\"done\":2"), "{out}");
}

/// Settings that can be read, and are found wrong only when they are to be used: said with their reason, and the worker
/// goes on with what it had, the page's port and the secrets included.
#[test]
fn a_worker_goes_on_with_the_old_settings_where_the_new_ones_cannot_be_used() {
    let site = Site::new();
    let secret = site.write("secret", OLD);
    let receiver = Receiver::start(&site, &["--secret-file", secret.to_str().unwrap()]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mine = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let settings = |more: &str| {
        let more = if more.contains("status-listen") {
            more.to_owned()
        } else {
            format!("status-listen = '{mine}'\n{more}")
        };
        let more = if more.contains("queue") { more } else { format!("queue = {:?}\n{more}", site.queue()) };
        site.write("a.toml", &format!("[work]\nsecret-file = {secret:?}\n{more}\n"))
    };
    let config = settings("");
    let mut command = ackward("work");
    command.args(["--json", "--poll-max", "0.05"]);
    command.args(["--url", &format!("http://{}/", receiver.address)]).arg("--config").arg(config);
    site.enqueue("job-0", 1);
    let mut worker = Process::start(&mut command);
    worker.says("working");
    site.wait_settled();
    let taken = format!("status-listen = '{}'", taken.local_addr().unwrap());
    let no_queue =
        site.write("no-queue", "this is no database, but long enough to look like something at all");
    let no_queue = format!("queue = {no_queue:?}");
    let cases = [
        (
            "retry-base-ms = 5000\nretry-cap-ms = 100",
            "--retry-cap-ms is 100, allowed: a whole number from 5000, which is --retry-base-ms",
        ),
        ("events = '/nowhere/events'", "--events /nowhere/events: No such file"),
        (&taken, "for the status page: Address already in use"),
        ("queue = '/nowhere/queue'", "/nowhere/queue: No such file"),
        (&no_queue, "file is not a database"),
    ];
    for (nth, (more, error)) in cases.iter().enumerate() {
        settings(more);
        worker.hang_up();
        worker.says_both("the settings are refused", error);
        worker.says("working");
        site.enqueue(&format!("job-{}", nth + 1), 1);
        site.wait_settled();
    }
    settings("");
    site.write("secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\nnonsense\n");
    worker.hang_up();
    worker.says_both("the settings are refused", "--secret-file");
    worker.says("working");
    assert!(TcpStream::connect(mine).is_ok(), "the page is still served");
    site.enqueue("last", 1);
    site.wait_settled();
    let (code, out) = worker.stop();
    assert_eq!(code, Some(0));
    assert!(out.contains("\"done\":7"), "over all reloads: {out}");
}

/// The same for the receiver, which stays where it listens and with the secrets that it had.
#[test]
fn a_receiver_goes_on_with_the_old_settings_where_the_new_ones_cannot_be_used() {
    let site = Site::new();
    let secret = site.write("secret", OLD);
    let mut receiver = Receiver::start(&site, &["--secret-file", secret.to_str().unwrap()]);
    let senders = site.write("senders", OLD);
    site.write("secret", "nonsense");
    receiver.process.hang_up();
    receiver.process.says_both("the settings are refused", "--secret-file");
    site.enqueue("cake", 3);
    let worker = Process::start(site.worker(&receiver.address).arg("--secret-file").arg(senders));
    site.wait_settled();
    assert_eq!(worker.stop().0, Some(0));
    let (code, out) = receiver.process.stop();
    assert_eq!((code, out.as_str()), (Some(0), "stopped: applied 1, repeats 0, refused 0"));
}

/// What cannot change under way is named; the rest of the settings is taken over.
#[test]
fn sighup_names_what_waits_for_the_next_start() {
    let site = Site::new();
    let settings = |listen: &str, log: &str, more: &str| {
        site.write("a.toml", &format!("log = '{log}'\n[receive]\nlisten = '{listen}'\n{more}\n"))
    };
    let config = settings("127.0.0.1:0", "info", "");
    let mut command = ackward("receive");
    let mut process = Process::start(command.arg("--inbox").arg(site.inbox()).arg("--config").arg(config));
    let address = process.address();
    let page = format!("127.0.0.1:{}", status::free_port());
    settings("127.0.0.1:0", "info", &format!("status-listen = '{page}'"));
    process.hang_up();
    let before = process.says_after("status page", &page);
    assert!(!before.iter().any(|line| line.contains("has changed")), "{before:?}");
    settings("127.0.0.1:1", "warn", &format!("status-listen = '{page}'"));
    process.hang_up();
    process.says_both("--listen has changed", "with the next start only");
    process.says_both("--log has changed", "with the next start only");
    process.says_both("status page", &page);
    assert!(TcpStream::connect(&address).is_ok(), "it listens where it did");
    assert_eq!(process.stop().0, Some(0));
}

/// A page is about the file that is open.
#[test]
fn the_page_goes_by_the_file_that_a_reload_has_opened() {
    let site = Site::new();
    site.enqueue("cake", 1);
    let other = site.path("other.db");
    assert_eq!(run(ackward("init").arg("--queue").arg(&other)).0, Some(0));
    let config = site.write("a.toml", &format!("queue = {:?}\n", site.queue()));
    let mut command = ackward("work");
    command.args(["--url", "http://127.0.0.1:1/jobs"]).arg("--config").arg(config);
    let (mut worker, page) = status::serve(&mut command);
    wait("the job is counted", || status::get(&page, "/").contains("queue.db"));
    site.write("a.toml", &format!("queue = {other:?}\n"));
    worker.hang_up();
    worker.says("status page");
    wait("the page is about the other file", || {
        let text = status::get(&page, "/");
        text.contains("other.db") && !text.contains("queue.db")
    });
    assert_eq!(worker.stop().0, Some(0));
}

/// What was cut off before a reload still counts at the end.
#[test]
fn a_request_cut_off_by_a_reload_shows_in_the_exit_code() {
    let site = Site::new();
    let mut receiver = Receiver::start(&site, &["--body-timeout", "20", "--grace", "0.2"]);
    let mut stuck = TcpStream::connect(&receiver.address).unwrap();
    let head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nIdempotency-Key: \"a\"\r\n\
        Content-Length: 9\r\n\r\n";
    stuck.write_all(head.as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    receiver.process.hang_up();
    receiver.process.says("cut off");
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(receiver.process.stop().0, Some(9));
}

/// The file is replaced while the worker has it open: it stops, says so and ends with the code of a file that failed. The
/// other one is whole when it comes: as long as the worker is there, SQLite takes a journal at that path for its own.
#[test]
fn a_file_that_is_replaced_stops_the_worker() {
    let site = Site::new();
    site.enqueue("cake", 3);
    open(&site.queue()).execute("UPDATE jobs SET status = 'done'", []).unwrap();
    let mut worker = Process::start(&mut site.worker("127.0.0.1:1"));
    worker.says("working");
    let other = site.path("new.db");
    let mut command = ackward("enqueue");
    command.arg("--queue").arg(&other).args(["--id", "tea", "--qty", "1"]);
    assert_eq!(run(&mut command).0, Some(0));
    std::fs::rename(site.queue(), site.path("old.db")).unwrap();
    std::fs::rename(other, site.queue()).unwrap();
    let (code, _) = worker.ends();
    assert_eq!(code, Some(5));
    assert_eq!(site.jobs(), ["tea pending 0 0"], "nothing of the new file was touched");
}

/// The replacement is what is told, also where something was cut off by it.
#[test]
fn a_file_that_is_replaced_is_told_before_what_was_cut_off() {
    let site = Site::new();
    let receiver = Receiver::start(&site, &[]);
    let proxy = Proxy::start(&receiver.address, [Manner::StallReply(0)]);
    site.enqueue("cake", 3);
    let mut worker = Process::start(site.worker(&proxy.address).args(["--grace", "0.2"]));
    proxy.wait_withheld(1);
    std::fs::rename(site.queue(), site.path("old.db")).unwrap();
    worker.says_both("was moved, removed or replaced", "what was being sent was cut off");
    assert_eq!(worker.ends().0, Some(5));
}

/// The same for the receiver's inbox, replaced by another file or by none.
#[test]
fn an_inbox_that_is_replaced_stops_the_receiver() {
    for is_removed in [false, true] {
        let site = Site::new();
        let mut receiver = Receiver::start(&site, &[]);
        std::fs::rename(site.inbox(), site.path("old.db")).unwrap();
        if !is_removed {
            std::fs::copy(site.path("old.db"), site.inbox()).unwrap();
        }
        receiver.process.says_both("inbox.db: was moved, removed or replaced", "put the file back");
        assert_eq!(receiver.process.ends().0, Some(5));
        assert_eq!(site.inbox().exists(), !is_removed);
    }
}
