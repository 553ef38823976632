//! Processes killed and connections broken at every point that matters: Q59, Q60, W1, W2.

use super::*;

/// How long the head of an acknowledgement is, in bytes.
const HEAD: usize =
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 11\r\nconnection: close\r\n\r\n"
        .len();

/// Q60: the courier is killed when the receiver has committed and its reply is on the way. Before the lease ends
/// nobody else gets the job; then a second courier sends the very same, and the inbox takes it as the repeat it is.
#[test]
fn q60_killed_after_the_receivers_commit_and_before_the_reply() {
    let site = Site::new();
    let receiver = Receiver::start(&site, &[]);
    let proxy = Proxy::start(&receiver.address, [Manner::StallReply(0)]);
    site.enqueue("cake", 3);
    let first = Process::start(site.worker(&proxy.address).args(["--owner", "courier-1", "--lease", "1.5"]));
    proxy.wait_withheld(1);
    first.kill();
    assert_eq!(site.effects(), ["inbox cake 3", "effect cake 3", "total 1 3"]);
    assert_eq!(site.jobs(), ["cake leased 1 1"]);
    let lease_until = number(&site.queue(), "SELECT lease_until FROM jobs");

    let second = Process::start(site.worker(&proxy.address).args(["--owner", "courier-2"]));
    site.wait_settled();
    let done_at = number(&site.queue(), "SELECT available_at FROM jobs");
    assert!(done_at >= lease_until, "sent {} ms before the lease ended", lease_until - done_at);
    let (code, out) = second.stop();
    assert_eq!(code, Some(0));
    assert!(out.contains("\"claimed\":1,\"cut\":0,\"dead\":0,\"done\":1"), "{out}");
    assert_eq!((proxy.connections(), proxy.posts()), (2, 2));
    assert_eq!(site.jobs(), ["cake done 2 2"]);
    assert_eq!(site.effects(), ["inbox cake 3", "effect cake 3", "total 1 3"]);
    assert_eq!(receiver.process.stop(), (Some(0), "stopped: applied 1, repeats 1, refused 0".into()));
}

/// Q59, W3: the receiver killed inside its transaction and right after the COMMIT.
#[test]
fn q59_the_receiver_killed_before_and_after_its_commit() {
    for (point, held) in
        [("after-accept", &[][..]), ("after-commit", &["inbox cake 3", "effect cake 3", "total 1 3"])]
    {
        let site = Site::new();
        let mut receiver = Receiver::with(&site, &[], &format!("{point}:0=hold"));
        let proxy = Proxy::start(&receiver.address, []);
        site.enqueue("cake", 3);
        let worker = Process::start(&mut site.worker(&proxy.address));
        receiver.process.says(&format!("held at {point}"));
        receiver.process.kill();
        assert_eq!(site.effects(), held);
        let receiver = Receiver::start(&site, &[]);
        proxy.to(&receiver.address);
        site.wait_settled();
        assert_eq!(worker.stop().0, Some(0));
        assert_eq!(site.effects(), ["inbox cake 3", "effect cake 3", "total 1 3"], "{point}");
        assert!(site.jobs()[0].starts_with("cake done"), "{point}");
        let attempts = number(&site.queue(), "SELECT attempts FROM jobs");
        assert!(proxy.posts() <= usize::try_from(attempts).unwrap(), "one POST an attempt");
    }
}

/// Q59: the worker killed at every hook of claim and finish; what was committed stays, nothing else does.
#[test]
fn q59_the_worker_killed_at_every_hook() {
    // A lease that is long enough for a busy machine, but where its end is waited for no longer than need be.
    let cases = [
        ("after-claim:0", "cake pending 0 0", "60"),
        ("after-commit:0", "cake leased 1 1", "0.5"),
        ("after-finish:0", "cake leased 1 1", "6"),
        ("after-commit:1", "cake done 1 1", "60"),
    ];
    for (point, held, lease) in cases {
        let site = Site::new();
        let receiver = Receiver::start(&site, &[]);
        site.enqueue("cake", 3);
        let mut command = site.worker(&receiver.address);
        command.args(["--lease", lease]).env("ACKWARD_FAULT", format!("{point}=hold"));
        let mut worker = Process::start(&mut command);
        worker.says("held at");
        worker.kill();
        assert_eq!(site.jobs(), [held], "{point}");
        let mut worker = Process::start(&mut site.worker(&receiver.address));
        // Where the job is done already, SIGTERM would otherwise come before it is listened for.
        worker.says("working");
        site.wait_settled();
        assert_eq!(worker.stop().0, Some(0));
        assert_eq!(site.effects(), ["inbox cake 3", "effect cake 3", "total 1 3"], "{point}");
    }
}

