"""The page: self-contained, and harmless whatever a result says."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser

import pytest
from made_runs import HOSTILE, MI300X, comparison, failed_run, make_run

from tprimat.report import Picture, Provenance, html
from tprimat.run import Source

AMD = {"device": MI300X, "stack": "rocm"}
PICTURE = Picture("pictures/plot.png", "png", b"\x89PNG picture")
VOID = {"meta", "img"}


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


def page(result, picture=PICTURE):
    return Page(html.render(result, Provenance("1.2.3", "python3 compare_results.py 'a b.json'"), picture).decode())


CASES = {
    "two_sides": lambda: comparison(make_run(precision=None), make_run(**AMD, step_time=2.4, batch=128)),
    "failed": lambda: comparison(make_run(), failed_run()),
    "six_sides": lambda: comparison(
        *(make_run(label=f"setting {index}", step_time=3 + 0.1 * index) for index in range(6))
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_is_whole_and_says_the_same_as_the_other_reports(name):
    found = page(CASES[name]())
    assert found.open == []
    assert found.texts["h2"] == [
        "Executive summary",
        "Hardware configuration",
        "Performance metrics",
        "Memory usage",
        "What the speed is worth",
        "Detailed analysis",
        "What this rests on",
        "How to repeat it",
        *(["Footnotes"] if "Footnotes" in found.texts["h2"] else []),
    ]


def test_the_verdict_stands_first():
    strong = page(CASES["two_sides"]()).texts["strong"]
    assert strong[1].startswith("8×MI300X is 2.67 times as fast as 8×H100 80GB HBM3")


def test_the_picture_is_in_the_page():
    (image,) = (attributes for tag, attributes in page(comparison(make_run())).tags if tag == "img")
    kind, _, data = image["src"].partition(";base64,")
    assert (kind, base64.b64decode(data)) == ("data:image/png", PICTURE.content)


def test_without_a_picture_there_is_no_image():
    assert not [tag for tag, _ in page(comparison(make_run()), None).tags if tag == "img"]


def test_a_pdf_is_named_since_no_browser_shows_it_as_an_image():
    found = page(comparison(make_run()), Picture("plot.pdf", "pdf", b"%PDF"))
    assert not [tag for tag, _ in found.tags if tag == "img"]
    assert "plot.pdf" in found.texts["code"]


def test_nothing_is_fetched_and_no_script_can_run():
    found = page(comparison(make_run()))
    policy = next(a["content"] for tag, a in found.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert not {"script", "link", "iframe", "object", "form", "base"} & {tag for tag, _ in found.tags}
    for _, attributes in found.tags:
        assert not any(name.startswith("on") for name in attributes)
        for name in ("href", "src"):
            assert (attributes.get(name) or "#").startswith(("#", "data:image/"))


def test_hostile_text_is_text():
    run = make_run(
        HOSTILE,
        label='"><img src=x onerror=alert(1)>',
        framework=HOSTILE,
        model="</title><script>alert(1)</script>",
        warnings=(HOSTILE, "<b>bold</b>", "&lt;script&gt;"),
        source=Source(kind="live", command=("<script>", HOSTILE)),
    )
    found = page(comparison(run, make_run(**AMD, model=run.model), notes=["<i>note</i>"]))
    assert found.open == []
    assert not {"script", "b", "i"} & {tag for tag, _ in found.tags}
    assert [attributes["alt"] for tag, attributes in found.tags if tag == "img"] == [
        "Throughput, step times, loss and memory of all sides"
    ]
    assert found.texts["title"] == ["Comparison: </title><script>alert(1)</script>"]
    said = "".join(text for texts in found.texts.values() for text in texts)
    assert "&lt;script&gt;" in said
    assert "\x1b" not in said
    assert "\u202e" not in said


def test_every_footnote_is_linked_both_ways():
    found = page(comparison(make_run(warnings=("one", "two")), make_run(**AMD, steps=10, warnings=("two",))))
    ids = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
    assert len(set(ids)) == len(ids)
    targets = {attributes["href"][1:] for tag, attributes in found.tags if tag == "a"}
    assert targets == set(ids) == {f"{kind}-{number}" for kind in ("note", "mark") for number in (1, 2, 3)}


def test_columns_of_figures_are_aligned_to_the_right():
    text = html.render(comparison(make_run()), Provenance("1", "x"), None).decode()
    assert re.search(r'<th scope="row">Step time, mean</th><td class="right">3\.200 s</td>', text)
