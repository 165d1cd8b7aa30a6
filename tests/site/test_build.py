"""The site says what the lake knows, is made whole or not at all, and anew only where due."""

from __future__ import annotations

import hashlib
import html
import json
import re
import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result
from markdown_it import MarkdownIt
from msgspec import structs

from singerlake.annotations import changes
from singerlake.annotations.changes import change_of
from singerlake.annotations.subjects import Subject
from singerlake.errors import StoreError, UsageError
from singerlake.format.names import TableName
from singerlake.format.refused_lines import SCHEMA
from singerlake.lake import Lake
from singerlake.ops.point import point
from singerlake.ops.sign.sign import sign
from singerlake.site import build as site
from singerlake.site import destination, gather, lists, search, words
from singerlake.site import samples as samples_of
from singerlake.site.citation import citation
from singerlake.site.destination import open_destination
from singerlake.site.pages import TablePage, TableSummary
from singerlake.site.render import Rendered, Renderer
from singerlake_cli.main import cli
from tests.build import commit_rows
from tests.files.photos import sync, table_of
from tests.frozen import freeze_here
from tests.ops.vacuum.plain_table import freeze
from tests.site.example import ADA, NOW, Example, fill
from tests.target.harness import TAP

ORDERS = "taps/tap-shop/tables/orders/index.html"
VERSION = "taps/tap-shop/tables/orders/versions/2.html"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A lake that no test changes."""
    root = tmp_path_factory.mktemp("site") / "shop"
    with pytest.MonkeyPatch.context() as patch:
        fill(Lake.open(str(root), create=True), patch)
    yield root


def make(lake: Path | Lake, to: Path, **options: Any) -> site.Built:
    lake = lake if isinstance(lake, Lake) else Lake.open(str(lake))
    with open_destination(str(to)) as place:
        return site.build(lake, place, site.Options(**{"now": NOW, **options}))


def files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def text_of(path: Path) -> str:
    """What a page says, without its tags."""
    bare = re.sub(r"<[^>]*>", " ", path.read_text(encoding="utf-8"))
    return " ".join(html.unescape(bare).split())


def command(lake: Path, *args: str) -> Result:
    return CliRunner().invoke(cli, ["--lake", str(lake), "docs", *args])


@pytest.fixture(scope="module")
def made(shop: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("made") / "site"
    make(shop, to)
    return to


def test_a_table_says_what_the_lake_knows(made: Path) -> None:
    said = text_of(made / ORDERS)
    for part in (
        "One row an order.",
        "shop@example.com",
        "finance",
        "$.items[*].sku",
        "The article's number",
        "converted to text by alter; the tap declares number",
        "≥ 0",
        "v1 ",
        "2026-10",
        "As reported to the board",
        "back to transaction 4",
        "− $.currency",
        "+ $.paid_at: timestamp",
        "~ $.amount:",
        "reports.by_country",
        "version 2",
        "succeeded",
        "nightly-shop",
        "singerlake freeze tap-shop.orders",
        "select * from tap_shop.orders limit 10",
        '"streams": ["orders"]',
        "read_table('tap-shop.orders')",
    ):
        assert part in said, part
    customers = text_of(made / ORDERS.replace("orders", "customers"))
    assert "As the customer wrote it" in customers  # the schema's own words
    assert 'one of "AT", "CH"' in customers
    country = text_of(made / "taps/reports/tables/by_country/index.html")
    assert "made of tap-shop.orders , version 2" in country
    assert "made of tap-old.gone , version 1" in country
    assert "select address.country, sum(amount)" in country


def test_home_says_what_needs_a_look(made: Path) -> None:
    said = text_of(made / "index.html")
    assert "tap-crm the last run failed" in said
    assert "tap-crm is stale, with all of its 2 tables" in said
    assert "tap-shop.carts is deprecated" in said
    assert "tap-shop.orders is stale" not in said  # its job ran, and found nothing new
    assert "Recent transactions" in said


def test_a_version_has_a_page_that_says_how_to_cite_it(made: Path) -> None:
    page = made / "taps/tap-shop/tables/orders/versions/1.html"
    said = text_of(page)
    assert re.search(r"tap-shop\.orders, version 1 \(2026-10\)\. In: shop\. 880 rows", said)
    assert "@dataset{tap-shop-orders-1," in said
    assert re.search(r"lt1:[0-9a-f]{64}", said)


def test_pages_show_pointers_and_signatures_unchecked(made: Path) -> None:
    table, version = text_of(made / ORDERS), text_of(made / VERSION)
    key = ADA.fingerprint
    assert "@current points to version 2 since 2026-11-" in table
    signed = r"2026-11-\S+ \S+ by user ada"
    assert re.search(rf"Signed with {re.escape(key)} , {signed} ; not checked here", table)
    assert table.count("; not checked here") == 1
    assert "@current to version 2" in table  # among the transactions
    assert re.search(rf"Signatures .* Signed {signed} {re.escape(key)} ", version)
    assert "does not check the signatures" in version
    assert "singerlake verify tap-shop.orders.2 --signed-by allowed_signers" in version
    other = text_of(made / VERSION.replace("2.html", "1.html"))
    assert not any(word in other for word in ("@current", "Signed", "allowed_signers"))


def test_pages_of_a_signed_version_say_that_rows_were_erased_since(
    lake: Lake, tmp_path: Path
) -> None:
    """And show so many signatures and pointers only."""
    commit_rows(lake, "tap.s", {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
    table = lake.find("tap.s")[0]
    freeze_here(table)
    sign(table.store, table.snapshot(), "1", ADA)
    head = table.snapshot()
    (note,) = head.frozen[0].signed
    page = gather._version(structs.replace(head.frozen[0], signed=[note] * 12, rows=0), [])
    assert [(one.current, one.time) for one in page.signatures] == [(False, note.time)] * 10
    assert page.more_signatures == 2
    for form in ("html", "markdown"):
        renderer = Renderer(form, "lake")
        summary = TableSummary(name="tap.s", stream="s", path="index")
        laid = renderer.page(
            "version", "index", page=TablePage(tap="tap", summary=summary), version=page,
            tap_path="index", before=None, after=None, citation=citation("lake", summary, page),
            commands=[],
        ).data.decode()  # fmt: skip
        assert laid.count(", before rows were erased") == 10
        assert "2 more signatures" in laid
    for number in range(60):
        point(table.store, table.snapshot(), f"p{number}", "1")
    gathered = gather.Gatherer(lake, {table.name}, NOW).page(table)
    assert (len(gathered.pointers), gathered.more_pointers) == (50, 10)
    assert len(gathered.versions[0].pointers) == 50


def test_all_links_lead_somewhere(made: Path) -> None:
    count = 0
    for page in made.rglob("*.html"):
        for link in re.findall(r'(?:href|src)="([^"]*)"', page.read_text(encoding="utf-8")):
            target, _, anchor = html.unescape(link).partition("#")
            if "://" in target:
                continue
            path = (page.parent / target).resolve() if target else page
            assert path.is_file(), f"{page}: {link}"
            assert not anchor or f'id="{anchor}"' in path.read_text(encoding="utf-8")
            count += 1
    assert count > 100


def test_the_same_lake_makes_the_same_bytes(shop: Path, made: Path, tmp_path: Path) -> None:
    make(shop, tmp_path / "again")
    assert files(tmp_path / "again") == files(made)


def test_only_what_changed_is_laid_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = fill(Lake.open(str(tmp_path / "shop"), create=True), monkeypatch)
    make(lake, tmp_path / "site")
    laid_out: list[str] = []
    page = Renderer.page

    def noted(self: Renderer, template: str, path: str, **values: Any) -> Rendered:
        laid_out.append(path)
        return page(self, template, path, **values)

    monkeypatch.setattr(Renderer, "page", noted)
    assert make(lake, tmp_path / "site").written == 0
    assert laid_out == []
    orders = Subject("tap-shop", "orders")
    changes.annotate(lake, [change_of(orders, {"description": "Other words"})])
    make(lake, tmp_path / "site")
    assert sorted(laid_out) == [
        "taps/tap-shop/index",
        "taps/tap-shop/tables/orders/index",
    ]
    assert "Other words" in text_of(tmp_path / "site" / ORDERS)
    laid_out.clear()
    later = NOW + timedelta(days=2)  # nothing moved, but a table is stale now
    make(lake, tmp_path / "site", now=later)
    assert ORDERS.removesuffix(".html") in laid_out
    assert "stale" in text_of(tmp_path / "site" / ORDERS)
    (tmp_path / "site" / ORDERS).unlink()
    make(lake, tmp_path / "site", now=later)
    assert (tmp_path / "site" / ORDERS).is_file()


def test_pages_of_tables_that_are_gone_go_and_strangers_files_stay(
    shop: Path, tmp_path: Path, lake: Lake
) -> None:
    make(shop, tmp_path / "site")
    (tmp_path / "site" / "CNAME").write_text("data.example.com")
    commit_rows(lake, "tap-a.b", {"id": {"type": "integer"}}, [], [{"id": 1}])
    built = make(lake, tmp_path / "site")
    assert built.removed > 8
    assert not (tmp_path / "site" / "taps" / "tap-shop").exists()
    assert (tmp_path / "site" / "CNAME").is_file()
    assert (tmp_path / "site" / "taps/tap-a/tables/b/index.html").is_file()


def test_a_build_that_fails_leaves_what_was_there(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(shop, tmp_path / "site")
    before = files(tmp_path / "site")

    def page(self: Renderer, template: str, path: str, **values: Any) -> Rendered:
        if template == "home":
            raise StoreError("the disk is full")
        return Rendered(f"{path}.html", b"half")

    monkeypatch.setattr(Renderer, "page", page)
    with pytest.raises(StoreError):
        make(shop, tmp_path / "site", anew=True)
    assert files(tmp_path / "site") == before
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


@pytest.mark.parametrize("there", ["a file", "a folder"])
def test_something_else_is_left_alone(shop: Path, tmp_path: Path, there: str) -> None:
    to = tmp_path / "site"
    if there == "a file":
        to.write_text("mine")
    else:
        to.mkdir()
        (to / "thesis.tex").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    result = command(shop, "--out", str(to))
    assert result.exit_code == 2
    assert len(result.output.splitlines()) == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_an_empty_folder_is_filled(shop: Path, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    assert "6 tables" in command(shop, "--out", str(tmp_path / "site")).output
    assert (tmp_path / "site" / "index.html").is_file()
    assert "nothing has changed" in command(shop, "--out", str(tmp_path / "site")).output


def test_a_folder_that_is_there_is_the_one_that_is_filled(shop: Path, tmp_path: Path) -> None:
    """It may be a mount, or lie in a folder that is another's: nothing is made beside it."""
    to = tmp_path / "site"
    to.mkdir()
    before = to.stat().st_ino
    make(shop, to)
    assert to.stat().st_ino == before
    assert (to / "index.html").is_file()
    assert not list(to.glob(".*"))


