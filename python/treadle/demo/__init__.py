"""The two-dimensional Ising model by tensor renormalisation, over lanes.

``python -m treadle demo`` and ``docs/examples/ising_trg.py`` both call :func:`main`. The parts:
:mod:`~treadle.demo.trg` is the physics, written as a user of treadle writes it; :mod:`~treadle.demo.onsager`
is the exact solution that it is compared with; :mod:`~treadle.demo.sweep` maps the temperatures over lanes,
and over ranks under ``mpiexec``; :mod:`~treadle.demo.report` prints and draws; and
:mod:`~treadle.demo.command` reads the options.
"""

from treadle.demo.command import main
from treadle.demo.sweep import Sweep, run_sweep
from treadle.demo.trg import Observables, log_partition_per_site, observables

__all__ = ["Observables", "Sweep", "log_partition_per_site", "main", "observables", "run_sweep"]
