//! A receiver that was not written here: Python's `http.server`, plain and over TLS.

use std::io::BufRead;
use std::process::Stdio;

use super::*;

/// Whether a program runs; says so where it does not.
pub fn is_here(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    let found = command.status().is_ok_and(|status| status.success());
    if !found {
        eprintln!("skipped: there is no {program} here");
    }
    found
}

/// Prints its port; answers each id's first request with the first status of its list, and so on; prints every
/// request it gets. With arguments it speaks TLS with that certificate and key.
const RECEIVER: &str = r#"
import http.server, json, ssl, sys
plan = {"busy": [503, 429], "refused": [422], "odd": [204], "moved": [307]}
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        event = json.loads(body)
        assert self.headers["Content-Type"] == "application/json"
        assert self.headers["Idempotency-Key"] == '"%s"' % event["id"]
        left = plan.get(event["id"], [])
        status = left.pop(0) if left else 200
        print(self.path, body.decode(), status, flush=True)
        reply = json.dumps({"ok": True}).encode() if status == 200 else b""
        self.send_response(status)
        if status == 307: self.send_header("Location", "/elsewhere")
        if status != 204: self.send_header("Content-Length", str(len(reply)))
        self.end_headers(); self.wfile.write(reply)
    def log_message(self, *args): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
if len(sys.argv) > 1:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); context.load_cert_chain(sys.argv[1], sys.argv[2])
    server.socket = context.wrap_socket(server.socket, server_side=True)
print(server.server_port, flush=True)
server.serve_forever()
"#;

struct Python {
    process: Process,
    port: String,
}

impl Python {
    fn start(arguments: &[&std::path::Path]) -> Self {
        let mut process = Process::start(Command::new("python3").args(["-c", RECEIVER]).args(arguments));
        let mut port = String::new();
        process.stdout.read_line(&mut port).unwrap();
        Self { process, port: port.trim().to_owned() }
    }

    /// The next request it got.
    fn got(&mut self) -> String {
        let mut line = String::new();
        self.process.stdout.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }
}

/// W1, W2: our worker with a receiver by somebody else.
#[test]
fn w1_a_receiver_in_python_understands_the_worker() {
    if !is_here("python3", &["-c", "import http.server"]) {
        return;
    }
    let site = Site::new();
    let mut python = Python::start(&[]);
    let address = format!("127.0.0.1:{}", python.port);
    let cases = [
        ("cake", &[200][..], "done 1 1"),
        ("busy", &[503, 429, 200], "done 3 3"),
        ("refused", &[422], "dead 1 1"),
        ("odd", &[204, 200], "done 2 2"),
        ("moved", &[307, 200], "done 2 2"),
    ];
    for (nth, (id, statuses, end)) in cases.into_iter().enumerate() {
        site.enqueue(id, 3);
        // After an answer that leaves the outcome unknown the lease's end is waited for.
        let lease = if ["odd", "moved"].contains(&id) { "3" } else { "60" };
        let worker = Process::start(site.worker(&address).args(["--lease", lease]));
        for status in statuses {
            assert_eq!(python.got(), format!("/jobs {{\"id\":\"{id}\",\"qty\":3}} {status}"));
        }
        site.wait_settled();
        assert_eq!(worker.stop().0, Some(0));
        assert_eq!(site.jobs()[nth], format!("{id} {end}"));
    }
}

/// `https://`: a certificate that is trusted is taken, any other is a connection that fails, and is tried again.
#[test]
fn https_checks_the_receivers_certificate() {
    if !is_here("python3", &["-c", "import http.server, ssl"]) || !is_here("openssl", &["version"]) {
        return;
    }
    let site = Site::new();
    let (certificate, key) = (site.path("certificate.pem"), site.path("key.pem"));
    let mut openssl = Command::new("openssl");
    openssl.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]);
    openssl.args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]);
    openssl.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    openssl.arg("-keyout").arg(&key).arg("-out").arg(&certificate);
    assert_eq!(run(&mut openssl).0, Some(0));
    let mut python = Python::start(&[&certificate, &key]);
    site.enqueue("cake", 3);

    let worker = |host: &str| {
        let mut command = ackward("work");
        command
            .arg("--queue")
            .arg(site.queue())
            .args(["--url", &format!("https://{host}:{}/jobs", python.port)]);
        command.args(["--retry-base-ms", "20", "--retry-cap-ms", "100", "--poll-max", "0.05"]);
        command.env("SSL_CERT_FILE", &certificate).env_remove("SSL_CERT_DIR");
        command
    };
    let mut stranger = Process::start(&mut worker("127.0.0.1"));
    stranger.says("no connection: invalid peer certificate");
    stranger.stop();
    assert!(site.jobs()[0].starts_with("cake pending"), "{:?}", site.jobs());
    let friend = Process::start(&mut worker("localhost"));
    site.wait_settled();
    friend.stop();
    assert!(site.jobs()[0].starts_with("cake done"), "{:?}", site.jobs());
    assert_eq!(python.got(), "/jobs {\"id\":\"cake\",\"qty\":3} 200");
}
