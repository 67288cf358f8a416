import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { folderOf } from '../support/folder.js'
import { buildProgram, noCompiler, runProgram } from '../support/native-program.js'
import { needs } from '../support/needs.js'
import { useCudaShims } from '../support/shims.js'

/** The addon's own objects, where the build has left them. */
const OBJECTS = 'build/native/CMakeFiles/orbitkv_objects.dir/native'
const built = existsSync(OBJECTS)
const held = needs(
  built && noCompiler === '',
  built ? noCompiler : `${OBJECTS} is not here: the addon was built elsewhere`,
)

const objectsIn = (folder: string, names: RegExp): string[] =>
  readdirSync(join('native', folder))
    .filter((file) => names.test(file))
    .map((file) => `${OBJECTS}/${folder}/${file}.o`)

const sources = (): string[] => [
  'test/native/programs/cuda_stream.cc',
  ...['base', 'cuda', 'device', 'nvcomp', 'shim'].flatMap((folder) => objectsIn(folder, /\.cc$/)),
  ...objectsIn('codec', /\.cc$/),
  ...objectsIn('memory', /^(copy_template|engine_memory|mapping|memfd|pool|host_memory)\.cc$/),
  ...objectsIn('port', /^completion_sink\.cc$/),
]

held('a CUDA stream polls without memory, expects no more than is left, and orders streams by events', async (t) => {
  t.timeout(600_000)
  useCudaShims()
  const faults = join(folderOf(t), 'faults')
  writeFileSync(faults, new Uint8Array(4096))
  process.env['ORBITKV_SHIM_FAULTS'] = faults
  const program = await buildProgram(t, sources(), { flags: ['-ldl'] })
  t.deepEqual(await runProgram(program, [faults]), { end: 0, said: 'every claim held\n' })
})
