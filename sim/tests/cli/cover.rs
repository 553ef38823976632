//! `cargo sim fuzz --cover` and `cargo sim strategies` as a user meets them.

use std::collections::BTreeMap;
use std::path::Path;

use super::search::ONE_EVENT;
use super::{folder, sim, text_of, top};

#[test]
fn the_same_arguments_print_and_keep_the_same() {
    let folder = folder(&[]);
    let run = |name: &str| {
        let corpus = folder.path().join(name);
        let text = cover("two-workers-one-job", &["--seeds", "80", "--corpus", corpus.to_str().unwrap()], 0);
        (text, files(&corpus))
    };
    let first = run("a");
    assert!(first.0.contains(": 80 runs, ") && first.0.ends_with("stopped: 80 runs done\n"), "{}", first.0);
    assert!(first.1.len() > 3);
    assert_eq!(run("b"), first);
}

/// What looks at a list is a run, too.
#[test]
fn it_makes_as_many_runs_as_it_was_allowed() {
    for runs in [2, 3, 64, 200] {
        let text = cover("two-workers-one-job", &["--seeds", &runs.to_string()], 0);
        assert!(text.contains(&format!(": {runs} runs, ")), "{runs}: {text}");
    }
    let one = cover("two-workers-one-job", &["--seeds", "1"], 0);
    assert!(one.contains(": 1 run, ") && one.ends_with("stopped: 1 run done\n"), "{one}");
}

#[test]
fn it_says_why_it_stopped() {
    let plateau = cover("killed-after-commit", &["--plateau", "20", "--seeds", "100000"], 0);
    assert!(plateau.ends_with("stopped: no new behaviour in 20 runs\n"), "{plateau}");
    let time = cover("two-workers-one-job", &["--time", "50ms"], 0);
    assert!(time.ends_with("stopped: the time is over\n"), "{time}");
}

/// Two corpora are one, and the smaller one that is left reaches the same at once.
#[test]
fn a_corpus_is_read_merged_and_minimised() {
    let folder = folder(&[]);
    let (one, other) = (folder.path().join("one"), folder.path().join("other"));
    let (one_word, other_word) = (one.to_str().unwrap(), other.to_str().unwrap());
    let name = "two-workers-one-job";
    cover(name, &["--seeds", "80", "--corpus", one_word], 0);
    cover(name, &["--seeds", "80", "--start", "500", "--corpus", other_word], 0);
    let both = ["--corpus", one_word, "--corpus", other_word];
    let all = files(&one).into_iter().chain(files(&other)).collect::<BTreeMap<_, _>>();
    let kept = cover(name, &[&["--minimise"], &both[..]].concat(), 0);
    assert!(kept.contains(&format!(" of {} lists kept", all.len())), "{kept}");
    assert!(files(&one).len() < all.len());
    let behaviours = |text: &str| {
        let words: Vec<_> = text.split_whitespace().collect();
        let at = words.iter().position(|word| word.starts_with("behaviours")).unwrap();
        words[at - 1].to_owned()
    };
    let again = cover(name, &["--seeds", "1", "--corpus", one_word], 0);
    assert_eq!(behaviours(&again), behaviours(&kept));
    assert!(again.contains(" and 0 new"), "{again}");
}

