/** A device as streams and lanes name it: the host's memory, or a CUDA device by its place in the driver's list. */
export type DeviceName = 'host' | `cuda:${number}`
