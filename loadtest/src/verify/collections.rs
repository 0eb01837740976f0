//! Reads buckets, dead letters and ledger, by majority.

use anyhow::{Context as _, Result};
use mongodb::bson::{RawDocumentBuf, doc};
use mongodb::options::ReadConcern;
use mongodb::{Client, Database};

use super::Options;
use super::stored::Stored;

/// Documents a round trip; the server stops at 16 MiB anyway.
const BATCH: u32 = 2_000;

pub(super) async fn read(options: &Options, stored: &mut Stored) -> Result<()> {
    let client = Client::with_uri_str(&options.mongo).await.context("the MongoDB connection string is not usable")?;
    let database = client.database(&options.database);
    let name = options.collection.as_str();
    let known =
        database.list_collection_names().filter(doc! { "name": name }).await.context("no answer from MongoDB")?;
    if known.is_empty() {
        // Everything is lost then, and a mistyped name is likelier: say so.
        let database = &options.database;
        stored.findings.problem(|| format!("there is no collection {database}.{name}"));
    }
    // What is acknowledged by one member only may still vanish: it proves nothing.
    each(&database, name, |d| stored.bucket(d)).await?;
    each(&database, &options.beside("dead"), |d| stored.dead_letter(d)).await?;
    each(&database, &options.beside("ledger"), |d| stored.ledger_entry(d)).await
}

async fn each(database: &Database, name: &str, mut take: impl FnMut(&mongodb::bson::RawDocument)) -> Result<()> {
    let what = || format!("cannot read collection {name}");
    let collection = database.collection::<RawDocumentBuf>(name);
    let find = collection.find(doc! {}).read_concern(ReadConcern::majority()).batch_size(BATCH);
    let mut cursor = find.await.with_context(what)?;
    while cursor.advance().await.with_context(what)? {
        take(cursor.current());
    }
    Ok(())
}
