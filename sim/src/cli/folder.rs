//! Where scenario files are, and what they are called in what the user reads.

use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use ackward_sim::scenario::{Net, Scenario};
use ackward_sim::strategy::{Strategist, Strategy};
use anyhow::{Context, bail};

use super::text::shell_word;

/// The folder's name.
const FOLDER: &str = "scenarios";
/// The folder within it whose files were failures once: they run first.
pub(crate) const REGRESSIONS: &str = "regressions";

/// A scenario with its file.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// The path from the current directory, as a command can use it.
    pub(crate) path: String,
    /// The file's text.
    pub(crate) text: String,
    pub(crate) scenario: Scenario,
    /// Whether it runs on another net than its own.
    pub(crate) is_abroad: bool,
    /// How its seeds become answers.
    pub(crate) strategy: Strategy,
}

impl Entry {
    /// Reads one file.
    pub(crate) fn load(path: &Path) -> anyhow::Result<Self> {
        let path = nearest(path);
        // Read once: what is fuzzed is what was checked, also from a pipe.
        let (scenario, text) = Scenario::load_with_text(&path)?;
        let strategy = Strategy::default();
        Ok(Self { path: path.display().to_string(), text, scenario, is_abroad: false, strategy })
    }

    /// The scenario on this net. What it expects to be reached now and then is known of its own net only.
    pub(crate) fn on(mut self, net: Option<Net>) -> Self {
        if let Some(net) = net.filter(|net| *net != self.scenario.net) {
            self.scenario.net = net;
            self.scenario.expect.sometimes.clear();
            self.is_abroad = true;
        }
        self
    }

    /// Whether a seed decides anything but jitter.
    pub(crate) fn is_random(&self) -> bool {
        self.scenario.faults.is_random()
    }

    /// The scenario without the right values that it states: they are those of the story as it is told, with more
    /// deviations it is another.
    pub(crate) fn without_right_values(mut self) -> Self {
        let expect = &mut self.scenario.expect;
        if !expect.jobs.is_empty() || !expect.consumers.is_empty() {
            expect.jobs.clear();
            expect.consumers.clear();
            self.text = self.scenario.to_toml();
        }
        self
    }

    /// The command that replays a seed.
    pub(crate) fn replay(&self, seed: u64) -> String {
        format!("cargo sim run {} --seed {seed}{}", shell_word(&self.path), self.options())
    }

    /// The command that fuzzes a range of seeds.
    pub(crate) fn fuzz(&self, start: u64, seeds: u64) -> String {
        let path = shell_word(&self.path);
        format!("cargo sim fuzz {path} --start {start} --seeds {seeds}{}", self.options())
    }

    /// What a command must say to have the same net and strategy.
    pub(crate) fn options(&self) -> String {
        let net =
            if self.is_abroad { format!(" --net {}", self.scenario.net.as_str()) } else { String::new() };
        net + &self.asked_strategy()
    }

    /// What a command must say to have the same strategy.
    fn asked_strategy(&self) -> String {
        if self.strategy == Strategy::default() {
            String::new()
        } else {
            format!(" --strategy {}", self.strategy)
        }
    }

    /// The same with another strategy.
    pub(crate) fn by(self, strategy: Option<Strategy>) -> Self {
        Self { strategy: strategy.unwrap_or_default(), ..self }
    }

    /// Who runs its seeds.
    pub(crate) fn strategist(&self) -> Strategist {
        Strategist::new(Rc::new(self.scenario.clone()), self.strategy)
    }
}

/// The files given, or all of the folder; at least one.
pub(crate) fn entries(folder: Option<&Path>, files: &[PathBuf]) -> anyhow::Result<Vec<Entry>> {
    let found;
    let files = if files.is_empty() {
        found = all_of(&find(folder)?)?;
        &found
    } else {
        files
    };
    let mut entries = Vec::new();
    let mut errors = Vec::new();
    for file in files {
        match Entry::load(file) {
            Ok(entry) => entries.push(entry),
            Err(error) => errors.push(format!("{error:#}")),
        }
    }
    if !errors.is_empty() {
        bail!("{}", errors.join("\n"));
    }
    Ok(entries)
}

