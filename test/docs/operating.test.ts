import test from 'ava'
import { DRAM_WORKER_LAYOUT } from '../../src/actors/dram-worker/params.js'
import { HOST_READER_LAYOUT } from '../../src/actors/host-reader/params.js'
import { HOST_RESTORE_LAYOUT } from '../../src/actors/host-restore/params.js'
import { SSD_WORKER_LAYOUT } from '../../src/actors/ssd-worker/params.js'
import { WRITEBACK_LAYOUT } from '../../src/actors/writeback/params.js'
import { FLAGS } from '../../src/cli/flags.js'
import { REFUSED_FLAGS } from '../../src/cli/refused-flags.js'
import { ABSENT_METRICS } from '../../src/control/metrics/absent.js'
import { featureOf } from '../../src/control/metrics/features.js'
import { exportedName, familiesOf } from '../../src/control/metrics/page-metrics.js'
import { metricsOf } from '../../src/control/metrics/registry.js'
import { MANAGER_DEFAULTS } from '../../src/manager/options.js'
import { managerLayout } from '../../src/manager/series.js'
import { createCounterPage } from '../../src/shared/rings/counter-page.js'
import { codeOf, document, tableRows, tableUnder } from '../support/document.js'

const TEXT = document('docs/operating.md')

const PAGES = [
  managerLayout(MANAGER_DEFAULTS.reuseWindows),
  DRAM_WORKER_LAYOUT,
  HOST_RESTORE_LAYOUT,
  HOST_READER_LAYOUT,
  WRITEBACK_LAYOUT,
  SSD_WORKER_LAYOUT,
].map((layout) => ({ buffer: createCounterPage(layout), layout }))

/** Flags of the page with their defaults as they are typed; null: unset. */
function flagsOf(text: string): [string, string | null][] {
  return tableUnder(text, 'Flags').map((row) => [codeOf(row[0]) ?? '', row[1] === 'unset' ? null : codeOf(row[1])])
}

/** Metric and kind of every row that explains one, by name. */
function metricsOfPage(text: string): [string, string][] {
  return tableRows(text)
    .flatMap((row): [string, string][] => {
      const name = codeOf(row[0])
      return name?.startsWith('orbitkv_') === true ? [[name, row[1] ?? '']] : []
    })
    .sort(([a], [b]) => (a < b ? -1 : 1))
}

test('docs/operating.md has every flag with its default, in the order of --help, and no other', (t) => {
  const flags = Object.entries(FLAGS).map(([name, flag]) => [`--${name}`, flag.default])
  t.deepEqual(flagsOf(TEXT), flags)
  t.notDeepEqual(flagsOf(TEXT.replace('| `--lease-ttl` | `30s` |', '| `--lease-ttl` | `60s` |')), flags)
  t.notDeepEqual(flagsOf(TEXT.replace(/^\| `--ssd-io`.*\n/m, '')), flags)
})

test('docs/operating.md: a flag with choices names each of them', (t) => {
  const rows = new Map(tableUnder(TEXT, 'Flags').map((row) => [codeOf(row[0]), row[2] ?? '']))
  for (const [name, flag] of Object.entries(FLAGS)) {
    if (!('choices' in flag)) continue
    for (const choice of flag.choices) t.true(rows.get(`--${name}`)?.includes(`\`${choice}\``), `--${name} ${choice}`)
  }
})

test('docs/operating.md has every exported metric once, with its kind, and no other', async (t) => {
  const registry = metricsOf(
    PAGES,
    () => true,
    { io: 'uring', ssd: 'on' },
    () => MANAGER_DEFAULTS.routes,
    true,
  )
  const exported = (await registry.getMetricsAsJSON())
    .map(({ name, type }): [string, string] => [name, String(type)])
    .sort(([a], [b]) => (a < b ? -1 : 1))
  t.true(exported.length > 50)
  t.deepEqual(metricsOfPage(TEXT), exported)
  t.notDeepEqual(metricsOfPage(TEXT.replace(/^\| `orbitkv_leases`.*\n/m, '')), exported)
  t.notDeepEqual(metricsOfPage(`${TEXT}\n| \`orbitkv_leases\` | gauge | twice |\n`), exported)
})

test('docs/operating.md names every label value that a metric may have', (t) => {
  const rows = new Map(tableRows(TEXT).map((row) => [codeOf(row[0]), row[2] ?? '']))
  let labelled = 0
  for (const { name, read } of familiesOf(PAGES, () => true)) {
    for (const { labels } of read()) {
      for (const [label, value] of Object.entries(labels)) {
        if (label === 'le') continue
        labelled++
        t.true(rows.get(name)?.includes(`${label} is `), `${name}: ${label}`)
        t.true(rows.get(name)?.includes(`\`${value}\``), `${name}: ${value}`)
      }
    }
  }
  t.true(labelled >= 10)
})

test('docs/operating.md: metrics that its advice names exist', (t) => {
  const known = new Set(metricsOfPage(TEXT).map(([name]) => name))
  for (const [, name] of TEXT.matchAll(/`(orbitkv_[a-z0-9_]+)`/g)) t.true(known.has(name as string), name)
})

/** Code of the first column of the table under a heading of the third level, and its second column. */
function rowsUnder(heading: string): [string, string][] {
  return tableUnder(TEXT, heading).map((row) => [codeOf(row[0]) ?? '', row[1] ?? ''])
}

test('docs/operating.md lists every flag that is refused by name, with its reason, and none that exists', (t) => {
  t.deepEqual(
    rowsUnder('Flags that are refused'),
    Object.entries(REFUSED_FLAGS).map(([name, why]) => [`--${name}`, why]),
  )
  for (const name of Object.keys(REFUSED_FLAGS)) t.false(Object.hasOwn(FLAGS, name), name)
})

test('docs/operating.md lists every upstream metric that is absent, with why, and none that is exported', (t) => {
  t.deepEqual(
    rowsUnder('Metrics that are absent'),
    Object.entries(ABSENT_METRICS).map(([name, why]) => [name.endsWith('_') ? `${name}...` : name, why]),
  )
  const exported = familiesOf(PAGES, () => true).map(({ name }) => name.replace(/^orbitkv_/, ''))
  for (const absent of Object.keys(ABSENT_METRICS)) {
    t.deepEqual(
      exported.filter((name) => name.startsWith(absent)),
      [],
    )
  }
})

test('docs/operating.md says of every series that needs a policy flag which flag it is', (t) => {
  const rows = new Map(tableRows(TEXT).map((row) => [codeOf(row[0]), row[2] ?? '']))
  const flags = { protection: '--cache-protected-percent', lfu: '--enable-lfu-admission' } as const
  const families = new Map<string, Set<string | null>>()
  for (const { layout } of PAGES) {
    for (const spec of layout.series) {
      const name = exportedName(spec)
      families.set(name, (families.get(name) ?? new Set()).add(featureOf(spec)))
    }
  }
  let told = 0
  for (const [name, features] of families) {
    const [feature] = features
    if (features.size !== 1 || (feature !== 'protection' && feature !== 'lfu')) continue
    t.true(rows.get(name)?.includes(`with \`${flags[feature]}\` alone`), name)
    told++
  }
  t.is(told, 4)
})
