/** Expected error: its message says what the operator can do, and is printed without a stack. The exit code is 1. */
export class Failure extends Error {
  override name = 'Failure';
}
