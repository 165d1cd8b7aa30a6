"""A projection published as a Delta table: one commit for each refresh."""

from __future__ import annotations

import base64
import json
import math
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import cached_property
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import CommitProperties, Transaction, create_table_with_add_actions

from singerlake.errors import ConflictError, OutcomeUnknownError, StoreError, UsageError
from singerlake.format import times
from singerlake.publish.destinations import claim
from singerlake.publish.destinations.base import Destination, new_folder, published_meanwhile
from singerlake.publish.destinations.delta import actions
from singerlake.publish.files.parquet import Parquet
from singerlake.publish.projection import Projection, Target
from singerlake.publish.published import Commit, Position, Published
from singerlake.storage.base import Store
from singerlake.storage.options import StoreOptions

SAID = "singerlake"
"""Of a commit's metadata: which state of the lake it shows, in which columns, and the versions."""
KIND = "Delta"
ABOUT = "Rows published by Singerlake, as a Delta table."
SILENCE = timedelta(days=1)
"""A file that nothing names for so long is of a run that is dead."""
KEPT_FOR_EVER = {
    "delta.enableExpiredLogCleanup": "false",
    "delta.deletedFileRetentionDuration": "interval 36500 days",
}
"""Of a table with versions: nobody's vacuum takes their files, and the log keeps leading there."""
KEPT_NOT_AT_ALL = {
    "delta.enableExpiredLogCleanup": "true",
    "delta.deletedFileRetentionDuration": "interval 0 seconds",
}
KEPT_AS_USUAL = {"delta.deletedFileRetentionDuration": "interval 7 days"}
LOG = "_delta_log/"


