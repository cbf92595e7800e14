"""Surfaces: a task's program in one of the dialects in which people write such programs."""

from .dialects import DIALECTS, Dialect, dialects
from .surface import draw_dialect, write_surface, write_task_surface

__all__ = ["DIALECTS", "Dialect", "dialects", "draw_dialect", "write_surface", "write_task_surface"]
