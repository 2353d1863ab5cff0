"""The page as a file: self-contained, in order, and harmless whatever a result says."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest
from made_runs import HOSTILE, MI300X, comparison, failed_run, make_run

from tprimat.catalog.prices import Price
from tprimat.report import Picture, Provenance, page
from tprimat.report.page import library
from tprimat.results.run import Data, Source, SourceFile

AMD = {"device": MI300X, "stack": "rocm"}
PICTURE = Picture("pictures/plot.png", "png", b"\x89PNG picture")
VOID = {"meta", "img", "input"}
SECTIONS = [
    "Verdict",
    "Figures",
    "Throughput",
    "Steps over time",
    "Loss",
    "Memory",
    "Cost",
    "Ledger of differences",
    "Evidence",
    "Hardware",
    "What this rests on",
    "How to repeat it",
]
LARGEST = 2_500_000
"""Bytes of a page of four runs of 500 steps: what a mailbox takes without a word."""


class Page(HTMLParser):
    """Tags with their attributes, text by tag, and whether every tag is closed in its turn."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)

    def ids(self) -> list[str]:
        return [attributes["id"] for _, attributes in self.tags if "id" in attributes]


def text_of(result, picture=PICTURE, found=None):
    provenance = Provenance("1.2.3", "python3 compare_results.py 'a b.json'")
    return page.render_with(result, provenance, picture, found).decode()


def parsed(result, picture=PICTURE, found=None):
    return Page(text_of(result, picture, found))


@pytest.fixture(scope="module")
def plotly():
    found = library.load()
    if found is None:
        pytest.skip("plotly is not installed")
    return found


def embedded(text, name):
    (content,) = re.findall(rf'<script type="application/json" id="{name}">(.*?)</script>', text, re.DOTALL)
    return json.loads(content)


CASES = {
    "one_side": lambda: comparison(make_run()),
    "two_sides": lambda: comparison(make_run(precision=None), make_run(**AMD, step_time=2.4, batch=128)),
    "several_runs": lambda: comparison(
        tuple(make_run(step_time=3.2 + 0.01 * k, timestamp=f"2026-02-0{k + 1}T00:00:00+00:00") for k in range(3)),
        tuple(make_run(**AMD, step_time=2.4 + 0.01 * k, timestamp=f"2026-02-0{k + 1}T00:00:00Z") for k in range(3)),
    ),
    "levels": lambda: comparison(
        make_run(steps=200, step_times=(*(3.0 + 0.001 * (k % 5) for k in range(100)), *[2.0, 2.001] * 50)), make_run()
    ),
    "failed": lambda: comparison(make_run(), failed_run()),
    "all_failed": lambda: comparison(failed_run()),
    "refused": lambda: comparison(make_run(**AMD), make_run(step_time=0.01)),
    "six_sides": lambda: comparison(
        *(make_run(label=f"setting {index}", step_time=3 + 0.1 * index) for index in range(6))
    ),
    "two_models": lambda: comparison(
        make_run(), make_run(**AMD), make_run(model="qwen"), make_run(**AMD, model="qwen", step_time=3.25)
    ),
    "nothing_known": lambda: comparison(
        make_run(None, gpus=None, batch=None, length=None, precision=None, losses=False)
    ),
    "gaps": lambda: comparison(
        make_run(step_times=(None, *make_run().step_times[1:30], None, *make_run().step_times[31:]))
    ),
}


@pytest.mark.parametrize("name", CASES)
class TestWhole:
    def test_every_tag_is_closed_and_every_section_in_its_place(self, name):
        found = parsed(CASES[name]())
        assert found.open == []
        assert [title for title in found.texts["h2"] if title != "Footnotes"] == SECTIONS

    def test_every_link_leads_somewhere(self, name):
        found = parsed(CASES[name]())
        ids = found.ids()
        assert len(set(ids)) == len(ids)
        targets = {attributes["href"] for tag, attributes in found.tags if tag == "a"}
        assert {target[1:] for target in targets} <= set(ids)
        assert all(target.startswith("#") for target in targets)

    def test_its_data_is_json_for_any_reader(self, name):
        text = text_of(CASES[name]())
        assert set(embedded(text, "data")) == {"palettes", "sides", "runs", "charts", "windows", "cost"}
        results = embedded(text, "results")
        assert len(results) == len(embedded(text, "data")["runs"])

    def test_every_label_and_every_output_has_its_control(self, name):
        found = parsed(CASES[name]())
        for tag, attributes in found.tags:
            if tag == "label" and "for" in attributes:
                assert attributes["for"] in found.ids()


