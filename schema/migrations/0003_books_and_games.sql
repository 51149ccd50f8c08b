-- Format 3: imported games, books and positions; opening books that are built here. Plain tables only, records stay as
-- they are. schema/store.md describes the tables.

CREATE TABLE source (
  id INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,
  name TEXT NOT NULL,
  digest TEXT NOT NULL,
  options TEXT NOT NULL,
  started TEXT NOT NULL,
  finished TEXT,
  taken INTEGER NOT NULL DEFAULT 0,
  skipped INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE game_position (
  key TEXT PRIMARY KEY,
  fen TEXT NOT NULL,
  ply INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE game_move (
  key TEXT NOT NULL,
  move TEXT NOT NULL,
  san TEXT NOT NULL,
  white INTEGER NOT NULL DEFAULT 0,
  draws INTEGER NOT NULL DEFAULT 0,
  black INTEGER NOT NULL DEFAULT 0,
  unknown INTEGER NOT NULL DEFAULT 0,
  variations INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (key, move)
) WITHOUT ROWID;

CREATE TABLE polyglot_entry (
  key TEXT NOT NULL,
  move TEXT NOT NULL,
  source INTEGER NOT NULL,
  place INTEGER NOT NULL,
  raw_move INTEGER NOT NULL,
  weight INTEGER NOT NULL,
  learn INTEGER NOT NULL,
  fen TEXT,
  san TEXT,
  PRIMARY KEY (key, source, place)
) WITHOUT ROWID;

CREATE TABLE epd_position (
  source INTEGER NOT NULL,
  place INTEGER NOT NULL,
  key TEXT NOT NULL,
  fen TEXT NOT NULL,
  operations TEXT NOT NULL,
  PRIMARY KEY (source, place)
) WITHOUT ROWID;

CREATE INDEX epd_position_key ON epd_position (key);

CREATE TABLE book (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  side TEXT NOT NULL,
  config TEXT NOT NULL,
  created TEXT NOT NULL,
  updated TEXT NOT NULL
);

CREATE TABLE book_run (
  id INTEGER PRIMARY KEY,
  book INTEGER NOT NULL,
  run INTEGER NOT NULL,
  started TEXT NOT NULL,
  finished TEXT,
  config TEXT NOT NULL,
  workers INTEGER NOT NULL,
  positions INTEGER NOT NULL DEFAULT 0,
  searched INTEGER NOT NULL DEFAULT 0,
  visits INTEGER NOT NULL DEFAULT 0,
  evaluations INTEGER NOT NULL DEFAULT 0,
  seconds REAL NOT NULL DEFAULT 0,
  ended TEXT
);

CREATE TABLE book_root (
  book INTEGER NOT NULL,
  key TEXT NOT NULL,
  fen TEXT NOT NULL,
  origin TEXT NOT NULL,
  PRIMARY KEY (book, key)
) WITHOUT ROWID;

CREATE TABLE book_position (
  book INTEGER NOT NULL,
  key TEXT NOT NULL,
  fen TEXT NOT NULL,
  ply INTEGER NOT NULL,
  state TEXT NOT NULL,
  searches INTEGER NOT NULL DEFAULT 0,
  n INTEGER NOT NULL DEFAULT 0,
  value REAL,
  outside REAL,
  outside_move TEXT,
  rest REAL,
  priority REAL,
  book_run INTEGER NOT NULL,
  PRIMARY KEY (book, key)
) WITHOUT ROWID;

CREATE TABLE book_move (
  book INTEGER NOT NULL,
  key TEXT NOT NULL,
  move TEXT NOT NULL,
  san TEXT NOT NULL,
  child TEXT NOT NULL,
  rule TEXT NOT NULL,
  p REAL NOT NULL,
  n INTEGER NOT NULL,
  q REAL,
  value REAL,
  loss INTEGER,
  games INTEGER NOT NULL DEFAULT 0,
  visits INTEGER NOT NULL DEFAULT 0,
  place INTEGER NOT NULL DEFAULT 0,
  book_run INTEGER NOT NULL,
  PRIMARY KEY (book, key, move)
) WITHOUT ROWID;

CREATE INDEX book_move_child ON book_move (book, child);

CREATE TABLE book_queue (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  book TEXT,
  fen TEXT NOT NULL,
  moves TEXT NOT NULL,
  origin TEXT NOT NULL,
  added TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'waiting',
  note TEXT,
  changed TEXT
);

CREATE INDEX book_queue_waiting ON book_queue (fen, moves) WHERE state = 'waiting';

CREATE TABLE book_lease (
  book INTEGER NOT NULL,
  key TEXT NOT NULL,
  worker INTEGER NOT NULL,
  pid INTEGER NOT NULL,
  since TEXT NOT NULL,
  expires TEXT NOT NULL,
  PRIMARY KEY (book, key)
) WITHOUT ROWID;
