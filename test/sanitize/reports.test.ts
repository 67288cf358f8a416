import test from 'ava'
import { reportsIn } from './reports.js'

/** Shortened from what gcc's runtimes print. */
const stack = (...frames: string[]) => frames.map((frame, index) => `    #${index} ${frame}`).join('\n')
const OURS = 'orbitkv::Port::Pump port.cc:97 (orbitkv.node+0x5a468)'
const NODES = 'v8::platform::DefaultJobState::Join() <null> (node+0x1d65cea)'

function race(first: string, second: string, creator: string): string {
  return `==================
WARNING: ThreadSanitizer: data race (pid=1)
  Write of size 8 at 0x7b30 by thread T5:
${stack('operator delete tsan_new_delete.cpp:150 (libtsan.so+0x86c3d)', first)}

  Previous atomic read of size 1 at 0x7b30 by main thread (mutexes: write M1):
${stack(second)}

  Mutex M1 is already destroyed.

  Thread T5 (tid=2, running) created by main thread at:
${stack('pthread_create (libtsan.so+0x5e686)', creator)}

SUMMARY: ThreadSanitizer: data race in somewhere
==================
`
}

const shown = (text: string) => reportsIn(text).map(({ what, inAddon }) => `${what} ${inAddon ? 'ours' : 'theirs'}`)

test('sanitizer reports: a race is ours when either access is, and not when only a thread was started by us', (t) => {
  t.deepEqual(shown(race(NODES, NODES, NODES)), ['data race theirs'])
  t.deepEqual(shown(race(OURS, NODES, NODES)), ['data race ours'])
  t.deepEqual(shown(race(NODES, OURS, NODES)), ['data race ours'])
  t.deepEqual(shown(race(NODES, NODES, OURS)), ['data race theirs'])
  t.is(reportsIn(race(NODES, NODES, NODES) + race(OURS, NODES, NODES)).length, 2)
})

test('sanitizer reports: a descriptor that went from Node to the addon is no race, one between two of our threads is', (t) => {
  const onDescriptor = (first: string, second: string) =>
    race(first, second, NODES).replace(
      '  Mutex M1 is',
      '  Location is file descriptor 51 created by thread T1 at:\n\n  Mutex M1 is',
    )
  t.deepEqual(shown(onDescriptor(OURS, NODES)), ['data race theirs'])
  t.deepEqual(shown(onDescriptor(OURS, OURS)), ['data race ours'])
})

test("sanitizer reports: every lost block is a finding, and what V8 allocated in a call of ours is V8's", (t) => {
  const text = `
=================================================================
==7==ERROR: LeakSanitizer: detected memory leaks

Direct leak of 360 byte(s) in 9 object(s) allocated from:
${stack('operator new asan_new_delete.cpp:95 (libasan.so+0x1)', 'napi_create_reference (node+0x1)', OURS)}

Indirect leak of 8 byte(s) in 1 object(s) allocated from:
${stack('operator new asan_new_delete.cpp:95 (libasan.so+0x1)', NODES, 'napi_create_function (node+0x1)', OURS)}

SUMMARY: AddressSanitizer: 368 byte(s) leaked in 10 allocation(s).
`
  t.deepEqual(shown(text), ['leak ours', 'leak theirs'])
})

test('sanitizer reports: bad accesses and undefined behaviour are found under their names', (t) => {
  const access = `==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x60 at pc 0x7f\n${stack(OURS)}\n`
  t.deepEqual(shown(access), ['heap-use-after-free ours'])
  t.deepEqual(shown('/src/native/a.cc:42:42: runtime error: signed integer overflow: 1 + 1\n'), ['runtime error ours'])
  t.deepEqual(shown('ThreadSanitizer: reported 0 warnings\nnothing else\n'), [])
})
