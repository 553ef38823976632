//! The configuration file: what it says stands behind flags and environment and before the defaults, for every option
//! that can be given by the environment as well. What a run is about (an id, a note) is no configuration.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::{Arg, Command};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::exit::{Ended, Exit};
use super::files;

/// The flag that names the file.
const FLAG: &str = "--config";
/// The environment variable that names it.
pub const VARIABLE: &str = "ACKWARD_CONFIG";

/// One setting: the table it stands in, its key, and its value as the command line would have it.
#[derive(Debug)]
struct Setting {
    /// A command's name, or none at the top.
    command: Option<String>,
    key: String,
    value: String,
    line: usize,
}

/// The command line with the defaults that the file sets, where arguments or environment name one.
pub fn apply(
    command: Command,
    arguments: &[OsString],
    environment: Option<OsString>,
) -> Result<Command, Ended> {
    let Some(path) = given(arguments, FLAG).or(environment).map(PathBuf::from) else { return Ok(command) };
    let text = files::text(&path)
        .map_err(|error| Ended { exit: files::exit_of(&error), ..refuse(&path, None, &error.to_string()) })?;
    let settings = read(&path, &text)?;
    settings.into_iter().try_fold(command, |command, setting| set(command, setting, &path))
}

/// What the arguments give for an option, before clap looks at them; the last one counts, as with any option.
pub fn given(arguments: &[OsString], flag: &str) -> Option<OsString> {
    let before_escape = || arguments.iter().take_while(|argument| *argument != "--");
    let apart = before_escape().zip(before_escape().skip(1));
    let apart = apart.filter(|(name, _)| *name == flag).map(|(_, value)| value.clone()).last();
    apart.or_else(|| {
        let joined = |argument: &'_ OsString| {
            argument.to_str()?.strip_prefix(flag)?.strip_prefix('=').map(OsString::from)
        };
        before_escape().filter_map(joined).last()
    })
}

/// The settings of a file, in order.
fn read(path: &Path, text: &str) -> Result<Vec<Setting>, Ended> {
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map(|span| line_of(text, span.start));
        refuse(path, line, error.message())
    })?;
    let mut settings = Vec::new();
    for (key, value) in table.get_ref() {
        match value.get_ref() {
            DeValue::Table(table) => {
                for (inner, value) in table {
                    settings.push(setting(path, text, Some(key.get_ref().to_string()), inner, value)?);
                }
            }
            _ => settings.push(setting(path, text, None, key, value)?),
        }
    }
    Ok(settings)
}

fn setting<K: AsRef<str>>(
    path: &Path,
    text: &str,
    command: Option<String>,
    key: &Spanned<K>,
    value: &Spanned<DeValue<'_>>,
) -> Result<Setting, Ended> {
    let line = line_of(text, key.span().start);
    let key = key.get_ref().as_ref().to_owned();
    let value = match value.get_ref() {
        DeValue::String(text) => text.to_string(),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Integer(number) if number.radix() == 10 => number.as_str().to_owned(),
        DeValue::Float(number) => number.as_str().to_owned(),
        other => {
            let what = format!("{key} is {}, allowed: a text, a number, true or false", other.type_str());
            return Err(refuse(path, Some(line), &what));
        }
    };
    Ok(Setting { command, key, value, line })
}

/// Makes a setting the default of its option.
fn set(mut root: Command, setting: Setting, path: &Path) -> Result<Command, Ended> {
    if let Some(name) = &setting.command
        && root.find_subcommand(name).is_none()
    {
        let commands: Vec<_> = root.get_subcommands().map(Command::get_name).collect();
        let what = format!("there is no command {name}, allowed: {}", commands.join(", "));
        return Err(refuse(path, Some(setting.line), &what));
    }
    let wanted = |command: &Command| setting.command.as_deref().is_none_or(|name| name == command.get_name());
    let names: Vec<_> = root
        .get_subcommands()
        .filter(|command| wanted(command) && has(command, &setting.key))
        .map(|command| command.get_name().to_owned())
        .collect();
    let at_root = setting.command.is_none() && has(&root, &setting.key);
    if names.is_empty() && !at_root {
        let what = format!("there is no {}, allowed: {}", setting.key, allowed(&root, &setting));
        return Err(refuse(path, Some(setting.line), &what));
    }
    if at_root {
        root = with_default(root, &setting);
    }
    for name in names {
        root = root.mut_subcommand(name, |command| with_default(command, &setting));
    }
    Ok(root)
}

