/** An error that was foreseen: its message is for the operator, says what to do, and is printed without a stack. Exit code 1. */
export class Failure extends Error {
  override name = 'Failure';
}
