// Everything that `npm run lint` holds: format, types, layers. Takes no arguments; exits non-zero at the first breach.
import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')

function run(title, command, args) {
  const result = spawnSync(command, args, { cwd: root, encoding: 'utf8' })
  if (result.status === 0) {
    console.log(`✓ ${title}`)
    return
  }
  console.log(`✗ ${title}`)
  console.log(result.stdout + result.stderr)
  process.exit(1)
}

const bin = (name) => join(root, 'node_modules/.bin', name)
const sources = readdirSync(join(root, 'native'), { recursive: true })
  .filter((file) => /\.(cc|h)$/.test(file))
  .map((file) => join('native', file))

run('format and lint (biome)', bin('biome'), ['check', '--error-on-warnings', '.'])
if (sources.length > 0)
  run('format (clang-format)', bin('clang-format'), ['--dry-run', '--Werror', '-style=file', ...sources])
run('types of the deterministic core (no Node types)', bin('tsc'), ['-p', 'tsconfig.shared.json'])
run('types', bin('tsc'), ['-p', 'tsconfig.json', '--noEmit'])
run('layers', process.execPath, ['scripts/check-layers.mjs'])
