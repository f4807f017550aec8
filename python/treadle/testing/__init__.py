"""What tests of code that uses treadle need: bounds from sizes, random arrays, a census of threads."""

from treadle.testing.arrays import LAYOUTS, random_array
from treadle.testing.bounds import assert_allclose, error_bound
from treadle.testing.census import ThreadCensus

__all__ = ["LAYOUTS", "ThreadCensus", "assert_allclose", "error_bound", "random_array"]
