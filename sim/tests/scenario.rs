//! Scenario files: what is read, what is refused and how, and that writing one back loses nothing.

use std::fmt::Write as _;
use std::path::Path;

use ackward::rules::Limits;
use ackward::storage::Durability;
use ackward_sim::model;
use ackward_sim::scenario::{Faults, Net, Scenario, ScenarioError, vocabulary};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

const SMALL: &str = "about = \"Small.\"\n[[job]]\nid = \"cake\"\n[[worker]]\nname = \"w\"\n";

/// Every key, none with its default.
const WHOLE: &str = r#"about = 'Two workers race; "one" gets the ticket.'
duration_ms = 50000
durability = "extra"
net = "turmoil"

[[job]]
id = "cake"
qty = 3
at_ms = 7
ttl_ms = 60000
max_attempts = 16
count = 2
every_ms = 100

[[job]]
id = "tea"
at_ms = 0

[[worker]]
name = "worker-a"
lease_ms = 60000
poll_ms = 1
clock_skew_ms = -5
restart_after_ms = 0
restarts = 0
slots = 8
count = 3

[receiver]
service_ms = 0
timeout_ms = 1

[[redrive]]
job = "cake-2"
at_ms = 5000
ttl_ms = 1
note = "fixed"

[faults]
kill = 0.0005
hook_kill = 0.01
power_cut = 0.02
io_error = 0.03
fsync_error = 0.04
disk_full = 0.05
switch = 0.06
pick = 0.07
stall = 0.08
stall_ms = [0, 0]
clock_jump = 0.09
clock_jump_ms = [-600000, 600000]
request_lost = 0.1
reply_lost = 0.11
slow = 0.12
slow_ms = [5, 6]
wrong_reply = 0.13
refused = 1.0
connect_refused = 0.14
hook_error = 0.15
keep = 0.5

[[deviation]]
at = "worker-a-1/1/claim#1/commit/journal.sync#1"
do = "kill"

[[deviation]]
at = "receiver/2/accept#10/wait/resume#3"
do = "pick:worker-a-3"

[[deviation]]
at = "operator/1/redrive#1/write/db.read#2"
do = "stall:300ms"

[vary]
duration_ms = [10000, 60000]

[vary.job.tea]
qty = [1, 1000]

[vary.receiver]
timeout_ms = [1, 60000]

[vary.redrive.cake-2]
at_ms = [0, 50000]

[vary.worker.worker-a]
clock_skew_ms = [-5, 0]
slots = [1, 8]

[expect]
sometimes = ["stale-finish", "redelivery"]
seeds = 7
fails = "token-falls"

[[expect.job]]
id = "cake-2"
status = "dead"
reason = "exhausted"
attempts = 3
token = [3, 16]
posts = [0, 3]
effects = 1
redrives = 0

[[expect.job]]
id = "cake"
effects = [0, 1]
"#;

#[test]
fn defaults_are_those_of_the_docs() {
    let scenario = parse(SMALL).unwrap();
    assert_eq!((scenario.duration_ms, scenario.durability), (60_000, Durability::Full));
    assert_eq!(scenario.net, Net::BuiltIn);
    let job = &scenario.jobs[0];
    assert_eq!((job.qty.get(), job.at_ms, job.ttl_ms.get(), job.max_attempts.get()), (1, 0, 30_000, 3));
    assert_eq!((job.count, job.every_ms), (1, 0));
    let worker = &scenario.workers[0];
    assert_eq!((worker.lease_ms.get(), worker.poll_ms, worker.clock_skew_ms), (1000, 100, 0));
    assert_eq!((worker.restart_after_ms, worker.restarts, worker.count), (500, 10, 1));
    assert_eq!((scenario.receiver.service_ms, scenario.receiver.timeout_ms), (5, 2000));
    assert_eq!(scenario.faults, Faults::default());
    assert_eq!((scenario.expect.seeds, scenario.expect.fails), (500, None));
}

