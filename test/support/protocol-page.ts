import { readFileSync } from 'node:fs'
import type { Field } from '../../src/shared/layout/wire/fields.js'
import { isRequestKind, MESSAGES, type MessageKind } from '../../src/shared/layout/wire/messages.js'

/** Draws the frame table as text for docs/internals/protocol.md, which a test holds to it. */

export const PROTOCOL_PAGE = new URL('../../../docs/internals/protocol.md', import.meta.url)
const BEGIN = '<!-- frame table: begin -->\n'
const END = '<!-- frame table: end -->'

function lines(field: Field<unknown>, indent: string): string[] {
  return Object.entries(field.shape ?? {}).flatMap(([name, part]) => {
    const inner = part.item?.shape === undefined ? part : part.item
    const heading = `${indent}${name}`.padEnd(24)
    const said = part.shape === undefined ? part.drawn : 'these:'
    return [`${heading} ${said}`.trimEnd(), ...lines(inner, `${indent}  `)]
  })
}

function drawMessage(kind: MessageKind): string {
  const { type, body } = MESSAGES[kind]
  const way = isRequestKind(kind) ? 'client to Manager' : 'Manager to client'
  const fields = lines(body, '  ')
  return [`${kind}: type ${type}, ${way}`, ...(fields.length === 0 ? ['  (no fields)'] : fields)].join('\n')
}

/** The part of the page between its markers. */
export function drawTable(): string {
  const kinds = Object.keys(MESSAGES) as MessageKind[]
  return `\`\`\`text\n${kinds.map(drawMessage).join('\n\n')}\n\`\`\`\n`
}

/** The committed page, split at the markers. */
export function readPage(): { before: string; table: string; after: string } {
  const page = readFileSync(PROTOCOL_PAGE, 'utf8')
  const begin = page.indexOf(BEGIN) + BEGIN.length
  const end = page.indexOf(END)
  if (begin < BEGIN.length || end < begin) throw new Error('docs/internals/protocol.md has lost its markers')
  return { before: page.slice(0, begin), table: page.slice(begin, end), after: page.slice(end) }
}
