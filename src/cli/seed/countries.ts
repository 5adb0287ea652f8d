/** Address format of a country, and some of its cities. */
interface Country {
  code: string;
  languages: string[];
  /** `#` is a digit, `@` a capital letter */
  postalCode: string;
  /** pattern with `{street}` and `{number}` */
  line: string;
  streets: string[];
  cities: { name: string; latitude: number; longitude: number }[];
}

const LINES: Record<string, string> = {
  before: '{number} {street}',
  after: '{street} {number}',
  comma: '{street}, {number}',
};

/** Streets that several countries have. */
const STREETS: Record<string, string> = {
  english:
    'High Street|Station Road|Park Avenue|Church Lane|Market Square|Harbour Road|Mill Lane|King Street',
  german: 'Hauptstraße|Bahnhofstraße|Gartenweg|Am Markt|Lindenallee|Schlossplatz|Seestraße|Kirchgasse',
  spanish:
    'Calle Mayor|Avenida de la Constitución|Plaza de España|Paseo del Mar|Calle del Sol|Calle San Juan',
  portuguese:
    'Rua Direita|Avenida da Liberdade|Praça da República|Rua do Comércio|Rua das Flores|Avenida Beira-Mar',
  french:
    'Rue de la Gare|Avenue de la République|Place du Marché|Rue des Écoles|Quai du Port|Boulevard Victor Hugo',
  dutch: 'Kerkstraat|Dorpsstraat|Stationsweg|Molenlaan|Havenkade|Grote Markt',
};

