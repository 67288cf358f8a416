import { perform, type SsdWorkerSinks } from '../../src/actors/ssd-worker/effects.js'
import {
  resultsOf,
  type SsdWorkerEffect,
  type SsdWorkerInput,
  SsdWorkerMachine,
} from '../../src/actors/ssd-worker/machine.js'
import type { SsdWorkerReply } from '../../src/actors/ssd-worker/messages.js'
import type { Channel } from './channel.js'
import { StagingCheck } from './checks/staging.js'
import { Lane } from './lane.js'
import { cancelled, nativeOf } from './lanes.js'
import { GPU, type Limits } from './limits.js'
import type { ManagerProcess } from './manager-process.js'
import type { StagingPort } from './staging.js'
import { SimTally } from './tally.js'

/** ssd-worker: the real machine and effects over simulated staging, every step of it checked. */
export class SsdWorkerLane extends Lane<SsdWorkerInput, SsdWorkerEffect> {
  readonly device: StagingPort
  readonly check: StagingCheck
  readonly #sinks: SsdWorkerSinks

  constructor(manager: ManagerProcess, { slotBytes }: Limits, replies: () => Channel<SsdWorkerReply>) {
    const { sizes, codec } = manager.plan
    const { partDescriptors } = sizes
    const tally = new SimTally()
    const codedDescriptors = codec.name === 'none' ? 0 : codec.partDescriptors
    const results = new Uint32Array(resultsOf(codedDescriptors))
    const machine = new SsdWorkerMachine({ slotBytes, partDescriptors, codedDescriptors }, results, tally)
    const check = new StagingCheck(manager, manager.twin.ssdWorker?.(machine) ?? machine, tally)
    super(manager, 'ssd-worker', tally, check, () => machine.nextTickUs)
    this.check = check
    this.device = manager.openStagings(this.actor, results, (tag, result) =>
      this.step({ kind: 'completed', tag, result }),
    )
    this.#sinks = {
      native: nativeOf(manager),
      port: this.device,
      device: GPU.name,
      streams: new Map(),
      client: { send: (reply: SsdWorkerReply) => replies().send(reply) },
      codecBudgetBytes: 0,
      closing: () => {},
    } as unknown as SsdWorkerSinks
  }

  override step(input: SsdWorkerInput): void {
    if (input.kind === 'request' && input.request.kind === 'cancel') cancelled(this.manager, this.device)
    super.step(input)
  }

  protected act(effect: SsdWorkerEffect): void {
    const said = perform(this.#sinks, effect)
    if (said !== null) this.step(said)
  }
}
