"""Declared numbers that are wrong, because the sizes depend on those that the inputs of a model leave open.

A symbol for an open size is lost in a product or a sum, such as the size of a Flatten. So the sizes are inferred again
with numbers for all open sizes, and compared with the declared ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import onnx

from onnx_ops.infer.facts import NO_FACTS, Facts
from onnx_ops.model.views import Dims
from sliceport.open_shapes import choose_symbol_sizes

_LEADING, _OTHER = 7, 29
"""The first primes for open sizes in a trial. Few models are exported at these sizes, as many are at 1 and 2."""
_EQUAL_SIZE = 24
"""The size of all open axes in a second trial. It has many divisors, as some models divide an axis into parts."""


@dataclass
class Evidence:
    """The findings of a propagation about the declared numbers of a model.

    Attributes:
        input_dims: The dims of each input, with a symbol for each open size.
        is_bound: Whether the user has given shapes.
        is_trial: Whether this propagation has numbers for all open sizes, and does not use the declared numbers.
        unconfirmed: The positions of values with a declared number that the inferred sizes do not confirm.
        fixed_sizes: By symbol of an input: a number that is declared where the symbol is inferred.
        has_failed: Whether the sizes of the inputs of a node contradict each other.
    """

    input_dims: Mapping[str, Dims | None]
    is_bound: bool
    is_trial: bool
    unconfirmed: set[int] = field(default_factory=set)
    fixed_sizes: dict[str, int] = field(default_factory=dict)
    has_failed: bool = False

    def compare(self, position: int, declared: onnx.TypeProto, facts: Facts) -> None:
        """Add a value to `unconfirmed` if its inferred facts do not confirm a declared number."""
        dims = declared.tensor_type.shape.dim
        numbers = [dim.dim_value if dim.HasField("dim_value") else None for dim in dims]
        # For a number that is inferred without a trial or given shapes, the declared one does no harm: onnxruntime
        # prefers the inferred one.
        judges_numbers = self.is_trial or self.is_bound
        alternatives = facts.alternatives if self.is_trial else ()
        for inferred in alternatives or (facts.dims,):
            sizes = (None,) * len(numbers) if inferred is None else inferred
            if len(sizes) != len(numbers):
                continue  # the ranks contradict each other, so the declared one is ignored
            for number, size in zip(numbers, sizes, strict=True):
                if number is None or number == size:
                    continue
                if judges_numbers if isinstance(size, int) else not self.is_trial:
                    self.unconfirmed.add(position)
                if isinstance(size, str):
                    self.fixed_sizes[size] = number

    def note_failure(self, inputs: Iterable[Facts]) -> None:
        """Note that inference refuses a node. This is a failure of the model if the sizes of the inputs are known."""
        self.has_failed |= all(facts is NO_FACTS or facts.sizes is not None for facts in inputs)


def find_misdeclared(first: Evidence, propagate: Callable[[Mapping[str, int]], Evidence]) -> tuple[set[int], bool]:
    """Return the positions of values whose declared numbers may be wrong, and whether to report them.

    They are not reported if the model runs only at the declared sizes.

    Args:
        first: The evidence of a propagation that uses the declared numbers.
        propagate: A function that returns the evidence of a trial, given a size for each symbol.
    """
    symbols = {dim for dims in first.input_dims.values() for dim in dims or () if isinstance(dim, str)}
    if not first.unconfirmed or not (symbols or first.is_bound):
        return set(), True

    def try_sizes(fixed_sizes: Mapping[str, int], size: int | None = None) -> tuple[set[int], bool]:
        """Return the positions that neither `first` nor a trial confirms, and whether a node fails in the trial."""
        trial = propagate(choose_symbol_sizes(first.input_dims, fixed_sizes, _LEADING, _OTHER, size))
        return first.unconfirmed & trial.unconfirmed, trial.has_failed

    positions, has_failed = try_sizes({})
    if not symbols:
        return positions, not has_failed  # the model does not run at the sizes that the user has given
    if has_failed and not positions:
        # Sizes with different symbols may have to be equal.
        positions, has_failed = try_sizes({}, _EQUAL_SIZE)
    if not positions:
        # At smaller sizes, a slice may select less than it was declared to. Such a size is not reported.
        return try_sizes({}, 1)[0], False
    fixed_sizes = {symbol: size for symbol, size in first.fixed_sizes.items() if symbol in symbols}
    if has_failed and fixed_sizes and try_sizes(fixed_sizes) == (set(), False):
        # The model runs at the declared sizes. Some exporters fix a size and leave its symbol in the inputs.
        _, fails_at_others = try_sizes({symbol: size + 1 for symbol, size in fixed_sizes.items()})
        return positions, not fails_at_others
    return positions, True
