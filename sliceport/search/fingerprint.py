"""Fingerprints of values, for matching the values of two models."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sliceport.engines.engine import Array
from sliceport.verdict.difference import inner_tolerance_of, widen


@dataclass(frozen=True)
class Fingerprint:
    """A summary of a value that takes little memory.

    Attributes:
        kind: The element type and the shape of the value.
        digest: The hash of its bytes.
        sums: Three sums of its elements with random signs, each divided by the square root of the number of elements.
            Empty if the value has no elements, or elements of a type that is compared exactly.
        bound: The largest difference of `sums` that counts as rounding.
    """

    kind: tuple[str, tuple[int, ...]]
    digest: bytes
    sums: tuple[complex, ...]
    bound: float

    @classmethod
    def of(cls, array: Array) -> Fingerprint:
        """Return the fingerprint of an array."""
        flat = np.ascontiguousarray(array).reshape(-1)
        data = repr(flat.tolist()).encode() if flat.dtype == object else flat.tobytes()
        sums: tuple[complex, ...] = ()
        bound, tolerance = 0.0, inner_tolerance_of(flat)
        if tolerance.absolute and flat.size:  # types without a tolerance are compared by their digest alone
            wide = widen(flat)
            bound = max(tolerance.absolute, tolerance.relative * float(np.abs(wide[np.isfinite(wide)]).max(initial=0)))
            # NaN and infinities become large finite numbers, so that the sums depend on their positions.
            wide = np.nan_to_num(wide, nan=1e3, posinf=1e6, neginf=-1e6)
            # With random signs, noise in n elements changes a sum by about sqrt(n) times the noise in one. Different
            # arrays may have one sum in common by chance, but hardly three. All arrays of one size get the same signs.
            signs = np.random.default_rng(0).integers(0, 2, (3, flat.size), np.int8) * 2 - 1
            sums = tuple(complex(signs[i] @ wide) / flat.size**0.5 for i in range(3))
        return cls((array.dtype.name, array.shape), hashlib.blake2b(data, digest_size=16).digest(), sums, bound)

    def agrees(self, other: Fingerprint) -> bool:
        """Return whether `other` has the same `kind` and similar sums; without sums, the same `kind` and `digest`."""
        if self.kind != other.kind:
            return False
        if not self.sums:
            return self.digest == other.digest
        return all(abs(a - b) <= self.bound for a, b in zip(self.sums, other.sums, strict=True))


Fingerprints = Mapping[str, tuple[Fingerprint, ...]]
"""For each value by its name, one fingerprint for each run."""
