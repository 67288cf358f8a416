import { Feed, type Finding, type Progress, tried } from './loop.js'
import { Mutator, Random } from './mutate.js'
import { NATIVE_TARGETS, nativeProgram, replayNative, runNative } from './native.js'
import { HTTP_SEEDS, openHttpTarget } from './targets/http.js'
import { TARGETS } from './targets/index.js'

/**
 * `npm run fuzz -- [--seconds N] [--seed S] [--json]`: mutations of what every decoder expects, native ones in a process
 * under sanitizers on one core, those of TypeScript here on another. `--target NAME --replay HEX` runs one input again.
 * The last line is one JSON object; the exit code is 0 when no rule was broken.
 */

/** Each target in turn has this long; then the requests of the HTTP target. */
const TURN_MS = 20
/** Requests at once, and in one turn: a listener takes 64 connections. */
const REQUESTS = 8
const say = (line: string) => void process.stderr.write(`${line}\n`)

// Most inputs are refused; their stacks are of no interest and most of the time.
Error.stackTraceLimit = 0

function argument(name: string): string | undefined {
  const at = process.argv.indexOf(name)
  return at < 0 ? undefined : process.argv[at + 1]
}

function number(name: string, fallback: number): number {
  const text = argument(name)
  const value = text === undefined ? fallback : Number(text)
  if (Number.isFinite(value) && value >= 0) return value
  say(`Cannot use ${name} ${text}: a number is needed, for example ${name} 60`)
  process.exit(2)
}

/** Targets of TypeScript, one after another, until `endMs`. */
async function runHere(seed: number, endMs: number): Promise<Progress[]> {
  const feeds = TARGETS.map((make, index) => new Feed(make(false), seed * 1000 + index))
  const http = await openHttpTarget(false)
  const requests: Progress = { target: 'http', records: 0, finding: null }
  const mutator = new Mutator(new Random(seed * 1000 + feeds.length))
  while (performance.now() < endMs) {
    for (const feed of feeds) {
      const turnEnd = Math.min(endMs, performance.now() + TURN_MS)
      feed.turn(Number.POSITIVE_INFINITY, () => performance.now() >= turnEnd)
    }
    if (requests.finding !== null) continue
    const inputs = Array.from({ length: REQUESTS }, () => mutator.draw(HTTP_SEEDS).slice())
    const breaches = await Promise.all(inputs.map((input) => http.run(input)))
    requests.records += inputs.length
    breaches.forEach((breach, index) => {
      const hex = Buffer.from(inputs[index] as Uint8Array).toString('hex')
      if (breach !== null) requests.finding ??= { target: 'http', hex, breach }
    })
    if (!(await http.alive())) {
      requests.finding ??= { target: 'http', hex: '', breach: { kind: 'crash', what: '/health answers no more' } }
    }
  }
  await http.close()
  return [...feeds.map(({ progress }) => progress), requests]
}

async function replay(target: string, hex: string): Promise<string> {
  const input = Uint8Array.from(Buffer.from(hex, 'hex'))
  if ((NATIVE_TARGETS as readonly string[]).includes(target)) return replayNative(await nativeProgram(), target, hex)
  if (target === 'http') {
    const http = await openHttpTarget(false)
    const breach = await http.run(input)
    await http.close()
    return breach === null ? 'every rule holds' : breach.what
  }
  const made = TARGETS.map((make) => make(false)).find(({ name }) => name === target)
  if (made === undefined) return `There is no target ${target}`
  const breach = tried(made, input)
  return breach === null ? 'every rule holds' : `${breach.kind}: ${breach.what}`
}

async function main(): Promise<void> {
  const hex = argument('--replay')
  if (hex !== undefined) return void process.stdout.write(`${await replay(argument('--target') ?? '', hex)}\n`)
  const seconds = number('--seconds', 60)
  const seed = number('--seed', Date.now() % 1_000_000)
  const program = await nativeProgram()
  say(`seed ${seed}`)
  const start = performance.now()
  const native = runNative(program, { seed, seconds, records: 0, target: 'all', weak: false })
  const here = await runHere(seed, start + seconds * 1000)
  const all = [...(await native), ...here]
  const findings = all.flatMap(({ finding }): Finding[] => (finding === null ? [] : [finding]))
  for (const { target, hex: input, breach } of findings) {
    say(`${target}: ${breach.what}\n  npm run fuzz -- --target '${target}' --replay ${input}`)
  }
  const count = (kind: 'crash' | 'state') => findings.filter(({ breach }) => breach.kind === kind).length
  const report = {
    seed,
    seconds: Math.round((performance.now() - start) / 100) / 10,
    records: all.reduce((sum, { records }) => sum + records, 0),
    crashes: count('crash'),
    stateChanges: count('state'),
    perTarget: Object.fromEntries(all.map(({ target, records }) => [target, records])),
  }
  process.stdout.write(`${JSON.stringify(report)}\n`)
  process.exitCode = findings.length === 0 ? 0 : 1
}

await main()