@pytest.mark.parametrize("first", [True, False])
def test_what_a_killed_build_left_is_cleared(
    shop: Path, made: Path, tmp_path: Path, first: bool
) -> None:
    to = tmp_path / "site"
    if first:
        to.mkdir()
    else:
        make(shop, to)
    (to / ".building-0123abcd" / "taps").mkdir(parents=True)
    (to / ".building-0123abcd" / "taps" / "index.html").write_text("half")
    make(shop, to)
    assert not (to / ".building-0123abcd").exists()
    assert files(to) == files(made)


def test_two_builds_do_not_take_each_other_for_dead(shop: Path, made: Path, tmp_path: Path) -> None:
    to = tmp_path / "site"
    shutil.copytree(made, to)
    lake = Lake.open(str(shop))
    options = site.Options(now=NOW, anew=True)
    with open_destination(str(to)) as first:
        assert first.state() is not None
        first.put(Rendered("index.html", b"half"))
        with pytest.raises(UsageError, match="another process is writing the site"):
            make(shop, to)
        site.build(lake, first, options)
    assert files(to) == files(made)
    assert make(shop, to).written == 0


def test_what_a_killed_build_left_stays_beside_what_is_no_site(shop: Path, tmp_path: Path) -> None:
    (tmp_path / "site" / ".building-0123abcd").mkdir(parents=True)
    (tmp_path / "site" / "thesis.tex").write_text("mine")
    with pytest.raises(UsageError):
        make(shop, tmp_path / "site")
    assert (tmp_path / "site" / ".building-0123abcd").is_dir()


