"""The target and the tap as processes, with their settings in a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.storage.conftest import KEY_ID, SECRET, TOKEN

ROOT = Path(__file__).parents[2]


def s3_settings(port: int) -> dict[str, str]:
    """How plugins reach an S3 server of this machine."""
    return {
        "aws_access_key_id": KEY_ID,
        "aws_secret_access_key": SECRET,
        "aws_session_token": TOKEN,
        "aws_region": "us-east-1",
        "aws_endpoint_url": f"http://127.0.0.1:{port}",
    }


def start(module: str, folder: Path, config: dict[str, Any], *more: str) -> subprocess.Popen[bytes]:
    """Start ``target_singerlake`` or ``tap_singerlake``.

    Args:
        module: Which.
        folder: Takes the file of settings.
        config: The settings.
        more: Further arguments.
    """
    file = folder / f"config-{len(list(folder.glob('config-*')))}.json"
    file.write_text(json.dumps(config))
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TARGET_", "MELTANO_"))}
    return subprocess.Popen(
        [sys.executable, "-m", module, "--config", str(file), *more],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env=env,
    )
