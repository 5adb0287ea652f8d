/** Address format of a country. In patterns `#` is a digit, `@` a capital letter. */
interface Country {
  languages: readonly string[];
  postalCode: string;
  /** pattern with `{street}` and `{number}` */
  line: string;
  streets: readonly string[];
}

/** `languages` and `streets` are lists that are written as one text. */
const country = (languages: string, postalCode: string, line: string, streets: string): Country => ({
  languages: languages.split('|'),
  postalCode,
  line,
  streets: streets.split('|'),
});

const before = '{number} {street}';
const after = '{street} {number}';
const comma = '{street}, {number}';

const english =
  'High Street|Station Road|Park Avenue|Church Lane|Market Square|Harbour Road|Mill Lane|King Street';
const german = 'Hauptstraße|Bahnhofstraße|Gartenweg|Am Markt|Lindenallee|Schlossplatz|Seestraße|Kirchgasse';
const spanish =
  'Calle Mayor|Avenida de la Constitución|Plaza de España|Paseo del Mar|Calle del Sol|Calle San Juan';
const portuguese =
  'Rua Direita|Avenida da Liberdade|Praça da República|Rua do Comércio|Rua das Flores|Avenida Beira-Mar';
const french =
  'Rue de la Gare|Avenue de la République|Place du Marché|Rue des Écoles|Quai du Port|Boulevard Victor Hugo';
const dutch = 'Kerkstraat|Dorpsstraat|Stationsweg|Molenlaan|Havenkade|Grote Markt';

/** Countries of the seeds, by ISO 3166-1 alpha-2 code. */
export const countries: Readonly<Record<string, Country>> = {
  AR: country('es', '@####', after, spanish),
  AT: country('de', '####', after, german),
  AU: country('en', '####', before, english),
  BE: country('nl|fr', '####', after, dutch),
  BR: country('pt', '#####-###', comma, portuguese),
  CA: country('en|en|fr', '@#@ #@#', before, english),
  CH: country('de|fr|it', '####', after, german),
  CZ: country('cs', '### ##', after, 'Hlavní|Nádražní|Zahradní|Náměstí Míru|Lipová|Na Příkopě'),
  DE: country('de', '#####', after, german),
  DK: country('da', '####', after, 'Hovedgaden|Strandvejen|Kirkevej|Torvet|Havnegade'),
  ES: country('es|es|ca', '#####', comma, spanish),
  FI: country('fi|fi|sv', '#####', after, 'Kauppakatu|Asematie|Rantatie|Puistokatu'),
  FR: country('fr', '#####', before, french),
  GB: country('en', '@@# #@@', before, english),
  GR: country('el', '### ##', after, 'Ερμού|Λεωφόρος Αθηνών|Οδός Σταδίου|Πλατεία Ελευθερίας|Παραλιακή'),
  HR: country('hr', '#####', after, 'Glavna ulica|Obala|Vukovarska|Trg slobode'),
  HU: country('hu', '####', after, 'Fő utca|Kossuth tér|Petőfi út|Rákóczi út'),
  IE: country('en', '@## @##@', before, english),
  IT: country(
    'it',
    '#####',
    comma,
    'Via Roma|Corso Garibaldi|Piazza del Duomo|Via Dante|Lungomare Marconi|Viale dei Pini',
  ),
  JP: country('ja', '###-####', after, '本町|中央通り|駅前|桜町|港町'),
  MX: country('es', '#####', after, spanish),
  NL: country('nl', '#### @@', after, dutch),
  NO: country('no', '####', after, 'Storgata|Kirkeveien|Strandgata|Torggata'),
  PL: country('pl', '##-###', after, 'ul. Główna|ul. Ogrodowa|Rynek|ul. Kościuszki|al. Niepodległości'),
  PT: country('pt', '####-###', comma, portuguese),
  SE: country('sv', '### ##', after, 'Storgatan|Kungsgatan|Hamngatan|Kyrkogatan'),
  TR: country('tr', '#####', after, 'Atatürk Caddesi|Cumhuriyet Meydanı|Sahil Yolu|İstiklal Caddesi'),
  US: country('en', '#####', before, `Main Street|Oak Avenue|Second Street|Lakeview Drive|${english}`),
  ZA: country('en|af', '####', before, english),
};
