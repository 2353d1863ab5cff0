from __future__ import annotations

import re

import golden
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_runs import HOSTILE, MI300X, comparison, failed_run, make_run
from markdown_it import MarkdownIt
from stored_runs import notes_of

from tprimat.compare.cost import with_prices
from tprimat.report import Plot, Sources, blocks, markdown, tables
from tprimat.report.verdict import report
from tprimat.results.run import Source, SourceFile
from tprimat.text import plain

AMD = {"device": MI300X, "stack": "rocm"}
SOURCES = Sources("1.2.3", "python3 compare_results.py 'a b.json'")


def render(result, link="comparison_plot.png"):
    picture = None if link is None else Plot(link, "png", b"\x89PNG")
    return markdown.render(report(result), SOURCES, picture).decode()


def tokens(text):
    parsed = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(text)
    return [token for block in parsed for token in (block, *(block.children or ()))]


CASES = {
    "two_systems": lambda: comparison(
        make_run(precision=None), make_run(**AMD, step_time=2.4, batch=128)
    ),
    "failed": lambda: comparison(make_run(), failed_run()),
    "six_systems": lambda: comparison(
        *(make_run(label=f"setting {index}", step_time=3 + 0.1 * index) for index in range(6))
    ),
    "models": lambda: comparison(
        *(
            tuple(
                make_run(
                    **fields,
                    model=model,
                    step_time=seconds * (1 + 0.001 * day),
                    timestamp=f"2026-02-0{day}T00:00:00+00:00",
                )
                for day in (1, 2, 3)
            )
            for model in ("llama", "qwen")
            for fields, seconds in (({}, 3.2), (AMD, 2.4))
        )
    ),
}


@pytest.mark.parametrize("name", ["two_systems", "failed", "six_systems"])
def test_golden(name):
    golden.check(f"report_{name}.md", render(CASES[name]()))


def test_the_answer_comes_first():
    lines = [line for line in render(CASES["two_systems"]()).splitlines() if line]
    assert lines[2] == "**8×MI300X (BF16) is 2.7× as fast per GPU as 8×H100**"
    assert lines[3] == "2.67×, 1 run each: run-to-run variation unknown"
    assert (
        lines.index("Caveats:") < lines.index("Next steps:") < lines.index("## Performance metrics")
    )


def test_sections():
    text = render(CASES["two_systems"]())
    titles = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert titles == [
        "Executive summary",
        "Performance metrics",
        "Configuration diff",
        "Efficiency and cost",
        "Memory usage",
        "Hardware configuration",
        "Detailed analysis",
        "Sources",
        "Reproduce",
    ]


def test_a_caveat_of_all_models_is_said_once():
    text = render(CASES["models"]())
    assert "**8×MI300X (BF16) is 33% faster per GPU than 8×H100 (BF16) in both models**" in text
    assert text.count("settings not reported by every system") == 1
    assert "### Qwen 2.5 7B" in text
    assert "**Qwen 2.5 7B: 8×MI300X (BF16) is 33% faster per GPU than 8×H100 (BF16)**" in text


@pytest.mark.parametrize(
    ("reference", "headline", "pair", "sensitivity"),
    [
        ("H100", "8×MI300X (BF16) is 33% faster per GPU than 8×H100", "MI300X (BF16) vs 8×H100 (BF16): 1.33×",
         r"1\.\d\d–1\.\d\d×"),
        ("MI300X", "8×H100 (BF16) is 25% slower per GPU than 8×MI300X",
         "H100 (BF16) vs 8×MI300X (BF16): 0.75×", r"0\.\d\d–0\.\d\d×"),
    ],
)  # fmt: skip
def test_every_ratio_is_that_to_the_baseline(reference, headline, pair, sensitivity):
    text = render(comparison(make_run(), make_run(**AMD, step_time=2.4), reference=reference))
    assert headline in text
    assert f"- 8×{pair}" in text
    assert re.search(rf"with other common step windows {sensitivity}", text)


