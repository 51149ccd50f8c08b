"""Opening books that grow for weeks in a graph file; reviews of games; studies, notes and repertoires."""
