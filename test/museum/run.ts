import { COLLECTION, NOT_HERE } from './collection.js'
import { look, type Verdict } from './exhibit.js'

/**
 * `npm run museum [-- --json] [--only TEXT]`: plants every bug, looks for it, and runs the same check without it. The
 * last line is one JSON object. Exits non-zero when one was not found within its bound, or without its plant.
 */
function main(): boolean {
  const json = process.argv.includes('--json')
  const at = process.argv.indexOf('--only')
  const only = at < 0 ? '' : (process.argv[at + 1] ?? '')
  const exhibits: Verdict[] = []
  for (const exhibit of COLLECTION.filter(({ id }) => id.includes(only))) {
    const verdict = look(exhibit)
    exhibits.push(verdict)
    if (!json)
      console.log(
        `${verdict.found ? 'found' : 'MISSED'} ${verdict.id}: ${verdict.what}\n      ${verdict.operations} operations: ${verdict.said}`,
      )
  }
  const found = exhibits.filter((verdict) => verdict.found).length
  for (const { id, said } of exhibits.filter((verdict) => !verdict.found)) {
    process.stderr.write(`${id} was not found: ${said ?? 'nothing was wrong'}\n`)
  }
  console.log(JSON.stringify({ found, total: exhibits.length, notHere: NOT_HERE, exhibits }))
  return exhibits.length > 0 && found === exhibits.length
}

process.exitCode = main() ? 0 : 1
