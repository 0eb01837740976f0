//! All paths into one text as a tree, walked beside the text while it is read.

use super::path::Segment;

/// Index of a node in its tree.
pub(super) type NodeId = usize;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Role {
    #[default]
    Inner,
    /// The object whose members are the fields.
    Fields,
    /// The array whose elements are the readings.
    Explode,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    pub(super) role: Role,
    /// Number of the span that this value's place is noted in.
    pub(super) slot: Option<usize>,
    /// Of a member of the fields object: whether it is stored, and which of the statistics it feeds.
    pub(super) stored: bool,
    pub(super) stat: Option<usize>,
    names: Vec<(Box<[u8]>, NodeId)>,
    indexes: Vec<(usize, NodeId)>,
}

impl Node {
    /// Whether the value has to be looked into, or noted, beyond being stored.
    pub(super) fn is_watched(&self) -> bool {
        self.slot.is_some() || self.has_names() || self.has_indexes()
    }

    pub(super) fn has_names(&self) -> bool {
        !self.names.is_empty()
    }

    pub(super) fn has_indexes(&self) -> bool {
        !self.indexes.is_empty()
    }

    pub(super) fn named(&self, name: &[u8]) -> Option<NodeId> {
        // Few: in order is faster than a hash. Many (long include lists) are sorted by `finish`.
        if self.names.len() <= 8 {
            return self.names.iter().find(|(known, _)| &**known == name).map(|&(_, id)| id);
        }
        let found = self.names.binary_search_by(|(known, _)| (**known).cmp(name));
        found.ok().map(|i| self.names[i].1)
    }

    pub(super) fn indexed(&self, index: usize) -> Option<NodeId> {
        self.indexes.iter().find(|(known, _)| *known == index).map(|&(_, id)| id)
    }
}

#[derive(Clone, Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    n_slots: usize,
    /// Whether fields that no node names are stored.
    pub(super) stores_unnamed: bool,
}

impl Tree {
    pub(super) const ROOT: NodeId = 0;

    pub(super) fn new() -> Self {
        Self { nodes: vec![Node::default()], n_slots: 0, stores_unnamed: true }
    }

    pub(super) fn n_slots(&self) -> usize {
        self.n_slots
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id]
    }

    pub(super) fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id]
    }

    /// The node at the end of a path, made if need be.
    pub(super) fn reach(&mut self, from: NodeId, path: &[Segment]) -> NodeId {
        path.iter().fold(from, |id, segment| self.child(id, segment))
    }

    /// The span number of the value at the end of a path.
    pub(super) fn slot(&mut self, path: &[Segment]) -> usize {
        let id = self.reach(Self::ROOT, path);
        let fresh = self.n_slots;
        let slot = *self.nodes[id].slot.get_or_insert(fresh);
        self.n_slots = self.n_slots.max(slot + 1);
        slot
    }

    fn child(&mut self, id: NodeId, segment: &Segment) -> NodeId {
        let fresh = self.nodes.len();
        let node = &mut self.nodes[id];
        let known = match segment {
            Segment::Name(name) => node.names.iter().find(|(n, _)| **n == *name.as_bytes()).map(|&(_, id)| id),
            Segment::Index(index) => node.indexed(*index),
        };
        if let Some(known) = known {
            return known;
        }
        match segment {
            Segment::Name(name) => node.names.push((name.as_bytes().into(), fresh)),
            Segment::Index(index) => node.indexes.push((*index, fresh)),
        }
        self.nodes.push(Node::default());
        fresh
    }

    /// Decides for each member of the fields object that has a node whether it is stored.
    pub(super) fn mark_stored(&mut self, fields: NodeId, include: &[String], exclude: &[String]) {
        self.stores_unnamed = include.is_empty();
        for name in include.iter().chain(exclude) {
            self.child(fields, &Segment::Name(name.clone()));
        }
        for (name, id) in self.nodes[fields].names.clone() {
            let listed = |list: &[String]| list.iter().any(|l| l.as_bytes() == &*name);
            let node = &mut self.nodes[id];
            let taken = node.slot.is_some();
            node.stored = !listed(exclude) && if include.is_empty() { !taken } else { listed(include) };
        }
    }

    /// Puts long lists of names in order, for `Node::named`.
    pub(super) fn finish(&mut self) {
        for node in &mut self.nodes {
            if node.names.len() > 8 {
                node.names.sort_unstable();
            }
        }
    }
}
