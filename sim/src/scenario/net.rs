//! What carries the connections of a run.

/// What carries the connections between processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Net {
    /// The built-in executor and its network: processes can be preempted inside SQLite, and idle time costs nothing.
    #[default]
    BuiltIn,
    /// turmoil's hosts and its TCP: the second opinion, and much slower.
    Turmoil,
}

impl Net {
    /// Both, by their names in scenario files and on the command line.
    pub const ALL: &'static [Self] = &[Self::BuiltIn, Self::Turmoil];

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BuiltIn => "built-in",
            Self::Turmoil => "turmoil",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|net| net.as_str() == name)
    }
}
