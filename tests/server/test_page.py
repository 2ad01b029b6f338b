"""The page in a real browser: it fills, moves with the model, survives a restart of the server, and asks nobody else."""

import os
import shutil

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright, which drives a browser")

from onkel.server.client import Client  # noqa: E402

from .served import Process  # noqa: E402

CHROME = os.environ.get("CHROME") or shutil.which("chromium") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def browser():
    if not CHROME:
        pytest.skip("needs a browser: set CHROME, or install chromium")
    quiet = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync"
    quiet += " --disable-background-networking --disable-component-update"
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROME, args=quiet.split())
        yield started
        started.close()


def teach(client, name, n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)).round(3)
    rows = [{"left": a, "right": b} for a, b in X.tolist()]
    client.learn(name, rows, np.where(X[:, 0] * X[:, 1] > 0, "same", "different"))


def says(page, place, words):
    playwright.expect(page.locator(f"#{place}")).to_contain_text(words, timeout=60_000)


def test_the_page(browser, tmp_path):
    with Process(tmp_path / "models") as server, Client(server.url) as client:
        client.create("meter", "classes", params={"budget": 40})
        client.create("idle", "reals")
        teach(client, "meter", 400, 0)
        page = browser.new_page(viewport={"width": 1100, "height": 900})
        errors, asked = [], []
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(server.url)
        page.get_by_role("button", name="meter").click()
        page.wait_for_selector("#chart canvas")
        says(page, "words", "After 400")
        assert "share of mistakes" in page.inner_text("#facts")
        teach(client, "meter", 100, 1)
        says(page, "words", "After 500")  # nobody reloaded it
        page.fill("#row", '{"left": 1, "right": 1}')
        page.get_by_role("button", name="Predict").click()
        says(page, "answer", "prediction")
        assert '"same"' in page.inner_text("#answer")
        page.fill("#row", '{"left": 1, "up": 1}')
        page.get_by_role("button", name="Predict").click()
        says(page, "answer", "up")
        refused = [error for error in errors if "422" in error]  # the browser notes an answer of 422 by itself
        assert errors == refused
        server.kill()
        says(page, "status", "cannot be reached")
        server.start()
        teach(client, "meter", 100, 2)
        says(page, "words", "After 600")
        says(page, "status", "live")
        assert all(url.startswith(server.url) for url in asked)
        for width, scheme in ((390, "light"), (1100, "dark")):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            if folder := os.environ.get("ONKEL_PICTURES"):
                page.screenshot(path=f"{folder}/server-{scheme}.png", full_page=True)
        page.goto(f"{server.url}/docs")
        page.wait_for_selector("h2:has-text('POST /v1/models/{name}/learn')")
        page.close()


def test_every_control_has_a_name(browser, tmp_path):
    """What a screen reader reads: each button, field and picture says what it is."""
    with Process(tmp_path / "models") as server, Client(server.url) as client:
        client.create("meter", "classes")
        teach(client, "meter", 50, 0)
        page = browser.new_page()
        page.goto(server.url)
        page.wait_for_selector("#chart canvas")
        nameless = page.evaluate(
            """() => [...document.querySelectorAll('button, input, textarea, [role=img]')]
            .filter((e) => e.offsetParent && !(e.textContent.trim() || e.getAttribute('aria-label') ||
            e.getAttribute('aria-describedby')
            || (e.labels || []).length))
            .map((e) => e.outerHTML)"""
        )
        assert nameless == []
        assert page.evaluate("document.documentElement.lang") == "en"
        page.close()
