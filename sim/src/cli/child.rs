//! The processes that run seeds for `fuzz`: SQLite's random numbers are one generator per OS process, so that
//! simulations run in parallel only in processes of their own.
//!
//! A request is one JSON line on standard input, an answer one on standard output.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::rc::Rc;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use ackward_sim::campaign::{self, Share, Tally};
use ackward_sim::computer::Recording;
use ackward_sim::detection::Way;
use ackward_sim::explore::{self, Explored, Options, Path};
use ackward_sim::scenario::{Flaw, Net, Scenario};
use ackward_sim::strategy::{Strategist, Strategy};
use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::folder::Entry;
use super::{Exit, interrupt, lock, millis, panics};

/// Runs of a scenario.
#[derive(Debug, Serialize, Deserialize)]
struct Request {
    /// The file's name, for errors.
    file: String,
    /// Its text.
    text: String,
    /// The name of the net that it runs on.
    net: String,
    strategy: Strategy,
    work: Work,
}

/// Which runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Work {
    /// A range of seeds; after `limit_ms` no other one is begun.
    Seeds { start: u64, count: u64, xray: Share, limit_ms: Option<u64> },
    /// One seed with every call, to be compared with another process's.
    Story { seed: u64 },
    /// Paths of the exhaustive search.
    Paths { paths: Vec<Path>, options: Options },
    /// Everything with one more deviation than a path.
    Expand { path: Path, remaining: u32, options: Options },
    /// How many runs a way takes to find a mistake that is planted in the scenario, by its word.
    Detect { flaw: String, way: Way, start: u64, runs_max: u64 },
}

/// What came of them.
#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Tally(Box<Tally>),
    /// With the paths that may be expanded next, where any are to be.
    Explored(Box<Explored>, Vec<Path>),
    Story(Vec<Told>),
    /// Runs, none where they were not enough, and how long they took.
    Detected(Option<u64>, Duration),
    /// The simulator panicked; the process ends.
    Panicked(String),
}

/// An event of a run: virtual time in microseconds, the process, what happened.
pub(crate) type Told = (i64, String, String);

/// A running child.
pub(crate) struct Child {
    process: Arc<Mutex<std::process::Child>>,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Child {
    /// Starts this program anew.
    pub(crate) fn spawn() -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("the path of this program")?;
        Self::start(Command::new(program).arg("child"))
    }

    fn start(command: &mut Command) -> anyhow::Result<Self> {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting a child process")?;
        let input = process.stdin.take().context("a child's standard input")?;
        let output = BufReader::new(process.stdout.take().context("a child's standard output")?);
        Ok(Self { process: Arc::new(Mutex::new(process)), input, output })
    }

    /// What ends it from another thread.
    pub(crate) fn killer(&self) -> Killer {
        Killer(Arc::clone(&self.process))
    }

    /// Runs seeds. An error says how the child died; it is of no use any more.
    pub(crate) fn run(
        &mut self,
        entry: &Entry,
        start: u64,
        count: u64,
        xray: Share,
    ) -> Result<Tally, String> {
        self.run_within(entry, start, count, xray, None)
    }

    /// As [`Child::run`]; once `limit` is over no other seed is begun.
    pub(crate) fn run_within(
        &mut self,
        entry: &Entry,
        start: u64,
        count: u64,
        xray: Share,
        limit: Option<Duration>,
    ) -> Result<Tally, String> {
        let limit_ms = limit.map(millis);
        match self.ask(entry, Work::Seeds { start, count, xray, limit_ms })? {
            Answer::Tally(tally) => Ok(*tally),
            _ => Err("a child process answered something else".to_owned()),
        }
    }

    /// Runs one seed with every call.
    pub(crate) fn story(&mut self, entry: &Entry, seed: u64) -> Result<Vec<Told>, String> {
        match self.ask(entry, Work::Story { seed })? {
            Answer::Story(events) => Ok(events),
            _ => Err("a child process answered something else".to_owned()),
        }
    }

    /// Runs a part of the exhaustive search. An error says how the child died.
    pub(crate) fn explore(&mut self, entry: &Entry, work: Work) -> Result<(Explored, Vec<Path>), String> {
        match self.ask(entry, work)? {
            Answer::Explored(explored, paths) => Ok((*explored, paths)),
            _ => Err("a child process answered something else".to_owned()),
        }
    }

    /// Looks for a planted mistake; how many runs that took, none where they were not enough, and how long.
    pub(crate) fn detect(&mut self, entry: &Entry, work: Work) -> Result<(Option<u64>, Duration), String> {
        match self.ask(entry, work)? {
            Answer::Detected(runs, took) => Ok((runs, took)),
            _ => Err("a child process answered something else".to_owned()),
        }
    }

    fn ask(&mut self, entry: &Entry, work: Work) -> Result<Answer, String> {
        let (file, text, strategy) = (entry.path.clone(), entry.text.clone(), entry.strategy);
        let net = entry.scenario.net.as_str().to_owned();
        let request = Request { file, text, net, strategy, work };
        match self.exchange(&request) {
            Ok(Some(Answer::Panicked(text))) => Err(text),
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(self.end()),
            // It went away before it had read all.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(self.end()),
            Err(error) => Err(format!("{error}; {}", self.end())),
        }
    }

    /// How it died. One that lives on although it gives no answer is ended, so that nobody waits for it.
    fn end(&self) -> String {
        let mut process = lock(&self.process);
        // It has ended already, or is about to with a status of its own, which this does not change.
        let _ = process.kill();
        process.wait().map_or_else(|error| error.to_string(), died)
    }

