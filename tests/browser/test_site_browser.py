"""The static site in a browser, from file://: filters, address, comparison, prices, links, phone,
access.
"""

from __future__ import annotations

import re

import made_record
import pytest

from tprimat.publish.record import REJECTED

pytestmark = pytest.mark.browser

SCREENS = ((1280, 800), (390, 844))
ROWS = "[...document.querySelectorAll('#all tbody tr')]"
BEST = "[...document.querySelectorAll('#best tbody tr')]"


@pytest.fixture(scope="module")
def record():
    return made_record.record()


@pytest.fixture(scope="module")
def folder(record, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    made_record.write(record, folder)
    return folder


class Site:
    """The index, and what a reader does on it."""

    def __init__(self, browser, folder) -> None:
        self.browser, self.folder = browser, folder

    def open(self, address=""):
        self.browser.driver.get("about:blank")
        self.browser.requests(), self.browser.complaints()
        self.browser.driver.get((self.folder / "index.html").as_uri() + address)
        self.browser.wait("document.documentElement.dataset.ready")
        return self

    def run(self, script, *arguments):
        return self.browser.run(script, *arguments)

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0]).innerText", selector)

    def choose(self, name, value):
        self.run(
            "const field = document.getElementById(arguments[0]); field.value = arguments[1];"
            "field.dispatchEvent(new Event('change', {bubbles: true}))",
            name,
            value,
        )

    def search(self, text):
        self.run(
            "const field = document.getElementById('q'); field.value = arguments[0];"
            "field.dispatchEvent(new Event('input', {bubbles: true}))",
            text,
        )

    def price(self, gpu, text):
        """Give the GPU a price in the table of the fastest; return its cost and whether the price
        is invalid.
        """
        return self.run(
            f"const row = {BEST}.find(row => row.innerText.includes(arguments[0]));"
            "const field = row.querySelector('[data-price]'); field.value = arguments[1];"
            "field.dispatchEvent(new Event('input', {bubbles: true}));"
            "return [row.querySelector('output').textContent, field.getAttribute('aria-invalid')]",
            gpu,
            text,
        )

    def sort(self, key):
        self.run("document.querySelector(`#all th[data-sort=${arguments[0]}] button`).click()", key)
        return self.run(
            "return document.querySelector(`#all th[data-sort=${arguments[0]}]`).ariaSort", key
        )

    def hash(self):
        return self.run("return location.hash")

    def cells(self, label, rows=ROWS):
        return self.run(
            f"return {rows}.map(row =>"
            " row.querySelector(`[data-label='${arguments[0]}']`).innerText)",
            label,
        )

    def pick(self, *rows):
        for row in rows:
            self.run("document.querySelectorAll('#all [data-pick]')[arguments[0]].click()", row)


@pytest.fixture
def index(browser, folder):
    return Site(browser, folder).open()


def expected(record, **fields):
    return [
        one
        for one in record.points
        if all(getattr(one, name) == value for name, value in fields.items())
    ]


def test_it_opens_on_an_answer_without_complaint_or_network(index, folder):
    assert "tokens/s/GPU" in index.text("#answer")
    assert index.text("#answer").startswith("Fastest: ")
    assert index.browser.complaints() == []
    requests = index.browser.requests()
    assert all(request.startswith(folder.as_uri()) for request in requests)
    assert index.run("return document.querySelectorAll('#chart canvas').length") == 1


def test_the_fastest_of_each_gpu_are_those_of_the_record(index, record):
    rows = [
        one
        for one in expected(record, model="llama", task="pretrain", sequence_length=8192)
        if one.mark not in REJECTED
    ]
    best = {}
    for one in rows:
        best[one.gpu] = max(best.get(one.gpu, 0), one.tokens_per_second_per_gpu or 0)
    wanted = sorted((value for value in best.values() if value), reverse=True)
    index.run("document.getElementById('best-more').click()")
    shown = [float(text.split()[0].replace(",", "")) for text in index.cells("Speed", BEST)]
    assert shown == [round(value) for value in wanted]


def test_without_fp4(index, record):
    index.choose("model", "llama-3.1-405b")
    index.choose("precision", "*fp4")
    assert not [text for text in index.cells("GPU") if "FP4" in text]
    assert "precision=*fp4" in index.hash()