def test_a_state_that_was_forged_deletes_nothing(shop: Path, tmp_path: Path) -> None:
    make(shop, tmp_path / "site")
    (tmp_path / "precious.html").write_text("mine")
    state = tmp_path / "site" / "singerlake-site.json"
    said = json.loads(state.read_text())
    said["pages"] |= {"../precious.html": "x", "/etc/passwd": "x", "taps/../../precious.html": "x"}
    state.write_text(json.dumps(said))
    make(shop, tmp_path / "site")
    assert (tmp_path / "precious.html").read_text() == "mine"


def test_a_lake_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    result = command(tmp_path / "none", "--out", str(tmp_path / "site"))
    assert result.exit_code == 3
    assert len(result.output.splitlines()) == 1
    assert not (tmp_path / "site").exists()


def test_a_damaged_table_has_a_page_that_says_so(lake: Lake, tmp_path: Path) -> None:
    commit_rows(lake, "tap-a.good", {"id": {"type": "integer"}}, [], [{"id": 1}])
    commit_rows(lake, "tap-a.bad", {"id": {"type": "integer"}}, [], [{"id": 1}])
    name = TableName("tap-a", "bad")
    lake.store.delete(name.manifest)
    lake.store.replace(name.transaction(1), b"{", None)
    result = command(Path(lake.store.uri), "--out", str(tmp_path / "site"))
    assert result.exit_code == 5
    assert "tap-a.bad" in result.output
    bad = text_of(tmp_path / "site" / "taps/tap-a/tables/bad/index.html")
    assert "cannot be read" in bad
    assert "good" in text_of(tmp_path / "site" / "taps/tap-a/index.html")
    assert "tap-a.bad cannot be read" in text_of(tmp_path / "site" / "index.html")


