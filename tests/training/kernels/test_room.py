"""The room as a whole: what its README says of it, and what its entrance loads."""

import re
import subprocess
import sys
from pathlib import Path

import auxo.training.kernels

ROOM = Path(auxo.training.kernels.__file__).parent
README = (ROOM / "README.md").read_text(encoding="utf-8")


def test_map_names_every_module_and_nothing_else() -> None:
    _, _, section = README.partition("## Map")
    named = re.findall(r"^\| `([\w/]+\.py)` \|", section, re.MULTILINE)

    assert sorted(named) == sorted(
        str(path.relative_to(ROOM)) for path in ROOM.rglob("*.py") if path.name != "__init__.py"
    )


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#\s]+)", README)

    assert links
    assert [link for link in links if not (ROOM / link).exists()] == []


def test_softmax_regression_loads_no_torch() -> None:
    code = "import sys, auxo.training.softmax_trainer; sys.exit('torch' in sys.modules)"

    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603 - our own words
