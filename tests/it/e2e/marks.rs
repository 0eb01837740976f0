//! How far the partitions of a world are: by the ledger, and by the group.

use super::world::World;

/// A partition as the ledger has it, all its streams together.
#[derive(Clone, Copy, Debug)]
struct Mark {
    /// Everything below it is durable.
    next: i64,
    /// Nothing at or past it was sent.
    reserved: i64,
}

/// By partition; one that the ledger does not know yet is at 0.
fn marks(world: &World, n_partitions: i32) -> Vec<Mark> {
    let mut marks = vec![Mark { next: 0, reserved: 0 }; n_partitions as usize];
    for entry in world.ledger() {
        let partition = entry.get_document("_id").unwrap().get_i32("partition").unwrap();
        for stream in entry.get_array("streams").unwrap() {
            let stream = stream.as_document().unwrap();
            let mark = &mut marks[partition as usize];
            mark.next = mark.next.max(stream.get_i64("next").unwrap());
            mark.reserved = mark.reserved.max(stream.get_i64("reserved").unwrap());
        }
    }
    marks
}

/// Records that are durable, in a topic without gaps.
pub(super) fn n_durable(world: &World, n_partitions: i32) -> i64 {
    marks(world, n_partitions).iter().map(|mark| mark.next).sum()
}

/// Records that were announced to be written.
pub(super) fn n_reserved(world: &World, n_partitions: i32) -> i64 {
    marks(world, n_partitions).iter().map(|mark| mark.reserved).sum()
}

/// Whether some partition has records that are on their way and not known to be durable.
pub(super) fn is_under_way(world: &World, n_partitions: i32) -> bool {
    marks(world, n_partitions).iter().any(|mark| mark.reserved > mark.next)
}

/// Asserts that the group has committed nothing that is not durable.
pub(super) fn check_commits(world: &World, n_partitions: i32) {
    // In this order: both only rise.
    let committed = world.committed(n_partitions);
    let marks = marks(world, n_partitions);
    for (offset, mark) in committed.iter().zip(&marks) {
        assert!(offset.is_none_or(|offset| offset <= mark.next), "{committed:?} committed, {marks:?} durable");
    }
}

/// What the group has committed is all that is durable.
pub(super) fn is_all_committed(world: &World, n_partitions: i32) -> bool {
    let committed = world.committed(n_partitions);
    committed.iter().zip(&marks(world, n_partitions)).all(|(offset, mark)| *offset == Some(mark.next))
}
