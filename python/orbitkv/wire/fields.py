"""The vocabulary of the frame table. Reading is strict: bounds before anything is allocated, counts held against the
bytes that remain, every byte with a meaning. Names and order are those of src/shared/layout/wire/fields.ts."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import ProtocolError

KEY_BYTES = 32
FRAME_BYTES_MAX = 1 << 20
_SAFE_MAX = (1 << 53) - 1
_INTEGER_MAX = {"B": 0xFF, "H": 0xFFFF, "I": 0xFFFFFFFF, "Q": _SAFE_MAX}


class WireReader:
    """Reads a frame front to back and says what was wrong and where."""

    def __init__(self, frame: bytes) -> None:
        self.frame = frame
        self.message = "frame"
        self.field = "header"
        self.at = 0

    @property
    def remaining_bytes(self) -> int:
        return len(self.frame) - self.at

    def refuse(self, what: str, value: int | str = "") -> ProtocolError:
        """The error to raise."""
        return ProtocolError(
            "frame_malformed",
            f"Cannot read field {self.field} of a {self.message} frame at byte {self.at}: {what}",
            {
                "message": self.message,
                "field": self.field,
                "atByte": self.at,
                "frameBytes": len(self.frame),
                "value": value,
            },
        )

    def span(self, count: int) -> bytes:
        if count > self.remaining_bytes:
            raise self.refuse(f"{count} bytes needed, {self.remaining_bytes} left", count)
        start = self.at
        self.at += count
        return self.frame[start : self.at]

    def number(self, code: str) -> int:
        (value,) = struct.unpack("<" + code, self.span(struct.calcsize("<" + code)))
        if code == "Q" and value > _SAFE_MAX:
            raise self.refuse("an integer above 2^53 - 1", value)
        return value

    def f64(self) -> float:
        (value,) = struct.unpack("<d", self.span(8))
        if not math.isfinite(value):
            raise self.refuse("a number that is not finite")
        return value

    def count(self, bytes_each: int, count_max: int) -> int:
        count = self.number("I")
        if count > count_max:
            raise self.refuse(f"{count} items, {count_max} allowed", count)
        if count * bytes_each > self.remaining_bytes:
            raise self.refuse(f"{count} items of at least {bytes_each} bytes in {self.remaining_bytes} bytes", count)
        return count


class Field:
    """One field: ``write(frame, value)`` appends, ``read(reader)`` takes. ``bytes_min`` bounds counts of it."""

    __slots__ = ("bytes_min", "write", "read")

    def __init__(
        self, bytes_min: int, write: Callable[[bytearray, Any], None], read: Callable[[WireReader], Any]
    ) -> None:
        self.bytes_min = bytes_min
        self.write = write
        self.read = read


def _integer(code: str) -> Field:
    pack = struct.Struct("<" + code)
    most = _INTEGER_MAX[code]

    def write(frame: bytearray, value: int) -> None:
        if not isinstance(value, int) or not 0 <= value <= most:
            raise ValueError(f"Cannot write {value!r}: an integer from 0 to {most} is needed")
        frame += pack.pack(value)

    return Field(pack.size, write, lambda reader: reader.number(code))


u8 = _integer("B")
u16 = _integer("H")
u32 = _integer("I")
u64 = _integer("Q")


def _write_f64(frame: bytearray, value: float) -> None:
    if not math.isfinite(value):
        raise ValueError(f"Cannot write {value!r}: numbers on the wire are finite")
    frame += struct.pack("<d", value)


f64 = Field(8, _write_f64, lambda reader: reader.f64())


def _read_bool(reader: WireReader) -> bool:
    value = reader.number("B")
    if value > 1:
        raise reader.refuse(f"{value} is neither 0 nor 1", value)
    return value == 1


boolean = Field(1, lambda frame, value: frame.append(1 if value else 0), _read_bool)


def between(field: Field, least: int, most: int) -> Field:
    def write(frame: bytearray, value: int) -> None:
        if not least <= value <= most:
            raise ValueError(f"Cannot write {value!r}: {least} to {most} is allowed")
        field.write(frame, value)

    def read(reader: WireReader) -> int:
        value = field.read(reader)
        if not least <= value <= most:
            raise reader.refuse(f"{value} is not from {least} to {most}", value)
        return value

    return Field(field.bytes_min, write, read)


def choice(*words: str) -> Field:
    numbers = {word: number for number, word in enumerate(words)}

    def write(frame: bytearray, value: str) -> None:
        if value not in numbers:
            raise ValueError(f"Cannot write {value!r}: one of {', '.join(words)} is needed")
        frame.append(numbers[value])

    def read(reader: WireReader) -> str:
        number = reader.number("B")
        if number >= len(words):
            raise reader.refuse(f"{number} is not one of {len(words)} choices", number)
        return words[number]

    return Field(1, write, read)


def fixed(length: int) -> Field:
    """Exactly ``length`` bytes."""

    def write(frame: bytearray, value: bytes) -> None:
        if len(value) != length:
            raise ValueError(f"Cannot write {len(value)} bytes: {length} are needed")
        frame += value

    return Field(length, write, lambda reader: reader.span(length))


def blob(length_max: int) -> Field:
    """u16 length, then at most ``length_max`` bytes."""

    def write(frame: bytearray, value: bytes) -> None:
        if len(value) > length_max:
            raise ValueError(f"Cannot write {len(value)} bytes: at most {length_max} are allowed")
        u16.write(frame, len(value))
        frame += value

    def read(reader: WireReader) -> bytes:
        length = reader.number("H")
        if length > length_max:
            raise reader.refuse(f"{length} bytes, {length_max} allowed", length)
        return reader.span(length)

    return Field(2, write, read)


def text(bytes_max: int) -> Field:
    """u16 length in bytes, then strict UTF-8."""
    field = blob(bytes_max)

    def read(reader: WireReader) -> str:
        raw = field.read(reader)
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            raise reader.refuse("text is not UTF-8") from None

    return Field(2, lambda frame, value: field.write(frame, value.encode("utf-8")), read)


def many(item: Field, count_max: int) -> Field:
    """u32 count, then the items."""

    def write(frame: bytearray, values: Sequence[Any]) -> None:
        if len(values) > count_max:
            raise ValueError(f"Cannot write {len(values)} items: at most {count_max} are allowed")
        u32.write(frame, len(values))
        for value in values:
            item.write(frame, value)

    def read(reader: WireReader) -> list[Any]:
        return [item.read(reader) for _ in range(reader.count(item.bytes_min, count_max))]

    return Field(4, write, read)


def _pack_numbers(values: Sequence[int]) -> bytes:
    try:
        return struct.pack(f"<{len(values)}I", *values)
    except struct.error as error:
        raise ValueError(f"Cannot write a list of u32: {error}") from None


def _read_numbers(reader: WireReader, count: int) -> list[int]:
    return list(struct.unpack(f"<{count}I", reader.span(4 * count)))


def _write_keys(frame: bytearray, value: bytes) -> None:
    if len(value) % KEY_BYTES:
        raise ValueError(f"Cannot write keys: {len(value)} is not a multiple of {KEY_BYTES}")
    u32.write(frame, len(value) // KEY_BYTES)
    frame += value


keys = Field(4, _write_keys, lambda reader: reader.span(KEY_BYTES * reader.count(KEY_BYTES, 1 << 32)))


def _write_list(frame: bytearray, values: Sequence[int]) -> None:
    u32.write(frame, len(values))
    frame += _pack_numbers(values)


numbers = Field(4, _write_list, lambda reader: _read_numbers(reader, reader.count(4, 1 << 32)))


def _write_pairs(frame: bytearray, values: Sequence[int]) -> None:
    if len(values) % 2:
        raise ValueError(f"Cannot write pairs: {len(values)} numbers are not pairs")
    u32.write(frame, len(values) // 2)
    frame += _pack_numbers(values)


pairs = Field(4, _write_pairs, lambda reader: _read_numbers(reader, 2 * reader.count(8, 1 << 32)))


def _write_keyed_pages(frame: bytearray, value: dict) -> None:
    if len(value["keys"]) != KEY_BYTES * len(value["pages"]):
        raise ValueError(f"Cannot write {len(value['keys'])} bytes of keys with {len(value['pages'])} pages")
    u32.write(frame, len(value["pages"]))
    frame += value["keys"]
    frame += _pack_numbers(value["pages"])


def _read_keyed_pages(reader: WireReader) -> dict:
    count = reader.count(KEY_BYTES + 4, 1 << 32)
    return {"keys": reader.span(KEY_BYTES * count), "pages": _read_numbers(reader, count)}


keyed_pages = Field(4, _write_keyed_pages, _read_keyed_pages)


def optional(field: Field) -> Field:
    """u8 0 for None, or 1 and the value."""

    def write(frame: bytearray, value: Any) -> None:
        boolean.write(frame, value is not None)
        if value is not None:
            field.write(frame, value)

    return Field(1, write, lambda reader: field.read(reader) if boolean.read(reader) else None)


def variant(**kinds: Field) -> Field:
    """u8 of the kind, then the record of that kind: a dict whose ``kind`` says which."""
    kind = choice(*kinds)

    def write(frame: bytearray, value: dict) -> None:
        kind.write(frame, value["kind"])
        kinds[value["kind"]].write(frame, value)

    def read(reader: WireReader) -> dict:
        name = kind.read(reader)
        return {"kind": name, **kinds[name].read(reader)}

    return Field(1 + min(each.bytes_min for each in kinds.values()), write, read)


def record(**shape: Field) -> Field:
    """Fields one after another, without padding, in the order given."""

    def write(frame: bytearray, value: dict) -> None:
        for name, field in shape.items():
            field.write(frame, value[name])

    def read(reader: WireReader) -> dict:
        value = {}
        for name, field in shape.items():
            reader.field = name
            value[name] = field.read(reader)
        return value

    return Field(sum(field.bytes_min for field in shape.values()), write, read)