def test_cost_is_below_the_results():
    result = comparison(make_run(), make_run(**AMD, step_time=2.4))
    text = render(with_prices(result, ["H100=3", "MI300X=2"]).comparison)
    results, rest = (
        text.replace("\\", "").split("## Performance metrics")[1].split("## Configuration diff")
    )
    assert (
        "8×MI300X (BF16) at $2.00 is 50% cheaper per token than 8×H100 (BF16) at $3.00" in results
    )
    assert "| 8×MI300X (BF16), $2.00 per GPU-hour |" in rest


def test_what_the_page_links_or_replaces_is_text_here():
    pieces = [blocks.Link("1.2", "s0"), blocks.Output(" and |3", "x")]
    assert markdown.write(blocks.Document([blocks.Paragraph(pieces)])) == "1.2and \\|3\n"


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


def test_a_warning_is_said_once_with_the_systems_that_it_is_of():
    text = render(
        comparison(
            make_run(notes=notes_of("one", "two")), make_run(**AMD, steps=9, notes=notes_of("two"))
        )
    )
    warnings = text.split("Warnings:")[1].split("\n\n")[1].splitlines()
    assert warnings == ["- 8×H100 (BF16): one", "- two"]


def test_logs_behind_a_result_are_named_with_their_digest():
    source = Source(kind="log", files=(SourceFile(path="training|llama.log", sha256="ab" * 32),))
    text = render(comparison(make_run(source=source)))
    assert "| `training\\|llama.log` | `" + "ab" * 32 + "` |" in text


def test_hardware_that_changed_between_models_is_shown():
    models = [
        make_run(
            model=name,
            gpu_info=msgspec.structs.replace(make_run().gpu_info, pytorch_version=version),
        )
        for name, version in (("llama", "2.8"), ("qwen", "2.9"))
    ]
    assert re.search(
        r"^\| PyTorch +\| 2\.8, 2\.9 ", render(comparison(*models)), flags=re.MULTILINE
    )


class TestHostileText:
    def test_becomes_no_markup(self):
        run = make_run(
            HOSTILE, label=HOSTILE, framework=HOSTILE, model=HOSTILE, notes=notes_of(HOSTILE)
        )
        other = make_run(
            **AMD, model=HOSTILE, source=Source(kind="live", command=("a`b", "``` |", "<i>"))
        )
        text = render(comparison(run, other, notes=notes_of(HOSTILE)))
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
        (paragraph,) = (
            token for token in tokens(f"x {markdown.escape(text)}") if token.type == "inline"
        )
        assert all(child.type in ("text", "text_special") for child in paragraph.children)
        assert "".join(child.content for child in paragraph.children) == f"x {text}"

    def test_names_with_underscores_stay_readable(self):
        assert markdown.escape("global_batch_size") == "global_batch_size"

    @given(st.text(max_size=30))
    def test_code_is_one_span_that_shows_it(self, text):
        (paragraph,) = (
            token for token in tokens(f"x {markdown.code(text)}") if token.type == "inline"
        )
        spans = [child for child in paragraph.children if child.type == "code_inline"]
        assert len(spans) == 1
        assert spans[0].content.strip() == plain(text).replace("|", "\\|").strip()

    @given(st.text(max_size=30))
    def test_escaped_text_is_text(self, text):
        (paragraph,) = (
            token for token in tokens(f"x {markdown.escape(text)}") if token.type == "inline"
        )
        assert "".join(child.content for child in paragraph.children) == f"x {plain(text)}".rstrip()


def test_an_interval_that_a_system_lacks_has_a_reason():
    drifting = make_run(**AMD, step_time=2.4, steps=300, warmup=(20.0, *[2.6] * 99))
    for other, reason in (
        ((make_run(**AMD), make_run(**AMD, step_time=3.0)), "– (2 runs)"),
        (drifting, "– (speed changes or drifts)"),
    ):
        found = comparison(make_run(), other)
        rows = tables.speed_rows(found.models[0].groups[0], tables.Footnotes(found))
        (row,) = (row for row in rows if row.title == "Within-run CI")
        assert reason in [cell.text for cell in row.cells]
