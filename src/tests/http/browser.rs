//! The status page in a real browser: headless Chromium, told what to do over its debugging pipe.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use super::peers::is_here;
use super::status::start;
use super::*;

/// What another program may have put into the file: each would change the page's title if it ran.
const HOSTILE: [&str; 3] = [
    "<img src=x onerror=\"document.title='owned'\">",
    "</td></table><script>document.title='owned'</script>",
    "<svg onload=\"document.title='owned'\">",
];

/// The page follows a running queue by its script, without being loaded anew; what stands in the file stays text; and
/// it goes on while others keep the server busy.
#[test]
fn the_page_follows_the_queue_in_a_browser() {
    let Some(mut browser) = Browser::start() else { return };
    let site = Site::new();
    let receiver = Receiver::start(&site, &[]);
    site.enqueue("cake", 3);
    let [id, reason, note] = HOSTILE;
    open(&site.queue())
        .execute(
            "INSERT INTO jobs (id, qty, status, attempts, max_attempts, token, available_at, deadline, reason)
             VALUES (?1, 1, 'dead', 1, 3, 1, 0, 1, ?2)",
            [id, reason],
        )
        .unwrap();
    open(&site.queue())
        .execute("INSERT INTO redrives (id, token, at_ms, note) VALUES ('x', 1, 0, ?1)", [note])
        .unwrap();
    let (worker, address) = start(&site, &receiver.address, &[]);

    browser.open(&format!("http://{address}/"));
    browser.evaluate("window.stays = true");
    wait("the page shows the job as done", || browser.count("done") == Some(1));
    let text = browser.text();
    for hostile in HOSTILE {
        assert!(text.contains(hostile), "{hostile} is shown as it is: {text}");
    }
    let foreign = "document.querySelectorAll('main img, main script, main [onload], main [onerror]').length";
    assert_eq!(browser.evaluate(foreign), 0);

    let readers: Vec<_> = (0..40).map(|_| std::net::TcpStream::connect(&address).unwrap()).collect();
    for n in 0..20 {
        site.enqueue(&format!("tea-{n}"), 1);
    }
    wait("the page shows all of them as done", || browser.count("done") == Some(21));
    assert_eq!(browser.evaluate("window.stays"), true, "it was not loaded anew");
    assert_eq!(browser.evaluate("document.title.includes('owned')"), false);
    assert_eq!(browser.errors, Vec::<String>::new());
    drop(readers);
    assert_eq!(worker.stop().0, Some(0));
}

/// A browser with one page, killed when it is dropped.
struct Browser {
    child: Child,
    commands: ChildStdin,
    messages: BufReader<ChildStdout>,
    session: String,
    last_id: i64,
    /// What its console has complained of.
    errors: Vec<String>,
    _profile: TempDir,
}

impl Browser {
    /// `None` where there is no browser, which is said.
    fn start() -> Option<Self> {
        let names = ["chromium", "chromium-browser", "google-chrome", "chrome"];
        let name = names.into_iter().find(|name| is_here(name, &["--version"]))?;
        let profile = TempDir::new().unwrap();
        // The debugging pipe is on the descriptors 3 and 4.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", name])
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .args(["--remote-debugging-pipe", "about:blank"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let commands = child.stdin.take().unwrap();
        let messages = BufReader::new(child.stdout.take().unwrap());
        let session = String::new();
        let mut browser =
            Self { child, commands, messages, session, last_id: 0, errors: Vec::new(), _profile: profile };
        let target = browser.call("Target.createTarget", &json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", &attach);
        attached["sessionId"].as_str().unwrap().clone_into(&mut browser.session);
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.call(domain, &json!({}));
        }
        Some(browser)
    }

    /// Opens an address and waits until its page has a `<main>`.
    fn open(&mut self, url: &str) {
        self.call("Page.navigate", &json!({"url": url}));
        wait("the page is there", || self.evaluate("document.querySelector('main') !== null") == true);
    }

    /// What an expression comes to on the page.
    fn evaluate(&mut self, expression: &str) -> Value {
        let arguments = json!({"expression": expression, "returnByValue": true});
        self.call("Runtime.evaluate", &arguments)["result"]["value"].take()
    }

    /// What a reader sees.
    fn text(&mut self) -> String {
        self.evaluate("document.querySelector('main').innerText").as_str().unwrap().to_owned()
    }

    /// The number beside a word.
    fn count(&mut self, word: &str) -> Option<i64> {
        let text = self.text();
        text.lines().find_map(|line| line.strip_prefix(word)?.trim().parse().ok())
    }

    /// Sends a command and waits for its answer.
    fn call(&mut self, method: &str, arguments: &Value) -> Value {
        self.last_id += 1;
        let mut command = json!({"id": self.last_id, "method": method, "params": arguments});
        if !self.session.is_empty() {
            command["sessionId"] = self.session.as_str().into();
        }
        self.commands.write_all(format!("{command}\0").as_bytes()).unwrap();
        loop {
            let mut message = Vec::new();
            assert!(self.messages.read_until(0, &mut message).unwrap() > 0, "the browser has ended");
            message.pop();
            let mut message: Value = serde_json::from_slice(&message).unwrap();
            if message["id"] == self.last_id {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].take();
            }
            if let "Log.entryAdded" | "Runtime.exceptionThrown" = message["method"].as_str().unwrap_or("") {
                self.errors.push(message["params"].to_string());
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
