import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The repository's root: the folder of package.json, from source and from dist alike. */
export const ROOT = ((): string => {
  for (let folder = dirname(fileURLToPath(import.meta.url)); ; folder = dirname(folder)) {
    if (readdirSync(folder).includes('package.json')) return folder
  }
})()

/** Text of a document, by its path from the root. */
export function document(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8')
}

/** Cells of every table row of a document, without header and rule rows; a pipe inside code must be escaped. */
export function tableRows(text: string): string[][] {
  const lines = text.split('\n')
  return lines
    .filter((line, at) => line.startsWith('|') && !isRule(line) && !isRule(lines[at + 1] ?? ''))
    .map((line) =>
      line
        .replace(/^\||\|\s*$/g, '')
        .split(/(?<!\\)\|/)
        .map((cell) => cell.trim().replaceAll('\\|', '|')),
    )
}

function isRule(line: string): boolean {
  return /^\|[\s:|-]+$/.test(line)
}

/** The rows under one heading, up to the next heading of any level. */
export function tableUnder(text: string, heading: string): string[][] {
  const lines = text.split('\n')
  const start = lines.findIndex((line) => /^#+ /.test(line) && line.replace(/^#+ /, '') === heading)
  if (start < 0) throw new Error(`There is no heading '${heading}'`)
  const length = lines.slice(start + 1).findIndex((line) => /^#+ /.test(line))
  return tableRows(lines.slice(start + 1, length < 0 ? undefined : start + 1 + length).join('\n'))
}

/** What a cell says between its first pair of backticks, or null. */
export function codeOf(cell: string | undefined): string | null {
  return /`([^`]+)`/.exec(cell ?? '')?.[1] ?? null
}
