//! What CI relies on: shards that add up to the whole, journals that survive a kill, reports, JUnit, bundles.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::determinism::without_timings;
use super::{LATE, PLAIN, command, folder, sim, text_of, top};

const STORM: &str = "scenarios/storm.toml";
const PATIENCE: Duration = Duration::from_secs(60);

/// Seed by seed: `runs` sums up every seed with its run, and `ranges` says which seeds.
#[test]
fn merged_shards_are_the_whole_campaign() {
    let folder = folder(&[("plain.toml", PLAIN), ("late.toml", LATE)]);
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let storm = top().join(STORM);
    let files = [storm.to_str().unwrap(), &path("plain.toml"), &path("late.toml")].map(str::to_owned);
    let fuzz = |more: &[&str]| {
        let (out, files) = (path("out"), files.each_ref().map(String::as_str));
        sim(&[&["fuzz", "--seeds", "100", "--out", &out][..], &files, more].concat())
    };
    let whole = fuzz(&["--json"]);
    let reports: Vec<_> = (1..=3).map(|shard| path(&format!("{shard}.json"))).collect();
    for (at, report) in reports.iter().enumerate() {
        let output = fuzz(&["--shard", &format!("{}/3", at + 1), "--report", report]);
        assert_eq!(output.status.code(), Some(1), "{}", text_of(&output.stderr));
    }
    // In any order.
    let merged = sim(&["merge", &reports[2], &reports[0], &reports[1], "--json"]);
    assert_eq!(merged.status.code(), Some(1), "{}", text_of(&merged.stderr));
    assert_eq!(without_timings(&merged.stdout), without_timings(&whole.stdout));
    let whole: Value = serde_json::from_slice(&whole.stdout).unwrap();
    let runs = |campaign: &Value, at: usize| {
        u64::from_str_radix(campaign["scenarios"][at]["runs"].as_str().unwrap(), 16).unwrap()
    };
    let parts: Vec<Value> = reports
        .iter()
        .map(|report| serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap())
        .collect();
    for at in 0..files.len() {
        assert_eq!(whole["scenarios"][at]["ranges"], serde_json::json!([[1, 100]]));
        let sum = parts.iter().fold(0_u64, |sum, part| sum.wrapping_add(runs(part, at)));
        assert_eq!(runs(&whole, at), sum);
        assert_ne!(sum, 0);
    }
    assert_eq!(whole["scenarios"][2]["problem"]["made"].as_array().unwrap().len(), 2, "{whole}");
}

