import { renderGuide } from './guide.ts';
import { type Deployment, openApiDocument } from './openapi.ts';

export interface Documents {
  /** JSON */
  openApi: string;
  /** HTML */
  guide: string;
}

/** Writes the documents of a deployment once for all workers, which start faster without the libraries for it. */
export function writeDocuments(deployment: Deployment): Documents {
  return { openApi: openApiDocument(deployment), guide: renderGuide(deployment) };
}
