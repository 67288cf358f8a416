import { loadNative } from '../../src/binding/load.js'

/** The I/O that this host allows: for tests, and processes of tests, that name none. */
export const HOST_IO: 'uring' | 'posix' = loadNative().probe().available ? 'uring' : 'posix'
