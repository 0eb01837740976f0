//! The pass over a text: walks it beside a tree of paths, notes the spans of what they name, and encodes the fields.

use super::encode::{self, Encoder};
use super::lexer::{Lexer, Quoted, unescape};
use super::scratch::{Row, Scratch, Span};
use super::tree::{Node, NodeId, Role, Tree};
use super::{Reason, Reject};
use crate::record::EventTime;

/// What one reading may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) n_stats: usize,
    pub(super) max_readings: usize,
    /// Length of the `info` document.
    pub(super) max_info_bytes: usize,
}

/// An `Err` of `Reason::Malformed` condemns the text; any other one, what is being read: the reading, or outside of
/// readings the record.
#[derive(Debug)]
pub(super) struct Scan<'a> {
    lexer: Lexer<'a>,
    out: &'a mut Scratch,
    reading: &'a Tree,
    limits: Limits,
    /// Where the spans of the tree being walked start.
    spans_at: usize,
    /// Where the fields of the reading being read start.
    info_at: usize,
    exploded: bool,
}

/// Notes the spans of a key's paths, first of all spans.
pub(super) fn key(text: &str, tree: &Tree, out: &mut Scratch) -> Result<(), Reject> {
    let limits = Limits { n_stats: 0, max_readings: 0, max_info_bytes: 0 };
    let mut scan =
        Scan { lexer: Lexer::new(text), out, reading: tree, limits, spans_at: 0, info_at: 0, exploded: false };
    scan.whole(|scan| scan.walk(tree, Tree::ROOT))
}

/// Reads a record's value: as one reading, or with the tree around the exploded array as many.
pub(super) fn value(
    text: &str,
    root: Option<&Tree>,
    reading: &Tree,
    limits: Limits,
    out: &mut Scratch,
) -> Result<(), Reject> {
    let spans_at = out.spans.len();
    let mut scan = Scan { lexer: Lexer::new(text), out, reading, limits, spans_at, info_at: 0, exploded: false };
    let Some(root) = root else { return scan.whole(Scan::reading) };
    scan.out.spans.resize(spans_at + root.n_slots(), Span::default());
    scan.whole(|scan| scan.walk(root, Tree::ROOT))?;
    if scan.exploded { Ok(()) } else { Err(Reject::of(Reason::ExplodeNotArray, "the `explode` path leads to nothing")) }
}

