//! `cargo sim schema`: what scenario files and results look like, as JSON Schema.

use std::io;

use ackward_sim::scenario::Scenario;
use clap::ValueEnum;
use schemars::generate::SchemaSettings;

use super::fuzz::print;
use super::{Exit, json, unless_closed};

/// What the schema is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Of {
    /// Scenario files, for editors that know TOML.
    Scenario,
    /// What `fuzz --json`, `fuzz --report` and `merge` write.
    Results,
}

/// Prints a schema.
pub(crate) fn schema(of: Of) -> anyhow::Result<Exit> {
    let schema = match of {
        Of::Scenario => SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Scenario>(),
        Of::Results => SchemaSettings::draft2020_12()
            .for_serialize()
            .into_generator()
            .into_root_schema_for::<json::Campaign<'static>>(),
    };
    unless_closed(print(|output: &mut io::StdoutLock<'_>| json::print(output, &schema)))?;
    Ok(Exit::Held)
}
