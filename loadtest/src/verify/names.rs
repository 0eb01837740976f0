//! Stored names, which an operator may have changed.

/// The names of a bucket's fields, by what they are by default.
#[derive(Clone, Debug)]
pub struct FieldNames {
    pub deviceid: String,
    pub date: String,
    pub first: String,
    pub last: String,
    pub count: String,
    pub open: String,
    pub meta: String,
    pub samples: String,
    pub time: String,
    pub info: String,
    pub stats: String,
    pub schema: String,
    pub src: String,
    pub pos: String,
}

impl Default for FieldNames {
    fn default() -> Self {
        let name = str::to_owned;
        Self {
            deviceid: name("deviceid"),
            date: name("date"),
            first: name("first"),
            last: name("last"),
            count: name("count"),
            open: name("open"),
            meta: name("meta"),
            samples: name("samples"),
            time: name("time"),
            info: name("info"),
            stats: name("stats"),
            schema: name("schema"),
            src: name("src"),
            pos: name("pos"),
        }
    }
}

impl FieldNames {
    /// Applies `default=stored` pairs.
    pub fn renamed(pairs: &[(String, String)]) -> Result<Self, String> {
        let mut names = Self::default();
        for (default, stored) in pairs {
            let slot = names.slot(default);
            slot.ok_or_else(|| format!("--name {default}={stored}: a bucket has no field {default}"))?
                .clone_from(stored);
        }
        Ok(names)
    }

    fn slot(&mut self, default: &str) -> Option<&mut String> {
        Some(match default {
            "deviceid" => &mut self.deviceid,
            "date" => &mut self.date,
            "first" => &mut self.first,
            "last" => &mut self.last,
            "count" => &mut self.count,
            "open" => &mut self.open,
            "meta" => &mut self.meta,
            "samples" => &mut self.samples,
            "time" => &mut self.time,
            "info" => &mut self.info,
            "stats" => &mut self.stats,
            "schema" => &mut self.schema,
            "src" => &mut self.src,
            "pos" => &mut self.pos,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_changed_one_by_one() {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let names = FieldNames::renamed(&[pair("time", "t"), pair("samples", "values")]).unwrap();
        assert_eq!((names.time.as_str(), names.samples.as_str(), names.info.as_str()), ("t", "values", "info"));
        assert!(FieldNames::renamed(&[pair("times", "t")]).unwrap_err().contains("no field times"));
    }
}
