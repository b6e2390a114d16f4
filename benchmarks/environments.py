"""One environment per peer under `.bench/` or the folder named by LOOPROP_BENCH: what conflicts is installed there,
everything else is shared with the running interpreter.
"""

import os
import re
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
BENCH = Path(os.environ.get("LOOPROP_BENCH") or ROOT / ".bench").absolute()


@dataclass(frozen=True)
class Peer:
    """A library that is measured beside ours.

    requirements: what pip is asked for, with pinned versions; torch is always the one of constraints.txt.
    packages: the distributions whose versions are recorded with the results.
    """

    requirements: tuple[str, ...]
    packages: tuple[str, ...]


PEERS = {
    "captum": Peer(("captum==0.9.0",), ("captum", "transformers")),
    "lxt": Peer(("lxt==2.1", "transformers==4.52.4"), ("lxt", "transformers")),
    "interpreto": Peer(("interpreto==0.5.2",), ("interpreto", "transformers")),
    "ferret": Peer(
        ("ferret-xai==0.4.2", "transformers==4.52.4", "pyarrow<20", "setuptools<81"),
        ("ferret-xai", "transformers", "numpy"),
    ),
    "quantus": Peer(("quantus==0.6.0",), ("quantus", "transformers")),
    "context-cite": Peer(("context-cite==0.0.4",), ("context-cite", "transformers")),
    "shap": Peer(("shap==0.51.0",), ("shap", "transformers")),
}


@dataclass(frozen=True)
class Environment:
    """The interpreter of a peer, or why there is none."""

    python: Path
    error: str | None = None


def environment(name: str, *, create: bool = True) -> Environment:
    """The environment of a peer, made when it is not there yet or when its requirements have changed."""
    folder, peer = BENCH / name, PEERS[name]
    python = folder / "bin" / "python"
    marker, wanted = folder / "installed.txt", "\n".join((*peer.requirements, torch_pin()))
    if marker.exists() and marker.read_text(encoding="utf-8") == wanted:
        return Environment(python)
    if not create:
        return Environment(python, "not installed: run without --no-install first")
    print(f"installing {', '.join(peer.requirements)} into {folder}", flush=True)
    error = _install(folder, python, peer.requirements)
    if error is None:
        marker.write_text(wanted, encoding="utf-8")
    return Environment(python, error)


def torch_pin() -> str:
    """The version of torch that everything here runs with."""
    return next(
        line
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if line.startswith("torch==")
    )


def _install(folder: Path, python: Path, requirements: tuple[str, ...]) -> str | None:
    """None, or what pip said last."""
    made = subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", "--clear", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        return tidy(made.stderr)
    # What the peer's environment does not hold itself is found in ours, so that torch is there once.
    shared = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages" / "shared.pth"
    shared.write_text(sysconfig.get_paths()["purelib"] + "\n", encoding="utf-8")
    constraints = BENCH / "constraints.txt"
    constraints.write_text(torch_pin() + "\n", encoding="utf-8")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "--quiet",
        "--no-compile",
        "--disable-pip-version-check",
    ]
    done = subprocess.run([*pip, "-c", str(constraints), *requirements], capture_output=True, text=True, check=False)
    return tidy(done.stderr) if done.returncode else None


def tidy(text: str, lines: int = 6) -> str:
    """The end of an error message, without paths and addresses, which are those of one machine.

    >>> tidy("see https://example.org/x\\nERROR: no such file /opt/me/lib/a.py")
    'see (address)\\nERROR: no such file a.py'
    """
    text = re.sub(r"\w+://[^\s'\"]+", "(address)", text.strip())
    text = re.sub(r"(?<![\w.])/(?:[\w.+-]+/)+", "", text)
    kept = [line for line in text.splitlines() if line.strip() and not line.startswith("WARNING: Location")]
    return "\n".join(kept[-lines:])
