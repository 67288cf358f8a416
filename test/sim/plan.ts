import fc from 'fast-check'
import { CODEC_FAULTS, type FaultDraw, type FaultKind, HOST_FAULTS, STAGING_FAULTS } from './faults.js'
import type { ModelPlan } from './model.js'

/** One thing an engine does; `a`, `b` and `c` are read by the verb, modulo what there is. */
export interface Command {
  readonly verb: Verb
  readonly delayUs: number
  readonly a: number
  readonly b: number
  readonly c: number
}

/** From harmless to rough: shrinking goes to the left. */
export const VERBS = [
  'publish',
  'query',
  'wait',
  'sync',
  'ping',
  'inspect',
  'drop-dram',
  'cancel',
  'publish-part',
  'query-again',
  'prepare',
  'warm',
  'trespass',
  'flood',
  'pause',
  'unregister',
  'disconnect',
  'die',
] as const
export type Verb = (typeof VERBS)[number]

export interface EnginePlan {
  readonly model: number
  readonly scheduler: boolean
  readonly commands: readonly Command[]
}

/** Sizes and times of the Manager and its lanes in one seed. */
export interface SizesPlan {
  readonly stores: number
  readonly shardsPerStore: number
  /** In units of the largest block of any model. */
  readonly poolBlocks: number
  readonly shardBlocks: number
  readonly queueBlocks: number
  readonly budgetBlocks: number
  readonly entriesMax: number
  readonly readRoute: 'dram' | 'uring'
  readonly ssd: boolean
  readonly leaseUs: number
  readonly queryUs: number
  readonly publishWaitUs: number
  readonly assemblyAgeUs: number
  readonly ringCapacity: number
  readonly readDepth: number
  readonly writeDepth: number
  readonly parts: number
  readonly partDescriptors: number
  readonly storeReads: number
  readonly descriptorsPerRecord: number
  readonly publishPartBytes: number
  readonly queriesPerSession: number
  readonly prepareUs: number
  readonly warmUs: number
  /** Blocks that one query reads at once, 0: all; batches that it may read, 0: any number; when it stops, 0: never. */
  readonly readBatchBlocks: number
  readonly readBatchesMax: number
  readonly readTimeoutUs: number
  readonly writePolicy: 'all' | 'reuse'
  readonly protectedBlocks: number
  readonly lfuAdmission: boolean
  readonly slots: number
  /** Jobs that each copying lane may have open. */
  readonly jobsMax: number
}

/** A CUDA device beside the host, the route of its pages to the SSD, and what goes wrong on the way. */
export interface GpuPlan {
  /** `none`: no such device. Else as `--ssd-backend`, where libcufile is there and native. */
  readonly backend: 'none' | 'uring' | 'auto' | 'cufile'
  /** As `--ssd-read-path`. */
  readonly readPath: null | 'uring' | 'cufile'
  /** Which engines have their pages on it. */
  readonly engines: readonly boolean[]
  /**
   * Its engines drop what is in DRAM before every other query, so that they read from the SSD, and publish something new
   * beside every restore.
   */
  readonly drops: boolean
  /** The pool holds this many times what the sizes say: more writes can be under way at once. */
  readonly poolRoom: number
  /** The same of shards: less is overwritten before it is read. */
  readonly shardRoom: number
  /** Write jobs that a rank may have under way. */
  readonly permits: number
  /** A staging slot holds this many times the two granules that it must hold. */
  readonly slotFactor: number
  readonly off: readonly FaultKind[]
  readonly reads: readonly FaultDraw[]
  readonly writes: readonly FaultDraw[]
  readonly scatters: readonly FaultDraw[]
  readonly parts: readonly FaultDraw[]
  readonly opens: readonly FaultDraw[]
}

/** How pages are stored, and what goes wrong with that. */
export interface CodecPlan {
  readonly name: 'none' | 'ans' | 'fp8' | 'turboquant-4' | 'turboquant-3'
  /** Segments hold this many times the words that the models say: items of several pages of the pool. */
  readonly wordsFactor: 1 | 2 | 4
  /** Items of one part that are coded, at most. */
  readonly partDescriptors: number
  /** Of so many items one holds values that no format has; 0: none does. */
  readonly unfitOneIn: number
  readonly off: readonly FaultKind[]
  readonly encodes: readonly FaultDraw[]
  readonly decodes: readonly FaultDraw[]
}

