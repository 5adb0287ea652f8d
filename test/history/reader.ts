import { isUnavailable } from './faults.ts';
import { type Random, type System, versionOf } from './system.ts';
import { IDS } from './writers.ts';

interface Shown {
  id: string;
  name: string;
}

/**
 * Requests hotels in any way while it may, and until it has an answer, and judges by order alone: a response never shows a hotel in a version from before the
 * moment at which every worker and every mirror was last equal to the table.
 */
export async function read(system: System, random: Random, goesOn: () => boolean): Promise<void> {
  let answers = 0;
  while (goesOn() || answers === 0) {
    const { floor, services } = system;
    const service = services[random(services.length)]!;
    const id = `h${random(IDS)}`;
    const requesting = [
      () => service.get(`/hotels/${id}`),
      () => service.get('/hotels?limit=100'),
      () =>
        service.post('/hotels/channel/batch', {
          channel_ids: Array.from({ length: IDS }, (_, i) => `C${i}`),
        }),
    ][random(3)]!();
    const response = await requesting.catch((error) => {
      if (!isUnavailable(error)) throw error;
    });
    if (!response || response.status === 503) continue;
    if (response.status !== 200 && response.status !== 404)
      throw new Error(`${response.status} ${response.text}`);
    answers++;
    // a fault that loses commits may have begun meanwhile
    if (response.status === 404 || system.floor !== floor) continue;
    for (const hotel of [response.json()].flat() as Shown[])
      if (versionOf(hotel.name) < (floor.get(hotel.id) ?? 0))
        throw new Error(
          `${hotel.id} was shown as ${hotel.name}, after v${floor.get(hotel.id)} was everywhere`,
        );
  }
}
