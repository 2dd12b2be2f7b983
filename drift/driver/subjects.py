"""What findings about the driver are about, beside what those of any area are."""

from dataclasses import dataclass

from typing_extensions import override

from gpu_node.drift.engine.subject import Subject


@dataclass(frozen=True)
class KernelRelease(Subject):
    """An installed kernel, by its release."""

    kernel: str

    @override
    def __str__(self) -> str:
        return self.kernel


@dataclass(frozen=True)
class Initramfs(Subject):
    """The initramfs of a kernel."""

    kernel: str

    @override
    def __str__(self) -> str:
        return f"initramfs of {self.kernel}"


@dataclass(frozen=True)
class LoadedModule(Subject):
    """A kernel module in the running kernel."""

    module: str
    kernel: str

    @override
    def is_same(self, other: Subject) -> bool:
        """Whether the other is about this kernel."""
        return isinstance(other, KernelRelease | LoadedModule) and self.kernel == other.kernel

    @override
    def __str__(self) -> str:
        return self.module


@dataclass(frozen=True)
class DriverFor(Subject):
    """The driver, as a Python environment needs it."""

    environment: str

    @override
    def __str__(self) -> str:
        return f"driver for {self.environment}"
