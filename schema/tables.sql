-- The tables of a graph file of format 4. schema/store.md describes them, schema/segment.md the contents of segment,
-- chunk and block, schema/entries.md those of entry_piece.

CREATE TABLE store_info (
  name TEXT PRIMARY KEY CHECK (name <> ''),
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE evaluator (
  id INTEGER PRIMARY KEY CHECK (id BETWEEN 1 AND 15),
  kind TEXT NOT NULL CHECK (kind <> ''),
  digest TEXT NOT NULL,
  options TEXT NOT NULL CHECK (options GLOB '{*}'),
  mapping TEXT NOT NULL,
  identity TEXT NOT NULL CHECK (identity GLOB '{*}')
) STRICT;

CREATE TABLE run (
  id INTEGER PRIMARY KEY CHECK (id BETWEEN 1 AND 1048575),
  started TEXT NOT NULL,
  finished TEXT,
  position TEXT NOT NULL CHECK (position = '' OR (length(position) <= 100 AND position GLOB '*/*/*/*/*/*/*/* [wb] * * [0-9]* [0-9]*' AND position NOT GLOB '*[^0-9A-HKNPQRa-hknpqrw/ -]*')),
  limits TEXT NOT NULL CHECK (limits GLOB '{*}'),
  params TEXT NOT NULL CHECK (params GLOB '{*}'),
  visits INTEGER NOT NULL DEFAULT 0 CHECK (visits BETWEEN 0 AND 9007199254740991),
  evaluations INTEGER NOT NULL DEFAULT 0 CHECK (evaluations BETWEEN 0 AND 9007199254740991),
  evaluator INTEGER NOT NULL DEFAULT 1 CHECK (evaluator BETWEEN 1 AND 15),
  kind TEXT NOT NULL DEFAULT 'search' CHECK (kind <> ''),
  program TEXT CHECK (program <> '')
) STRICT;

CREATE TABLE root (
  key TEXT PRIMARY KEY CHECK (length(key) IN (16, 20) AND key NOT GLOB '*[^0-9a-f]*'),
  position TEXT NOT NULL CHECK (length(position) <= 100 AND position GLOB '*/*/*/*/*/*/*/* [wb] * * [0-9]* [0-9]*' AND position NOT GLOB '*[^0-9A-HKNPQRa-hknpqrw/ -]*'),
  visits INTEGER NOT NULL CHECK (visits BETWEEN 0 AND 9007199254740991),
  last_searched TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE searched_apart (
  key TEXT NOT NULL CHECK (length(key) IN (16, 20) AND key NOT GLOB '*[^0-9a-f]*'),
  move TEXT NOT NULL CHECK (move GLOB '[a-h][1-8][a-h][1-8]' OR move GLOB '[a-h][1-8][a-h][1-8][nbrq]' OR move = '0000'),
  PRIMARY KEY (key, move)
) STRICT, WITHOUT ROWID;

CREATE TABLE top_position (
  key TEXT PRIMARY KEY CHECK (length(key) IN (16, 20) AND key NOT GLOB '*[^0-9a-f]*'),
  fen TEXT NOT NULL CHECK (length(fen) <= 100 AND fen GLOB '*/*/*/*/*/*/*/* [wb] * * [0-9]* [0-9]*' AND fen NOT GLOB '*[^0-9A-HKNPQRa-hknpqrw/ -]*'),
  n INTEGER NOT NULL CHECK (n BETWEEN 0 AND 9007199254740991),
  q REAL NOT NULL CHECK (q BETWEEN -1.000001 AND 1.000001),
  win REAL NOT NULL CHECK (win BETWEEN -0.000001 AND 1.000001),
  draw REAL NOT NULL CHECK (draw BETWEEN -0.000001 AND 1.000001),
  loss REAL NOT NULL CHECK (loss BETWEEN -0.000001 AND 1.000001),
  best_move TEXT CHECK (best_move GLOB '[a-h][1-8][a-h][1-8]' OR best_move GLOB '[a-h][1-8][a-h][1-8][nbrq]' OR best_move = '0000')
) STRICT, WITHOUT ROWID;

CREATE TABLE top_edge (
  key TEXT NOT NULL CHECK (length(key) IN (16, 20) AND key NOT GLOB '*[^0-9a-f]*'),
  move TEXT NOT NULL CHECK (move GLOB '[a-h][1-8][a-h][1-8]' OR move GLOB '[a-h][1-8][a-h][1-8][nbrq]' OR move = '0000'),
  san TEXT NOT NULL CHECK (san <> ''),
  n INTEGER NOT NULL CHECK (n BETWEEN 0 AND 4294967295),
  p REAL NOT NULL CHECK (p BETWEEN -0.000001 AND 1.000001),
  q REAL CHECK (q BETWEEN -1.000001 AND 1.000001),
  draw REAL CHECK (draw BETWEEN -0.000001 AND 1.000001),
  PRIMARY KEY (key, move)
) STRICT, WITHOUT ROWID;

-- ids are never used again, so that what is held in RAM by id cannot go stale
CREATE TABLE segment (
  id INTEGER PRIMARY KEY AUTOINCREMENT CHECK (id >= 1),
  age INTEGER NOT NULL CHECK (age BETWEEN 0 AND 9007199254740991),
  merged_into INTEGER REFERENCES segment (id) CHECK (merged_into >= 1),
  frontier INTEGER
) STRICT;

CREATE TABLE chunk (
  id INTEGER PRIMARY KEY AUTOINCREMENT CHECK (id >= 1),
  segment INTEGER NOT NULL REFERENCES segment (id) CHECK (segment >= 1),
  first_block INTEGER NOT NULL CHECK (first_block BETWEEN 1 AND 9223372036854773759),
  blocks INTEGER NOT NULL CHECK (blocks BETWEEN 1 AND 2048),
  gone INTEGER NOT NULL DEFAULT 0 CHECK (gone BETWEEN 0 AND 2048),
  records INTEGER NOT NULL CHECK (records BETWEEN 0 AND 65536),
  first_key INTEGER NOT NULL,
  checksum INTEGER NOT NULL CHECK (checksum BETWEEN 0 AND 4294967295),
  keys BLOB NOT NULL CHECK (length(keys) <= 16384),
  dictionary BLOB NOT NULL CHECK (length(dictionary) <= 1048576),
  bloom BLOB NOT NULL CHECK (length(bloom) <= 16777216)
) STRICT;

CREATE TABLE block (
  id INTEGER PRIMARY KEY CHECK (id >= 1),
  data BLOB NOT NULL CHECK (length(data) <= 262144)
) STRICT;

CREATE TABLE source (
  id INTEGER PRIMARY KEY CHECK (id >= 1),
  kind TEXT NOT NULL CHECK (kind IN ('pgn', 'polyglot', 'epd')),
  name TEXT NOT NULL,
  digest TEXT NOT NULL,
  options TEXT NOT NULL CHECK (options GLOB '{*}'),
  started TEXT NOT NULL,
  finished TEXT,
  taken INTEGER NOT NULL DEFAULT 0 CHECK (taken BETWEEN 0 AND 9007199254740991),
  skipped INTEGER NOT NULL DEFAULT 0 CHECK (skipped BETWEEN 0 AND 9007199254740991),
  players INTEGER CHECK (players BETWEEN 0 AND 9007199254740991)
) STRICT;

CREATE TABLE game_position (
  key TEXT PRIMARY KEY CHECK (length(key) IN (16, 20) AND key NOT GLOB '*[^0-9a-f]*'),
  fen TEXT NOT NULL CHECK (length(fen) <= 100 AND fen GLOB '*/*/*/*/*/*/*/* [wb] * * [0-9]* [0-9]*' AND fen NOT GLOB '*[^0-9A-HKNPQRa-hknpqrw/ -]*'),
  ply INTEGER NOT NULL CHECK (ply BETWEEN 0 AND 2147483647)
) STRICT, WITHOUT ROWID;

CREATE TABLE game_move (
  key TEXT NOT NULL CHECK (length(key) IN (16, 20) AND key NOT GLOB '*[^0-9a-f]*'),
  move TEXT NOT NULL CHECK (move GLOB '[a-h][1-8][a-h][1-8]' OR move GLOB '[a-h][1-8][a-h][1-8][nbrq]' OR move = '0000'),
  san TEXT NOT NULL CHECK (san <> ''),
  white INTEGER NOT NULL DEFAULT 0 CHECK (white BETWEEN 0 AND 9007199254740991),
  draws INTEGER NOT NULL DEFAULT 0 CHECK (draws BETWEEN 0 AND 9007199254740991),
  black INTEGER NOT NULL DEFAULT 0 CHECK (black BETWEEN 0 AND 9007199254740991),
  unknown INTEGER NOT NULL DEFAULT 0 CHECK (unknown BETWEEN 0 AND 9007199254740991),
  variations INTEGER NOT NULL DEFAULT 0 CHECK (variations BETWEEN 0 AND 9007199254740991),
  PRIMARY KEY (key, move)
) STRICT, WITHOUT ROWID;

CREATE TABLE polyglot_entry (
  key TEXT NOT NULL CHECK (length(key) IN (16, 20) AND key NOT GLOB '*[^0-9a-f]*'),
  move TEXT NOT NULL CHECK (move GLOB '[a-h][1-8][a-h][1-8]' OR move GLOB '[a-h][1-8][a-h][1-8][nbrq]' OR move = '0000'),
  source INTEGER NOT NULL CHECK (source >= 1),
  place INTEGER NOT NULL CHECK (place BETWEEN 0 AND 9007199254740991),
  raw_move INTEGER NOT NULL CHECK (raw_move BETWEEN 0 AND 65535),
  weight INTEGER NOT NULL CHECK (weight BETWEEN 0 AND 65535),
  learn INTEGER NOT NULL CHECK (learn BETWEEN 0 AND 4294967295),
  fen TEXT CHECK (length(fen) <= 100 AND fen GLOB '*/*/*/*/*/*/*/* [wb] * * [0-9]* [0-9]*' AND fen NOT GLOB '*[^0-9A-HKNPQRa-hknpqrw/ -]*'),
  san TEXT CHECK (san <> ''),
  PRIMARY KEY (key, source, place)
) STRICT, WITHOUT ROWID;

CREATE TABLE epd_position (
  source INTEGER NOT NULL CHECK (source >= 1),
  place INTEGER NOT NULL CHECK (place BETWEEN 0 AND 9007199254740991),
  key TEXT NOT NULL CHECK (length(key) IN (16, 20) AND key NOT GLOB '*[^0-9a-f]*'),
  fen TEXT NOT NULL CHECK (length(fen) <= 100 AND fen GLOB '*/*/*/*/*/*/*/* [wb] * * [0-9]* [0-9]*' AND fen NOT GLOB '*[^0-9A-HKNPQRa-hknpqrw/ -]*'),
  operations TEXT NOT NULL CHECK (operations GLOB '{*}'),
  PRIMARY KEY (source, place)
) STRICT, WITHOUT ROWID;

CREATE INDEX epd_position_key ON epd_position (key);

CREATE TABLE book (
  id INTEGER PRIMARY KEY CHECK (id >= 1),
  name TEXT NOT NULL UNIQUE CHECK (name <> ''),
  side TEXT NOT NULL CHECK (side IN ('white', 'black', 'both')),
  config TEXT NOT NULL,
  created TEXT NOT NULL,
  updated TEXT NOT NULL
) STRICT;

CREATE TABLE book_run (
  id INTEGER PRIMARY KEY CHECK (id >= 1),
  book INTEGER NOT NULL CHECK (book >= 1),
  run INTEGER NOT NULL CHECK (run BETWEEN 1 AND 1048575),
  started TEXT NOT NULL,
  finished TEXT,
  config TEXT NOT NULL,
  positions INTEGER NOT NULL DEFAULT 0 CHECK (positions BETWEEN 0 AND 9007199254740991),
  searched INTEGER NOT NULL DEFAULT 0 CHECK (searched BETWEEN 0 AND 9007199254740991),
  visits INTEGER NOT NULL DEFAULT 0 CHECK (visits BETWEEN 0 AND 9007199254740991),
  evaluations INTEGER NOT NULL DEFAULT 0 CHECK (evaluations BETWEEN 0 AND 9007199254740991),
  seconds REAL NOT NULL DEFAULT 0 CHECK (seconds >= 0 AND seconds < 9e999),
  ended TEXT CHECK (ended <> '')
) STRICT;

CREATE TABLE book_root (
  book INTEGER NOT NULL CHECK (book >= 1),
  key TEXT NOT NULL CHECK (length(key) IN (16, 20) AND key NOT GLOB '*[^0-9a-f]*'),
  fen TEXT NOT NULL CHECK (length(fen) <= 100 AND fen GLOB '*/*/*/*/*/*/*/* [wb] * * [0-9]* [0-9]*' AND fen NOT GLOB '*[^0-9A-HKNPQRa-hknpqrw/ -]*'),
  origin TEXT NOT NULL,
  PRIMARY KEY (book, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE book_position (
  book INTEGER NOT NULL CHECK (book >= 1),
  key TEXT NOT NULL CHECK (length(key) IN (16, 20) AND key NOT GLOB '*[^0-9a-f]*'),
  fen TEXT NOT NULL CHECK (length(fen) <= 100 AND fen GLOB '*/*/*/*/*/*/*/* [wb] * * [0-9]* [0-9]*' AND fen NOT GLOB '*[^0-9A-HKNPQRa-hknpqrw/ -]*'),
  ply INTEGER NOT NULL CHECK (ply BETWEEN 0 AND 2147483647),
  state TEXT NOT NULL CHECK (state IN ('leaf', 'open', 'end', 'apart')),
  searches INTEGER NOT NULL DEFAULT 0 CHECK (searches BETWEEN 0 AND 9007199254740991),
  n INTEGER NOT NULL DEFAULT 0 CHECK (n BETWEEN 0 AND 9007199254740991),
  value REAL CHECK (value BETWEEN -1.000001 AND 1.000001),
  outside REAL CHECK (outside BETWEEN -1.000001 AND 1.000001),
  outside_move TEXT CHECK (outside_move GLOB '[a-h][1-8][a-h][1-8]' OR outside_move GLOB '[a-h][1-8][a-h][1-8][nbrq]' OR outside_move = '0000'),
  priority REAL CHECK (abs(priority) < 9e999),
  book_run INTEGER NOT NULL CHECK (book_run BETWEEN 0 AND 9007199254740991),
  PRIMARY KEY (book, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE book_move (
  book INTEGER NOT NULL CHECK (book >= 1),
  key TEXT NOT NULL CHECK (length(key) IN (16, 20) AND key NOT GLOB '*[^0-9a-f]*'),
  move TEXT NOT NULL CHECK (move GLOB '[a-h][1-8][a-h][1-8]' OR move GLOB '[a-h][1-8][a-h][1-8][nbrq]' OR move = '0000'),
  san TEXT NOT NULL CHECK (san <> ''),
  child TEXT NOT NULL CHECK (length(child) IN (16, 20) AND child NOT GLOB '*[^0-9a-f]*'),
  rule TEXT NOT NULL CHECK (rule <> ''),
  p REAL NOT NULL CHECK (p BETWEEN -0.000001 AND 1.000001),
  n INTEGER NOT NULL CHECK (n BETWEEN 0 AND 9007199254740991),
  q REAL CHECK (q BETWEEN -1.000001 AND 1.000001),
  value REAL CHECK (value BETWEEN -1.000001 AND 1.000001),
  loss INTEGER CHECK (loss BETWEEN -2147483648 AND 2147483648),
  games INTEGER NOT NULL DEFAULT 0 CHECK (games BETWEEN 0 AND 9007199254740991),
  place INTEGER NOT NULL DEFAULT 0 CHECK (place BETWEEN 0 AND 9007199254740991),
  book_run INTEGER NOT NULL CHECK (book_run BETWEEN 0 AND 9007199254740991),
  PRIMARY KEY (book, key, move)
) STRICT, WITHOUT ROWID;

CREATE INDEX book_move_child ON book_move (book, child);

CREATE TABLE book_queue (
  id INTEGER PRIMARY KEY AUTOINCREMENT CHECK (id >= 1),
  book TEXT,
  fen TEXT NOT NULL,
  moves TEXT NOT NULL,
  origin TEXT NOT NULL,
  added TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'done', 'refused', 'dropped')),
  note TEXT,
  changed TEXT CHECK (changed <> '')
) STRICT;

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
  id INTEGER PRIMARY KEY CHECK (id >= 1),
  evaluation TEXT NOT NULL,
  entries INTEGER NOT NULL CHECK (entries BETWEEN 1 AND 65536),
  checksum INTEGER NOT NULL CHECK (checksum BETWEEN 0 AND 4294967295),
  data BLOB NOT NULL CHECK (length(data) <= 1073741823)
) STRICT;

CREATE TABLE entry_run (
  id INTEGER PRIMARY KEY CHECK (id >= 1),
  kind TEXT NOT NULL CHECK (kind <> ''),
  started TEXT NOT NULL,
  finished TEXT,
  fen TEXT NOT NULL CHECK (length(fen) <= 100 AND fen GLOB '*/*/*/*/*/*/*/* [wb] * * [0-9]* [0-9]*' AND fen NOT GLOB '*[^0-9A-HKNPQRa-hknpqrw/ -]*'),
  key TEXT NOT NULL CHECK (length(key) IN (16, 20) AND key NOT GLOB '*[^0-9a-f]*'),
  limits TEXT NOT NULL CHECK (limits GLOB '{*}'),
  evaluation TEXT NOT NULL,
  program TEXT NOT NULL,
  depth INTEGER CHECK (depth BETWEEN 1 AND 126),
  alpha INTEGER CHECK (alpha BETWEEN -200000 AND 200000),
  beta INTEGER CHECK (beta BETWEEN -200000 AND 200000),
  value INTEGER CHECK (value BETWEEN -100000 AND 100000),
  bound TEXT CHECK (bound IN ('', 'exact', 'lower', 'upper')),
  best_move TEXT CHECK (best_move GLOB '[a-h][1-8][a-h][1-8]' OR best_move GLOB '[a-h][1-8][a-h][1-8][nbrq]' OR best_move = '0000'),
  pv TEXT NOT NULL DEFAULT '',
  nodes INTEGER NOT NULL DEFAULT 0 CHECK (nodes BETWEEN 0 AND 9007199254740991),
  hits INTEGER NOT NULL DEFAULT 0 CHECK (hits BETWEEN 0 AND 9007199254740991),
  stored_hits INTEGER NOT NULL DEFAULT 0 CHECK (stored_hits BETWEEN 0 AND 9007199254740991),
  seconds REAL NOT NULL DEFAULT 0 CHECK (seconds >= 0 AND seconds < 9e999),
  CHECK (alpha < beta),
  CHECK (value IS NULL OR alpha IS NULL OR bound IS CASE WHEN value >= beta THEN 'lower' WHEN value <= alpha THEN 'upper' ELSE 'exact' END)
) STRICT;

CREATE TABLE entry_iteration (
  id INTEGER PRIMARY KEY CHECK (id >= 1),
  run INTEGER NOT NULL REFERENCES entry_run (id) CHECK (run >= 1),
  depth INTEGER NOT NULL CHECK (depth BETWEEN 1 AND 126),
  alpha INTEGER NOT NULL CHECK (alpha BETWEEN -200000 AND 200000),
  beta INTEGER NOT NULL CHECK (beta BETWEEN -200000 AND 200000),
  value INTEGER NOT NULL CHECK (value BETWEEN -100000 AND 100000),
  bound TEXT NOT NULL CHECK (bound IN ('exact', 'lower', 'upper')),
  best_move TEXT CHECK (best_move GLOB '[a-h][1-8][a-h][1-8]' OR best_move GLOB '[a-h][1-8][a-h][1-8][nbrq]' OR best_move = '0000'),
  pv TEXT NOT NULL,
  nodes INTEGER NOT NULL CHECK (nodes BETWEEN 0 AND 9007199254740991),
  hits INTEGER NOT NULL CHECK (hits BETWEEN 0 AND 9007199254740991),
  stored_hits INTEGER NOT NULL CHECK (stored_hits BETWEEN 0 AND 9007199254740991),
  cutoffs INTEGER NOT NULL CHECK (cutoffs BETWEEN 0 AND 9007199254740991),
  first_cutoffs INTEGER NOT NULL CHECK (first_cutoffs BETWEEN 0 AND 9007199254740991),
  seconds REAL NOT NULL CHECK (seconds >= 0 AND seconds < 9e999),
  CHECK (alpha < beta),
  CHECK (value IS NULL OR alpha IS NULL OR bound IS CASE WHEN value >= beta THEN 'lower' WHEN value <= alpha THEN 'upper' ELSE 'exact' END)
) STRICT;

CREATE INDEX entry_run_key ON entry_run (key);
CREATE INDEX entry_iteration_run ON entry_iteration (run);

CREATE TABLE root_history (
  key TEXT NOT NULL CHECK (length(key) IN (16, 20) AND key NOT GLOB '*[^0-9a-f]*'),
  run INTEGER NOT NULL CHECK (run BETWEEN 1 AND 1048575),
  n INTEGER NOT NULL CHECK (n BETWEEN 0 AND 9007199254740991),
  saved TEXT NOT NULL,
  q REAL NOT NULL CHECK (q BETWEEN -1.000001 AND 1.000001),
  draw REAL NOT NULL CHECK (draw BETWEEN -0.000001 AND 1.000001),
  best_move TEXT CHECK (best_move GLOB '[a-h][1-8][a-h][1-8]' OR best_move GLOB '[a-h][1-8][a-h][1-8][nbrq]' OR best_move = '0000'),
  depth INTEGER CHECK (depth BETWEEN 0 AND 2147483647),
  pv TEXT,
  PRIMARY KEY (key, run, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE book_history (
  key TEXT NOT NULL CHECK (length(key) IN (16, 20) AND key NOT GLOB '*[^0-9a-f]*'),
  book INTEGER NOT NULL CHECK (book >= 1),
  run INTEGER NOT NULL CHECK (run BETWEEN 1 AND 1048575),
  searched INTEGER NOT NULL CHECK (searched BETWEEN 0 AND 9007199254740991),
  saved TEXT NOT NULL,
  positions INTEGER NOT NULL CHECK (positions BETWEEN 0 AND 9007199254740991),
  value REAL NOT NULL CHECK (value BETWEEN -1.000001 AND 1.000001),
  n INTEGER NOT NULL CHECK (n BETWEEN 0 AND 9007199254740991),
  best_move TEXT CHECK (best_move GLOB '[a-h][1-8][a-h][1-8]' OR best_move GLOB '[a-h][1-8][a-h][1-8][nbrq]' OR best_move = '0000'),
  pv TEXT,
  PRIMARY KEY (key, book, run, searched)
) STRICT, WITHOUT ROWID;

CREATE TABLE player (
  id INTEGER PRIMARY KEY CHECK (id >= 1),
  name TEXT NOT NULL UNIQUE CHECK (name <> '')
) STRICT;

CREATE TABLE event (
  id INTEGER PRIMARY KEY CHECK (id >= 1),
  name TEXT NOT NULL,
  site TEXT NOT NULL,
  UNIQUE (name, site)
) STRICT;

CREATE TABLE game (
  source INTEGER NOT NULL CHECK (source >= 1),
  number INTEGER NOT NULL CHECK (number >= 1),
  place INTEGER NOT NULL CHECK (place BETWEEN 0 AND 9007199254740991),
  bytes INTEGER NOT NULL CHECK (bytes BETWEEN 0 AND 9007199254740991),
  white INTEGER CHECK (white >= 1),
  black INTEGER CHECK (black >= 1),
  white_elo INTEGER CHECK (white_elo BETWEEN 0 AND 9007199254740991),
  black_elo INTEGER CHECK (black_elo BETWEEN 0 AND 9007199254740991),
  date TEXT CHECK (date GLOB '[0-9][0-9][0-9][0-9]' OR date GLOB '[0-9][0-9][0-9][0-9]-[01][0-9]' OR date GLOB '[0-9][0-9][0-9][0-9]-[01][0-9]-[0-3][0-9]'),
  event INTEGER CHECK (event >= 1),
  round TEXT CHECK (round <> ''),
  result TEXT NOT NULL CHECK (result IN ('1-0', '0-1', '1/2-1/2', '*')),
  eco TEXT CHECK (eco <> ''),
  fen TEXT CHECK (length(fen) <= 100 AND fen GLOB '*/*/*/*/*/*/*/* [wb] * * [0-9]* [0-9]*' AND fen NOT GLOB '*[^0-9A-HKNPQRa-hknpqrw/ -]*'),
  moves BLOB NOT NULL CHECK (length(moves) <= 65536),
  PRIMARY KEY (source, number)
) STRICT, WITHOUT ROWID;

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

CREATE TABLE study (
  id INTEGER PRIMARY KEY AUTOINCREMENT CHECK (id >= 1),
  name TEXT NOT NULL UNIQUE CHECK (name <> ''),
  pgn TEXT NOT NULL,
  moves INTEGER NOT NULL CHECK (moves BETWEEN 0 AND 9007199254740991),
  revision INTEGER NOT NULL CHECK (revision >= 1),
  created TEXT NOT NULL,
  changed TEXT NOT NULL CHECK (changed <> '')
) STRICT;

CREATE TABLE study_position (
  study INTEGER NOT NULL CHECK (study >= 1),
  move INTEGER NOT NULL CHECK (move >= 1),
  key TEXT NOT NULL CHECK (length(key) IN (16, 20) AND key NOT GLOB '*[^0-9a-f]*'),
  PRIMARY KEY (study, move)
) STRICT, WITHOUT ROWID;

CREATE INDEX study_position_key ON study_position (key);

CREATE TABLE note (
  key TEXT PRIMARY KEY CHECK (length(key) IN (16, 20) AND key NOT GLOB '*[^0-9a-f]*'),
  fen TEXT NOT NULL CHECK (length(fen) <= 100 AND fen GLOB '*/*/*/*/*/*/*/* [wb] * * [0-9]* [0-9]*' AND fen NOT GLOB '*[^0-9A-HKNPQRa-hknpqrw/ -]*'),
  text TEXT NOT NULL CHECK (text <> ''),
  revision INTEGER NOT NULL CHECK (revision >= 1),
  changed TEXT NOT NULL CHECK (changed <> '')
) STRICT, WITHOUT ROWID;

CREATE TABLE edit (
  id INTEGER PRIMARY KEY AUTOINCREMENT CHECK (id >= 1),
  step INTEGER NOT NULL CHECK (step >= 1),
  undone INTEGER NOT NULL CHECK (undone IN (0, 1)),
  edited TEXT NOT NULL CHECK (edited IN ('study', 'note', 'book', 'book_root', 'book_position', 'book_move')),
  old TEXT,
  new TEXT
) STRICT;

CREATE INDEX edit_step ON edit (step);

CREATE TABLE game_index (
  source INTEGER NOT NULL CHECK (source >= 1),
  number INTEGER NOT NULL CHECK (number >= 1),
  opening TEXT CHECK (opening <> ''),
  keys BLOB NOT NULL CHECK (length(keys) <= 131074),
  PRIMARY KEY (source, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE game_text (
  source INTEGER NOT NULL CHECK (source >= 1),
  place INTEGER NOT NULL CHECK (place BETWEEN 0 AND 9007199254740991),
  bytes INTEGER NOT NULL CHECK (bytes BETWEEN 1 AND 524288),
  data BLOB NOT NULL CHECK (length(data) <= 524288),
  PRIMARY KEY (source, place)
) STRICT, WITHOUT ROWID;

CREATE TABLE task (
  id INTEGER PRIMARY KEY AUTOINCREMENT CHECK (id >= 1),
  kind TEXT NOT NULL CHECK (kind <> ''),
  title TEXT NOT NULL CHECK (title <> ''),
  state TEXT NOT NULL CHECK (state IN ('waiting', 'running', 'done', 'failed', 'stopped', 'interrupted')),
  request TEXT NOT NULL CHECK (request GLOB '{*}'),
  facts TEXT NOT NULL CHECK (facts GLOB '{*}'),
  note TEXT,
  seconds REAL NOT NULL DEFAULT 0 CHECK (seconds >= 0 AND seconds < 9e999),
  added TEXT NOT NULL,
  changed TEXT NOT NULL CHECK (changed <> '')
) STRICT;
