"""The demo's oracle accepts what a codec may give back and nothing else."""

import struct
import unittest

from orbitkv.demo_engine import HEAD_DIM, Oracle, segment_content

KEY = b"k" * 32
SEGMENT_BYTES = 4096
LAYERS = 8
INNER = 3


def floats(lanes: bytes) -> list[float]:
    return [struct.unpack("<f", struct.pack("<I", n << 16))[0] for (n,) in struct.iter_unpack("<H", lanes)]


def e4m3() -> list[float]:
    """Values of E4M3 from 0 to 448 by their code."""
    return [(c & 7) * 2.0**-9 if c < 8 else (8 + (c & 7)) * 2.0 ** ((c >> 3) - 10) for c in range(127)]


class OracleTest(unittest.TestCase):
    def test_without_a_codec_and_with_an_exact_one_only_the_published_bytes_are_right(self) -> None:
        for codec in ("none", "ans"):
            oracle = Oracle(codec, LAYERS, SEGMENT_BYTES)
            published = oracle.content(KEY, INNER, 0)
            self.assertTrue(oracle.accepts(INNER, 0, published, bytes(published)))
            self.assertFalse(oracle.accepts(INNER, 0, published, published[:-1] + bytes([published[-1] ^ 1])))
        self.assertEqual(
            Oracle("none", LAYERS, SEGMENT_BYTES).content(KEY, 1, 1), segment_content(KEY, 1, 1, SEGMENT_BYTES)
        )

    def test_content_for_codecs_is_floats_from_an_eighth_to_below_two(self) -> None:
        values = floats(Oracle("fp8", LAYERS, SEGMENT_BYTES).content(KEY, 0, 0))
        self.assertTrue(all(0.125 <= abs(value) < 2 for value in values))
        self.assertTrue(min(values) < 0 < max(values))

    def test_with_fp8_only_the_nearest_values_of_e4m3_are_right(self) -> None:
        oracle = Oracle("fp8", LAYERS, SEGMENT_BYTES)
        published = oracle.content(KEY, 0, 1)
        codes = e4m3()

        def nearest(value: float) -> float:
            code = min(range(len(codes)), key=lambda c: (abs(codes[c] - abs(value)), c % 2))
            return codes[code] if value > 0 else -codes[code]

        rounded = [nearest(value) for value in floats(published)]
        restored = b"".join(struct.pack("<f", value)[2:] for value in rounded)
        self.assertTrue(oracle.accepts(0, 1, published, restored))
        self.assertFalse(oracle.accepts(0, 1, published, published))

    def test_with_turboquant_protected_layers_are_exact_and_others_close(self) -> None:
        for codec in ("turboquant-4", "turboquant-3"):
            oracle = Oracle(codec, LAYERS, SEGMENT_BYTES)
            for layer in range(LAYERS):
                published = oracle.content(KEY, layer, 0)
                near = b"".join(struct.pack("<f", value * 1.05)[2:] for value in floats(published))
                self.assertTrue(oracle.accepts(layer, 0, published, published))
                self.assertEqual(oracle.accepts(layer, 0, published, near), 2 <= layer < 6, layer)
                self.assertFalse(oracle.accepts(layer, 0, published, oracle.content(b"x" * 32, layer, 0)))
                self.assertFalse(oracle.accepts(layer, 0, published, b"\xff" * SEGMENT_BYTES), "not a number")

    def test_errors_are_summed_apart_for_k_and_v(self) -> None:
        oracle = Oracle("turboquant-4", LAYERS, 2 * HEAD_DIM * 8)
        published = oracle.content(KEY, INNER, 1)
        near = b"".join(struct.pack("<f", value * 1.0625)[2:] for value in floats(published))
        self.assertTrue(oracle.accepts(INNER, 1, published, near))
        error_k, power_k, error_v, power_v = oracle.sums
        self.assertEqual((error_k, power_k), (0, 0))
        self.assertAlmostEqual(error_v / power_v, 0.0625**2, delta=0.001)


if __name__ == "__main__":
    unittest.main()
