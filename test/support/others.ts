import { spawnSync } from 'node:child_process'
import { accessSync, constants, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { managerCommand } from './manager-child.js'

/** Other users and other kernels' habits: launchers that stand before a command line, or why there is none. */

/** A launcher, or the reason why this machine has none. */
export type Launcher = { readonly command: readonly string[] } | { readonly missing: string }

export const NOBODY_UID = 65_534

function runs(command: readonly string[]): boolean {
  const [name, ...args] = command
  return spawnSync(name as string, args, { stdio: 'ignore' }).status === 0
}

/** Runs a command as user nobody, who must be able to read node and the Manager. */
export function asNobody(): Launcher {
  if (process.getuid?.() !== 0) return { missing: 'only root may become another user' }
  const command = ['setpriv', `--reuid=${NOBODY_UID}`, `--regid=${NOBODY_UID}`, '--clear-groups']
  if (!runs([...command, 'true'])) return { missing: 'setpriv does not work here' }
  const files = managerCommand()
  if (!runs([...command, process.execPath, '-e', `require('fs').readFileSync(${JSON.stringify(files.at(-1))})`])) {
    return { missing: 'user nobody cannot read the Manager that is tested' }
  }
  return { command }
}

/** Mounts an empty filesystem over `folder` for the command alone, in a mount namespace of its own. */
export function mounting(type: 'ramfs' | 'tmpfs', options: string, folder: string): Launcher {
  const unshare = process.getuid?.() === 0 ? ['unshare', '-m'] : ['unshare', '-rm']
  const script = `mount -t ${type} -o "$1" none "$2" && shift 2 && exec "$@"`
  const command = [...unshare, 'sh', '-c', script, 'sh', options, folder]
  const probe = mkdtempSync(join(tmpdir(), 'orbitkv-mount-'))
  try {
    if (runs([...command.slice(0, -1), probe, 'true'])) return { command }
    return { missing: `a ${type} cannot be mounted in a mount namespace here` }
  } finally {
    rmSync(probe, { recursive: true })
  }
}

/** A cgroup with a limit on memory, for the command alone; `remove` when it has ended. */
export function memoryLimited(bytes: number): Launcher & { readonly remove?: () => void } {
  const roots = [
    { folder: '/sys/fs/cgroup', limit: 'memory.max' },
    { folder: '/sys/fs/cgroup/memory', limit: 'memory.limit_in_bytes' },
  ]
  for (const { folder, limit } of roots) {
    const group = `${folder}/orbitkv-test-${process.pid}`
    // Of a folder that is no cgroup the kernel makes no such file.
    const made = `mkdir ${group} && test -f ${group}/cgroup.procs && echo ${bytes} > ${group}/${limit}`
    try {
      accessSync(dirname(group), constants.W_OK)
    } catch {
      continue
    }
    const remove = () => void spawnSync('rmdir', [group], { stdio: 'ignore' })
    if (!runs(['sh', '-c', made])) {
      remove()
      continue
    }
    return { command: ['sh', '-c', `echo $$ > ${group}/cgroup.procs && exec "$@"`, 'sh'], remove }
  }
  return { missing: 'no cgroup with a memory limit can be made here' }
}
