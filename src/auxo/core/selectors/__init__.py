"""Client selection: which of the clients that are there for a cohort take part in its round, and how much each does.

Uniform selection is in `uniform`, Oort in `oort`, PyramidFL in `pyramidfl`.
"""

from auxo.core.selectors.selector import Asked, Selector, SetsWork, UsualWork
from auxo.core.selectors.uniform import Uniform

__all__ = ["Asked", "Selector", "SetsWork", "Uniform", "UsualWork"]