class DeltaDestination(Destination):
    """A Delta table in one folder, or below a prefix.

    Args:
        projection: Whose rows it holds.
        target: Where it is.
        store: The store of that place.
    """

    def __init__(self, projection: Projection, target: Target, store: Store) -> None:
        self.projection, self.target, self.store = projection, target, store
        Parquet().compression(target.compression)
        check(target.uri, target.options)

    @cached_property
    def _options(self) -> dict[str, Any] | None:
        return storage_options(self.target.uri, self.target.options)

    def file_schema(self, schema: pa.Schema, base: Published | None) -> pa.Schema:  # noqa: ARG002
        """Take the columns as they are, if Delta has their types."""
        actions.check(schema)
        return schema

    def published(self) -> Published | None:
        """Read the table's newest version."""
        with _reached(self.store):
            if (table := self._table()) is not None:
                return self._published(table)
        claim.is_ours(self.store, self.projection.name, KIND)
        return None

    def folder(self) -> str:
        """Begin a folder of data files."""
        claim.claim(self.store, self.projection.name, KIND, ABOUT)
        return f"data/{new_folder()}"

    def commit(self, base: Published | None, commit: Commit) -> Published:
        """Add one commit to the table's log."""
        if base is not None and commit.is_nothing(base):
            return base
        claim.claim(self.store, self.projection.name, KIND, ABOUT)
        with _reached(self.store):
            table = self._table()
        if (table.version() if table else None) != (base.token if base else None):
            raise self._conflict()
        if table is not None and base is not None and commit.version is not None:
            self._name_version(table, base, commit)
        else:
            self._write(table, base, commit)
        with _reached(self.store):
            table = DeltaTable(self.store.uri, storage_options=self._options)
            return self._published(table)

    def _write(self, table: DeltaTable | None, base: Published | None, commit: Commit) -> None:
        """Commit files, under columns that may be new."""
        versions = dict(base.versions) if base else {}
        if commit.version is not None:
            versions[commit.version] = "Delta version 0"  # of a table that begins with it
        said = _said(commit.position, commit.schema, versions)
        adds = [actions.added(file, commit.schema) for file in commit.added]
        same = base is not None and commit.schema.equals(base.schema)
        with self._committing():
            if table is not None and same:
                table.create_write_transaction(
                    [*adds, *(actions.removed(file) for file in commit.gone(base))],
                    mode="append",
                    schema=Schema.from_arrow(commit.schema),
                    commit_properties=said,
                )
                return
            if commit.kept:
                raise UsageError(
                    f"the columns of {self.projection.name} have changed: publish with "
                    "--full-refresh"
                )
            # Where somebody publishes in this very moment, the later table is whole all the same.
            configuration: dict[str, str | None] = {}
            if versions:
                configuration.update(KEPT_FOR_EVER)
            create_table_with_add_actions(
                self.store.uri,
                Schema.from_arrow(commit.schema),
                adds,
                mode="error" if table is None else "overwrite",
                name=self.projection.name,
                description=self._description(),
                configuration=configuration,
                storage_options=self._options,
                commit_properties=said,
            )

    def _name_version(self, table: DeltaTable, base: Published, commit: Commit) -> None:
        """Make the rows of a version readable beside the rest."""
        if commit.added or commit.gone(base):
            where = self._copy(commit)
        else:
            where = f"Delta version {base.token}"
        versions = dict(base.versions) | ({commit.version: where} if commit.version else {})
        with self._committing():
            table.alter.set_table_properties(
                KEPT_FOR_EVER, commit_properties=_said(base.position, base.schema, versions)
            )

    def _copy(self, commit: Commit) -> str:
        """Make a table of its own of rows that the table has not: Delta has no branches."""
        folder = f"_versions/v{commit.version}-{secrets.token_hex(8)}/"
        copies = []
        for number, file in enumerate((*commit.kept, *commit.added)):
            name = f"{number:06d}.parquet"
            self.store.clone(file.path, folder + name, file.bytes)
            copies.append(replace(file, path=name))
        with self._committing():
            create_table_with_add_actions(
                f"{self.store.uri}/{folder}",
                Schema.from_arrow(commit.schema),
                [actions.added(file, commit.schema) for file in copies],
                name=f"{self.projection.name} v{commit.version}",
                storage_options=self._options,
                commit_properties=_said(commit.position, commit.schema, {}),
            )
        return folder

    def sweep(self, keep: timedelta) -> int:
        """Delete files that were removed longer ago, and those of dead runs."""
        with _reached(self.store):
            table = self._table()
            if table is None:
                return 0
            versions = self._published(table).versions.values()
            kept = [int(one.rpartition(" ")[2]) for one in versions if " " in one]
            hours = math.ceil(keep / timedelta(hours=1))
            removed, unnamed = (
                set(table.vacuum(hours, True, False, full=full, keep_versions=kept or None))
                for full in (False, True)
            )
        folders = {one for one in versions if " " not in one}
        dead = (times.now() - max(keep, SILENCE)).timestamp()
        count = 0
        for folder in ("data/", "_versions/"):
            for file in list(self.store.list(folder)):
                is_lost = file.key in unnamed or (
                    folder != "data/" and not any(file.key.startswith(one) for one in folders)
                )
                if file.key in removed or (is_lost and file.modified <= dead):
                    self.store.delete(file.key)
                    count += 1
        return count

    def folders(self) -> tuple[str, ...]:
        """Give where data, and versions as tables of their own, lie; and the log."""
        return "data/", "_versions/", LOG

    def present_alone(self) -> set[str]:
        """Have the log begin with a checkpoint that names no file that was removed."""
        with _reached(self.store):
            table = self._table()
        if table is None:
            return set()
        base = self._published(table)
        said = _said(base.position, base.schema, {})
        with self._committing():
            table.alter.set_table_properties(KEPT_NOT_AT_ALL, commit_properties=said)
            table = DeltaTable(self.store.uri, storage_options=self._options)
            table.create_checkpoint()
            first = table.version()
            # With those the next vacuum by somebody else leaves readers their files.
            table.alter.set_table_properties(KEPT_AS_USUAL, commit_properties=said)
        needed = {file.path for file in base.files}
        for file in list(self.store.list(LOG)):
            name = file.key.removeprefix(LOG)
            number = name.partition(".")[0]
            if not number.isdigit() or int(number) >= first:
                needed.add(file.key)
            else:  # also of the refresh itself: it tells what was removed
                self.store.delete(file.key)
        return needed

    def remove(self) -> None:
        """Delete the log, then the files, the claim last."""
        if not claim.is_ours(self.store, self.projection.name, KIND):
            return
        # From the newest entry on: what a reader meets in between is a state that there was.
        for folder in ("_delta_log/", "_versions/", "data/"):
            for file in sorted(self.store.list(folder), reverse=True):
                self.store.delete(file.key)
        self.store.delete(claim.CLAIM)

    def _table(self) -> DeltaTable | None:
        if not DeltaTable.is_deltatable(self.store.uri, self._options):
            return None
        return DeltaTable(self.store.uri, storage_options=self._options)

    def _published(self, table: DeltaTable) -> Published:
        number = table.version()
        text = table.history(1)[0].get(SAID)
        if text is None:
            raise self._others(f"version {number} was not written by Singerlake")
        said = json.loads(text)
        where = f"{self.store.uri}, version {number},"
        position = Position.from_json(json.dumps(said["position"]), where)
        claim.check_name(self.store, position.projection, self.projection.name)
        rows = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(said["schema"])))
        order = [one.column for one in self.projection.order_by] or list(self.projection.key)
        found = actions.published(table, rows, next(iter(order), None))
        versions = {int(one): where for one, where in said["versions"].items()}
        return Published(position, rows, found, number, versions)

    def _description(self) -> str:
        order = ", ".join(str(one) for one in self.projection.order_by)
        return "published by Singerlake" + (f", in the order of {order}" if order else "")

    def _others(self, why: str) -> UsageError:
        return UsageError(
            f"the Delta table at {self.store.uri} is also changed by another writer ({why}): "
            "publish into a folder of your own"
        )

    def _conflict(self) -> ConflictError:
        return published_meanwhile(self.projection, self.store)

    @contextmanager
    def _committing(self) -> Iterator[None]:
        try:
            yield
        except CommitFailedError as error:
            raise self._conflict() from error
        except (DeltaError, OSError) as error:
            raise OutcomeUnknownError(
                f"{self.store.uri} did not report whether it was published: {error}"
            ) from error


