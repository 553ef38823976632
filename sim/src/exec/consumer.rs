//! The consumer's operations. None is known yet: each is answered as an unknown one is.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use super::Reply;
use super::arguments::Arguments;
use super::failure::Failure;

/// The consumer's store.
pub(super) struct Consumer;

impl Consumer {
    #[expect(clippy::unnecessary_wraps, reason = "opening the store's file can fail")]
    pub(super) fn open(_path: PathBuf) -> Result<Self, Failure> {
        Ok(Self)
    }

    pub(super) fn perform(&mut self, op: &str, _arguments: &Arguments) -> Reply {
        Failure::Malformed(format!("there is no operation {op:?}")).into()
    }

    /// Adds the store's tables.
    #[expect(clippy::unnecessary_wraps, reason = "reading the store's file can fail")]
    pub(super) fn dump(&mut self, _tables: &mut BTreeMap<&'static str, Value>) -> Result<(), Failure> {
        Ok(())
    }

    #[expect(clippy::unnecessary_wraps, reason = "opening the store's file can fail")]
    pub(super) fn reopen(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}
