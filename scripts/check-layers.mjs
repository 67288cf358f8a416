// Reads every import under src/ and holds it against one table: who may import whom. Also refuses import circles and
// uses of a word outside the one folder that owns it. The table is the architecture; change it with a decision page.
// Usage: check-layers.mjs [root of a tree with src/]
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = process.argv[2] ?? join(dirname(fileURLToPath(import.meta.url)), '..')
const src = join(root, 'src')

/** Room -> rooms it may import besides itself. `node` and package names count as rooms of their own. */
const ALLOWED = {
  'shared/base': [],
  'shared/rings': ['shared/base', 'shared/layout'],
  'shared/*': ['shared/*'],
  binding: ['shared/*', 'node'],
  'actors/runtime': ['shared/base', 'shared/rings', 'shared/layout', 'binding', 'node'],
  'actors/*': ['shared/*', 'actors/runtime', 'binding', 'node', 'actors/*/messages'],
  manager: ['shared/*', 'actors/runtime', 'actors/*/messages', 'binding', 'node'],
  client: ['shared/*', 'binding', 'node'],
  control: [
    'shared/*',
    'actors/*',
    'actors/runtime',
    'manager',
    'binding',
    'node',
    'comlink',
    'pino',
    'prom-client',
    'piscina',
  ],
  http: ['shared/*', 'control', 'node'],
  cli: ['shared/*', 'control', 'http', 'client', 'binding', 'node', 'pino', 'piscina'],
  embedded: ['shared/*', 'actors/runtime', 'control', 'client', 'binding', 'node', 'comlink'],
  index: ['shared/*', 'actors/runtime', 'control', 'client', 'embedded', 'node'],
}

/** Every machine.ts and messages.ts decides from shared nouns and messages alone, and so does all that it reaches. */
const PURE = /(^|\/)(machine|messages)\.ts$/

/** A word and the only folders that may hold it. */
const OWNED = [
  { word: /\bAtomics\./, only: ['shared/rings/'], name: 'Atomics' },
  { word: /\.node['"`]/, only: ['binding/load.ts'], name: 'the .node file' },
  { word: /\bprocess\.argv\b/, only: ['cli/'], name: 'process.argv' },
]

const breaches = []
const files = readdirSync(src, { recursive: true }).filter((file) => file.endsWith('.ts'))
const graph = new Map()
/** Imports of a file that reach Node, the addon or a package. */
const outside = new Map()

function roomOf(path) {
  const parts = path.split('/')
  if (parts[0] === 'shared' || parts[0] === 'actors') return parts.length > 2 ? `${parts[0]}/${parts[1]}` : parts[0]
  return parts.length > 1 ? parts[0] : parts[0].replace(/\.ts$/, '')
}

function allows(room, target, targetPath) {
  if (room === target) return true
  const list = ALLOWED[room] ?? ALLOWED[room.replace(/\/.*/, '/*')]
  if (list === undefined) return false
  return list.some((entry) => {
    if (entry === 'actors/*/messages') return /^actors\/[^/]+\/messages\.ts$/.test(targetPath)
    if (entry === 'actors/*') return target.startsWith('actors/') && target !== 'actors/runtime'
    return entry === target || (entry.endsWith('/*') && target.startsWith(entry.slice(0, -1)))
  })
}

for (const file of files) {
  const text = readFileSync(join(src, file), 'utf8')
  const room = roomOf(file)
  const edges = []
  outside.set(file, [])
  for (const match of text.matchAll(/(?:^|[\s;}])(?:from|import)\s*\(?\s*['"]([^'"]+)['"]/g)) {
    const specifier = match[1]
    let target
    let targetPath = specifier
    if (specifier.startsWith('node:')) target = 'node'
    else if (specifier.startsWith('.')) {
      targetPath = relative(src, join(src, dirname(file), specifier)).replace(/\.js$/, '.ts')
      target = roomOf(targetPath)
      edges.push(targetPath)
    } else target = specifier.split('/')[0]
    if (!specifier.startsWith('.') || target === 'binding') outside.get(file).push(specifier)
    if (!allows(room, target, targetPath)) breaches.push(`src/${file}: ${room} may not import ${specifier}`)
    const ports = targetPath.endsWith('/messages.ts') || targetPath.endsWith('/machine.ts')
    const sameFolder = dirname(targetPath) === dirname(file) || (room === 'manager' && target === 'manager')
    if (PURE.test(file) && !target.startsWith('shared/') && !ports && !sameFolder) {
      breaches.push(`src/${file}: decides, so it imports only shared, messages and its own nouns, not ${specifier}`)
    }
  }
  graph.set(file, edges)
  const code = text.replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '')
  for (const { word, only, name } of OWNED) {
    if (word.test(code) && !only.some((owner) => file.startsWith(owner))) {
      breaches.push(`src/${file}: ${name} belongs to ${only.join(', ')} alone`)
    }
  }
}

const visited = new Map()
function walk(file, trail) {
  if (visited.get(file) === 'done') return
  if (visited.get(file) === 'open') {
    breaches.push(`import circle: ${[...trail.slice(trail.indexOf(file)), file].join(' -> ')}`)
    return
  }
  visited.set(file, 'open')
  for (const next of graph.get(file) ?? []) walk(next, [...trail, file])
  visited.set(file, 'done')
}
for (const file of graph.keys()) walk(file, [])

for (const file of graph.keys()) {
  if (!PURE.test(file)) continue
  const reached = new Set(graph.get(file))
  for (const next of reached) {
    const effects = outside.get(next) ?? []
    for (const specifier of effects) {
      breaches.push(`src/${file}: decides, but reaches ${specifier} through src/${next}`)
    }
    // What an impure file reaches in turn would only say the same again.
    if (effects.length === 0) for (const further of graph.get(next) ?? []) reached.add(further)
  }
}

for (const breach of breaches) console.log(breach)
console.log(`${files.length} files, ${breaches.length} breaches`)
process.exit(breaches.length === 0 ? 0 : 1)
