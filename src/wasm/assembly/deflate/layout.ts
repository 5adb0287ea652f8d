/** Layout of the memory. The static data of the compiler lies before it. */

/** Maximum distance of a match. */
export const WINDOW_BYTES: u32 = 0x8000;
export const PIECE_BYTES: u32 = 0x20000;
export const HASH_BITS: u32 = 15;

/** Last position of each hash, u32. */
export const POSITIONS: usize = 0x10000;
/** Tokens of a piece, u32: a byte, or MATCH and a length and a distance. */
export const TOKENS: usize = POSITIONS + (4 << HASH_BITS);

/** Maximum number of symbols of an alphabet. */
const MAX_SYMBOLS: usize = 288;
/** Literals and lengths; 256 ends a block. */
export const LITERALS: usize = TOKENS + 4 * PIECE_BYTES;
export const DISTANCES: usize = LITERALS + 9 * MAX_SYMBOLS;
/** The alphabet of a block's header. */
export const CODE_LENGTHS: usize = DISTANCES + 9 * MAX_SYMBOLS;
/** In an alphabet of MAX_SYMBOLS: u32 counts, behind them u32 codes, behind them u8 lengths of codes. */
export const CODES_AT: usize = 4 * MAX_SYMBOLS;
export const LENGTHS_AT: usize = 8 * MAX_SYMBOLS;

/** The used symbols of an alphabet, u16 each. */
export const USED: usize = CODE_LENGTHS + 9 * MAX_SYMBOLS;
/** Number of codes of each length, and the next code of each length, u32. */
export const LENGTH_COUNTS: usize = USED + 2 * MAX_SYMBOLS;
export const NEXT_CODES: usize = LENGTH_COUNTS + 4 * 16;
/** Symbols of a block's header, u8 each with u8 extra bits. */
export const HEADER: usize = NEXT_CODES + 4 * 16;

/** The piece, behind the window before it. */
export const INPUT: usize = 0x100000;
/** Compressed bytes of a piece: less than 10 bits for each byte on average, header included; noise takes 8.01. */
export const OUTPUT: usize = INPUT + PIECE_BYTES;
export const OUTPUT_BYTES: u32 = PIECE_BYTES + PIECE_BYTES / 4;
