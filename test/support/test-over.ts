import { loadNative } from '../../src/binding/load.js'
import { type Body, needs } from './needs.js'

const probe = loadNative().probe()

/** Declares a test over one kind of I/O; skipped with the reason where the host forbids io_uring. */
export function testOver(io: 'uring' | 'posix'): (title: string, body: Body) => void {
  return needs(io === 'posix' || probe.available, `io_uring: ${probe.reason}`)
}
