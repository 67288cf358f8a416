/**
 * Flags of the upstream Manager, or of its earlier versions, that this one does not take, and what to do instead. They
 * are refused by name: a flag that is ignored would be believed. docs/operating.md has the same list.
 */
export const REFUSED_FLAGS: Readonly<Record<string, string>> = {
  'ssd-codec': 'use --storage-codec: pages are encoded in DRAM as on SSD',
  'ssd-codec-budget': 'use --storage-codec-budget',
  'ssd-write-queue-depth': 'use --ssd-write-queue (bytes instead of batches)',
  'ssd-prefetch-queue-depth': 'use --query-budget; a count of batches bounds no bytes',
  'ssd-prefetch-inflight': 'use --query-budget and --query-read-batch; a count of blocks bounds no bytes',
  'use-hugepages': 'the pool always asks for huge pages and reports how many it got',
  'disable-numa-affinity': 'the pool is not bound to a NUMA node; bind the process with numactl',
  'pool-shards': 'the pool has one allocator, owned by one thread',
  'blockwise-alloc': 'every granule of a page is an allocation of its own, always',
  'hint-value-size': 'the allocator has no size classes to hint at',
  'trace-sample-rate': 'tracing is not built yet',
  'metrics-otel-endpoint': 'OpenTelemetry is not built yet; scrape /metrics',
  'metrics-period-secs': 'OpenTelemetry is not built yet; scrape /metrics',
  'channel-service': 'engines connect to --bootstrap-socket; there is no discovery service',
  'channel-session-epoch': 'the epoch is random at each start',
  'descriptor-arena-size': 'requests travel in frames of at most 1 MiB; there is no arena to size',
  'descriptor-slot-size': 'requests travel in frames of at most 1 MiB; there is no arena to size',
  nics: 'peers are not built yet',
  'etcd-endpoints': 'peers are not built yet',
  'node-id': 'peers are not built yet',
  'catalog-nodes': 'peers are not built yet',
  'cluster-name': 'peers are not built yet',
  'catalog-budget': 'peers are not built yet',
  'membership-ttl-secs': 'peers are not built yet',
  'inventory-journal-bytes': 'peers are not built yet',
  'transfer-lock-timeout-secs': 'peers are not built yet',
  'transfer-budget': 'peers are not built yet',
}
