import type { MakeTarget } from '../target.js'
import { codings } from './codings.js'
import { copies } from './copies.js'
import { reads, sources } from './descriptors.js'
import { flags } from './flags.js'
import { machine } from './machine.js'
import { records } from './records.js'
import { wire } from './wire.js'

/** Every decoder of TypeScript that takes bytes or words from somewhere else; the HTTP listener is in http.ts. */
export const TARGETS: readonly MakeTarget[] = [wire, machine, reads, sources, copies, codings, flags, ...records]