def test_the_versions_of_a_table_that_cannot_be_read_stay(shop: Path, tmp_path: Path) -> None:
    """Others cite them; once it can be read again, all is as it was."""
    copy = tmp_path / "shop"
    shutil.copytree(shop, copy)
    make(copy, tmp_path / "site")
    before = files(tmp_path / "site")
    cited = [path for path in before if path.startswith(ORDERS.replace("index.html", "versions/"))]
    assert cited
    lake = Lake.open(str(copy))
    name = TableName("tap-shop", "orders")
    lake.store.delete(name.manifest)
    entry = lake.store.get(name.transaction(1))
    (copy / name.transaction(1)).write_bytes(b"{")
    assert [table for table, _ in make(copy, tmp_path / "site").failed] == [name]
    assert {path: files(tmp_path / "site")[path] for path in cited} == {
        path: before[path] for path in cited
    }
    (copy / name.transaction(1)).write_bytes(entry.data)
    make(copy, tmp_path / "site")
    assert files(tmp_path / "site") == before


@pytest.mark.parametrize("broken_at", [1, 3, 9])
def test_a_build_that_broke_off_while_files_moved_is_made_good(
    shop: Path, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken_at: int
) -> None:
    """Whatever had moved by then, the next build leaves no page of the one that broke off."""
    make(shop, tmp_path / "site")
    replace, done = Path.replace, 0

    def broken(path: Path, target: Path) -> Path:
        nonlocal done
        done += 1
        if done > broken_at:
            raise OSError(5, "broken", str(target))
        return replace(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", broken)
        with pytest.raises(StoreError):
            make(shop, tmp_path / "site", title="Other")
    make(shop, tmp_path / "site")
    assert files(tmp_path / "site") == files(made)


def test_values_are_shown_only_where_asked_for(shop: Path, made: Path, tmp_path: Path) -> None:
    assert "name 3" not in (made / ORDERS.replace("orders", "customers")).read_text()
    make(shop, tmp_path / "site", samples=2)
    customers = text_of(tmp_path / "site" / ORDERS.replace("orders", "customers"))
    assert not re.search(r"(name|email) \d", customers)  # confidential
    before = files(tmp_path / "site")
    make(shop, tmp_path / "site")
    assert files(tmp_path / "site") != before
    assert files(tmp_path / "site") == files(made)


def test_files_are_shown_by_name_size_and_type(tmp_path: Path) -> None:
    said = {"uri": "data:image/png,abc", "content_type": "image/png"}
    sync(tmp_path / "lake", {2: said})
    digest = hashlib.sha256(b"abc").hexdigest()
    for samples in (0, 2):
        make(tmp_path / "lake", tmp_path / "site", samples=samples)
        pages = " ".join(path.read_text() for path in (tmp_path / "site").rglob("*.html"))
        assert (f"{digest[:16]}.png, 3 B, image/png, sha-256 {digest[:16]}" in pages) == (
            samples > 0
        )
    long = {"uri": "n" * 500, "path": f"files/{digest[:2]}/{digest}-{'0' * 16}"}
    shown = samples_of._sample(table_of(tmp_path / "lake"), long).text
    assert len(shown) == samples_of.MAX_OF_FILES


@pytest.mark.parametrize(("form", "suffix"), [("html", ".html"), ("markdown", ".md")])
@pytest.mark.parametrize("samples", [0, 2])
def test_pages_lead_to_files(tmp_path: Path, form: str, suffix: str, samples: int) -> None:
    lake = tmp_path / "my lake"
    sync(lake, {1: "data:,a", 2: "data:,b"})
    freeze(table_of(lake), at=1)
    make(lake, tmp_path / "a" / "site", form=form, samples=samples)
    folder = tmp_path / "a" / "site" / "taps" / TAP / "tables" / "photos"
    page = folder / f"index{suffix}"
    text = page.read_text()
    links = re.findall(r'href="([^"]*)"' if form == "html" else r"\]\(([^)]*)\)", text)
    ways = [page.parent / unquote(link) for link in links if "/files/" in link]
    assert [way.read_bytes() for way in ways] == [b"b", b"a"][:samples]
    digest = hashlib.sha256(b"b").hexdigest()[:16]
    for command_, there in (
        (f"singerlake files ls {TAP}.photos", True),
        (f"singerlake files export {TAP}.photos files-of-{TAP}.photos", True),
        (f"singerlake files get {TAP}.photos {digest} --out {digest}", samples > 0),
    ):
        assert (command_ in text) is there
    version = (folder / "versions" / f"1{suffix}").read_text()
    assert f"singerlake files export {TAP}.photos.1 files-of-{TAP}.photos.1" in version


def test_pages_in_a_bucket_or_of_one_lead_to_no_disk(tmp_path: Path) -> None:
    sync(tmp_path / "lake", {1: "data:,a"})
    with open_destination(str(tmp_path / "site")) as place:
        assert place.way_to(tmp_path / "lake") == "../lake/"
        assert not place.way_to(None)  # the lake is in a bucket
    assert not Renderer("html", "lake")._stored("index", "raw/tap/photos/files/00/x")


@pytest.mark.parametrize(
    ("subject", "shown"),
    [
        (Subject(), []),
        (Subject("tap-a"), []),
        (Subject("tap-a", "people"), []),
        (Subject("tap-a", "people", ("name",)), ["Elm Street"]),
        (Subject("tap-a", "people", ("address", "street")), ["Ada"]),
        (Subject("tap-a", "people", ("address",)), ["Ada"]),
    ],
    ids=str,
)
def test_values_of_what_is_classified_are_never_shown(
    lake: Lake, tmp_path: Path, subject: Subject, shown: list[str]
) -> None:
    """Whatever it is that is classified: the lake, the tap, the table, or what is inside it."""
    address = {"type": "object", "properties": {"street": {"type": "string"}}}
    record = {"name": "Ada", "address": {"street": "Elm Street"}}
    commit_rows(
        lake, "tap-a.people", {"name": {"type": "string"}, "address": address}, [], [record]
    )
    values = ["Ada", "Elm Street"]
    table = tmp_path / "site" / "taps/tap-a/tables/people/index.html"
    for classification, wanted in (("Public", values), ("confidential", shown)):
        changes.annotate(lake, [change_of(subject, {"classification": classification})])
        make(Path(lake.store.uri), tmp_path / "site", samples=1)
        assert [value for value in values if value in table.read_text()] == wanted


def test_no_java_and_no_data_is_needed(shop: Path, tmp_path: Path) -> None:
    """Every data file gone, the site is the same: only metadata was read."""
    copy = tmp_path / "shop"
    shutil.copytree(shop, copy)
    for file in copy.rglob("*.singer.gz"):
        file.unlink()
    make(shop, tmp_path / "one")
    make(copy, tmp_path / "two")
    assert files(tmp_path / "one") == files(tmp_path / "two")


def test_markdown_says_the_same(shop: Path, tmp_path: Path) -> None:
    built = make(shop, tmp_path / "site", form="markdown")
    assert built.written == len(files(tmp_path / "site")) - 1
    table = (tmp_path / "site" / ORDERS.replace(".html", ".md")).read_text(encoding="utf-8")
    for part in ("# orders", "| customer\\_id |", "$.items", "chart.svg", "removed `$.currency"):
        assert part in table, part
    key = f"`{ADA.fingerprint}`, 2026-11-"
    assert re.search(r"- @current points to \[version 2\]\(\S+/2\.md\) since 2026-11-", table)
    assert f"| @current | {key}" in table
    version = (tmp_path / "site" / VERSION.replace(".html", ".md")).read_text(encoding="utf-8")
    assert "- Pointers: @current\n" in version
    assert "## Signatures\n\nThese are the keys" in version
    assert f"- {key}" in version
    for page in (tmp_path / "site").rglob("*.md"):
        for link in re.findall(r"\]\(([^)]*)\)", page.read_text(encoding="utf-8")):
            if "://" not in link:
                assert (page.parent / link).is_file(), f"{page}: {link}"
    make(shop, tmp_path / "site")
    assert not list((tmp_path / "site").rglob("*.md"))


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "[x](javascript:alert(1))",
        "![x](https://evil.example/p.png)",
        "a | b `c` *d* _e_ ~~f~~",
        "# heading",
        "- list",
        "line\n\n# heading",
        "{{ config }} {% raw %}",
        "\u202etxt",
    ],
)
def test_markdown_is_inert(text: str) -> None:
    shown = str(words.markdown(text))
    assert "\n" not in shown
    assert "\u202e" not in shown
    assert not re.search(r"(?<!\\)[<\[`*_|{!]", shown)
    assert not re.match(r"[#-]", shown)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("51.1 MB", "51.1 MB"),
        ("2026-11-20 20:00", "2026-11-20 20:00"),
        (12.5, "12.5"),
        (-3, "-3"),
        ("1. item", "1\\. item"),
        ("12)", "12\\)"),
        ("- item", "\\- item"),
    ],
)
def test_markdown_leaves_numbers_as_they_are(value: Any, shown: str) -> None:
    assert str(words.markdown(value)) == shown


