//! Signed requests by the Standard Webhooks scheme: HMAC-SHA256 over `id.timestamp.body`, with several secrets
//! at once so that they can be rotated.

use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::rules::{Invalid, Millis};

/// The header with the message's id.
pub const WEBHOOK_ID: &str = "webhook-id";
/// The header with the time of sending, in seconds since the Unix epoch.
pub const WEBHOOK_TIMESTAMP: &str = "webhook-timestamp";
/// The header with the signatures, separated by spaces: `v1,<base64>`.
pub const WEBHOOK_SIGNATURE: &str = "webhook-signature";

/// How far a timestamp may lie from the receiver's clock, before or after, where nothing else is said.
pub const TOLERANCE_DEFAULT: Duration = Duration::from_secs(300);

/// Signatures in one request that are looked at; others are ignored.
const SIGNATURES_MAX: usize = 16;
/// What a secret is written with.
const PREFIX: &str = "whsec_";
/// Bytes that a secret may have, by the scheme.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

type HmacSha256 = Hmac<Sha256>;

/// A shared secret of 24 to 64 bytes. It is never shown.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Reads `whsec_` and base64.
    ///
    /// # Errors
    /// [`Invalid`], which does not repeat the secret.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let refuse = |what| Invalid::new("secret", what, "whsec_ and 24 to 64 bytes in base64");
        let encoded = text.strip_prefix(PREFIX).ok_or_else(|| refuse("something without whsec_"))?;
        let bytes = STANDARD.decode(encoded).map_err(|_| refuse("no base64"))?;
        if !SECRET_BYTES.contains(&bytes.len()) {
            return Err(refuse("of another length"));
        }
        Ok(Self(bytes))
    }

    fn mac(&self, id: &str, timestamp: &str, body: &[u8]) -> HmacSha256 {
        let mut mac = HmacSha256::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
            mac.update(part);
        }
        mac
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The secrets in use, at least one: the sender signs with each of them, the receiver takes any of them.
#[derive(Debug, Clone)]
pub struct Secrets(Vec<Secret>);

impl Secrets {
    /// Secrets in use at the same time; more are refused.
    pub const MAX: usize = 8;

    /// One or several secrets.
    ///
    /// # Errors
    /// [`Invalid`] for none, and for more than [`Secrets::MAX`].
    pub fn new(secrets: Vec<Secret>) -> Result<Self, Invalid> {
        if (1..=Self::MAX).contains(&secrets.len()) {
            return Ok(Self(secrets));
        }
        Err(Invalid::new("secrets", secrets.len(), "1 to 8 of them"))
    }

    /// The value of `webhook-signature` for a message, and that of `webhook-timestamp`.
    #[must_use]
    pub fn sign(&self, id: &str, now: Millis, body: &[u8]) -> Signed {
        let timestamp = (now.get() / 1_000).to_string();
        let signatures: Vec<String> = self
            .0
            .iter()
            .map(|secret| {
                let code = secret.mac(id, &timestamp, body).finalize().into_bytes();
                format!("v1,{}", STANDARD.encode(code))
            })
            .collect();
        Signed { timestamp, signature: signatures.join(" ") }
    }

    /// Whether one of `signatures` is that of one of the secrets (compared in constant time), and `timestamp`
    /// no further than `tolerance` from `now`.
    ///
    /// # Errors
    /// [`SignatureError`]; the signature is looked at first, so that the timestamp's error says something
    /// only to who knows a secret.
    pub fn verify(
        &self,
        id: &str,
        timestamp: &str,
        signatures: &str,
        body: &[u8],
        now: Millis,
        tolerance: Duration,
    ) -> Result<(), SignatureError> {
        let seconds = parse_seconds(timestamp).ok_or(SignatureError::Malformed)?;
        let codes = signatures.split(' ').filter_map(|signature| signature.strip_prefix("v1,"));
        let codes = codes.take(SIGNATURES_MAX).filter_map(|code| STANDARD.decode(code).ok());
        let mut genuine = false;
        for code in codes {
            for secret in &self.0 {
                genuine |= secret.mac(id, timestamp, body).verify_slice(&code).is_ok();
            }
        }
        if !genuine {
            return Err(SignatureError::Wrong);
        }
        let apart = now.get().abs_diff(seconds * 1_000);
        if u128::from(apart) > tolerance.as_millis() {
            return Err(SignatureError::Time { apart: Duration::from_millis(apart) });
        }
        Ok(())
    }
}

/// A signed message's two values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    /// The value of `webhook-timestamp`.
    pub timestamp: String,
    /// The value of `webhook-signature`.
    pub signature: String,
}