def test_the_verdict_stands_first():
    text = text_of(CASES["two_sides"]())
    first = text.index('<p class="headline">')
    assert text[first:].startswith('<p class="headline">8×MI300X is 2.67 times as fast as 8×H100 80GB HBM3')
    assert text.index("<h2>Verdict</h2>") < first < text.index("<nav") < text.index("<h2>Figures</h2>")


def test_the_four_questions_are_answered():
    found = parsed(CASES["several_runs"]())
    assert found.texts["dt"] == ["How much", "How sure", "Is it fair", "Is it possible"]
    said = " ".join(found.texts["dd"])
    assert "3 runs a side; intervals are of the ratio of the runs' means, 95 %, by log-Welch t." in said
    assert "identical configurations, as far as they are stated: " in said


def test_a_run_that_changes_its_level_has_no_single_ratio():
    times = (*(3.0 + 0.001 * (k % 5) for k in range(100)), *(2.0 + 0.001 * (k % 5) for k in range(100)))
    run = make_run(**AMD, steps=200, step_times=times)
    text = text_of(comparison(make_run(steps=200), run))
    headline = text[text.index('<p class="headline">') : text.index('<p class="headline">') + 400]
    assert re.search(r"1\.07 times .* in its steps 1–100 and 1\.60 times in its steps 101–200", headline)
    assert "1.07–1.60× by level" in text
    chart = next(each for each in embedded(text, "data")["charts"] if each["kind"] == "throughput")
    assert [len(trace["values"]) for trace in chart["traces"]] == [1, 2]


