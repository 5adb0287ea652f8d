/** So many requests in each window, counted for all workers of an instance together. */
export interface RateLimit {
  requests: number;
  windowMs: number;
}

/** A worker asks for requests it may admit in the present window. */
export interface LeaseRequest {
  id: string;
  limit: RateLimit;
  /** admitted already, on credit */
  taken: number;
  wanted: number;
}

/** What the primary gives: fewer than wanted only where nothing is left. */
export interface LeaseGrant {
  id: string;
  granted: number;
  /** of the window's requests, after this grant; somebody else may have taken them since */
  left: number;
  /** until the window ends and all is to be had again */
  resetInMs: number;
}
