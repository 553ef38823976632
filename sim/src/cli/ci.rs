//! What `fuzz` and `merge` offer to CI: shards, journals, files of results.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ackward_sim::choice::stable_hash;
use ackward_sim::outside;
use anyhow::{Context, bail, ensure};
use clap::Args;

use super::fuzz::Finding;
use super::shard::{Asked, Shard};
use super::{FuzzArgs, SEED_MAX, json, junit, text};

/// Seeds that a text is turned into are below this: there is room for shards above it.
const SEED_FROM_MAX: u64 = 1_000_000_000_000_000_000;

/// How a campaign is split, resumed and cut short.
#[derive(Args, Default)]
pub(crate) struct CiArgs {
    /// Run part i of n: i/n, or auto (GitLab, Slurm), or auto/n (Kubernetes indexed jobs). With --seeds the range is
    /// split into n parts that follow each other; with --time shards begin 10^12 seeds apart.
    #[arg(long, value_name = "SHARD", value_parser = Asked::parse)]
    shard: Option<Asked>,
    /// Take the first seed from a text, such as a commit's name; the same text gives the same seed.
    #[arg(long, value_name = "TEXT", conflicts_with = "start")]
    seed_from: Option<String>,
    /// Stop once N seeds have failed in all, 1 to 1000000000; the part of 64 that one belongs to still counts, and
    /// scenarios after it are not run.
    #[arg(long, value_name = "N", value_parser = text::whole(1, 1_000_000_000))]
    pub(crate) max_failures: Option<u64>,
    /// Keep a journal of finished parts in FILE, and go on from it where it is there already. Other arguments, an
    /// edited scenario or another build are refused.
    #[arg(long, value_name = "FILE")]
    pub(crate) resume: Option<PathBuf>,
    /// Write a folder for each property that was broken into DIR: the shrunk scenario, the trace with every call, the
    /// database files at the end of the run, and what replays it.
    #[arg(long, value_name = "DIR", conflicts_with = "out")]
    pub(crate) bundles: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) files: FileArgs,
}

/// Files that results are written to, whatever is printed.
#[derive(Args, Default)]
pub(crate) struct FileArgs {
    /// Also write the results as JSON to FILE, with what `cargo sim merge` needs.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Also write the verdicts as JUnit XML to FILE.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

/// Which seeds of each scenario are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) shard: Shard,
    /// The first seed of all shards.
    first: u64,
    /// The first seed of this one.
    pub(crate) start: u64,
    /// How many, where that is given.
    pub(crate) seeds: Option<u64>,
}

impl Plan {
    /// What the arguments and the environment say.
    pub(crate) fn new(args: &FuzzArgs) -> anyhow::Result<Self> {
        let variable = |name: &str| std::env::var(name).ok();
        let shard = args.ci.shard.map_or(Ok(Shard::WHOLE), |asked| asked.resolve(variable));
        let shard = shard.map_err(anyhow::Error::msg)?;
        let from_text = args.ci.seed_from.as_ref().map(|text| stable_hash(text.as_bytes()) % SEED_FROM_MAX);
        let first = from_text.or(args.start).unwrap_or(1);
        if let Some(count) = args.seeds {
            let (start, seeds) = shard.part(first, count);
            return Ok(Self { shard, first, start, seeds: Some(seeds) });
        }
        let start = shard.far(first, SEED_MAX).with_context(|| {
            format!("shard {shard} begins above seed {SEED_MAX}, allowed: a smaller --start, or --seeds")
        })?;
        Ok(Self { shard, first, start, seeds: None })
    }

    /// What must be the same for a journal to be of use.
    pub(crate) fn arguments(&self, args: &FuzzArgs, time: Duration) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        let mut put = |key: &str, value: String| drop(all.insert(key.to_owned(), value));
        match args.seeds {
            Some(seeds) => put("--seeds", seeds.to_string()),
            None => put("--time", format!("{}ms", time.as_millis())),
        }
        put("the first seed", self.first.to_string());
        put("--shard", self.shard.to_string());
        if let Some(most) = args.ci.max_failures {
            put("--max-failures", most.to_string());
        }
        if let Some(share) = args.xray {
            put("--xray", share.to_string());
        }
        all
    }

    /// What is not told by the number of seeds: `, from seed 17 on (shard 2/3)`.
    pub(crate) fn about(&self) -> String {
        let seed = if self.start == 1 { String::new() } else { format!(", from seed {} on", self.start) };
        let shard =
            if self.shard == Shard::WHOLE { String::new() } else { format!(" (shard {})", self.shard) };
        seed + &shard
    }
}

impl CiArgs {
    /// Sees that what is asked for can be written, before anything is run; files are emptied.
    pub(crate) fn prepare(&self) -> anyhow::Result<()> {
        if let Some(folder) = &self.bundles {
            can_hold(folder)?;
        }
        self.files.prepare()?;
        self.files.empty()
    }
}

/// Whether a folder is there, or can be made when there is something to put into it.
fn can_hold(folder: &Path) -> anyhow::Result<()> {
    let shown = folder.display();
    if folder.exists() {
        ensure!(
            folder.is_dir(),
            "--bundles {shown}: is no folder, allowed: a folder, or a name that is free"
        );
        return Ok(());
    }
    has_folder(folder)?;
    let tried = std::fs::create_dir(folder).and_then(|()| std::fs::remove_dir(folder));
    tried.with_context(|| format!("--bundles {shown}: the folder cannot be made"))
}

impl FileArgs {
    /// Sees that the files can be written, before anything is run.
    pub(crate) fn prepare(&self) -> anyhow::Result<()> {
        for path in self.all() {
            let shown = path.display();
            has_folder(path)?;
            outside::refuse_named_pipe(path).with_context(|| format!("writing {shown}"))?;
            let mut options = std::fs::OpenOptions::new();
            options.append(true).create(true).open(path).with_context(|| format!("writing {shown}"))?;
        }
        Ok(())
    }

    /// Empties them, so that whoever finds them after this process was killed does not take them for its results.
    pub(crate) fn empty(&self) -> anyhow::Result<()> {
        let empty = |path: &PathBuf| {
            std::fs::File::create(path).with_context(|| format!("writing {}", path.display()))
        };
        self.all().try_for_each(|path| empty(path).map(drop))
    }

    fn all(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.report, &self.junit].into_iter().flatten()
    }

    /// Writes them.
    pub(crate) fn write(&self, findings: &[Finding], shards: &[Shard], took: Duration) -> anyhow::Result<()> {
        if let Some(path) = &self.report {
            write(path, |bytes| Ok(json::report(bytes, findings, shards, took)?))?;
        }
        if let Some(path) = &self.junit {
            write(path, |bytes| junit::write(bytes, findings, took))?;
        }
        Ok(())
    }
}

/// A folder is not made for a file in it: that would hide a slip of the pen.
fn has_folder(path: &Path) -> anyhow::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let Some(folder) = folder.filter(|folder| !folder.exists()) else { return Ok(()) };
    let (shown, folder) = (path.display(), folder.display());
    bail!(
        "writing {shown}: there is no folder {folder}, allowed: one that is there; mkdir -p {} makes it",
        text::shell_word(&folder.to_string())
    )
}

fn write(path: &Path, what: impl FnOnce(&mut Vec<u8>) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let mut bytes = Vec::new();
    what(&mut bytes)?;
    let written = std::fs::File::create(path).and_then(|mut file| file.write_all(&bytes));
    written.with_context(|| format!("writing {}", path.display()))
}
