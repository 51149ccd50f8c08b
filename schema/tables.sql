-- The tables of a graph file of format 1. schema/store.md describes them, schema/segment.md the contents of segment,
-- chunk and block, schema/entries.md those of entry_piece.

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
  evaluations INTEGER NOT NULL DEFAULT 0,
  evaluator INTEGER NOT NULL DEFAULT 1,
  kind TEXT NOT NULL DEFAULT 'search',
  program TEXT
);

CREATE TABLE root (
  key TEXT PRIMARY KEY,
  position TEXT NOT NULL,
  visits INTEGER NOT NULL,
  last_searched TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE searched_apart (
  key TEXT NOT NULL,
  move TEXT NOT NULL,
  PRIMARY KEY (key, move)
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

CREATE TABLE source (
  id INTEGER PRIMARY KEY,
  kind TEXT NOT NULL,
  name TEXT NOT NULL,
  digest TEXT NOT NULL,
  options TEXT NOT NULL,
  started TEXT NOT NULL,
  finished TEXT,
  taken INTEGER NOT NULL DEFAULT 0,
  skipped INTEGER NOT NULL DEFAULT 0,
  players INTEGER
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

-- Views for people and tools: no functions but SQLite's own, FEN first, keys last. Their names matter: if a view comes
-- first in SQLite's own hash of names, its quick_check leaves out half of what it checks (seen with 3.40);
-- tests/store/test_damage.py (overwritten pages) fails then.

CREATE VIEW runs AS
SELECT
  run.id,
  run.kind,
  run.started,
  run.finished,
  run.position AS fen,
  run.visits,
  run.evaluations,
  evaluator.kind AS evaluator,
  run.program
FROM run
LEFT JOIN evaluator ON evaluator.id = run.evaluator;

CREATE VIEW position_moves AS
SELECT
  top_position.fen,
  top_position.n,
  top_position.q,
  top_position.best_move,
  top_edge.move,
  top_edge.san,
  top_edge.n AS move_n,
  CASE WHEN top_position.n > 1 THEN 1.0 * top_edge.n / (top_position.n - 1) END AS share,
  top_edge.p,
  top_edge.q AS move_q,
  top_edge.draw,
  top_position.key
FROM top_position
JOIN top_edge ON top_edge.key = top_position.key;

CREATE VIEW game_moves AS
SELECT
  fen,
  ply,
  move,
  san,
  white + draws + black + unknown AS games,
  white,
  draws,
  black,
  unknown,
  variations,
  100.0 * white / (white + draws + black) AS white_percent,
  100.0 * draws / (white + draws + black) AS draw_percent,
  100.0 * black / (white + draws + black) AS black_percent,
  (CASE WHEN instr(fen, ' w ') > 0 THEN white ELSE black END + draws / 2.0) / (white + draws + black) AS score,
  game_position.key
FROM game_position
JOIN game_move ON game_move.key = game_position.key;

CREATE VIEW games_against_search AS
SELECT
  game_moves.fen,
  game_moves.ply,
  game_moves.move,
  game_moves.san,
  game_moves.games,
  game_moves.score,
  top_edge.n,
  CASE WHEN top_position.n > 1 THEN 1.0 * top_edge.n / (top_position.n - 1) END AS share,
  top_edge.q,
  2 * game_moves.score - 1 - top_edge.q AS difference,
  game_moves.key
FROM game_moves
JOIN top_position ON top_position.key = game_moves.key
JOIN top_edge ON top_edge.key = game_moves.key AND top_edge.move = game_moves.move;

CREATE VIEW book_edges AS
SELECT
  book.name AS book,
  book_position.fen,
  book_position.ply,
  book_move.move,
  book_move.san,
  book_move.rule,
  book_move.p,
  book_move.n,
  book_move.value,
  book_move.loss,
  book_move.games,
  behind.state,
  behind.value AS value_after,
  book_position.key,
  book_move.child
FROM book_move
JOIN book ON book.id = book_move.book
JOIN book_position ON book_position.book = book_move.book AND book_position.key = book_move.key
LEFT JOIN book_position AS behind ON behind.book = book_move.book AND behind.key = book_move.child;

CREATE VIEW book_open_leaves AS
SELECT
  book.name AS book,
  book_position.fen,
  book_position.ply,
  book_position.priority,
  book_position.value,
  book_position.n,
  book_position.searches,
  book_position.key
FROM book_position
JOIN book ON book.id = book_position.book
WHERE book_position.state = 'leaf';

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

CREATE TABLE root_history (
  key TEXT NOT NULL,
  run INTEGER NOT NULL,
  n INTEGER NOT NULL,
  saved TEXT NOT NULL,
  q REAL NOT NULL,
  draw REAL NOT NULL,
  best_move TEXT,
  depth INTEGER,
  pv TEXT,
  PRIMARY KEY (key, run, n)
) WITHOUT ROWID;

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

-- files of format 1 that were made before these tables lack them: an empty one stands in for a reader, a writer makes them

CREATE TABLE study (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE,
  fen TEXT,
  headers TEXT NOT NULL,
  comment TEXT NOT NULL,
  last INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  created TEXT NOT NULL,
  changed TEXT NOT NULL
);

CREATE TABLE study_move (
  study INTEGER NOT NULL,
  id INTEGER NOT NULL,
  parent INTEGER NOT NULL,
  place INTEGER NOT NULL,
  key TEXT NOT NULL,
  move TEXT NOT NULL,
  san TEXT NOT NULL,
  before TEXT NOT NULL,
  comment TEXT NOT NULL,
  nags TEXT NOT NULL,
  PRIMARY KEY (study, id)
) WITHOUT ROWID;

CREATE INDEX study_move_key ON study_move (key);

CREATE TABLE note (
  key TEXT PRIMARY KEY,
  fen TEXT NOT NULL,
  text TEXT NOT NULL,
  revision INTEGER NOT NULL,
  changed TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE edit (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  step INTEGER NOT NULL,
  undone INTEGER NOT NULL,
  edited TEXT NOT NULL,
  old TEXT,
  new TEXT
);

CREATE INDEX edit_step ON edit (step);

CREATE TABLE repertoire_position (
  side TEXT NOT NULL,
  key TEXT NOT NULL,
  fen TEXT NOT NULL,
  root INTEGER NOT NULL,
  PRIMARY KEY (key, side)
) WITHOUT ROWID;

CREATE TABLE repertoire_move (
  side TEXT NOT NULL,
  key TEXT NOT NULL,
  move TEXT NOT NULL,
  child TEXT NOT NULL,
  place INTEGER NOT NULL,
  PRIMARY KEY (key, side, move)
) WITHOUT ROWID;

CREATE TABLE game_index (
  source INTEGER NOT NULL,
  number INTEGER NOT NULL,
  opening TEXT,
  keys BLOB NOT NULL,
  PRIMARY KEY (source, number)
) WITHOUT ROWID;

CREATE TABLE game_text (
  source INTEGER NOT NULL,
  place INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  data BLOB NOT NULL,
  PRIMARY KEY (source, place)
) WITHOUT ROWID;

CREATE TABLE task (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL,
  title TEXT NOT NULL,
  state TEXT NOT NULL,
  request TEXT NOT NULL,
  facts TEXT NOT NULL,
  note TEXT,
  seconds REAL NOT NULL DEFAULT 0,
  added TEXT NOT NULL,
  changed TEXT NOT NULL
);
