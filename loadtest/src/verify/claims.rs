//! The manifests against the topics: whether what was read is what the producers say they sent.

use std::collections::BTreeSet;

use super::report::Findings;
use super::truth::{PER_RECORD, Truth};
use crate::manifest::Manifest;

/// Compares one topic's manifests with what was read of it.
pub fn check(topic: &str, manifests: &[Manifest], truth: &Truth, findings: &mut Findings) {
    if manifests.is_empty() {
        findings.problem(|| format!("topic {topic} has no manifest: give --manifest-dir, or --no-manifests"));
        return;
    }
    for manifest in manifests.iter().filter(|m| !m.complete) {
        let run = manifest.shape.run;
        findings.problem(|| format!("run {run} of topic {topic} was cut off: its records have no manifest"));
    }
    let origins = (0..).zip(&truth.origins).filter(|(_, o)| o.topic == topic);
    for (number, origin) in origins.clone() {
        coverage(number, manifests, truth, findings);
        if !manifests.iter().any(|m| m.partitions > origin.partition) {
            findings.problem(|| format!("topic {topic} has more partitions than any manifest knows"));
        }
    }
    let ours: BTreeSet<u32> = origins.map(|(number, _)| number).collect();
    dead(topic, &ours, manifests, truth, findings);
    let claimed: u64 = manifests.iter().map(|m| m.readings).sum();
    let read = truth.readings.iter().filter(|r| ours.contains(&r.origin)).count() as u64;
    if claimed != read {
        findings.problem(|| format!("topic {topic} holds {read} good readings, its manifests say {claimed}"));
    }
}

/// The ranges of all runs must lie side by side and fill what is there.
fn coverage(number: u32, manifests: &[Manifest], truth: &Truth, findings: &mut Findings) {
    let origin = &truth.origins[number as usize];
    let name = format!("{}/{}", origin.topic, origin.partition);
    let mut ranges: Vec<_> =
        manifests.iter().flat_map(|m| &m.offsets).filter(|r| r.partition == origin.partition).collect();
    ranges.sort_unstable();
    let mut upto = origin.from;
    for range in ranges {
        let (from, to) = (range.from, range.to);
        if from < upto {
            findings.problem(|| {
                format!("{name}: a run's offsets {from} to {to} begin before {upto}: removed by retention, or two runs mixed")
            });
        } else if from > upto {
            findings.problem(|| format!("{name}: offsets {upto} to {from} are in no manifest"));
        }
        upto = upto.max(to);
    }
    if upto < origin.to {
        findings.problem(|| format!("{name}: offsets {upto} to {} are in no manifest", origin.to));
    } else if upto > origin.to {
        findings.problem(|| format!("{name}: a run's offsets end at {upto}, the topic at {}: recreated?", origin.to));
    }
}

fn dead(topic: &str, ours: &BTreeSet<u32>, manifests: &[Manifest], truth: &Truth, findings: &mut Findings) {
    let claimed: BTreeSet<(i32, i64, &str)> = manifests
        .iter()
        .flat_map(|m| &m.expected_dead)
        .map(|d| (d.partition, d.offset * PER_RECORD + i64::from(d.index), d.reason.name()))
        .collect();
    let of_topic = truth.dead.iter().filter(|d| ours.contains(&d.origin));
    let read: BTreeSet<(i32, i64, &str)> =
        of_topic.map(|d| (truth.origins[d.origin as usize].partition, d.pos, d.reason)).collect();
    for &(partition, pos, reason) in claimed.symmetric_difference(&read) {
        let (offset, index) = (pos / PER_RECORD, pos % PER_RECORD);
        let who = if read.contains(&(partition, pos, reason)) { "only the record" } else { "only the manifest" };
        findings.problem(|| format!("{topic}/{partition} offset {offset} index {index}: {who} says {reason}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{ExpectedDead, OffsetRange};
    use crate::reading::{Poison, Shape};
    use crate::verify::Windows;
    use crate::verify::truth::Origin;

    const GOOD: &[u8] = br#"{"deviceid":"a","ts":1700000000000,"x":1}"#;

    /// Two records, the second broken, against what `change` makes of a manifest that says just that.
    fn check(change: impl FnOnce(&mut Vec<Manifest>)) -> Vec<String> {
        let mut truth = Truth::new(Windows { length_ms: 86_400_000, offset_ms: 0 }, Vec::new());
        truth.origins.push(Origin { topic: "t".into(), partition: 0, from: 0, to: 2 });
        truth.record(0, 0, 1_700_000_000_000, Some(GOOD));
        truth.record(0, 1, 1_700_000_000_000, Some(b"{"));
        let mut manifests = vec![Manifest {
            version: 1,
            topic: "t".into(),
            partitions: 1,
            shape: Shape::default(),
            complete: true,
            records: 2,
            readings: 1,
            offsets: vec![OffsetRange { partition: 0, from: 0, to: 2 }],
            expected_dead: vec![ExpectedDead { partition: 0, offset: 1, index: 0, reason: Poison::Malformed }],
        }];
        change(&mut manifests);
        let mut findings = Findings::default();
        super::check("t", &manifests, &truth, &mut findings);
        findings.problems
    }

    #[test]
    fn a_true_manifest_is_believed() {
        assert_eq!(check(|_| ()), Vec::<String>::new());
    }

    #[test]
    fn each_false_claim_is_found() {
        type Change = fn(&mut Vec<Manifest>);
        let cases: [(Change, &str); 9] = [
            (|m| m.clear(), "has no manifest"),
            (|m| m[0].complete = false, "was cut off"),
            (|m| m[0].offsets[0].to = 1, "offsets 1 to 2 are in no manifest"),
            (|m| m[0].offsets[0].from = 1, "offsets 0 to 1 are in no manifest"),
            (|m| m[0].offsets[0].to = 3, "recreated?"),
            (|m| m[0].offsets.push(OffsetRange { partition: 0, from: 1, to: 2 }), "two runs mixed"),
            (|m| m[0].readings = 2, "say 2"),
            (|m| m[0].expected_dead.clear(), "only the record says malformed"),
            (|m| m[0].expected_dead[0].reason = Poison::MissingTime, "only the manifest says missing_time"),
        ];
        for (change, text) in cases {
            let problems = check(change);
            assert!(problems.iter().any(|p| p.contains(text)), "{text}: {problems:?}");
        }
    }
}