#[test]
fn jobs_and_workers_are_numbered_where_there_are_several() {
    let scenario = parse(WHOLE).unwrap();
    let arrivals: Vec<_> =
        scenario.arrivals().iter().map(|a| format!("{} {}", a.at_ms, a.event.id)).collect();
    assert_eq!(arrivals, ["7 cake-1", "107 cake-2", "0 tea"]);
    let workers: Vec<_> = scenario.worker_processes().iter().map(|(name, _)| name.to_string()).collect();
    assert_eq!(workers, ["worker-a-1", "worker-a-2", "worker-a-3"]);
}

#[test]
fn a_whole_scenario_is_written_as_it_was_read() {
    assert_eq!(parse(WHOLE).unwrap().to_toml(), WHOLE);
}

#[test]
fn defaults_are_not_written() {
    let text = parse(SMALL).unwrap().to_toml();
    assert_eq!(text, "about = \"Small.\"\n\n[[job]]\nid = \"cake\"\nat_ms = 0\n\n[[worker]]\nname = \"w\"\n");
    assert_eq!(parse(&text), parse(SMALL));
}

/// Lines of the whole scenario left out at random: what can be read is read back as the same.
#[test]
fn writing_loses_nothing() {
    let mut valid = 0;
    for seed in 0..3000 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let lines = WHOLE.lines().filter(|_| !random.next_u32().is_multiple_of(12));
        let text: String = lines.flat_map(|line| [line, "\n"]).collect();
        let Ok(scenario) = parse(&text) else { continue };
        valid += 1;
        assert_eq!(parse(&scenario.to_toml()).as_ref(), Ok(&scenario), "{text}");
    }
    assert!(valid > 100, "{valid}");
}

/// Random bytes changed, lines swapped: an error with a place inside the file, never a panic.
#[test]
fn no_text_panics() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut refused = 0;
    for _ in 0..20_000 {
        let mut bytes = WHOLE.as_bytes().to_vec();
        for _ in 0..=random.next_u32() % 3 {
            let at = random.next_u32() as usize % bytes.len();
            match random.next_u32() % 4 {
                0 => bytes[at] = random.next_u32() as u8,
                1 => bytes[at] = b"[]{}\"'=#.,\n-90"[random.next_u32() as usize % 14],
                2 => drop(bytes.drain(at..(at + 9).min(bytes.len()))),
                _ => {
                    let again = bytes[at..(at + 40).min(bytes.len())].to_vec();
                    bytes.splice(at..at, again);
                }
            }
        }
        if let Err(error) = Scenario::parse("x.toml", &bytes) {
            refused += 1;
            let lines = bytes.iter().filter(|byte| **byte == b'\n').count() + 1;
            assert!((1..=lines).contains(&error.line) && error.column >= 1, "{error}");
            assert!(error.message.len() > 10, "{error}");
        }
    }
    assert!(refused > 10_000, "{refused}");
}

/// A word of the vocabulary that the model knows by another name would never match.
#[test]
fn the_model_s_properties_are_known() {
    for property in model::PROPERTIES {
        assert!(vocabulary::properties().contains(property), "{property}");
    }
}

/// The ranges of the contract are the scenario's.
#[test]
fn spans_have_the_contract_s_limits() {
    let job =
        |ttl_ms: i64| parse(&SMALL.replace("id = \"cake\"", &format!("id = \"cake\"\nttl_ms = {ttl_ms}")));
    for ttl_ms in [0, 1, 60_000, 60_001] {
        assert_eq!(job(ttl_ms).is_ok(), Limits::CONTRACT.ttl(ttl_ms).is_ok(), "{ttl_ms}");
    }
}

#[test]
fn errors_name_place_key_value_and_allowed() {
    let mut shown = String::new();
    for (what, text) in REFUSED {
        let text = text.strip_prefix('+').map_or((*text).to_owned(), |more| format!("{SMALL}{more}"));
        let error = parse(&text).expect_err(what);
        writeln!(shown, "{what}\n  {error}").unwrap();
    }
    writeln!(
        shown,
        "not UTF-8\n  {}",
        Scenario::parse("x.toml", b"about = \"a\"\n# \xc3\xa9 \xff").unwrap_err()
    )
    .unwrap();
    let long = vec![b'#'; 300];
    writeln!(shown, "no file\n  {}", Scenario::load(Path::new("no/such.toml")).unwrap_err()).unwrap();
    writeln!(shown, "a comment only\n  {}", Scenario::parse("x.toml", &long).unwrap_err()).unwrap();
    snapshot("scenario_errors", &shown);
}

