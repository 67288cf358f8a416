import test from 'ava'
import fc from 'fast-check'
import { loadNative } from '../../src/binding/load.js'
import { ITEM_CODING } from '../../src/shared/layout/descriptors.js'
import type { RankSpec } from '../../src/shared/layout/regions.js'
import { type CopyTemplate, templateOf } from '../../src/shared/layout/templates.js'
import { codedRank, codedWorlds } from '../support/coded-worlds.js'
import { catches, holds } from '../support/model-commands.js'
import { instanceOf } from '../support/regions.js'

const native = loadNative()

/** The rank's template over memory of its size; what the addon says against it, or null. */
function refusalOf(spec: RankSpec, change: (template: CopyTemplate) => CopyTemplate): string | null {
  const fd = native.createMemory(spec.allocationBytes[0] as number)
  const { mapping } = native.importMemory(fd)
  native.closeFd(fd)
  const template = templateOf(instanceOf([spec]), 0, 0, [mapping])
  try {
    const { items, granuleFirstItem, codings } = change(template as CopyTemplate)
    const number =
      codings === undefined
        ? native.defineTemplate(items, granuleFirstItem)
        : native.defineTemplate(items, granuleFirstItem, codings)
    native.releaseTemplate(number)
    return null
  } catch (error) {
    return (error as Error).message
  } finally {
    native.releaseMapping(mapping)
  }
}

/** The addon takes every template that the policy makes, after `change`. */
function taken(change: (template: CopyTemplate) => CopyTemplate) {
  return fc.property(codedWorlds, (world) => refusalOf(codedRank(world), change) === null)
}

test('coded templates: whatever the policy gives a layer, the addon takes', (t) => {
  t.true(
    holds(
      taken((template) => template),
      150,
    ),
  )
})

test('coded templates: twins that code one layer more, or with a head of another length, are refused', (t) => {
  const codesRaw = (template: CopyTemplate): CopyTemplate => {
    const codings = template.codings?.slice()
    const other =
      codings?.findIndex((value, at) => at % ITEM_CODING.doubles === ITEM_CODING.format && value === 0) ?? -1
    if (codings !== undefined && other >= 0) codings[other + ITEM_CODING.format] = 2
    return { ...template, codings }
  }
  const longer = (template: CopyTemplate): CopyTemplate => ({
    ...template,
    codings: template.codings?.map((value, at) =>
      at % ITEM_CODING.doubles === ITEM_CODING.headDim ? value * 3 : value,
    ),
  })
  for (const twin of [codesRaw, longer]) t.true(catches(taken(twin), 150))
})
