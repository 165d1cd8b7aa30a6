"""A lake's site: every table looked at once, and only what changed laid out anew."""

from __future__ import annotations

import hashlib
import heapq
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from singerlake.errors import DamagedError, NotFoundError, SingerlakeError
from singerlake.format.names import TableName
from singerlake.lake import Lake
from singerlake.site import charts, columns, lists, paths
from singerlake.site.citation import citation
from singerlake.site.destination import Destination, is_page
from singerlake.site.gather import Gatherer, safe_run, sql_name, version_commands
from singerlake.site.pages import (
    Edge,
    HomePage,
    Recent,
    TablePage,
    TableSummary,
    TapPage,
    Version,
)
from singerlake.site.render import Rendered, Renderer, assets, templates_digest
from singerlake.site.search import Index
from singerlake.storage.opening import is_remote
from singerlake.storage.side_by_side import in_order
from singerlake.version import __version__

RECENT = 20
ATTENTION = 40
STATE_FORMAT = 1


class State(msgspec.Struct):
    """The record in a site of what each of its files was made of."""

    site: int = STATE_FORMAT
    software: str = ""
    form: str = "html"
    pages: dict[str, str] = {}


_STATE = msgspec.json.Decoder(State)
_PAGE = msgspec.json.Decoder(TablePage)


@dataclass(frozen=True)
class Options:
    """The options of a site.

    Attributes:
        form: ``html`` or ``markdown``.
        title: The site's; None takes the lake's name.
        samples: Values of each column to show; 0 for none, and then no data is read.
        anew: Lay out all pages, whatever is there.
        now: The time by which a table is stale.
    """

    now: datetime
    form: str = "html"
    title: str | None = None
    samples: int = 0
    anew: bool = False


@dataclass
class Built:
    """The result of a build.

    Attributes:
        tables: Tables that the site has.
        written: Files that were made.
        kept: Files that are as they were.
        removed: Files that are no more.
        failed: Tables that could not be read, with the reason; they have a page that says so.
    """

    tables: int = 0
    written: int = 0
    kept: int = 0
    removed: int = 0
    failed: list[tuple[TableName, SingerlakeError]] = field(default_factory=list)


def build(lake: Lake, to: Destination, options: Options) -> Built:
    """Make a lake's site, or bring it up to date.

    Raises:
        DamagedError: The lake cannot be read. Nothing was changed.
        UsageError: Something else is where the site should be.
        StoreError: A file cannot be written.
    """
    before = _decoded(to.state(), options)
    return _Build(lake, to, options, before).run()


def _decoded(data: bytes | None, options: Options) -> State:
    """The state of the site that is there; an empty one where nothing of it can be kept."""
    if data is None:
        return State()
    try:
        state = _STATE.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return State()
    if state.site != STATE_FORMAT or state.form != options.form or options.anew:
        state.pages = dict.fromkeys(state.pages, "")
    return state