/** Everything one seed does, before it runs: the simulation itself draws nothing. */
export interface Plan {
  readonly models: readonly ModelPlan[]
  readonly engines: readonly EnginePlan[]
  readonly sizes: SizesPlan
  /** Fault kinds that this seed leaves out. */
  readonly off: readonly FaultKind[]
  readonly reads: readonly FaultDraw[]
  readonly writes: readonly FaultDraw[]
  readonly copies: readonly FaultDraw[]
  readonly checksums: readonly FaultDraw[]
  readonly hints: readonly FaultDraw[]
  readonly control: readonly FaultDraw[]
  readonly sends: readonly FaultDraw[]
  readonly wakes: readonly FaultDraw[]
  readonly rings: readonly FaultDraw[]
  /** What happens to the Manager's process, counted in steps of its machines. */
  readonly processes: readonly FaultDraw[]
  readonly wakeUs: readonly number[]
  readonly ringUs: readonly number[]
  readonly diskUs: readonly number[]
  readonly copyUs: readonly number[]
  readonly wireUs: readonly number[]
  readonly engineUs: readonly number[]
  /** When a drain interrupts the workload, or null: after it. */
  readonly drainAtUs: number | null
  readonly drainLimitUs: number
  readonly gpu: GpuPlan
  readonly codec: CodecPlan
}

const upTo = (max: number) => fc.nat({ max })
const oneOf = <const T extends readonly unknown[]>(...values: T) =>
  fc.constantFrom(...values) as fc.Arbitrary<T[number]>
const some = <T>(item: fc.Arbitrary<T>, minLength: number, maxLength: number) =>
  fc.array(item, { minLength, maxLength, size: 'max' })
const delays = (max: number) => fc.noBias(some(upTo(max), 1, 61))

/** How often each verb comes, in the order of VERBS. */
const WEIGHTS: Readonly<Record<Verb, number>> = {
  publish: 26,
  query: 52,
  wait: 4,
  sync: 3,
  ping: 1,
  inspect: 1,
  'drop-dram': 18,
  cancel: 6,
  'publish-part': 8,
  'query-again': 5,
  prepare: 10,
  warm: 6,
  trespass: 8,
  flood: 1,
  pause: 1,
  unregister: 1,
  disconnect: 1,
  die: 1,
}
const WEIGHTED: readonly Verb[] = VERBS.flatMap((verb) => new Array<Verb>(WEIGHTS[verb]).fill(verb))

const command: fc.Arbitrary<Command> = fc
  .tuple(upTo(WEIGHTED.length - 1), upTo(600), upTo(0xffff), upTo(0xffff), upTo(0xffff))
  .map(([verb, delayUs, a, b, c]) => ({ verb: WEIGHTED[verb] as Verb, delayUs, a, b, c }))

/** At most `max` faults, with up to `gap` operations that go well before each. */
const draws = (max: number, gap: number) =>
  some<FaultDraw>(fc.record({ gap: upTo(gap), kind: upTo(1023), amount: upTo(255) }), 0, max)

const model: fc.Arbitrary<ModelPlan> = fc.record({
  layout: oneOf('packed', 'adjacent', 'split', 'page-first'),
  layers: fc.integer({ min: 1, max: 8 }),
  wordsEven: oneOf(128, 256, 175, 512),
  wordsOdd: oneOf(128, 256, 130, 1024),
  groups: oneOf(1, 2),
  tokensFactor: oneOf(1, 2),
  second: oneOf('full-attention', 'sliding-window', 'checkpoint'),
  windowTokens: oneOf(1, 16, 40, 1000),
  ranks: oneOf(1, 1, 2),
  pages: fc.integer({ min: 3, max: 14 }),
})

