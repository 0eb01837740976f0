//! The newest sample of each device.
//!
//! Windows are looked at from the last one back. A device is done once no window that is left can hold anything newer, so
//! nearly all of them are done after one window.

use std::collections::BTreeMap;

use mongodb::bson::{Bson, Document};

use super::ReadError;
use super::merge::{Waiting, only_sample};
use super::source::Source;
use crate::commands::server::CommandError;

/// Devices named in one query; a window is read as a whole where more are wanted of it.
const MAX_RANGES: usize = 500;
/// Buckets whose samples are asked for at once.
const PAGE: usize = 1_000;

/// The bucket that holds a device's newest sample, by the order of samples: time, first position, stream, number.
#[derive(Clone, Debug, PartialEq)]
struct Newest {
    key: (i64, i64, i64, i64),
    id: Bson,
}

/// The newest sample at or after `from` of each of these devices, or of all that there are; in the order of samples.
pub(super) async fn find(source: &Source, devices: Option<&[String]>, from: i64) -> Result<Vec<Waiting>, ReadError> {
    let newest: Vec<_> = newest_buckets(source, devices, from).await?.into_iter().collect();
    let mut samples = Vec::with_capacity(newest.len());
    for page in newest.chunks(PAGE) {
        let ids: Vec<_> = page.iter().map(|(_, newest)| newest.id.clone()).collect();
        let names: Vec<_> = page.iter().map(|(device, _)| device.clone()).collect();
        let mut buckets = source.cursor(source.queries.newest_samples(&ids, &names)).await?;
        while buckets.advance().await? {
            let bucket = buckets.current();
            let sample = only_sample(bucket, &source.queries.fields);
            samples.extend(sample.map_err(|reason| ReadError::unreadable(source, bucket, &reason))?);
        }
    }
    samples.sort_unstable();
    Ok(samples)
}

async fn newest_buckets(
    source: &Source,
    devices: Option<&[String]>,
    from: i64,
) -> Result<BTreeMap<String, Newest>, ReadError> {
    let mut newest = BTreeMap::new();
    let mut before = i64::MAX;
    while let Some(window) = source.start(source.queries.previous_window(before)).await? {
        let ceiling = source.windows.ceiling(window);
        if ceiling <= from {
            break;
        }
        let is_open = |device: &String| newest.get(device).is_none_or(|newest: &Newest| newest.key.0 < ceiling);
        let open: Option<Vec<String>> = match devices {
            Some(devices) => Some(devices.iter().filter(|device| is_open(device)).cloned().collect()),
            // Nothing is known yet, so all of them are open.
            None if newest.is_empty() => None,
            None => Some(in_window(source, window).await?.into_iter().filter(is_open).collect()),
        };
        if devices.is_some() && open.as_ref().is_some_and(Vec::is_empty) {
            break;
        }
        let groups: Vec<Option<&[String]>> = match &open {
            Some(open) if devices.is_some() || open.len() <= MAX_RANGES => open.chunks(MAX_RANGES).map(Some).collect(),
            _ => vec![None],
        };
        for group in groups {
            for found in source.documents(source.queries.newest_buckets(window, group, from)).await? {
                keep(&mut newest, &found)?;
            }
        }
        before = window;
    }
    Ok(newest)
}

async fn in_window(source: &Source, window: i64) -> Result<Vec<String>, ReadError> {
    let found = source.documents(source.queries.devices(window)).await?;
    Ok(found.iter().filter_map(|found| found.get_str("_id").ok().map(str::to_owned)).collect())
}

fn keep(newest: &mut BTreeMap<String, Newest>, found: &Document) -> Result<(), CommandError> {
    let (device, found) = parsed(found).ok_or_else(|| CommandError::Unusual(format!("no newest bucket: {found}")))?;
    let known = newest.entry(device).or_insert_with(|| found.clone());
    if known.key < found.key {
        *known = found;
    }
    Ok(())
}

fn parsed(found: &Document) -> Option<(String, Newest)> {
    let device = found.get_str("_id").ok()?.to_owned();
    let newest = found.get_document("newest").ok()?;
    let whole = |key: &str| match newest.get(key)? {
        Bson::Int64(value) => Some(*value),
        Bson::Int32(value) => Some(i64::from(*value)),
        _ => None,
    };
    let last = newest.get_datetime("last").ok()?.timestamp_millis();
    let key = (last, whole("lo")?, whole("s")?, whole("n")?);
    Some((device, Newest { key, id: newest.get("id")?.clone() }))
}
