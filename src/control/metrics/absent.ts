/**
 * Metrics of the upstream Manager, without prefix and suffix, that this one does not export, and why or what to read
 * instead. An entry that ends in an underscore stands for all names that begin with it. docs/operating.md has the same
 * list.
 */
export const ABSENT_METRICS: Readonly<Record<string, string>> = {
  pinned_for_load_: 'read `orbitkv_leases`, `orbitkv_query_reserved_bytes` and `orbitkv_ssd_read_pinned_bytes`',
  ssd_prefetch_queue_closed: 'rings between threads do not close before the threads end',
  ssd_gpu_read_fallbacks:
    'a restore whose decoding does not fit its budget fails and says so; it is not sent another way',
  cost_: 'the cost model is not built yet',
  remote_: 'peers are not built yet',
  transfer_: 'peers are not built yet',
  tent_: 'peers are not built yet',
  inventory_: 'peers are not built yet',
  catalog_: 'peers are not built yet',
  candidate_: 'peers are not built yet; `orbitkv_cache_candidate_hits_total` counts what the directory has',
}
