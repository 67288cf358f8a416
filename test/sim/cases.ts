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
