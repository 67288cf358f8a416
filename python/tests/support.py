"""What several tests need: the golden vectors and where they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def golden(name: str) -> Any:
    return json.loads((ROOT / "test" / "golden" / name).read_text(encoding="utf-8"))


def from_plain(value: Any) -> Any:
    """A message from its JSON: { hex } becomes bytes."""
    if isinstance(value, dict):
        if set(value) == {"hex"}:
            return bytes.fromhex(value["hex"])
        return {key: from_plain(each) for key, each in value.items()}
    return [from_plain(each) for each in value] if isinstance(value, list) else value
