//! Samples as JSON lines or CSV. The names of the first members are these, whatever they are stored under.

use std::collections::BTreeSet;
use std::io::{self, Write};

use mongodb::bson::{Bson, RawBsonRef, RawDocument};

use super::merge::{Sample, Waiting};
use crate::commands::when::time_text;

/// Where a line goes and what it looks like.
#[derive(Debug)]
pub(super) struct Output<W> {
    out: W,
    form: Form,
    line: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Lines,
    /// The fields that become columns, in their order.
    Csv(Vec<String>),
}

const COLUMNS: [&str; 2] = ["deviceid", "time"];

impl<W: Write> Output<W> {
    /// Writes the header, where the form has one.
    pub(super) fn new(out: W, form: Form) -> io::Result<Self> {
        let mut output = Self { out, form, line: Vec::new() };
        if let Form::Csv(names) = &output.form {
            for name in COLUMNS {
                cell(&mut output.line, name);
            }
            for name in names {
                // A field that is named as one of the first columns must not be taken for it.
                let prefix = if COLUMNS.contains(&name.as_str()) { "info." } else { "" };
                cell(&mut output.line, &[prefix, name].concat());
            }
            output.end_row()?;
        }
        Ok(output)
    }

    pub(super) fn write(&mut self, sample: &Sample<'_>) -> io::Result<()> {
        match &self.form {
            Form::Lines => {
                self.line.extend_from_slice(b"{\"deviceid\":");
                json_text(&mut self.line, sample.device);
                self.line.extend_from_slice(b",\"time\":");
                json_text(&mut self.line, &time_text(sample.time));
                self.line.extend_from_slice(b",\"info\":");
                json_document(&mut self.line, sample.info);
                if let Some(meta) = sample.meta {
                    self.line.extend_from_slice(b",\"meta\":");
                    json_document(&mut self.line, meta);
                }
                self.line.extend_from_slice(b"}\n");
                self.out.write_all(&self.line)?;
                self.line.clear();
                Ok(())
            }
            Form::Csv(names) => {
                cell(&mut self.line, sample.device);
                cell(&mut self.line, &time_text(sample.time));
                for name in names {
                    value_cell(&mut self.line, sample.info.get(name).ok().flatten());
                }
                self.end_row()
            }
        }
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Each cell has put a comma behind itself.
    fn end_row(&mut self) -> io::Result<()> {
        self.line.pop();
        self.line.push(b'\n');
        self.out.write_all(&self.line)?;
        self.line.clear();
        Ok(())
    }
}

/// Names of all fields that these samples have, sorted.
pub(super) fn names(samples: &[Waiting]) -> Vec<String> {
    let fields = samples.iter().flat_map(|sample| sample.sample().info.iter().filter_map(Result::ok));
    fields.map(|(name, _)| name.as_str().to_owned()).collect::<BTreeSet<_>>().into_iter().collect()
}

fn cell(row: &mut Vec<u8>, text: &str) {
    // An empty text is quoted: an empty cell is a field that is not there.
    if text.is_empty() || text.contains([',', '"', '\n', '\r']) || text.starts_with(' ') || text.ends_with(' ') {
        row.push(b'"');
        row.extend_from_slice(text.replace('"', "\"\"").as_bytes());
        row.push(b'"');
    } else {
        row.extend_from_slice(text.as_bytes());
    }
    row.push(b',');
}

fn value_cell(row: &mut Vec<u8>, value: Option<RawBsonRef<'_>>) {
    match value {
        None | Some(RawBsonRef::Null) => row.push(b','),
        Some(RawBsonRef::String(text)) => cell(row, text),
        Some(value) => {
            let mut json = Vec::new();
            json_value(&mut json, value);
            cell(row, &String::from_utf8_lossy(&json));
        }
    }
}

fn json_document(line: &mut Vec<u8>, document: &RawDocument) {
    line.push(b'{');
    for (i, (name, value)) in document.iter().filter_map(Result::ok).enumerate() {
        if i > 0 {
            line.push(b',');
        }
        json_text(line, name.as_str());
        line.push(b':');
        json_value(line, value);
    }
    line.push(b'}');
}

fn json_value(line: &mut Vec<u8>, value: RawBsonRef<'_>) {
    match value {
        RawBsonRef::Document(document) => json_document(line, document),
        RawBsonRef::Array(array) => {
            line.push(b'[');
            for (i, value) in array.into_iter().filter_map(Result::ok).enumerate() {
                if i > 0 {
                    line.push(b',');
                }
                json_value(line, value);
            }
            line.push(b']');
        }
        RawBsonRef::String(text) => json_text(line, text),
        RawBsonRef::Boolean(value) => to_json(line, &value),
        RawBsonRef::Null => line.extend_from_slice(b"null"),
        RawBsonRef::Int32(value) => to_json(line, &value),
        RawBsonRef::Int64(value) => to_json(line, &value),
        RawBsonRef::Double(value) if value.is_finite() => to_json(line, &value),
        // JSON has nothing of its own for the rest, and sakia stores none of it.
        other => to_json(line, &Bson::try_from(other).unwrap_or(Bson::Null)),
    }
}

fn json_text(line: &mut Vec<u8>, text: &str) {
    to_json(line, text);
}

fn to_json<T: serde::Serialize + ?Sized>(line: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(line, value).expect("invariant: a plain value written to memory");
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{Document, RawDocumentBuf, doc};

    use super::*;

    fn written(form: Form, device: &str, info: &Document) -> String {
        let info = RawDocumentBuf::try_from(info).unwrap();
        let mut output = Output::new(Vec::new(), form).unwrap();
        let sample = Sample { device, time: 1_794_744_000_000, info: &info, meta: None };
        output.write(&sample).unwrap();
        String::from_utf8(output.out).unwrap()
    }

    #[test]
    fn lines_keep_types_and_order() {
        let info = doc! { "z": 21.0, "a": 9_007_199_254_740_993_i64, "t": "ä\"\n", "n": null, "l": [1, { "b": true }], "e": {} };
        assert_eq!(
            written(Form::Lines, "d-\"1\"", &info),
            "{\"deviceid\":\"d-\\\"1\\\"\",\"time\":\"2026-11-15T12:00:00.000Z\",\"info\":{\"z\":21.0,\
             \"a\":9007199254740993,\"t\":\"ä\\\"\\n\",\"n\":null,\"l\":[1,{\"b\":true}],\"e\":{}}}\n"
        );
    }

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        let names = ["b", "a", "missing", "null", "text", "empty", "nested", "time"].map(str::to_owned).to_vec();
        let info = doc! {
            "a": 1, "b": -0.5, "null": null, "text": "x, \"y\"\nz", "empty": "", "nested": { "k": [1, "é"] }, "time": 7,
        };
        let expected = "deviceid,time,b,a,missing,null,text,empty,nested,info.time\n\
                        \"d,1\",2026-11-15T12:00:00.000Z,-0.5,1,,,\"x, \"\"y\"\"\nz\",\"\",\
                        \"{\"\"k\"\":[1,\"\"é\"\"]}\",7\n";
        assert_eq!(written(Form::Csv(names), "d,1", &info), expected);
    }
}
