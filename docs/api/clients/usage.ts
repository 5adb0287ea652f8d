import { HotelApi } from './client.ts';

const { HOTEL_API_URL, HOTEL_API_KEY } = process.env;
if (!HOTEL_API_URL || !HOTEL_API_KEY) throw new Error('set HOTEL_API_URL and HOTEL_API_KEY');
const api = new HotelApi({ url: HOTEL_API_URL, key: HOTEL_API_KEY });

// one hotel
const hotel = await api.hotel('htl_sliji9ej');
console.log(hotel?.name, hotel?.city, hotel?.certified);

// as many as you like: split into batches of 1000
const ids = Array.from({ length: 2500 }, (_, i) => `CH${100_001 + i}`);
const found = await api.hotelsByChannelIds(ids);
console.log(`${found.length} of ${ids.length} found`);

// all there are
let count = 0;
for await (const _ of api.hotels()) count++;
console.log(`${count} hotels`);
