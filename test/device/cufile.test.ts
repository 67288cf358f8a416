import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { Between } from '../support/between.js'
import { declareCodedGates } from '../support/coded-gates.js'
import { declareCufileGates } from '../support/cufile-gates.js'
import { shimMissing } from '../support/cufile-shim.js'
import { folderOf } from '../support/folder.js'
import type { GateBed } from '../support/gate-bed.js'
import { needs } from '../support/needs.js'
import { CUFILE_ROUTE, diskFolder, gpu, NO_GPU, startManager } from './gpu.js'

/** The gates of the cuFile route over the real libraries, in compatibility mode: evidence of correct bytes alone. */

const reason = NO_GPU !== '' ? NO_GPU : (shimMissing() ?? '')

const bed: GateBed = {
  name: 'cuFile (compatibility mode)',
  patienceMs: 20_000,
  device: () => gpu().uuid,
  between(t) {
    return new Between(folderOf(t), {
      libcuda: process.env['ORBITKV_LIBCUDA'] ?? '',
      libcufile: process.env['ORBITKV_CUFILE_LIBRARY'] ?? '',
    })
  },
  shards(t, count, capacity) {
    const folder = join(diskFolder(t), 'shards')
    mkdirSync(folder)
    return ['--ssd-cache-path', folder, '--ssd-cache-shards', String(count), '--ssd-cache-capacity', capacity]
  },
  start: (t, flags = [], between) =>
    startManager(t, { ...CUFILE_ROUTE, launcher: [...CUFILE_ROUTE.launcher, ...(between?.environment ?? [])] }, flags),
}

const onDevice = needs(reason === '', reason)
declareCufileGates(onDevice, bed)
declareCodedGates(onDevice, bed)
