"""Measurements in the text form of Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

PREFIX = "singerlake_"


@dataclass
class Metric:
    """One metric and what was measured.

    Attributes:
        name: Without what all names begin with.
    """

    name: str
    help: str
    samples: list[tuple[Mapping[str, str], float]] = field(default_factory=list)

    def add(self, value: float | None, **labels: str) -> None:
        """Take a value, if there is one."""
        if value is not None:
            self.samples.append((labels, value))


def text(metrics: Sequence[Metric]) -> str:
    """Spell metrics; those without a value are left out."""
    return "".join(f"{line}\n" for metric in metrics if metric.samples for line in _lines(metric))


def _lines(metric: Metric) -> Iterator[str]:
    name = PREFIX + metric.name
    yield f"# HELP {name} {metric.help}"
    yield f"# TYPE {name} gauge"
    for labels, value in metric.samples:
        named = ",".join(f'{label}="{_escaped(said)}"' for label, said in labels.items())
        yield f"{name}{{{named}}} {value:.17g}" if named else f"{name} {value:.17g}"


def _escaped(said: str) -> str:
    return said.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
