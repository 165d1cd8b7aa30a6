"""The site in a real browser: it opens anywhere, asks nobody, is searched by keyboard, and is
fit for everybody.

``SINGERLAKE_SCREENSHOTS=1`` writes the pictures of the README anew.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from singerlake.annotations import changes, document
from singerlake.annotations.subjects import LAKE
from singerlake.engine.choice import LOCAL, EngineChoice
from singerlake.lake import Lake
from singerlake.ops.erase import tables as erasing
from singerlake.ops.erase.certificate import certificate
from singerlake.ops.erase.plan import EraseOptions
from singerlake.ops.erase.table import EraseRequest
from singerlake.site import build as site
from singerlake.site import certificate as certificates
from singerlake.site import difference
from singerlake.site.destination import open_destination
from tests.build import commit_rows
from tests.frozen import freeze_here
from tests.site import browser as browsers
from tests.site.example import ADA, NOW, fill

IMAGES = Path(__file__).parents[2] / "docs" / "images"
HOME = "index.html"
TAP = "taps/tap-shop/index.html"
TABLE = "taps/tap-shop/tables/orders/index.html"
VERSION = "taps/tap-shop/tables/orders/versions/2.html"
LINEAGE = "taps/reports/tables/by_country/index.html"
PAGES = (HOME, TAP, TABLE, VERSION, LINEAGE)
MEAN = (
    "<script>window.hurt = 1</script><img src=x onerror='window.hurt = 1'>\"'` "
    "</title></code></script><b>& javascript:alert(1) \u202egnp.exe\u202c\u200f "
)
LONG = "w" * 10_000
ALONE = ("compared", "certified")
"""Fixtures of pages that are one file each."""
OPEN = "document.querySelectorAll('details').forEach(d => d.open = true)"
TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")


@pytest.fixture(scope="module")
def browser(environments: None) -> Iterator[Any]:
    path = browsers.executable()
    if path is None:
        pytest.skip("no chromium on this machine: apt-get install chromium-headless-shell")
    # It takes a second to import: not in every process that looks for tests.
    reason = "playwright is not installed"
    playwright = pytest.importorskip("playwright.sync_api", reason=reason)
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=path)
        yield launched
        launched.close()


def write(lake: Lake, to: Path, **options: Any) -> Path:
    with open_destination(str(to)) as place:
        site.build(lake, place, site.Options(now=NOW, **options))
    return to


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("browser")
    with pytest.MonkeyPatch.context() as patch:
        lake = fill(Lake.open(str(folder / "shop"), create=True), patch)
    return write(lake, folder / "site", title="The shop's lake")


@pytest.fixture(scope="module")
def mean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake whose every word is hostile, or far too long."""
    folder = tmp_path_factory.mktemp("mean")
    lake = Lake.open(str(folder / "lake"), create=True)
    stream, column = f"{MEAN[:40]}\u202e", f"{MEAN}col"
    properties = {
        column: {"type": "string", "description": MEAN, "enum": [MEAN], "pattern": MEAN},
        LONG: {"type": "object", "properties": {MEAN: {"description": LONG}}},
    }
    commit_rows(lake, f"tap-<b>.{stream}", properties, [column], [{column: MEAN}])
    words: dict[str, Any] = {
        "owner": MEAN, "description": MEAN + LONG, "tags": [MEAN, LONG], "classification": MEAN,
        "deprecated": MEAN + LONG, "documentation": "https://example.com/?q=<script>\"'&x=1",
    }  # fmt: skip
    tables = {stream: {**words, "columns": {column: words}}}
    said = {
        **words, "job_status": LONG,
        "taps": {"tap-<b>": {**words, "tables": tables}},
    }  # fmt: skip
    changes.annotate(lake, document.changes(said, LAKE))
    opened = Lake.open(str(folder / "lake"))
    return write(opened, folder / "site", title=MEAN, samples=3)


class Seen:
    """What a browser did that it should not."""

    def __init__(self) -> None:
        self.outside: list[str] = []
        self.errors: list[str] = []


