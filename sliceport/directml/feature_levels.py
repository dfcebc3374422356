"""DirectML feature levels (DML_FEATURE_LEVEL in DirectML.h)."""

from __future__ import annotations

from enum import IntEnum

from sliceport.errors import UsageError


class FeatureLevel(IntEnum):
    """A feature level, with its value in DirectML.h. The values grow with the levels, so levels can be compared."""

    V1_0 = 0x1000
    V2_0 = 0x2000
    V2_1 = 0x2100
    V3_0 = 0x3000
    V3_1 = 0x3100
    V4_0 = 0x4000
    V4_1 = 0x4100
    V5_0 = 0x5000
    V5_1 = 0x5100
    V5_2 = 0x5200
    V6_0 = 0x6000
    V6_1 = 0x6100
    V6_2 = 0x6200
    V6_3 = 0x6300
    V6_4 = 0x6400

    def __str__(self) -> str:
        return f"{self.value >> 12}.{self.value >> 8 & 15}"  # 0x2100 is 2.1

    @classmethod
    def parse(cls, text: str | FeatureLevel) -> FeatureLevel:
        """Return the level that `text` names, such as "6.4". A `FeatureLevel` is returned unchanged.

        Raises:
            UsageError: DirectML has no such level, or `text` is neither a str nor a FeatureLevel.

        >>> FeatureLevel.parse("4.1").name
        'V4_1'
        """
        if isinstance(text, FeatureLevel):
            return text
        for level in cls:
            if str(level) == text:
                return level
        if not isinstance(text, str):
            raise UsageError(f"feature level {text!r} must be a string, such as {str(LATEST)!r}.")
        raise UsageError(f"feature level {text!r} does not exist; DirectML has {', '.join(map(str, cls))}.")


LATEST = FeatureLevel.V6_4
