import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { closeSync, existsSync, mkdirSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

/**
 * The test build of the addon: the release build's objects, linked with native/testing between them and the system.
 * Built when the first test asks for it and kept for as long as no source changes; never part of a package.
 */

const root = fileURLToPath(new URL('../../../', import.meta.url))
const folder = join(root, 'build', 'native', 'testing')
const addon = join(folder, 'orbitkv_testing.node')
const stamp = join(folder, 'sources')
const lock = join(root, 'build', 'testing.lock')
const preload = new URL('test-addon.js', import.meta.url)

const execute = promisify(execFile)

/** Longer than the slowest build on a busy machine. */
const BUILD_MS_MAX = 900_000

/** Everything that goes into it. */
function sources(): string {
  const files = (readdirSync(join(root, 'native'), { recursive: true }) as string[])
    .filter((file) => /\.(cc|h)$/.test(file))
    .map((file) => join('native', file))
  const hash = createHash('sha256').update(`${process.version} ${process.env['CXX'] ?? ''}`)
  for (const file of [...files.sort(), 'CMakeLists.txt']) hash.update(file).update(readFileSync(join(root, file)))
  return hash.digest('hex')
}

function isFresh(wanted: string): boolean {
  return existsSync(addon) && existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted
}

/** True when the process that made the lock has gone without taking it away. */
function isStale(): boolean {
  try {
    process.kill(Number(readFileSync(lock, 'utf8')), 0)
    return false
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH'
  }
}

/** One build at a time, of all processes that run tests. */
async function whileLocked(build: () => Promise<void>): Promise<void> {
  mkdirSync(join(root, 'build'), { recursive: true })
  for (;;) {
    try {
      const fd = openSync(lock, 'wx')
      writeFileSync(fd, String(process.pid))
      closeSync(fd)
      break
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
      if (isStale()) rmSync(lock, { force: true })
      else await delay(50)
    }
  }
  try {
    await build()
  } finally {
    rmSync(lock, { force: true })
  }
}

/** The path of the test build, built if need be. @throws Error with the compiler's words. */
export async function testAddon(): Promise<string> {
  const wanted = sources()
  if (isFresh(wanted)) return addon
  await whileLocked(async () => {
    if (isFresh(wanted)) return
    const words = [join(root, 'scripts', 'build-native.mjs'), '-T', 'orbitkv_testing']
    // The thread stays free: a test runner that hears nothing of a process for minutes takes it for dead.
    await execute(process.execPath, words, { timeout: BUILD_MS_MAX }).catch(
      (error: Error & { stdout?: string; stderr?: string }) => {
        throw new Error(`Cannot build the test addon:\n${error.stdout ?? ''}${error.stderr ?? error.message}`)
      },
    )
    writeFileSync(stamp, wanted)
  })
  return addon
}

/** What the environment of a process needs besides its own, so that it and its threads run the test build. */
export async function testAddonEnvironment(): Promise<Readonly<Record<string, string>>> {
  const given = process.env['NODE_OPTIONS'] ?? ''
  return { NODE_OPTIONS: `${given} --import=${preload.href}`.trim(), ORBITKV_TEST_ADDON: await testAddon() }
}
