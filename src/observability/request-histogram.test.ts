import { Registry } from 'prom-client';
import { expect, it } from 'vitest';
import { RequestHistogram } from './request-histogram.ts';
import { HTTP_ROUTES } from './routes.ts';

const make = () => new RequestHistogram(new Registry(), 'duration_seconds', 'Time');

it('counts each duration in its bucket and in all above', () => {
  const histogram = make();
  for (const seconds of [0, 1e-4, 1.1e-4, 0.003, 60]) histogram.at('list', 'GET').count(200, seconds, 0);
  const samples = new Map(
    histogram
      .get()
      .values.map(({ metricName, labels, value }) => [
        `${metricName} ${Object.values(labels).join(' ')}`,
        value,
      ]),
  );
  const value = (of: string, le = '') => samples.get(`duration_seconds_${of} /hotels GET 200${le}`);
  const buckets = ['0.0001', '0.00025', '0.0025', '0.005', '5', '+Inf'].map((le) =>
    value('bucket', ` ${le}`),
  );
  expect(buckets).toEqual([2, 3, 3, 4, 4, 5]);
  expect(value('count')).toBe(5);
  expect(value('sum')).toBeCloseTo(60.00321, 9);
});

it('exports the series that alerts divide from the start, and no others', () => {
  const counts = make()
    .get()
    .values.filter(({ metricName }) => metricName.endsWith('_count'));
  const series = Object.entries(HTTP_ROUTES)
    .filter(([route]) => route !== 'other')
    .flatMap(([route, path]) =>
      [200, 500, 503].map((status) => `${path} ${route.startsWith('batch') ? 'POST' : 'GET'} ${status}`),
    );
  expect(counts.map(({ labels, value }) => `${Object.values(labels).join(' ')} ${value}`).sort()).toEqual(
    series.map((each) => `${each} 0`).sort(),
  );
});
