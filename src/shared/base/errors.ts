/**
 * The error classes of the whole project. A class says what the caller does next, `code` says which rule was met,
 * `values` carry the numbers. Messages name the action, the value, the state and the remedy, without a full stop.
 */

/** Values attached to an error: what was asked, what was there. */
export type ErrorValues = Readonly<Record<string, string | number | boolean | null>>

/** Base of every typed error. `code` is stable, listed in docs/errors.md and held against it by a test. */
export abstract class OrbitError extends Error {
  readonly code: ErrorCode
  readonly values: ErrorValues

  constructor(code: ErrorCode, message: string, values: ErrorValues = {}, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.code = code
    this.values = values
    this.name = new.target.name
  }
}

/** Refuse to start: the configuration cannot work. */
export class ConfigError extends OrbitError {}
/** The host cannot do it: a caller that is allowed to may fall back. */
export class CapabilityError extends OrbitError {}
/** No room now: skip the write, fail this restore or refuse to start; data stays valid. */
export class CapacityError extends OrbitError {}
/** A device or file failed: this job fails, others go on. */
export class IoError extends OrbitError {}
/** Bytes are not what was published: a miss, and that generation is hidden. */
export class CorruptionError extends OrbitError {}
/** A peer sent something the protocol forbids, or asked for something that is not there. */
export class ProtocolError extends OrbitError {}
/** The caller took its interest back. */
export class CancelledError extends OrbitError {}
/** The Manager, the session or the runtime has gone. */
export class ClosedError extends OrbitError {}
/** A bug of ours: the process must stop, memory that a device may still write cannot be tidied by guessing. */
export class InvariantError extends OrbitError {
  constructor(message: string, values: ErrorValues = {}) {
    super('invariant', message, values)
  }
}

/**
 * Every error code, with the number that stands for it on the wire and in completion slots.
 * Numbers are never reused. docs/errors.md explains each; test/docs/errors.test.ts holds both together.
 */
export const ERROR_CODES = {
  ok: 0,
  invariant: 1,
  // configuration
  config_unknown_flag: 10,
  config_bad_value: 11,
  config_conflict: 12,
  config_pool_too_large: 13,
  config_descriptors: 15,
  // capability
  uring_unavailable: 20,
  direct_io_unsupported: 21,
  native_addon_missing: 22,
  cuda_unavailable: 23,
  cufile_unavailable: 24,
  codec_unavailable: 25,
  // capacity
  capacity_pool: 30,
  capacity_sessions: 33,
  capacity_slots: 34,
  capacity_queue: 35,
  capacity_disk: 36,
  capacity_codec: 37,
  // io
  io_read_failed: 40,
  io_write_failed: 41,
  io_short: 42,
  io_open_failed: 43,
  io_copy_failed: 44,
  io_disk_full: 45,
  // corruption
  checksum_mismatch: 50,
  codec_damaged: 51,
  // protocol: frames and sessions
  frame_malformed: 60,
  frame_too_large: 61,
  version_mismatch: 62,
  peer_uid_refused: 63,
  unknown_message: 64,
  not_greeted: 65,
  already_greeted: 66,
  missing_descriptor: 67,
  // protocol: registration
  instance_unknown: 70,
  instance_not_sealed: 71,
  instance_conflict: 72,
  rank_taken: 73,
  memory_not_sealed: 74,
  region_out_of_bounds: 75,
  region_overlap: 76,
  geometry_invalid: 77,
  geometry_conflict: 78,
  namespace_mismatch: 79,
  canary_mismatch: 80,
  group_unsupported: 81,
  device_unsupported: 82,
  memory_not_local: 83,
  device_unknown: 84,
  memory_not_importable: 85,
  memory_not_exportable: 86,
  // protocol: requests
  lease_unknown: 90,
  lease_wrong_instance: 91,
  lease_already_redeemed: 92,
  lease_expired: 93,
  ticket_unknown: 94,
  slot_out_of_range: 95,
  slot_stale_generation: 96,
  slot_busy: 97,
  page_out_of_range: 98,
  page_duplicate: 99,
  source_out_of_range: 100,
  group_unknown: 101,
  layers_missing: 102,
  query_empty: 104,
  ticket_mismatch: 105,
  // endings
  cancelled: 110,
  session_closed: 111,
  draining: 112,
  manager_gone: 113,
  already_running: 114,
  path_refused: 115,
  /** What an inspection or a wait found still open when its time ran out. */
  timed_out: 116,
} as const

/** A stable name of an error. */
export type ErrorCode = keyof typeof ERROR_CODES

const NAMES = new Map<number, ErrorCode>(
  Object.entries(ERROR_CODES).map(([name, number]) => [number, name as ErrorCode]),
)

/** The name of a code number from the wire, or `invariant` when no such number exists. */
export function errorCodeName(number: number): ErrorCode {
  return NAMES.get(number) ?? 'invariant'
}

/**
 * True for a failure that proves that published bytes are gone: they differ, they are no coding of their codec, or the
 * file ends before them (the port has read on until it did). Their generation is hidden, so that a new publication
 * repairs the key; after any other failure the disk may give them next time.
 */
export function provesLoss(code: ErrorCode): boolean {
  return code === 'checksum_mismatch' || code === 'codec_damaged' || code === 'io_short'
}
