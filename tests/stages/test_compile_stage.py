"""TF32's width is granted where nothing has fewer digits than TF32."""

from __future__ import annotations

import pytest
from tritonrl.core.candidate import CompileReport, Recording, ReferenceSignature
from tritonrl.core.plan import Buffer, BufferKind, Kernel, LaunchPlan
from tritonrl.core.task import Profile
from tritonrl.stages.compile_stage import cuts_to_tf32

TF32 = {"dot_precision": "tf32", "dot_operands": ("f32",)}


def _report(kernels: list[dict[str, object]], kept: str = "float32") -> CompileReport:
    plan = LaunchPlan(
        buffers=(Buffer(kind=BufferKind.TEMPORARY, name="", dtype=kept, num_elements=1),),
        kernels=tuple(
            Kernel(qualname="kernel", source_sha256="", **words)  # type: ignore[arg-type]
            for words in kernels
        ),
        steps=(),
        outputs=(),
    )
    signature = ReferenceSignature(shapes=((1,),), dtypes=("float32",), used_inputs=(0,), parameters=())
    recording = Recording(profile=Profile.DECLARED, dtype="float32", plan=plan)
    return CompileReport(recordings=(recording,), reference=signature, seconds=0.0)


@pytest.mark.parametrize(
    ("kernels", "kept", "is_cut"),
    [
        ([TF32], "float32", True),
        ([TF32, {"narrowed": ("f16",)}], "float16", True),
        ([TF32, {"narrowed": ("bf16",)}], "float32", False),
        ([{"dot_precision": "tf32", "dot_operands": ("bf16", "f32")}], "float32", False),
        ([TF32, {"dot_operands": ("f8E4M3FN",)}], "float32", False),
        ([TF32], "bfloat16", False),
        ([{"dot_precision": "ieee", "dot_operands": ("f32",)}], "float32", False),
    ],
)
def test_a_plan_is_cut_to_tf32_and_no_further(kernels: list[dict[str, object]], kept: str, is_cut: bool) -> None:
    """Half precision has TF32's digits; bfloat16 and eight bits, multiplied or kept in memory, have not."""
    assert cuts_to_tf32(_report(kernels, kept)) is is_cut