/** ISO 3166-1 alpha-2 code; languages; postal code; line; streets or their set; cities with latitude and longitude. */
const TABLE = `
AR;es;@####;after;spanish;Buenos Aires -34.6037 -58.3816|Córdoba -31.4201 -64.1888|Mendoza -32.8895 -68.8458
AT;de;####;after;german;Wien 48.2082 16.3738|Graz 47.0707 15.4395|Salzburg 47.8095 13.055
AU;en;####;before;english;Sydney -33.8688 151.2093|Melbourne -37.8136 144.9631|Hobart -42.8821 147.3272
BE;nl|fr;####;after;dutch;Bruxelles 50.8503 4.3517|Antwerpen 51.2194 4.4025|Brugge 51.2093 3.2247
BR;pt;#####-###;comma;portuguese;São Paulo -23.5505 -46.6333|Rio de Janeiro -22.9068 -43.1729|Salvador -12.9777 -38.5016
CA;en|en|fr;@#@ #@#;before;english;Toronto 43.6532 -79.3832|Vancouver 49.2827 -123.1207|Québec 46.8139 -71.208
CH;de|fr|it;####;after;german;Zürich 47.3769 8.5417|Genève 46.2044 6.1432|Lugano 46.0037 8.9511
CZ;cs;### ##;after;Hlavní|Nádražní|Zahradní|Náměstí Míru|Lipová|Na Příkopě;Praha 50.0755 14.4378|Brno 49.1951 16.6068|Plzeň 49.7384 13.3736
DE;de;#####;after;german;Berlin 52.52 13.405|München 48.1351 11.582|Köln 50.9375 6.9603|Lübeck 53.8655 10.6866
DK;da;####;after;Hovedgaden|Strandvejen|Kirkevej|Torvet|Havnegade;København 55.6761 12.5683|Aarhus 56.1629 10.2039|Odense 55.4038 10.4024
ES;es|es|ca;#####;comma;spanish;Madrid 40.4168 -3.7038|Barcelona 41.3874 2.1686|Málaga 36.7213 -4.4214|A Coruña 43.3623 -8.4115
FI;fi|fi|sv;#####;after;Kauppakatu|Asematie|Rantatie|Puistokatu;Helsinki 60.1699 24.9384|Tampere 61.4978 23.761|Turku 60.4518 22.2666
FR;fr;#####;before;french;Paris 48.8566 2.3522|Lyon 45.764 4.8357|Orléans 47.903 1.9093|Nîmes 43.8367 4.3601
GB;en;@@# #@@;before;english;London 51.5072 -0.1276|Edinburgh 55.9533 -3.1883|York 53.96 -1.0873|Bath 51.3811 -2.359
GR;el;### ##;after;Ερμού|Λεωφόρος Αθηνών|Οδός Σταδίου|Πλατεία Ελευθερίας|Παραλιακή;Αθήνα 37.9838 23.7275|Θεσσαλονίκη 40.6401 22.9444|Ηράκλειο 35.3387 25.1442
HR;hr;#####;after;Glavna ulica|Obala|Vukovarska|Trg slobode;Zagreb 45.815 15.9819|Split 43.5081 16.4402|Dubrovnik 42.6507 18.0944
HU;hu;####;after;Fő utca|Kossuth tér|Petőfi út|Rákóczi út;Budapest 47.4979 19.0402|Győr 47.6875 17.6504|Pécs 46.0727 18.2323
IE;en;@## @##@;before;english;Dublin 53.3498 -6.2603|Galway 53.2707 -9.0568|Cork 51.8985 -8.4756
IT;it;#####;comma;Via Roma|Corso Garibaldi|Piazza del Duomo|Via Dante|Lungomare Marconi|Viale dei Pini;Roma 41.9028 12.4964|Firenze 43.7696 11.2558|Venezia 45.4408 12.3155|Palermo 38.1157 13.3615
JP;ja;###-####;after;本町|中央通り|駅前|桜町|港町;東京 35.6762 139.6503|京都 35.0116 135.7681|札幌 43.0618 141.3545
MX;es;#####;after;spanish;Ciudad de México 19.4326 -99.1332|Mérida 20.9674 -89.5926|Oaxaca 17.0732 -96.7266
NL;nl;#### @@;after;dutch;Amsterdam 52.3676 4.9041|Utrecht 52.0907 5.1214|Maastricht 50.8514 5.691
NO;no;####;after;Storgata|Kirkeveien|Strandgata|Torggata;Oslo 59.9139 10.7522|Bergen 60.3913 5.3221|Tromsø 69.6492 18.9553
PL;pl;##-###;after;ul. Główna|ul. Ogrodowa|Rynek|ul. Kościuszki|al. Niepodległości;Warszawa 52.2297 21.0122|Kraków 50.0647 19.945|Gdańsk 54.352 18.6466
PT;pt;####-###;comma;portuguese;Lisboa 38.7223 -9.1393|Porto 41.1579 -8.6291|Évora 38.5667 -7.9|Faro 37.0194 -7.9304
SE;sv;### ##;after;Storgatan|Kungsgatan|Hamngatan|Kyrkogatan;Stockholm 59.3293 18.0686|Göteborg 57.7089 11.9746|Malmö 55.605 13.0038
TR;tr;#####;after;Atatürk Caddesi|Cumhuriyet Meydanı|Sahil Yolu|İstiklal Caddesi;İstanbul 41.0082 28.9784|İzmir 38.4237 27.1428|Antalya 36.8969 30.7133
US;en;#####;before;Main Street|Oak Avenue|Second Street|Lakeview Drive;New York 40.7128 -74.006|Chicago 41.8781 -87.6298|New Orleans 29.9511 -90.0715|Seattle 47.6062 -122.3321
ZA;en|af;####;before;english;Cape Town -33.9249 18.4241|Johannesburg -26.2041 28.0473|Durban -29.8587 31.0218
`;

/** Countries of the seeds. */
export const COUNTRIES: readonly Country[] = TABLE.trim()
  .split('\n')
  .map((row) => {
    const [code, languages, postalCode, line, streets, cities] = row.split(';') as [
      ...[string, string, string, string, string, string],
    ];
    return {
      code,
      languages: languages.split('|'),
      postalCode,
      line: LINES[line]!,
      streets: (STREETS[streets] ?? streets).split('|'),
      cities: cities.split('|').map((city) => {
        const [, name, latitude, longitude] = /^(.+) (\S+) (\S+)$/.exec(city)!;
        return { name: name!, latitude: Number(latitude), longitude: Number(longitude) };
      }),
    };
  });
