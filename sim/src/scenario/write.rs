//! Writes a scenario back as TOML that reads well: only what differs from the defaults.

use toml::{Table, Value};

use super::Scenario;

/// Keys that say what a table is about: they stay, whatever they hold.
const KEPT: &[&str] = &["about", "id", "name", "job", "at", "at_ms", "do", "events"];

/// A scenario that holds nothing but what is required, so that what it gives back otherwise are the defaults.
const PLAIN: &str = r#"
about = "Defaults."
[[job]]
id = "job"
[[worker]]
name = "worker"
[receiver]
[publisher]
events = 0
[[consumer]]
name = "consumer"
[[redrive]]
job = "job"
at_ms = 0
[faults]
[[deviation]]
at = "worker/1/claim#1/commit/db.write#1"
do = "kill"
[expect]
"#;

pub(super) fn to_toml(scenario: &Scenario) -> String {
    let plain = Scenario::parse("plain", PLAIN.as_bytes()).expect("the plain scenario is valid");
    let mut table = as_table(scenario);
    leave_out(&mut table, &as_table(&plain));
    toml::to_string(&table).expect("a table of texts and numbers is valid TOML")
}

/// The scenario as tables, defaults included.
pub(super) fn as_table(scenario: &Scenario) -> Table {
    Table::try_from(scenario).expect("a scenario is made of texts and numbers")
}

/// Leaves out what is the same as in `defaults`, and tables that are empty then.
fn leave_out(table: &mut Table, defaults: &Table) {
    table.retain(|key, value| match (value, defaults.get(key)) {
        (Value::Table(inner), Some(Value::Table(defaults))) => {
            leave_out(inner, defaults);
            !inner.is_empty()
        }
        (Value::Array(items), Some(Value::Array(defaults))) if defaults.iter().any(Value::is_table) => {
            for item in items.iter_mut() {
                if let (Value::Table(item), Some(Value::Table(defaults))) = (item, defaults.first()) {
                    leave_out(item, defaults);
                }
            }
            !items.is_empty()
        }
        (value, Some(default)) => KEPT.contains(&key) || value != default,
        (_, None) => true,
    });
}
