//! An event as JSON: what the worker sends and the receiver reads (W1, W3), to the letter (M2).

use super::{Event, Invalid, Json, Name, Qty};

/// What an event looks like, for errors.
const SHAPE: &str = r#"an object with exactly the keys "id" and "qty", such as {"id":"cake","qty":3}"#;

impl Event {
    /// The request's body: `{"id":"cake","qty":3}` (W1).
    #[must_use]
    pub fn to_json(&self) -> String {
        // Neither an identifier nor a number needs escaping.
        format!(r#"{{"id":"{}","qty":{}}}"#, self.id, self.qty.get())
    }

    /// Reads an event from JSON text: exactly the keys `id` and `qty`, each once, of the very type and range.
    ///
    /// # Errors
    /// [`Invalid`] that names the field, or `event` where it is no such object at all.
    pub fn from_json(text: &str) -> Result<Self, Invalid> {
        let json =
            Json::parse(text).map_err(|error| Invalid::new("event", format!("no JSON ({error})"), SHAPE))?;
        let Json::Object(fields) = json else {
            return Err(Invalid::new("event", json, SHAPE));
        };
        Self::from_fields(fields)
    }

    /// Reads an event from the fields of an object.
    ///
    /// # Errors
    /// As for [`from_json`](Self::from_json).
    pub fn from_fields(fields: impl IntoIterator<Item = (String, Json)>) -> Result<Self, Invalid> {
        let (mut id, mut qty) = (None, None);
        for (key, value) in fields {
            match key.as_str() {
                "id" => id = Some(name("id", &value)?),
                "qty" => qty = Some(Qty::new(integer("qty", &value, "a whole number from 1 to 1000")?)?),
                _ => return Err(Invalid::new("event", format!("an object with the key {key:?}"), SHAPE)),
            }
        }
        let id = id.ok_or_else(|| Invalid::new("event", "an object without id", SHAPE))?;
        let qty = qty.ok_or_else(|| Invalid::new("event", "an object without qty", SHAPE))?;
        Ok(Self { id, qty })
    }
}

fn name(field: &'static str, value: &Json) -> Result<Name, Invalid> {
    let Json::Text(text) = value else {
        return Err(Invalid::new(field, value, "a string of 1 to 64 ASCII letters, digits, '_' or '-'"));
    };
    Name::new(field, text)
}

/// A whole number that fits 64 bits, and no other spelling of one (M2).
pub(crate) fn integer(field: &'static str, value: &Json, allowed: &'static str) -> Result<i64, Invalid> {
    let Json::Integer(integer) = value else {
        return Err(Invalid::new(field, value, allowed));
    };
    Ok(*integer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w1_an_event_reads_back_as_written() {
        let event = Event { id: Name::new("id", "cake").unwrap(), qty: Qty::new(3).unwrap() };
        assert_eq!(event.to_json(), r#"{"id":"cake","qty":3}"#);
        assert_eq!(Event::from_json(&event.to_json()), Ok(event.clone()));
        assert_eq!(Event::from_json(" { \"qty\" : 3,\n \"id\" : \"c\\u0061ke\" } "), Ok(event));
    }

    #[test]
    fn m2_a_field_is_taken_to_the_letter() {
        let cases = [
            ("", "event"),
            ("[]", "event"),
            ("null", "event"),
            (r#"{"id":"a"}"#, "event"),
            (r#"{"qty":1}"#, "event"),
            (r#"{"id":"a","qty":1,"x":1}"#, "event"),
            (r#"{"id":"a","qty":1,"qty":1}"#, "event"),
            (r#"{"id":"a","Qty":1}"#, "event"),
            (r#"{"id":"a","qty":1} x"#, "event"),
            (r#"{"id":"a","qty":0}"#, "qty"),
            (r#"{"id":"a","qty":1001}"#, "qty"),
            (r#"{"id":"a","qty":true}"#, "qty"),
            (r#"{"id":"a","qty":1.0}"#, "qty"),
            (r#"{"id":"a","qty":1e2}"#, "qty"),
            (r#"{"id":"a","qty":"1"}"#, "qty"),
            (r#"{"id":"a","qty":null}"#, "qty"),
            (r#"{"id":"a","qty":9223372036854775808}"#, "qty"),
            (r#"{"id":"","qty":1}"#, "id"),
            (r#"{"id":"a\n","qty":1}"#, "id"),
            (r#"{"id":"é","qty":1}"#, "id"),
            (r#"{"id":1,"qty":1}"#, "id"),
            (r#"{"id":null,"qty":1}"#, "id"),
        ];
        for (text, field) in cases {
            assert_eq!(Event::from_json(text).unwrap_err().field, field, "{text}");
        }
    }
}
