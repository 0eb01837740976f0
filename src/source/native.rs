//! The calls of librdkafka that its safe wrapper lacks. The only place of this crate with `unsafe` code.
#![allow(unsafe_code, reason = "calls into a C library, each with the reason why it is sound")]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString};
use std::ptr;
use std::time::Duration;

use rdkafka::message::BorrowedMessage;
use rdkafka_sys as sys;

use crate::record::Headers;

/// A native object and the call that frees it.
struct Owned<T>(*mut T, unsafe extern "C" fn(*mut T));

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from the matching constructor, is not null, and is freed here only.
        unsafe { (self.1)(self.0) }
    }
}

/// The id that the broker gave a topic when it was created, or `None` from brokers that give none (before 2.8).
///
/// A topic that was deleted and created again has another one; its offsets start again, and every comparison would take
/// new records for old ones.
pub(super) type TopicId = Result<Option<String>, String>;

/// The id of one topic.
pub(super) fn topic_id(client: *mut sys::rd_kafka_t, topic: &str, timeout: Duration) -> TopicId {
    topic_ids(client, &BTreeSet::from([topic]), timeout)?.remove(topic).unwrap_or(Ok(None))
}

/// The ids of `topics`, in one question. A broker that knows no ids answers for none of them.
pub(super) fn topic_ids(
    client: *mut sys::rd_kafka_t,
    topics: &BTreeSet<&str>,
    timeout: Duration,
) -> Result<BTreeMap<String, TopicId>, String> {
    let names: Result<Vec<_>, _> = topics.iter().map(|topic| CString::new(*topic)).collect();
    let names = names.map_err(|e| e.to_string())?;
    // SAFETY: `client` is alive for the whole call, since the caller borrows its consumer. Every object made here is
    // freed by its `Owned`, in reverse order: the event before the queue, the queue before the client goes on.
    unsafe {
        let queue = Owned(sys::rd_kafka_queue_new(client), sys::rd_kafka_queue_destroy);
        let operation = sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS;
        let options = Owned(sys::rd_kafka_AdminOptions_new(client, operation), sys::rd_kafka_AdminOptions_destroy);
        let timeout_ms = timeout.as_millis() as i32;
        sys::rd_kafka_AdminOptions_set_request_timeout(options.0, timeout_ms, ptr::null_mut(), 0);
        let mut names: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
        let collection = Owned(
            sys::rd_kafka_TopicCollection_of_topic_names(names.as_mut_ptr(), names.len()),
            sys::rd_kafka_TopicCollection_destroy,
        );
        sys::rd_kafka_DescribeTopics(client, collection.0, options.0, queue.0);
        let event = sys::rd_kafka_queue_poll(queue.0, timeout_ms + 1_000);
        if event.is_null() {
            return Err(format!("describe topics: no answer within {timeout_ms} ms"));
        }
        let event = Owned(event, sys::rd_kafka_event_destroy);
        let code = sys::rd_kafka_event_error(event.0);
        if code != sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
            return unless_unsupported(code).map(|_| BTreeMap::new()).map_err(|why| format!("describe topics: {why}"));
        }
        Ok(described(event.0))
    }
}

/// # Safety
/// `event` is a live event.
unsafe fn described(event: *mut sys::rd_kafka_event_t) -> BTreeMap<String, TopicId> {
    // SAFETY: `event` is alive, and so is all that hangs on it: the result, its descriptions, their ids and texts.
    unsafe {
        let result = sys::rd_kafka_event_DescribeTopics_result(event);
        let mut n_topics = 0;
        let topics = sys::rd_kafka_DescribeTopics_result_topics(result, &raw mut n_topics);
        let mut ids = BTreeMap::new();
        for i in 0..if topics.is_null() { 0 } else { n_topics } {
            let description = *topics.add(i);
            let name = CStr::from_ptr(sys::rd_kafka_TopicDescription_name(description)).to_string_lossy().into_owned();
            let code = sys::rd_kafka_error_code(sys::rd_kafka_TopicDescription_error(description));
            let id = if code == sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
                Ok(id_text(sys::rd_kafka_TopicDescription_topic_id(description)))
            } else {
                unless_unsupported(code).map_err(|why| format!("describe topic {name}: {why}"))
            };
            ids.insert(name, id);
        }
        ids
    }
}

/// # Safety
/// `id` is null or a live id.
unsafe fn id_text(id: *const sys::rd_kafka_Uuid_t) -> Option<String> {
    // SAFETY: `id` is alive, and lends its text as long as it is.
    unsafe {
        let bits = |id| sys::rd_kafka_Uuid_most_significant_bits(id) | sys::rd_kafka_Uuid_least_significant_bits(id);
        if id.is_null() || bits(id) == 0 {
            return None;
        }
        let text = sys::rd_kafka_Uuid_base64str(id);
        (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
    }
}

/// An old broker is not an error; the ledger has other signs of a recreated topic.
fn unless_unsupported(code: sys::rd_kafka_resp_err_t) -> TopicId {
    use sys::rd_kafka_resp_err_t::{RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE, RD_KAFKA_RESP_ERR_UNSUPPORTED_VERSION};
    match code {
        RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE | RD_KAFKA_RESP_ERR_UNSUPPORTED_VERSION => Ok(None),
        _ => Err(rdkafka::types::RDKafkaErrorCode::from(code).to_string()),
    }
}

/// Appends the headers of `message` to `out` in packed form. The safe wrapper panics on a name that is not UTF-8, and
/// so would let one record stop everything.
pub(super) fn pack_headers(message: &BorrowedMessage<'_>, out: &mut Vec<u8>) {
    let mut headers = ptr::null_mut();
    // SAFETY: `message` is alive; the headers, names and values it lends live as long as it does.
    unsafe {
        if sys::rd_kafka_message_headers(message.ptr(), &raw mut headers)
            != sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR
        {
            return;
        }
        for index in 0.. {
            let (mut name, mut value, mut size) = (ptr::null(), ptr::null(), 0);
            let found = sys::rd_kafka_header_get_all(headers, index, &raw mut name, &raw mut value, &raw mut size);
            if found != sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR {
                return;
            }
            let value = (!value.is_null()).then(|| std::slice::from_raw_parts(value.cast::<u8>(), size));
            Headers::pack(out, &CStr::from_ptr(name).to_string_lossy(), value);
        }
    }
}
