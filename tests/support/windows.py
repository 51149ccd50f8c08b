"""The tests that do not run on Windows, each with its reason. Those that need `fork` say so themselves."""

from __future__ import annotations

FULL_DISK = "the limit of a file's size is POSIX's"
NO_LINKS = "only administrators may make links"
NO_SIGNALS = "one process cannot send another a signal"

NOT_THERE = {
    "tests/graph/test_faults.py::test_a_full_disk_ends_a_search_with_a_clear_line_and_it_goes_on_with_room": (
        FULL_DISK
    ),
    "tests/query/test_history.py::test_a_year_of_runs_stays_small_with_its_changes": (
        "Python's SQLite for Windows has no table dbstat"
    ),
    "tests/query/test_sql.py::test_it_reads_beside_a_search_and_from_a_read_only_folder": (
        "a reader of a read-only file leaves an empty log beside it"
    ),
    "tests/store/test_log.py::test_checkpoints_leave_no_descriptor_open": "the folder /proc is Linux's",
    "tests/store/test_maintenance.py::test_a_copy_needs_another_name_and_a_folder": NO_LINKS,
    "tests/store/test_opening.py::test_a_link_leads_to_the_same_lock": NO_LINKS,
    "tests/uci/test_clients.py::test_a_signal_saves_what_was_searched": NO_SIGNALS,
    "tests/uci/test_protocol.py::test_an_option_out_of_range_is_refused_in_a_line": "no pipes with names",
}
