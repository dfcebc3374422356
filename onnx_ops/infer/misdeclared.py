"""Search for declared sizes that are wrong because they depend on open sizes of the inputs of a model.

Inference does not follow the symbol of an open size through a product or a sum, such as the size of a Flatten. So the
sizes are inferred again in a trial with numbers for all open sizes, and compared with the declared ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import onnx

from onnx_ops.infer.facts import NO_FACTS, Facts
from onnx_ops.model.views import Dims
from sliceport.open_shapes import choose_symbol_sizes

_LEADING, _OTHER = 7, 29
"""The first primes for open sizes of axis 0, and for others, in a trial. Few models are exported at these sizes."""
_EQUAL_SIZE = 24
"""The size of all open axes in a second trial. It has many divisors, as some models divide an axis into parts."""


@dataclass
class Evidence:
    """The findings of a propagation about the numbers that a model declares for sizes.

    Attributes:
        input_dims: The dims of each input, with a symbol for each open size.
        is_bound: Whether the user has given shapes.
        is_trial: Whether this propagation has numbers for all open sizes, and does not use the declared numbers.
        unconfirmed: The positions, in the result of `propagate`, of values with a declared number that inference does
            not confirm.
        fixed_sizes: By inferred symbol: a number that a value declares instead.
        has_failed: Whether inference refuses a node although the sizes of its inputs are known.
    """

    input_dims: Mapping[str, Dims | None]
    is_bound: bool
    is_trial: bool
    unconfirmed: set[int] = field(default_factory=set)
    fixed_sizes: dict[str, int] = field(default_factory=dict)
    has_failed: bool = False

    def compare(self, position: int, declared: onnx.TypeProto, facts: Facts) -> None:
        """Update `unconfirmed` and `fixed_sizes` if the inferred facts of a value do not confirm a declared number."""
        dims = declared.tensor_type.shape.dim
        numbers = [dim.dim_value if dim.HasField("dim_value") else None for dim in dims]
        alternatives = facts.alternatives if self.is_trial else ()
        for inferred_dims in alternatives or (facts.dims,):
            sizes = (None,) * len(numbers) if inferred_dims is None else inferred_dims
            if len(sizes) != len(numbers):
                continue  # the ranks contradict each other, so the declared one is ignored
            for number, size in zip(numbers, sizes, strict=True):
                if number is None or number == size:
                    continue
                # Without a trial or shapes from the user, another inferred number does not matter: onnxruntime prefers
                # a number that it infers to the declared one.
                is_contradicted = isinstance(size, int) and (self.is_trial or self.is_bound)
                # A trial has numbers for the open sizes of the inputs. A size that stays open contradicts nothing.
                is_open = not isinstance(size, int) and not self.is_trial
                if is_contradicted or is_open:
                    self.unconfirmed.add(position)
                if isinstance(size, str):
                    self.fixed_sizes[size] = number

    def note_failure(self, inputs: Iterable[Facts]) -> None:
        """Set `has_failed` for a node that inference refuses, if the sizes of all its inputs are known."""
        # Inputs without any facts, such as those left out, do not count.
        self.has_failed |= all(facts is NO_FACTS or facts.sizes is not None for facts in inputs)


def find_misdeclared(first: Evidence, propagate: Callable[[Mapping[str, int]], Evidence]) -> tuple[set[int], bool]:
    """Return the positions of values whose declared numbers may be wrong, and whether to report them.

    They are not reported in three cases: the declared numbers are wrong only if all open sizes are 1; the model does
    not run at the sizes that the user has given; or the model runs only at the declared sizes.

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
        # At size 1, a slice may select less than at the larger sizes of the other trials. This is not reported.
        return try_sizes({}, 1)[0], False
    fixed_sizes = {symbol: size for symbol, size in first.fixed_sizes.items() if symbol in symbols}
    if has_failed and fixed_sizes and try_sizes(fixed_sizes) == (set(), False):
        # The model runs at the declared sizes. Some exporters fix a size and leave its symbol in the inputs. Then the
        # model fails at any other size, and the declared numbers are right.
        _, fails_at_others = try_sizes({symbol: size + 1 for symbol, size in fixed_sizes.items()})
        return positions, not fails_at_others
    return positions, True
