import { CONTROL_FAULTS, DECODE_FAULTS } from './faults.js'
import type { Plan } from './plan.js'
import { planOf } from './seeds.js'

export type ControlFault = (typeof CONTROL_FAULTS)[number]

/** What models of one rank and one kind of attention have in common. */
const ONE_RANK = {
  groups: 1,
  tokensFactor: 1,
  second: 'full-attention',
  windowTokens: 1,
  ranks: 1,
  pages: 14,
} as const

/** Registrations in which there is memory for the first template and for no other; two ranks, so that one stays. */
export function seedWithRefusedTemplates(seed: number): Plan {
  const plan = planOf(seed)
  const kind = CONTROL_FAULTS.indexOf('template-refused')
  const control = CONTROL_FAULTS as readonly string[]
  return {
    ...plan,
    models: plan.models.map((model) => ({ ...model, ranks: 2 as const })),
    off: plan.off.filter((off) => !control.includes(off)),
    control: [0, 1, 2].map(() => ({ gap: 1, kind, amount: 1 })),
    engines: plan.engines.map((engine) => ({ ...engine, commands: engine.commands.slice(0, 60) })),
  }
}

/** Blocks of many granules, slots that hold two of them, and publications beside every restore: writes wait for reads. */
export function seedWithLongRestores(seed: number): Plan {
  const plan = planOf(seed)
  const model = {
    layout: 'split',
    layers: 8,
    wordsEven: 1024,
    wordsOdd: 130,
    ...ONE_RANK,
  } as const
  return {
    ...plan,
    models: [model],
    sizes: { ...plan.sizes, ssd: true, writePolicy: 'all', poolBlocks: 9, shardBlocks: 12, slots: 16, jobsMax: 128 },
    engines: [{ model: 0, scheduler: false, commands: plan.engines.flatMap(({ commands }) => commands).slice(0, 400) }],
    processes: [],
    codec: { ...plan.codec, name: 'none' },
    gpu: {
      ...plan.gpu,
      backend: 'cufile',
      readPath: null,
      engines: [true, true, true],
      drops: true,
      poolRoom: 4,
      shardRoom: 8,
      permits: 8,
      slotFactor: 1,
      reads: [],
      writes: [],
      scatters: [],
      parts: [],
      opens: [],
    },
  }
}

/** Large parts of blocks, half of whose items the codec refuses, and a pool that holds fewer as they are than it took. */
export function seedWithoutRoomForRaw(seed: number): Plan {
  const plan = planOf(seed)
  const model = {
    layout: 'packed',
    layers: 6,
    wordsEven: 1024,
    wordsOdd: 1024,
    ...ONE_RANK,
  } as const
  return {
    ...plan,
    models: [model],
    sizes: { ...plan.sizes, publishPartBytes: 1 << 20, descriptorsPerRecord: 512, poolBlocks: 3, entriesMax: 64 },
    engines: plan.engines.map((engine) => ({ ...engine, commands: engine.commands.slice(0, 200) })),
    gpu: { ...plan.gpu, backend: 'none' },
    processes: [],
    codec: {
      name: 'fp8',
      wordsFactor: 4,
      partDescriptors: 256,
      unfitOneIn: 2,
      off: [],
      encodes: [],
      decodes: [],
    },
  }
}

/** Every other decoding fails, on the way that pages of the host and of a device take from the SSD: window or slot. */
export function seedWithFailedDecodings(seed: number, way: 'window' | 'slot'): Plan {
  const plan = planOf(seed)
  const kind = DECODE_FAULTS.indexOf('decode-failed')
  return {
    ...plan,
    sizes: { ...plan.sizes, ssd: true, readRoute: 'uring', writePolicy: 'all', shardBlocks: 12, poolBlocks: 9 },
    engines: plan.engines.map((engine) => ({ ...engine, commands: engine.commands.slice(0, 300) })),
    processes: [],
    reads: [],
    writes: [],
    gpu: {
      ...plan.gpu,
      backend: way === 'slot' ? 'cufile' : 'uring',
      readPath: way === 'slot' ? null : 'uring',
      engines: [true, true, true],
      drops: true,
      shardRoom: 8,
      reads: [],
      writes: [],
      scatters: [],
      opens: [],
    },
    codec: {
      name: 'fp8',
      wordsFactor: 1,
      partDescriptors: 3,
      unfitOneIn: 0,
      off: [],
      encodes: [],
      decodes: Array.from({ length: 60 }, () => ({ gap: 1, kind, amount: 0 })),
    },
  }
}

/** Publications of several blocks, all of which fit together where they are coded: written from there, chunk after chunk. */
export function seedWithHeldCodings(seed: number): Plan {
  const plan = planOf(seed)
  const model = {
    layout: 'packed',
    layers: 3,
    wordsEven: 1024,
    wordsOdd: 1024,
    ...ONE_RANK,
  } as const
  return {
    ...plan,
    models: [model],
    sizes: {
      ...plan.sizes,
      ssd: true,
      writePolicy: 'all',
      publishPartBytes: 1 << 20,
      descriptorsPerRecord: 512,
      poolBlocks: 12,
      shardBlocks: 12,
    },
    engines: plan.engines.map((engine) => ({ ...engine, commands: engine.commands.slice(0, 200) })),
    processes: [],
    gpu: {
      ...plan.gpu,
      backend: 'cufile',
      readPath: null,
      engines: [true, true, true],
      drops: true,
      poolRoom: 4,
      shardRoom: 8,
    },
    codec: { name: 'fp8', wordsFactor: 1, partDescriptors: 256, unfitOneIn: 9, off: [], encodes: [], decodes: [] },
  }
}
