//! What shards tell the poll thread: latest values, not a queue, so it cannot fill and a shard never waits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::code::Failure;
use crate::record::Assignment;

/// Written by shards, taken by the poll thread, which alone commits.
#[derive(Debug, Default)]
pub struct Board {
    posts: Mutex<Posts>,
    posted: Condvar,
}

/// Everything posted since the last look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Posts {
    /// Every record of the assignment below this offset is durable, in the ledger too.
    pub commits: BTreeMap<Assignment, i64>,
    /// The shard holds nothing of these assignments any more and will post nothing more for them.
    pub released: BTreeSet<Assignment>,
    /// Assignments that cannot go on until somebody mends something, with the reason.
    pub stopped: BTreeMap<Assignment, Failure>,
    /// Assignments to be handed over anew at once: records were left out on purpose.
    pub restarts: BTreeSet<Assignment>,
}

impl Posts {
    pub fn is_empty(&self) -> bool {
        self.commits.is_empty() && self.released.is_empty() && self.stopped.is_empty() && self.restarts.is_empty()
    }
}

impl Board {
    pub fn new() -> Self {
        Self::default()
    }

    /// Posts that all of `assignment` below `offset` is durable. A lower offset than an earlier one changes nothing.
    pub fn commit(&self, assignment: Assignment, offset: i64) {
        let mut posts = self.lock();
        let latest = posts.commits.entry(assignment).or_insert(offset);
        *latest = offset.max(*latest);
        // No wake-up: a commit alone is not worth a turn of the poll thread; it looks at least once a second.
    }

    /// Posts that nothing of `assignment` is held any more; to be called after its last `commit`.
    pub fn released(&self, assignment: Assignment) {
        self.lock().released.insert(assignment);
        self.posted.notify_one();
    }

    /// Posts that `assignment` cannot go on.
    pub fn stopped(&self, assignment: Assignment, reason: Failure) {
        self.lock().stopped.insert(assignment, reason);
        self.posted.notify_one();
    }

    /// Posts that `assignment` is to be handed over anew.
    pub fn restart(&self, assignment: Assignment) {
        self.lock().restarts.insert(assignment);
    }

    /// Takes what is posted.
    pub fn take(&self) -> Posts {
        std::mem::take(&mut *self.lock())
    }

    /// Waits until something was released or stopped, at most `timeout`, then takes what is posted.
    pub fn wait(&self, timeout: Duration) -> Posts {
        let waiting = |posts: &mut Posts| posts.released.is_empty() && posts.stopped.is_empty();
        let (mut posts, _) =
            self.posted.wait_timeout_while(self.lock(), timeout, waiting).unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *posts)
    }

    /// A shard that panicked while it posted leaves whole values behind: every post is one insertion.
    fn lock(&self) -> MutexGuard<'_, Posts> {
        self.posts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_commit_is_the_highest_posted_since_the_last_take(
            steps in proptest::collection::vec(proptest::option::of((0_u32..3, 0_i64..9)), 0..40)
        ) {
            let board = Board::new();
            let mut model = BTreeMap::new();
            for step in steps {
                if let Some((a, offset)) = step {
                    board.commit(Assignment(a), offset);
                    let latest: &mut i64 = model.entry(Assignment(a)).or_insert(offset);
                    *latest = offset.max(*latest);
                } else {
                    prop_assert_eq!(board.take().commits, std::mem::take(&mut model));
                }
            }
        }
    }

    #[test]
    fn a_wait_ends_with_a_release_and_brings_the_commit_before_it() {
        let board = Arc::new(Board::new());
        let shard = Arc::clone(&board);
        let poster = std::thread::spawn(move || {
            shard.commit(Assignment(1), 7);
            shard.released(Assignment(1));
        });
        let posts = board.wait(Duration::from_secs(10));
        poster.join().unwrap();
        assert_eq!(posts.commits.get(&Assignment(1)), Some(&7));
        assert!(posts.released.contains(&Assignment(1)));
        assert!(board.wait(Duration::ZERO).is_empty());
    }
}
