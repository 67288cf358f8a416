import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { NvcompReport } from '../../src/binding/codecs.js'
import { loadNative } from '../../src/binding/load.js'
import { shimMissing } from '../support/cufile-shim.js'
import { folderOf } from '../support/folder.js'
import { needs } from '../support/needs.js'
import { type NvcompFile, NvcompShim, nvcompShim } from '../support/nvcomp-shim.js'

const native = loadNative()
const missing = shimMissing()
const shimTest = needs(missing === null, missing ?? '')

shimTest('a library that is not there, or is not nvCOMP, is a reason and no exception', (t) => {
  const absent = native.openNvcomp('/nowhere/libnvcomp.so.5')
  t.like(absent, { available: false, reason: 'no-library', version: 0 })
  t.true(absent.path.includes('/nowhere/libnvcomp.so.5'), absent.path)
  const other = native.openNvcomp('libm.so.6')
  t.like(other, { available: false, reason: 'no-symbol', version: 0 })
  t.is(other.path, 'libm.so.6')
})

shimTest('a path that is no text, or has a NUL in it, is a bug of the caller', (t) => {
  for (const given of [5, null, undefined, 'lib\0nvcomp']) {
    t.throws(() => native.openNvcomp(given as string), { instanceOf: TypeError })
  }
})

// One library a process: what refuses it comes first, then what it is when it is open.
shimTest('nvCOMP of another version, or in part, is refused and says its version', (t) => {
  const shim = nvcompShim(folderOf(t))
  const fault = (name: NvcompFile, value: number, reason: NvcompReport['reason'], version: number) => {
    shim.tell(name, value)
    t.deepEqual(native.openNvcomp(shim.library), { available: false, reason, version, path: shim.library })
    shim.forget(name)
  }
  for (const version of [0, 4206, 5203, 5299, 5400, 6000]) fault('version', version, 'wrong-version', version)
  // It does not say which: then it is not one that is known.
  fault('properties', 10, 'wrong-version', 0)

  const part = new NvcompShim(shim.folder, false)
  t.like(native.openNvcomp(part.library), { reason: 'no-symbol', version: 5300, path: part.library })
  // 6.x lacks or changes what 5.3 has: its version is what is told.
  shim.tell('version', 6000)
  t.is(native.openNvcomp(part.library).reason, 'wrong-version')

  shim.tell('version', 5399)
  const opened = { available: true, reason: 'ok', version: 5399, path: shim.library } as const
  t.deepEqual(native.openNvcomp(shim.library), opened)
  shim.tell('version', 5300)
  t.deepEqual(native.openNvcomp('/nowhere/libnvcomp.so.5'), opened, 'what is open stays')
})

shimTest('without a path the loader finds libnvcomp.so.5', (t) => {
  const shim = new NvcompShim(folderOf(t))
  const load = pathToFileURL(join(process.cwd(), 'dist/src/binding/load.js')).href
  const script = `import { loadNative } from '${load}'; console.log(JSON.stringify(loadNative().openNvcomp('')))`
  const print = execFileSync(process.execPath, ['--input-type=module', '-e', script], {
    env: { ...process.env, LD_LIBRARY_PATH: shim.folder },
    encoding: 'utf8',
  })
  t.deepEqual(JSON.parse(print), { available: true, reason: 'ok', version: 5300, path: shim.library })
})