def test_the_first_screen_answers_with_and_without_fp4_and_for_both_vendors(index):
    lines = index.text("#answer").split("\n")
    starts = ("Fastest: B200 (FP4)", "Without FP4: MI355X (FP8)", "Fastest AMD GPU: MI355X (FP8)")
    for line, start in zip(filter(None, lines), starts, strict=True):
        assert line.startswith(start)
    index.choose("precision", "*fp4")
    assert index.text("#answer").startswith("Fastest: MI355X (FP8)")


def test_filters_count_what_the_record_has(index, record):
    index.choose("model", "deepseek-v3")
    index.choose("precision", "mxfp8")
    index.choose("count", "256")
    rows = expected(
        record,
        model="deepseek-v3",
        task="pretrain",
        sequence_length=4096,
        precision="mxfp8",
        num_gpus=256,
    )
    assert index.text("#elsewhere").startswith(f"{len(rows)} results")
    assert len(index.cells("GPU")) == len(rows)


def test_all_models_and_a_search(index, record):
    index.choose("model", "*")
    assert index.text("#elsewhere").startswith(
        f"{len([one for one in record.points if one.mark not in REJECTED]):,} results"
    )
    index.search("InternEvo a100")
    found = index.run(
        "return Number(document.getElementById('elsewhere').textContent.match(/^[\\d,]+/)[0])"
    )
    assert 0 < found <= len(expected(record, publisher="Shanghai AI Laboratory"))
    index.search("no such words")
    assert index.text("#answer") == "No result matches these filters."
    index.run("document.querySelector('#filters button[type=reset]').click()")
    assert index.hash() == ""


def test_the_address_holds_the_state(index):
    index.choose("model", "llama-3.1-70b")
    index.choose("precision", "fp8")
    index.choose("length", "*")
    index.run("document.getElementById('more').open = true")
    index.pick(0, 1)
    index.sort("gpu")
    index.price("H100", "2.20:3.10")
    address = index.hash()
    see = (
        "return ['answer', 'best', 'all', 'comparison', 'filters'].map(name =>"
        " document.getElementById(name).innerText)"
    )
    seen = index.run(see)
    index.open(address)
    assert index.run(see) == seen
    assert index.hash() == address
    assert "2.20:3.10" in index.run(
        "return [...document.querySelectorAll('[data-price]')].map(p => p.value)"
    )


def test_the_browser_goes_back(index):
    index.choose("model", "llama-3.1-70b")
    index.choose("model", "deepseek-v3")
    index.run("history.back()")
    index.browser.wait("document.getElementById('model').value === 'llama-3.1-70b'")
    assert "model=llama-3.1-70b" in index.hash()


@pytest.mark.parametrize(
    "address",
    ["#model=nothing&precision=&pick=zz.&sort=x", "#%", "#model=*&task=zz&gpu=<script>&usd.x=1"],
)
def test_a_broken_address_opens(index, address):
    index.open(address)
    assert index.cells("GPU")
    assert index.browser.complaints() == []


@pytest.mark.parametrize(
    ("address", "ignored"),
    [
        ("#model=nothing&pick=zz", "pick=zz, model=nothing"),
        ("#task=zz&sort=x", "sort=x, task=zz"),
        ("#precision=fp8&sort=-gpu&q=x&usd.h100-sxm5=2", ""),
        ("#mark=*valid&task=pretrain", ""),
    ],
)
def test_what_the_record_lacks_is_said_until_the_next_choice(index, address, ignored):
    index.open(address)
    assert index.text("#ignored") == (
        f"No such result in the record, so ignored: {ignored}." if ignored else ""
    )
    index.choose("precision", "fp8")
    assert index.text("#ignored") == ""


def test_the_headline_and_the_tables_say_who_how_checked_and_how_many_runs(index):
    assert "Lab A · from the log · 2 runs" in index.text("#answer .headline")
    speeds = dict(zip(index.cells("Source"), index.cells("Speed"), strict=True))
    assert "2 runs" in speeds["Lab A"]
    assert "runs not stated" in speeds["Lab C"]
    index.run("document.getElementById('best-more').click()")
    assert index.run("return document.querySelector('#best table').scrollWidth") <= 1280


