//! With the feature: what is exported, and that the work does not depend on it.

use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream};

use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;

use super::super::*;
use super::collector::{Collector, Manner, Seen};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Each attempt is a trace: the attempt, in it the send, in that what the receiver made of it. All of it is there when
/// the worker has ended, although it ended at once; nothing of it is secret.
#[test]
fn a_job_that_is_retried_once_gives_two_traces_over_worker_and_receiver() {
    let collector = Collector::start(Manner::Take);
    let site = Site::new();
    let secret = site.write("secret", SECRET);
    let secret = ["--secret-file", secret.to_str().unwrap()];
    let otlp = ["--otlp-endpoint", &format!("{}/", collector.endpoint)];
    let receiver = Receiver::with(&site, &[secret, otlp].concat(), "after-accept:0=error");
    site.enqueue("cake", 3);
    let mut command = site.worker(&receiver.address);
    command.args(secret).args(["--owner", "w"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint).env("OTEL_SERVICE_NAME", "couriers");
    let worker = Process::start(&mut command);
    site.wait_settled();
    assert_eq!(worker.stop().0, Some(0));
    let of_worker = |seen: &Seen| seen.service == "couriers";
    assert_eq!(collector.seen().iter().filter(|seen| of_worker(seen)).count(), 4, "flushed at the end");
    assert_eq!(receiver.process.stop().0, Some(0));
    let seen = collector.seen();
    assert_eq!(seen.len(), 6, "{seen:?}");

    let (host, port) = receiver.address.split_once(':').unwrap();
    let server = [("http.request.method", "POST"), ("server.address", host), ("server.port", port)];
    let named = |name: &str| -> Vec<&Seen> { seen.iter().filter(|seen| seen.span.name == name).collect() };
    let (mut attempts, sends, receives) = (named("attempt"), named("POST"), named("receive"));
    attempts.sort_by_key(|attempt| attempt.attributes()["ackward.job.attempt"].clone());
    assert_eq!((attempts.len(), sends.len(), receives.len()), (2, 2, 2));
    assert_ne!(attempts[0].span.trace_id, attempts[1].span.trace_id);
    for (nth, attempt) in attempts.into_iter().enumerate() {
        let is_retry = nth == 0;
        let send = sends.iter().find(|send| send.is_child_of(attempt)).expect("a send in the attempt");
        let receive =
            receives.iter().find(|receive| receive.is_child_of(send)).expect("a request in the send");
        assert!(attempt.span.parent_span_id.is_empty());
        let kinds = [attempt, send, receive].map(|seen| seen.span.kind());
        assert_eq!(kinds, [SpanKind::Internal, SpanKind::Client, SpanKind::Server]);
        assert_eq!([attempt, send, receive].map(|seen| &*seen.service), ["couriers", "couriers", "ackward"]);
        let status = if is_retry { StatusCode::Error } else { StatusCode::Unset };
        for seen in [attempt, send, receive] {
            assert!(seen.span.start_time_unix_nano <= seen.span.end_time_unix_nano);
            assert_eq!(seen.span.status.as_ref().map_or(StatusCode::Unset, |status| status.code()), status);
        }
        let job = [("ackward.job.id", "cake"), ("ackward.owner", "w")];
        if is_retry {
            let delay_ms = attempt.attributes()["ackward.retry.delay_ms"].clone();
            assert!((0..=1_000).contains(&delay_ms.parse().unwrap()), "{delay_ms}");
            let more = [
                ("ackward.job.token", "1"),
                ("ackward.job.attempt", "1"),
                ("ackward.outcome", "retry"),
                ("ackward.job.status", "pending"),
                ("ackward.retry.delay_ms", &delay_ms),
                ("error.type", "retry"),
            ];
            attempt.has(&[&job[..], &more].concat());
            let failed = [("http.response.status_code", "503"), ("ackward.answer", "retryable")];
            send.has(&[&server[..], &failed, &[("error.type", "retryable")]].concat());
            receive.has(&[
                job[0],
                ("ackward.result", "refused"),
                ("http.response.status_code", "503"),
                ("error.type", "unavailable"),
            ]);
        } else {
            let more = [
                ("ackward.job.token", "2"),
                ("ackward.job.attempt", "2"),
                ("ackward.outcome", "ok"),
                ("ackward.job.status", "done"),
            ];
            attempt.has(&[&job[..], &more].concat());
            send.has(
                &[&server[..], &[("http.response.status_code", "200"), ("ackward.answer", "ok")]].concat(),
            );
            receive.has(&[job[0], ("ackward.result", "new"), ("http.response.status_code", "200")]);
        }
    }
    for got in collector.got() {
        assert_eq!(got.head[0], "post /v1/traces http/1.1");
        assert!(got.head.contains(&"content-type: application/x-protobuf".to_owned()), "{:?}", got.head);
        let text = String::from_utf8_lossy(&got.body).into_owned() + &got.head.concat();
        assert!(!text.contains(&SECRET[6..]) && !text.contains("v1,"), "{text}");
    }
}

/// The receiver goes on with the trace that the request names, and begins one where it names none that holds.
#[test]
fn the_receiver_continues_the_trace_of_whoever_sends() {
    let collector = Collector::start(Manner::Take);
    let site = Site::new();
    let receiver = Receiver::start(&site, &["--otlp-endpoint", &collector.endpoint]);
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let send = |qty: u32, traceparent: &str| {
        let body = format!("{{\"id\":\"cake\",\"qty\":{qty}}}");
        let head = format!(
            "POST /jobs HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nIdempotency-Key: \"cake\"\r\n\
             {traceparent}Connection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let mut stream = TcpStream::connect(&receiver.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all((head + &body).as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply[9..12].to_owned()
    };
    assert_eq!(send(3, &format!("traceparent: 00-{trace}-b7ad6b7169203331-01\r\n")), "200");
    assert_eq!(send(3, ""), "200");
    assert_eq!(send(4, "traceparent: 00-nonsense-01\r\n"), "422");
    let seen = collector.wait(3);
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let told: Vec<_> = seen
        .iter()
        .map(|seen| {
            let attributes = seen.attributes();
            let is_continued = hex(&seen.span.trace_id) == trace;
            (is_continued, hex(&seen.span.parent_span_id), attributes["ackward.result"].clone())
        })
        .collect();
    let expected = [(true, "b7ad6b7169203331", "new"), (false, "", "repeat"), (false, "", "refused")];
    assert_eq!(told, expected.map(|(is, parent, result)| (is, parent.to_owned(), result.to_owned())));
    seen[2].has(&[
        ("ackward.job.id", "cake"),
        ("ackward.result", "refused"),
        ("http.response.status_code", "422"),
        ("error.type", "conflict"),
    ]);
}

/// W1: the request is the same to the byte where no endpoint is set, and has one more header where one is.
#[test]
fn the_request_has_a_traceparent_only_where_an_endpoint_is_set() {
    let collector = Collector::start(Manner::Take);
    let head = |endpoint: &str| {
        let site = Site::new();
        site.enqueue("cake", 3);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let _worker = Process::start(site.worker(&address).env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint));
        listener.set_nonblocking(true).unwrap();
        let mut came = None;
        wait("the worker sends", || {
            came = listener.accept().ok();
            came.is_some()
        });
        let (stream, _) = came.expect("a connection");
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let lines = BufReader::new(stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
        lines.filter(|line| !line.starts_with("host")).collect::<Vec<_>>()
    };
    let (without, with) = (head(""), head(&collector.endpoint));
    let is_trace = |line: &&String| line.starts_with("traceparent: 00-");
    assert_eq!(with.iter().filter(is_trace).count(), 1, "{with:?}");
    let rest: Vec<_> = with.iter().filter(|line| !is_trace(line)).cloned().collect();
    assert_eq!(rest, without);
}

/// A collector that is not there changes nothing about the work; what it misses is counted and said once.
#[test]
fn a_dead_collector_changes_nothing_about_the_work() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let site = Site::new();
    let receiver = Receiver::start(&site, &["--otlp-endpoint", &endpoint]);
    enqueue_20(&site);
    let mut worker = Process::start(site.worker(&receiver.address).args(["--otlp-endpoint", &endpoint]));
    site.wait_settled();
    worker.says("spans were dropped; the work goes on without them");
    let (code, out) = worker.stop();
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("\"done\":20"), "{out}");
    let (code, out) = receiver.process.stop();
    assert_eq!((code, &*out), (Some(0), "stopped: applied 20, repeats 0, refused 0"));
}

