import { type SpawnSyncReturns, spawnSync } from 'node:child_process'

/**
 * Runs a command under a system call filter that answers the io_uring calls with `errno`, as container runtimes do.
 * Needs python3 on Linux; no privilege.
 */
export function runWithoutUring(errno: number, command: string, args: readonly string[]): SpawnSyncReturns<string> {
  return spawnSync('python3', ['-c', FILTER, String(errno), command, ...args], { encoding: 'utf8' })
}

/** The same filter as words that stand before a command line. */
export function launcherWithoutUring(errno: number): readonly string[] {
  return ['python3', '-c', FILTER, String(errno)]
}

/** Three comparisons of the call's number (425 to 427 on every architecture), then allow. */
const FILTER = `
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
refuse = 0x00050000 | int(sys.argv[1])
code = [(0x20, 0, 0, 0)]
code += [(0x15, 3 - i, 0, 425 + i) for i in range(3)]
code += [(0x06, 0, 0, 0x7fff0000), (0x06, 0, 0, refuse)]
program = b''.join(struct.pack('HBBI', *line) for line in code)
memory = ctypes.create_string_buffer(program)
filter = struct.pack('HxxxxxxP', len(code), ctypes.addressof(memory))
if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, filter, 0, 0) != 0:
    sys.exit('no filter: ' + os.strerror(ctypes.get_errno()))
os.execvp(sys.argv[2], sys.argv[2:])
`