def test_a_long_note_unfolds(index):
    note = f"{ROWS}.find(row => row.innerText.includes('Lab C')).querySelector('details.note')"
    assert index.run(f"return {note}.innerText") == "a long note of this table …"
    assert index.run(f"const note = {note}; note.open = true; return note.innerText").endswith(
        "with more than fits"
    )


def test_gpus_of_one_color_are_hatched_but_the_first(index, record):
    index.choose("model", "*")
    index.run("for (let i = 0; i < 9; i += 1) document.getElementById('all-more').click()")
    looks = index.run(
        "const looks = {}; for (const row of document.querySelectorAll('#all tbody tr')) {const"
        " style ="
        " getComputedStyle(row.querySelector('.swatch'));looks[row.querySelector('[data-label=GPU]"
        " a').innerText] = style.backgroundColor + style.maskImage; }return looks"
    )
    assert len(set(looks.values())) == len(looks) > 5


class TestComparison:
    def places(self, index, *publishers):
        names = index.cells("Source")
        return [names.index(publisher) for publisher in publishers]

    def test_that_was_made_ahead_has_its_interval(self, index):
        index.pick(*self.places(index, "Lab A", "Lab B"))
        text = index.text("#comparison")
        assert "B200 (FP4) is 20% faster per GPU than MI355X (FP8)." in text
        assert "1.20×, 95% CI 1.15–1.25" in text
        others = "other results of the same source: MI355X (FP8) up to 5.0% slower."
        assert f"The interval covers run-to-run variation of these two systems; {others}" in text
        assert "Time to the same target: 1.50× as fast with B200 (FP4) (60.0 and 90.0 min)." in text

    def test_of_unlike_conditions_offers_the_pair_that_is_alike(self, index):
        index.pick(*self.places(index, "Lab A", "Lab B"))
        assert "Not like for like: global batch 16 vs 32." in index.text("#comparison .caution")
        button = "document.querySelector('#comparison .caution button')"
        assert index.run(f"return {button}.textContent").endswith(
            "B200 (FP4), Lab A and MI355X (FP8), Lab E; 8 GPUs, batch 16"
        )
        index.run(f"{button}.click()")
        assert "B200 (FP4) is 26% faster per GPU than MI355X (FP8)." in index.text("#comparison")
        assert not index.run("return document.querySelector('#comparison .caution')")

    @pytest.mark.parametrize(("width", "height"), SCREENS)
    def test_covers_a_third_of_the_screen_and_folds(self, index, width, height):
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        index.browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        try:
            index.pick(*self.places(index, "Lab A", "Lab B"))
            index.run("document.querySelector('#comparison-details details').open = true")
            see = "return document.getElementById('compare').offsetHeight"
            assert 100 < index.run(see) <= height / 3 + 1
            index.run("document.querySelector('#compare > details > summary').click()")
            assert index.run(see) < 60
        finally:
            index.browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    def test_of_others_has_none(self, index):
        index.pick(*self.places(index, "Lab B", "Lab C"))
        text = index.text("#comparison")
        assert "MI355X (FP8) is 2.0× as fast per GPU as H100 (FP8)." in text
        assert (
            "No confidence interval; run-to-run variation is unknown (single run or runs not"
            " stated)." in text
        )
        assert "CI" not in text

    def test_of_other_numbers_of_gpus_says_why_it_has_none(self, index):
        index.pick(*self.places(index, "Lab B", "Lab D"))
        text = index.text("#comparison")
        assert "MI355X (FP8) is 88% faster per GPU than H200 (FP8)." in text
        assert "it is computed for pairs with the same number of GPUs and step timer" in text

    def test_in_the_other_order_is_the_same(self, index):
        places = self.places(index, "Lab A", "Lab B")
        index.pick(*places)
        text = index.text("#comparison")
        index.open().pick(*reversed(places))
        assert index.text("#comparison") == text

    def test_of_different_work_names_no_faster_one(self, index):
        index.pick(0)
        index.choose("length", "32768")
        index.pick(0)
        text = index.text("#comparison")
        assert text.startswith("Different work: sequence length (8,192 tokens and 32,768 tokens).")
        assert "faster per GPU" not in text

    def test_of_different_kinds_names_no_faster_one(self, index):
        index.open("#model=qwen-3-30b-a3b&task=rl&gpu=h100-sxm5")
        kinds = index.cells("Work")
        index.pick(
            *(
                next(n for n, kind in enumerate(kinds) if kind.endswith(end))
                for end in ("On policy", "Off")
            )
        )
        assert "Different work: kind (GRPO, On policy and GRPO, 1-step Off)." in index.text(
            "#comparison"
        )

    def test_of_a_contradiction_is_refused(self, index):
        index.choose("model", "*")
        index.choose("mark", "contradicts itself")
        index.pick(0)
        index.choose("mark", "*valid")
        index.pick(0)
        assert "contradicts itself" in index.text("#comparison")

    def test_gives_settings_and_the_command(self, index):
        index.pick(*self.places(index, "Lab B", "Lab C"))
        index.run("document.querySelector('#comparison-details details').open = true")
        text = index.text("#comparison-details")
        assert "32 sequences\tnot stated" in text
        assert "Differences: GPU, software, publisher, checked (show values and command)" in text
        assert "Stated for one only: global batch, target, note." in text
        assert "(files result_*.txt)" in text
        assert (
            "git clone --filter=blob:none --no-checkout https://github.com/example/tables" in text
        )
        assert "git -C example checkout 441d65f4 -- A/results/x/llama31_8b" in text
        assert "python3 -m tprimat compare example/A/results/x/llama31_8b" in text
        assert "python3 -m tprimat audit tables/docs/table.md" in text

    def test_a_third_pick_replaces_the_first(self, index):
        index.pick(0, 1, 2)
        checked = index.run(
            "return [...document.querySelectorAll('#all [data-pick]')].map(box => box.checked)"
        )
        assert checked[:3] == [False, True, True]
        index.run(
            "[...document.querySelectorAll('#compare button')].find(b => b.textContent ==="
            " 'Clear').click()"
        )
        assert not index.run("return document.getElementById('compare').checkVisibility()")


