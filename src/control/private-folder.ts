import { lstatSync, mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { opening } from '../binding/errors.js'
import { ConfigError } from '../shared/base/errors.js'

/** Where the socket of a port is unless a flag says otherwise: in a folder that only this user can enter. */
export function defaultSocketPath(port: number, uid: number, runtimeFolder: string | undefined): string {
  const folder =
    runtimeFolder === undefined || runtimeFolder === '' ? `/tmp/orbitkv-${uid}` : `${runtimeFolder}/orbitkv`
  return `${folder}/${port}.sock`
}

/**
 * Makes the folder of a socket or takes an existing one that is private: a real folder, ours, closed to others.
 * @throws ConfigError path_refused, IoError io_open_failed
 */
export function ensurePrivateFolder(path: string, uid: number): void {
  const folder = dirname(path)
  const stat = opening('folder', () => {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    return lstatSync(folder)
  })
  const ours = stat.isDirectory() && stat.uid === uid && (stat.mode & 0o077) === 0
  if (ours) return
  throw new ConfigError(
    'path_refused',
    `Cannot put the socket into ${folder}: it must be a folder of this user that others cannot enter (mode 0700)`,
    { folder, owner: stat.uid, mode: (stat.mode & 0o777).toString(8) },
  )
}
