"""Ising lattices from quimb: it builds the networks, cotengra finds one path for all, and lanes contract them.

Each temperature is contracted twice: by quimb, with an engine doing the pairwise steps, and as one plan, which was made
once for the shape that all temperatures share. Both are compared with quimb on numpy alone.
"""

import numpy as np
import quimb.tensor as qtn

import treadle as td

SIDE = 6


def lattice(beta):
    """Partition function of a square lattice, as a network."""
    return qtn.TN2D_classical_ising_partition_function(SIDE, SIDE, beta=beta)


def main():
    betas = np.linspace(0.2, 0.6, 9)
    network = lattice(betas[0])
    path = network.contraction_path(optimize="greedy")

    # Shapes and indices are the same at every temperature; the tensors' order is quimb's.
    operands = [piece for tensor in network for piece in (tensor.shape, tensor.inds)]
    with td.CpuEngine.serial() as maker:
        plan = maker.plan(*operands, (), optimize=path)
    print(f"one plan: {len(plan.steps)} steps, {plan.flops:.0f} operations, {plan.scratch_bytes} bytes of scratch")

    def by_steps(beta, engine):
        pair = td.interop.cotengra.implementation(engine)
        return np.log(lattice(beta).contract(optimize=path, implementation=pair))

    def by_plan(beta, engine):
        own = engine.plan(plan)  # the same plan, for the engine of this lane
        return np.log(own(*(tensor.data for tensor in lattice(beta))))

    with td.Lanes([td.CpuEngine(threads=1) for _ in range(2)]) as lanes:
        stepped = td.map_in_lanes(by_steps, betas, lanes)
        planned = td.map_in_lanes(by_plan, betas, lanes)

    exact = [np.log(lattice(beta).contract(optimize=path)) for beta in betas]
    print("beta   log Z / site")
    for beta, value in zip(betas, planned, strict=True):
        print(f"{beta:.2f}   {value / SIDE**2:.12f}")
    deviation = max(np.abs(np.subtract(stepped, exact)).max(), np.abs(np.subtract(planned, exact)).max())
    print(f"largest deviation {deviation:.1e}")


if __name__ == "__main__":
    main()
