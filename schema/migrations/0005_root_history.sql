-- Format 5: what each root was worth at every save. Plain table, records stay as they are. schema/store.md describes it.

CREATE TABLE root_history (
  key TEXT NOT NULL,
  run INTEGER NOT NULL,
  n INTEGER NOT NULL,
  saved TEXT NOT NULL,
  q REAL NOT NULL,
  draw REAL NOT NULL,
  best_move TEXT,
  PRIMARY KEY (key, run, n)
) WITHOUT ROWID;
