/** Expected error: its message tells the operator what to do and is printed without a stack. The exit code is 1. */
export class Failure extends Error {
  override name = 'Failure';
}