def test_a_chart_of_markdown_is_a_drawing(shop: Path, tmp_path: Path) -> None:
    make(shop, tmp_path / "site", form="markdown")
    drawing = ElementTree.parse((tmp_path / "site" / ORDERS).with_name("chart.svg"))
    bars = list(drawing.iter("{http://www.w3.org/2000/svg}rect"))
    assert len(bars) > 10
    for bar in bars:
        assert all(float(bar.attrib[name]) >= 0 for name in ("x", "y", "width", "height"))


def test_a_chart_that_was_taken_away_comes_back(shop: Path, tmp_path: Path) -> None:
    make(shop, tmp_path / "site", form="markdown")
    before = files(tmp_path / "site")
    (tmp_path / "site" / ORDERS).with_name("chart.svg").unlink()
    make(shop, tmp_path / "site", form="markdown")
    assert files(tmp_path / "site") == before


@pytest.mark.parametrize("samples", [0, 1])
def test_columns_in_markdown_are_a_table(lake: Lake, tmp_path: Path, samples: int) -> None:
    schema = {f"column_{n}": {"type": "string"} for n in range(7)}
    commit_rows(lake, "tap-a.wide", schema, [], [{"column_1": "x"}])
    make(lake, tmp_path / "site", form="markdown", samples=samples)
    page = (tmp_path / "site/taps/tap-a/tables/wide/index.md").read_text(encoding="utf-8")
    shown = MarkdownIt().enable("table").render(page)
    table = next(part for part in shown.split("</table>") if "Constraints" in part)
    assert table.count("<tr>") == 1 + 7
    assert table.count("<th>") == 5 + samples


