import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { CapabilityError } from '../shared/base/errors.js'
import type { Native } from './surface.js'

/** The addon's place under the package's root, whether this file runs from src or from dist. */
const ADDON = join('build', 'native', 'Release', 'orbitkv.node')

let loaded: Native | null = null

/**
 * Loads the addon once a thread. Every thread of the process shares one registry behind it.
 * @throws CapabilityError native_addon_missing when it was not built or does not fit this machine.
 */
export function loadNative(): Native {
  loaded ??= open(findAddon())
  return loaded
}

function findAddon(): string {
  let folder = dirname(fileURLToPath(import.meta.url))
  for (;;) {
    const candidate = join(folder, ADDON)
    if (existsSync(candidate)) return candidate
    const parent = dirname(folder)
    if (parent === folder) {
      throw new CapabilityError('native_addon_missing', `Cannot find ${ADDON}: build it with npm run build:native`)
    }
    folder = parent
  }
}

function open(path: string): Native {
  try {
    return createRequire(import.meta.url)(path) as Native
  } catch (cause) {
    throw new CapabilityError(
      'native_addon_missing',
      `Cannot load the native addon: ${cause instanceof Error ? cause.message : String(cause)}; build it again with npm run build:native`,
      { path },
      cause,
    )
  }
}