/// Why a signature does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// The timestamp is no number of seconds.
    #[error("webhook-timestamp is not a number of seconds since 1970")]
    Malformed,
    /// No signature fits any of the secrets.
    #[error("no signature in webhook-signature is right")]
    Wrong,
    /// The signature is right, and too old or from the future: one of the two clocks is wrong, or someone
    /// replays a request.
    #[error("webhook-timestamp is {} s away from this clock, which is more than is tolerated", apart.as_secs())]
    Time {
        /// How far.
        apart: Duration,
    },
}

/// Decimal digits only, within the range of Q3.
fn parse_seconds(text: &str) -> Option<i64> {
    let digits = (1..=12).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const NEW: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    const BODY: &[u8] = br#"{"test": 2432232314}"#;
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    /// Computed by Python's `hmac`.
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    fn secrets(texts: &[&str]) -> Secrets {
        Secrets::new(texts.iter().map(|text| Secret::parse(text).unwrap()).collect()).unwrap()
    }

    fn at(seconds: i64) -> Millis {
        Millis::new(seconds * 1_000).unwrap()
    }

    fn verify(secrets: &Secrets, signatures: &str, now: Millis) -> Result<(), SignatureError> {
        secrets.verify(ID, "1614265330", signatures, BODY, now, TOLERANCE_DEFAULT)
    }

    #[test]
    fn a_signature_equals_the_one_of_another_implementation() {
        let signed = secrets(&[OLD]).sign(ID, at(1_614_265_330), BODY);
        assert_eq!(signed, Signed { timestamp: "1614265330".into(), signature: SIGNATURE.into() });
    }

    #[test]
    fn rotation_takes_any_of_the_secrets_on_either_side() {
        let now = at(1_614_265_330);
        let both = secrets(&[NEW, OLD]).sign(ID, now, BODY).signature;
        for receiver in [&[OLD][..], &[NEW], &[OLD, NEW]] {
            assert_eq!(verify(&secrets(receiver), &both, now), Ok(()));
        }
        assert_eq!(verify(&secrets(&[OLD, NEW]), SIGNATURE, now), Ok(()));
        assert_eq!(verify(&secrets(&[NEW]), SIGNATURE, now), Err(SignatureError::Wrong));
    }

    #[test]
    fn every_part_of_the_message_is_signed() {
        let (secrets, now) = (secrets(&[OLD]), at(1_614_265_330));
        let verify =
            |id, timestamp, body| secrets.verify(id, timestamp, SIGNATURE, body, now, TOLERANCE_DEFAULT);
        assert_eq!(verify(ID, "1614265330", BODY), Ok(()));
        assert_eq!(verify("msg_q5jXN8AQM9LWM0D4loKWxJek", "1614265330", BODY), Err(SignatureError::Wrong));
        assert_eq!(verify(ID, "1614265331", BODY), Err(SignatureError::Wrong));
        assert_eq!(verify(ID, "1614265330", br#"{"test": 2432232315}"#), Err(SignatureError::Wrong));
        for bad in ["", "x", "-1", "+1614265330", " 1614265330", "1614265330.0", "99999999999999999999"] {
            assert_eq!(verify(ID, bad, BODY), Err(SignatureError::Malformed), "{bad}");
        }
    }

    #[test]
    fn the_timestamp_may_lie_as_far_off_as_is_tolerated_and_no_further() {
        let secrets = secrets(&[OLD]);
        for (now, right) in [(-300, true), (300, true), (-301, false), (301, false)] {
            let result = verify(&secrets, SIGNATURE, at(1_614_265_330 + now));
            assert_eq!(result.is_ok(), right, "{now}: {result:?}");
        }
    }

    #[test]
    fn signatures_that_are_none_are_passed_over() {
        let (secrets, now) = (secrets(&[OLD]), at(1_614_265_330));
        for bad in ["", "v1", "v1,", "v1,!!", "v2,AAAA", "v1,AAAA", &SIGNATURE[3..]] {
            assert_eq!(verify(&secrets, bad, now), Err(SignatureError::Wrong), "{bad:?}");
        }
        assert_eq!(verify(&secrets, &format!("v1,!! v1a,AAAA {SIGNATURE}"), now), Ok(()));
    }

    #[test]
    fn a_secret_has_24_to_64_bytes_and_is_not_shown() {
        let secret = |bytes: usize| format!("whsec_{}", STANDARD.encode(vec![7; bytes]));
        for (bytes, right) in [(23, false), (24, true), (64, true), (65, false)] {
            assert_eq!(Secret::parse(&secret(bytes)).is_ok(), right, "{bytes}");
        }
        assert!(Secret::parse("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").is_err());
        let error = Secret::parse("whsec_hunter2!").unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
        assert_eq!(format!("{:?}", Secret::parse(OLD).unwrap()), "Secret(..)");
        assert!(Secrets::new(Vec::new()).is_err());
    }
}
