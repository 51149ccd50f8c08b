-- Format 1. schema/store.md describes the tables, schema/segment.md the contents of segment, chunk and block.

CREATE TABLE store_info (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE evaluator (
  id INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,
  digest TEXT NOT NULL,
  options TEXT NOT NULL,
  mapping TEXT NOT NULL,
  identity TEXT NOT NULL
);

CREATE TABLE run (
  id INTEGER PRIMARY KEY,
  started TEXT NOT NULL,
  finished TEXT,
  position TEXT NOT NULL,
  limits TEXT NOT NULL,
  params TEXT NOT NULL,
  visits INTEGER NOT NULL DEFAULT 0,
  evaluations INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE root (
  key TEXT PRIMARY KEY,
  position TEXT NOT NULL,
  visits INTEGER NOT NULL,
  last_searched TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE top_position (
  key TEXT PRIMARY KEY,
  fen TEXT NOT NULL,
  n INTEGER NOT NULL,
  q REAL NOT NULL,
  win REAL NOT NULL,
  draw REAL NOT NULL,
  loss REAL NOT NULL,
  best_move TEXT
) WITHOUT ROWID;

CREATE TABLE top_edge (
  key TEXT NOT NULL,
  move TEXT NOT NULL,
  san TEXT NOT NULL,
  n INTEGER NOT NULL,
  p REAL NOT NULL,
  q REAL,
  draw REAL,
  PRIMARY KEY (key, move)
) WITHOUT ROWID;

-- ids are never used again, so that what is held in RAM by id cannot go stale
CREATE TABLE segment (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  age INTEGER NOT NULL,
  merged_into INTEGER REFERENCES segment (id),
  frontier INTEGER
);

CREATE TABLE chunk (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  segment INTEGER NOT NULL REFERENCES segment (id),
  first_block INTEGER NOT NULL,
  blocks INTEGER NOT NULL,
  gone INTEGER NOT NULL DEFAULT 0,
  records INTEGER NOT NULL,
  first_key INTEGER NOT NULL,
  checksum INTEGER NOT NULL,
  keys BLOB NOT NULL,
  dictionary BLOB NOT NULL,
  bloom BLOB NOT NULL
);

CREATE TABLE block (
  id INTEGER PRIMARY KEY,
  data BLOB NOT NULL
);
