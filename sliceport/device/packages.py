"""Debian's packages: found and downloaded by the machine's apt with a separate state, and unpacked without dpkg."""

from __future__ import annotations

import re
import subprocess
import tarfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from sliceport.device.errors import DeviceError
from sliceport.device.programs import host_file, run

_KEYRINGS = ("debian-archive-keyring.pgp", "debian-archive-keyring.gpg")


class PackageIndex:
    """The packages of a Debian suite.

    Args:
        folder: An empty folder for apt's state.
        mirror: The URI of a Debian mirror.
        suite: The suite, such as `sid`.
        absent: Packages to leave out. They look installed to apt, so apt does not download what only they need.

    Raises:
        DeviceError: The index cannot be downloaded.
    """

    def __init__(self, folder: Path, mirror: str, suite: str, absent: Sequence[str]) -> None:
        self._folder = folder
        for name in ("lists/partial", "archives/partial"):
            (folder / name).mkdir(parents=True)
        keyrings = (Path("/usr/share/keyrings") / name for name in _KEYRINGS)
        # Without a keyring of Debian, apt checks signatures by the keys that this machine trusts.
        signed_by = next((f" [signed-by={keyring}]" for keyring in keyrings if keyring.is_file()), "")
        (folder / "sources.list").write_text(f"deb{signed_by} {mirror} {suite} main\n")
        # No real package has epoch 999, so these entries are the newest versions, and apt does not replace them.
        entry = (
            "Package: {}\nStatus: install ok installed\nArchitecture: amd64\nVersion: 999:1\nDescription: absent\n\n"
        )
        (folder / "status").write_text("".join(entry.format(name) for name in absent))
        (folder / "apt.conf").write_text(host_file("apt.conf").read_text().replace("{folder}", str(folder)))
        self._apt_get("update")

    def find(self, names: Sequence[str], alone: Sequence[str]) -> dict[str, int]:
        """Return packages to download, and the size of each in bytes.

        These are the packages in `names` and their dependencies, and the packages in `alone` without dependencies.

        Raises:
            DeviceError: The suite lacks a package or one of its dependencies.
        """
        uris = self._apt_get("install", "-y", "--print-uris", *names)
        uris += self._apt_get("download", "--print-uris", *alone)
        # A line is 'URI' NAME_VERSION_ARCHITECTURE.deb SIZE HASH.
        return {name: int(size) for name, size in re.findall(r"^'\S+' ([^_\s]+)_\S+ (\d+)", uris, re.MULTILINE)}

    def download(self, names: Iterable[str]) -> dict[str, Path]:
        """Download packages, check them against the signed index, and return all downloaded files by package.

        Raises:
            DeviceError: A package cannot be downloaded.
        """
        self._apt_get("download", *names)
        return {path.name.partition("_")[0]: path for path in self._folder.glob("*.deb")}

    def _apt_get(self, *words: str) -> str:
        return run(["apt-get", "-q", "-c", f"{self._folder}/apt.conf", *words], f"apt-get {words[0]}", self._folder)


def unpack(package: Path, folder: Path, is_needed: Callable[[str], object]) -> None:
    """Write the needed files of a package into a folder. `is_needed` gets the name of a file, such as `usr/bin/wine`.

    Raises:
        DeviceError: The package cannot be read.
    """
    command = ["dpkg-deb", "--fsys-tarfile", str(package)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:  # noqa: S603 - a fixed program
        try:
            with tarfile.open(fileobj=process.stdout, mode="r|", bufsize=2**20) as archive:
                # The default filter refuses absolute symlinks.
                archive.extraction_filter = lambda member, _: member
                for member in archive:
                    if not member.isdir() and is_needed(member.name.removeprefix("./")):
                        archive.extract(member, folder)
            process.communicate()  # reads what follows the end of the archive, so that dpkg-deb can end
        except tarfile.TarError as error:
            raise DeviceError(f"the package {package.name} cannot be unpacked ({error}).") from None
    if process.returncode:  # tarfile does not notice a stream that ends early
        raise DeviceError(f"the package {package.name} cannot be unpacked (dpkg-deb failed).")


def find_mirror() -> str | None:
    """Return the first URI that ends in `/debian` in this machine's apt sources, or None."""
    for file in (Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))):
        if file.suffix in (".list", ".sources") and file.is_file():
            text = file.read_text(errors="replace")
            # One line of a .sources file, or of a .list file, which may have options in brackets.
            mirror = re.search(r"^(?:URIs:\s*|deb\s+(?:\[[^\]]*\]\s*)?)(\S+/debian/?)(?!\S)", text, re.MULTILINE)
            if mirror is not None:
                return mirror[1]
    return None
