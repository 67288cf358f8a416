import { buildProgram, noCompiler, runProgram } from '../support/native-program.js'
import { needs } from '../support/needs.js'

const held = needs(noCompiler === '', noCompiler)

held('cuda: choice and cutting are those of a naive model, to the byte, and twelve twins are not', async (t) => {
  t.timeout(600_000)
  const sources = ['test/native/programs/transfer_choice.cc', 'native/cuda/choice.cc', 'native/cuda/runs.cc']
  const program = await buildProgram(t, sources, { sanitize: 'address,undefined' })
  t.deepEqual(await runProgram(program, []), { end: 0, said: 'every claim held\n' })
})
