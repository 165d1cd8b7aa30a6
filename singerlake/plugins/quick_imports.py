"""Imports of a plugin's command: those that it needs, and no others."""

from __future__ import annotations

import gc
import sys
from contextlib import suppress
from importlib import import_module
from types import ModuleType

from singerlake.plugins.stand_ins import NOTED, stand_ins

_own: list[bool] = []
Names = dict[str, tuple[str, ...]]
_UNUSED: Names = {
    "dotenv": ("find_dotenv",),  # for --config ENV
    "dotenv.main": ("DotEnv",),
    "email.utils": (f"parsedate_to_datetime{NOTED}",),  # of jsonschema-rs: when that was built
    "importlib.abc": ("Traversable",),  # for annotations; and with it importlib.resources, tempfile
    "importlib.metadata": ("entry_points",),  # and with it email, csv: see LakePlugin
    "importlib.resources": (),
    "importlib.resources.abc": ("Traversable",),  # where newer Pythons have it
    "importlib_metadata": ("entry_points",),  # of other packages, of which some encode batches
    "ipaddress": (),  # for URLs with brackets
    "joblib": ("Parallel", "delayed", "parallel_config"),  # and with it numpy and psutil
    "jsonschema": (f"validators{NOTED}",),  # for settings that are in doubt: see LakePlugin
    "logging.config": (),  # for SINGER_SDK_LOG_CONFIG
    "packaging.specifiers": ("SpecifierSet",),  # for --about
    "packaging.version": ("Version",),
    "referencing": ("Registry",),  # and with it attrs
    "referencing.jsonschema": ("DRAFT202012",),
    "requests": (),
    "simplejson": (),
    "singer_sdk.about": (),  # for --about
    "singer_sdk.mapper_base": ("InlineMapper",),
    "singer_sdk.schema.source": (
        "OpenAPISchema",
        "SchemaDirectory",
        "SchemaSource",
        "StreamSchema",
    ),
    "upath": ("UPath",),  # and with it fsspec, asyncio
}
"""What the SDK imports, and of what no use is made then in the plugins here."""
_SINKS: Names = {"singer_sdk.sinks": ("BatchSink", "RecordSink", "Sink")}
_CATALOG = (
    "Catalog",
    "CatalogEntry",
    "Metadata",
    "MetadataMapping",
    "SelectionMask",
    "StreamMetadata",
)
_MESSAGES = (
    "ActivateVersionMessage",
    "Message",
    "RecordMessage",
    "SchemaMessage",
    "StateMessage",
    "exclude_null_dict",
)
UNUSED_BY_TAP: Names = {
    **_UNUSED,
    **_SINKS,
    "singer_sdk.streams.graphql": ("GraphQLStream",),
    "singer_sdk.streams.rest": ("RESTStream",),
    "singer_sdk.target_base": ("Target",),
}
UNUSED_BY_TARGET: Names = {
    **_UNUSED,
    **_SINKS,  # for streams with a map, flattening or added metadata
    "singer_sdk.helpers._batch": ("BaseBatchFileEncoding",),  # batches in the SDK's own way
    "singer_sdk.singerlib.catalog": _CATALOG,  # of taps
    "singer_sdk.singerlib.encoding.simple": (
        *_MESSAGES,
        "SimpleSingerReader",
        "SimpleSingerWriter",
    ),
    "singer_sdk.singerlib.messages": (
        *_MESSAGES,
        "SingerMessageType",
        "format_message",
        "write_message",
    ),
    "singer_sdk.singerlib.schema": ("Schema", "resolve_schema_references"),
    "singer_sdk.mapper": ("PluginMapper", "RemoveRecordTransform", "SameRecordTransform"),
    "singer_sdk.streams": ("GraphQLStream", "RESTStream", "Stream"),
    "singer_sdk.tap_base": ("Tap",),
}


def spare_pandas() -> None:
    """Have Arrow do without pandas, which it imports with the first array that it makes.

    It costs 0.3 s and 30 MiB, only to know data frames when it meets them. In a process that is
    not a command's own, where there may be some, nothing is changed.
    """
    if _own and "pandas" not in sys.modules:
        import pyarrow as pa

        sys.modules["pandas"] = None  # type: ignore[assignment]  # import pandas: ImportError
        try:
            # Whatever it finds wrong with that, it looks for pandas only once.
            with suppress(AttributeError, ImportError):
                pa.array([])
        finally:
            del sys.modules["pandas"]


def quick_import(name: str, unused: Names) -> ModuleType:
    """Import the module of a command of its own.

    The Singer SDK takes most of a plugin's start-up, and half of that is for what no plugin here
    does: ask web services for rows, drain sinks on several threads, write batches in the SDK's own
    way. So other modules stand in for these meanwhile, and import the real ones if they are used
    after all. Where that does not do, as a later SDK may use them otherwise, all is imported.
    The collector finds nothing to free in what imports make, however often it looks through it:
    40 ms.

    Not for a process that is somebody else's: whatever it imports after this gets the real modules,
    but what it looks up in the SDK's modules may be a stand-in.

    Args:
        unused: What it imports and most likely never uses.
    """
    _own.append(True)
    gc.disable()
    try:
        try:
            with stand_ins(unused):
                return import_module(name)
        except (ImportError, AttributeError, TypeError):
            return import_module(name)
    finally:
        gc.freeze()  # nor shall it look through all that later
        gc.enable()