/// A path in dots is a path in quotes is a table of its own.
#[test]
fn a_path_may_be_written_in_three_ways() {
    let with = |vary: &str| parse(&format!("{SMALL}[vary]\n{vary}")).unwrap();
    let dots = with("worker.w.lease_ms = [50, 1000]");
    assert_eq!(dots, with("\"worker.w.lease_ms\" = [50, 1000]"));
    assert_eq!(dots, with("[vary.worker.w]\nlease_ms = [50, 1000]"));
    let varied = dots.varied();
    let [lease] = &varied[..] else { panic!("{varied:?}") };
    assert_eq!((&*lease.path, lease.plain), ("worker.w.lease_ms", 1000));
    assert_eq!((lease.range.least(), lease.range.most()), (50, 1000));
}

#[test]
fn values_take_the_place_of_plain_ones_and_what_is_refused_is_no_scenario() {
    let scenario = parse(WHOLE).unwrap();
    let with = |path: &str, value| scenario.with_values(&[(path.to_owned(), value)].into());
    let changed = with("worker.worker-a.slots", 2).unwrap();
    assert_eq!(changed.workers[0].slots, 2);
    assert!(changed.vary.is_empty());
    let unchanged = scenario.with_values(&[].into()).unwrap();
    assert_eq!(Scenario { vary: scenario.vary.clone(), ..unchanged }, scenario);
    // The redrive would come after the end; a number beyond its own range; a path of nothing.
    assert_eq!(with("duration_ms", 4_999), None);
    assert_eq!(with("job.tea.qty", 1_001), None);
    assert_eq!(with("job.coffee.qty", 1), None);
}

#[test]
fn about_has_at_most_300_characters() {
    let with = |count: usize| parse(&SMALL.replace("Small.", &"é".repeat(count)));
    assert!(with(300).is_ok());
    assert!(with(301).unwrap_err().message.contains("1 to 300 characters"));
}

#[test]
fn a_directory_and_a_huge_file_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let error = Scenario::load(directory.path()).unwrap_err();
    assert!(error.to_string().contains("cannot be read"), "{error}");
    let path = directory.path().join("huge.toml");
    std::fs::write(&path, vec![b'\n'; (1 << 20) + 1]).unwrap();
    assert!(Scenario::load(&path).unwrap_err().message.contains("larger than 1 MiB"));
}

