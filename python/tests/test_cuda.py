"""Exports of device memory over a stand-in for libcuda: what the driver is asked, and what is refused by name."""

from __future__ import annotations

import ctypes
import unittest
from unittest import mock

from orbitkv import cuda
from orbitkv.errors import CapabilityError, ProtocolError

MIB = 1 << 20
BASE = 0x7F00_0000_0000
UUID = bytes(range(16))


class Driver:
    """One allocation of 2 MiB on device 0, and another of virtual memory behind it."""

    def __init__(self) -> None:
        self.handle_status = 0
        self.current: list[int] = []
        self.calls: list[str] = []

    @staticmethod
    def _out(pointer, kind, value) -> None:
        ctypes.cast(pointer, ctypes.POINTER(kind))[0] = value

    def cuPointerGetAttribute(self, out, attribute, pointer) -> int:
        at = pointer.value
        if not BASE <= at < BASE + 4 * MIB:
            return 1
        virtual = at >= BASE + 2 * MIB
        self._out(out, ctypes.c_int, 0 if attribute == 9 else int(not virtual))
        return 0

    def cuDeviceGet(self, out, ordinal) -> int:
        self._out(out, ctypes.c_int, ordinal)
        return 0

    def cuDeviceGetUuid_v2(self, out, _device) -> int:
        for i, byte in enumerate(UUID):
            out[i] = byte
        return 0

    def cuDevicePrimaryCtxRetain(self, out, _device) -> int:
        self.calls.append("retain")
        return 0

    def cuDevicePrimaryCtxRelease_v2(self, _device) -> int:
        self.calls.append("release")
        return 0

    def cuCtxPushCurrent_v2(self, _context) -> int:
        self.calls.append("push")
        return 0

    def cuCtxPopCurrent_v2(self, _context) -> int:
        self.calls.append("pop")
        return 0

    def cuMemGetAddressRange_v2(self, base, size, pointer) -> int:
        self._out(base, ctypes.c_uint64, BASE)
        self._out(size, ctypes.c_size_t, 2 * MIB)
        return 0

    def cuIpcGetMemHandle(self, handle, base) -> int:
        for i in range(64):
            handle[i] = (base.value >> 40) & 0xFF if i == 0 else i
        return self.handle_status

    def cuGetErrorName(self, status, text) -> int:
        self._out(text, ctypes.c_char_p, b"CUDA_ERROR_INVALID_VALUE")
        return 0


class Tensor:
    def __init__(self, offset: int, size: int, contiguous: bool = True) -> None:
        self._offset, self._size, self._contiguous = offset, size, contiguous

    def data_ptr(self) -> int:
        return BASE + self._offset

    def numel(self) -> int:
        return self._size // 2

    def element_size(self) -> int:
        return 2

    def is_contiguous(self) -> bool:
        return self._contiguous


class Exports(unittest.TestCase):
    def setUp(self) -> None:
        self.driver = Driver()
        patch = mock.patch.object(cuda, "_open", lambda: self.driver)
        patch.start()
        self.addCleanup(patch.stop)

    def refused(self, code: str, words: str, call) -> None:
        with self.assertRaises(ProtocolError) as caught:
            call()
        self.assertEqual(caught.exception.code, code)
        self.assertIn(words, str(caught.exception))

    def test_offset_is_counted_from_the_driver_s_allocation(self) -> None:
        # A tensor 256 bytes into a storage that lies 1 MiB into its segment: the handle alone tells neither.
        memory = cuda.export_pointer(BASE + MIB + 256, 4096)
        self.assertEqual((memory.offset, memory.size, len(memory.handle)), (1_048_832, 4096, 64))
        self.assertEqual(cuda.uuid_text(memory.uuid), "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f")
        self.assertEqual(self.driver.calls, ["retain", "push", "pop", "release"])

    def test_tensors_of_one_allocation_are_one_memory(self) -> None:
        memory, placed = cuda.export_tensors([Tensor(64 * 1024, 8192), Tensor(4096, 4096), Tensor(128 * 1024, 512)])
        self.assertEqual([(each.offset, each.size) for each in memory], [(4096, 128 * 1024 + 512 - 4096)])
        self.assertEqual([(each.allocation, each.offset) for each in placed], [(0, 61_440), (0, 0), (0, 126_976)])

    def test_memory_without_a_handle_is_refused_with_the_setting_that_avoids_it(self) -> None:
        setting = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False"
        self.refused("memory_not_exportable", setting, lambda: cuda.export_pointer(BASE + 3 * MIB, 16))
        self.refused("memory_not_exportable", setting, lambda: cuda.export_pointer(BASE + 2 * MIB - 8, 16))
        self.driver.handle_status = 1
        self.refused("memory_not_exportable", setting, lambda: cuda.export_pointer(BASE, 16))
        self.assertEqual(self.driver.calls[-2:], ["pop", "release"], "the context is given back")

    def test_what_is_no_device_memory_or_not_contiguous_is_refused(self) -> None:
        self.refused("memory_not_exportable", "no memory of a CUDA device", lambda: cuda.export_pointer(4096, 16))
        self.refused("geometry_invalid", "contiguous", lambda: cuda.export_tensors([Tensor(0, 64, False)]))


class WithoutDriver(unittest.TestCase):
    def test_a_machine_without_libcuda_says_so(self) -> None:
        with mock.patch.object(cuda, "_driver", None), mock.patch.object(
            ctypes, "CDLL", side_effect=OSError("libcuda.so.1: cannot open")
        ):
            with self.assertRaises(CapabilityError) as caught:
                cuda.export_pointer(BASE, 16)
        self.assertEqual(caught.exception.code, "cuda_unavailable")


if __name__ == "__main__":
    unittest.main()
