import test from 'ava'
import { CodecWorkspaces } from '../../src/binding/codec-workspace.js'

test('CodecWorkspaces: streams are summed, and what a closed one allocated stays counted', (t) => {
  const streams = new Map([
    [3, [10, 100, 2]],
    [4, [0, 50, 1]],
  ])
  const workspaces = new CodecWorkspaces({
    codecWorkspace: (stream, into) => into.set(streams.get(stream) ?? []),
  })
  const said: number[][] = []
  const reader = { workspace: (...numbers: number[]) => said.push(numbers) }
  workspaces.tell(reader, [3, 4])
  workspaces.closing(3)
  workspaces.tell(reader, [4])
  workspaces.tell(reader, [])
  t.deepEqual(said, [
    [10, 150, 3],
    [0, 50, 3],
    [0, 0, 2],
  ])
})
