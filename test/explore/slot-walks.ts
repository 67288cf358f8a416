import { Operations } from '../../src/client/operations.js'
import { refuse } from '../../src/shared/base/refusal.js'
import { isTerminal, slotStateOf, slotWord } from '../../src/shared/layout/wire/slots.js'
import { crcOf, LINE, pollInPython, type Reader } from './slot-lines.js'
import { buildLine, buildSlots, SHIPPED, type SlotProtocol, type SlotScenario } from './slot-world.js'
import type { Walk } from './world.js'

const STATES_MAX = 4_000_000

const PLAIN = { slots: 1, operations: 2, deaths: false, hints: 'sent' } as const

/** By the client that reads: the addon's, or Python's, whose loads may be reordered. */
export interface SlotWalk extends SlotScenario {
  readonly client: 'addon' | 'Python'
  /** A line and its reader alone. */
  readonly line?: true
}

const ADDON = { ...PLAIN, client: 'addon' } as const
const PYTHON = { ...PLAIN, client: 'Python' } as const

/** Those with deaths walk everything that happens without one as well. */
export const SLOT_SCENARIOS: readonly SlotWalk[] = [
  { ...ADDON, name: 'a line alone, three generations', line: true, operations: 3, deaths: true },
  { ...PYTHON, name: 'a line alone, three generations, by Python', line: true, operations: 3, deaths: true },
  { ...ADDON, name: 'one slot, used twice, either side dies', deaths: true },
  { ...ADDON, name: 'two slots, used twice, either side dies', slots: 2, deaths: true },
  { ...ADDON, name: 'one slot, used twice, no hints', hints: 'dropped' },
  { ...PYTHON, name: 'one slot, used twice, by Python' },
]

/** What ships in a scenario. */
export function shippedIn({ client }: SlotWalk): SlotProtocol {
  return client === 'addon' ? SHIPPED : { ...SHIPPED, read: pollInPython }
}

/** The addon's poll without its second look at the word. */
const looksOnce: Reader = (manager, slot) => {
  const at = slot * LINE
  const word = manager.load(at)
  if (!isTerminal(slotStateOf(word))) return { word, opId: 0, bytes: 0 }
  const opId = manager.load(at + 1)
  const bytes = manager.load(at + 2)
  return manager.load(at + 3) === crcOf(opId, bytes) ? { word, opId, bytes } : null
}

/** Python's poll when it believed word and CRC, whatever op id they came with. */
const believesAnyOpId: Reader = (manager, slot, { generation }, choose) => {
  const at = slot * LINE
  const load = () => ({ opId: manager.load(at + 1), bytes: manager.load(at + 2), crc: manager.load(at + 3) })
  const early = choose(2) === 1 ? load() : null
  const word = manager.load(at)
  if (word !== slotWord(generation, slotStateOf(word)) || !isTerminal(slotStateOf(word))) return null
  const { opId, bytes, crc } = early ?? load()
  return manager.load(at) === word && crc === crcOf(opId, bytes) ? { word, opId, bytes } : null
}

/** Takes a silent operation for a failed one. */
class GivesUp extends Operations {
  override poll(): boolean {
    if (super.poll()) return true
    const before = this.outstanding
    if (before > 0) super.abandon(new Error('planted: timed out') as never)
    return before > 0
  }
}

/** Fails what is open when the Manager has ended, without a last look. */
class LooksAway extends Operations {
  #away = false
  override poll(): boolean {
    return !this.#away && super.poll()
  }
  override abandon(error: Parameters<Operations['abandon']>[0]): void {
    this.#away = true
    super.abandon(error)
  }
}

/** A twin of what ships, what is wrong with it, and whether it shows only where somebody dies. */
export interface SlotPlanted {
  readonly name: string
  readonly protocol: SlotProtocol
  readonly onlyDeath: boolean
}

export const SLOT_PLANTED: readonly SlotPlanted[] = [
  {
    name: 'slots: word before payload',
    onlyDeath: false,
    protocol: {
      ...SHIPPED,
      finish: (client, manager, slot, word, bytes, hint) => {
        const at = slot * LINE
        const opId = client.load(at + 1)
        manager.store(at, word)
        manager.store(at + 1, opId)
        manager.store(at + 2, bytes)
        manager.store(at + 3, crcOf(opId, bytes))
        hint()
      },
    },
  },
  {
    name: 'slots: the hint before the word',
    onlyDeath: false,
    protocol: {
      ...SHIPPED,
      finish: (client, manager, slot, word, bytes, hint) => {
        hint()
        SHIPPED.finish(client, manager, slot, word, bytes, () => {})
      },
    },
  },
  { name: 'slots: no second look at the word', onlyDeath: false, protocol: { ...SHIPPED, read: looksOnce } },
  { name: 'slots: any op id is believed', onlyDeath: false, protocol: { ...SHIPPED, read: believesAnyOpId } },
  { name: 'slots: a time-out gives the line back', onlyDeath: false, protocol: { ...SHIPPED, Operations: GivesUp } },
  {
    name: 'slots: a quick client is refused',
    onlyDeath: false,
    protocol: {
      ...SHIPPED,
      checkSlot: (context, session, slot, generation) =>
        session.slots[slot]?.operation === null
          ? SHIPPED.checkSlot(context, session, slot, generation)
          : refuse('slot_busy', 'planted: the books still have it', { slot }),
    },
  },
  {
    name: 'slots: no last look when the Manager has ended',
    onlyDeath: true,
    protocol: { ...SHIPPED, Operations: LooksAway },
  },
  {
    name: 'slots: the Manager is not watched',
    onlyDeath: true,
    protocol: { ...SHIPPED, watchesManager: false },
  },
  {
    name: 'slots: memory of a dead client is unmapped at once',
    onlyDeath: true,
    protocol: { ...SHIPPED, drains: false },
  },
]

const LOOKS = 2

/** Walks one scenario with one protocol. */
export function walkSlots(scenario: SlotWalk, protocol: SlotProtocol): Walk {
  const { world, parties, endings } =
    scenario.line === true ? buildLine(scenario.operations, LOOKS, protocol) : buildSlots(scenario, protocol)
  return world.explore(parties, STATES_MAX, endings)
}