#[test]
fn what_does_not_add_up_is_not_merged() {
    let folder = folder(&[("x.toml", PLAIN)]);
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let report = |name: &str, more: &[&str]| {
        let output =
            sim(&[&["fuzz", &path("x.toml"), "--seeds", "6", "--report", &path(name)], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text_of(&output.stderr));
        path(name)
    };
    let refused = |reports: &[&str], part: &str| {
        let output = sim(&[&["merge"], reports].concat());
        let errors = text_of(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(part), "{part:?} is not in {errors}");
    };
    let one = report("1.json", &["--shard", "1/2"]);
    let two = report("2.json", &["--shard", "2/2"]);
    let other = report("other.json", &["--strategy", "pct", "--shard", "2/2"]);
    refused(&[&one], "missing: shard 2/2; allowed: all shards of a campaign, or --partial");
    refused(&[&one, &two, &one], "seed 1 is in a report before this one");
    refused(&[&one, &other], "by strategy pct, allowed: mix");
    refused(&[&path("x.toml")], "is no report, allowed: what cargo sim fuzz --report FILE writes");
    std::fs::write(path("x.toml"), PLAIN.replace("One job", "A job")).unwrap();
    let edited = report("edited.json", &["--shard", "2/2"]);
    refused(&[&one, &edited], "has another text");
    assert_eq!(sim(&["merge", "--partial", &one]).status.code(), Some(0));
}

/// What a shard has too few seeds for is judged where all are together.
#[test]
fn expectations_are_judged_over_all_shards() {
    let folder =
        folder(&[("x.toml", &format!("{PLAIN}[expect]\nsometimes = [\"dead-permanent\"]\nseeds = 6\n"))]);
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for shard in ["1", "2"] {
        let (of, report) = (format!("{shard}/2"), path(&format!("{shard}.json")));
        let output = sim(&["fuzz", &path("x.toml"), "--seeds", "6", "--shard", &of, "--report", &report]);
        assert_eq!(output.status.code(), Some(0), "{}", text_of(&output.stdout));
    }
    let merged = sim(&["merge", &path("1.json"), &path("2.json")]);
    assert_eq!(merged.status.code(), Some(1), "{}", text_of(&merged.stdout));
    assert!(text_of(&merged.stdout).contains("never reached: dead-permanent"));
}

#[test]
fn a_campaign_that_was_killed_goes_on_from_its_journal() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal");
    let args = ["fuzz", STORM, "--seeds", "640", "--jobs", "2", "--json"];
    let resume = || {
        let mut command = command();
        command.args(args).arg("--resume").arg(&journal);
        command
    };
    let mut first = resume().stdout(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    while starts(&journal).len() < 3 {
        assert!(began.elapsed() < PATIENCE, "no chunk is journaled");
        std::thread::sleep(Duration::from_millis(5));
    }
    // SIGKILL.
    first.kill().unwrap();
    assert!(!first.wait().unwrap().success());
    let before = std::fs::read(&journal).unwrap();
    let kept = before.iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    assert!(starts(&journal).len() < 10, "it was killed too late");
    // And torn in the middle of a line, as by a power cut.
    std::fs::write(&journal, [&before[..kept], b"{\"Chunk\":[0,{\"start\":"].concat()).unwrap();
    let second = resume().output().unwrap();
    assert_eq!(second.status.code(), Some(0), "{}", text_of(&second.stderr));
    let after = std::fs::read(&journal).unwrap();
    assert!(after.starts_with(&before[..kept]), "results were lost");
    let mut all = starts(&journal);
    all.sort_unstable();
    assert_eq!(
        all,
        (0..10).map(|chunk| 1 + 64 * chunk).collect::<Vec<_>>(),
        "seeds were repeated or left out"
    );
    let whole = sim(&args);
    assert_eq!(without_timings(&second.stdout), without_timings(&whole.stdout));
    // What has ended has nothing left to be run.
    let third = resume().output().unwrap();
    assert_eq!(without_timings(&third.stdout), without_timings(&whole.stdout));
    assert_eq!(std::fs::read(&journal).unwrap(), after);
}

/// The first seeds of the chunks in a journal.
fn starts(journal: &Path) -> Vec<u64> {
    let text = std::fs::read_to_string(journal).unwrap_or_default();
    let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let lines = lines.filter_map(|line| line.rsplit_once('\t'));
    let lines = lines.filter_map(|(line, _)| serde_json::from_str::<Value>(line).ok());
    lines.filter_map(|line| line["Chunk"][1]["start"].as_u64()).collect()
}

#[test]
fn a_journal_of_another_campaign_is_refused_and_left_as_it_is() {
    let folder = folder(&[("x.toml", PLAIN), ("no-journal", "about = 1\n")]);
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let fuzz = |journal: &str, more: &[&str]| {
        sim(&[&["fuzz", &path("x.toml"), "--resume", &path(journal)][..], more].concat())
    };
    assert_eq!(fuzz("journal", &["--seeds", "5"]).status.code(), Some(0));
    let bytes = std::fs::read(path("journal")).unwrap();
    let refused = |journal: &str, more: &[&str], part: &str| {
        let output = fuzz(journal, more);
        assert_eq!(output.status.code(), Some(2), "{}", text_of(&output.stdout));
        assert!(text_of(&output.stderr).contains(part), "{}", text_of(&output.stderr));
    };
    refused("journal", &["--seeds", "6"], "--seeds was 5 there and is 6 here");
    refused("journal", &["--seeds", "5", "--shard", "1/2"], "--shard was 1/1 there and is 1/2 here");
    refused("journal", &["--seeds", "5", "--net", "turmoil"], "another net");
    refused("no-journal", &["--seeds", "5"], "is not one that --resume has written");
    std::fs::write(path("x.toml"), PLAIN.replace("One job", "A job")).unwrap();
    refused("journal", &["--seeds", "5"], "the file was edited since");
    assert_eq!(std::fs::read(path("journal")).unwrap(), bytes);
    assert_eq!(std::fs::read_to_string(path("no-journal")).unwrap(), "about = 1\n");
}

/// However many processes run, the same seeds are counted.
#[test]
fn a_limit_on_failures_cuts_at_the_same_seed() {
    let folder = folder(&[("a.toml", LATE), ("b.toml", PLAIN)]);
    let results = |jobs: &str| {
        let folder = folder.path().to_str().unwrap();
        let args = ["--scenarios", folder, "fuzz", "--seeds", "400", "--max-failures", "70", "--json"];
        let output = sim(&[&args[..], &["--no-shrink", "--jobs", jobs]].concat());
        assert_eq!(output.status.code(), Some(1));
        without_timings(&output.stdout)
    };
    let one = results("1");
    let campaign: Value = serde_json::from_str(&one).unwrap();
    assert_eq!(campaign["scenarios"][0]["ranges"], serde_json::json!([[1, 128]]));
    assert_eq!(campaign["scenarios"][1]["verdict"], "not run");
    assert_eq!(results("3"), one);
}

#[test]
fn a_bundle_holds_what_is_needed_elsewhere() {
    let folder = folder(&[("late.toml", LATE)]);
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let output =
        sim(&["fuzz", &path("late.toml"), "--start", "3", "--seeds", "2", "--bundles", &path("bundles")]);
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output.stderr));
    assert!(!folder.path().join("regressions").exists(), "the shrunk scenario is elsewhere, too");
    let bundle = folder.path().join("bundles/late-settles-seed-3");
    let read = |name: &str| std::fs::read_to_string(bundle.join(name)).unwrap();
    assert_eq!(read("scenario.toml"), LATE);
    assert!(read("trace.txt").contains("-- w/1/claim#1/"), "the trace lists no call");
    assert!(read("replay.sh").contains("--seed 3"), "{}", read("replay.sh"));
    let status = || -> rusqlite::Result<String> {
        let queue = rusqlite::Connection::open(bundle.join("disks/queue-host/queue.db"))?;
        queue.query_row("SELECT status FROM jobs WHERE id = 'cake'", [], |row| row.get(0))
    };
    assert_eq!(status().unwrap(), "pending");
    let shrunk = sim(&["run", bundle.join("shrunk.toml").to_str().unwrap()]);
    assert!(text_of(&shrunk.stdout).contains("breaks settles"), "{}", text_of(&shrunk.stdout));
}