class _Build:
    """One run."""

    def __init__(self, lake: Lake, to: Destination, options: Options, before: State) -> None:
        self._lake = lake
        self._to = to
        self._options = options
        self._before = before
        self._title = options.title or lists.lake_title(lake.store.uri)
        # Only samples lead to files; without them, a site says the same wherever the lake lies.
        to_lake = to.way_to(lake.store.local_path("")) if options.samples else ""
        self._renderer = Renderer(options.form, self._title, to_lake)
        self._templates = f"{templates_digest()} {self._title} {__version__} {to_lake}"
        self._index = Index()
        self._pages: dict[str, str] = {}
        self._made: list[str] = []
        self._built = Built()

    def run(self) -> Built:
        known = self._lake.tables()
        gatherer = Gatherer(self._lake, set(known), self._options.now, self._options.samples)
        gathered, uses = self._gather(gatherer, known)
        taps: dict[str, list[TableSummary]] = {tap: [] for tap in self._lake.taps()}
        recent: list[tuple[str, str, int, Recent]] = []
        for data in gathered:
            page = _PAGE.decode(zlib.decompress(data))
            page = lists.with_edges(page, uses.get(page.summary.path, []))
            self._table(page)
            taps.setdefault(page.tap, []).append(page.summary)
            self._built.tables += 1
            for one in page.transactions[-RECENT:]:
                item = Recent(table=lists.short(page.summary), transaction=one)
                heapq.heappush(recent, (one.time, page.summary.name, one.number, item))
                if len(recent) > RECENT:
                    heapq.heappop(recent)
        newest = [item for *_, item in sorted(recent, key=lambda one: one[:3], reverse=True)]
        self._taps_and_home(gatherer, taps, newest)
        self._finish()
        return self._built

    def _gather(
        self, gatherer: Gatherer, known: Sequence[TableName]
    ) -> tuple[list[bytes], dict[str, list[Edge]]]:
        """All tables' pages, packed small, and which table others were made of."""
        gathered: list[bytes] = []
        uses: dict[str, list[Edge]] = {}

        def one(name: TableName) -> TablePage | None:
            try:
                return gatherer.page(self._lake.table(name))
            except NotFoundError:
                return None  # a folder in which nothing was ever committed, or not yet
            except DamagedError as error:
                self._built.failed.append((name, error))
                return gatherer.broken(name, error)

        for page in in_order(self._lake.store, one, known):
            if page is None:
                continue
            for edge in page.sources:
                if edge.path is not None:
                    back = Edge(
                        table=page.summary.name,
                        path=page.summary.path,
                        version=edge.version,
                        transaction=edge.transaction,
                    )
                    uses.setdefault(edge.path, []).append(back)
            gathered.append(zlib.compress(msgspec.json.encode(page), 1))
        self._built.failed.sort(key=lambda pair: pair[0])
        return gathered, uses

    def _table(self, page: TablePage) -> None:
        """A table's page, those of its further columns and versions, and one for each version."""
        self._index.add(page)
        if page.error is not None:
            self._keep_versions(TableName(page.tap, page.summary.stream))
        name = TableName(page.tap, page.summary.stream)
        data = msgspec.json.encode(page)
        column_pages, version_pages = lists.of_table(page, name)
        more_columns = lists.numbered("Columns", len(column_pages), paths.columns, name)
        more_versions = lists.numbered("Versions", len(version_pages), paths.versions, name)
        shared = {"page": page, "tap_path": paths.tap(page.tap), "sampled": page.sampled}
        self._put(
            "table", page.summary.path, data,
            lambda: {
                **shared,
                "columns": column_pages[0] if column_pages else [],
                "more_columns": more_columns,
                "versions": version_pages[0] if version_pages else [],
                "more_versions": more_versions,
                **self._drawings(page),
            },
        )  # fmt: skip
        for number, part in enumerate(column_pages[1:], 2):
            values = {"heading": f"columns, page {number}", "columns": part, "more": more_columns}
            path = paths.columns(name, number)
            self._put("more", path, data, lambda v=values: {**shared, **v, "versions": []})  # type: ignore[misc]
        for number, some in enumerate(version_pages[1:], 2):
            values = {"heading": f"versions, page {number}", "versions": some, "columns": []}
            path = paths.versions(name, number)
            self._put("more", path, data, lambda v=values: {**shared, **v, "more": more_versions})  # type: ignore[misc]
        lean = lists.without_lists(page)
        for place in range(len(page.versions)):
            self._version(page.versions, lean, name, place)

    def _keep_versions(self, name: TableName) -> None:
        """Leave the pages of a table's versions while it cannot be read: others cite them."""
        folder = paths.version(name, 0).removesuffix("0")
        for file, digest in self._before.pages.items():
            ours = file.startswith(folder) and file.endswith(self._renderer.suffix)
            if ours and is_page(file) and self._to.has(file):
                self._pages[file] = digest
                self._built.kept += 1

    def _drawings(self, page: TablePage) -> dict[str, Any]:
        chart = charts.history(page)
        drawings: dict[str, Any] = {
            "chart": chart,
            "lineage": charts.lineage(page),
            "chart_link": "",
        }
        if self._options.form == "markdown" and chart is not None:
            drawings["chart_link"] = "chart.svg"
        return drawings

    def _version(
        self, versions: Sequence[Version], lean: TablePage, name: TableName, place: int
    ) -> None:
        version = versions[place]
        near = [
            (versions[at].number, paths.version(name, versions[at].number))
            if 0 <= at < len(versions)
            else None
            for at in (place - 1, place + 1)
        ]
        summary, has_files = lean.summary, lean.has_files
        about = [lean.tap, summary.name, summary.said.owner, version, near, has_files]
        self._put(
            "version",
            paths.version(name, version.number),
            msgspec.json.encode(about),
            lambda: {
                "page": lean,
                "tap_path": paths.tap(lean.tap),
                "version": version,
                "before": near[0],
                "after": near[1],
                "citation": citation(self._title, summary, version),
                "commands": version_commands(
                    name, summary.name, sql_name(name), version, has_files
                ),
            },
        )

    def _taps_and_home(
        self, gatherer: Gatherer, taps: dict[str, list[TableSummary]], recent: list[Recent]
    ) -> None:
        pages = [
            TapPage(
                name=tap,
                path=paths.tap(tap),
                said=columns.said_of(gatherer.file.tap(tap)),
                run=safe_run(gatherer.file.tap(tap).last_run),
                tables=tables,
            )
            for tap, tables in sorted(taps.items())
        ]
        for tap in pages:
            self._tap(tap)
        uri = self._lake.store.uri
        home = HomePage(
            title=self._title,
            uri=uri if is_remote(uri) else None,
            said=columns.said_of(gatherer.file),
            taps=pages,
            recent=recent,
        )
        self._home(home)

    def _tap(self, tap: TapPage) -> None:
        parts = lists.of_tap(tap) or [[]]
        more = lists.numbered("Tables", len(parts), paths.tap, tap.name)
        data = msgspec.json.encode(tap)
        for number, part in enumerate(parts, 1):
            values = {"page": tap, "tables": part, "more": more}
            self._put("tap", paths.tap(tap.name, number), data, lambda v=values: v)  # type: ignore[misc]

    def _home(self, home: HomePage) -> None:
        lean = [lists.without_tables(tap) for tap in home.taps]
        attention = list(lists.attention(home))
        parts = lists.of_home(home, attention[:ATTENTION]) or [[]]
        more = lists.numbered("Taps", len(parts), paths.home)
        tables = home.tables
        totals = {
            "tables": len(tables),
            "records": sum(table.records for table in tables),
            "bytes": sum(table.bytes for table in tables),
            "versions": sum(table.versions for table in tables),
        }
        sums = [(len(t.tables), t.records, t.bytes, t.last_sync, t.stale) for t in home.taps]
        data = msgspec.json.encode(
            [home.title, home.uri, home.said, lean, sums, totals, attention, home.recent]
        )
        for number, part in reversed(list(enumerate(parts, 1))):
            values = {
                "page": home,
                "taps": part,
                "number": number,
                "more": more,
                "totals": totals,
                "attention": attention[:ATTENTION],
                "more_attention": max(0, len(attention) - ATTENTION),
            }
            self._put("home", paths.home(number), data, lambda v=values: v)  # type: ignore[misc]

    def _put(
        self, template: str, path: str, about: bytes, values: Callable[[], dict[str, Any]]
    ) -> None:
        """Lay a page out, unless it is there and was made of the same."""
        made = hashlib.sha256(f"{self._templates} {template} {path} ".encode() + about)
        file = path + self._renderer.suffix
        if self._is_kept(file, made.hexdigest()):
            return
        shown = values()
        self._write(self._renderer.page(template, path, **shown), made.hexdigest())
        if shown.get("chart_link"):
            drawn = self._renderer.chart(shown["chart"], path.removesuffix("index") + "chart.svg")
            self._write(drawn, made.hexdigest())

    def _is_kept(self, file: str, digest: str) -> bool:
        if self._before.pages.get(file) != digest or not self._to.has(file):
            return False
        chart = file.removesuffix("index.md") + "chart.svg"
        if file.endswith("/index.md") and self._before.pages.get(chart) == digest:
            if not self._to.has(chart):
                return False
            self._pages[chart] = digest
        self._pages[file] = digest
        self._built.kept += 1
        return True

    def _write(self, file: Rendered, digest: str) -> None:
        self._pages[file.path] = digest
        self._to.put(file)
        self._made.append(file.path)
        self._built.written += 1

    def _finish(self) -> None:
        if self._options.form == "html":
            index = Rendered(f"{paths.ASSETS}search-index.js", self._index.script())
            for file in [*assets(), index]:
                digest = hashlib.sha256(file.data).hexdigest()
                if not self._is_kept(file.path, digest):
                    self._write(file, digest)
        gone = [p for p in self._before.pages if p not in self._pages and is_page(p)]
        home = paths.HOME + self._renderer.suffix
        if self._made or gone:
            self._made.sort(key=lambda path: path == home)  # the way in comes last
            done = dict(sorted(self._pages.items()))
            doubtful = self._before.pages | dict.fromkeys([*self._made, *gone], "")
            self._to.finish(
                self._made, gone, interim=self._state(doubtful), state=self._state(done)
            )
        self._built.removed = len(gone)

    def _state(self, pages: dict[str, str]) -> bytes:
        state = State(software=__version__, form=self._options.form, pages=pages)
        return msgspec.json.format(msgspec.json.encode(state), indent=1) + b"\n"
