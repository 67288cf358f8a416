"""Engine pages on a CUDA device: exports them by raw IPC handle, through the driver library alone. No import of torch,
cupy or cuda-bindings: a tensor is whatever has ``data_ptr()`` and knows its bytes."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .errors import CapabilityError, ProtocolError

HANDLE_BYTES = 64
EXPANDABLE = "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False and allocate pages with cudaMalloc"

_ATTRIBUTE_DEVICE_ORDINAL = 9
_ATTRIBUTE_IPC_CAPABLE = 10

_lock = threading.Lock()
_driver: ctypes.CDLL | None = None


@dataclass(frozen=True)
class DeviceMemory:
    """``size`` bytes of one allocation of the driver, from ``offset`` on. ``handle`` names the allocation."""

    handle: bytes
    offset: int
    size: int
    uuid: bytes


@dataclass(frozen=True)
class Placed:
    """Where a tensor lies: ``memory[allocation]``, ``offset`` bytes in."""

    allocation: int
    offset: int


def uuid_text(uuid: bytes) -> str:
    """As tools print it: ``GPU-`` and five groups."""
    text = uuid.hex()
    return f"GPU-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def export_pointer(pointer: int, size: int) -> DeviceMemory:
    """Exports ``size`` bytes of device memory of this process. They must lie in one allocation of the driver, and stay
    allocated until the session has unregistered. ProtocolError memory_not_exportable: memory without such a handle."""
    driver = _open()
    base, bytes_ = ctypes.c_uint64(), ctypes.c_size_t()
    device = _attribute(driver, pointer, _ATTRIBUTE_DEVICE_ORDINAL, ctypes.c_int)
    if device is None:
        raise ProtocolError("memory_not_exportable", f"Cannot export 0x{pointer:x}: it is no memory of a CUDA device")
    if _attribute(driver, pointer, _ATTRIBUTE_IPC_CAPABLE, ctypes.c_int) == 0:
        raise ProtocolError("memory_not_exportable", f"Cannot export 0x{pointer:x}: it is virtual memory; {EXPANDABLE}")
    with _Current(driver, device):
        _check(
            driver,
            "cuMemGetAddressRange",
            driver.cuMemGetAddressRange_v2(ctypes.byref(base), ctypes.byref(bytes_), ctypes.c_uint64(pointer)),
        )
        offset = pointer - base.value
        if offset + size > bytes_.value:
            raise ProtocolError(
                "memory_not_exportable",
                f"Cannot export {size} bytes at 0x{pointer:x}: its allocation ends after {bytes_.value - offset}; {EXPANDABLE}",
            )
        handle = (ctypes.c_ubyte * HANDLE_BYTES)()
        status = driver.cuIpcGetMemHandle(handle, base)
    if status != 0:
        raise ProtocolError(
            "memory_not_exportable", f"Cannot export 0x{pointer:x}: {_name(driver, status)}; {EXPANDABLE}"
        )
    return DeviceMemory(bytes(handle), offset, size, device_uuid(device))


def export_tensors(tensors: Sequence[Any]) -> tuple[list[DeviceMemory], list[Placed]]:
    """Exports contiguous tensors of one device: each allocation of the driver once, from the first byte that a tensor
    uses to the last. Returns the memory for Client.register() and where each tensor lies in it."""
    spans: dict[bytes, tuple[int, int, bytes]] = {}
    exported: list[DeviceMemory] = []
    for tensor in tensors:
        if not tensor.is_contiguous():
            raise ProtocolError("geometry_invalid", "Cannot export a tensor that is not contiguous")
        each = export_pointer(tensor.data_ptr(), tensor.numel() * tensor.element_size())
        exported.append(each)
        first, end, _ = spans.get(each.handle, (each.offset, 0, each.uuid))
        spans[each.handle] = (min(first, each.offset), max(end, each.offset + each.size), each.uuid)
    places = {handle: place for place, handle in enumerate(spans)}
    memory = [DeviceMemory(handle, first, end - first, uuid) for handle, (first, end, uuid) in spans.items()]
    return memory, [Placed(places[each.handle], each.offset - spans[each.handle][0]) for each in exported]


def device_uuid(ordinal: int) -> bytes:
    """16 bytes. The ordinal is this process's: the Manager knows the device by its UUID alone."""
    driver = _open()
    device, uuid = ctypes.c_int(), (ctypes.c_ubyte * 16)()
    _check(driver, "cuDeviceGet", driver.cuDeviceGet(ctypes.byref(device), ordinal))
    _check(driver, "cuDeviceGetUuid", driver.cuDeviceGetUuid_v2(uuid, device))
    return bytes(uuid)


class _Current:
    """The device's primary context, current on this thread for a while: an engine's own is the same one."""

    def __init__(self, driver: ctypes.CDLL, ordinal: int) -> None:
        self._driver = driver
        self._device = ctypes.c_int()
        _check(driver, "cuDeviceGet", driver.cuDeviceGet(ctypes.byref(self._device), ordinal))

    def __enter__(self) -> None:
        context = ctypes.c_void_p()
        retained = self._driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), self._device)
        _check(self._driver, "cuDevicePrimaryCtxRetain", retained)
        try:
            _check(self._driver, "cuCtxPushCurrent", self._driver.cuCtxPushCurrent_v2(context))
        except BaseException:
            self._driver.cuDevicePrimaryCtxRelease_v2(self._device)
            raise

    def __exit__(self, *_: object) -> None:
        self._driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))
        self._driver.cuDevicePrimaryCtxRelease_v2(self._device)


def _open() -> ctypes.CDLL:
    global _driver
    with _lock:
        if _driver is None:
            try:
                driver = ctypes.CDLL("libcuda.so.1")
            except OSError as error:
                raise CapabilityError("cuda_unavailable", f"Cannot export device memory: {error}") from error
            driver.cuPointerGetAttribute.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64]
            _check(driver, "cuInit", driver.cuInit(0))
            _driver = driver
        return _driver


def _attribute(driver: ctypes.CDLL, pointer: int, attribute: int, kind: Any) -> int | None:
    """None: the driver does not know the pointer, or not the attribute."""
    value = kind()
    status = driver.cuPointerGetAttribute(ctypes.byref(value), attribute, ctypes.c_uint64(pointer))
    return value.value if status == 0 else None


def _name(driver: ctypes.CDLL, status: int) -> str:
    text = ctypes.c_char_p()
    known = driver.cuGetErrorName(status, ctypes.byref(text)) == 0 and text.value is not None
    return f"{text.value.decode()} ({status})" if known else f"CUDA error {status}"


def _check(driver: ctypes.CDLL, call: str, status: int) -> None:
    if status != 0:
        raise CapabilityError("cuda_unavailable", f"Cannot use CUDA: {call} answered {_name(driver, status)}")
