//! The server's reply documents to the types that are judged.

use mongodb::bson::{Bson, Document};

use super::outcome::{Reply, WriteError};

/// The reply of an insert or update. What is missing or of another type counts as nothing done.
pub fn of_write(document: &Document) -> Reply {
    let errors = document.get_array("writeErrors").map(Vec::as_slice).unwrap_or_default();
    Reply {
        n: document.get("n").and_then(whole).unwrap_or(0),
        write_errors: errors.iter().filter_map(Bson::as_document).map(write_error).collect(),
        write_concern_error: document.get("writeConcernError").map(write_concern_error),
    }
}

fn write_error(error: &Document) -> WriteError {
    let key_pattern = error.get_document("keyPattern").ok();
    WriteError {
        // A place that no statement has, where the server names none.
        index: error.get("index").and_then(whole).and_then(|i| usize::try_from(i).ok()).unwrap_or(usize::MAX),
        code: error.get("code").and_then(whole).map_or(0, |code| code as i32),
        message: error.get_str("errmsg").unwrap_or_default().to_owned(),
        on_id: key_pattern.is_none_or(|pattern| pattern.keys().eq(["_id"])),
    }
}

fn write_concern_error(error: &Bson) -> String {
    let document = error.as_document();
    let message = document.and_then(|d| d.get_str("errmsg").ok()).unwrap_or("no reason given");
    let code = document.and_then(|d| d.get("code")).and_then(whole).unwrap_or(0);
    format!("write concern: {message} (code {code})")
}

/// A whole number of any numeric type: servers and proxies differ in what they send.
pub fn whole(value: &Bson) -> Option<i64> {
    match *value {
        Bson::Int32(v) => Some(i64::from(v)),
        Bson::Int64(v) => Some(v),
        Bson::Double(v) if v.fract() == 0.0 => Some(v as i64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    #[test]
    fn reads_errors_and_counts() {
        let reply = of_write(&doc! { "n": 2, "ok": 1.0, "writeErrors": [
            { "index": 1, "code": 11_000, "errmsg": "dup", "keyPattern": { "_id": 1 } },
            { "index": 2, "code": 11_000, "errmsg": "dup", "keyPattern": { "deviceid": 1 } },
            { "index": 3, "code": 121 },
        ] });
        assert_eq!((reply.n, reply.write_concern_error), (2, None));
        let errors: Vec<_> = reply.write_errors.iter().map(|e| (e.index, e.code, e.on_id)).collect();
        assert_eq!(errors, [(1, 11_000, true), (2, 11_000, false), (3, 121, true)]);
    }

    #[test]
    fn a_write_concern_error_is_seen_beside_success() {
        let reply =
            of_write(&doc! { "n": 1, "ok": 1.0, "writeConcernError": { "code": 64, "errmsg": "waiting timed out" } });
        assert_eq!(reply.write_concern_error.as_deref(), Some("write concern: waiting timed out (code 64)"));
    }
}