class TestSafety:
    def test_nothing_is_fetched_and_only_the_two_known_scripts_run(self, plotly):
        text = text_of(CASES["two_sides"](), None, plotly)
        found = Page(text)
        policy = next(a["content"] for _, a in found.tags if a.get("http-equiv") == "Content-Security-Policy")
        (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
        own = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert policy == (
            f"default-src 'none'; script-src 'sha256-{own}' 'sha256-{plotly.digest}'; img-src data: blob:; "
            "style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
        )
        kinds = [attributes.get("type") for tag, attributes in found.tags if tag == "script"]
        assert kinds == ["application/json", "application/json", "application/gzip", None]
        assert not {"link", "iframe", "object", "form", "base", "embed"} & {tag for tag, _ in found.tags}
        for _, attributes in found.tags:
            assert not any(name.startswith("on") for name in attributes)
            for name in ("href", "src"):
                assert (attributes.get(name) or "#").startswith(("#", "data:image/"))

    def test_the_library_is_what_its_package_carries(self, plotly):
        unpacked = gzip.decompress(base64.b64decode(plotly.packed))
        assert base64.b64encode(hashlib.sha256(unpacked).digest()).decode() == plotly.digest
        assert b"plotly.js" in unpacked[:200]

    def test_hostile_text_is_text(self, plotly):
        run = make_run(
            HOSTILE,
            label='"><img src=x onerror=alert(1)>',
            framework=HOSTILE,
            model="</title></script><script>alert(1)</script>",
            warnings=(HOSTILE, "<b>bold</b>", "&lt;script&gt;", "</script><script>alert(2)</script>\u2028\u2029<!--"),
            source=Source(
                kind="log", command=("<script>", HOSTILE), files=(SourceFile(path="</script><i>", sha256="0" * 64),)
            ),
            data=Data(kind="</script><b>", entropy=1.5),
        )
        text = text_of(comparison(run, make_run(**AMD, model=run.model), notes=["<i>note</i>"]), PICTURE, plotly)
        found = Page(text)
        assert found.open == []
        assert not {"b", "i", "img"} & {tag for tag, _ in found.tags}
        assert [tag for tag, _ in found.tags].count("script") == 4
        assert found.texts["title"] == ["Comparison: </title></script><script>alert(1)</script>"]
        said = "".join(text for tag, texts in found.texts.items() if tag != "script" for text in texts)
        assert "&lt;script&gt;" in said
        for character in "\x1b\u202e\u2028\u2029":
            assert character not in text
        # What is downloaded is what was read.
        assert embedded(text, "results")[0]["run"]["warnings"][-1] == run.warnings[-1]

    def test_charts_read_no_markup_in_names(self):
        run = make_run(label="<b>x</b> <a href='http://x.org'>y</a> %{x} &lt;")
        data = embedded(text_of(comparison(run, make_run(**AMD))), "data")
        for chart in data["charts"]:
            said = json.dumps(chart, ensure_ascii=False)
            assert not re.search(r"<(?!br>)", said)
            assert "%{x}" not in said


class TestWithoutTheLibrary:
    def test_the_picture_stands_in_the_place_of_the_charts(self):
        found = parsed(CASES["two_sides"]())
        (image,) = (attributes for tag, attributes in found.tags if tag == "img")
        kind, _, data = image["src"].partition(";base64,")
        assert (kind, base64.b64decode(data)) == ("data:image/png", PICTURE.content)
        assert "pip install plotly" in found.texts["code"]

    def test_without_a_picture_there_is_no_image(self):
        assert not [tag for tag, _ in parsed(CASES["one_side"](), None).tags if tag == "img"]

    def test_a_pdf_is_named_since_no_browser_shows_it_as_an_image(self):
        found = parsed(CASES["one_side"](), Picture("plot.pdf", "pdf", b"%PDF"))
        assert not [tag for tag, _ in found.tags if tag == "img"]
        assert "plot.pdf" in found.texts["code"]

    def test_the_command_writes_that_page(self, monkeypatch):
        monkeypatch.setattr(library, "load", lambda: None)
        assert b"pip install plotly" in page.render(CASES["one_side"](), Provenance("1", "x"), None)


def test_four_runs_of_500_steps_fit_a_mailbox(plotly):
    runs = [
        make_run(step_time=3.2 + 0.01 * k, steps=500, label=f"run {k}", grad_norms=(1.2345678,) * 500) for k in range(4)
    ]
    assert len(text_of(comparison(*runs), PICTURE, plotly)) < LARGEST


def test_many_results_are_compressed_and_whole():
    runs = [make_run(label=f"run {k}", steps=2000, step_time=3.2 + 0.01 * k) for k in range(6)]
    text = text_of(comparison(*runs))
    (content,) = re.findall(r'<script type="application/gzip" id="results">([^<]*)</script>', text)
    found = json.loads(gzip.decompress(base64.b64decode(content)))
    assert [each["run"]["step_times"] for each in found] == [list(run.step_times) for run in runs]


def test_every_footnote_is_linked_both_ways():
    found = parsed(comparison(make_run(warnings=("one", "two")), make_run(**AMD, steps=10, warnings=("two",))))
    notes = {name for name in found.ids() if name.startswith(("note-", "mark-"))}
    assert notes == {f"{kind}-{number}" for kind in ("note", "mark") for number in (1, 2, 3)}


def test_columns_of_figures_are_aligned_to_the_right():
    assert re.search(
        r'<th scope="row">Step time, mean</th><td class="right"><a class="figure" href="#s0-avg_step_time_seconds">'
        r"3\.200 s</a></td>",
        text_of(CASES["one_side"]()),
    )


class TestEvidence:
    def test_a_figure_leads_to_its_formula_steps_and_file(self):
        text = text_of(CASES["one_side"]())
        row = re.search(r'<tr id="s0-tokens_per_second_per_gpu">(.*?)</tr>', text)[1]
        assert re.search(r"= 64 × 2048 / 3\.\d+ s / 8<", row)
        assert "steps 4–60 of results/file_1.json" in row

    def test_a_log_is_named_with_its_lines(self):
        source = Source(kind="log", files=(SourceFile(path="logs/train.log", sha256="a" * 64),))
        run = make_run(source=source, lines=tuple(range(101, 161)))
        row = re.search(r'<tr id="s0-avg_step_time_seconds">(.*?)</tr>', text_of(comparison(run)))[1]
        assert "steps 4–60 of results/file_1.json; lines 104–160 of logs/train.log" in row

    def test_a_ratio_names_the_two_rates(self):
        text = text_of(comparison(make_run(), make_run(**AMD, step_time=1.6)))
        row = re.search(r'<tr id="p0">(.*?)</tr>', text)[1]
        assert "10,240 / 5,120 tokens/s/GPU" in row
        assert 'href="#s1-tokens_per_second_per_gpu"' in row


class TestCost:
    def test_prices_of_the_command_line_stand_in_the_fields(self):
        found = dataclasses.replace(
            CASES["several_runs"](), prices={"8×H100 80GB HBM3": Price(2.95, 2.95), "8×MI300X": Price(1.5, 2)}
        )
        fields = [attributes for _, attributes in parsed(found).tags if "data-price" in attributes]
        assert [field.get("value") for field in fields] == ["2.95", "1.5:2"]

    def test_there_is_no_price_of_ours(self):
        fields = [attributes for _, attributes in parsed(CASES["two_sides"]()).tags if "data-price" in attributes]
        assert [field.get("value") for field in fields] == [None, None]

    def test_what_is_refused_costs_nothing_that_could_be_said(self):
        cost = embedded(text_of(CASES["refused"]()), "data")["cost"]
        assert [len(side["levels"]) for side in cost["sides"]] == [1, 0]
        assert cost["pairs"] == []