class TestPrices:
    def test_become_a_cost_per_token(self, index, record):
        (speed,) = (
            one.tokens_per_second_per_gpu for one in record.points if one.publisher == "Lab B"
        )
        assert index.price("MI355X", "3.95") == [f"{3.95e9 / 3600 / speed:.2f}", "false"]
        low, high = (f"{price * 1e9 / 3600 / speed:.2f}" for price in (3, 4))
        assert index.price("MI355X", "$3:4") == [f"{low}–{high}", "false"]

    @pytest.mark.parametrize("text", ["x", "-1", "3:2", "0", "1:2:3"])
    def test_that_are_none_are_marked(self, index, text):
        assert index.price("MI355X", text) == ["–", "true"]

    def test_say_which_of_two_is_cheaper(self, index):
        index.price("MI355X", "3.95")
        index.price("B200", "5.50")
        names = index.cells("Source")
        index.pick(names.index("Lab A"), names.index("Lab B"))
        assert "MI355X (FP8) is 14% cheaper per token." in index.text("#comparison")


def test_columns_sort(index):
    index.choose("model", "*")
    for key, label in (("gpu", "GPU"), ("date", "When"), ("software", "Software")):
        order = index.sort(key)
        cells = [text for text in index.cells(label) if text not in ("undated", "not stated")]
        if key == "date":
            assert cells == sorted(cells, reverse=order == "descending")
        assert order == ("descending" if key == "date" else "ascending")
    assert len(index.cells("GPU")) == 50
    index.run("document.getElementById('all-more').click()")
    assert len(index.cells("GPU")) == 250