def test_markdowns_code_cannot_be_left() -> None:
    assert str(words.code("a`b")).startswith("``")
    assert str(words.block("x\n```\n<b>")).startswith("````")


@pytest.mark.parametrize(
    ("name", "sql"),
    [
        (TableName("tap-shop", "orders"), "tap_shop.orders"),
        (TableName("tap-shop", "public.a b"), "tap_shop.`public.a b`"),
        (TableName("tap", "a`b"), "tap.`a``b`"),
    ],
)
def test_how_a_query_names_a_table(name: TableName, sql: str) -> None:
    assert gather.sql_name(name) == sql


def test_page_of_a_dead_letter_table_has_the_commands_for_its_records(lake: Lake) -> None:
    properties, keys = SCHEMA.schema["properties"], SCHEMA.key_properties
    rows: list[Any] = [{"digest": "0", "line": 1, "reason": "odd"}]
    commit_rows(lake, "tap-shop.orders__rejected", properties, keys, rows)
    commit_rows(lake, "tap-shop.other__rejected", {"id": {"type": "integer"}}, ["id"], [{"id": 1}])
    gatherer = gather.Gatherer(lake, set(lake.tables()), NOW)
    found = [
        [one.text for one in gatherer.page(lake.table(name)).commands if "rejected tap" in one.text]
        for name in lake.tables()
    ]
    command = "singerlake rejected tap-shop.orders__rejected"
    assert found == [[command, f"{command} --replay"], []]


