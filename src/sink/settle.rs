//! Sends statements until each of them has a fate, however long the store is away.

use super::call::Caller;
use super::counts::add;
use super::outcome::{Again, Answer, Counting, Verdict};
use super::reply;
use crate::code::{Code, Failure};

/// What is known of a statement in the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Applied,
    /// There is a document of this `_id` already.
    Present,
    /// It may have been without effect.
    Doubtful,
    Refused {
        code: i32,
        message: String,
    },
    Broken(Failure),
}

/// Sends `statements` (places in some list that `body` knows) as one command, and what has no answer again and again.
pub(super) async fn settle(
    caller: &Caller,
    counting: Counting,
    statements: &[usize],
    body: impl Fn(&[usize]) -> Vec<u8>,
) -> Vec<(usize, Fate)> {
    let (mut groups, mut settled) = (vec![statements.to_vec()], Vec::with_capacity(statements.len()));
    let mut backoff = caller.backoff();
    add(&caller.counts().commands, 1);
    while let Some(group) = groups.pop() {
        let bytes = body(&group);
        add(&caller.counts().command_bytes, bytes.len());
        let answer = match caller.call(bytes).await {
            Ok(document) => reply::of_write(&document).judge(counting, group.len()),
            Err(error) => error.judge(group.len()),
        };
        match answer {
            Answer::Resend(again, reason) => {
                caller.pause(&mut backoff, again, &reason).await;
                groups.push(group);
            }
            Answer::Halve { code, message } => {
                add(&caller.counts().commands, 2);
                let statements = group.len();
                tracing::warn!(
                    code = %Code::CommandHalved,
                    error = code,
                    message,
                    statements,
                    "command refused as a whole, halving it"
                );
                let (front, back) = group.split_at(group.len() / 2);
                groups.extend([front.to_vec(), back.to_vec()]);
            }
            Answer::Broken(reason) => settled.extend(group.iter().map(|i| (*i, Fate::Broken(reason.clone())))),
            Answer::Statements(verdicts) => {
                let (again, reason) = sort(&group, verdicts, &mut settled);
                if !again.is_empty() {
                    caller.pause(&mut backoff, Again::Server, &reason).await;
                    groups.push(again);
                }
            }
        }
    }
    settled
}

/// Keeps the fates; returns what is to be sent again, and why.
fn sort(group: &[usize], verdicts: Vec<Verdict>, settled: &mut Vec<(usize, Fate)>) -> (Vec<usize>, String) {
    let (mut again, mut why) = (Vec::new(), String::new());
    for (i, verdict) in group.iter().zip(verdicts) {
        let fate = match verdict {
            Verdict::Applied => Fate::Applied,
            Verdict::Present => Fate::Present,
            Verdict::Doubtful => Fate::Doubtful,
            Verdict::Refused { code, message } => Fate::Refused { code, message },
            Verdict::Resend(reason) => {
                again.push(*i);
                why = reason;
                continue;
            }
        };
        settled.push((*i, fate));
    }
    (again, why)
}
