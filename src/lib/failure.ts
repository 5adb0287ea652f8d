/** Expected error: its message says what the operator can do, and is printed without a stack. */
export class Failure extends Error {
  override name = 'Failure';
  /** 1 failed, 2 wrong usage */
  readonly exitCode: 1 | 2;

  constructor(message: string, exitCode: 1 | 2 = 1) {
    super(message);
    this.exitCode = exitCode;
  }
}
