"""Engines behind other packages' contractions. Nothing here imports those packages before it is called.

A call that an engine refuses raises the engine's error; nothing goes on with numpy instead.
"""

from treadle.interop import cotengra, opt_einsum

__all__ = ["cotengra", "opt_einsum"]
