/**
 * What sanitizers wrote, as reports. Node is not instrumented and has findings of its own, so a report counts against
 * the addon when a stack of it leads through the addon's file. Suppressing Node's findings by name would not do: its
 * frames lie under every frame of the addon.
 */

/** One finding. */
export interface Report {
  /** As the sanitizer names it: `data race`, `heap-use-after-free`, `leak`, `runtime error`. */
  readonly what: string
  readonly inAddon: boolean
  readonly text: string
}

/** The file that the addon is; stacks are printed with module names. */
const ADDON = 'orbitkv.node'

/** A race is between its two accesses; who started the threads, and where the mutexes are, proves nothing. */
const ACCESS = /^\s*(previous )?(atomic )?(read|write) of size/i

function paragraphs(text: string): string[] {
  return text.split(/\n\s*\n/)
}

/** Frames of the runtime and of libraries, which do for their caller what it asked for. */
const RUNTIME = /lib(asan|tsan|ubsan|stdc\+\+|c)\.so/

/**
 * An access is the addon's when the addon made it, itself or through such a library. What V8 does with its own memory
 * in the middle of a call of ours (collecting garbage, ending its jobs) has a frame of ours further out, and is V8's.
 */
function isOurs(stack: string): boolean {
  const frames = stack.split('\n').filter((line) => /^\s*#\d/.test(line) && !RUNTIME.test(line))
  return frames[0]?.includes(ADDON) === true
}

function threadReport(block: string): Report | null {
  const what = /WARNING: ThreadSanitizer: ([^(\n]+?) \(pid/.exec(block)?.[1]
  if (what === undefined) return null
  const lines = block.slice(block.indexOf('WARNING: ThreadSanitizer'))
  const body = lines.slice(lines.indexOf('\n') + 1)
  const stacks = paragraphs(body).filter((each) =>
    what === 'data race' ? ACCESS.test(each) : !/created by/.test(each.split('\n', 1)[0] as string),
  )
  const ours = stacks.filter(what === 'data race' ? isOurs : (each) => each.includes(ADDON)).length
  // Node closes and io_uring opens descriptors by system calls that the runtime does not see, so a number that went from
  // Node to the addon looks shared: on a descriptor both sides must be ours.
  const needed = /^\s*Location is file descriptor/m.test(body) ? stacks.length : 1
  return { what, inAddon: ours > 0 && ours >= needed, text: block.trim() }
}

/**
 * A block is the addon's when the addon allocated it, itself or by one call of Node-API, such as a reference that it
 * never gave back. What V8 allocates further down, in a call of ours, is V8's: its heap lives as long as the thread.
 */
function leaks(text: string): Report[] {
  return paragraphs(text)
    .filter((each) => /^(Direct|Indirect) leak of/m.test(each))
    .map((each) => {
      const frames = each.split('\n').filter((line) => /^\s*#\d/.test(line) && !RUNTIME.test(line))
      return { what: 'leak', inAddon: frames.slice(0, 2).some((frame) => frame.includes(ADDON)), text: each.trim() }
    })
}

function memoryReport(block: string): Report[] {
  const what = /ERROR: (?:Address|Leak)Sanitizer: ([\w-]+)/.exec(block)?.[1]
  if (what === undefined) return []
  if (what === 'detected') return leaks(block)
  // Memory that Node damages is Node's; a stack of ours among those of access, free and allocation makes it ours.
  return [{ what, inAddon: block.includes(ADDON), text: block.trim() }]
}

/** All reports in what one process wrote. */
export function reportsIn(text: string): Report[] {
  const thread = text.split(/^={18}$/m).flatMap((block) => threadReport(block) ?? [])
  const memory = text.split(/^(?===\d+==ERROR: )/m).flatMap(memoryReport)
  const undefinedBehaviour = [...text.matchAll(/^\S+:\d+:\d+: runtime error: .*$/gm)].map(([line]) => ({
    // Only the addon is compiled with this check.
    what: 'runtime error',
    inAddon: true,
    text: line,
  }))
  return [...thread, ...memory, ...undefinedBehaviour]
}