#[test]
fn a_wrong_file_in_a_corpus_exits_2_and_says_what_is_allowed() {
    let folder =
        folder(&[("corpus/x.toml", "[[deviation]]\nat = \"w/1/claim#1/comit/db.write#1\"\ndo = \"kill\"\n")]);
    let scenario = top().join("scenarios/storm.toml");
    let corpus = folder.path().join("corpus");
    let output = sim(&["fuzz", scenario.to_str().unwrap(), "--cover", "--corpus", corpus.to_str().unwrap()]);
    let errors = text_of(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    for part in ["x.toml", "line 2", "commit", "allowed in a corpus", "take it out of the folder"] {
        assert!(errors.contains(part), "{part:?} is not in {errors}");
    }
}

/// A failure is shrunk as `fuzz` does it, and a canary that is caught is none.
#[test]
fn a_failure_ends_the_search_and_is_shrunk() {
    let canary = top().join("scenarios/canaries/any-two-hundred-is-ok.toml");
    let text = std::fs::read_to_string(canary).unwrap();
    let folder = folder(&[("canary.toml", &text), ("broken.toml", &text.replace("fails = ", "# fails = "))]);
    let run = |name: &str, more: &[&str]| {
        let file = folder.path().join(name);
        sim(&[&["fuzz", file.to_str().unwrap(), "--cover", "--seeds", "500"], more].concat())
    };
    let caught = run("canary.toml", &[]);
    assert_eq!(caught.status.code(), Some(0), "{}", text_of(&caught.stdout));
    assert!(text_of(&caught.stdout).contains(": caught\n"));
    let broken = run("broken.toml", &[]);
    let text = text_of(&broken.stdout);
    assert_eq!(broken.status.code(), Some(1), "{text}");
    assert!(text.contains("stopped: a property is broken") && text.contains(" breaks effect-once"), "{text}");
    assert!(text.lines().last().unwrap().starts_with("  replay: cargo sim run "), "{text}");
    let small = folder.path().join("regressions/broken-effect-once-seed-1.toml");
    let again = sim(&["run", small.to_str().unwrap()]);
    assert!(text_of(&again.stdout).contains("verdict   caught at seed 1"), "{}", text_of(&again.stdout));
    let json = run("broken.toml", &["--json", "--no-shrink"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["stopped"], "failure");
    assert_eq!(json["failure"]["property"], "effect-once");
    assert!(json["failure"]["deviations"].as_array().is_some_and(|list| !list.is_empty()));
}

/// The plain values hold, whatever the seed; what fails with others is told with them, and shrunk to a file without ranges.
#[test]
fn a_failure_through_other_values_names_them() {
    let varied = std::fs::read_to_string(top().join("scenarios/leases-of-any-length.toml")).unwrap();
    let text =
        varied.replace("duration_ms = 20000", "duration_ms = 20000\nsystem = \"finish-ignores-expiry\"");
    let folder = folder(&[("varied.toml", &text)]);
    let file = folder.path().join("varied.toml");
    let run = |more: &[&str]| sim(&[&["fuzz", file.to_str().unwrap(), "--seeds", "400"], more].concat());
    let plain = run(&[]);
    assert_eq!(plain.status.code(), Some(0), "{}", text_of(&plain.stdout));
    let found = run(&["--cover"]);
    let text = text_of(&found.stdout);
    assert_eq!(found.status.code(), Some(1), "{text}");
    let values: Vec<_> = text.lines().filter(|line| line.starts_with("  with ")).collect();
    assert!(
        values.iter().any(|line| line.contains("lease_ms = ") || line.contains("service_ms = ")),
        "{text}"
    );
    let replay = text.lines().last().unwrap().strip_prefix("  replay: cargo sim run ").unwrap();
    let small = std::fs::read_to_string(top().join(replay)).unwrap();
    assert!(!small.contains("vary"), "{small}");
    assert!(text_of(&sim(&["run", replay]).stdout).contains("verdict   caught at seed 1"));
    let json = run(&["--cover", "--json", "--no-shrink"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let told = json["failure"]["values"].as_object().unwrap();
    assert_eq!(told.len(), values.len(), "{told:?}");
}

#[test]
fn strategies_print_a_table_that_ends_with_the_verdict() {
    let output =
        sim(&["strategies", "--campaigns", "1", "--runs", "20", "--only", "effect-apart,late-expiry"]);
    let text = text_of(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output.stderr));
    assert!(text.starts_with("median runs to detection, 1 campaigns of at most 20 runs each\n"), "{text}");
    assert!(text.lines().last().unwrap().starts_with("pooled: the default, mix, is no slower"), "{text}");
    assert!(text_of(&output.stderr).starts_with("took "));
    assert_eq!(text.lines().count(), 6, "{text}");
    let with_seconds =
        sim(&["strategies", "--campaigns", "1", "--runs", "20", "--only", "late-expiry", "--seconds"]);
    let text = text_of(&with_seconds.stdout);
    let seconds = text.split("\n\n").nth(1).unwrap();
    assert!(seconds.starts_with("median seconds to detection, in the same campaigns\n"), "{text}");
    let last: Vec<_> = seconds.lines().last().unwrap().split_whitespace().collect();
    assert!(last[5..].iter().all(|time| time.parse::<f64>().is_ok_and(|time| time > 0.0)), "{text}");
}

#[test]
fn some_ways_are_compared_with_the_same_result_on_any_number_of_cores() {
    let table = |jobs, ways| {
        let args = ["strategies", "--campaigns", "3", "--runs", "20", "--only", "late-expiry,finish-by-id"];
        let output = sim(&[&args[..], &["--ways", ways, "--strict", "--jobs", jobs]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text_of(&output.stderr));
        text_of(&output.stdout)
    };
    let text = table("1", "uniform,mix");
    assert_eq!(table("3", "mix,uniform"), text);
    let columns: Vec<_> = text.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(columns, ["uniform", "mix"]);
    let names: Vec<_> = text.lines().skip(2).take(2).map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(names, ["finish-by-id", "late-expiry"]);
}

/// The right value that a story states is that of the story without more deviations.
#[test]
fn a_story_s_right_value_is_not_judged() {
    let text = format!("{ONE_EVENT}[[expect.consumer]]\nname = \"c\"\nconnections = 1\n");
    let folder = folder(&[("one.toml", &text)]);
    let file = folder.path().join("one.toml");
    let output = sim(&["fuzz", file.to_str().unwrap(), "--cover", "--seeds", "60"]);
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output.stdout));
}

fn cover(scenario: &str, more: &[&str], code: i32) -> String {
    let file = top().join(format!("scenarios/{scenario}.toml"));
    let output = sim(&[&["fuzz", file.to_str().unwrap(), "--cover"], more].concat());
    assert_eq!(output.status.code(), Some(code), "{}{}", text_of(&output.stdout), text_of(&output.stderr));
    text_of(&output.stdout)
}

fn files(folder: &Path) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect()
}