fn with_default(command: Command, setting: &Setting) -> Command {
    let id = command.get_arguments().find(|argument| is(argument, &setting.key)).map(|a| a.get_id().clone());
    let value = setting.value.clone();
    match id {
        Some(id) => command.mut_arg(id, |argument| argument.required(false).default_value(value)),
        None => command,
    }
}

fn has(command: &Command, key: &str) -> bool {
    command.get_arguments().any(|argument| is(argument, key))
}

/// Whether an option can be configured, and goes by this name.
fn is(argument: &Arg, key: &str) -> bool {
    argument.get_long() == Some(key) && is_configurable(argument)
}

fn is_configurable(argument: &Arg) -> bool {
    argument.get_env().is_some_and(|variable| variable != OsStr::new(VARIABLE))
}

/// The keys that would have been accepted there.
fn allowed(root: &Command, setting: &Setting) -> String {
    let commands = root
        .get_subcommands()
        .filter(|command| setting.command.as_deref().is_none_or(|name| name == command.get_name()));
    let own = std::iter::once(root).filter(|_| setting.command.is_none());
    let mut keys: Vec<_> = own
        .chain(commands)
        .flat_map(Command::get_arguments)
        .filter(|argument| is_configurable(argument))
        .filter_map(Arg::get_long)
        .collect();
    keys.sort_unstable();
    keys.dedup();
    keys.join(", ")
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}

fn refuse(path: &Path, line: Option<usize>, what: &str) -> Ended {
    let line = line.map_or(String::new(), |line| format!(", line {line}"));
    Ended::new(Exit::Usage, format_args!("{}{line}: {what}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command() -> Command {
        Command::new("ackward").subcommand(
            Command::new("work")
                .arg(Arg::new("queue").long("queue").env("QUEUE").required(true))
                .arg(Arg::new("slots").long("slots").env("SLOTS").default_value("4"))
                .arg(Arg::new("id").long("id")),
        )
    }

    fn apply_text(text: &str) -> Result<Command, String> {
        let settings = read(Path::new("a.toml"), text).map_err(|ended| ended.message)?;
        let set =
            |command, setting| set(command, setting, Path::new("a.toml")).map_err(|ended| ended.message);
        settings.into_iter().try_fold(command(), set)
    }

    fn slots(command: Command, arguments: &[&str]) -> String {
        let matches = command.try_get_matches_from([&["ackward", "work"], arguments].concat()).unwrap();
        matches.subcommand().unwrap().1.get_one::<String>("slots").unwrap().clone()
    }

    /// Flags before file before default; a required option may stand in the file.
    #[test]
    fn the_file_stands_between_the_flags_and_the_defaults() {
        let file = "queue = 'a.db'\n[work]\nslots = 8\n";
        assert_eq!(slots(apply_text(file).unwrap(), &[]), "8");
        assert_eq!(slots(apply_text(file).unwrap(), &["--slots", "9"]), "9");
        assert_eq!(slots(command(), &["--queue", "a.db"]), "4");
    }

    #[test]
    fn what_does_not_belong_there_is_refused_with_its_line() {
        let cases = [
            ("\nslot = 8", "a.toml, line 2: there is no slot, allowed: queue, slots"),
            ("[worker]\nslots = 8", "a.toml, line 2: there is no command worker, allowed: work"),
            ("[work]\nid = 'a'", "a.toml, line 2: there is no id, allowed: queue, slots"),
            (
                "[work]\nslots = [8]",
                "a.toml, line 2: slots is array, allowed: a text, a number, true or false",
            ),
        ];
        for (text, error) in cases {
            assert_eq!(apply_text(text).unwrap_err(), error);
        }
        assert!(apply_text("slots = ").unwrap_err().starts_with("a.toml, line 1: "));
    }

    #[test]
    fn the_flag_is_found_wherever_it_stands() {
        let named =
            |arguments: &[&str]| given(&arguments.iter().map(OsString::from).collect::<Vec<_>>(), FLAG);
        assert_eq!(named(&["ackward", "work", "--config", "a"]), Some("a".into()));
        assert_eq!(named(&["ackward", "--config=a", "work"]), Some("a".into()));
        assert_eq!(named(&["ackward", "work", "--", "--config", "a"]), None);
        assert_eq!(named(&["ackward", "--config"]), None);
        assert_eq!(named(&["ackward", "--config-x=a"]), None);
    }
}
