"""One stream of one tap, as programs hold it: its states, and all that can be done to it.

Each operation is in a module of ``singerlake.ops`` that is imported when it is asked for: it may
need pyarrow, or pyspark.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from singerlake import lake
from singerlake.api.snapshot import Misfits, Snapshot
from singerlake.api.version_list import VersionList
from singerlake.engine.choice import EngineChoice
from singerlake.errors import SingerlakeError, UsageError
from singerlake.format.log import FrozenVersion
from singerlake.format.metadata import TransactionSummary
from singerlake.log import log, versions
from singerlake.log.requested_state import Naming, requested_state, requested_transaction

if TYPE_CHECKING:
    from io import BufferedReader

    from pyspark.sql import SparkSession

    from singerlake.api.rejected import Rejected
    from singerlake.ops.change.table_change import TableChange
    from singerlake.ops.delete_version import DeletedVersion
    from singerlake.ops.diff.diff import Diff
    from singerlake.ops.erase.tables import Erased
    from singerlake.ops.publish.outcome import Outcome
    from singerlake.ops.rows_back.revert import Reverted
    from singerlake.ops.undo import Undone
    from singerlake.ops.vacuum.plan import Vacuumed
    from singerlake.ops.verify.problems import Report
    from singerlake.storage.options import StoreOptions


class Table(lake.Table):
    """One stream of one tap."""

    _engine: str | None = None
    """What operations run on if they name no engine: that of the lake that it was got from."""

    def __repr__(self) -> str:
        """Show the table as its log has it; where there is no log, only its name."""
        try:
            # Not ``snapshot``, which looks through all files where the log is lost.
            head = log.read_snapshot(self.store, self.name)
            if head is None:
                return f"Table({self.name})"
            head.check_there()
            facts = [f"{self.name} at transaction {head.number}"]
            facts += [f"newest version {head.frozen[-1].described()}"] if head.frozen else []
            columns = ", ".join(f"{name}: {type_}" for name, type_ in head.columns)
        except SingerlakeError as error:  # whoever debugs is shown why
            return f"Table({self.name}: {error})"
        return f"Table({', '.join(facts)}; {columns})"

    def _repr_html_(self) -> str:
        """Show the table in a notebook as its log has it; no row is read."""
        from singerlake.cards import card

        try:
            head = self.snapshot()
            key = {head.columns[index][0] for index in head.key}
            facts: dict[str, object] = {
                "last transaction": str(head.number),
                "frozen versions": len(head.frozen),
            }
            if head.frozen:
                last = head.frozen[-1]
                facts |= {"last version": _named(last), "its rows": last.rows}
                facts |= {"its fingerprint": last.fingerprint}
            columns = [
                (name, str(type_), "key" if name in key else "") for name, type_ in head.columns
            ]
        except SingerlakeError as error:
            return card(f"Table {self.name}", {"error": error})
        return card(f"Table {self.name}", facts, ("column", "type", ""), columns)

    def _choice(self, engine: str | None, spark: SparkSession | None) -> EngineChoice:
        """Return what an operation may run on; see :class:`EngineChoice`."""
        return EngineChoice.of(engine, default=self._engine, spark=spark)

    def versions(self) -> VersionList:
        """List the table's frozen versions, oldest first.

        Raises:
            NotFoundError: There is no such table.
            DamagedError: The log has a gap or cannot be read.
        """
        return VersionList(self.name, super().versions())

    def history(self) -> list[TransactionSummary]:
        """List the table's transactions, oldest first.

        Raises:
            NotFoundError: There is no such table.
            DamagedError: The log has a gap or cannot be read.
        """
        return list(self.snapshot().own_transactions)

    def at(
        self,
        version: int | str | None = None,
        *,
        transaction: int | None = None,
        time: datetime | str | None = None,
        engine: str | None = None,
        on_type_mismatch: Misfits = "fail",
    ) -> Snapshot:
        """Get the table's state at a version, a transaction or a time; by default, as it is now.

        Args:
            version: A frozen version's number or label.
            transaction: A transaction's number.
            time: The state is that of the last transaction by then. A text such as
                ``2026-11-20T12:00Z``, or a datetime; without a zone, it is in UTC.
            engine: What makes the index of the state if it has none: ``local``, ``spark``, or
                ``auto`` for this process if the state is small. By default the lake's.
            on_type_mismatch: What becomes of values that do not fit their columns: with ``fail`` it
                is an error to read one, and ``null`` reads it as null.

        Raises:
            NotFoundError: There is no such table, version or transaction, or its state was
                given up.
            UsageError: Several states are named, or a time is none.
        """
        head = self.snapshot()
        frozen, snapshot = requested_state(head, *_namings(version, transaction, time))
        return Snapshot(
            self, snapshot, frozen, engine=engine or self._engine, on_type_mismatch=on_type_mismatch
        )

    def open_file(self, file: Any) -> BufferedReader:
        """Open a file that a row names, for reading; it may be sought in.

        ::

            for row in products.at("monday").to_arrow().to_pylist():
                with products.open_file(row["photo"]) as photo:
                    thumbnail(photo)

        Args:
            file: What the row says of it: a dict, its JSON text, or the file's path alone.

        Returns:
            A stream of bytes. Read from beginning to end, they are checked against their hash.

        Raises:
            UsageError: It names no file of a lake.
            DamagedError: The file is gone. While it is read: it is damaged.
            StoreError: The store refused.
        """
        from singerlake.files import stored

        if (found := stored.of_value(file)) is None:
            raise UsageError(
                "this is not a file of the lake: pass the value of a row, with its path"
            )
        return stored.opened(self.store, self.name, found)

    def diff(
        self,
        before: int | str,
        after: int | str | None = None,
        *,
        on_type_mismatch: Literal["fail", "null", "text"] = "fail",
        engine: str | None = None,
        spark: SparkSession | None = None,
    ) -> Diff[Any]:
        """Find what differs between two states of the table.

        Both are read with the columns, the types and the key of the second. A row that nobody
        wrote in between is unchanged, even if the schema changed. Without a key, rows are told
        apart by where they lie and by their records: none is ever changed, only removed and added.

        ::

            with lake["tap-shop.orders"].diff("monday") as found:
                print(found.counts())
                changes = found.flat_rows().to_arrow()

        Args:
            before: A version's number or label, or ``"@17"`` for the state at transaction 17.
            after: The same; the head by default.
            on_type_mismatch: What becomes of values that do not fit their columns, in rows that
                differ: with ``fail`` it is an error to read one, ``null`` reads it as null, and
                ``text`` makes text of its column.
            engine: As for :meth:`freeze`.
            spark: As for :meth:`freeze`.

        Returns:
            How the schemas differ (``compared.schema``), ``counts()``, and rows. While it is held,
            no vacuum deletes what it reads.

        Raises:
            NotFoundError: There is no such version or transaction, or its state was given up.
            UsageError: The table has lost its log, or the first state lacks a column of the
                second's key.
            DamagedError: A block that is needed cannot be read, or a key does not fit.
            RuntimeMissingError: Spark is needed, and it or Java is not installed.
        """
        from singerlake.ops.diff.table import DiffOptions, diff

        second = None if after is None else str(after)
        return diff(
            self, DiffOptions(str(before), second, on_type_mismatch), self._choice(engine, spark)
        )

    def freeze(
        self,
        label: str | None = None,
        *,
        comment: str | None = None,
        transaction: int | None = None,
        time: datetime | str | None = None,
        allow_violations: bool = False,
        again: bool = False,
        pointer: str | None = None,
        require: Sequence[str] = (),
        sign: str | Path | None = None,
        engine: str | None = None,
        spark: SparkSession | None = None,
    ) -> FrozenVersion:
        """Freeze a state as the next version.

        If the state has a version already, that is returned, unless ``label`` is another.

        Args:
            label: A name that can stand for the version's number.
            comment: Why; kept with the version if it is a new one.
            transaction: Whose state; the last by default.
            time: Instead, the state that was the newest then. Times are as for :meth:`at`.
            allow_violations: Even if rows break a constraint; the version says so.
            again: Make a new version even if the state has one.
            pointer: A pointer that is moved to the version; see :meth:`point`.
            require: Requirements that the snapshot must meet, for example ``rows > 0``,
                ``deleted < 5%``, ``nulls(total) = 0``, ``freshness < 24h``, ``schema unchanged``
                or ``sql: select …``, which must return no row. They are kept with the version.
            sign: The file of a key with which the version is signed; see :meth:`sign`.
            engine: What reads the rows: ``local``, ``spark``, or ``auto`` for this process if the
                state is small and has no constraints. By default the lake's.
            spark: The session to use; it means Spark.

        Raises:
            NotFoundError: There is no such table or transaction, or it is younger than the time.
            UsageError: The label cannot be one or is taken, two states are named, or a time is
                none.
            ConflictError: The label was taken meanwhile, or a vacuum came in between.
            DamagedError: A row cannot be read under the table's schema, or breaks its rules.
            RequirementsError: The snapshot does not meet a requirement. Nothing is frozen.
            RuntimeMissingError: Spark or Java is not installed.
        """
        from singerlake.ops.freeze import FreezeOptions, freeze
        from singerlake.ops.sign.openssh import SigningKey

        options = FreezeOptions(
            named=_namings(None, transaction, time),
            label=label,
            comment=comment,
            again=again,
            allow_violations=allow_violations,
            pointer=pointer,
            require=require,
            signer=None if sign is None else SigningKey.of(sign),
        )
        return freeze(self, options, self._choice(engine, spark)).version

    def pointers(self) -> dict[str, FrozenVersion]:
        """Return the table's pointers: by name, without the ``@``, the version that each names."""
        found = versions.pointers(self.snapshot())
        return {name: version for name, (version, _) in found.items()}

    def point(self, name: str, version: int | str | None) -> FrozenVersion | None:
        """Move a pointer to a version, or remove it.

        Whatever reads ``@name`` reads the version that it names when it begins.

        Args:
            name: The pointer's name, for example ``current``.
            version: The version's number or label, or another pointer, as ``@name``; None removes
                the pointer.

        Returns:
            The version that the pointer names now.

        Raises:
            NotFoundError: There is no such version, or no such pointer to remove.
            UsageError: The name is not valid, or the version is a transaction.
            ConflictError: Another process moved the pointer, or deleted the version, in the
                meantime.
        """
        from singerlake.ops.point import point

        wanted = None if version is None else str(version)
        return point(self.store, self.snapshot(), name, wanted).version

    def rejected(self, reason: str | None = None, *, where: str | None = None) -> Rejected:
        """Get the rejected records of the table's stream; nothing is read yet.

        ::

            print(table.rejected().counts())
            print(table.rejected(reason='*is not of type "number"*').replay(dry_run=True))

        Args:
            reason: Only those that were rejected for it: a reason as ``counts`` gives it, a part
                of it, or a pattern with ``*`` and ``?``.
            where: Only those for which a condition in SQL on the columns of the dead-letter table
                is true.
        """
        from singerlake.api.rejected import Rejected

        return Rejected(self, reason, where, self._engine)

    def sign(self, version: int | str, key: str | Path) -> FrozenVersion:
        """Sign a version with a key of OpenSSH, which ``ssh-keygen`` uses.

        If the key has signed the version as it is now, nothing is changed.

        Args:
            version: Its number or label, or a pointer, as ``@name``.
            key: The file of a private key, or of the public key of one that ``ssh-agent`` holds.

        Returns:
            The version, with its signatures.

        Raises:
            NotFoundError: There is no such version.
            UsageError: The file is not a key, or the version cannot be signed.
            ConflictError: Rows of the table were erased, or the version was deleted, in the
                meantime.
            RuntimeMissingError: OpenSSH is not installed.
            SingerlakeError: The key's passphrase was wrong, or no agent or device has it.
        """
        from singerlake.ops.sign.openssh import SigningKey
        from singerlake.ops.sign.sign import sign

        return sign(self.store, self.snapshot(), str(version), SigningKey.of(key)).version

    def delete_version(self, version: int | str, *, reason: str) -> DeletedVersion:
        """Delete a frozen version: its number is never used again, its label may be.

        Args:
            version: Its number or label.
            reason: Why; whoever asks for it is told.

        Raises:
            NotFoundError: There is no such version, or it was deleted before.
            UsageError: The reason is empty or too long.
            ConflictError: Somebody deleted it meanwhile, or a pointer names it.
        """
        from singerlake.ops.delete_version import delete_version

        return delete_version(self.store, self.snapshot(), str(version), reason)

    def verify(
        self,
        version: int | str | None = None,
        *,
        signed_by: str | Path | None = None,
        engine: str | None = None,
        spark: SparkSession | None = None,
    ) -> Report:
        """Hold every block, and the fingerprints of every version, against the log.

        Args:
            version: Compute the fingerprints of this version only, by number or label.
            signed_by: A file of OpenSSH's format ALLOWED SIGNERS: each version must have a
                signature by one of these signers of what it is now.
            engine: As for :meth:`freeze`.
            spark: As for :meth:`freeze`.

        Returns:
            What was looked at, and what is not as it should be: ``problems`` is empty where all is.

        Raises:
            NotFoundError: There is no such version.
            UsageError: The file of signers cannot be read, or lists none.
            RuntimeMissingError: Spark or Java is not installed, or OpenSSH.
        """
        from singerlake.ops.sign.openssh import AllowedSigners
        from singerlake.ops.verify.verify import verify

        signers = None if signed_by is None else AllowedSigners.of(signed_by)
        return verify(self, version, self._choice(engine, spark), signers)

    def change(
        self,
        *,
        comment: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        if_transaction: int | None = None,
        overwrite: bool = False,
        new_version: bool = False,
        label: str | None = None,
        dry_run: bool = False,
        engine: str | None = None,
        spark: SparkSession | None = None,
    ) -> TableChange:
        """Begin a change, to be used as a context; at its end all of it is one transaction.

        ::

            with lake.table("tap-shop.orders").change(comment="paid by card") as change:
                change.upsert([{"id": 17, "status": "paid"}])
                change.delete([18, 19])
            print(change.result)

        Where the block ends with an error, nothing is changed.

        Args:
            comment: Why; kept with the transaction.
            metadata: What else to keep with it.
            if_transaction: The transaction that the table must still be at.
            overwrite: Change rows whatever version of them was read.
            new_version: Freeze what the change leaves, in the same transaction.
            label: That version's label.
            dry_run: Only work out what would be done.
            engine: What reads and writes rows: ``local``, ``spark``, or ``auto`` for this process
                if the table and the rows are small. By default the lake's.
            spark: A session; it means Spark.
        """
        from singerlake.ops.change.plan import ChangeOptions
        from singerlake.ops.change.table_change import TableChange

        options = ChangeOptions(
            comment=comment,
            metadata=metadata or {},
            if_transaction=if_transaction,
            overwrite=overwrite,
            new_version=new_version,
            label=label,
            dry_run=dry_run,
        )
        return TableChange(self, options, self._choice(engine, spark))

    def revert(
        self,
        version: int | str | None = None,
        *,
        transaction: int | None = None,
        time: datetime | str | None = None,
        comment: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        if_transaction: int | None = None,
        dry_run: bool = False,
        allow_violations: bool = False,
        allow_type_mismatches: bool = False,
        keep_bookmark: bool = False,
        engine: str | None = None,
        spark: SparkSession | None = None,
    ) -> Reverted:
        """Turn the table back to an earlier state, by one new transaction.

        Args:
            version: A frozen version's number or label.
            transaction: A transaction's number.
            time: As for :meth:`at`.
            comment: Why; kept with the transaction.
            metadata: What else to keep with it.
            if_transaction: Change nothing unless the table is still at this transaction.
            dry_run: Only work out what would be done.
            allow_violations: Even if the old rows break a constraint of today; the transaction
                says so.
            allow_type_mismatches: Even if old values do not fit the current type of their column;
                the transaction says so.
            keep_bookmark: Leave the tap's bookmarks that the lake keeps as they are.
            engine: As for :meth:`freeze`.
            spark: As for :meth:`freeze`.

        Raises:
            NotFoundError: There is no such state.
            UsageError: No state is named, or several are; or it lacks a column of the key.
            ViolationsError: The old rows are not what rows have to be by now.
            ConflictError: Somebody changed the table meanwhile; nothing was changed.
            DamagedError: The old state cannot be read any more.
            RuntimeMissingError: Spark is needed, and it or Java is not installed.
        """
        head = self.snapshot()
        named = _namings(version, transaction, time)
        _, to = requested_transaction(head, *named, required=True)
        from singerlake.log.writer import WriteOptions
        from singerlake.ops.revert import RevertOptions, revert
        from singerlake.ops.rows_back.revert_plan import kept

        options = RevertOptions(
            to,
            dry_run=dry_run,
            writing=WriteOptions(metadata=kept(metadata or {}, comment)),
            if_transaction=if_transaction,
            allow_violations=allow_violations,
            allow_type_mismatches=allow_type_mismatches,
            keep_bookmark=keep_bookmark,
        )
        return revert(self, options, self._choice(engine, spark), head=head)

    def undo(
        self,
        *transactions: int,
        on_conflict: Literal["fail", "keep", "undo"] = "fail",
        comment: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        if_transaction: int | None = None,
        dry_run: bool = False,
        allow_violations: bool = False,
        allow_type_mismatches: bool = False,
        keep_bookmark: bool = False,
        engine: str | None = None,
        spark: SparkSession | None = None,
    ) -> Undone:
        """Take back what single transactions did, and leave what came after.

        Args:
            transactions: Their numbers.
            on_conflict: What becomes of rows that were touched again since: ``fail`` undoes
                nothing, ``keep`` leaves them as they are, ``undo`` takes them back, too.
            comment: As for :meth:`revert`, and so are all that follow.
            metadata: What else to keep with the transaction.
            if_transaction: Change nothing unless the table is still at this transaction.
            dry_run: Only work out what would be done; conflicts are no error then.
            allow_violations: Even if rows that come back break a constraint of today.
            allow_type_mismatches: Even if values that come back do not fit the current type of
                their column.
            keep_bookmark: Leave the tap's bookmarks that the lake keeps as they are.
            engine: As for :meth:`freeze`.
            spark: As for :meth:`freeze`.

        Raises:
            NotFoundError: There is no such transaction, or a state that is needed is gone.
            UsageError: One of them cannot be undone, or none is named.
            ViolationsError: Rows that come back are not what rows have to be by now.
            ConflictError: Rows were touched again, or another process changed the table meanwhile;
                nothing was changed.
            RuntimeMissingError: Spark is needed, and it or Java is not installed.
        """
        from singerlake.log.writer import WriteOptions
        from singerlake.ops.rows_back.undo_plan import OnConflict, kept
        from singerlake.ops.undo import UndoOptions, undo

        options = UndoOptions(
            transactions,
            OnConflict(on_conflict),
            dry_run=dry_run,
            writing=WriteOptions(metadata=kept(metadata or {}, comment)),
            if_transaction=if_transaction,
            allow_violations=allow_violations,
            allow_type_mismatches=allow_type_mismatches,
            keep_bookmark=keep_bookmark,
        )
        return undo(self, options, self._choice(engine, spark))

    def publish(
        self,
        to: str | os.PathLike[str],
        *,
        format: str = "parquet",  # noqa: A002  # as everybody names it
        order_by: str = "",
        key: str = "",
        partition_by: str = "",
        where: str | None = None,
        versions: bool = False,
        options: StoreOptions | None = None,
        full_refresh: bool = False,
        dry_run: bool = False,
        engine: str | None = None,
        spark: SparkSession | None = None,
    ) -> Outcome:
        """Publish the table's rows for other tools, or bring what is published up to date.

        What is published so is declared nowhere, and goes by its place: say the same again.

        Args:
            to: A folder, or ``s3://bucket/prefix``, ``gs://…`` or ``az://…``.
            format: ``parquet``, ``csv``, ``tsv``, ``jsonl``, ``avro``, ``iceberg`` or ``delta``.
            order_by: ``ordered_at desc, id``.
            key: The columns by which a row is known again; the table's key by default.
            partition_by: ``country, month(ordered_at)``.
            where: Only these rows, as SQL says it.
            versions: Publish frozen versions as well.
            options: How the place is reached; by default AWS's usual chain.
            full_refresh: Compute and write everything anew.
            dry_run: Only find out what would be done.
            engine: What reads the rows: ``local``, ``spark``, or ``auto`` for this process if the
                table is small and ``where`` is simple SQL. By default the lake's.
            spark: The session to use; it means Spark.

        Raises:
            UsageError: Something else lies there, or it cannot be published so.
            InvalidQueryError: A column is not there.
        """
        from singerlake.ops.publish.outcome import PublishOptions
        from singerlake.ops.publish.publish import published
        from singerlake.publish.ad_hoc import AdHoc

        said = AdHoc(
            to=os.fspath(to),
            table=str(self.name),
            where=where,
            format=format,
            order_by=order_by,
            key=key,
            partition_by=partition_by,
            versions=versions,
            options=options,
        )
        how = PublishOptions(full_refresh=full_refresh, dry_run=dry_run)
        within = lake.Lake(self.store)
        choice = self._choice(engine, spark)
        return published(within, [said.projection(within)], how, choice)[0]

    def vacuum(
        self,
        *,
        retain: timedelta = timedelta(days=7),
        expire_history: bool = False,
        engine: str | None = None,
        spark: SparkSession | None = None,
    ) -> Vacuumed:
        """Compact small files and delete what nothing needs.

        Args:
            retain: What was needed, or created, in this time stays; at least a day.
            expire_history: Also delete row versions that a later one has replaced, if no frozen
                version and no snapshot within ``retain`` needs them.
            engine: What copies files, and expires history: ``local``, ``spark``, or ``auto`` for
                this process up to 256 MiB of files and the size that :meth:`freeze` has for
                rows. By default the lake's.
            spark: As for :meth:`freeze`.

        Raises:
            UsageError: ``retain`` is below a day, or the table has lost its log.
            ConflictError: Another vacuum is at work on it.
            DamagedError: A block that is needed cannot be read.
            RuntimeMissingError: Spark or Java is not installed.
        """
        from singerlake.ops.vacuum import plan as vacuum
        from singerlake.ops.vacuum.vacuum import vacuum as run

        parts = tuple(p for p in vacuum.PARTS if expire_history or p != vacuum.DROP_HISTORY)
        options = vacuum.VacuumOptions(retain_seconds=retain.total_seconds(), parts=parts)
        options.check()
        return run(self, options, self._choice(engine, spark))

    def erase(
        self,
        ids: Iterable[object] = (),
        *,
        reason: str,
        where: str | None = None,
        tables: Mapping[str, str | None] | None = None,
        projections: str | Path | None = None,
        allow_text_mentions: bool = False,
        notify_downstream: timedelta | None = None,
        block: bool = False,
        purge_object_versions: bool = False,
        sign: str | Path | None = None,
        certificate: str | Path | None = None,
        wait: float = 600.0,
        dry_run: bool = False,
        engine: str | None = None,
        spark: SparkSession | None = None,
    ) -> Erased:
        """Erase rows for good, with all that they ever were. It cannot be taken back.

        ::

            lake["tap-shop.customers"].erase(
                ["17"], reason="request 12", tables={"tap-shop.orders": "customer_id = 17"}
            )

        Args:
            ids: Their ids, as ``_row_id`` shows them.
            reason: Why: the log keeps it, so do not name the person.
            where: Instead of ids, a condition in SQL that held for them at any time.
            tables: More tables, each with the condition for its rows; None for the same ids or the
                same condition.
            projections: Where projections are declared; ``projections.yml`` by default.
            allow_text_mentions: Even if text in log entries names a row.
            notify_downstream: For how long taps that resume from an older bookmark emit deletions
                of the rows.
            block: Leave out whatever comes with these keys again.
            purge_object_versions: Also delete all earlier versions of the tables' objects that the
                bucket keeps.
            sign: The file of a key that signs what is left of versions; see :meth:`sign`.
            certificate: The name of files, without suffix: then the whole lake is searched, and a
                certificate is written to ``.json`` and ``.html``, with ``sign`` also a signature of
                it to ``.json.sig``. It has no value of the rows.
            wait: How many seconds to wait for readers that may need what is to be deleted.
            dry_run: Only find out what would be done.
            engine: What reads and writes rows: ``local``, ``spark``, or ``auto`` for this process
                if a table is small, its condition is simple, and Spark need not compute what is
                published of it. By default the lake's.
            spark: The session to use; it means Spark.

        Returns:
            What was done to each table, and what was published again. It ``is_done`` if nothing is
            left to do; where nothing was ``found``, there were no such rows. ``certificate`` is
            the content of the certificate.

        Raises:
            UsageError: Something is in the way, or is not said, or a file of the certificate is
                there; nothing was changed.
            NotFoundError: There is no such table.
            ConflictError: A vacuum is at work, or others write such rows meanwhile.
            DamagedError: A version would not be what it should; nothing was changed.
            RuntimeMissingError: Spark is needed, and it or Java is not installed.
        """
        from singerlake.ops.erase import tables as erasing
        from singerlake.ops.erase.certificate_files import CertificateFiles, certify
        from singerlake.ops.erase.plan import EraseOptions
        from singerlake.ops.erase.table import EraseRequest
        from singerlake.ops.sign.openssh import SigningKey

        if isinstance(ids, str):
            raise UsageError("pass a list of ids, even for a single one")
        if certificate is not None and dry_run:
            raise UsageError("a certificate is of an erasure: leave dry_run or certificate out")
        said = tuple(dict.fromkeys(map(str, ids)))
        if bool(said) == (where is not None):
            raise UsageError("select rows by their ids, or by a condition with where")
        within = lake.Lake(self.store)
        asked = [
            EraseRequest(self, said, where),
            *erasing.requests(within, tables or {}, said, where),
        ]
        telling = 0.0 if notify_downstream is None else notify_downstream.total_seconds()
        signer = None if sign is None else SigningKey.of(sign)
        options = EraseOptions(
            reason, dry_run, telling, block, purge_object_versions, signer, lease_wait_seconds=wait
        )
        file = None if projections is None else Path(projections)
        choice = self._choice(engine, spark)
        files = None
        if certificate is not None:
            files = CertificateFiles(Path(certificate), signed=signer is not None)
        words = not allow_text_mentions
        done = erasing.erase(within, asked, options, choice, words=words, projections=file)
        if files is None:
            return done
        return certify(within, asked, options, done, files, file, words=words)


def _named(version: FrozenVersion) -> str:
    return str(version.number) if version.label is None else f"{version.number} {version.label}"


def _namings(
    version: int | str | None, transaction: int | None, time: datetime | str | None
) -> tuple[Naming, ...]:
    return (
        Naming("a version", "version", version),
        Naming("transaction=", "transaction", transaction),
        Naming("time=", "time", time),
    )
