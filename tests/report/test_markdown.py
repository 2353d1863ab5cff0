from __future__ import annotations

import re

import golden
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_runs import HOSTILE, MI300X, comparison, failed_run, make_run
from markdown_it import MarkdownIt

from tprimat.report import Picture, Provenance, blocks, markdown
from tprimat.results.run import Source, SourceFile
from tprimat.text import plain

AMD = {"device": MI300X, "stack": "rocm"}
PROVENANCE = Provenance("1.2.3", "python3 compare_results.py 'a b.json'")


def render(result, link="comparison_plot.png"):
    picture = None if link is None else Picture(link, "png", b"\x89PNG")
    return markdown.render(result, PROVENANCE, picture).decode()


def tokens(text):
    parsed = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(text)
    return [token for block in parsed for token in (block, *(block.children or ()))]


CASES = {
    "two_sides": lambda: comparison(make_run(precision=None), make_run(**AMD, step_time=2.4, batch=128)),
    "failed": lambda: comparison(make_run(), failed_run()),
    "six_sides": lambda: comparison(
        *(make_run(label=f"setting {index}", step_time=3 + 0.1 * index) for index in range(6))
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_golden(name):
    golden.check(f"report_{name}.md", render(CASES[name]()))


def test_has_the_sections_that_readers_look_for():
    text = render(CASES["two_sides"]())
    titles = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert titles == [
        "Executive summary",
        "Hardware configuration",
        "Performance metrics",
        "Memory usage",
        "What the speed is worth",
        "Detailed analysis",
        "What this rests on",
        "How to repeat it",
    ]


def test_what_the_page_links_or_replaces_is_text_here():
    pieces = [blocks.Link("1.2", "s0"), blocks.Output(" and ", "x"), blocks.Styled("|3", "state")]
    assert markdown.text_of([blocks.Paragraph(pieces)]) == "1.2and\\|3\n"


def test_the_picture_is_linked_where_there_is_one():
    assert "](../a%20b.png)" in render(comparison(make_run()), "../a b.png")
    assert "![" not in render(comparison(make_run()), None)


@pytest.mark.parametrize("name", CASES)
def test_tables_are_aligned(name):
    blocks = render(CASES[name]()).split("\n\n")
    tables = [block.splitlines() for block in blocks if block.startswith("|")]
    assert len(tables) >= 5
    for lines in tables:
        assert len({len(line) for line in lines}) == 1


def test_every_mark_has_its_footnote():
    text = render(comparison(make_run(warnings=("one", "two")), make_run(**AMD, steps=10, warnings=("two",))))
    marks = set(re.findall(r"\[\^(\d+)\](?!:)", text))
    notes = set(re.findall(r"^\[\^(\d+)\]:", text, flags=re.MULTILINE))
    assert marks == notes == {"1", "2", "3"}


def test_logs_behind_a_result_are_named_with_their_digest():
    source = Source(kind="log", files=(SourceFile(path="training|llama.log", sha256="ab" * 32),))
    text = render(comparison(make_run(source=source)))
    assert "| `training\\|llama.log` | `" + "ab" * 32 + "` |" in text


def test_hardware_that_changed_between_models_is_shown():
    models = [
        make_run(model=name, gpu_info=msgspec.structs.replace(make_run().gpu_info, pytorch_version=version))
        for name, version in (("llama", "2.8"), ("qwen", "2.9"))
    ]
    assert re.search(r"^\| torch +\| 2\.8, 2\.9 ", render(comparison(*models)), flags=re.MULTILINE)


class TestHostileText:
    def test_becomes_no_markup(self):
        run = make_run(HOSTILE, label=HOSTILE, framework=HOSTILE, model=HOSTILE, warnings=(HOSTILE,))
        other = make_run(**AMD, model=HOSTILE, source=Source(kind="live", command=("a`b", "``` |", "<i>")))
        text = render(comparison(run, other, notes=[HOSTILE]))
        kinds = {token.type for token in tokens(text)}
        assert not kinds & {"html_inline", "html_block", "link_open", "em_open", "s_open"}
        assert "\x1b" not in text
        assert not any(line.startswith("# d") for line in text.splitlines())

    @pytest.mark.parametrize(
        "text",
        [
            "a|b",
            "<script>alert(1)</script>",
            "[a](http://b)",
            "![a](b)",
            "https://evil.example/x",
            "_a_ __b__ c_d",
            "*a* **b**",
            "`a`",
            "~~a~~",
            "&lt;",
            "[^1]",
            "a\\b\\",
            "@somebody #12",
        ],
    )
    def test_is_shown_as_it_is(self, text):
        (paragraph,) = (token for token in tokens(f"x {markdown.escape(text)}") if token.type == "inline")
        assert all(child.type in ("text", "text_special") for child in paragraph.children)
        assert "".join(child.content for child in paragraph.children) == f"x {text}"

    def test_names_with_underscores_stay_readable(self):
        assert markdown.escape("global_batch_size") == "global_batch_size"

    @given(st.text(max_size=30))
    def test_code_is_one_span_that_shows_it(self, text):
        (paragraph,) = (token for token in tokens(f"x {markdown.code(text)}") if token.type == "inline")
        spans = [child for child in paragraph.children if child.type == "code_inline"]
        assert len(spans) == 1
        assert spans[0].content.strip() == plain(text).replace("|", "\\|").strip()

    @given(st.text(max_size=30))
    def test_escaped_text_is_text(self, text):
        (paragraph,) = (token for token in tokens(f"x {markdown.escape(text)}") if token.type == "inline")
        assert "".join(child.content for child in paragraph.children) == f"x {plain(text)}".rstrip()
