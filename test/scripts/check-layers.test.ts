import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import test from 'ava'
import { ROOT } from '../support/document.js'

interface Outcome {
  readonly code: number | null
  readonly lines: readonly string[]
}

/** Runs the script over a tree of files under src/. */
function check(files: Readonly<Record<string, string>>): Outcome {
  const root = mkdtempSync(join(tmpdir(), 'orbitkv-layers-'))
  try {
    for (const [path, text] of Object.entries(files)) {
      const file = join(root, 'src', path)
      mkdirSync(dirname(file), { recursive: true })
      writeFileSync(file, text)
    }
    const run = spawnSync(process.execPath, [join(ROOT, 'scripts/check-layers.mjs'), root], { encoding: 'utf8' })
    return { code: run.status, lines: run.stdout.trim().split('\n') }
  } finally {
    rmSync(root, { recursive: true })
  }
}

/** A small tree with one file in most rooms; nothing in it is wrong. */
const CLEAN = {
  'shared/base/units.ts': 'export const KIB = 1024\n',
  'shared/layout/records.ts': "export { KIB } from '../base/units.js'\n",
  'shared/rings/cells.ts': "import { KIB } from '../base/units.js'\nAtomics.load(words, KIB)\n",
  'shared/leases/table.ts': "import { KIB } from '../base/units.js'\nexport const bytes = KIB\n",
  'binding/load.ts': "import { join } from 'node:path'\nexport const path = join('a', 'orbitkv.node')\n",
  'actors/runtime/loop.ts': "import { path } from '../../binding/load.js'\nexport const at = path\n",
  'actors/saver/messages.ts': "import { KIB } from '../../shared/base/units.js'\nexport type M = typeof KIB\n",
  'actors/saver/machine.ts': "import type { M } from './messages.js'\nexport type State = M\n",
  'actors/saver/loop.ts': "import { at } from '../runtime/loop.js'\nexport const loop = at\n",
  'manager/machine.ts': "import type { M } from '../actors/saver/messages.js'\nexport type Verbs = M\n",
  'control/start.ts': "import { loop } from '../actors/saver/loop.js'\nexport const start = loop\n",
  'cli/main.ts': "import { start } from '../control/start.js'\nstart(process.argv)\n",
} as const

/** The clean tree with some files replaced or added must give exactly these breaches. */
const PLANTED: readonly {
  readonly what: string
  readonly files: Record<string, string>
  readonly says: readonly string[]
}[] = [
  {
    what: 'a shared noun that imports a lane',
    files: { 'shared/leases/table.ts': "import type { M } from '../../actors/saver/messages.js'\n" },
    says: ['src/shared/leases/table.ts: shared/leases may not import ../../actors/saver/messages.js'],
  },
  {
    what: 'a shared noun that imports Node',
    files: { 'shared/leases/table.ts': "import { readFileSync } from 'node:fs'\n" },
    says: ['src/shared/leases/table.ts: shared/leases may not import node:fs'],
  },
  {
    what: 'the base that imports anything',
    files: { 'shared/base/units.ts': "import '../leases/table.js'\n", 'shared/leases/table.ts': '' },
    says: ['src/shared/base/units.ts: shared/base may not import ../leases/table.js'],
  },
  {
    what: 'a lane that imports the manager, another lane or control',
    files: {
      'actors/saver/loop.ts': "import '../../manager/machine.js'\nexport const loop = 1\n",
      'actors/reader/loop.ts': "import '../saver/machine.js'\n",
      'actors/reader/effects.ts': "import '../../control/start.js'\n",
    },
    says: [
      'src/actors/reader/effects.ts: actors/reader may not import ../../control/start.js',
      'src/actors/reader/loop.ts: actors/reader may not import ../saver/machine.js',
      'src/actors/saver/loop.ts: actors/saver may not import ../../manager/machine.js',
    ],
  },
  {
    what: 'the runtime that learns a cache word',
    files: { 'actors/runtime/turn.ts': "import { bytes } from '../../shared/leases/table.js'\n" },
    says: ['src/actors/runtime/turn.ts: actors/runtime may not import ../../shared/leases/table.js'],
  },
  {
    what: 'a package outside the rooms that may use it, also by import() and export from',
    files: {
      'manager/log.ts': "export { default } from 'pino'\n",
      'http/server.ts': "const load = () => import('prom-client')\n",
    },
    says: ['src/http/server.ts: http may not import prom-client', 'src/manager/log.ts: manager may not import pino'],
  },
  {
    what: 'a room that the table does not have',
    files: { 'helpers/misc.ts': "import { KIB } from '../shared/base/units.js'\n" },
    says: ['src/helpers/misc.ts: helpers may not import ../shared/base/units.js'],
  },
  {
    what: 'a machine that reaches the addon at one remove',
    files: {
      'actors/saver/machine.ts': "import { now } from './clock.js'\nexport const at = now\n",
      'actors/saver/clock.ts': "import { path } from '../../binding/load.js'\nexport const now = path\n",
    },
    says: ['src/actors/saver/machine.ts: decides, but reaches ../../binding/load.js through src/actors/saver/clock.ts'],
  },
  {
    what: 'a machine that imports the runtime',
    files: { 'actors/saver/machine.ts': "import { at } from '../runtime/loop.js'\nexport const x = at\n" },
    says: [
      'src/actors/saver/machine.ts: decides, but reaches ../../binding/load.js through src/actors/runtime/loop.ts',
      'src/actors/saver/machine.ts: decides, so it imports only shared, messages and its own nouns, not ../runtime/loop.js',
    ],
  },
  {
    what: 'Atomics, the .node file and process.argv outside their folders',
    files: {
      'shared/leases/table.ts': 'Atomics.add(words, 0, 1)\n',
      'control/start.ts': "export const start = require('./orbitkv.node')\n",
      'manager/flags.ts': 'export const argv = process.argv\n',
    },
    says: [
      'src/control/start.ts: the .node file belongs to binding/load.ts alone',
      'src/manager/flags.ts: process.argv belongs to cli/ alone',
      'src/shared/leases/table.ts: Atomics belongs to shared/rings/ alone',
    ],
  },
  {
    what: 'a circle of imports',
    files: {
      'shared/leases/table.ts': "import './expiry.js'\n",
      'shared/leases/expiry.ts': "import './ended.js'\n",
      'shared/leases/ended.ts': "import './table.js'\n",
    },
    says: ['import circle'],
  },
]

test('check-layers: a clean tree has no breach', (t) => {
  t.deepEqual(check(CLEAN), { code: 0, lines: ['12 files, 0 breaches'] })
})

for (const { what, files, says } of PLANTED) {
  test(`check-layers: ${what} is a breach, and the only one`, (t) => {
    const { code, lines } = check({ ...CLEAN, ...files })
    t.is(code, 1)
    const breaches = lines.slice(0, -1).sort()
    t.is(breaches.length, says.length, breaches.join('\n'))
    for (const [at, text] of says.entries()) t.true(breaches[at]?.startsWith(text), breaches[at])
  })
}

test('check-layers: a word in a comment is no use of it', (t) => {
  const noted = '// Atomics.load would be wrong here\n/** process.argv belongs to cli */\nexport const bytes = 1\n'
  t.is(check({ ...CLEAN, 'shared/leases/table.ts': noted }).code, 0)
})
