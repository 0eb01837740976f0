//! TOML text to a layer, with the line of every key.

use figment::value::{Dict, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::layers::Layer;

/// Line and text of a syntax error.
pub(super) type SyntaxError = (usize, String);

/// Reads `text` into the layer; `place` names a line. What can be read of a text with syntax errors is read, so that
/// other mistakes are reported beside them.
pub(super) fn read_into(
    layer: &mut Layer,
    text: &str,
    place: impl Fn(usize) -> String,
) -> Result<(), Vec<SyntaxError>> {
    let line_at = |byte: usize| text[..byte.min(text.len())].matches('\n').count() + 1;
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut walk = Walk { layer, place: &|byte| place(line_at(byte)) };
    walk.table(table.get_ref(), &mut Vec::new());
    if errors.is_empty() {
        return Ok(());
    }
    // The message alone: the error's own display repeats the line, which may hold a password.
    Err(errors.iter().map(|e| (line_at(e.span().map_or(0, |span| span.start)), e.message().to_owned())).collect())
}

struct Walk<'a> {
    layer: &'a mut Layer,
    place: &'a dyn Fn(usize) -> String,
}

impl Walk<'_> {
    fn table(&mut self, table: &DeTable<'_>, path: &mut Vec<String>) {
        for (key, value) in table {
            path.push(key.get_ref().to_string());
            self.entry(value, &(self.place)(key.span().start), path);
            path.pop();
        }
    }

    fn entry(&mut self, value: &Spanned<DeValue<'_>>, place: &str, path: &mut Vec<String>) {
        match value.get_ref() {
            // The one key that is a list of tables: as a single table it is a mistake, and reported as one.
            table @ DeValue::Table(_) if path.as_slice() == ["decoder"] => self.layer.set(path, to_value(table), place),
            // A table is the sum of its keys; an empty one is still looked at for a misspelt name.
            DeValue::Table(table) if !table.is_empty() => self.table(table, path),
            DeValue::Table(_) => self.layer.mention_section(path, place),
            DeValue::Array(items) => {
                self.layer.set(path, to_value(value.get_ref()), place);
                for (i, item) in items.iter().enumerate() {
                    path.push(i.to_string());
                    self.layer.mention_section(path, &(self.place)(item.span().start));
                    self.mention_keys(item, path);
                    path.pop();
                }
            }
            plain => self.layer.set(path, to_value(plain), place),
        }
    }

    /// Notes the places of the keys of tables in an array.
    fn mention_keys(&mut self, item: &Spanned<DeValue<'_>>, path: &mut Vec<String>) {
        let Some(table) = item.get_ref().as_table() else { return };
        for key in table.keys() {
            path.push(key.get_ref().to_string());
            self.layer.mention(path, &(self.place)(key.span().start));
            path.pop();
        }
    }
}

fn to_value(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => text.as_ref().into(),
        // One beyond 64 bits stays text and is refused by whoever wanted a number.
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).map_or_else(|_| number.as_str().into(), Value::from)
        }
        DeValue::Float(number) => number.as_str().parse::<f64>().map_or_else(|_| number.as_str().into(), Value::from),
        DeValue::Boolean(flag) => (*flag).into(),
        DeValue::Datetime(time) => time.to_string().into(),
        DeValue::Array(items) => items.iter().map(|item| to_value(item.get_ref())).collect::<Vec<_>>().into(),
        DeValue::Table(table) => {
            let entries = table.iter().map(|(key, value)| (key.get_ref().to_string(), to_value(value.get_ref())));
            entries.collect::<Dict>().into()
        }
    }
}