impl Scan<'_> {
    /// One value with nothing but blanks around it.
    fn whole(&mut self, read: impl FnOnce(&mut Self) -> Result<(), Reject>) -> Result<(), Reject> {
        if self.lexer.blanks().is_none() {
            return Err(Reject::of(Reason::Empty, "the text is empty or blank"));
        }
        read(self)?;
        match self.lexer.blanks() {
            None => Ok(()),
            Some(_) => Err(self.lexer.malformed("more text after the value")),
        }
    }

    /// Reads a value and leaves one row. A fault that is not of the text stays with this reading.
    fn reading(&mut self) -> Result<(), Reject> {
        let at = self.lexer.at();
        self.info_at = self.out.info.len();
        let outer = std::mem::replace(&mut self.spans_at, self.out.spans.len());
        self.out.spans.resize(self.spans_at + self.reading.n_slots(), Span::default());
        self.out.stats.resize(self.out.stats.len() + self.limits.n_stats, f64::NAN);
        let fault = match self.walk(self.reading, Tree::ROOT) {
            Ok(()) => None,
            Err(fault) if fault.reason == Reason::Malformed => return Err(fault),
            Err(fault) => {
                self.out.info.truncate(self.info_at);
                self.out.names.clear();
                self.lexer.rewind(at);
                self.skip()?;
                Some(fault)
            }
        };
        self.spans_at = outer;
        let info_end = self.out.info.len();
        self.out.rows.push(Row { info_end, meta_end: 0, device_end: 0, at: EventTime(0), fault });
        Ok(())
    }

    fn walk(&mut self, tree: &Tree, id: NodeId) -> Result<(), Reject> {
        let node = tree.node(id);
        let start = self.lexer.at();
        let first = self.lexer.peek();
        match node.role {
            Role::Fields => self.fields(tree, node)?,
            Role::Explode => self.explode()?,
            Role::Inner if first == Some(b'{') && node.has_names() => self.object(tree, node)?,
            Role::Inner if first == Some(b'[') && node.has_indexes() => self.array(tree, node)?,
            Role::Inner => self.skip()?,
        }
        let Some(slot) = node.slot.filter(|_| first != Some(b'n')) else { return Ok(()) };
        let span = &mut self.out.spans[self.spans_at + slot];
        if !span.is_empty() {
            return Err(Reject::at(Reason::DuplicateName, start, "a field of a path is there twice"));
        }
        *span = Span { start, end: self.lexer.at() };
        Ok(())
    }

    fn object(&mut self, tree: &Tree, node: &Node) -> Result<(), Reject> {
        let mut first = true;
        while let Some(name) = self.lexer.key(&mut first)? {
            match self.member(node, name) {
                Some(child) => self.walk(tree, child)?,
                None => self.skip()?,
            }
        }
        Ok(())
    }

    fn array(&mut self, tree: &Tree, node: &Node) -> Result<(), Reject> {
        let mut first = true;
        let mut index = 0;
        while self.lexer.element(&mut first)? {
            match node.indexed(index) {
                Some(child) => self.walk(tree, child)?,
                None => self.skip()?,
            }
            index += 1;
        }
        Ok(())
    }

    /// The exploded array.
    fn explode(&mut self) -> Result<(), Reject> {
        let at = self.lexer.at();
        if self.lexer.peek() != Some(b'[') {
            return Err(Reject::at(Reason::ExplodeNotArray, at, "the value at the `explode` path is not an array"));
        }
        if std::mem::replace(&mut self.exploded, true) {
            return Err(Reject::at(Reason::DuplicateName, at, "the `explode` path is there twice"));
        }
        let mut first = true;
        while self.lexer.element(&mut first)? {
            if self.out.rows.len() == self.limits.max_readings {
                return Err(Reject::at(Reason::TooManyReadings, at, "the array has more elements than a record may"));
            }
            self.reading()?;
        }
        Ok(())
    }

    /// The object whose members are the fields: encodes those that are to be stored.
    fn fields(&mut self, tree: &Tree, node: &Node) -> Result<(), Reject> {
        let at = self.lexer.at();
        match self.lexer.peek() {
            Some(b'{') => {}
            // No fields, which is for the reading as a whole to judge.
            Some(b'n') => return self.lexer.literal(),
            _ => return Err(Reject::at(Reason::NotAnObject, at, "the fields are not an object")),
        }
        if self.out.info.len() > self.info_at {
            return Err(Reject::at(Reason::DuplicateName, at, "the `fields_path` is there twice"));
        }
        encode::open(&mut self.out.info);
        let mut first = true;
        while let Some(name) = self.lexer.key(&mut first)? {
            let child = self.member(node, name).map(|id| (id, tree.node(id)));
            let value_at = self.lexer.at();
            let stored = child.map_or(tree.stores_unnamed, |(_, child)| child.stored);
            if stored {
                self.store(name, child.and_then(|(_, child)| child.stat))?;
            }
            match child {
                Some((id, child)) if !stored || child.is_watched() => {
                    self.lexer.rewind(value_at);
                    self.walk(tree, id)?;
                }
                None if !stored => self.skip()?,
                _ => {}
            }
        }
        self.encoder().end_of_names(0, at)?;
        encode::close(&mut self.out.info, self.info_at);
        Ok(())
    }

    fn store(&mut self, name: Quoted, stat: Option<usize>) -> Result<(), Reject> {
        let mut lexer = self.lexer;
        let number = self.encoder().field(&mut lexer, name)?;
        self.lexer = lexer;
        if let Some(stat) = stat {
            let at = self.out.stats.len() - self.limits.n_stats + stat;
            self.out.stats[at] = number;
        }
        Ok(())
    }

    fn encoder(&mut self) -> Encoder<'_> {
        let limit = self.info_at.saturating_add(self.limits.max_info_bytes);
        Encoder { out: &mut self.out.info, names: &mut self.out.names, limit }
    }

    /// The node of a member, by its name with escapes resolved.
    fn member(&mut self, node: &Node, name: Quoted) -> Option<NodeId> {
        if !name.escaped {
            return node.named(self.lexer.content_bytes(name));
        }
        let word = &mut self.out.word;
        word.clear();
        // A name that is not text is none that a path can hold.
        unescape(self.lexer.content(name), |piece| word.push_str(piece)).ok()?;
        node.named(word.as_bytes())
    }

    fn skip(&mut self) -> Result<(), Reject> {
        self.lexer.skip(&mut self.out.nest)
    }
}
