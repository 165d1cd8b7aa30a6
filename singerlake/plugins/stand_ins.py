"""Modules that stand in, while a command starts, for those that it most likely never uses.

A stand-in hands out names whose real meaning is imported when it is first used: called, made a base
class, asked for an attribute or whether something is an instance of it. Where a name is put to use
already by what imports it, that is noted down, and done when somebody uses what came of it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

NOTED = "*"
"""What ends a name of which is noted down what is done with it."""


class Deferred:
    """A name in a module that is not imported yet, or the outcome of something not done yet."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.__make = make

    def __real(self) -> Any:
        return self.__make()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call what is meant."""
        return self.__real()(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """Look at what is meant."""
        return getattr(self.__real(), name)

    def __getitem__(self, key: Any) -> Any:
        """Look into what is meant."""
        return self.__real()[key]

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type]:
        """Be a base class."""
        return (self.__real(),)

    def __instancecheck__(self, instance: object) -> bool:
        """Be asked for instances."""
        return isinstance(instance, self.__real())

    def __subclasscheck__(self, subclass: type) -> bool:
        """Be asked for subclasses."""
        return issubclass(subclass, self.__real())


class _Noted(Deferred):
    """One of which is noted down what is done with it, as long as stand-ins stand in.

    Args:
        make: Makes what is meant.
        standing: Tells whether they do.
    """

    def __init__(self, make: Callable[[], Any], standing: Callable[[], bool]) -> None:
        made: list[Any] = []

        def once() -> Any:
            if not made:
                made.append(make())
            return made[0]

        super().__init__(once)
        self.__once = once
        self.__standing = standing

    def __later(self, make: Callable[[], Any]) -> Any:
        return _Noted(make, self.__standing) if self.__standing() else make()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__later(lambda: self.__once()(*map(_meant, args), **kwargs))

    def __getattr__(self, name: str) -> Any:
        return self.__later(lambda: getattr(self.__once(), name))

    def __getitem__(self, key: Any) -> Any:
        return self.__later(lambda: self.__once()[key])

    def meant_by_it(self) -> Any:
        """Do what was noted down."""
        return self.__once()


def _meant(value: Any) -> Any:
    return value.meant_by_it() if type(value) is _Noted else value


class _StandIn(ModuleType):
    """A module that is imported once something else of it is wanted than the names it defers."""

    def __init__(self, name: str, deferred: tuple[str, ...], standing: Callable[[], bool]) -> None:
        super().__init__(name)
        for one in deferred:
            word = one.removesuffix(NOTED)
            real = _name_in(name, word)
            setattr(self, word, Deferred(real) if word == one else _Noted(real, standing))

    def __getattr__(self, name: str) -> Any:
        # Asked for by the import system, of every module: an answer would import the real one.
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(_imported(self.__name__), name)


def _name_in(module: str, name: str) -> Callable[[], Any]:
    return lambda: getattr(_imported(module), name)


def _imported(name: str) -> ModuleType:
    """Import the real module, also while another stands in for it."""
    if isinstance(sys.modules.get(name), _StandIn):
        del sys.modules[name]
    return import_module(name)


@contextmanager
def stand_ins(names: Mapping[str, tuple[str, ...]]) -> Iterator[None]:
    """Have modules stood in for while other modules are imported.

    Args:
        names: What is imported from each module; a name that is put to use meanwhile ends with
            :data:`NOTED`. Modules that are there already are left alone.
    """
    there = [True]
    given = {
        name: _StandIn(name, deferred, lambda: bool(there))
        for name, deferred in names.items()
        if name not in sys.modules
    }
    sys.modules.update(given)
    try:
        yield
    finally:
        there.clear()
        for name, module in given.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]
                _found_in_parent(name, module)


def _found_in_parent(name: str, module: ModuleType) -> None:
    """Let what was imported as ``import a.b`` find it as ``a.b``, until the real one is there."""
    package, _, last = name.rpartition(".")
    parent = sys.modules.get(package)
    if parent is not None and last not in vars(parent):
        setattr(parent, last, module)
