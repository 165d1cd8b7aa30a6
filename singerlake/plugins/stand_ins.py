"""Modules that stand in, while a command starts, for those that it most likely never uses.

A stand-in hands out names whose real meaning is imported when it is first used: called, made a base
class, asked for an attribute or whether something is an instance of it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any


class Deferred:
    """A name in a module that is not imported yet."""

    def __init__(self, module: str, name: str) -> None:
        self.__module = module
        self.__name = name

    def __real(self) -> Any:
        return getattr(_imported(self.__module), self.__name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call what is meant."""
        return self.__real()(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """Look at what is meant."""
        return getattr(self.__real(), name)

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type]:
        """Be a base class."""
        return (self.__real(),)

    def __instancecheck__(self, instance: object) -> bool:
        """Be asked for instances."""
        return isinstance(instance, self.__real())

    def __subclasscheck__(self, subclass: type) -> bool:
        """Be asked for subclasses."""
        return issubclass(subclass, self.__real())


class _StandIn(ModuleType):
    """A module that is imported once something else of it is wanted than the names it defers."""

    def __init__(self, name: str, deferred: tuple[str, ...]) -> None:
        super().__init__(name)
        for one in deferred:
            setattr(self, one, Deferred(name, one))

    def __getattr__(self, name: str) -> Any:
        # Asked for by the import system, of every module: an answer would import the real one.
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(_imported(self.__name__), name)


def _imported(name: str) -> ModuleType:
    """Import the real module, also while another stands in for it."""
    if isinstance(sys.modules.get(name), _StandIn):
        del sys.modules[name]
    return import_module(name)


@contextmanager
def stand_ins(names: Mapping[str, tuple[str, ...]]) -> Iterator[None]:
    """Have modules stood in for while other modules are imported.

    Args:
        names: What is imported from each module. Those that are there already are left alone.
    """
    given = {
        name: _StandIn(name, deferred)
        for name, deferred in names.items()
        if name not in sys.modules
    }
    sys.modules.update(given)
    try:
        yield
    finally:
        for name, module in given.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]
