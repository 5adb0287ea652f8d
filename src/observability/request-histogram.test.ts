import { Registry } from 'prom-client';
import { describe, expect, it } from 'vitest';
import { HTTP_ROUTES, RequestHistogram } from './request-histogram.ts';

const GET = 'GET';
const LIST = 'list';

async function exposition(...histograms: RequestHistogram[]): Promise<string> {
  const parts = await Promise.all(
    histograms.map((histogram) => {
      const registry = new Registry();
      registry.registerMetric(histogram as never);
      return registry.getMetricsAsJSON();
    }),
  );
  return Registry.aggregate(parts as never).metrics();
}

const make = () => new RequestHistogram(new Registry(), 'duration_seconds', 'Time');
const value = (text: string, sample: string) =>
  Number(
    text
      .split('\n')
      .find((line) => line.startsWith(`${sample} `))
      ?.slice(sample.length + 1),
  );

describe('a histogram of requests', () => {
  it('counts each duration in its bucket and in all above', async () => {
    const histogram = make();
    for (const seconds of [0, 1e-4, 1.1e-4, 0.003, 60]) histogram.at(LIST, GET).count(200, seconds, 0);
    const text = await exposition(histogram);
    const labels = 'http_route="/hotels",method="GET",status="200"';
    const bucket = (le: string) =>
      [`le="${le}",${labels}`, `${labels},le="${le}"`]
        .map((all) => value(text, `duration_seconds_bucket{${all}}`))
        .find((count) => !Number.isNaN(count));
    expect(['0.0001', '0.00025', '0.0025', '0.005', '5', '+Inf'].map(bucket)).toEqual([2, 3, 3, 4, 4, 5]);
    expect(value(text, `duration_seconds_count{${labels}}`)).toBe(5);
    expect(value(text, `duration_seconds_sum{${labels}}`)).toBeCloseTo(60.00321, 9);
  });

  it('sums the bytes that a route sent, over all methods and statuses', () => {
    const histogram = make();
    histogram.at(LIST, GET).count(200, 0.001, 1_000);
    histogram.at(LIST, GET).count(404, 0.001, 50);
    histogram.at(LIST, 'HEAD').count(500, 0.001, 30);
    histogram.at('hotel', GET).count(200, 0.001, 7);
    expect(['list', 'hotel', 'page'].map((route) => histogram.sentBytes(route as 'list'))).toEqual([
      1_080, 7, 0,
    ]);
  });

  it('exports the series that alerts divide from the start, and no others', () => {
    const counts = make()
      .get()
      .values.filter(({ metricName }) => metricName!.endsWith('_count'));
    expect(counts.every(({ value }) => value === 0)).toBe(true);
    expect(counts.map(({ labels }) => Object.values(labels).join(' ')).sort()).toEqual(
      [
        ...(
          ['list', 'hotel', 'hotel_by_channel', 'hotel_by_registry', 'changes', 'key', 'page'] as const
        ).map((route) => `${HTTP_ROUTES[route]} GET`),
        ...(['batch', 'batch_by_channel', 'batch_by_registry'] as const).map(
          (route) => `${HTTP_ROUTES[route]} POST`,
        ),
      ]
        .flatMap((what) => [200, 500, 503].map((status) => `${what} ${status}`))
        .sort(),
    );
  });
});
