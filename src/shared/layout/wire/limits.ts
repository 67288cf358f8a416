/**
 * Bounds of the protocol between an engine process and the Manager. Each is checked by both sides before anything is
 * allocated: a peer can make the other read at most one frame.
 */

/** Oldest and newest protocol version that this build speaks. */
export const PROTO_MIN = 1
export const PROTO_MAX = 2
/** The first version in which REGISTER carries device memory; in version 1 every Manager refused it. */
export const PROTO_DEVICE_MEMORY = 2

/** Bits of WELCOME's `features`. */
export const FEATURE = {
  /** An SSD tier is open. */
  ssd: 1,
  /** Demand reads go by an explicit route, during the restore. */
  explicitRead: 2,
  /** Pages of at least one CUDA device are served. */
  cuda: 4,
} as const

/** Bytes of the length word in front of a frame; the word counts what follows it. */
export const LENGTH_WORD_BYTES = 4
/** Bytes of type, flags and request number. */
export const HEADER_BYTES = 12
/** Largest frame, length word included: bounds what one `takeFrame` can need. */
export const FRAME_BYTES_MAX = 1024 * 1024
/** Descriptors that one frame may carry: the kernel's SCM_MAX_FD is 253; a rank has few allocations. */
export const DESCRIPTORS_MAX = 64

/** Allocations of one rank: device memory needs no descriptor, and engines allocate every layer, K and V by itself. */
export const ALLOCATIONS_MAX = 1024
/** Bytes of a raw CUDA IPC handle, as cuIpcGetMemHandle gives it: without the two that torch puts in front. */
export const IPC_HANDLE_BYTES = 64
/** Bytes of a device's UUID. */
export const DEVICE_UUID_BYTES = 16

/** Bytes of a block key and of every digest. */
export const DIGEST_BYTES = 32
export const KEY_BYTES = DIGEST_BYTES
/** Bytes of an instance id: one random UUID per engine start. */
export const INSTANCE_ID_BYTES = 16
/** Bytes at each end of a region that a canary compares. */
export const CANARY_BYTES = 64

/** Bytes of a name: layer, engine, version, dtype, what to inspect. */
export const NAME_BYTES_MAX = 256
/** Bytes of an error's message; longer ones are cut between characters by `clipText`. */
export const MESSAGE_BYTES_MAX = 256
/** Bytes of one plain namespace input. */
export const INPUT_BYTES_MAX = 4096
export const REGIONS_MAX = 4096
export const GROUPS_MAX = 64
export const INPUTS_MAX = 64
export const RANKS_MAX = 1024
/** Names in one list of numbers or error values. */
export const NUMBERS_MAX = 4096