@contextmanager
def opened(browser: Any, width: int = 1280, scheme: str = "light", **more: Any) -> Iterator[Any]:
    """A page whose ways out are closed, and every attempt is counted."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, **more
    )
    page, seen = context.new_page(), Seen()

    def route(route: Any) -> None:
        if re.match(r"file:|http://127\.0\.0\.1:", route.request.url):
            route.continue_()
        else:
            seen.outside.append(route.request.url)
            route.abort()

    context.route("**/*", route)
    page.on("console", lambda m: seen.errors.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: seen.errors.append(str(error)))
    # Who goes to another page gives up what the last one was still asking for.
    page.on(
        "requestfailed",
        lambda request: (
            None if "ABORTED" in request.failure else seen.errors.append(f"failed: {request.url}")
        ),
    )
    page.on("dialog", lambda dialog: seen.errors.append("a dialog") or dialog.dismiss())
    page.seen = seen
    yield page
    context.close()
    assert seen.outside == []
    assert seen.errors == []


@pytest.fixture
def served(services: None, shop: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(shop))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def all_pages(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.html"))


def widths(page: Any) -> tuple[int, int]:
    found: list[int] = page.evaluate(
        "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    return found[0], found[1]


def test_pages_open_from_a_disk_at_any_width_in_light_and_dark(browser: Any, shop: Path) -> None:
    papers = {}
    for width, scheme in ((1280, "light"), (390, "dark"), (320, "light")):
        with opened(browser, width, scheme) as page:
            for path in PAGES:
                page.goto((shop / path).as_uri())
                assert page.locator("h1").count() == 1
                needed, there = widths(page)
                assert needed <= there, f"{path} scrolls sideways at {width}"
            papers[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert papers["light"] != papers["dark"]


def find_by_keyboard(page: Any, words: str, expected: str) -> None:
    for _ in range(3):  # past the link that skips, and the site's name
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('role')") == "combobox"
    page.keyboard.type(words)
    page.locator("[role=option]").first.wait_for()
    assert page.locator("[role=option][aria-selected=true]").count() == 1
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/{expected}")


def test_search_finds_a_table_by_a_column_by_keyboard_alone(
    browser: Any, shop: Path, served: str
) -> None:
    with opened(browser) as page:
        for start in ((shop / LINEAGE).as_uri(), f"{served}/{TAP}"):
            page.goto(start)
            find_by_keyboard(page, "customer_id", TABLE)
        page.goto((shop / HOME).as_uri())
        find_by_keyboard(page, "public.notes", "taps/tap-crm/tables/public.notes/index.html")
        page.goto((shop / HOME).as_uri())
        page.locator("input").fill("no such thing")
        page.locator("[role=status]", has_text="Nothing found").wait_for(state="attached")
        page.locator("input").fill("id")
        page.keyboard.press("ArrowDown")
        second = page.locator("[role=option]").nth(1)
        assert second.get_attribute("aria-selected") == "true"
        page.keyboard.press("Escape")
        assert not page.locator("[role=listbox]").is_visible()


def test_pages_are_whole_without_scripts(browser: Any, shop: Path) -> None:
    with opened(browser, java_script_enabled=False) as page:
        page.goto((shop / TABLE).as_uri())
        assert not page.locator("form").is_visible()
        assert page.locator("svg.chart rect").count() > 20
        page.get_by_role("link", name="Version 2", exact=True).click()
        assert page.url.endswith("versions/2.html")


def test_hostile_words_are_inert(browser: Any, mean: Path) -> None:
    pages = all_pages(mean)
    assert len(pages) == 3
    with opened(browser, 390) as page:
        for path in pages:
            page.goto(path.as_uri())
            assert page.evaluate("window.hurt") is None
            assert page.locator("main b, main script, main img").count() == (
                page.locator(".numbers b").count()
            )
            needed, there = widths(page)
            assert needed <= there, path
            text = page.locator("body").inner_text()
            assert "\u202e" not in text + page.title()
            assert "<script>window.hurt" in text
            for url in page.evaluate("[...document.links].map(link => link.href)"):
                assert url.startswith(("file:", "https://example.com/"))
        page.goto((mean / HOME).as_uri())
        page.locator("input").fill("col")
        page.locator("[role=option]").first.wait_for()
        assert "\u202e" not in page.locator("[role=listbox]").inner_text()
        assert page.evaluate("window.hurt") is None
        page.keyboard.press("Enter")
        page.wait_for_url("**/tables/**")
    assert max(path.stat().st_size for path in pages) < 150_000


@pytest.mark.usefixtures("processes")
def test_nobody_is_shut_out(browser: Any, shop: Path, mean: Path) -> None:
    """axe-core, by all rules of WCAG 2.2 AA, in light and dark, at both widths."""
    source = browsers.axe()
    if source is None:
        pytest.skip("axe-core cannot be had: the npm registry is out of reach")
    found: list[str] = []
    for width, scheme in ((1280, "light"), (390, "dark")):
        with opened(browser, width, scheme, bypass_csp=True) as page:
            for path in [shop / one for one in PAGES] + all_pages(mean):
                page.goto(path.as_uri())
                page.evaluate(OPEN)
                page.evaluate(source)
                run = "tags => axe.run(document, {preload: false, runOnly: tags})"
                result = page.evaluate(run, list(TAGS))
                assert len(result["passes"]) > 10
                found += [
                    f"{path.name} {scheme}: {one['id']}: {one['nodes'][0]['html'][:200]}"
                    for one in result["violations"]
                ]
    assert found == []


def test_a_page_prints(browser: Any, shop: Path) -> None:
    with opened(browser) as page:
        page.goto((shop / TABLE).as_uri())
        page.emulate_media(media="print")
        assert not page.locator("header.top").is_visible()
        assert page.locator("#columns").is_visible()


def test_the_pictures_of_the_readme(browser: Any, shop: Path, tmp_path: Path) -> None:
    """Made here, so that they show what is; kept only where they were asked for."""
    wanted = os.environ.get("SINGERLAKE_SCREENSHOTS")
    to = IMAGES if wanted else tmp_path
    to.mkdir(parents=True, exist_ok=True)
    shots = (("home", HOME, 1000), ("table", TABLE, 1320), ("version", VERSION, 900))
    with opened(browser) as page:
        for name, path, height in shots:
            page.set_viewport_size({"width": 1180, "height": height})
            page.goto((shop / path).as_uri())
            picture = to / f"site-{name}.png"
            page.screenshot(path=str(picture))
            assert 10_000 < picture.stat().st_size < 200_000
            assert (IMAGES / picture.name).is_file(), "run: SINGERLAKE_SCREENSHOTS=1 make test"


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of ``singerlake diff --format html``, whose every word is hostile, or too long."""
    rows = [
        difference.Row(change, [MEAN, None], [difference.Cell(MEAN, MEAN, LONG)] * 3)
        for change in ("added", "changed", "removed")
    ]
    found = difference.Difference(
        table=f"tap.{MEAN}",
        before=MEAN,
        after=LONG,
        notes=[MEAN],
        schema=[("added", MEAN, None, LONG)],
        counts={"added": 1, "changed": 1, "removed": 1, "unchanged": 1_000_000},
        columns={MEAN: 3},
        keys=[MEAN, LONG],
        rows=rows,
        more=5,
    )
    path = tmp_path_factory.mktemp("compared") / "difference.html"
    path.write_bytes(difference.page(found, "html"))
    return path