def test_a_point_of_the_chart_shows_its_evidence(index):
    index.run("document.getElementById('chart').scrollIntoView({block: 'center'})")
    place = index.run(
        "const over = document.querySelector('.u-over'), box = over.getBoundingClientRect();"
        "for (let y = 2; y < box.height; y += 4) for (let x = 2; x < box.width; x += 4) {"
        "  over.dispatchEvent(new MouseEvent('mousemove', "
        "{clientX: box.left + x, clientY: box.top + y, bubbles: true}));"
        "  if (over.classList.contains('pointing')) return [x, y]; }"
    )
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By

    over = index.browser.driver.find_element(By.CSS_SELECTOR, ".u-over")
    size = over.size
    ActionChains(index.browser.driver).move_to_element_with_offset(
        over, place[0] - size["width"] // 2, place[1] - size["height"] // 2
    ).click().perform()
    assert index.run("return document.querySelector('#point a.value').href").startswith(
        "https://github.com/"
    )


def test_links_of_the_index_open(index):
    for selector in (
        "#best td[data-label=GPU] a",
        "#all td[data-label=Model] a",
        "#all td[data-label=Source] a",
        "nav a[href=how]",
    ):
        index.open()
        link = index.run(
            "return document.querySelector(arguments[0]).href",
            selector.replace("[href=how]", ":last-child"),
        )
        index.browser.driver.get(link)
        assert index.run("return document.querySelector('h1').innerText"), link
        anchor = link.partition("#")[2]
        assert not anchor or index.run("return document.querySelector(':target').tagName") == "TR"
    assert index.browser.complaints() == []


def test_pages_link_to_the_index_with_their_filter(index, folder):
    for title in ("mi355x", "h100", "rtx-a6000"):
        index.browser.driver.get((folder / "gpus" / f"{title}.html").as_uri())
        link = index.run(
            "return [...document.querySelectorAll('main a')].find(a =>"
            " a.href.includes('index.html#')).href"
        )
        index.open(link.partition("index.html")[2])
        assert set(index.cells("GPU"))
        assert all(title.replace("-", " ") in text.lower() for text in index.cells("GPU"))
        assert len(set(index.cells("Work"))) == 1
        assert index.text("#ignored") == ""


def test_without_a_script_there_is_a_table(index, folder):
    index.browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        index.browser.driver.get((folder / "index.html").as_uri())
        from selenium.webdriver.common.by import By

        table = index.browser.driver.find_element(By.CSS_SELECTOR, "noscript table")
        assert table.is_displayed()
        assert "Llama 3.1 8B" in table.text
    finally:
        index.browser.driver.execute_cdp_cmd(
            "Emulation.setScriptExecutionDisabled", {"value": False}
        )


def test_without_the_record_it_says_so(index, folder, tmp_path):
    (tmp_path / "assets").symlink_to(folder / "assets")
    (tmp_path / "index.html").write_bytes((folder / "index.html").read_bytes())
    index.browser.driver.get((tmp_path / "index.html").as_uri())
    assert "data/record.js is missing" in index.text("#broken")


