import anyTest, { type ExecutionContext } from 'ava'

/** A test body. */
export type Body = (t: ExecutionContext) => void | Promise<void>

/**
 * A declarer for tests that need something a machine may lack. Where it is missing the test is skipped, and its title
 * says why, so that the runner prints and counts the reason. Such tests run one after another within their file: they
 * share what they need.
 */
export function needs(available: boolean, reason: string): (title: string, body: Body) => void {
  return (title, body) => {
    if (available) anyTest.serial(title, body)
    else anyTest.serial.skip(`${title} [skipped: ${reason}]`, body)
  }
}
