/** What a target found wrong with one input. */
export interface Breach {
  /** `crash`: it threw what it must not, or gave what it must not. `state`: it changed what it must leave alone. */
  readonly kind: 'crash' | 'state'
  readonly what: string
}

/** One decoder under fire: what is fed to it, and the rule that holds for every input. */
export interface Target {
  readonly name: string
  /** Inputs that mean something; mutations start from them. */
  readonly seeds: readonly Uint8Array[]
  /** Runs one input, which is the caller's again afterwards. */
  run(input: Uint8Array): Breach | null
}

/** A target with a weakness in front of the decoder when `weak`: the loop must find it. */
export type MakeTarget = (weak: boolean) => Target

export function crash(what: string): Breach {
  return { kind: 'crash', what }
}
