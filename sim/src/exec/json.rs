//! JSON of the line protocol: as [`Json`] reads it, and `{"$float":"nan"|"inf"|"-inf"}` stands for that float.

pub(super) use ackward::rules::Json;

/// Reads one value from the whole of `text`.
pub(super) fn parse(text: &str) -> Result<Json, serde_json::Error> {
    Json::parse(text).map(with_floats)
}

fn with_floats(json: Json) -> Json {
    match json {
        Json::List(items) => Json::List(items.into_iter().map(with_floats).collect()),
        Json::Object(fields) => float(&fields).unwrap_or_else(|| {
            Json::Object(fields.into_iter().map(|(key, value)| (key, with_floats(value))).collect())
        }),
        other => other,
    }
}

fn float(fields: &[(String, Json)]) -> Option<Json> {
    let [(key, Json::Text(value))] = fields else {
        return None;
    };
    let value = match (key.as_str(), value.as_str()) {
        ("$float", "nan") => f64::NAN,
        ("$float", "inf") => f64::INFINITY,
        ("$float", "-inf") => f64::NEG_INFINITY,
        _ => return None,
    };
    Some(Json::Float(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_have_a_spelling_at_any_depth() {
        let parsed = parse(r#"{"a":[{"$float":"-inf"}],"b":{"$float":"one"}}"#).unwrap();
        let odd = Json::Object(vec![("$float".into(), Json::Text("one".into()))]);
        let list = Json::List(vec![Json::Float(f64::NEG_INFINITY)]);
        assert_eq!(parsed, Json::Object(vec![("a".into(), list), ("b".into(), odd)]));
    }
}
