"""A GPU's clocks while it works, as the driver reports them: through `pynvml` where it is installed, else `nvidia-smi`.

Where neither answers there is no reading: a timing does without. What holds clocks down is flagged and not judged; the
reference, timed in turns with the candidate, is held down alike.
"""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from typing import Any

from ....core.candidate import ClockReading

# NVML's clocks event reasons; idleness and clocks that were asked for are none of them
_THROTTLES = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
_QUERY = "clocks.sm,clocks.max.sm,clocks.mem,temperature.gpu,clocks_event_reasons.active"
_QUERY_TIMEOUT_S = 5.0


def read_clocks(uuid: str) -> ClockReading | None:
    """The reading of the GPU with this UUID ("GPU-..."), or None where nobody can tell."""
    try:
        return _read_nvml(uuid)
    except Exception:  # not installed, no permission, an older driver: each library has errors of its own
        return _read_smi(uuid)


def name_throttles(reasons: int) -> tuple[str, ...]:
    """What of the driver's bits says that clocks are held down."""
    return tuple(name for bit, name in _THROTTLES.items() if reasons & bit)


def parse_smi(line: str) -> ClockReading | None:
    """The reading in a line of `nvidia-smi --format=csv,noheader,nounits`, or None where a field is missing."""
    parts = [part.strip() for part in line.split(",")]
    try:
        sm_mhz, max_sm_mhz, memory_mhz, temperature_c = (int(part) for part in parts[:4])
        reasons = int(parts[4], 16)
    except (ValueError, IndexError):
        return None
    return ClockReading(
        sm_mhz=sm_mhz,
        max_sm_mhz=max_sm_mhz,
        memory_mhz=memory_mhz,
        temperature_c=temperature_c,
        throttled_by=name_throttles(reasons),
    )


@cache
def _nvml(uuid: str) -> tuple[Any, Any]:
    import pynvml  # type: ignore[import-not-found,unused-ignore]

    pynvml.nvmlInit()
    return pynvml, pynvml.nvmlDeviceGetHandleByUUID(uuid)


def _read_nvml(uuid: str) -> ClockReading:
    nvml, handle = _nvml(uuid)
    return ClockReading(
        sm_mhz=int(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
        max_sm_mhz=int(nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)),
        memory_mhz=int(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM)),
        temperature_c=int(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
        throttled_by=name_throttles(int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))),
    )


def _read_smi(uuid: str) -> ClockReading | None:
    command = shutil.which("nvidia-smi")
    if command is None:
        return None
    arguments = [command, f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits", f"--id={uuid}"]
    try:
        answer = subprocess.run(arguments, capture_output=True, text=True, timeout=_QUERY_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return parse_smi(answer.stdout.partition("\n")[0])
