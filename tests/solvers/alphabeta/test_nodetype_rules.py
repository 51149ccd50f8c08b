"""Expected node types by both published sets of rules: each rule its own test, and trees drawn by hand."""

from __future__ import annotations

import pytest

from graphsearch.solvers.alphabeta.nodetypes.rules import (
    ALL,
    CUT,
    PV,
    Arrival,
    Rules,
    actual,
    becomes,
    expected,
)

from ...support.nodetypes import Described, Tracker, arrival_of, expected_types

GARMS, KANNAN = Rules.GARMS, Rules.KANNAN
BOTH = pytest.mark.parametrize("rules", list(Rules))


# ------------------------------------------------------------------ Onno Garms, rule by rule
@BOTH
def test_the_root_is_pv(rules: Rules) -> None:
    assert Tracker(rules).kind == PV
    assert expected_types(Described("root"), rules) == {"root": PV}


@BOTH
def test_the_first_child_of_a_pv_node_is_pv(rules: Rules) -> None:
    assert expected(rules, PV, Arrival.FIRST) == PV


@BOTH
@pytest.mark.parametrize("way", [Arrival.FURTHER, Arrival.CANDIDATE])
def test_further_children_of_a_pv_node_are_searched_as_cut(rules: Rules, way: Arrival) -> None:
    assert expected(rules, PV, way) == CUT


@BOTH
@pytest.mark.parametrize("parent", [PV, CUT, ALL])
def test_what_is_searched_again_after_a_fail_high_is_pv(rules: Rules, parent: str) -> None:
    assert expected(rules, parent, Arrival.RESEARCH) == PV


@pytest.mark.parametrize("parent", [PV, CUT, ALL])
def test_garms_the_node_after_a_null_move_is_cut(parent: str) -> None:
    assert expected(GARMS, parent, Arrival.NULL) == CUT


@BOTH
@pytest.mark.parametrize("parent", [PV, CUT, ALL])
def test_the_first_node_of_a_null_move_verification_is_cut(rules: Rules, parent: str) -> None:
    assert expected(rules, parent, Arrival.VERIFICATION) == CUT


@BOTH
@pytest.mark.parametrize("parent", [PV, CUT, ALL])
def test_the_first_node_of_bad_pruning_is_cut(rules: Rules, parent: str) -> None:
    assert expected(rules, parent, Arrival.BAD_PRUNING) == CUT


@BOTH
@pytest.mark.parametrize("kind", [PV, CUT, ALL])
def test_internal_iterative_deepening_does_not_change_the_type(rules: Rules, kind: str) -> None:
    assert expected(rules, kind, Arrival.DEEPENING) == kind


@BOTH
def test_the_first_child_of_a_cut_node_is_all(rules: Rules) -> None:
    assert expected(rules, CUT, Arrival.FIRST) == ALL


@pytest.mark.parametrize("way", [Arrival.FURTHER, Arrival.CANDIDATE])
def test_garms_further_children_of_a_cut_node_are_cut(way: Arrival) -> None:
    assert expected(GARMS, CUT, way) == CUT


@BOTH
@pytest.mark.parametrize("way", [Arrival.FIRST, Arrival.CANDIDATE, Arrival.FURTHER, Arrival.NULL])
def test_children_of_all_nodes_are_cut(rules: Rules, way: Arrival) -> None:
    assert expected(rules, ALL, way) == CUT


# ------------------------------------------------------------------ Pradu Kannan, where he differs
@pytest.mark.parametrize("way", [Arrival.FIRST, Arrival.CANDIDATE, Arrival.NULL])
def test_kannan_the_first_child_of_a_cut_node_and_all_candidates_are_all(way: Arrival) -> None:
    assert expected(KANNAN, CUT, way) == ALL


def test_kannan_a_cut_node_becomes_all_once_its_candidates_failed() -> None:
    assert becomes(KANNAN, CUT, candidates_left=True) == CUT
    assert becomes(KANNAN, CUT, candidates_left=False) == ALL
    assert becomes(GARMS, CUT, candidates_left=False) == CUT
    assert [becomes(KANNAN, kind, candidates_left=False) for kind in (PV, ALL)] == [PV, ALL]


def test_kannan_what_follows_the_candidates_is_a_child_of_an_all_node() -> None:
    assert expected(KANNAN, CUT, Arrival.FURTHER) == CUT == expected(KANNAN, ALL, Arrival.FURTHER)


# ------------------------------------------------------------------ actual types
@pytest.mark.parametrize(("value", "kind"), [(-1, ALL), (0, ALL), (1, PV), (9, PV), (10, CUT), (11, CUT)])
def test_inside_the_window_is_pv_at_beta_cut_at_alpha_all(value: int, kind: str) -> None:
    assert actual(value, 0, 10) == kind


def test_a_null_window_has_no_pv_node() -> None:
    assert {actual(value, 3, 4) for value in range(10)} == {CUT, ALL}


