import { CONTROL_FAULTS } from './faults.js'
import type { Plan } from './plan.js'
import { planOf } from './seeds.js'

export type ControlFault = (typeof CONTROL_FAULTS)[number]

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
    groups: 1,
    tokensFactor: 1,
    second: 'full-attention',
    windowTokens: 1,
    ranks: 1,
    pages: 14,
  } as const
  return {
    ...plan,
    models: [model],
    sizes: { ...plan.sizes, ssd: true, writePolicy: 'all', poolBlocks: 9, shardBlocks: 12, slots: 16, jobsMax: 128 },
    engines: [{ model: 0, scheduler: false, commands: plan.engines.flatMap(({ commands }) => commands).slice(0, 400) }],
    processes: [],
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
