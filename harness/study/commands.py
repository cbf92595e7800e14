"""`tritonrl pack` and `tritonrl unpack`: a run that goes on on another machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..command_line import guarded


@guarded
def pack(
    results: Annotated[Path, typer.Argument(help="A results folder.")],
    to: Annotated[Path, typer.Option("--to", help="Folder for the parts; an earlier pack's there are replaced.")],
    part_mib: Annotated[int, typer.Option("--part-mib", min=1, help="Size of a part at most.")] = 15,
    with_starts: Annotated[
        bool, typer.Option("--with-starts", help="The starts of whole seeds too, so that cells can be added to them.")
    ] = False,
) -> None:
    """Pack what another machine needs to go on with a run: ended cells, and the starts of seeds that are not whole.

    Example: tritonrl pack results/paper --to parts
    """
    from .archive import describe
    from .archive import pack as pack_results
    from .store import Results

    print(f"{to}: {describe(pack_results(Results(root=results), to, part_mib << 20, with_starts))}")


@guarded
def unpack(
    parts: Annotated[Path, typer.Argument(help="The folder with all parts of one pack, or a published one.")],
    out: Annotated[Path, typer.Option("--out", help="Results folder, new or begun; what is there stays.")],
) -> None:
    """Unpack a run; the command that began it goes on with it. Of a published run, whole seeds: more can be added.

    Example: tritonrl unpack parts --out results/paper
    """
    from .archive import describe
    from .archive import unpack as unpack_results
    from .store import Results

    print(f"{out}: new are {describe(unpack_results(parts, Results(root=out)))}")