def test_pages_stay_small(lake: Lake, tmp_path: Path) -> None:
    """A wide table, long words and many versions go on on further pages."""
    wide = {f"column_{n}": {"type": "string", "description": "d" * 900} for n in range(600)}
    commit_rows(lake, "tap-a.wide", wide, [], [{"column_1": "x"}])
    make(lake, tmp_path / "site")
    sizes = {path: path.stat().st_size for path in (tmp_path / "site").rglob("*.html")}
    assert max(sizes.values()) < 150_000
    parts = sorted((tmp_path / "site/taps/tap-a/tables/wide").glob("*.html"))
    assert len(parts) > 5
    assert sum(text_of(page).count("column_599 ") for page in parts) == 1


@pytest.mark.parametrize("form", ["html", "markdown"])
def test_a_table_that_many_were_made_of_says_how_many(
    lake: Lake, tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_rows(lake, "tap-a.orders", {"id": {"type": "integer"}}, [], [{"id": 1}])
    example = Example(lake, monkeypatch)
    source = {"table": "tap-a.orders", "version": None, "transaction": 1}
    for number in range(lists.MOST_EDGES + 7):
        example.create(f"made.t{number:03}", "select 1", [source], 1)
    example.create("made.z_many", "select 2", [source] * (lists.MOST_EDGES + 8), 1)
    make(lake, tmp_path / "site", form=form)
    suffix = "html" if form == "html" else "md"
    used = text_of(tmp_path / f"site/taps/tap-a/tables/orders/index.{suffix}")
    assert re.search(r"used by \[?made\.t049", used)
    assert "made.t050" not in used
    assert f"used by {7 + lists.MOST_EDGES + 8} more tables" in used
    made_of = text_of(tmp_path / f"site/taps/made/tables/z_many/index.{suffix}")
    assert "made of 8 more tables" in made_of


@pytest.mark.parametrize("letter", ["&", "\U0001f40b", "\u202e", '"'])
def test_pages_stay_small_whatever_is_said(lake: Lake, tmp_path: Path, letter: str) -> None:
    """Bytes count, not letters: of what people say, and of what a schema says it was."""
    for part in range(12):
        columns = {
            f"{letter * 150}{part}_{n}": {"type": "string", "description": letter * 900}
            for n in range(40)
        }
        commit_rows(lake, "tap-a.wide", columns, [], [{}])
    for subject in (Subject(), Subject("tap-a"), Subject("tap-a", "wide")):
        changes.annotate(lake, [change_of(subject, {"description": letter.join(["x"] * 2000)})])
    make(lake, tmp_path / "site")
    sizes = {path: path.stat().st_size for path in (tmp_path / "site").rglob("*.html")}
    assert max(sizes.values()) < 150_000, sizes
    assert len(sizes) > 5


def test_a_search_index_stays_small(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Descriptions go first, then columns inside others, then all columns, and at last tables."""
    address = {"type": "object", "properties": {"street": {"type": "string"}}}
    for number in range(20):
        schema = {"address": address, f"c{number}": {"type": "string"}}
        commit_rows(lake, f"tap-a.t{number}", schema, [], [{}])
        subject = Subject("tap-a", f"t{number}")
        changes.annotate(lake, [change_of(subject, {"description": f"Words of {number}"})])
    names = lake.tables()
    gatherer = gather.Gatherer(lake, set(names), NOW)
    index = search.Index()
    for name in names:
        index.add(gatherer.page(lake.table(name)))
    shown: list[tuple[bool, bool, bool, int]] = []
    most = len(index.script())
    for limit in range(most, 200, -1):
        monkeypatch.setattr(search, "MAX_BYTES", limit)
        script = index.script()
        assert len(script) <= limit
        told = json.loads(script.removeprefix(b"window.singerlakeIndex=").removesuffix(b";\n"))
        words = any(row[3] for row in told["tables"])
        columns = [told["columns"][number] for row in told["tables"] for number in row[2]]
        state = (words, "street" in columns, "address" in columns, len(told["tables"]))
        if not shown or shown[-1] != state:
            shown.append(state)
    assert shown[:4] == [
        (True, True, True, 20),
        (False, True, True, 20),
        (False, False, True, 20),
        (False, False, False, 20),
    ]
    assert shown[4][3] == 19


def test_pages_go_up_with_their_media_types(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a store that notes what it is given; tests/storage has a real one."""
    kept: dict[str, tuple[bytes, str]] = {}

    class Bucket:
        uri = "s3://bucket/docs"

        def get(self, key: str) -> Any:
            if key not in kept:
                raise destination.KeyMissingError(key)
            return type("Stored", (), {"data": kept[key][0]})

        def first_key(self) -> str | None:
            return next(iter(kept), None)

        def write_page(self, key: str, data: bytes, media_type: str) -> None:
            kept.pop(key, None)
            kept[key] = (data, media_type)

        def delete(self, key: str) -> None:
            kept.pop(key)

    monkeypatch.setattr(destination, "open_store", lambda *_: Bucket())
    lake = Lake.open(str(shop))
    with open_destination("s3://bucket/docs") as place:
        site.build(lake, place, site.Options(now=NOW))
    assert kept["index.html"][1] == "text/html; charset=utf-8"
    assert kept["assets/search.js"][1] == "text/javascript; charset=utf-8"
    assert kept["assets/icon.svg"][1] == "image/svg+xml"
    assert list(kept)[-2:] == ["index.html", "singerlake-site.json"]  # the way in comes last
    before = dict(kept)
    with open_destination("s3://bucket/docs") as place:
        assert site.build(lake, place, site.Options(now=NOW)).written == 0
    assert kept == before
    kept.clear()
    write, written = Bucket.write_page, 0

    def broken(self: Bucket, key: str, data: bytes, media_type: str) -> None:
        nonlocal written
        written += 1
        if written > 5:
            raise StoreError("gone")
        write(self, key, data, media_type)

    monkeypatch.setattr(Bucket, "write_page", broken)
    with pytest.raises(StoreError), open_destination("s3://bucket/docs") as place:
        site.build(lake, place, site.Options(now=NOW))
    monkeypatch.setattr(Bucket, "write_page", write)
    with open_destination("s3://bucket/docs") as place:
        site.build(lake, place, site.Options(now=NOW))
    assert kept == before  # a first upload that broke off is finished by the next
    kept.clear()
    kept["thesis.pdf"] = (b"mine", "")
    with pytest.raises(UsageError), open_destination("s3://bucket/docs") as place:
        site.build(lake, place, site.Options(now=NOW))
    assert list(kept) == ["thesis.pdf"]


@pytest.mark.parametrize(
    ("to", "meant"),
    [
        ("s3:/bucket/site", "did you mean s3://bucket/site?"),
        ("S3://bucket/site", "a site on S3 is named s3://bucket/prefix"),
        ("gs:/bucket/site", "did you mean gs://bucket/site"),
        ("file:/a", "did you mean file:///a?"),
    ],
)
def test_a_place_that_is_almost_a_uri_is_refused(
    to: str, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A typing error makes no folder of its name."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=re.escape(meant)):
        open_destination(to)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("scheme", ["file", "FILE"])
def test_a_folder_named_by_a_uri(shop: Path, tmp_path: Path, scheme: str) -> None:
    command(shop, "--out", f"{scheme}://{tmp_path}/a%20b")
    assert [path.name for path in tmp_path.iterdir()] == ["a b"]
    assert (tmp_path / "a b" / "index.html").is_file()


@pytest.mark.parametrize(
    "args",
    [
        ["--out", ""],
        ["--out", "ftp://x"],
        ["--out", "/"],
        ["--open", "--format", "markdown"],
        ["--samples", "99"],
    ],
)
def test_wrong_options_are_said_at_once(shop: Path, args: list[str]) -> None:
    result = command(shop, *args)
    assert result.exit_code == 2
    assert len(result.output.splitlines()) <= 2
