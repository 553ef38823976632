//! Verdicts as JUnit XML, which CI systems show: a suite for each net, a case for each scenario.

use std::collections::BTreeMap;
use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::fuzz::Finding;
use super::text::count;

/// Writes the findings.
pub(crate) fn write(output: &mut Vec<u8>, findings: &[Finding], took: Duration) -> anyhow::Result<()> {
    let mut suites: BTreeMap<&str, TestSuite> = BTreeMap::new();
    for finding in findings {
        let net = finding.entry.scenario.net.as_str();
        let suite = suites.entry(net).or_insert_with(|| TestSuite::new(format!("cargo sim, {net}")));
        suite.add_test_case(case(finding));
    }
    let mut report = Report::new("cargo sim");
    report.set_time(took).add_test_suites(suites.into_values());
    Ok(report.serialize(output)?)
}

fn case(finding: &Finding) -> TestCase {
    let Finding { entry, outcome, problem } = finding;
    let status = match problem {
        Some(problem) => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_type(problem.word.clone()).set_message(problem.what.clone());
            status.set_description(problem.in_full(entry));
            status
        }
        None if outcome.tally.seeds == 0 => TestCaseStatus::skipped(),
        None => TestCaseStatus::success(),
    };
    let mut case = TestCase::new(entry.path.clone(), status);
    case.set_classname(entry.scenario.net.as_str());
    case.set_time(Duration::try_from_secs_f64(outcome.seconds).unwrap_or_default());
    case.set_system_out(format!("{}: {}", count(outcome.tally.seeds, "seed"), finding.word()));
    case
}