#[test]
fn junit_is_well_formed_and_names_what_is_broken() {
    let folder = folder(&[("it's <&> late.toml", LATE), ("plain.toml", PLAIN)]);
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let args = ["--scenarios", folder.path().to_str().unwrap(), "fuzz", "--seeds", "2", "--no-shrink"];
    let output = sim(&[&args[..], &["--junit", &path("junit.xml")]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", text_of(&output.stderr));
    let xml = std::fs::read_to_string(path("junit.xml")).unwrap();
    let report = quick_junit::Report::deserialize_from_str(&xml).unwrap();
    assert_eq!((report.tests, report.failures), (2, 1));
    assert!(
        xml.contains("message=\"seed 1 breaks settles\"") && xml.contains("it&apos;s &lt;&amp;&gt; late"),
        "{xml}"
    );
}

#[test]
fn files_that_cannot_be_written_are_refused_before_anything_runs() {
    let folder = folder(&[("x.toml", PLAIN), ("file", "")]);
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let fuzz = |flag: &str, to: &str| {
        let output = sim(&["fuzz", &path("x.toml"), "--time", "1h", flag, &path(to)]);
        assert_eq!(output.status.code(), Some(2), "{flag} {to}");
        text_of(&output.stderr)
    };
    for flag in ["--report", "--junit", "--resume", "--bundles"] {
        let errors = fuzz(flag, "file/x");
        assert!(errors.contains("file/x"), "{errors}");
    }
    let errors = fuzz("--bundles", "file");
    assert!(errors.contains("file: is no folder, allowed: "), "{errors}");
    // No folder is made: a name with a slip of the pen would be one.
    for flag in ["--report", "--junit", "--bundles"] {
        let errors = fuzz(flag, "no/such/x");
        assert!(errors.contains("there is no folder") && errors.contains("mkdir -p"), "{flag}: {errors}");
        assert!(!folder.path().join("no").exists(), "{flag} makes folders");
    }
}

/// Whoever finds a report finds that of this campaign, or an empty file.
#[test]
fn a_report_of_an_earlier_campaign_does_not_outlive_the_beginning_of_the_next() {
    let folder = folder(&[("report.json", "old"), ("junit.xml", "old")]);
    let path = |name: &str| folder.path().join(name);
    let mut command = command();
    command.args(["fuzz", STORM, "--time", "1h", "--jobs", "1"]).stdout(Stdio::null());
    command.arg("--report").arg(path("report.json")).arg("--junit").arg(path("junit.xml"));
    let mut campaign = command.spawn().unwrap();
    let began = Instant::now();
    let is_empty = |name: &str| std::fs::read(path(name)).unwrap().is_empty();
    let mut are_empty = false;
    while !are_empty && began.elapsed() < Duration::from_secs(10) {
        are_empty = is_empty("report.json") && is_empty("junit.xml");
        std::thread::sleep(Duration::from_millis(5));
    }
    // SIGKILL.
    campaign.kill().unwrap();
    campaign.wait().unwrap();
    assert!(are_empty, "the old report is still there");
}

/// Of reports that are merged, one may be written over: it is read before.
#[test]
fn a_merge_may_write_over_what_it_reads() {
    let folder = folder(&[("x.toml", PLAIN)]);
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let output = sim(&["fuzz", &path("x.toml"), "--seeds", "3", "--report", &path("one.json")]);
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output.stderr));
    let output = sim(&["merge", &path("one.json"), "--report", &path("one.json")]);
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output.stderr));
    assert_eq!(sim(&["merge", &path("one.json")]).status.code(), Some(0));
}