    /// `None` where the child is gone.
    fn exchange(&mut self, request: &Request) -> io::Result<Option<Answer>> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        self.input.write_all(&line)?;
        let mut answer = String::new();
        self.output.read_line(&mut answer)?;
        if answer.is_empty() {
            return Ok(None);
        }
        let answer = serde_json::from_str(&answer)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("no answer: {error}")))?;
        Ok(Some(answer))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.end();
    }
}

/// Ends a child.
pub(crate) struct Killer(Arc<Mutex<std::process::Child>>);

impl Killer {
    /// Ends it now; whoever waits for its answer learns that it died.
    pub(crate) fn kill(&self) {
        // It may have ended already.
        let _ = lock(&self.0).kill();
    }
}

fn died(status: ExitStatus) -> String {
    format!("a child process died ({status})")
}

fn answer(strategist: &Strategist, work: Work) -> Answer {
    let scenario = strategist.scenario();
    match work {
        Work::Seeds { start, count, xray, limit_ms } => {
            let began = Instant::now();
            let limit = Duration::from_millis(limit_ms.unwrap_or(u64::MAX));
            let tally = campaign::run_while(strategist, start, count, xray, || began.elapsed() < limit);
            Answer::Tally(Box::new(tally))
        }
        Work::Story { seed } => {
            let events = strategist.run(seed, Recording::Calls).events;
            Answer::Story(events.into_iter().map(|event| (event.at_us, event.process, event.text)).collect())
        }
        Work::Paths { paths, options } => {
            Answer::Explored(Box::new(explore::run_all(scenario, &paths, &options)), Vec::new())
        }
        Work::Expand { path, remaining, options } => {
            let (explored, paths) = explore::expand(scenario, &path, remaining, &options);
            Answer::Explored(Box::new(explored), if remaining > 0 { paths } else { Vec::new() })
        }
        Work::Detect { flaw, way, start, runs_max } => {
            let began = Instant::now();
            let system = Flaw::parse(&flaw).unwrap_or_default();
            let planted = Rc::new(Scenario { system, ..Scenario::clone(scenario) });
            Answer::Detected(way.runs(&planted, start, runs_max), began.elapsed())
        }
    }
}

/// Answers requests until standard input ends.
pub(crate) fn serve() -> anyhow::Result<Exit> {
    interrupt::ignore()?;
    let (sender, requests) = mpsc::channel();
    // Not simulated code.
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if sender.send(line).is_err() {
                return;
            }
        }
        // The parent waits for each answer before it goes away, unless it was killed: then nobody wants one.
        std::process::exit(Exit::Held as i32);
    });
    let mut known: Option<(String, String, Strategy, Strategist)> = None;
    for line in requests {
        let request: Request = serde_json::from_str(&line).context("a request of the parent")?;
        let Request { file, text, net, strategy, work } = request;
        let is_known = |(known, on, by, _): &(String, String, Strategy, Strategist)| {
            (known, on, by) == (&text, &net, &strategy)
        };
        let strategist = match known.take().filter(is_known) {
            Some((.., strategist)) => strategist,
            None => {
                let mut scenario = Scenario::parse(&file, text.as_bytes())?;
                scenario.net = Net::parse(&net).context("the name of a net")?;
                Strategist::new(Rc::new(scenario), strategy)
            }
        };
        let answer = panics::guarded(|| answer(&strategist, work));
        let has_panicked = answer.is_err();
        let answer = answer.unwrap_or_else(Answer::Panicked);
        let mut answer = serde_json::to_vec(&answer)?;
        answer.push(b'\n');
        let mut output = io::stdout().lock();
        output.write_all(&answer)?;
        output.flush()?;
        if has_panicked {
            // What the panic left behind could sway the next run.
            return Ok(Exit::Failed);
        }
        known = Some((text, net, strategy, strategist));
    }
    Ok(Exit::Held)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "about = \"x\"\n[[job]]\nid = \"a\"\n[[worker]]\nname = \"w\"\n";

    /// What a child comes to that is a script of a shell; it lives on for much longer than a test may take.
    fn result_of(script: &str) -> String {
        let began = Instant::now();
        let mut shell = Command::new("sh");
        let mut child = Child::start(shell.args(["-c", &format!("{script}; exec sleep 60")])).unwrap();
        let scenario = Scenario::parse("x.toml", PLAIN.as_bytes()).unwrap();
        let (path, text) = ("x.toml".to_owned(), PLAIN.to_owned());
        let entry = Entry { path, text, scenario, is_abroad: false, strategy: Strategy::default() };
        let result = child.run(&entry, 1, 1, Share::default()).unwrap_err();
        drop(child);
        assert!(began.elapsed() < Duration::from_secs(30), "{script}: somebody waited for the child");
        result
    }

    #[test]
    fn a_child_that_answers_nonsense_is_ended_and_the_error_says_so() {
        let result = result_of("read line; echo nonsense");
        assert!(result.starts_with("no answer: expected value at line 1"), "{result}");
        assert!(result.ends_with("a child process died (signal: 9 (SIGKILL))"), "{result}");
    }

    #[test]
    fn a_child_that_falls_silent_is_ended() {
        assert_eq!(result_of("read line; exec >&-"), "a child process died (signal: 9 (SIGKILL))");
    }

    #[test]
    fn how_a_child_ended_by_itself_is_told() {
        assert_eq!(result_of("exit 7"), "a child process died (exit status: 7)");
    }
}
