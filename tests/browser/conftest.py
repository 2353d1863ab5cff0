"""Headless Chromium over its driver. `make test-browser` brings Selenium and says how to get the
browser.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from pathlib import Path

import pytest

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,800",
)
PATIENCE = 120.0
"""Seconds that a page may take on a machine that does much else; nothing is measured by it."""


@pytest.fixture(scope="session")
def browser_programs():
    pytest.importorskip("selenium", reason="selenium is not installed: make test-browser")
    browser = next(filter(None, map(shutil.which, CHROMIUM)), None)
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip(
            "Chromium and its driver are not installed: sudo apt-get install chromium"
            " chromium-driver"
        )
    return browser, driver


class Browser:
    """A page in the browser: what it shows, and what it asked for and complained of since it was
    opened.
    """

    def __init__(self, driver) -> None:
        self.driver = driver

    def open(self, path) -> None:
        self.driver.get("about:blank")
        self.requests(), self.complaints()
        self.driver.get(path.as_uri())
        self.wait("document.documentElement.dataset.ready")

    def run(self, script: str, *arguments):
        return self.driver.execute_script(script, *arguments)

    def wait(self, expression: str):
        """What a JavaScript expression gives, once it gives something."""
        end = time.monotonic() + PATIENCE
        while not (found := self.run(f"return {expression}")):
            assert time.monotonic() < end, f"{expression} never became true"
            time.sleep(0.05)
        return found

    def text(self, name: str) -> str:
        return self.run("return document.getElementById(arguments[0]).textContent", name)

    def set(self, name: str, value: object) -> None:
        """Gives a field a value as a person does."""
        self.run(
            "const field = document.getElementById(arguments[0]); field.value = arguments[1];"
            "field.dispatchEvent(new Event('input', {bubbles: true}))",
            name,
            str(value),
        )

    def unfold(self, name: str) -> None:
        """Open a part of the page; of the charts, all, and wait until they are drawn."""
        self.run("document.getElementById(arguments[0]).open = true", name)
        if name == "charts":
            self.run(
                "for (const each of document.querySelectorAll('#charts > details')) each.open ="
                " true"
            )
            self.wait(
                "[...document.querySelectorAll('.chart')].filter(e => e.data).length === "
                + self.charts()
            )

    def unfold_all(self) -> None:
        """Open every part of the page, and wait until charts and records are there."""
        self.run("for (const each of document.querySelectorAll('details')) each.open = true")
        self.unfold("charts")
        self.wait("!document.querySelector('details.steps:not([data-filled])')")

    def audit(self) -> dict:
        """Return texts that are too faint and boxes that are too wide for their places, and by how
        much the page is.
        """
        return self.run((Path(__file__).parent / "audit.js").read_text(encoding="utf-8"))

    def charts(self) -> str:
        """Return how many charts the page's data has."""
        return str(len(json.loads(self.text("data"))["charts"]))

    @contextlib.contextmanager
    def screen(self, width: int, height: int, scheme: str = "light", media: str = ""):
        """Show the page on a screen of this size, below 500 pixels a phone's; or, with
        media="print", on paper.
        """
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"media": media, "features": features}
        )
        try:
            self.driver.refresh()
            self.wait("document.documentElement.dataset.ready")
            yield
        finally:
            self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
            self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Addresses that were asked for, but for those of the browser's own pages."""
        found = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] in ("Network.requestWillBeSent", "Network.webSocketCreated"):
                url = message["params"].get("request", message["params"])["url"]
                if not url.startswith(("chrome:", "chrome-untrusted:", "data:", "about:", "blob:")):
                    found.append(url)
        return found


@pytest.fixture(scope="session")
def browser(browser_programs, tmp_path_factory):
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    program, driver_program = browser_programs
    folder = tmp_path_factory.mktemp("browser")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in (*FLAGS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(driver_program))
    downloads = folder / "downloads"
    downloads.mkdir()
    driver.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)}
    )
    found = Browser(driver)
    found.downloads = downloads
    yield found
    driver.quit()
