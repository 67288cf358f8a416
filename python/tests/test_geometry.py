"""Regions of engines' tensors: every byte address is compared with the tensor's strides, element by element, and the
answers are the golden ones that the Manager's tests read too."""

from __future__ import annotations

import unittest
from itertools import product

from orbitkv.cuda import Placed
from orbitkv.errors import ProtocolError
from orbitkv.geometry import (
    View,
    latent_region,
    opaque_region,
    packed_region,
    sglang_latent_region,
    sglang_regions,
    split_region,
    view_of,
)
from orbitkv.registration import Region

from .support import golden

BLOCKS, HEADS, TOKENS, DIM, LAYERS = 3, 2, 4, 8, 5
HALF = 2
PLACED = Placed(1, 640)
AXES = {"L": LAYERS, "B": BLOCKS, "H": HEADS, "N": TOKENS, "C": 2 * DIM}


def view(shape: tuple[int, ...], dtype: str = "bfloat16", element_bytes: int = HALF) -> View:
    """A contiguous tensor."""
    strides = [1]
    for count in reversed(shape[1:]):
        strides.insert(0, strides[0] * count)
    return View(shape, tuple(strides), element_bytes, dtype)


def permuted(of: View, *axes: int) -> View:
    return View(tuple(of.shape[a] for a in axes), tuple(of.strides[a] for a in axes), of.element_bytes, of.dtype)


def vllm_view(order: str) -> View:
    """One layer's [B, H, N, C] of a backing tensor whose axes lie in this order."""
    strides, elements = {}, 1
    for axis in reversed(order):
        strides[axis] = elements
        elements *= AXES[axis]
    return View(tuple(AXES[a] for a in "BHNC"), tuple(strides[a] for a in "BHNC"), HALF, "bfloat16")


def address(region: Region, page: int, segment: int) -> int:
    stride = region.segment_stride_bytes or 0
    return region.offset_bytes + page * region.page_stride_bytes + segment * stride


def bytes_of(region: Region) -> list[int]:
    """Every byte that the Manager would copy, in the order of pages."""
    return [
        address(region, page, segment) + byte
        for page in range(region.page_count)
        for segment in range(region.segments)
        for byte in range(region.segment_bytes)
    ]


def elements_of(of: View) -> list[int]:
    """Every byte of a tensor."""
    return [
        PLACED.offset + sum(i * s for i, s in zip(index, of.strides, strict=True)) * of.element_bytes + byte
        for index in product(*(range(count) for count in of.shape))
        for byte in range(of.element_bytes)
    ]


def vectors_of(region: Region) -> set[int]:
    """Where a codec would find a vector of ``head_dim``: at every multiple of its bytes in a segment."""
    size = region.head_dim * HALF
    return {
        address(region, page, segment) + at
        for page in range(region.page_count)
        for segment in range(region.segments)
        for at in range(0, region.segment_bytes, size)
    }


