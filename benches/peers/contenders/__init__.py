"""The packages, each with the works that it can do: a name, and a function that prepares a call."""