/// The folder that was asked for, else ./scenarios, else the workspace's.
pub(crate) fn find(asked: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(asked) = asked {
        return Ok(asked.to_owned());
    }
    let mut places = vec![PathBuf::from(FOLDER)];
    // Set by `cargo run` when it starts this program: nothing of the machine that built it.
    if let Some(manifest) = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from) {
        places.push(manifest.join(FOLDER));
        places.extend(manifest.parent().map(|parent| parent.join(FOLDER)));
    }
    let found = places.iter().find(|place| place.is_dir()).cloned();
    let places: Vec<_> = places.iter().map(|place| shown(place)).collect();
    found
        .with_context(|| format!("there is no folder {}; --scenarios DIR names another", places.join(" or ")))
}

/// All files of the folder, regressions first, each part by name.
fn all_of(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    collect(folder, &mut files).with_context(|| format!("the scenario folder {}", shown(folder)))?;
    let regressions = folder.join(REGRESSIONS);
    files.sort_by_key(|file| (!file.starts_with(&regressions), file.clone()));
    if files.is_empty() {
        bail!("the scenario folder {} holds no *.toml file, allowed: at least one", shown(folder));
    }
    Ok(files)
}

/// Symbolic links to folders are not followed: they could lead in a circle.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    Ok(())
}

fn shown(path: &Path) -> String {
    nearest(path).display().to_string()
}

/// The path from the current directory where there is one, else as it is.
fn nearest(path: &Path) -> PathBuf {
    // A relative path is seen from here already, whatever lies behind a `..` of it.
    if path.is_relative() {
        return path.components().filter(|part| *part != Component::CurDir).collect();
    }
    let relative = || {
        let here = std::env::current_dir().ok()?;
        Some(relative(&std::path::absolute(path).ok()?, &here))
    };
    relative().unwrap_or_else(|| path.to_owned())
}

/// `path` as seen from `here`, both absolute. Without a common root it stays absolute.
fn relative(path: &Path, here: &Path) -> PathBuf {
    let is_plain = |path: &Path| path.components().all(|part| part != Component::ParentDir);
    if !is_plain(path) || !is_plain(here) {
        return path.to_owned();
    }
    let common = path.components().zip(here.components()).take_while(|(a, b)| a == b).count();
    let up = here.components().count() - common;
    // One level (the root itself) in common: the absolute path reads better.
    if common <= 1 {
        return path.to_owned();
    }
    let parents = std::iter::repeat_n(Component::ParentDir, up);
    parents.chain(path.components().skip(common)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The command that is printed names a file as it is named when that command is run.
    #[test]
    fn the_nearest_name_of_a_nearest_name_is_itself() {
        for name in ["x.toml", "../x.toml", "../../a/x.toml", "a/../x.toml"] {
            assert_eq!(nearest(Path::new(name)), Path::new(name));
        }
        assert_eq!(nearest(Path::new("./a/./x.toml")), Path::new("a/x.toml"));
    }

    #[test]
    fn paths_are_those_from_the_current_directory() {
        let from = |path: &str, here: &str| relative(Path::new(path), Path::new(here)).display().to_string();
        assert_eq!(from("/home/a/scenarios/x.toml", "/home/a"), "scenarios/x.toml");
        assert_eq!(from("/home/a/scenarios/x.toml", "/home/a/sim"), "../scenarios/x.toml");
        assert_eq!(from("/tmp/x.toml", "/home/a"), "/tmp/x.toml");
        assert_eq!(from("/home/a/../b/x.toml", "/home/a"), "/home/a/../b/x.toml");
    }

    #[test]
    fn regressions_come_first() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.toml", "regressions/z.toml", "b/c.toml", "notes.md"] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let files = all_of(folder.path()).unwrap();
        let names: Vec<_> = files
            .iter()
            .map(|file| file.strip_prefix(folder.path()).unwrap().display().to_string())
            .collect();
        assert_eq!(names, ["regressions/z.toml", "a.toml", "b/c.toml"]);
    }
}
