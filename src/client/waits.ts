import { cancelledBy } from './failures.js'

/** Waits for `promise`, or throws CancelledError when the signal ends the wait; what was waited for goes on. */
export async function bySignal<T>(promise: Promise<T>, signal: AbortSignal | undefined, what: string): Promise<T> {
  if (signal === undefined) return await promise
  promise.catch(() => {})
  let leave!: () => void
  const left = new Promise<never>((_, reject) => {
    leave = () => reject(cancelledBy(signal, what))
  })
  if (signal.aborted) leave()
  else signal.addEventListener('abort', leave, { once: true })
  try {
    return await Promise.race([promise, left])
  } finally {
    signal.removeEventListener('abort', leave)
  }
}

/** Waits `ms` milliseconds, or throws CancelledError when the signal ends the wait. */
export async function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const elapsed = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms)
  })
  try {
    await bySignal(elapsed, signal, 'a wait')
  } finally {
    clearTimeout(timer)
  }
}
