/** Address format of a country. In patterns `#` is a digit, `@` a capital letter. */
interface Country {
  languages: readonly string[];
  postalCode: string;
  streets: readonly string[];
  /** pattern with `{street}` and `{number}` */
  line: string;
}

const before = '{number} {street}';
const after = '{street} {number}';
const comma = '{street}, {number}';

/** Splits a list that is written as one text. */
const names = (list: string): string[] => list.split('|');

const english = names(
  'High Street|Station Road|Park Avenue|Church Lane|Market Square|Harbour Road|Mill Lane|King Street',
);
const german = names(
  'Hauptstraße|Bahnhofstraße|Gartenweg|Am Markt|Lindenallee|Schlossplatz|Seestraße|Kirchgasse',
);
const spanish = names(
  'Calle Mayor|Avenida de la Constitución|Plaza de España|Paseo del Mar|Calle del Sol|Calle San Juan',
);
const portuguese = names(
  'Rua Direita|Avenida da Liberdade|Praça da República|Rua do Comércio|Rua das Flores|Avenida Beira-Mar',
);
const french = names(
  'Rue de la Gare|Avenue de la République|Place du Marché|Rue des Écoles|Quai du Port|Boulevard Victor Hugo',
);
const dutch = names('Kerkstraat|Dorpsstraat|Stationsweg|Molenlaan|Havenkade|Grote Markt');

/** Countries of the seeds, by ISO 3166-1 alpha-2 code. */
export const countries: Readonly<Record<string, Country>> = {
  AR: { languages: ['es'], postalCode: '@####', streets: spanish, line: after },
  AT: { languages: ['de'], postalCode: '####', streets: german, line: after },
  AU: { languages: ['en'], postalCode: '####', streets: english, line: before },
  BE: { languages: ['nl', 'fr'], postalCode: '####', streets: dutch, line: after },
  BR: { languages: ['pt'], postalCode: '#####-###', streets: portuguese, line: comma },
  CA: { languages: ['en', 'en', 'fr'], postalCode: '@#@ #@#', streets: english, line: before },
  CH: { languages: ['de', 'fr', 'it'], postalCode: '####', streets: german, line: after },
  CZ: {
    languages: ['cs'],
    postalCode: '### ##',
    streets: names('Hlavní|Nádražní|Zahradní|Náměstí Míru|Lipová|Na Příkopě'),
    line: after,
  },
  DE: { languages: ['de'], postalCode: '#####', streets: german, line: after },
  DK: {
    languages: ['da'],
    postalCode: '####',
    streets: names('Hovedgaden|Strandvejen|Kirkevej|Torvet|Havnegade'),
    line: after,
  },
  ES: { languages: ['es', 'es', 'ca'], postalCode: '#####', streets: spanish, line: comma },
  FI: {
    languages: ['fi', 'fi', 'sv'],
    postalCode: '#####',
    streets: names('Kauppakatu|Asematie|Rantatie|Puistokatu'),
    line: after,
  },
  FR: { languages: ['fr'], postalCode: '#####', streets: french, line: before },
  GB: { languages: ['en'], postalCode: '@@# #@@', streets: english, line: before },
  GR: {
    languages: ['el'],
    postalCode: '### ##',
    streets: names('Ερμού|Λεωφόρος Αθηνών|Οδός Σταδίου|Πλατεία Ελευθερίας|Παραλιακή'),
    line: after,
  },
  HR: {
    languages: ['hr'],
    postalCode: '#####',
    streets: names('Glavna ulica|Obala|Vukovarska|Trg slobode'),
    line: after,
  },
  HU: {
    languages: ['hu'],
    postalCode: '####',
    streets: names('Fő utca|Kossuth tér|Petőfi út|Rákóczi út'),
    line: after,
  },
  IE: { languages: ['en'], postalCode: '@## @##@', streets: english, line: before },
  IT: {
    languages: ['it'],
    postalCode: '#####',
    streets: names('Via Roma|Corso Garibaldi|Piazza del Duomo|Via Dante|Lungomare Marconi|Viale dei Pini'),
    line: comma,
  },
  JP: {
    languages: ['ja'],
    postalCode: '###-####',
    streets: names('本町|中央通り|駅前|桜町|港町'),
    line: after,
  },
  MX: { languages: ['es'], postalCode: '#####', streets: spanish, line: after },
  NL: { languages: ['nl'], postalCode: '#### @@', streets: dutch, line: after },
  NO: {
    languages: ['no'],
    postalCode: '####',
    streets: names('Storgata|Kirkeveien|Strandgata|Torggata'),
    line: after,
  },
  PL: {
    languages: ['pl'],
    postalCode: '##-###',
    streets: names('ul. Główna|ul. Ogrodowa|Rynek|ul. Kościuszki|al. Niepodległości'),
    line: after,
  },
  PT: { languages: ['pt'], postalCode: '####-###', streets: portuguese, line: comma },
  SE: {
    languages: ['sv'],
    postalCode: '### ##',
    streets: names('Storgatan|Kungsgatan|Hamngatan|Kyrkogatan'),
    line: after,
  },
  TR: {
    languages: ['tr'],
    postalCode: '#####',
    streets: names('Atatürk Caddesi|Cumhuriyet Meydanı|Sahil Yolu|İstiklal Caddesi'),
    line: after,
  },
  US: {
    languages: ['en'],
    postalCode: '#####',
    streets: ['Main Street', 'Oak Avenue', 'Second Street', 'Lakeview Drive', ...english],
    line: before,
  },
  ZA: { languages: ['en', 'af'], postalCode: '####', streets: english, line: before },
};