def _hostile(value: Any, words: Iterator[str]) -> Any:
    """The same with other words in each place that has any."""
    if isinstance(value, dict):
        return {name: _hostile(one, words) for name, one in value.items()}
    if isinstance(value, list):
        return [_hostile(one, words) for one in value]
    return next(words) if isinstance(value, str) else value


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of ``singerlake erase --certificate``, whose every word is hostile, or too long."""
    folder = tmp_path_factory.mktemp("certified")
    lake = Lake.open(str(folder / "lake"), create=True)
    commit_rows(lake, "tap.s", {"id": {"type": "integer"}}, ["id"], [{"id": 1}, {"id": 2}])
    table = lake.find("tap.s")[0]
    freeze_here(table)
    asked = [EraseRequest(table, ("1",))]
    options = EraseOptions("request 12", signer=ADA)
    done = erasing.erase(lake, asked, options, EngineChoice(LOCAL))
    found = certificate(lake, asked, options, done)
    found["published"] = [{"projection": "p", "rebuilt": False}]
    found["searched"][0] |= {
        "found": [{"object": "o", "version": None, "is": "a block", "count": 1}],
        "not_read": [{"key": "k", "why": "w"}],
    }
    words = itertools.cycle((MEAN, LONG))
    path = folder / "certificate.html"
    path.write_bytes(certificates.page(_hostile(found, words), MEAN, LONG, LONG))
    return path


@pytest.mark.parametrize("made", ALONE)
def test_page_of_one_file_asks_for_nothing_and_runs_nothing(
    browser: Any, request: pytest.FixtureRequest, made: str
) -> None:
    papers, path = {}, request.getfixturevalue(made)
    for width, scheme in ((1280, "light"), (390, "dark"), (320, "light")):
        with opened(browser, width, scheme) as page:
            page.goto(path.as_uri())
            page.evaluate(OPEN)
            assert page.locator("h1").count() == 1
            needed, there = widths(page)
            assert needed <= there, f"it scrolls sideways at {width}"
            assert page.evaluate("window.hurt") is None
            assert "<script>window.hurt" in page.locator("body").inner_text()
            papers[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert papers["light"] != papers["dark"]


@pytest.mark.parametrize("made", ALONE)
def test_page_of_one_file_is_fit_for_everybody(
    browser: Any, request: pytest.FixtureRequest, made: str
) -> None:
    source = browsers.axe()
    if source is None:
        pytest.skip("axe-core cannot be had: the npm registry is out of reach")
    path = request.getfixturevalue(made)
    for width, scheme in ((1280, "light"), (390, "dark")):
        with opened(browser, width, scheme, bypass_csp=True) as page:
            page.goto(path.as_uri())
            page.evaluate(OPEN)
            page.add_script_tag(content=source)
            run = "tags => axe.run(document, {preload: false, runOnly: tags})"
            result = page.evaluate(run, list(TAGS))
            assert [one["id"] for one in result["violations"]] == []