/// One that never answers holds up neither the jobs, nor the end for longer than the grace time.
#[test]
fn a_collector_that_stalls_holds_up_neither_jobs_nor_the_end() {
    let collector = Collector::start(Manner::Stall);
    let site = Site::new();
    let receiver = Receiver::start(&site, &[]);
    site.enqueue("cake", 1);
    let mut command = site.worker(&receiver.address);
    command.args(["--otlp-endpoint", &collector.endpoint, "--grace", "0.5"]);
    let mut worker = Process::start(&mut command);
    wait("an export hangs", || !collector.got().is_empty());
    enqueue_20(&site);
    site.wait_settled();
    assert_eq!(collector.got().len(), 1, "the first export still hangs");
    worker.terminate();
    let started = Instant::now();
    worker.says_both("spans were dropped", "spans=42");
    let (code, out) = worker.ends();
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    assert_eq!(code, Some(0));
    assert!(out.contains("\"done\":21"), "{out}");
}

/// What the collector does not take for now it is offered again, as late as it asks for. Jobs do not wait for that.
#[test]
fn a_collector_that_is_busy_is_asked_again() {
    let collector = Collector::start(Manner::BusyAtFirst);
    let site = Site::new();
    let receiver = Receiver::start(&site, &[]);
    site.enqueue("cake", 1);
    let worker =
        Process::start(site.worker(&receiver.address).args(["--otlp-endpoint", &collector.endpoint]));
    wait("an export is refused", || !collector.got().is_empty());
    site.enqueue("tea", 1);
    site.wait_settled();
    assert_eq!(collector.got().len(), 1, "the export still waits");
    assert_eq!(collector.wait(4).len(), 4);
    assert_eq!(worker.stop().0, Some(0));
    let got = collector.got();
    assert_eq!(got[0].body, got[1].body);
}

