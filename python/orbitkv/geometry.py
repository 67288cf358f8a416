"""Regions of the KV tensors of vLLM and SGLang, as REGISTER describes them. Everything is taken from the shape, the strides
and the type of a tensor and from what the caller says it is; nothing is guessed from byte counts. What a region says of its
values (``dtype``, ``kv_role``, ``head_dim``, ``heads``) is what storage codecs rely on: where it is not certain that every
head's vector lies in one run, ``head_dim`` is 0 and the Manager keeps such layers as they are. No import of torch.

    packed      vLLM's [block, head, token, 2 * head_dim], K and V of a token's head side by side
    kv_first    [2, block, token, head, head_dim]: all K pages, then all V pages
    kv_second   [block, 2, token, head, head_dim]: K and V of a page side by side
    latent      [block, token, values], of latent attention (MLA)
    opaque      [block, ...]: one run of bytes a page, recurrent state or anything else

Heads and tokens of a page may lie in either order. ``Placed`` says where the first byte of the tensor lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .cuda import Placed
from .errors import ProtocolError
from .registration import Region

# What an engine's --kv-cache-dtype stores in tensors of bytes. Anything else keeps the tensor's own type.
_STORED_AS = {
    "fp8": "float8_e4m3fn",
    "fp8_e4m3": "float8_e4m3fn",
    "fp8_e5m2": "float8_e5m2",
}


@dataclass(frozen=True)
class View:
    """A tensor as its bytes lie: strides count elements, ``dtype`` is the framework's name of their type."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    element_bytes: int
    dtype: str


def view_of(tensor: Any, kv_cache_dtype: str = "auto") -> View:
    """The view of a tensor with ``shape``, ``stride()``, ``element_size()`` and ``dtype``, such as torch's.
    ``kv_cache_dtype`` is the engine's setting: FP8 pages are often tensors of plain bytes. ProtocolError
    geometry_invalid: it says FP8, and the elements are wider than a byte."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    element_bytes = tensor.element_size()
    if kv_cache_dtype != "auto" and kv_cache_dtype not in (dtype, *_STORED_AS):
        # A format of the engine's own (fp8_ds_mla, nvfp4): its name keeps it apart, and no codec takes it for numbers.
        dtype = kv_cache_dtype
    if kv_cache_dtype in _STORED_AS:
        if element_bytes != 1:
            raise _invalid(f"a KV cache of {kv_cache_dtype} has elements of one byte, these have {element_bytes}")
        dtype = _STORED_AS[kv_cache_dtype]
    return View(tuple(tensor.shape), tuple(tensor.stride()), element_bytes, dtype)


def packed_region(
    layer: str, view: View, placed: Placed, *, head_dim: int, value_dim: int | None = None, group: int = 0, rows: int = 1
) -> Region:
    """[block, head, token, head_dim + value_dim]. ``rows``: kernel blocks, neighbours, that are one block of the engine's
    scheduler. Keys and values of unlike length are kept whole: their vectors have no one dimension."""
    _dimensions(view, 4, "[block, head, token, values]")
    values = head_dim + (head_dim if value_dim is None else value_dim)
    if view.shape[3] != values:
        raise _invalid(f"a head's key and value have {values} values, the tensor {view.shape[3]}")
    alike = value_dim in (None, head_dim)
    return _one_run(layer, view, placed, group, rows, "packed", head_dim if alike else 0, view.shape[1])


def split_region(layer: str, view: View, placed: Placed, *, kv_axis: int, group: int = 0, rows: int = 1) -> Region:
    """[2, block, a, b, head_dim] (``kv_axis`` 0) or [block, 2, a, b, head_dim] (1), where b is heads: a tensor with heads
    before tokens is permuted by the caller, which costs nothing. Which axis is K and V is told, never looked for."""
    _dimensions(view, 5, "[2, block, token, head, head_dim] or [block, 2, token, head, head_dim]")
    if kv_axis not in (0, 1) or view.shape[kv_axis] != 2:
        raise _invalid(f"axis {kv_axis} is told to be K and V, the shape is {view.shape}")
    block_axis = 1 - kv_axis
    half = View(
        (view.shape[block_axis], *view.shape[2:]),
        (view.strides[block_axis], *view.strides[2:]),
        view.element_bytes,
        view.dtype,
    )
    stride = view.strides[kv_axis] * view.element_bytes
    if rows > 1 and stride < half.strides[0] * view.element_bytes:
        raise _invalid("K and V alternate within one block of the scheduler; set the kernel's block size to the scheduler's")
    region = _one_run(layer, half, placed, group, rows, "packed", view.shape[4], view.shape[3])
    return _with_values(region, stride)


def latent_region(layer: str, view: View, placed: Placed, *, group: int = 0, rows: int = 1) -> Region:
    """[block, token, values]: one latent vector a token, on every tensor-parallel rank the same."""
    _dimensions(view, 3, "[block, token, values]")
    return _one_run(layer, view, placed, group, rows, "latent", view.shape[2], 1)


def opaque_region(layer: str, view: View, placed: Placed, *, state: bool = False, group: int = 0, rows: int = 1) -> Region:
    """[block, ...]: recurrent state (``state``), scales, indexes: bytes that come back as they are."""
    if len(view.shape) < 2:
        raise _invalid(f"a page has a first axis of blocks and bytes behind it, the shape is {view.shape}")
    return _one_run(layer, view, placed, group, rows, "state" if state else "opaque", 0, 0)


def sglang_regions(
    layer: str, keys: View, values: View, placed: tuple[Placed, Placed], *, page_tokens: int, group: int = 0
) -> list[Region]:
    """SGLang's k_buffer[l] and v_buffer[l], [slot, head, head_dim] each: regions ``layer.k`` and ``layer.v``. Page p is the
    slots p * page_tokens and on; page 0 is the pool's padding, and is registered so that numbers agree."""
    parts = zip(("k", "v"), (keys, values), placed, strict=True)
    return [_paged(f"{layer}.{role}", view, each, page_tokens, group, role) for role, view, each in parts]