/// W1, W2: the connection cut at many bytes of request and reply. One POST an attempt, one effect, and a reply that
/// was cut in its head costs a retry while one cut in its body costs the lease.
#[test]
fn w2_a_connection_cut_at_any_byte_loses_and_doubles_nothing() {
    let site = Site::new();
    let receiver = Receiver::start(&site, &[]);
    // The request has about 240 bytes.
    let cuts: Vec<_> = (0..=200)
        .step_by(25)
        .map(Manner::CutRequest)
        .chain((0..HEAD + 11).step_by(10).map(Manner::CutReply))
        .chain([Manner::Drip])
        .collect();
    for (nth, manner) in cuts.iter().enumerate() {
        let proxy = Proxy::start(&receiver.address, [*manner]);
        let id = format!("job-{nth}");
        site.enqueue(&id, 2);
        // Only where the outcome is unknown the lease's end is waited for; a short one runs out by itself on a busy
        // machine, which is an attempt without a connection.
        let lease = if matches!(manner, Manner::CutReply(bytes) if *bytes >= HEAD) { "3" } else { "60" };
        let worker = Process::start(site.worker(&proxy.address).args(["--lease", lease]));
        site.wait_settled();
        let (code, out) = worker.stop();
        assert_eq!(code, Some(0));
        assert!(site.jobs()[nth].contains(" done "), "{manner:?}: {:?}", site.jobs());
        let attempts = number(&site.queue(), &format!("SELECT attempts FROM jobs WHERE id = '{id}'"));
        assert_eq!(proxy.connections(), usize::try_from(attempts).unwrap(), "{manner:?}: {out}");
        let (retried, unknown) = match manner {
            Manner::CutRequest(_) => (1, 0),
            Manner::CutReply(bytes) if *bytes < HEAD => (1, 0),
            Manner::CutReply(_) => (0, 1),
            _ => (0, 0),
        };
        assert!(out.contains(&format!("\"retried\":{retried},")), "{manner:?}: {out}");
        assert!(out.contains(&format!("\"unknown\":{unknown}}}")), "{manner:?}: {out}");
    }
    let jobs = i64::try_from(cuts.len()).unwrap();
    assert_eq!(number(&site.inbox(), "SELECT count FROM totals"), jobs);
    assert_eq!(number(&site.inbox(), "SELECT count(*) FROM effects"), jobs);
    assert_eq!(number(&site.inbox(), "SELECT qty FROM totals"), 2 * jobs);
}

/// W2: a receiver that goes silent costs the timeout: before the head a retry, after it the lease.
#[test]
fn w2_a_stalled_reply_times_out() {
    for (bytes, retried, unknown) in [(0, 1, 0), (HEAD - 1, 1, 0), (HEAD + 5, 0, 1)] {
        let site = Site::new();
        let receiver = Receiver::start(&site, &[]);
        let proxy = Proxy::start(&receiver.address, [Manner::StallReply(bytes)]);
        site.enqueue("cake", 3);
        // The timeout is for the second attempt, too, which a busy machine must make in time.
        let lease = if unknown > 0 { "4" } else { "60" };
        let worker = Process::start(site.worker(&proxy.address).args(["--timeout", "2", "--lease", lease]));
        site.wait_settled();
        let (code, out) = worker.stop();
        assert_eq!(code, Some(0));
        assert!(
            out.contains(&format!("\"retried\":{retried},"))
                && out.contains(&format!("\"unknown\":{unknown}}}")),
            "{out}"
        );
        assert_eq!((proxy.posts(), site.jobs()), (2, vec!["cake done 2 2".to_owned()]));
        assert_eq!(site.effects(), ["inbox cake 3", "effect cake 3", "total 1 3"]);
    }
}
