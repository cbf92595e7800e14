"""Surfaces: a task's program in one of the dialects in which people write such programs."""

from .dialects import DIALECTS, Dialect, dialects
from .program import has_same_interface
from .surface import draw_dialect, write_surface, write_task_surface

__all__ = [
    "DIALECTS",
    "Dialect",
    "dialects",
    "draw_dialect",
    "has_same_interface",
    "write_surface",
    "write_task_surface",
]
