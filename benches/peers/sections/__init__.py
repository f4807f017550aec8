"""The sections of the page, in its order."""

from __future__ import annotations

from section import Section

from sections.calls import Calls
from sections.integers import Integers
from sections.lanes import Import, Lanes, Team
from sections.limits import Limits
from sections.linalg import FACTORISATIONS
from sections.memory import Memory
from sections.network import Networks
from sections.products import Batches, Gemm, Small
from sections.ranks import Ranks
from sections.taken import Taken
from sections.tccg import Tccg
from sections.thin import Thin

SECTIONS: tuple[Section, ...] = (
    Limits(),
    Gemm(),
    Small(),
    Batches(),
    Tccg(),
    Thin(),
    Networks(),
    Calls(),
    Integers(),
    Taken(),
    Memory(),
    *FACTORISATIONS,
    Lanes(),
    Ranks(),
    Import(),
    Team(),
)
