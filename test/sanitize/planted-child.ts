import { loadNative } from '../../src/binding/load.js'

/** Runs one planted bug of a test build and ends as any process does. */
const { planted } = loadNative() as unknown as { planted?: (bug: string) => void }
if (planted === undefined) throw new Error('this build of the addon has no planted bugs')
planted(process.argv[2] ?? '')
