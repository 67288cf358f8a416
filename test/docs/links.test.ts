import { existsSync, readdirSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import test from 'ava'
import { document, ROOT } from '../support/document.js'

const FOLDERS_LEFT_OUT = new Set(['node_modules', 'build', 'dist', '.git', 'shared'])

/** Every Markdown file of the repository, by its path from the root. */
function documents(folder = ROOT): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return FOLDERS_LEFT_OUT.has(entry.name) ? [] : documents(path)
    return entry.name.endsWith('.md') ? [relative(ROOT, path)] : []
  })
}

/** The anchor that a heading gets. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^a-z0-9 _-]/g, '')
    .trim()
    .replaceAll(' ', '-')
}

function anchors(text: string): Set<string> {
  return new Set([...withoutCode(text).matchAll(/^#+ (.*)$/gm)].map((match) => anchorOf(match[1] ?? '')))
}

function withoutCode(text: string): string {
  return text.replace(/^```[\s\S]*?^```/gm, '')
}

/** Links of a document that lead nowhere in this repository. */
function broken(path: string, text: string): string[] {
  const prose = withoutCode(text).replace(/`[^`\n]*`/g, '')
  const targets = [...prose.matchAll(/\]\(([^)\s]+)\)/g)].map((match) => match[1] ?? '')
  return targets.filter((target) => {
    if (/^(https?|mailto):/.test(target)) return false
    const [file, anchor] = target.split('#') as [string, string | undefined]
    const to = file === '' ? path : relative(ROOT, join(ROOT, dirname(path), file))
    if (to.startsWith('..') || !existsSync(join(ROOT, to))) return true
    return anchor !== undefined && !(to.endsWith('.md') && anchors(document(to)).has(anchor))
  })
}

/** Files that a document names in backticks with a folder before them: they must be there. */
function missingFiles(text: string): string[] {
  const named = [
    ...text.matchAll(/`((?:src|native|test|scripts|docs|python|bench)\/[\w./-]+\.(?:ts|mjs|cc|h|md|json|py|jsonl))`/g),
  ]
  return named.map((match) => match[1] ?? '').filter((file) => !existsSync(join(ROOT, file)))
}

test('every relative link in every document resolves, with its anchor', (t) => {
  const pages = documents()
  t.true(pages.length > 10)
  for (const path of pages) t.deepEqual(broken(path, document(path)), [], path)
})

test('links: a file that is gone, an anchor that is gone and a way out of the repository are noticed', (t) => {
  const text = '[a](docs/nothing.md) [b](docs/errors.md#nothing) [c](../../elsewhere.md) [d](#here)\n'
  t.deepEqual(broken('README.md', text), ['docs/nothing.md', 'docs/errors.md#nothing', '../../elsewhere.md', '#here'])
  t.deepEqual(broken('README.md', '# Here\n[a](docs/errors.md#start-up) [b](https://example.org) [c](README.md)'), [])
})

test('every source file that a document names exists', (t) => {
  for (const path of documents()) t.deepEqual(missingFiles(document(path)), [], path)
  t.deepEqual(missingFiles('`src/shared/nothing.ts` and `src/cli/flags.ts`'), ['src/shared/nothing.ts'])
})

test('README.md: the first screen says how to try it and how to test it', (t) => {
  const screen = document('README.md').split('\n').slice(0, 60).join('\n')
  t.true(screen.includes('npm ci && npm run demo'))
  t.true(screen.includes('npm ci && npm test'))
})

test('ARCHITECTURE.md stays under 300 lines and names its invariants', (t) => {
  const text = document('ARCHITECTURE.md')
  t.true(text.split('\n').length < 300)
  t.true([...text.matchAll(/\*\*Invariant:\*\*/g)].length >= 8)
})

test('CHANGELOG.md has Unreleased on top with its four sections', (t) => {
  const headings = [...document('CHANGELOG.md').matchAll(/^##+ (.*)$/gm)].map((match) => match[1])
  t.deepEqual(headings.slice(0, 5), ['Unreleased', 'Safety', 'Performance', 'Features', 'Internals'])
})

test('decision pages are numbered without gaps and have the same parts', (t) => {
  const pages = documents()
    .filter((path) => path.startsWith('docs/decisions/'))
    .sort()
  t.true(pages.length >= 9)
  for (const [index, path] of pages.entries()) {
    const number = String(index + 1).padStart(4, '0')
    const text = document(path)
    t.true(path.startsWith(`docs/decisions/${number}-`), path)
    t.true(text.startsWith(`# ${number}: `), path)
    const parts = [...text.matchAll(/^## (.*)$/gm)].map((match) => match[1])
    t.deepEqual(parts, ['Context', 'Decision', 'What we gave up', 'Evidence', 'What would change our mind'], path)
  }
})
