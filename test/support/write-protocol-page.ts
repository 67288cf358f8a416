import { writeFileSync } from 'node:fs'
import { drawTable, PROTOCOL_PAGE, readPage } from './protocol-page.js'

// Run after a deliberate change of the frame table: node dist/test/support/write-protocol-page.js
const { before, after } = readPage()
writeFileSync(PROTOCOL_PAGE, `${before}${drawTable()}${after}`)