/// What is wrong, and the text; `+` is appended to a small scenario.
const REFUSED: &[(&str, &str)] = &[
    ("empty file", ""),
    ("only about", "about = \"Alone.\""),
    ("no worker", "about = \"No worker.\"\n[[job]]\nid = \"a\""),
    ("about is empty", "about = \" \""),
    ("about is a number", "about = 5"),
    ("not TOML", "about = \"x\"\nduration_ms = "),
    ("text not closed", "about = \"x"),
    ("key given twice", "about = \"x\"\nabout = \"y\""),
    ("unknown key", "abuot = \"x\""),
    ("unknown table", "+[fault]\nkill = 0.1"),
    ("unknown key of a table", "+[faults]\nkil = 0.1"),
    ("unknown key of a later job", "+[[job]]\nid = \"a\"\n[[job]]\nid = \"b\"\nmax_attemps = 1"),
    ("unknown key, nothing near", "+[faults]\nxyz = 0.1"),
    ("probability above 1", "+[faults]\nkill = 1.5"),
    ("probability below 0", "+[faults]\nkill = -1"),
    ("probability is no number", "+[faults]\nkill = nan"),
    ("probability is a text", "+[faults]\nkill = \"often\""),
    ("number out of range", "+[[job]]\nid = \"a\"\nqty = 1001"),
    ("number as a float", "+[[job]]\nid = \"a\"\nqty = 1.0"),
    ("number as a text", "+[[job]]\nid = \"a\"\nqty = \"1\""),
    ("number as true", "+[[job]]\nid = \"a\"\nqty = true"),
    ("number beyond 64 bits", "+[[job]]\nid = \"a\"\nqty = 99999999999999999999"),
    ("slots of a courier", "+[[worker]]\nname = \"b\"\ncourier = true\nslots = 2"),
    ("a courier's batch", "+[[worker]]\nname = \"b\"\ncourier = true\nbatch = 2"),
    ("too large a batch", "+[[worker]]\nname = \"b\"\nbatch = 65"),
    ("too many slots", "+[[worker]]\nname = \"b\"\nslots = 9"),
    ("lease out of range", "+[[worker]]\nname = \"b\"\nlease_ms = 60001"),
    ("ttl out of range", "+[[job]]\nid = \"a\"\nttl_ms = 0"),
    ("table is a number", "about = \"x\"\nfaults = 3"),
    ("job is a table", "about = \"x\"\n[job]\nid = \"a\""),
    ("list holds a number", "about = \"x\"\njob = [1]"),
    ("list is a text", "about = \"x\"\n[expect]\nsometimes = \"redelivery\""),
    ("job without id", "+[[job]]\nqty = 3"),
    ("bad id", "+[[job]]\nid = \"a b\""),
    (
        "id too long with its number",
        "+[[job]]\nid = \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"\ncount = 2",
    ),
    ("job after the end", "+[[job]]\nid = \"a\"\nat_ms = 60001"),
    ("jobs run past the end", "+[[job]]\nid = \"a\"\ncount = 3\nevery_ms = 40000"),
    ("too many jobs", "+[[job]]\nid = \"a\"\ncount = 10000"),
    ("too many workers", "+[[worker]]\nname = \"v\"\ncount = 64"),
    ("worker twice", "+[[worker]]\nname = \"w\""),
    ("worker twice by number", "+[[worker]]\nname = \"v\"\ncount = 2\n[[worker]]\nname = \"v-2\""),
    ("worker named as another process", "+[[worker]]\nname = \"receiver\""),
    ("workers named as another process", "+[[worker]]\nname = \"producer\"\ncount = 2"),
    ("worker named as another process by number", "+[[worker]]\nname = \"operator\"\ncount = 2"),
    ("worker twice, the number first", "+[[worker]]\nname = \"v-1\"\n[[worker]]\nname = \"v\"\ncount = 2"),
    ("consumer named as another process", "+[publisher]\nevents = 1\n[[consumer]]\nname = \"publisher\""),
    ("consumer named as a worker", "+[publisher]\nevents = 1\n[[consumer]]\nname = \"w\""),
    ("durability unknown", "about = \"x\"\ndurability = \"ful\""),
    ("net unknown", "about = \"x\"\nnet = \"turmol\""),
    ("net a number", "about = \"x\"\nnet = 1"),
    ("span in the wrong order", "+[faults]\nstall_ms = [9, 3]"),
    ("span of three", "+[faults]\nstall_ms = [1, 2, 3]"),
    ("span below 0", "+[faults]\nslow_ms = [-1, 3]"),
    ("span holds a text", "+[faults]\nclock_jump_ms = [1, \"a\"]"),
    ("span is a number", "+[faults]\nstall_ms = 3"),
    ("redrive of no job", "+[[redrive]]\njob = \"cak\"\nat_ms = 5"),
    ("redrive without time", "+[[redrive]]\njob = \"cake\""),
    ("redrive after the end", "+[[redrive]]\njob = \"cake\"\nat_ms = 60001"),
    ("point of another shape", "+[[deviation]]\nat = \"w/1/claim#1/commit\"\ndo = \"kill\""),
    ("point with number 0", "+[[deviation]]\nat = \"w/0/claim#1/commit/db.write#1\"\ndo = \"kill\""),
    ("point with number 01", "+[[deviation]]\nat = \"w/1/claim#01/commit/db.write#1\"\ndo = \"kill\""),
    ("point in no phase", "+[[deviation]]\nat = \"w/1/claim#1/comit/db.write#1\"\ndo = \"kill\""),
    ("point in no role", "+[[deviation]]\nat = \"w/1/claim#1/commit/db.wirte#1\"\ndo = \"kill\""),
    ("point of no process", "+[[deviation]]\nat = \"v/1/claim#1/commit/db.write#1\"\ndo = \"kill\""),
    (
        "point twice",
        "+[[deviation]]\nat = \"w/1/claim#1/commit/db.write#1\"\ndo = \"kill\"\n\
         [[deviation]]\nat = \"w/1/claim#1/commit/db.write#1\"\ndo = \"stall:5ms\"",
    ),
    ("unknown action", "+[[deviation]]\nat = \"w/1/claim#1/commit/db.write#1\"\ndo = \"kil\""),
    ("amount is no number", "+[[deviation]]\nat = \"w/1/claim#1/commit/db.write#1\"\ndo = \"stall:x\""),
    ("amount without its unit", "+[[deviation]]\nat = \"w/1/claim#1/commit/db.write#1\"\ndo = \"stall:5\""),
    ("a negative span", "+[[deviation]]\nat = \"w/1/claim#1/commit/db.write#1\"\ndo = \"slow:-1ms\""),
    (
        "an endless span",
        "+[[deviation]]\nat = \"w/1/claim#1/commit/db.write#1\"\ndo = \"stall:9223372036854775807ms\"",
    ),
    ("a negative number", "+[[deviation]]\nat = \"w/1/claim#1/commit/db.write#1\"\ndo = \"wrong-reply:-1\""),
    (
        "amount where none belongs",
        "+[[deviation]]\nat = \"w/1/claim#1/commit/db.write#1\"\ndo = \"kill:5ms\"",
    ),
    ("switch to no process", "+[[deviation]]\nat = \"w/1/claim#1/commit/db.write#1\"\ndo = \"switch:v\""),
    ("unknown event", "+[expect]\nsometimes = [\"redelivery\", \"stale-finnish\"]"),
    ("unknown property", "+[expect]\nfails = \"tokens\""),
    ("outcome of no job", "+[[expect.job]]\nid = \"cak\""),
    ("outcome pending", "+[[expect.job]]\nid = \"cake\"\nstatus = \"pending\""),
    ("outcome in the wrong order", "+[[expect.job]]\nid = \"cake\"\neffects = [2, 1]"),
    ("outcome below 0", "+[[expect.job]]\nid = \"cake\"\ntoken = -1"),
    ("outcome as a text", "+[[expect.job]]\nid = \"cake\"\ntoken = \"1\""),
    ("seeds 0", "+[expect]\nseeds = 0"),
    ("varies nothing known", "+[vary]\nworkers.w.lease_ms = [1, 2]"),
    ("varies a probability", "+[vary]\nfaults.kill = [0, 1]"),
    ("varies no worker", "+[vary]\nworker.v.lease_ms = [500, 2000]"),
    ("varies no key", "+[vary]\n\"worker.w.lease\" = [500, 2000]"),
    ("varies a text", "+[vary]\njob.cake.id = [1, 2]"),
    ("varies one of two", "+[[job]]\nid = \"cake\"\n[vary]\njob.cake.qty = [1, 2]"),
    ("varies a table that is not there", "+[vary]\npublisher.events = [0, 5]"),
    ("varies beyond what is allowed", "+[vary]\nworker.w.lease_ms = [1000, 60001]"),
    ("varies below what is allowed", "+[vary]\n[vary.worker.w]\nlease_ms = [0, 1000]"),
    ("varies around another value", "+[vary]\nworker.w.lease_ms = [50, 400]"),
    ("varies in the wrong order", "+[vary]\nworker.w.lease_ms = [1000, 50]"),
    ("varies to one end only", "+[vary]\nworker.w.lease_ms = [1000]"),
    ("varies to a text", "+[vary]\nworker.w.lease_ms = [50, \"1s\"]"),
    ("varies to a number alone", "+[vary]\nworker.w.lease_ms = 50"),
    ("varies twice", "+[vary]\nworker.w.lease_ms = [50, 1000]\n\"worker.w.lease_ms\" = [50, 1000]"),
    ("vary is a list", "about = \"x\"\nvary = [1, 2]"),
];

fn parse(text: &str) -> Result<Scenario, ScenarioError> {
    Scenario::parse("x.toml", text.as_bytes())
}

/// All snapshots of the workspace lie in one folder at its top.
fn snapshot(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../snapshots"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}