def sglang_latent_region(layer: str, view: View, placed: Placed, *, page_tokens: int, group: int = 0) -> Region:
    """SGLang's MLA buffer, [slot, 1, values]."""
    _dimensions(view, 3, "[slot, 1, values]")
    if view.shape[1] != 1:
        raise _invalid(f"latent attention has one vector a token, the shape is {view.shape}")
    return _paged(layer, view, placed, page_tokens, group, "latent")


def _paged(layer: str, view: View, placed: Placed, page_tokens: int, group: int, role: str) -> Region:
    _dimensions(view, 3, "[slot, head, head_dim]")
    if page_tokens < 1 or view.shape[0] % page_tokens != 0:
        raise _invalid(f"{view.shape[0]} slots are no whole pages of {page_tokens}")
    return _one_run(layer, view, placed, group, page_tokens, role, view.shape[2], view.shape[1])


def _one_run(
    layer: str, view: View, placed: Placed, group: int, rows: int, role: str, head_dim: int, heads: int
) -> Region:
    """Pages of ``rows`` rows of the first axis, each page one run of bytes."""
    row = _run(view.shape[1:], view.strides[1:])
    if row is None:
        raise _invalid(f"layer {layer}: a page is not one run of bytes: shape {view.shape}, strides {view.strides}")
    if rows < 1 or view.shape[0] % rows != 0:
        raise _invalid(f"layer {layer}: {view.shape[0]} rows are no whole pages of {rows}")
    if rows > 1 and view.strides[0] != row:
        raise _invalid(f"layer {layer}: {rows} rows of {row} elements are a page, and rows are {view.strides[0]} apart")
    whole = _innermost(view)
    return Region(
        layer=layer,
        group=group,
        allocation=placed.allocation,
        offset_bytes=placed.offset,
        page_count=view.shape[0] // rows,
        page_stride_bytes=view.strides[0] * rows * view.element_bytes,
        segment_bytes=row * rows * view.element_bytes,
        dtype=view.dtype,
        kv_role=role,
        head_dim=head_dim if whole else 0,
        heads=heads if whole else 0,
    )


def _with_values(keys: Region, stride_bytes: int) -> Region:
    """The same region with its second segment, the values, so far behind the keys."""
    if stride_bytes < keys.segment_bytes:
        raise _invalid(f"layer {keys.layer}: values are {stride_bytes} bytes behind keys of {keys.segment_bytes}")
    fields = {**keys.__dict__, "segments": 2, "segment_stride_bytes": stride_bytes}
    return Region(**fields)


def _run(shape: Sequence[int], strides: Sequence[int]) -> int | None:
    """Elements of the axes, when they are one run without gaps in whatever order of axes; None when they are not."""
    elements = 1
    for stride, count in sorted((stride, count) for stride, count in zip(strides, shape, strict=True) if count != 1):
        if stride != elements:
            return None
        elements *= count
    return elements


def _innermost(view: View) -> bool:
    """The last axis is one run: a head's vector, or a key and its value."""
    return view.strides[-1] == 1 or view.shape[-1] == 1


def _dimensions(view: View, count: int, names: str) -> None:
    if len(view.shape) != count or len(view.strides) != count or min(view.shape) < 1:
        raise _invalid(f"the tensor is to be {names}, its shape is {view.shape}")


def _invalid(why: str) -> ProtocolError:
    return ProtocolError("geometry_invalid", f"Cannot describe a KV tensor: {why}")
