import { ASSETS } from './assets.ts';
import { renderGuide } from './guide.ts';
import { type Deployment, openApiDocument } from './openapi.ts';

/** What is written of a deployment, once, for all its workers: they start sooner without what it is written with. */
export interface Documents {
  /** JSON */
  openApi: string;
  /** HTML */
  guide: string;
}

export function writeDocuments(deployment: Deployment): Documents {
  return {
    openApi: openApiDocument(deployment),
    guide: renderGuide(deployment, deployment.basePath + ASSETS),
  };
}
