//! Paths as a user writes them: `a.b.c`, `a."1.8.0".b`, `a[0]`, `$.x` from the record's root, `@key.a.b`, `@timestamp`.

/// Where a path starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    /// The reading: the element of an exploded array, else the value.
    Reading,
    /// `$`: the value.
    Root,
    /// `@key`: as text, or as JSON where segments follow.
    Key,
    /// `@timestamp`: the record's own.
    Timestamp,
    /// `@header.NAME`
    Header,
    /// `@topic`
    Topic,
    /// `@partition`
    Partition,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    Name(String),
    Index(usize),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path {
    pub(super) base: Base,
    pub(super) segments: Vec<Segment>,
}

/// Paths are walked by recursion, so their length is bounded.
const MAX_SEGMENTS: usize = 32;

impl Path {
    /// An empty path is the reading itself.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| format!("path `{text}`: {what}");
        let (base, rest) = split_base(text).map_err(|what| wrong(&what))?;
        let segments = segments(rest, base == Base::Reading).map_err(|what| wrong(&what))?;
        if segments.len() > MAX_SEGMENTS {
            return Err(wrong(&format!("more than {MAX_SEGMENTS} segments")));
        }
        match base {
            Base::Header if !matches!(segments[..], [Segment::Name(_)]) => {
                Err(wrong("write `@header.NAME`, with the name in double quotes if it holds a dot"))
            }
            Base::Timestamp | Base::Topic | Base::Partition if !segments.is_empty() => {
                Err(wrong("nothing can follow it"))
            }
            _ => Ok(Self { base, segments }),
        }
    }
}

fn split_base(text: &str) -> Result<(Base, &str), String> {
    if let Some(rest) = text.strip_prefix('$') {
        return Ok((Base::Root, rest));
    }
    let Some(word) = text.strip_prefix('@') else { return Ok((Base::Reading, text)) };
    let end = word.find(['.', '[']).unwrap_or(word.len());
    let base = match &word[..end] {
        "key" => Base::Key,
        "timestamp" => Base::Timestamp,
        "header" => Base::Header,
        "topic" => Base::Topic,
        "partition" => Base::Partition,
        other => {
            return Err(format!(
                "there is no `@{other}`, only @key, @timestamp, @header.NAME, @topic and @partition; \
                 a field that starts with @ is written in double quotes"
            ));
        }
    };
    Ok((base, &word[end..]))
}

/// `bare`: the first segment has no dot before it.
fn segments(text: &str, bare: bool) -> Result<Vec<Segment>, String> {
    let mut segments = Vec::new();
    let mut rest = text;
    let mut dotted = !bare;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let (index, after) = after.split_once(']').ok_or("a bracket is not closed")?;
            let index = index.parse().map_err(|_| format!("`[{index}]` is not an index"))?;
            segments.push(Segment::Index(index));
            (rest, dotted) = (after, true);
            continue;
        }
        if dotted {
            rest = rest.strip_prefix('.').ok_or("expected a dot between segments")?;
        }
        let (name, after) = name(rest)?;
        segments.push(Segment::Name(name.to_owned()));
        (rest, dotted) = (after, true);
    }
    Ok(segments)
}

fn name(rest: &str) -> Result<(&str, &str), String> {
    let (name, after) = if let Some(quoted) = rest.strip_prefix('"') {
        quoted.split_once('"').ok_or("a double quote is not closed")?
    } else {
        rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len()))
    };
    if name.is_empty() { Err("an empty segment".to_owned()) } else { Ok((name, after)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, base: Base, segments: &[Segment]) {
        assert_eq!(Path::parse(text), Ok(Path { base, segments: segments.to_vec() }), "{text}");
    }

    fn n(name: &str) -> Segment {
        Segment::Name(name.to_owned())
    }

    #[test]
    fn reads_every_form() {
        check("", Base::Reading, &[]);
        check("a", Base::Reading, &[n("a")]);
        check("a.b.c", Base::Reading, &[n("a"), n("b"), n("c")]);
        check(r#"a."1.8.0".b"#, Base::Reading, &[n("a"), n("1.8.0"), n("b")]);
        check(r#""@id""#, Base::Reading, &[n("@id")]);
        check("a[0].b[12]", Base::Reading, &[n("a"), Segment::Index(0), n("b"), Segment::Index(12)]);
        check("[1]", Base::Reading, &[Segment::Index(1)]);
        check("$.a", Base::Root, &[n("a")]);
        check("$", Base::Root, &[]);
        check("$[0]", Base::Root, &[Segment::Index(0)]);
        check("@key", Base::Key, &[]);
        check("@key.a.b", Base::Key, &[n("a"), n("b")]);
        check("@timestamp", Base::Timestamp, &[]);
        check("@header.content-type", Base::Header, &[n("content-type")]);
        check(r#"@header."a.b""#, Base::Header, &[n("a.b")]);
        check("@topic", Base::Topic, &[]);
        check("@partition", Base::Partition, &[]);
    }

    #[test]
    fn says_what_is_wrong() {
        for (text, what) in [
            ("a..b", "empty segment"),
            (".a", "empty segment"),
            ("a.", "empty segment"),
            ("a[x]", "not an index"),
            ("a[0", "not closed"),
            ("a[0]b", "expected a dot"),
            ("\"a", "not closed"),
            ("$a", "expected a dot"),
            ("@keys", "there is no `@keys`"),
            ("@header", "write `@header.NAME`"),
            ("@header.a.b", "write `@header.NAME`"),
            ("@timestamp.x", "nothing can follow"),
        ] {
            let got = Path::parse(text);
            assert!(got.as_ref().is_err_and(|e| e.contains(what)), "{text}: {got:?}");
        }
        assert!(Path::parse(&vec!["a"; 33].join(".")).is_err());
    }
}
