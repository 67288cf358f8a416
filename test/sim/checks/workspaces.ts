import type { ManagerProcess } from '../manager-process.js'
import { must } from '../violation.js'

/** What lanes hold for codecs on a device ends before its last rank has left (D1). Called after every step of the Manager. */
export function checkWorkspaces({ machine, wiring }: ManagerProcess): void {
  const served = new Set<number>()
  for (const { hold } of machine.context.sessions) if (hold !== null) served.add(hold.lanes.index)
  for (const [index, lanes] of wiring.copying.entries()) {
    if (served.has(index)) continue
    for (const { name, device } of lanes) {
      must(!device.holdsWorkspace, 'D1', () => `${name} holds a workspace, and no rank has pages there`)
    }
  }
}
