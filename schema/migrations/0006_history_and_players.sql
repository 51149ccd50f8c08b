-- Format 6: lines and depths in the history of roots, a history of the roots of books, and who played the imported games.
-- Plain tables, records stay as they are. schema/store.md describes them.

ALTER TABLE root_history ADD COLUMN depth INTEGER;

ALTER TABLE root_history ADD COLUMN pv TEXT;

CREATE TABLE book_history (
  key TEXT NOT NULL,
  book INTEGER NOT NULL,
  run INTEGER NOT NULL,
  searched INTEGER NOT NULL,
  saved TEXT NOT NULL,
  positions INTEGER NOT NULL,
  value REAL NOT NULL,
  n INTEGER NOT NULL,
  best_move TEXT,
  pv TEXT,
  PRIMARY KEY (key, book, run, searched)
) WITHOUT ROWID;

ALTER TABLE source ADD COLUMN players INTEGER;

CREATE TABLE player (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
);

CREATE TABLE event (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  site TEXT NOT NULL,
  UNIQUE (name, site)
);

CREATE TABLE game (
  source INTEGER NOT NULL,
  number INTEGER NOT NULL,
  place INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  white INTEGER,
  black INTEGER,
  white_elo INTEGER,
  black_elo INTEGER,
  date TEXT,
  event INTEGER,
  round TEXT,
  result TEXT NOT NULL,
  eco TEXT,
  fen TEXT,
  moves BLOB NOT NULL,
  PRIMARY KEY (source, number)
) WITHOUT ROWID;

CREATE INDEX game_white ON game (white);

CREATE INDEX game_black ON game (black);

-- See 0003 for why the name of a view matters.
CREATE VIEW played_games AS
SELECT
  white.name AS white,
  black.name AS black,
  game.result,
  game.white_elo,
  game.black_elo,
  game.date,
  event.name AS event,
  event.site,
  game.round,
  game.eco,
  length(game.moves) AS plies,
  source.name AS file,
  game.source,
  game.number
FROM game
JOIN source ON source.id = game.source
LEFT JOIN player AS white ON white.id = game.white
LEFT JOIN player AS black ON black.id = game.black
LEFT JOIN event ON event.id = game.event;