const sizes: fc.Arbitrary<SizesPlan> = fc.record({
  stores: oneOf(1, 1, 2),
  shardsPerStore: oneOf(1, 1, 2),
  poolBlocks: fc.integer({ min: 3, max: 9 }),
  shardBlocks: fc.integer({ min: 1, max: 12 }),
  queueBlocks: fc.integer({ min: 1, max: 6 }),
  budgetBlocks: oneOf(3, 5, 8, 12, 16, 24, 48),
  entriesMax: oneOf(64, 64, 32, 12, 6),
  readRoute: oneOf('dram', 'dram', 'uring'),
  ssd: oneOf(true, true, true, true, true, true, true, false),
  leaseUs: oneOf(20_000, 5_000, 1_500),
  queryUs: oneOf(20_000, 6_000, 2_000),
  publishWaitUs: oneOf(4_000, 1_000, 200),
  assemblyAgeUs: oneOf(20_000, 5_000, 1_500),
  ringCapacity: oneOf(256, 2, 1),
  readDepth: oneOf(32, 8, 2, 1),
  writeDepth: oneOf(32, 4, 1),
  parts: oneOf(4, 2, 1),
  partDescriptors: oneOf(16, 4, 1),
  storeReads: oneOf(64, 2, 1),
  descriptorsPerRecord: oneOf(512, 8, 1),
  publishPartBytes: oneOf(1 << 20, 4096, 1),
  queriesPerSession: oneOf(64, 8, 3),
  prepareUs: oneOf(10_000, 2_000, 300),
  warmUs: oneOf(10_000, 1_000, 100),
  readBatchBlocks: oneOf(0, 0, 0, 1, 2),
  readBatchesMax: oneOf(0, 0, 1, 2),
  readTimeoutUs: oneOf(0, 0, 0, 1_000, 200),
  writePolicy: oneOf('all', 'all', 'all', 'reuse'),
  protectedBlocks: oneOf(0, 0, 1, 3),
  lfuAdmission: oneOf(false, false, false, true),
  slots: oneOf(16, 4, 2),
  jobsMax: oneOf(128, 2, 1),
})

const halfOf = (kinds: readonly FaultKind[]) =>
  fc.subarray([...kinds], { minLength: 0, maxLength: Math.floor(kinds.length / 2) })

const gpu: fc.Arbitrary<GpuPlan> = fc.record({
  backend: oneOf('none', 'uring', 'auto', 'auto', 'cufile', 'cufile', 'cufile'),
  readPath: oneOf(null, null, null, 'cufile', 'uring'),
  engines: fc.tuple(oneOf(true, false, true), oneOf(true, false, true), oneOf(false, true)),
  drops: oneOf(true, false, true, true),
  poolRoom: oneOf(1, 1, 1, 4),
  shardRoom: oneOf(1, 8, 8),
  permits: oneOf(8, 2, 1),
  slotFactor: oneOf(1, 1, 2, 8),
  off: halfOf(STAGING_FAULTS),
  reads: draws(40, 8),
  writes: draws(32, 16),
  scatters: draws(12, 24),
  parts: draws(16, 16),
  opens: draws(3, 4),
})

const codec: fc.Arbitrary<CodecPlan> = fc.record({
  name: oneOf(...new Array<'none'>(8).fill('none'), 'fp8', 'fp8', 'ans', 'turboquant-4', 'turboquant-3'),
  wordsFactor: oneOf(1, 2, 4),
  off: halfOf(CODEC_FAULTS),
  encodes: draws(40, 12),
  decodes: draws(60, 2),
  partDescriptors: oneOf(256, 3, 1),
  unfitOneIn: oneOf(0, 8, 2, 2),
})

const plans: fc.Arbitrary<Plan> = fc
  .record({
    models: fc.array(model, { minLength: 1, maxLength: 2 }),
    engines: some(
      fc.record({ model: upTo(1), scheduler: fc.boolean(), commands: fc.noBias(some(command, 0, 1_500)) }),
      1,
      3,
    ),
    sizes,
    off: halfOf(HOST_FAULTS),
    reads: draws(40, 8),
    writes: draws(32, 24),
    copies: draws(24, 60),
    checksums: draws(8, 40),
    hints: draws(12, 30),
    control: draws(6, 8),
    sends: draws(4, 90),
    wakes: draws(16, 300),
    rings: draws(12, 200),
    processes: draws(5, 1_500),
    wakeUs: delays(12),
    ringUs: delays(8),
    diskUs: delays(180),
    copyUs: delays(60),
    wireUs: delays(40),
    engineUs: delays(30),
    drainAtUs: fc.oneof(
      { arbitrary: fc.constant(null), weight: 7 },
      { arbitrary: fc.integer({ min: 500, max: 30_000 }), weight: 1 },
    ),
    drainLimitUs: oneOf(1_000_000, 300, 0),
    gpu,
    codec,
  })
  .map((plan) => (plan.drainAtUs === null ? { ...plan, drainLimitUs: 1_000_000 } : plan))
  .map((plan) => (plan.codec.name === 'none' ? plan : { ...plan, gpu: { ...plan.gpu, scatters: sooner(plan.gpu) } }))

/** Under a codec less is copied from slots: its faults come sooner, or not at all. */
function sooner({ scatters }: GpuPlan): FaultDraw[] {
  return scatters.map((draw) => ({ ...draw, gap: draw.gap >> 3 }))
}

export const planArbitrary = fc.noBias(plans)