@contextmanager
def _reached(store: Store) -> Iterator[None]:
    try:
        yield
    except (DeltaError, OSError) as error:
        raise StoreError(f"the Delta table at {store.uri} cannot be read: {error}") from error


def _said(position: Position, schema: pa.Schema, versions: Mapping[int, str]) -> CommitProperties:
    """Say in a commit what it shows; each of the sources' transactions is one to Delta, too."""
    columns = base64.b64encode(schema.remove_metadata().serialize().to_pybytes()).decode()
    said = {"position": json.loads(position.to_json()), "schema": columns, "versions": versions}
    return CommitProperties(
        custom_metadata={SAID: json.dumps(said)},
        max_commit_retries=0,  # what was worked out here holds for one version alone
        app_transactions=[
            Transaction(f"{SAID}:{position.projection}:{one.table}", one.transaction)
            for one in position.sources
        ],
    )


# How deltalake reaches a bucket: our settings in its words.

_NOT_TOLD = {"s3": ("acl", "ca_bundle"), "gs": ("gcs_token",)}
"""Settings that deltalake has no word for, by the scheme of a place."""


def storage_options(uri: str, options: StoreOptions) -> dict[str, str] | None:
    """Say how a place is reached; what the settings leave open, boto3 finds.

    Args:
        uri: The place; folders need nothing.
        options: The settings.

    Raises:
        UsageError: See :func:`check`.
    """
    check(uri, options)
    if uri.startswith("gs://"):
        return _in_a_bucket_of_google(options)
    if uri.startswith("az://"):
        return _in_a_container_of_azure(options)
    if not uri.startswith("s3://"):
        return None
    from singerlake.storage.s3.connection import resolved

    found = resolved(options)
    by_customer = found.sse_customer_key is not None
    said = {
        "AWS_ACCESS_KEY_ID": found.access_key_id,
        "AWS_SECRET_ACCESS_KEY": found.secret_access_key,
        "AWS_SESSION_TOKEN": found.session_token,
        "AWS_REGION": found.region,
        "AWS_ENDPOINT_URL": found.endpoint_url,
        "AWS_ALLOW_HTTP": _true((found.endpoint_url or "").startswith("http:")),
        "AWS_CONDITIONAL_PUT": "etag",
        "AWS_SERVER_SIDE_ENCRYPTION": "sse-c" if by_customer else found.sse,
        "AWS_SSE_KMS_KEY_ID": found.sse_kms_key_id,
        "AWS_SSE_CUSTOMER_KEY_BASE64": found.sse_customer_key,
        "AWS_REQUEST_PAYER": _true(found.requester_pays),
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": _true(found.addressing_style == "virtual"),
        "PROXY_URL": found.proxy,
    }
    return {name: value for name, value in said.items() if value is not None}


def _in_a_bucket_of_google(options: StoreOptions) -> dict[str, str]:
    from singerlake.storage.object_store import google

    address = google.endpoint(options)
    said = {
        "GOOGLE_SERVICE_ACCOUNT": options.gcs_service_account_path,
        "GOOGLE_SERVICE_ACCOUNT_KEY": options.gcs_service_account_key,
        "GOOGLE_BASE_URL": None if address == google.ENDPOINT else address,
        "GOOGLE_SKIP_SIGNATURE": _true(options.gcs_anonymous),
        "ALLOW_HTTP": _true(address.startswith("http:")),
    }
    return {name: value for name, value in said.items() if value is not None}


def _in_a_container_of_azure(options: StoreOptions) -> dict[str, str]:
    from singerlake.storage.object_store import azure

    account = azure.account(options)
    said = {
        "AZURE_STORAGE_ACCOUNT_NAME": account.name,
        "AZURE_STORAGE_ACCOUNT_KEY": account.key,
        "AZURE_STORAGE_SAS_KEY": account.signature,
        "AZURE_TENANT_ID": options.azure_tenant_id,
        "AZURE_CLIENT_ID": options.azure_client_id,
        "AZURE_CLIENT_SECRET": options.azure_client_secret,
        "AZURE_STORAGE_ENDPOINT": account.endpoint,
        "AZURE_SKIP_SIGNATURE": _true(options.azure_anonymous),
        "ALLOW_HTTP": _true(account.endpoint.startswith("http:")),
    }
    return {name: value for name, value in said.items() if value is not None}


def check(uri: str, options: StoreOptions) -> None:
    """Make sure that nothing is asked of a bucket which deltalake cannot be told.

    Args:
        uri: The place.
        options: The settings.

    Raises:
        UsageError: deltalake has no such setting, and would go without.
    """
    unknown = _NOT_TOLD.get(uri.partition("://")[0], ())
    said = [name for name in unknown if getattr(options, name) is not None]
    if said:
        raise UsageError(
            "deltalake, which writes the log of Delta tables, has no settings for "
            f"{', '.join(said)}: leave them out, or publish in another format"
        )


def _true(is_so: bool) -> str | None:
    return "true" if is_so else None
