"""The notebook in examples/ runs from its first cell to its last."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[1] / "examples" / "python.ipynb"


@pytest.mark.usefixtures("processes")
def test_every_cell_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SINGERLAKE_CACHE", "off")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs for cell in cells), "outputs are not kept: they differ each time"
    client = NotebookClient(
        notebook,
        timeout=300,
        resources={"metadata": {"path": str(tmp_path)}},
        kernel_name="python3",
    )
    client.execute()
    printed = "".join(output.get("text", "") for cell in cells for output in cell.outputs)
    assert "sync 1000" in printed
    assert "transaction" in printed
