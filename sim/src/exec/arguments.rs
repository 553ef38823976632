//! An operation's arguments, taken from JSON to the letter.

use ackward::rules::{Attempt, Event, Invalid, Millis, Name, Qty, Ticket, Token};

use super::failure::Failure;
use super::json::{self, Json};

/// The fields of an object: an operation's, a ticket's, an event's.
#[derive(Debug)]
pub(super) struct Arguments(Vec<(String, Json)>);

const MISSING: &str = "missing";

impl Arguments {
    /// Reads a line: the operation's name and everything else.
    pub(super) fn parse(line: &[u8]) -> Result<(String, Self), Failure> {
        let malformed = |cause: &dyn std::fmt::Display| Failure::Malformed(cause.to_string());
        let text = std::str::from_utf8(line).map_err(|error| malformed(&error))?;
        let Json::Object(mut fields) = json::parse(text).map_err(|error| malformed(&error))? else {
            return Err(malformed(&"not an object"));
        };
        let Some(at) = fields.iter().position(|(key, _)| key == "op") else {
            return Err(malformed(&"no op"));
        };
        let (_, Json::Text(op)) = fields.remove(at) else {
            return Err(malformed(&"op is no string"));
        };
        Ok((op, Self(fields)))
    }

    /// Refuses every key but these.
    pub(super) fn only(&self, allowed: &[&str]) -> Result<(), Invalid> {
        let stranger = self.0.iter().find(|(key, _)| !allowed.contains(&key.as_str()));
        stranger.map_or(Ok(()), |(key, _)| Err(Invalid::new("key", format!("{key:?}"), allowed.join(" "))))
    }

    /// The value of a key.
    pub(super) fn get(&self, key: &str) -> Option<&Json> {
        self.0.iter().find(|(found, _)| found == key).map(|(_, value)| value)
    }

    pub(super) fn integer(&self, key: &'static str) -> Result<i64, Invalid> {
        match self.get(key) {
            Some(value) => integer(key, value),
            None => Err(Invalid::new(key, MISSING, "an integer")),
        }
    }

    pub(super) fn integer_or(&self, key: &'static str, default: i64) -> Result<i64, Invalid> {
        self.get(key).map_or(Ok(default), |value| integer(key, value))
    }

    pub(super) fn text(&self, key: &'static str) -> Result<&str, Invalid> {
        match self.get(key) {
            Some(Json::Text(text)) => Ok(text),
            Some(other) => Err(Invalid::new(key, other, "a string")),
            None => Err(Invalid::new(key, MISSING, "a string")),
        }
    }

    pub(super) fn name(&self, key: &'static str) -> Result<Name, Invalid> {
        Name::new(key, self.text(key)?)
    }

    pub(super) fn millis(&self, key: &'static str) -> Result<Millis, Invalid> {
        Millis::named(key, self.integer(key)?)
    }

    /// A number, integer or not.
    pub(super) fn number(&self, key: &'static str) -> Result<f64, Invalid> {
        match self.get(key) {
            #[expect(clippy::cast_precision_loss, reason = "0 and 1 are exact, and all else is out of range")]
            Some(Json::Integer(value)) => Ok(*value as f64),
            Some(Json::Float(value)) => Ok(*value),
            Some(other) => Err(Invalid::new(key, other, "a number")),
            None => Err(Invalid::new(key, MISSING, "a number")),
        }
    }

    /// An event (Q20): its own object, or two of the operation's fields.
    pub(super) fn event(&self) -> Result<Event, Invalid> {
        let Some(event) = self.get("event") else {
            return Ok(Event { id: self.name("id")?, qty: Qty::new(self.integer("qty")?)? });
        };
        if self.get("id").is_some() || self.get("qty").is_some() {
            return Err(Invalid::new("event", "given twice", "either event, or id and qty"));
        }
        let event = object("event", event)?;
        event.only(&["id", "qty"])?;
        event.event()
    }

    /// A ticket (Q35).
    pub(super) fn ticket(&self) -> Result<Ticket, Invalid> {
        let Some(ticket) = self.get("ticket") else {
            return Err(Invalid::new("ticket", MISSING, "an object"));
        };
        let ticket = object("ticket", ticket)?;
        ticket.only(&["attempt", "id", "lease_until", "owner", "qty", "token"])?;
        let event = Event { id: ticket.name("id")?, qty: Qty::new(ticket.integer("qty")?)? };
        let token = Token::new(ticket.integer("token")?)?;
        let attempt = Attempt::new(ticket.integer("attempt")?)?;
        Ticket::new(event, ticket.name("owner")?, token, attempt, ticket.integer("lease_until")?)
    }
}

/// An integer, exactly (Q2).
pub(super) fn integer(field: &'static str, value: &Json) -> Result<i64, Invalid> {
    match value {
        Json::Integer(value) => Ok(*value),
        other => Err(Invalid::new(field, other, "an integer of 64 bits")),
    }
}

fn object(field: &'static str, value: &Json) -> Result<Arguments, Invalid> {
    match value {
        Json::Object(fields) => Ok(Arguments(fields.clone())),
        other => Err(Invalid::new(field, other, "an object")),
    }
}
