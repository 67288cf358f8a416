import type { Context } from '../context.js'

/**
 * A cuFile operation failed for the device's sake: `code` is -errno or minus a cuFile status. Under `auto` this stops
 * new cuFile work, is counted and reported once; explicit routes go on as they are. What was submitted is untouched.
 */
export function routeFailed(context: Context, code: number): void {
  if (!context.routes.failed()) return
  context.tally.ssdFellBack()
  context.out.push({ kind: 'control', reply: { kind: 'ssd-fallback', code } })
}
