"""Search for declared sizes that may be wrong because they depend on open sizes of the inputs, or on data.

Inference does not follow the symbol of an open size through a product or a sum, such as the size of a Flatten. So the
sizes are inferred again in a trial with numbers for all open sizes, and compared with the declared ones. A size that
stays open in a trial depends on data, such as a size of a NonZero. The declared number may be that of one example.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import onnx

from onnx_ops.infer.declared import Trust
from onnx_ops.infer.facts import NO_FACTS, Facts
from onnx_ops.model.views import Dims
from sliceport.engines.sizes import choose_sizes, sizes_of_symbols

_LEADING, _OTHER = 7, 29
"""The first primes for open sizes of axis 0, and for others, in a trial. Few models are exported at these sizes."""
_EQUAL_SIZE = 24
"""The size of all open axes in a second trial. It has many divisors, because some models divide an axis into parts."""
_LARGE_SIZE = 720720
"""The size of all open axes in a last trial: a multiple of each number up to 16.

A number that depends on a remainder or a rounded quotient may be right at 1 and at a prime. Models that pad an axis use
smaller blocks. Constants of this size are too large to be computed, so the trial is fast.
"""


@dataclass
class Evidence:
    """The findings of a propagation about the numbers that a model declares for sizes.

    Attributes:
        input_dims: The dims of each input, with a symbol for each open size.
        is_bound: Whether the user has given shapes.
        is_trial: Whether this propagation has numbers for all open sizes, and does not use the declared numbers.
        contradicted: The positions, in the result of `propagate`, of values with a declared number that is not the
            inferred one. Empty unless `is_trial` or `is_bound` is true.
        unconfirmed: The positions in `contradicted`, and the positions of values with a declared number for a size that
            inference leaves open.
        fixed_sizes: For each inferred symbol, a number that a value declares in its place.
        has_failed: Whether inference refuses a node although the sizes of its inputs are known.
    """

    input_dims: Mapping[str, Dims | None]
    is_bound: bool
    is_trial: bool
    contradicted: set[int] = field(default_factory=set)
    unconfirmed: set[int] = field(default_factory=set)
    fixed_sizes: dict[str, int] = field(default_factory=dict)
    has_failed: bool = False

    def note_declared(self, position: int, declared: onnx.TypeProto, facts: Facts) -> None:
        """Update the findings if the inferred facts of a value do not confirm a declared number."""
        dims = declared.tensor_type.shape.dim
        numbers = [dim.dim_value if dim.HasField("dim_value") else None for dim in dims]
        # In a trial, a number is contradicted by any alternative that differs from it. Otherwise, `facts.dims` will do:
        # it leaves open each size in which the alternatives differ.
        alternatives = facts.alternatives if self.is_trial else ()
        for inferred_dims in (*alternatives, facts.dims):
            sizes = (None,) * len(numbers) if inferred_dims is None else inferred_dims
            if len(sizes) != len(numbers):
                continue  # the ranks contradict each other, so inference ignores the declared shape
            for number, size in zip(numbers, sizes, strict=True):
                if number is None or number == size:
                    continue
                if not isinstance(size, int):
                    self.unconfirmed.add(position)
                    if size is not None:
                        self.fixed_sizes[size] = number
                # Without a trial or shapes from the user, a wrong declared number does no harm if another number is
                # inferred. onnxruntime prefers inferred numbers.
                elif self.is_trial or self.is_bound:
                    self.unconfirmed.add(position)
                    self.contradicted.add(position)

    def forget(self, positions: Iterable[int]) -> None:
        """Remove the values at these positions from `contradicted` and `unconfirmed`."""
        self.contradicted.difference_update(positions)
        self.unconfirmed.difference_update(positions)

    def note_failure(self, inputs: Iterable[Facts]) -> None:
        """Note that inference refuses a node: set `has_failed` if the sizes of all `inputs` of the node are known."""
        # Inputs without any facts, such as those left out, do not count.
        self.has_failed |= all(facts is NO_FACTS or facts.sizes is not None for facts in inputs)


def find_misdeclared(first: Evidence, propagate: Callable[[Mapping[str, int]], Evidence]) -> tuple[Trust, set[int]]:
    """Return which declared numbers inference may use, and the wrong ones to report, as in `Evidence.contradicted`.

    A number counts as right if a trial confirms it and no trial contradicts it. No trial confirms a size that
    depends on data, or on an operator without inference. Contradicted numbers are reported, except in four cases:

    1. The inputs have no open sizes, and the user has given no shapes.
    2. The inputs have no open sizes, and the model does not run at the shapes that the user has given.
    3. The numbers are wrong only if all open sizes are 1, or only if all of them are `_LARGE_SIZE`.
    4. The model runs only at the declared sizes.

    Args:
        first: The evidence of a propagation that uses the declared numbers.
        propagate: A function that returns the evidence of a trial, given a size for each symbol.
    """
    if not first.unconfirmed:
        return Trust.ALL, set()
    symbols = {dim for dims in first.input_dims.values() for dim in dims or () if isinstance(dim, str)}

    def try_sizes(fixed_sizes: Mapping[str, int], size: int | None = None) -> Evidence:
        """Return the evidence of a trial about the numbers that `first` does not confirm.

        A symbol that is not in `fixed_sizes` gets `size`, or a prime of its own if `size` is None.
        """
        primes = choose_sizes(first.input_dims, rule=(_LEADING, _OTHER, None), fixed=fixed_sizes)
        sizes = sizes_of_symbols(first.input_dims, primes) | dict(fixed_sizes)
        trial = propagate(sizes if size is None else dict.fromkeys(symbols, size))
        trial.contradicted &= first.unconfirmed
        trial.unconfirmed &= first.unconfirmed
        return trial

    trial = try_sizes({})
    doubtful = trial.unconfirmed
    if symbols and trial.has_failed and not trial.contradicted:
        # Sizes with different symbols may have to be equal.
        trial = try_sizes({}, _EQUAL_SIZE)
        doubtful = doubtful & trial.unconfirmed
    if not trial.contradicted:
        # At size 1, a slice may select less than at larger sizes. Numbers that are wrong only at 1 or at `_LARGE_SIZE`
        # are not reported (case 3), because the model may not be made for these sizes.
        is_doubtful = doubtful or any(try_sizes({}, size).contradicted for size in (1, _LARGE_SIZE) if symbols)
        return Trust.CUSTOM if is_doubtful else Trust.ALL, set()
    if not symbols and not first.is_bound:
        return Trust.CUSTOM, set()  # case 1
    fixed_sizes = {symbol: size for symbol, size in first.fixed_sizes.items() if symbol in symbols}
    # Without symbols, the sizes that the user has given may be wrong, not the declared ones (case 2).
    is_exempt = trial.has_failed and (not symbols or _runs_only_at(fixed_sizes, try_sizes))  # cases 2 and 4
    # The inputs may have been changed after the export, so the numbers of custom operators may be wrong, too.
    return Trust.NONE, set() if is_exempt else trial.contradicted


def _runs_only_at(sizes: Mapping[str, int], try_sizes: Callable[[Mapping[str, int]], Evidence]) -> bool:
    """Return whether a model runs at these sizes of its symbols, but not if each of them is larger by 1.

    Some exporters fix a size and leave its symbol in the inputs. Then the model fails at any other size, and the
    declared numbers are right. They are not used all the same, because the symbol in the inputs stays open.
    """
    if not sizes or (at_sizes := try_sizes(sizes)).contradicted or at_sizes.has_failed:
        return False
    return try_sizes({symbol: size + 1 for symbol, size in sizes.items()}).has_failed
