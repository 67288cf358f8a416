import { writeFileSync } from 'node:fs'
import { GOLDEN_FILE, makeGolden } from './golden-wire.js'

// Run after a deliberate change of the frame table: node dist/test/support/write-golden-wire.js, then read the diff.
const lines = makeGolden().map((vector) => `  ${JSON.stringify(vector)}`)
writeFileSync(GOLDEN_FILE, `[\n${lines.join(',\n')}\n]\n`)
