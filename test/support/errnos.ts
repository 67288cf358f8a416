import { constants } from 'node:os'

export const { EAGAIN, EIO, ENOSPC } = constants.errno
