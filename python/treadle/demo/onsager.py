"""Onsager's exact solution of the square-lattice Ising model without a field, with numpy alone."""

from __future__ import annotations

import math

import numpy as np

from treadle.demo.trg import Observables

__all__ = ["CRITICAL_TEMPERATURE", "CRITICAL_WIDTH", "elliptic_integrals", "exact"]

#: 2 / ln(1 + sqrt(2)), in units of J / k_B.
CRITICAL_TEMPERATURE = 2.0 / math.log1p(math.sqrt(2.0))

#: Nearer than this to it the specific heat, which diverges there, says nothing about a finite bond dimension.
CRITICAL_WIDTH = 1e-3


def elliptic_integrals(complement: float) -> tuple[float, float]:
    """Complete elliptic integrals K and E for the complementary modulus ``k' = sqrt(1 - k**2)``, 0 < k' <= 1.

    By the arithmetic-geometric mean, which converges quadratically. It takes k' and not k because near the
    critical point k is 1 to every digit while k' is still known.
    """
    a, b = 1.0, complement
    weight, total = 0.5, 0.5 * (1.0 - complement) * (1.0 + complement)
    while abs(a - b) > 1e-16 * a:
        a, b, half_difference = (a + b) / 2, math.sqrt(a * b), (a - b) / 2
        weight *= 2
        total += weight * half_difference**2
        if half_difference < 1e-9 * a:
            # The next difference is the square of this one: below the last digit.
            break
    k = math.pi / (a + b)
    return k, k * (1.0 - total)


def _free_energy_integral(kappa: float, complement: float) -> float:
    """Mean over 0 < x < pi / 2 of ln((1 + sqrt(1 - (kappa sin x)**2)) / 2), by tanh-sinh quadrature.

    The rule is exact to rounding although the integrand has a kink at pi / 2 when kappa is 1. The distance
    from pi / 2 is computed without cancellation, and the root from it and the complementary modulus.
    """
    t = np.linspace(-3.2, 3.2, 161)
    u = np.pi / 2 * np.sinh(t)
    distance = (np.pi / 2) / (1.0 + np.exp(2 * u))  # pi / 2 - x
    weight = np.pi / 2 * np.cosh(t) / (2 * np.cosh(u) ** 2) * (t[1] - t[0])
    root = np.hypot(complement, kappa * np.sin(distance))
    return float(np.sum(weight * np.log((1.0 + root) / 2)))


def exact(temperature: float) -> Observables:
    """Exact free energy, energy and specific heat per site.

    Parameters
    ----------
    temperature : float
        Temperature, in units of J / k_B.

    Returns
    -------
    Observables
        At the critical temperature itself the specific heat is infinite.

    Examples
    --------
    >>> from treadle.demo.onsager import CRITICAL_TEMPERATURE, exact
    >>> round(exact(CRITICAL_TEMPERATURE).energy, 6)
    -1.414214
    """
    beta = 1.0 / temperature
    tanh = math.tanh(2 * beta)
    sech = 2 * math.exp(-2 * beta) / (1 + math.exp(-4 * beta))
    signed = 2 * tanh * tanh - 1  # positive below the critical temperature
    kappa, complement = 2 * tanh * sech, abs(signed)
    log_z = 2 * beta + math.log1p(math.exp(-4 * beta)) + _free_energy_integral(kappa, complement) / 2
    free_energy = -temperature * log_z
    if complement < 1e-15:
        return Observables(free_energy, -1 / tanh, math.inf)
    k, e = elliptic_integrals(complement)
    energy = -(1 + 2 / math.pi * signed * k) / tanh
    bracket = 2 * k - 2 * e - (1 - signed) * (math.pi / 2 + signed * k)
    return Observables(free_energy, energy, 2 / math.pi * (beta / tanh) ** 2 * bracket)
