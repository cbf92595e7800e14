"""Installed as `tritonrl_kernels`, the name by which verifiers finds the taskset and its environment."""

from tritonrl.harness.adapters.verifiers_taskset import KernelEnv, KernelTaskset

__all__ = ["KernelEnv", "KernelTaskset"]
