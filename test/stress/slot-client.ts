/**
 * A Python client that hammers completion slots through what ships, orbitkv.slots.SlotLines: it submits on every free
 * slot, polls, and checks that what an end says is a function of slot and generation. Arguments: slots, operations, and
 * `any` for a twin that believes a payload with whatever op id it has. Descriptors 3 and 4 are the two files.
 * Prints: operations ended, torn ends, generations that went back.
 */
export const SLOT_CLIENT = `
import os, sys
from orbitkv.slots import DONE, SlotLines

count, operations = int(sys.argv[1]), int(sys.argv[2])
any_op_id = sys.argv[3] == "any"
lines = SlotLines(3, 4, count)
generations = [0] * count
ended = torn = backwards = submitted = 0
last_done_ns = [0] * count
running = [False] * count
print("ready", flush=True)
while ended < operations:
  came = False
  for slot in range(count):
    if not running[slot]:
      if submitted == operations: continue
      submitted += 1
      generations[slot] += 1
      lines.submit(slot, generations[slot], generations[slot])
      running[slot] = True
      continue
    generation = generations[slot]
    if any_op_id: lines._op_ids[slot] = lines._manager[slot * 8 + 1]
    end = lines.poll(slot, generation)
    if end is None: continue
    came = True
    expected = (DONE, generation % 7, None, generation * 65536 + slot, generation * 1000, (generation + 1) * 1000)
    if (end.state, end.error_code, end.first_failed, end.bytes, end.admit_ns, end.done_ns) != expected: torn += 1
    if end.done_ns <= last_done_ns[slot]: backwards += 1
    last_done_ns[slot] = end.done_ns
    lines.free(slot, generation)
    running[slot] = False
    ended += 1
  if not came: os.sched_yield()
print(ended, torn, backwards, flush=True)
`
