"""The 2-D Ising model by tensor renormalisation, one temperature an item, over lanes of engines.

    python docs/examples/ising_trg.py                       # 24 temperatures, table and picture
    python docs/examples/ising_trg.py --temperatures FILE   # your own sweep, one temperature per line
    mpiexec -n 2 python -m mpi4py docs/examples/ising_trg.py    # the same over two ranks
    python -m treadle demo                                  # the same from an installed package

The code ships with the package, in ``treadle.demo``. To read first: ``python/treadle/demo/trg.py``, the
physics (three ``engine.einsum`` and two ``engine.linalg.svd`` a step), then ``sweep.py`` beside it, where
``td.map_in_lanes(solve, temperatures, lanes)`` runs it.
"""

import sys

from treadle.demo import main

if __name__ == "__main__":
    sys.exit(main())
