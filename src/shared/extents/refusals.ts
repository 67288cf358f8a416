/** Why a reservation was refused. Negative, so that one number is either an extent or a reason. */

/** The extent is larger than the whole shard: waiting never helps. */
export const REFUSED_TOO_LARGE = -1
/** Every run that is long enough holds an extent that is pinned or in flight. */
export const REFUSED_PINNED = -2
/** No extent number is free and none can be taken from an extent that may be overwritten. */
export const REFUSED_TABLE_FULL = -3

export type Refusal = typeof REFUSED_TOO_LARGE | typeof REFUSED_PINNED | typeof REFUSED_TABLE_FULL
