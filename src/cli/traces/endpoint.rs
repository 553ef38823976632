//! Where spans go: the base URL of an OTLP collector.

use ackward::shell::Target;

/// What an endpoint may look like.
const ALLOWED: &str = "allowed: the base URL of a collector that takes OTLP over HTTP, http://HOST[:PORT][/PATH] or \
    https://…, such as http://127.0.0.1:4318, without user, query and fragment; /v1/traces is appended";

/// A collector's base URL, or none where the text was empty: an empty variable counts as unset, by OpenTelemetry's
/// convention.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint(Option<Target>);

impl Endpoint {
    /// Reads one.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self(None));
        }
        if text.contains('?') {
            return Err(ALLOWED.to_owned());
        }
        let url = format!("{}/v1/traces", text.trim_end_matches('/'));
        Target::parse(&url).map(|target| Self(Some(target))).map_err(|_| ALLOWED.to_owned())
    }

    /// Where spans are posted to.
    pub const fn traces(&self) -> Option<&Target> {
        self.0.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OpenTelemetry's convention: the path of the signal is appended to the base, whatever that ends with.
    #[test]
    fn the_traces_path_is_appended() {
        let cases = [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
            ("https://otel.example/of/ours/", "https://otel.example/of/ours/v1/traces"),
        ];
        for (text, url) in cases {
            assert_eq!(Endpoint::parse(text).unwrap().traces().unwrap().to_string(), url);
        }
        assert_eq!(Endpoint::parse("").unwrap().traces(), None);
    }

    #[test]
    fn other_urls_are_refused_with_what_is_allowed() {
        let bad = [
            "127.0.0.1:4318",
            "grpc://127.0.0.1:4317",
            "unix:/run/otel",
            "http://",
            "http://a?b=c",
            "http://a#b",
            "http://user:hunter2@a",
            " ",
        ];
        for text in bad {
            assert_eq!(Endpoint::parse(text), Err(ALLOWED.to_owned()), "{text}");
        }
    }
}
