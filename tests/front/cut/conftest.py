"""What tests of cuts share."""

from tests.choose.conftest import by_laws

__all__ = ["by_laws"]
