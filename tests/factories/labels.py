"""Labels that are missing in the way of pandas, which the tests do without."""

from __future__ import annotations

from typing import Any


class NAType:
    """As ``pandas.NA``: a comparison with it is NA, which is neither true nor false."""

    def __eq__(self, other: object) -> Any:
        return self

    def __ne__(self, other: object) -> Any:
        return self

    def __bool__(self) -> bool:
        raise TypeError("boolean value of NA is ambiguous")

    def __hash__(self) -> int:
        return 2**61 - 1


NA = NAType()
