import { ERROR_CODES } from '../base/errors.js'

/** -ENOMEM: what a codec says when an item does not fit its workspace. */
const NO_WORKSPACE = -12

/** What the failure of a coded part makes of its job. `result`: the -errno that the stream said of it. */
export function codedPartStatus(result: number): number {
  return result === NO_WORKSPACE ? ERROR_CODES.capacity_codec : ERROR_CODES.io_copy_failed
}
