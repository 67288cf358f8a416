import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { ExecutionContext } from 'ava'
import { loadNative } from '../../src/binding/load.js'
import { folderOf } from './folder.js'

const ENTRY = fileURLToPath(new URL('../../src/cli/cache-manager.js', import.meta.url))

/** A real Manager process of one test. */
export interface ManagerProcess {
  readonly socketPath: string
  readonly child: ChildProcess
  /** Sends a signal and waits for the process; its exit code, or null when the signal ended it. */
  end(signal: NodeJS.Signals): Promise<number | null>
}

/**
 * Starts `orbitkv-cache-manager` on a socket in `folder`, by default a new one, and waits until it serves.
 * Without an SSD tier it runs where io_uring is forbidden, too.
 */
export async function startManager(
  t: ExecutionContext,
  flags: readonly string[] = [],
  folder = folderOf(t),
): Promise<ManagerProcess> {
  chmodSync(folder, 0o700)
  const socketPath = join(folder, 'manager.sock')
  const always = ['--bootstrap-socket', socketPath, '--pool-size', '32mb', '--http-addr', '127.0.0.1:0']
  if (!loadNative().probe().available && !flags.includes('--ssd-io')) always.push('--ssd-io', 'posix')
  const child = spawn(process.execPath, [ENTRY, ...always, ...flags], { stdio: ['ignore', 'pipe', 'pipe'] })
  const exited = once(child, 'exit') as Promise<[number | null]>
  t.teardown(async () => {
    child.kill('SIGKILL')
    await exited
  })
  const said: string[] = []
  createInterface({ input: child.stderr }).on('line', (line) => said.push(line))
  const serving = new Promise<void>((resolve, reject) => {
    createInterface({ input: child.stdout }).on('line', (line) => {
      said.push(line)
      if (line.includes('"msg":"serving"')) resolve()
    })
    exited.then(() => reject(new Error(`the Manager ended:\n${said.join('\n')}`)))
  })
  await serving
  return {
    socketPath,
    child,
    async end(signal) {
      child.kill(signal)
      return (await exited)[0]
    },
  }
}