/// What was damaged is run again, and whoever resumes is told.
#[test]
fn a_damaged_journal_is_said_to_be_run_again() {
    let folder = folder(&[("x.toml", PLAIN)]);
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let fuzz = || sim(&["fuzz", &path("x.toml"), "--seeds", "200", "--resume", &path("journal"), "--json"]);
    let whole = fuzz();
    assert_eq!(text_of(&whole.stderr), "");
    let mut bytes = std::fs::read(path("journal")).unwrap();
    let second = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    bytes[second + 3] ^= 0x20;
    std::fs::write(path("journal"), &bytes).unwrap();
    let again = fuzz();
    let errors = text_of(&again.stderr);
    assert!(errors.starts_with("warning: the journal ") && errors.contains(" line 2 "), "{errors}");
    assert!(errors.contains("5 lines dropped"), "{errors}");
    assert_eq!(without_timings(&again.stdout), without_timings(&whole.stdout));
    assert_eq!(text_of(&fuzz().stderr), "");
}

/// A shard to which no seed falls has held nothing.
#[test]
fn a_scenario_that_was_not_run_does_not_count_as_held() {
    let folder = folder(&[("x.toml", PLAIN)]);
    let file = folder.path().join("x.toml");
    let output = sim(&["fuzz", file.to_str().unwrap(), "--seeds", "1", "--shard", "1/2"]);
    let text = text_of(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.lines().last().unwrap().starts_with("0 scenarios held, 1 not run, 0 seeds"), "{text}");
}

/// SIGINT, as by Ctrl-C, or SIGTERM, as by a cluster: to the whole group of processes, children included.
#[test]
fn an_interrupt_ends_with_what_was_done_so_far() {
    for signal in ["INT", "TERM"] {
        ends_with_what_was_done_so_far(signal);
    }
}