/// SIGHUP: the traces go on, to the endpoint that stands in the file now.
#[test]
fn a_reload_takes_over_another_endpoint() {
    let (first, second) = (Collector::start(Manner::Take), Collector::start(Manner::Take));
    let site = Site::new();
    let receiver = Receiver::start(&site, &[]);
    let config = |endpoint: &str| site.write("ackward.toml", &format!("otlp-endpoint = \"{endpoint}\"\n"));
    let file = config(&first.endpoint);
    site.enqueue("cake", 1);
    let mut worker = Process::start(site.worker(&receiver.address).arg("--config").arg(file));
    first.wait(2);
    config(&second.endpoint);
    worker.hang_up();
    worker.says_both("traces", &second.endpoint);
    site.enqueue("tea", 1);
    second.wait(2);
    assert_eq!(worker.stop().0, Some(0));
    assert_eq!((first.seen().len(), second.seen().len()), (2, 2));
}

/// An endpoint of another kind is refused before anything is touched, with what is allowed.
#[test]
fn an_endpoint_that_is_none_is_refused() {
    let site = Site::new();
    site.enqueue("cake", 1);
    let work = |endpoint: &str| run(site.worker("127.0.0.1:1").args(["--otlp-endpoint", endpoint]));
    for endpoint in ["grpc://127.0.0.1:4317", "127.0.0.1:4318", "http://127.0.0.1:4318?a=b"] {
        let (code, _, err) = work(endpoint);
        assert_eq!(code, Some(2), "{endpoint}: {err}");
        assert!(err.contains("--otlp-endpoint") && err.contains("http://HOST[:PORT][/PATH]"), "{err}");
        let mut receive = ackward("receive");
        receive.args(["--listen", "127.0.0.1:0", "--otlp-endpoint", endpoint, "--inbox"]).arg(site.inbox());
        assert_eq!(run(&mut receive).0, Some(2), "{endpoint}");
    }
    assert_eq!(site.jobs(), ["cake pending 0 0"]);
    assert!(!site.inbox().exists());
}

fn enqueue_20(site: &Site) {
    let lines: String = (0..20).map(|nth| format!("{{\"id\":\"job-{nth}\",\"qty\":1}}\n")).collect();
    let path = site.write("jobs.jsonl", &lines);
    let mut command = ackward("enqueue");
    command.arg("--queue").arg(site.queue()).arg("--json-lines").arg(path);
    assert_eq!(run(&mut command).0, Some(0));
}