def test_candidates_stand_behind_the_first_move() -> None:
    assert [arrival_of(place) for place in (1, 2)] == [Arrival.FIRST, Arrival.FURTHER]
    assert [arrival_of(place, 3) for place in (1, 2, 3, 4)] == [
        Arrival.FIRST,
        Arrival.CANDIDATE,
        Arrival.CANDIDATE,
        Arrival.FURTHER,
    ]


# ------------------------------------------------------------------ trees
def uniform(name: str, depth: int, branching: int, place: int = 1) -> Described:
    """A uniform tree in perfect order: names are the places of the moves; all children are described."""
    children = tuple(uniform(f"{name}{i}", depth - 1, branching, i) for i in range(1, branching + 1) if depth)
    return Described(name, arrival_of(place), children)


@BOTH
def test_the_critical_tree_of_knuth_and_moore(rules: Rules) -> None:
    types = expected_types(uniform("", 3, 2), rules)
    # the minimal tree: below a Cut node the first child alone is searched
    assert {name: types[name] for name in ("", "1", "11", "111")} == {"": PV, "1": PV, "11": PV, "111": PV}
    assert {name: types[name] for name in ("2", "12", "112")} == dict.fromkeys(("2", "12", "112"), CUT)
    assert {name: types[name] for name in ("21", "121")} == dict.fromkeys(("21", "121"), ALL)
    assert {name: types[name] for name in ("211", "212")} == dict.fromkeys(("211", "212"), CUT)


def drawn() -> Described:
    """The root's second move fails high and is searched again; below it a Cut node tries everything."""
    tried = (
        Described("null", Arrival.NULL),
        Described("hash", Arrival.FIRST),
        Described("capture", Arrival.CANDIDATE, (Described("reply"), Described("reply 2", Arrival.FURTHER))),
        Described("quiet", Arrival.FURTHER, (Described("answer"), Described("answer 2", Arrival.FURTHER))),
    )
    deeper = Described("deeper", Arrival.DEEPENING, (Described("first deeper"),))
    scout = Described("scout", Arrival.FURTHER, (deeper, *tried))
    again = Described("again", Arrival.RESEARCH, (Described("new pv"), Described("sibling", Arrival.FURTHER)))
    return Described("root", children=(Described("pv"), scout, again))


COMMON = {
    "root": PV,
    "pv": PV,
    "scout": CUT,
    "deeper": CUT,
    "first deeper": ALL,
    "hash": ALL,
    "quiet": CUT,
    "answer": ALL,
    "answer 2": CUT,
    "again": PV,
    "new pv": PV,
    "sibling": CUT,
}


def test_garms_on_a_drawn_tree() -> None:
    own = {"null": CUT, "capture": CUT, "reply": ALL, "reply 2": CUT}
    assert expected_types(drawn(), GARMS) == COMMON | own


def test_kannan_on_a_drawn_tree() -> None:
    own = {"null": ALL, "capture": ALL, "reply": CUT, "reply 2": CUT}
    assert expected_types(drawn(), KANNAN) == COMMON | own


# ------------------------------------------------------------------ streams of events
@BOTH
def test_the_stream_of_a_search_says_the_same_as_its_tree(rules: Rules) -> None:
    tracker, seen = Tracker(rules), {"root": PV}

    def follow(node: Described) -> None:
        for child in node.children:
            seen[child.name] = tracker.enter(child.arrival)
            follow(child)
            tracker.leave()

    follow(drawn())
    assert seen == expected_types(drawn(), rules)
    assert tracker.kind == PV


def test_a_stream_turns_kannans_cut_node_into_an_all_node() -> None:
    tracker = Tracker(KANNAN)
    assert tracker.enter(Arrival.FURTHER) == CUT
    assert tracker.enter(Arrival.FIRST) == ALL
    assert tracker.leave(candidates_left=True) == CUT
    assert tracker.enter(Arrival.CANDIDATE) == ALL
    assert tracker.leave(candidates_left=False) == ALL
    assert tracker.enter(Arrival.FURTHER) == CUT


def test_a_cut_leaves_the_type_of_its_node() -> None:
    tracker = Tracker(KANNAN)
    tracker.enter(Arrival.FURTHER)
    tracker.enter(Arrival.FIRST)
    assert tracker.leave(cut=True, candidates_left=False) == CUT


def test_a_further_move_tells_that_the_candidates_failed() -> None:
    tracker = Tracker(KANNAN)
    tracker.enter(Arrival.FURTHER)
    tracker.enter(Arrival.FURTHER)
    assert tracker.leave() == ALL
    garms = Tracker(GARMS)
    garms.enter(Arrival.FURTHER)
    garms.enter(Arrival.FURTHER)
    assert garms.leave(candidates_left=False) == CUT


def test_the_root_has_no_parent() -> None:
    with pytest.raises(ValueError, match="no parent"):
        Tracker(GARMS).leave()