fn ends_with_what_was_done_so_far(signal: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut command = command();
    command.args(["fuzz", STORM, "scenarios/two-workers-one-job.toml", "--seeds", "1000000", "--jobs", "1"]);
    command.arg("--report").arg(path("report.json")).arg("--junit").arg(path("junit.xml"));
    command.arg("--resume").arg(path("journal")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let campaign = std::os::unix::process::CommandExt::process_group(&mut command, 0).spawn().unwrap();
    let began = Instant::now();
    while starts(&path("journal")).len() < 2 {
        assert!(began.elapsed() < PATIENCE, "no chunk is journaled");
        std::thread::sleep(Duration::from_millis(5));
    }
    let group = format!("-{}", campaign.id());
    let kill = std::process::Command::new("kill").args(["-s", signal, "--", &group]).status().unwrap();
    assert!(kill.success());
    let output = campaign.wait_with_output().unwrap();
    let (text, errors) = (text_of(&output.stdout), text_of(&output.stderr));
    assert_eq!(output.status.code(), Some(130), "{text}{errors}");
    assert!(text.contains(", interrupted, ") && text.contains("1 scenario held, 1 not run, "), "{text}");
    assert!(!text.contains("died") && !text.contains("when time was up"), "{text}");
    let report: Value = serde_json::from_slice(&std::fs::read(path("report.json")).unwrap()).unwrap();
    let seeds = report["scenarios"][0]["seeds"].as_u64().unwrap();
    assert_eq!(
        seeds,
        64 * starts(&path("journal")).len() as u64,
        "the journal has other seeds than the report"
    );
    let xml = std::fs::read_to_string(path("junit.xml")).unwrap();
    assert_eq!(quick_junit::Report::deserialize_from_str(&xml).unwrap().tests, 2);
    assert!(!std::fs::read_to_string(path("journal")).unwrap().contains("Finished"));
}

#[test]
fn the_environment_says_the_shard_and_a_text_the_first_seed() {
    let folder = folder(&[("x.toml", PLAIN)]);
    let ranges = |shard: &str, set: &[(&str, &str)]| {
        let mut command = command();
        command.arg("fuzz").arg(folder.path().join("x.toml")).args(["--seeds", "9", "--json"]);
        command.args(["--seed-from", "0123abc", "--shard", shard]).envs(set.iter().copied());
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text_of(&output.stderr));
        let campaign: Value = serde_json::from_slice(&output.stdout).unwrap();
        campaign["scenarios"][0]["ranges"].to_string()
    };
    // A stable hash: the number may never change.
    let second = "[[757989258602514681,3]]";
    assert_eq!(ranges("2/3", &[]), second);
    assert_eq!(ranges("auto", &[("CI_NODE_INDEX", "2"), ("CI_NODE_TOTAL", "3")]), second);
    assert_eq!(ranges("auto/3", &[("JOB_COMPLETION_INDEX", "1")]), second);
    let slurm =
        [("SLURM_ARRAY_TASK_ID", "5"), ("SLURM_ARRAY_TASK_MIN", "4"), ("SLURM_ARRAY_TASK_COUNT", "3")];
    assert_eq!(ranges("auto", &slurm), second);
}

/// With a time, a single seed that takes much longer is ended, and does not count as held.
#[test]
fn a_long_seed_does_not_overrun_the_time() {
    let long = PLAIN.replace("id = \"cake\"", "id = \"cake\"\ncount = 10000\nttl_ms = 60000");
    let folder = folder(&[("long.toml", &long)]);
    let began = Instant::now();
    let output = sim(&["fuzz", folder.path().join("long.toml").to_str().unwrap(), "--time", "100ms"]);
    let text = text_of(&output.stdout);
    assert!(began.elapsed() < Duration::from_secs(8), "it took {:?}", began.elapsed());
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("warning: still running when time was up, not counted: "), "{text}");
    assert!(text.contains("ended in time") && text.contains("no seed ended"), "{text}");
}
