import { ProtocolError } from '../../../src/shared/base/errors.js'
import { decodeFrame, decodeHeader, encodeFrame, helloVersions } from '../../../src/shared/layout/wire/frame.js'
import { FRAME_BYTES_MAX, LENGTH_WORD_BYTES } from '../../../src/shared/layout/wire/limits.js'
import { readGolden } from '../../support/golden-wire.js'
import { crash, type MakeTarget } from '../target.js'

/** The frames of the golden vectors, without their length words. */
export function goldenFrames(): Uint8Array[] {
  return readGolden().map(({ frame }) => Uint8Array.from(Buffer.from(frame, 'hex')).subarray(LENGTH_WORD_BYTES))
}

/**
 * Frames of the socket. A frame is refused with a ProtocolError, or its message encodes to the frame again: every
 * byte had a meaning.
 */
export const wire: MakeTarget = (weak) => {
  const scratch = new Uint8Array(FRAME_BYTES_MAX)
  const decode = (frame: Uint8Array) => {
    helloVersions(frame)
    decodeHeader(frame)
    try {
      return decodeFrame(frame)
    } catch (error) {
      // The weakness: what is left over behind the message does not matter.
      const left = error instanceof ProtocolError && /left over/.test(error.message)
      if (weak && left) return decodeFrame(frame.subarray(0, frame.length - Number(error.values['value'])))
      throw error
    }
  }
  return {
    name: 'wire',
    seeds: goldenFrames(),
    run(input) {
      let framed: ReturnType<typeof decodeFrame>
      try {
        framed = decode(input)
      } catch (error) {
        return error instanceof ProtocolError ? null : crash(`threw ${String(error)}`)
      }
      const bytes = encodeFrame(scratch, framed.request, framed.message)
      return Buffer.compare(scratch.subarray(0, bytes), input) === 0
        ? null
        : crash('a frame decodes that its message does not encode to')
    },
  }
}
