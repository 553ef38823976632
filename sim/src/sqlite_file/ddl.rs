//! Finds the alias of the rowid in the text of a CREATE TABLE. SQLite has checked the text: only the few
//! words that decide are looked at, and whatever else stands there is skipped.

/// Index of the column that is an alias of the rowid: the only column of the primary key, whose type is
/// exactly the one word INTEGER (and which is not declared `PRIMARY KEY DESC`).
pub(super) fn rowid_column(create_table: &str) -> Option<usize> {
    let definitions = definitions(create_table);
    let is_constraint = |words: &[&str]| words.first().is_some_and(|word| is_any(word, TABLE_CONSTRAINTS));
    let columns = definitions.iter().take_while(|words| !is_constraint(words));
    if let Some(at) = columns.clone().position(|words| is_integer(words) && has_own_key(words)) {
        return Some(at);
    }
    let key = definitions.iter().find_map(|words| table_key(words).filter(|_| is_constraint(words)))?;
    let at = columns.clone().position(|words| unquoted(words[0]).eq_ignore_ascii_case(unquoted(key)))?;
    is_integer(&definitions[at]).then_some(at)
}

/// Words that begin a constraint of the table; none can be a column's name unless quoted.
const TABLE_CONSTRAINTS: &[&str] = &["CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN"];
/// Words that may follow a column's type.
const COLUMN_CONSTRAINTS: &[&str] = &[
    "CONSTRAINT",
    "PRIMARY",
    "NOT",
    "NULL",
    "UNIQUE",
    "CHECK",
    "DEFAULT",
    "COLLATE",
    "REFERENCES",
    "GENERATED",
    "AS",
];

/// Whether the type is the one word INTEGER.
fn is_integer(column: &[&str]) -> bool {
    let kind = column.get(1).is_some_and(|word| unquoted(word).eq_ignore_ascii_case("INTEGER"));
    kind && column.get(2).is_none_or(|word| is_any(word, COLUMN_CONSTRAINTS))
}

/// Whether the column says PRIMARY KEY itself. `DESC` takes the alias away.
fn has_own_key(column: &[&str]) -> bool {
    let Some(at) = key_position(column) else { return false };
    column.get(at).is_none_or(|word| !word.eq_ignore_ascii_case("DESC"))
}

/// The column of the table's constraint `PRIMARY KEY (column)`, where it is only one.
fn table_key<'s>(constraint: &[&'s str]) -> Option<&'s str> {
    let list = constraint.get(key_position(constraint)?)?.strip_prefix('(')?;
    let mut words = Words { rest: list, inside: false };
    let column = words.next()?;
    let mut more = words.take_while(|word| *word != ")");
    more.all(|word| word != ",").then_some(column)
}

/// Index of the word after PRIMARY KEY.
fn key_position(words: &[&str]) -> Option<usize> {
    let is_key =
        |pair: &[&str]| pair[0].eq_ignore_ascii_case("PRIMARY") && pair[1].eq_ignore_ascii_case("KEY");
    words.windows(2).position(is_key).map(|at| at + 2)
}

fn is_any(word: &str, words: &[&str]) -> bool {
    words.iter().any(|known| word.eq_ignore_ascii_case(known))
}

/// A name without its quotes; a name with a quote inside stays as it is.
fn unquoted(word: &str) -> &str {
    word.trim_matches(['"', '`', '[', ']', '\''])
}

/// The definitions between the outer parentheses, each as its words.
fn definitions(create_table: &str) -> Vec<Vec<&str>> {
    let mut definitions = vec![Vec::new()];
    // The table's name may itself hold a parenthesis, but only quoted: that is one word.
    let mut words = Words { rest: create_table, inside: false };
    let Some(body) = words.find_map(|word| word.strip_prefix('(')) else { return Vec::new() };
    for word in (Words { rest: body, inside: false }).take_while(|word| *word != ")") {
        match definitions.last_mut() {
            Some(definition) if word != "," => definition.push(word),
            _ => definitions.push(Vec::new()),
        }
    }
    definitions.retain(|words| !words.is_empty());
    definitions
}

/// Splits SQL into words: a name, a quoted text, a group in parentheses (one word), or one other character.
/// Blanks and comments are skipped.
struct Words<'s> {
    rest: &'s str,
    /// Whether a parenthesis ends its word at once (it does within a group).
    inside: bool,
}

impl<'s> Iterator for Words<'s> {
    type Item = &'s str;

    fn next(&mut self) -> Option<&'s str> {
        loop {
            self.rest = self.rest.trim_start();
            let comment_len = if self.rest.starts_with("--") {
                self.rest.find('\n').unwrap_or(self.rest.len())
            } else if self.rest.starts_with("/*") {
                self.rest.find("*/").map_or(self.rest.len(), |at| at + 2)
            } else {
                break;
            };
            self.rest = &self.rest[comment_len..];
        }
        let first = self.rest.chars().next()?;
        let len = match first {
            '(' if !self.inside => group_len(self.rest),
            '"' | '\'' | '`' => quoted_len(self.rest, first),
            '[' => self.rest.find(']').map_or(self.rest.len(), |at| at + 1),
            _ if is_word(first) => self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len()),
            _ => first.len_utf8(),
        };
        let (word, rest) = self.rest.split_at(len);
        self.rest = rest;
        Some(word)
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '$' || !c.is_ascii()
}

/// Length of a quoted text; a doubled quote stands for one.
fn quoted_len(text: &str, quote: char) -> usize {
    let mut at = 1;
    while let Some(found) = text[at..].find(quote) {
        at += found + 1;
        if !text[at..].starts_with(quote) {
            return at;
        }
        at += 1;
    }
    text.len()
}

/// Length of a group with its parentheses; to the end of the text where it is not closed.
fn group_len(text: &str) -> usize {
    let mut words = Words { rest: &text[1..], inside: true };
    let mut depth = 1;
    while let Some(word) = words.next() {
        match word {
            "(" => depth += 1,
            ")" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return text.len() - words.rest.len();
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::rowid_column;

    /// The rowid of each case is what SQLite itself takes: `rowid_column_agrees_with_sqlite` in
    /// tests/sqlite_file.rs asks it about the same texts and more.
    #[test]
    fn alias_is_found_by_the_letter_of_sqlite() {
        assert_eq!(
            rowid_column("CREATE TABLE jobs (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT)"),
            Some(0)
        );
        assert_eq!(
            rowid_column("CREATE TABLE t(a TEXT CHECK(a IN (',',')')), b integer primary key)"),
            Some(1)
        );
        assert_eq!(rowid_column("CREATE TABLE inbox(id TEXT PRIMARY KEY, qty INTEGER NOT NULL)"), None);
        assert_eq!(rowid_column("CREATE TABLE t(a INT PRIMARY KEY)"), None);
        assert_eq!(rowid_column("CREATE TABLE t(a INTEGER PRIMARY KEY DESC)"), None);
    }

    #[test]
    fn any_text_is_read_without_panic() {
        for text in
            ["", "(", ")", "CREATE TABLE t(", "(\"", "('", "([", "(/*", "(--", "((", "(,", "(é", "(,)", "()"]
        {
            rowid_column(text);
        }
    }
}
