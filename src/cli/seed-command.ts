import { count, Progress } from './progress.ts';
import { seed } from './seed.ts';
import { print, withDatabase } from './session.ts';

/** Runs `seed --hotels N`. */
export async function seedCommand(options: {
  hotels: number;
  seed: number;
  today?: string;
  ifEmpty?: boolean;
  json?: boolean;
}): Promise<void> {
  const { hotels, today = new Date().toISOString().slice(0, 10) } = options;
  const progress = new Progress('seeding', hotels, count('hotel'));
  const startedAtMs = performance.now();
  let inserted: number;
  try {
    inserted = await withDatabase((sql) =>
      seed(sql, hotels, { ...options, today, onProgress: (done) => progress.at(done) }),
    );
  } finally {
    progress.stop();
  }
  const seconds = ((performance.now() - startedAtMs) / 1000).toFixed(1);
  const result = { inserted, seed: options.seed, today };
  print(
    options.json,
    result,
    `${inserted} hotels, seed ${options.seed}, certified as of ${today}, in ${seconds} s`,
  );
}