class GeometryTest(unittest.TestCase):
    def assert_covers(self, of: View, regions: list[Region]) -> None:
        covered = [byte for region in regions for byte in bytes_of(region)]
        self.assertEqual(sorted(covered), sorted(elements_of(of)))

    def assert_vectors(self, of: View, region: Region, step: int) -> None:
        """Vectors begin where the tensor's last axis does, every ``step`` elements of it."""
        starts = {
            PLACED.offset + (sum(i * s for i, s in zip(index, of.strides, strict=False)) + at) * of.element_bytes
            for index in product(*(range(count) for count in of.shape[:-1]))
            for at in range(0, of.shape[-1], step)
        }
        self.assertEqual(vectors_of(region), starts)

    def refused(self, make, *words: str) -> None:
        with self.assertRaises(ProtocolError) as raised:
            make()
        self.assertEqual(raised.exception.code, "geometry_invalid")
        for word in words:
            self.assertIn(word, str(raised.exception))

    def test_packed_pages_in_every_order_that_keeps_a_page_in_one_run(self) -> None:
        for order in ("LBHNC", "LBNHC", "BLHNC", "BLNHC"):
            with self.subTest(order):
                of = vllm_view(order)
                region = packed_region("layer.0", of, PLACED, head_dim=DIM)
                self.assert_covers(of, [region])
                self.assert_vectors(of, region, DIM)
                self.assertEqual(
                    (region.segments, region.kv_role, region.head_dim, region.heads, region.dtype),
                    (1, "packed", DIM, HEADS, "bfloat16"),
                )

    def test_orders_whose_pages_are_scattered_are_refused(self) -> None:
        for order in ("LHBNC", "BHLNC"):
            with self.subTest(order):
                self.refused(lambda order=order: packed_region("l", vllm_view(order), PLACED, head_dim=DIM), "one run")

    def test_keys_and_values_of_unlike_length_have_no_head_dimension(self) -> None:
        region = packed_region("l", view((BLOCKS, HEADS, TOKENS, DIM + 4)), PLACED, head_dim=DIM, value_dim=4)
        self.assertEqual((region.kv_role, region.head_dim, region.heads), ("packed", 0, HEADS))
        self.refused(lambda: packed_region("l", view((BLOCKS, HEADS, TOKENS, DIM)), PLACED, head_dim=DIM), "16 values")

    def test_split_pages_have_keys_first_on_the_axis_that_is_told(self) -> None:
        for axis, shape in ((0, (2, BLOCKS, TOKENS, HEADS, DIM)), (1, (BLOCKS, 2, TOKENS, HEADS, DIM))):
            with self.subTest(axis=axis):
                of = view(shape)
                region = split_region("l", of, PLACED, kv_axis=axis)
                self.assert_covers(of, [region])
                self.assert_vectors(of, region, DIM)
                values = PLACED.offset + of.strides[axis] * HALF
                self.assertEqual(address(region, 0, 1), values)
                self.assertEqual((region.segments, region.head_dim, region.heads), (2, DIM, HEADS))

    def test_heads_before_tokens_are_a_permuted_view_of_the_same_page(self) -> None:
        of = permuted(view((BLOCKS, 2, HEADS, TOKENS, DIM)), 0, 1, 3, 2, 4)
        region = split_region("l", of, PLACED, kv_axis=1)
        self.assert_covers(of, [region])
        self.assert_vectors(of, region, DIM)
        self.assertEqual((region.heads, region.head_dim), (HEADS, DIM))

    def test_two_blocks_are_not_taken_for_keys_and_values(self) -> None:
        of = view((2, 2, TOKENS, HEADS, DIM))
        first, second = (split_region("l", of, PLACED, kv_axis=axis) for axis in (0, 1))
        self.assertNotEqual(first.page_stride_bytes, second.page_stride_bytes)
        self.refused(lambda: split_region("l", view((BLOCKS, 3, TOKENS, HEADS, DIM)), PLACED, kv_axis=1), "axis 1")

    def test_a_vector_that_is_not_one_run_has_no_head_dimension(self) -> None:
        of = permuted(view((BLOCKS, HEADS, 2 * DIM, TOKENS)), 0, 1, 3, 2)
        region = packed_region("l", of, PLACED, head_dim=DIM)
        self.assert_covers(of, [region])
        self.assertEqual((region.head_dim, region.heads), (0, 0))

    def test_kernel_blocks_are_joined_where_they_touch(self) -> None:
        of = view((4, HEADS, TOKENS, 2 * DIM))
        region = packed_region("l", of, PLACED, head_dim=DIM, rows=2)
        self.assertEqual((region.page_count, region.segment_bytes), (2, 2 * of.strides[0] * HALF))
        self.assert_covers(of, [region])
        self.assert_vectors(of, region, DIM)
        apart = View(of.shape, (of.strides[0] * 3, *of.strides[1:]), HALF, "bfloat16")
        self.refused(lambda: packed_region("l", apart, PLACED, head_dim=DIM, rows=2), "apart")
        self.refused(lambda: packed_region("l", of, PLACED, head_dim=DIM, rows=3), "whole pages")
        self.refused(
            lambda: split_region("l", view((4, 2, TOKENS, HEADS, DIM)), PLACED, kv_axis=1, rows=2), "alternate"
        )
        split = view((2, 4, TOKENS, HEADS, DIM))
        self.assert_covers(split, [split_region("l", split, PLACED, kv_axis=0, rows=2)])

    def test_latent_pages_have_one_vector_a_token(self) -> None:
        of = view((BLOCKS, TOKENS, 576))
        region = latent_region("l", of, PLACED)
        self.assert_covers(of, [region])
        self.assertEqual((region.kv_role, region.segments, region.head_dim, region.heads), ("latent", 1, 576, 1))
        padded = View(of.shape, (of.strides[0] + 64, *of.strides[1:]), HALF, "bfloat16")
        region = latent_region("l", padded, PLACED)
        self.assert_covers(padded, [region])
        self.assertEqual(region.page_stride_bytes - region.segment_bytes, 128)

    def test_state_and_other_bytes_have_no_heads(self) -> None:
        of = view((BLOCKS, 7, 3), "float32", 4)
        for state, role in ((True, "state"), (False, "opaque")):
            region = opaque_region("l", of, PLACED, state=state)
            self.assert_covers(of, [region])
            self.assertEqual((region.kv_role, region.head_dim, region.heads, region.dtype), (role, 0, 0, "float32"))

    def test_sglang_has_a_region_for_keys_and_one_for_values(self) -> None:
        keys, values = view((4 * TOKENS, HEADS, DIM)), view((4 * TOKENS, HEADS, 2 * DIM))
        regions = sglang_regions("layer.3", keys, values, (PLACED, PLACED), page_tokens=TOKENS)
        self.assertEqual([(r.layer, r.kv_role) for r in regions], [("layer.3.k", "k"), ("layer.3.v", "v")])
        self.assertEqual([(r.head_dim, r.heads, r.page_count) for r in regions], [(DIM, HEADS, 4), (2 * DIM, HEADS, 4)])
        for of, region in zip((keys, values), regions, strict=True):
            self.assert_covers(of, [region])
            self.assert_vectors(of, region, region.head_dim)
        latent = view((4 * TOKENS, 1, 576))
        region = sglang_latent_region("l", latent, PLACED, page_tokens=TOKENS)
        self.assertEqual((region.kv_role, region.page_count, region.heads), ("latent", 4, 1))
        self.assert_covers(latent, [region])
        self.refused(lambda: sglang_latent_region("l", keys, PLACED, page_tokens=TOKENS), "one vector")
        self.refused(lambda: sglang_regions("l", keys, values, (PLACED, PLACED), page_tokens=5), "whole pages")

    def test_the_type_is_what_the_pages_hold(self) -> None:
        class Tensor:
            shape = (BLOCKS, HEADS, TOKENS, 2 * DIM)

            def __init__(self, dtype: str, element_bytes: int) -> None:
                self.dtype = dtype
                self._bytes = element_bytes

            def element_size(self) -> int:
                return self._bytes

            def stride(self) -> tuple[int, ...]:
                return view(self.shape).strides

        for dtype, size, setting, expected in (
            ("torch.bfloat16", 2, "auto", "bfloat16"),
            ("torch.float16", 2, "float16", "float16"),
            ("torch.uint8", 1, "fp8", "float8_e4m3fn"),
            ("torch.uint8", 1, "fp8_e4m3", "float8_e4m3fn"),
            ("torch.float8_e4m3fn", 1, "auto", "float8_e4m3fn"),
            ("torch.uint8", 1, "fp8_e5m2", "float8_e5m2"),
            ("torch.uint8", 1, "fp8_ds_mla", "fp8_ds_mla"),
            ("torch.uint8", 1, "auto", "uint8"),
        ):
            with self.subTest(dtype=dtype, setting=setting):
                self.assertEqual(view_of(Tensor(dtype, size), setting).dtype, expected)
        self.refused(lambda: view_of(Tensor("torch.bfloat16", 2), "fp8"), "one byte")

    def test_the_regions_are_the_golden_ones(self) -> None:
        for case in golden("engine-regions.json"):
            with self.subTest(case["name"]):
                self.assertEqual([plain(region) for region in CASES[case["name"]]()], case["regions"])
        self.assertEqual({case["name"] for case in golden("engine-regions.json")}, set(CASES))


