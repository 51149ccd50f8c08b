-- Format 2: every record can say which run evaluated it, and a file may know several evaluators.
-- schema/store.md describes the tables, schema/node_record.md the column `run` of a record. Blocks stay as they are.

ALTER TABLE run ADD COLUMN evaluator INTEGER NOT NULL DEFAULT 1;
ALTER TABLE run ADD COLUMN kind TEXT NOT NULL DEFAULT 'search';
ALTER TABLE run ADD COLUMN program TEXT;

CREATE TABLE opinion (
  key TEXT NOT NULL,
  evaluator INTEGER NOT NULL,
  run INTEGER NOT NULL,
  fen TEXT NOT NULL,
  n INTEGER NOT NULL,
  q REAL NOT NULL,
  draw REAL,
  second_q REAL NOT NULL,
  second_draw REAL NOT NULL,
  best_move TEXT,
  second_best_move TEXT,
  policy BLOB NOT NULL,
  PRIMARY KEY (key, evaluator)
) WITHOUT ROWID;
