-- Format 4: transposition entries of searches of fixed depth and of mate proofs, and these runs. Records may hold proofs
-- at their edges (schema/node_record.md); those of earlier formats stay as they are. schema/store.md describes the tables,
-- schema/entries.md the contents of entry_piece.

CREATE TABLE entry_piece (
  id INTEGER PRIMARY KEY,
  evaluation TEXT NOT NULL,
  entries INTEGER NOT NULL,
  checksum INTEGER NOT NULL,
  data BLOB NOT NULL
);

CREATE TABLE entry_run (
  id INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,
  started TEXT NOT NULL,
  finished TEXT,
  fen TEXT NOT NULL,
  key TEXT NOT NULL,
  limits TEXT NOT NULL,
  evaluation TEXT NOT NULL,
  program TEXT NOT NULL,
  depth INTEGER,
  alpha INTEGER,
  beta INTEGER,
  value INTEGER,
  bound TEXT,
  best_move TEXT,
  pv TEXT NOT NULL DEFAULT '',
  nodes INTEGER NOT NULL DEFAULT 0,
  hits INTEGER NOT NULL DEFAULT 0,
  stored_hits INTEGER NOT NULL DEFAULT 0,
  seconds REAL NOT NULL DEFAULT 0
);

CREATE TABLE entry_iteration (
  id INTEGER PRIMARY KEY,
  run INTEGER NOT NULL,
  depth INTEGER NOT NULL,
  alpha INTEGER NOT NULL,
  beta INTEGER NOT NULL,
  value INTEGER NOT NULL,
  bound TEXT NOT NULL,
  best_move TEXT,
  pv TEXT NOT NULL,
  nodes INTEGER NOT NULL,
  hits INTEGER NOT NULL,
  stored_hits INTEGER NOT NULL,
  cutoffs INTEGER NOT NULL,
  first_cutoffs INTEGER NOT NULL,
  seconds REAL NOT NULL
);

CREATE INDEX entry_run_key ON entry_run (key);
CREATE INDEX entry_iteration_run ON entry_iteration (run);
