"""Files of tables as rows: their header, their delimiter, their numbers; and the names of files of
ranks.
"""

from __future__ import annotations

import io
import re

import pytest

from tprimat.read.parsing import parsed_log
from tprimat.read.parsing.parsed_log import InputFile, columns_of, each_of, folder_of, without_rank
from tprimat.results.run import Run


def rows(text: str) -> list[tuple[int, list[str]]]:
    return list(InputFile("a.csv", io.BytesIO(text.encode())).rows())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,b\n1,2\n", [(1, ["a", "b"]), (2, ["1", "2"])]),
        ("a;b\r\n1;2\r\n", [(1, ["a", "b"]), (2, ["1", "2"])]),
        ("a\tb,c\td\n1\t2\t3\n", [(1, ["a", "b,c", "d"]), (2, ["1", "2", "3"])]),
        ("\ufeffa,b\n1,2\n", [(1, ["a", "b"]), (2, ["1", "2"])]),
        # What stands before the header; the lines are those of the file.
        ("\n# made today\na,b\n1,2\n", [(3, ["a", "b"]), (4, ["1", "2"])]),
        ("sep=;\na,b;c\n1;2\n", [(2, ["a,b", "c"]), (3, ["1", "2"])]),
        ("sep=|\na|b\n1|2\n", [(2, ["a", "b"]), (3, ["1", "2"])]),
        # The last comment is the header if numbers alone follow.
        ("# x\n# a,b\n1.5,2\n3,4\n", [(2, ["a", "b"]), (3, ["1.5", "2"]), (4, ["3", "4"])]),
        ("# a,b\nnan,inf\n", [(1, ["a", "b"]), (2, ["nan", "inf"])]),
        ("# a,b\nc,d\n", [(2, ["c", "d"])]),
        # A cell over two lines.
        ('a,b\n"1\n2",3\n4,5\n', [(1, ["a", "b"]), (3, ["1\n2", "3"]), (4, ["4", "5"])]),
        # The file ends within a number, or behind a word.
        ("a,b\n1,25", [(1, ["a", "b"]), (2, ["1", ""])]),
        ("a,b\n1,-2.5e-3", [(1, ["a", "b"]), (2, ["1", ""])]),
        ("a,b\n1,x25", [(1, ["a", "b"]), (2, ["1", "x25"])]),
        ("a,b\n1,2\0\0\n", [(1, ["a", "b"]), (2, ["1", "2"])]),
        # Decimal commas, and such between thousands.
        ("a;b\n1,5;2\n", [(1, ["a", "b"]), (2, ["1.5", "2"])]),
        ("a;b\n1.234,5;2\n", [(1, ["a", "b"]), (2, ["1234.5", "2"])]),
        ('a,b\n"1,234.5",2.5\n', [(1, ["a", "b"]), (2, ["1,234.5", "2.5"])]),
        ('a;b\n1,234;2,5\n', [(1, ["a", "b"]), (2, ["1.234", "2.5"])]),
        ("a;b\n1,234;2\n", [(1, ["a", "b"]), (2, ["1.234", "2"])]),
        ("a;b\n1,234;2.5\n", [(1, ["a", "b"]), (2, ["1,234", "2.5"])]),
        ("", [(1, [])]),
        ("a;b\r1;25\r", [(1, ["a", "b"]), (2, ["1", "25"])]),
        ("# 1,2\n1,2\n3,4\n", [(2, ["1", "2"]), (3, ["3", "4"])]),
        ("a\tb\n1,234\t2.5\n", [(1, ["a", "b"]), (2, ["1,234", "2.5"])]),
    ],
)  # fmt: skip
def test_rows(text, expected):
    assert rows(text) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "a;b\n7,95;2\n3;2.5\n",
            "line 3: 2.5 can be read in two ways: write numbers with a decimal point alone",
        ),
        (
            "a\tb\n1\t3\n2,351\t2\n",
            "line 3: 2,351 can be read in two ways: write numbers with a decimal point alone",
        ),
        ('a,b\n1,2\n3,"' + "x" * 131_073 + '"\n', "line 3: field larger than field limit (131072)"),
        ("a\n" + "x" * (1 << 20), "a line is longer than 1 MiB"),
    ],
)
def test_tables_that_cannot_be_read(text, words):
    with pytest.raises(ValueError, match=f"^{re.escape(words)}$"):
        rows(text)


def test_lines_up_to_the_longest():
    longest = b"x" * (parsed_log.LONGEST_LINE - 2)
    source = InputFile("a", io.BytesIO(longest + b"\nb\n"))
    assert [*source.lines()] == [*source.lines()] == [longest + b"\n", b"b\n"]
    with pytest.raises(ValueError, match=r"^a line is longer than 1 MiB$"):
        list(InputFile("a", io.BytesIO(b"x" + longest + b"\n")).lines())


def test_a_table_has_the_rows_that_fit_its_header():
    table = InputFile("a.csv", io.BytesIO(b" a , b\n1,2\n3\n4,5,6\n7,8\n")).table()
    assert list(table) == [(2, {"a": "1", "b": "2"}), (5, {"a": "7", "b": "8"})]


@pytest.mark.parametrize(
    ("head", "names"),
    [
        (b'a, b ,"c"\r\n1,2,3\n', ["a", "b", "c"]),
        (b"# x\n\na;b\n", ["a", "b"]),
        (b"\xef\xbb\xbfa\tb\n", ["a", "b"]),
        (b"", [""]),
        # The header of another hundred lines is none.
        (b"#\n" * 99 + b"a,b\n", ["a", "b"]),
        (b"#\n" * 100 + b"a,b\n", ["#"]),
        (b"x" * 20_000, ["x" * 20_000]),
        (b"x" * 20_001, []),
        (b"a" * 140_000, []),
    ],
)
def test_columns(head, names):
    assert columns_of(head) == names


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("a/rank3/x.log", "a/rank/x.log"),
        ("rank_12-Rank-7.log", "rank_-Rank-.log"),
        ("crank3.log", "crank3.log"),
        ("rank1234567.log", "rank7.log"),
        ("rank.log", "rank.log"),
    ],
)
def test_names_without_ranks(path, shown):
    assert without_rank(path) == shown


def test_what_the_user_gives_is_passed_on():
    parsed = parsed_log.ParsedLog(3, {}, (), lambda given: Run(label=given.get("label")))
    assert (parsed.run(), parsed.run({"label": "a"})) == (Run(), Run(label="a"))


def test_folders():
    assert (folder_of("a/b/c.log"), folder_of("c.log")) == ("a/b", ".")


def test_files_one_by_one():
    read = each_of(lambda part, beside: [part.name, *beside])
    parts = [InputFile(name, io.BytesIO()) for name in ("b", "a")]
    assert read(parts, {"x": b""}) == ["b", "x", "a", "x"]