class TestForEverybody:
    PAGES = ("index.html#pick", "gpus/mi355x*", "models/qwen3-8b*", "sources/amd*", "how.html")

    def each(self, index, folder):
        for page in self.PAGES:
            if page.startswith("index.html"):
                index.open()
                if "pick" in page:
                    index.pick(0, 1)
                    index.run(
                        "for (const each of document.querySelectorAll('details')) each.open = true"
                    )
            else:
                index.browser.driver.get(next(folder.glob(page)).as_uri())
            yield page

    @pytest.mark.parametrize(("width", "height"), SCREENS)
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_all_can_be_read(self, index, folder, width, height, scheme):
        driver = index.browser.driver
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia",
            {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
        )
        try:
            for page in self.each(index, folder):
                found = index.browser.audit()
                assert found.pop("texts") > 10
                assert found == {"faint": [], "wide": [], "page": 0}, page
        finally:
            driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})

    def test_axe_finds_nothing(self, index, folder):
        axe = pytest.importorskip(
            "axe_core_python.selenium", reason="axe-core-python is not installed: make test-browser"
        )
        for page in self.each(index, folder):
            found = axe.Axe().run(index.browser.driver)["violations"]
            assert [
                (each["id"], each["impact"], each["nodes"][0]["html"]) for each in found
            ] == [], page

    def test_the_keyboard_reaches_everything(self, index):
        from selenium.webdriver.common.by import By
        from selenium.webdriver.common.keys import Keys

        body = index.browser.driver.find_element(By.TAG_NAME, "body")
        body.send_keys(Keys.TAB)
        assert index.run("return document.activeElement.className") == "skip"
        index.choose("precision", "fp8")
        index.browser.driver.find_element(By.CSS_SELECTOR, ".skip").send_keys(Keys.ENTER)
        assert index.run("return document.activeElement.id") == "main"
        assert index.hash() == "#precision=fp8"
        index.run("document.querySelector('.skip').focus()")
        seen = set()
        for _ in range(60):
            index.browser.driver.switch_to.active_element.send_keys(Keys.TAB)
            seen.add(
                index.run(
                    "const e = document.activeElement; return e.id || e.dataset.pick ||"
                    " e.dataset.price || e.tagName"
                )
            )
            outline = index.run(
                "const style = getComputedStyle(document.activeElement);"
                "return [style.outlineStyle, parseFloat(style.outlineWidth)]"
            )
            assert outline[0] != "none"
            assert outline[1] >= 2
        assert {"model", "task", "precision", "count", "q", "SUMMARY"} <= seen
        box = index.browser.driver.find_element(By.CSS_SELECTOR, "#best [data-pick]")
        box.send_keys(Keys.SPACE)
        assert "pick=" in index.hash()

    def test_a_phone_shows_cards(self, index):
        driver = index.browser.driver
        size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        try:
            index.open()
            assert (
                index.run(
                    "return getComputedStyle(document.querySelector('#all tbody td')).display"
                )
                == "block"
            )
            assert (
                index.run("return document.querySelector('#answer').getBoundingClientRect().top")
                < 844
            )
        finally:
            driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    def test_it_prints(self, index, folder):
        import base64

        paper = {"printBackground": True, "paperWidth": 8.27, "paperHeight": 11.69}
        found = index.browser.driver.execute_cdp_cmd("Page.printToPDF", paper)
        pages = len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(found["data"])))
        assert 1 <= pages <= 6
        driver = index.browser.driver
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        try:
            for page in ("index.html", "gpus/h100.html"):
                driver.get((folder / page).as_uri())
                counts = index.run(
                    "const seen = row => [...row.cells].filter(cell =>"
                    " cell.checkVisibility()).length;return [...document.querySelectorAll('main"
                    " table')].filter(table => table.checkVisibility()).map(table =>"
                    " [seen(table.tHead.rows[0]), seen(table.tBodies[0].rows[0])])"
                )
                assert counts
                assert all(heads == cells > 3 for heads, cells in counts)
        finally:
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
        assert index.browser.complaints() == []


def test_the_policy_stops_what_is_not_of_the_site(index):
    index.run(
        "const s = document.createElement('script'); s.textContent = 'window.evil = 1';"
        " document.body.append(s);const b = document.createElement('b'); b.setAttribute('onclick',"
        " 'window.evil = 1');document.body.append(b); b.click();"
    )
    assert index.run("return window.evil === undefined")
    assert "script-src" in " ".join(index.browser.complaints())


def test_hostile_names_show_as_text(browser, tmp_path):
    from tprimat.publish.record import Point, Record

    hostile = (
        "</script><script>window.evil=1</script><img src=x onerror=window.evil=2>\"'`${1} "
        + "long " * 40
    )
    names = (
        "publisher",
        "gpu",
        "model",
        "framework",
        "version",
        "date",
        "note",
        "reason",
        "precision",
        "source",
    )
    points = [
        Point(
            **dict.fromkeys(names, hostile),
            task="pretrain",
            tokens_per_second_per_gpu=value,
            mark="as published",
            url="javascript:window.evil=3",
        )
        for value in (1.0, 2.0)
    ]
    record = Record(points=tuple(points))
    made_record.write(record, tmp_path)
    index = Site(browser, tmp_path).open()
    index.pick(0, 1)
    index.run("for (const each of document.querySelectorAll('details')) each.open = true")
    assert index.run("return window.evil === undefined && !document.querySelector('img')")
    assert index.run(
        "return [...document.querySelectorAll('a')].every(a => !a.href.startsWith('javascript'))"
    )
    assert "<script>window.evil=1</script>" in index.text("#all tbody")
    assert index.browser.complaints() == []
    assert (
        index.run(
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        <= 0
    )
