//! `--otlp-endpoint`: what an OpenTelemetry collector gets of worker and receiver, and what it cannot do to them.

#[cfg(feature = "otel")]
mod collector;
#[cfg(feature = "otel")]
mod exported;

#[cfg(not(feature = "otel"))]
use super::*;

/// A build without the feature has no such option, and does not look at the variable.
#[cfg(not(feature = "otel"))]
#[test]
fn without_the_feature_the_option_is_unknown() {
    let site = Site::new();
    site.enqueue("cake", 1);
    let (code, _, err) = run(site.worker("127.0.0.1:1").args(["--otlp-endpoint", "http://127.0.0.1:4318"]));
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("unexpected argument '--otlp-endpoint'"), "{err}");
    let receiver = Receiver::start(&site, &[]);
    let worker =
        Process::start(site.worker(&receiver.address).env("OTEL_EXPORTER_OTLP_ENDPOINT", "no URL at all"));
    site.wait_settled();
    assert_eq!(worker.stop().0, Some(0));
    assert_eq!(site.jobs(), ["cake done 1 1"]);
}