def plain(region: Region) -> dict:
    """As REGISTER names the fields."""
    from orbitkv.registration import _region_fields

    return _region_fields(region)


def _layers(make) -> list[Region]:
    """Five layers behind one another, each in an allocation of its own."""
    return [each for n in range(LAYERS) for each in make(f"model.layers.{n}.self_attn", Placed(n, 0))]


CASES = {
    "vLLM, packed": lambda: _layers(
        lambda name, at: [packed_region(name, view((8, 8, 16, 256)), at, head_dim=128)]
    ),
    "vLLM, packed, fp8": lambda: _layers(
        lambda name, at: [packed_region(name, view((8, 8, 16, 256), "float8_e4m3fn", 1), at, head_dim=128)]
    ),
    "vLLM, K and V apart": lambda: _layers(
        lambda name, at: [split_region(name, view((2, 8, 16, 8, 128), "float16"), at, kv_axis=0)]
    ),
    "vLLM, K and V of a page side by side": lambda: _layers(
        lambda name, at: [split_region(name, view((8, 2, 16, 8, 64)), at, kv_axis=1)]
    ),
    "vLLM, latent": lambda: _layers(lambda name, at: [latent_region(name, view((8, 16, 576)), at)]),
    "SGLang, a pool for keys and one for values": lambda: _layers(
        lambda name, at: sglang_regions(
            name, view((512, 8, 128)), view((512, 8, 128)), (at, Placed(at.allocation + LAYERS, 0)), page_tokens=64
        )
    ),
    "SGLang, latent": lambda: _layers(
        lambda name, at: [sglang_latent_region(name, view((512, 1, 576)), at, page_tokens=64)]
    ),
}


if __name__ == "__main__":
    unittest.main()
