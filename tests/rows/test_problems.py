"""What is said of rows that cannot be taken."""

from __future__ import annotations

from singerlake.rows.batches.problems import (
    Problem,
    Problems,
    RowProblem,
    Stages,
    decode,
    merged,
    rejected,
)


def _problem(line: int) -> Problem:
    return Problem("orders.csv", line, "total", "12,5", "is not a valid number")


def test_a_problem_names_file_line_column_and_value() -> None:
    assert str(_problem(7)) == "orders.csv, line 7, column 'total': '12,5' is not a valid number"
    ragged = Problem("orders.csv", 1_234, None, None, "has 3 cells, the header has 4")
    assert str(ragged) == "orders.csv, line 1,234: has 3 cells, the header has 4"


def test_a_row_of_the_table_itself_is_named_by_its_id() -> None:
    found = RowProblem(3, "status", "x", "is no status")
    assert str(found.at("tap.orders", None, "17")) == (
        "tap.orders, row '17', column 'status': 'x' is no status"
    )
    assert found.at("a.csv", 4) == Problem("a.csv", 4, "status", "x", "is no status")


def test_a_value_cannot_break_the_message() -> None:
    text = str(Problem("a.csv", 1, "c", "x\n\x1b[2J" + "y" * 500, "is not a valid date"))
    assert "\n" not in text
    assert "\x1b" not in text
    assert len(text) < 150
    assert text.endswith("…  is not a valid date".replace("  ", " "))


def test_what_a_task_sends_is_bounded_and_counted() -> None:
    found = Problems()
    for line in range(25):
        found.add(_problem(line), most=10)
    assert (found.total, len(found.first)) == (25, 10)
    again = decode(found.encode())
    assert again == found
    whole = merged([again, Problems(2, [_problem(100), _problem(101)])], most=11)
    assert whole.total == 27
    assert [p.line for p in whole.first] == [*range(10), 100]


def test_the_error_shows_the_first_ten_and_the_count() -> None:
    found = Problems()
    for line in range(1, 1_236):
        found.add(_problem(line))
    error = rejected(found)
    assert error.exit_code == 5
    assert error.lines[0] == "1,235 problems in the given rows; nothing was changed:"
    assert error.lines[10] == f"  {_problem(10)}"
    assert error.lines[11] == "  and 1,225 more"
    assert str(rejected(Problems(1, [_problem(1)]))).startswith("1 problem in the given rows;")


def test_what_every_stage_finds_is_listed_by_place() -> None:
    def of(source: str, line: int, column: str) -> Problem:
        return Problem(source, line, column, None, "is wrong")

    stages = Stages(["b.csv", "a.csv"], Problems(2, [of("b.csv", 5, "n"), of("a.csv", 1, "n")]))
    stages.add(Problems(1, [of("a.csv", 2, "id")]))
    # Line 5 of b.csv could not be read whole: that its key is missing may be just that.
    stages.add(Problems(4, [of("b.csv", 2, "id"), of("b.csv", 5, "id")]))
    stages.add(Problems(1, [of("b.csv", 5, "id")]), of_read_cells=True)
    whole = stages.whole()
    assert whole.total == stages.total == 7
    assert [(one.source, one.line) for one in whole.first] == [
        ("b.csv", 2),
        ("b.csv", 5),
        ("b.csv", 5),
        ("a.csv", 1),
        ("a.csv", 2),
    ]
    assert [one.line for one in stages.whole(most=1).first] == [2]
    assert not stages.blind
    assert Stages(["a.csv"], Problems(1, [of("a.csv", 1, "n")], ["a.csv"])).blind
