//! The latest of what every thread published, shown in Prometheus' text format.
//!
//! A scrape adds up whole copies, so a partition that its owner no longer lists is gone at once: no stale series.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet, prometheus_text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::catalogue::{METRICS, Metric, Read, View, memory};
use super::counts::{ShardCounts, SinkTotals, SourceGauges};
use super::distribution::Distribution;
use super::progress::Summary;

/// A handle; clones show the same values.
#[derive(Clone, Debug)]
pub struct Metrics {
    published: Published,
    registry: Arc<Registry>,
}

impl Metrics {
    pub fn new(n_shards: usize) -> Self {
        let latest = Latest { shards: vec![ShardCounts::default(); n_shards], ..Latest::default() };
        let published = Published(Arc::new(Mutex::new(latest)));
        let mut registry = Registry::with_prefix("sakia");
        registry.register_collector(Box::new(published.clone()));
        Self { published, registry: Arc::new(registry) }
    }

    /// Replaces what this shard published before; totals go on from where they were.
    pub fn publish_shard(&self, shard: usize, counts: &ShardCounts) {
        let copy = counts.clone();
        self.published.lock().shards[shard] = copy;
    }

    pub fn publish_source(&self, gauges: &SourceGauges) {
        let copy = gauges.clone();
        self.published.lock().source = copy;
    }

    pub fn publish_sink(&self, totals: &SinkTotals) {
        let copy = totals.clone();
        self.published.lock().sink = copy;
    }

    /// The page that `/metrics` serves.
    pub fn page(&self) -> String {
        let mut page = String::new();
        prometheus_text::encode(&mut page, &self.registry).expect("invariant: writing to a string cannot fail");
        page
    }

    /// The few numbers of the progress line.
    pub fn summary(&self) -> Summary {
        let view = self.published.view();
        Summary {
            readings: view.shards.readings,
            samples: view.shards.samples,
            buckets: view.sink.inserts,
            lag_records: view.partitions.values().filter_map(|partition| partition.lag).sum(),
            memory_bytes: memory(&view).iter().map(|(_, bytes)| bytes).sum(),
            memory_budget_bytes: view.source.memory_budget_bytes,
        }
    }
}

#[derive(Debug, Default)]
struct Latest {
    shards: Vec<ShardCounts>,
    source: SourceGauges,
    sink: SinkTotals,
}

/// The lock is held for a copy in or a sum out, never while text is made: a shard must not wait for a scrape.
#[derive(Clone, Debug)]
struct Published(Arc<Mutex<Latest>>);

impl Published {
    fn lock(&self) -> MutexGuard<'_, Latest> {
        // Values are replaced whole, so a panic elsewhere leaves nothing half written.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn view(&self) -> View {
        let latest = self.lock();
        let mut view = View { source: latest.source.clone(), sink: latest.sink.clone(), ..View::default() };
        for shard in &latest.shards {
            view.shards.add(shard);
        }
        drop(latest);
        for mark in &view.shards.marks {
            view.partitions.entry((mark.topic.clone(), mark.partition)).or_default().mark = Some(mark.clone());
        }
        for lag in &view.source.lags {
            view.partitions.entry((lag.topic.clone(), lag.partition)).or_default().lag = lag.records;
        }
        view
    }
}

impl Collector for Published {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let view = self.view();
        METRICS.iter().try_for_each(|metric| encode(metric, &view, &mut encoder))
    }
}

fn encode(metric: &Metric, view: &View, encoder: &mut DescriptorEncoder<'_>) -> std::fmt::Result {
    let kind = match &metric.read {
        Read::Counter(_) | Read::CounterBy(..) => MetricType::Counter,
        Read::Gauge(_) | Read::GaugeBy(..) | Read::Partition(_) => MetricType::Gauge,
        Read::Histogram { .. } => MetricType::Histogram,
        Read::Info(..) => MetricType::Info,
    };
    let mut family = encoder.encode_descriptor(metric.name, metric.help, None, kind)?;
    match &metric.read {
        Read::Counter(read) => ConstCounter::new(read(view)).encode(family),
        Read::Gauge(read) => ConstGauge::new(read(view)).encode(family),
        Read::CounterBy(label, read) => read(view)
            .into_iter()
            .try_for_each(|(value, n)| ConstCounter::new(n).encode(family.encode_family(&[(*label, value)])?)),
        Read::GaugeBy(label, read) => read(view)
            .into_iter()
            .try_for_each(|(value, n)| ConstGauge::new(n).encode(family.encode_family(&[(*label, value)])?)),
        Read::Partition(read) => view.partitions.iter().try_for_each(|((topic, partition), marks)| {
            let Some(value) = read(marks) else { return Ok(()) };
            let labels = [("topic", &**topic), ("partition", &partition.to_string())];
            ConstGauge::new(value).encode(family.encode_family(&labels)?)
        }),
        Read::Histogram { read, bounds, per_unit } => {
            encode_histogram(read(view), bounds, f64::from(*per_unit), &mut family)
        }
        Read::Info(labels) => family.encode_info(&labels.to_vec()),
    }
}

fn encode_histogram(
    distribution: &Distribution,
    bounds: &[u64],
    per_unit: f64,
    family: &mut MetricEncoder<'_>,
) -> std::fmt::Result {
    let upper = bounds.iter().map(|bound| *bound as f64 / per_unit).chain([f64::INFINITY]);
    let buckets: Vec<_> = upper.zip(distribution.split_at(bounds)).collect();
    let sum = distribution.sum() as f64 / per_unit;
    family.encode_histogram::<NoLabelSet>(sum, distribution.count(), &buckets, None)
}

#[cfg(test)]
mod tests;
