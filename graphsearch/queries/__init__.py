"""Questions to a stored graph beyond one node: lines, trees, ways in, games, SQL. Reading only.

One module a question; each is a function of a file's path and a position that returns a dataclass with
`as_dict`:

    moves.moves          every move, with what the record behind it says
    pv.pv                lines that follow the most visits or the best value, and why they end
    tree.tree            the well-visited part below a position
    values.values        values along a game or a line
    path.path            how a position is reached
    parents.parents      the stored positions that have a move to it
    transpositions.transpositions, .count_all   positions with the most ways in
    find.find            positions by N, Q, bounds, men and more
    games.games          imported games against the search
    sql.Sql              read-only SQL with functions that know records

A file is read as of one state for the length of an answer, also while a search writes it, except by `find`
and `count_all`, which take a state for each portion of the file.
"""
