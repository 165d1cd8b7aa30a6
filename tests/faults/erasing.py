"""An erasure put to the test: the row is everywhere as before, or nowhere."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, ClassVar

from singerlake.engine.choice import LOCAL, EngineChoice
from singerlake.lake import Lake
from singerlake.ops.sign.sign import sign
from singerlake.storage.base import Store
from tests.build import commit_rows
from tests.faults import plain
from tests.faults.operations import STALE_SECONDS, TAP, WIDE, Operation
from tests.faults.plain import Dump, Row
from tests.sshsig import Key


class EraseRow(Operation):
    """Of a table with a signed version, an index and a leftover, a row that was changed once goes.

    Readers are told of it, and its key is blocked.
    """

    name = "erase"
    spark = True
    table = f"{TAP}.t"
    head: ClassVar[list[Row]] = [{"id": 1, "name": "a"}, {"id": 2, "name": "her"}, {"id": 3}]
    frozen: ClassVar[list[Row]] = [{"id": 1}, {"id": 2, "name": "hers"}]

    def prepare(self, lake: Lake) -> None:
        from tests.frozen import freeze_here

        commit_rows(lake, self.table, WIDE, ["id"], self.frozen)
        freeze_here(lake.find(self.table)[0])
        sign(lake.store, lake.find(self.table)[0].snapshot(), "1", Key())
        commit_rows(lake, self.table, WIDE, ["id"], [{"id": 2, "name": "her"}, {"id": 3}])
        commit_rows(lake, self.table, WIDE, ["id"], [{"id": 1, "name": "a"}])
        file = lake.find(self.table)[0].snapshot().blocks[0].file
        data = lake.store.get(f"raw/{TAP}/t/{file}").data
        left = f"{file.removesuffix('.singer.gz')[:-16]}0123456789abcdef.singer.gz"
        lake.store.put_if_absent(f"raw/{TAP}/t/{left}", data)

    def run(self, store: Store, acknowledged: Path, *, again: bool = False) -> None:
        from singerlake.ops.erase.plan import EraseOptions
        from singerlake.ops.erase.table import EraseRequest, erase

        options = EraseOptions(
            "request 12",
            tell_seconds=86_400,
            block=True,
            lease_wait_seconds=0.1 if not again else 20,
            lock_wait_seconds=0.1 if not again else 20,
            stale_seconds=STALE_SECONDS if again else 600,
        )
        request = EraseRequest(Lake(store).find(self.table)[0], ("2",))
        erase(request, options, self.choice())

    def choice(self) -> EngineChoice:
        """What it runs on."""
        from singerlake.engine.spark.jvm.session import session

        return EngineChoice.of("spark", start=lambda: session("local[2]"))

    def check(self, dump: Dump, acknowledged: list[Any], *, done: bool) -> None:
        table = plain.tables(dump)[self.table]
        erased = any(entry["operation"] == "erase" for entry in table.log)
        assert erased or not done
        if erased:  # what the entry names was there before it
            (entry,) = (entry for entry in table.log if entry["operation"] == "erase")
            notice, blocked = entry["erasure"]["notice"], entry["blocked"]
            told = gzip.decompress(dump[f"{table.folder}erased/notices/{notice['id']}.gz"])
            assert (told, blocked["keys"]) == (b'{"id":2}\n', 1)
            assert f"{table.folder}erased/blocked/{blocked['id']}.gz" in dump
        left = [[row for row in rows if row["id"] != 2] for rows in (self.head, self.frozen)]
        states = [table.state(), table.state(1)]
        assert states == (left if erased else [self.head, self.frozen])
        if not done:
            return
        salted = [key for key, data in dump.items() if b'"salt"' in data]
        assert not salted, "a signature confirms a guess at the row"
        for key, data in dump.items():
            if key.endswith(".singer.gz"):
                lines = [json.loads(line) for line in gzip.decompress(data).splitlines()]
                assert 2 not in {line["record"]["id"] for line in lines if "record" in line}, key
            assert not key.endswith(".parquet"), "an index is from before, or nobody needs it"


class EraseRowHere(EraseRow):
    """The same in this process."""

    name = "erase, small"
    spark = False

    def choice(self) -> EngineChoice:
        return EngineChoice(LOCAL)
