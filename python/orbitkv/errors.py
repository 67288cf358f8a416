"""The error classes of OrbitKV. A class says what the caller does next, ``code`` says which rule was met, ``values``
carry the numbers. Codes and numbers are those of src/shared/base/errors.ts; a test holds both lists together."""

from __future__ import annotations

from collections.abc import Mapping

Values = Mapping[str, "str | int | float | bool | None"]


class OrbitError(Exception):
    """Base of every typed error."""

    def __init__(self, code: str, message: str, values: Values | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.values: dict = dict(values or {})


class ConfigError(OrbitError):
    """The configuration cannot work."""


class CapabilityError(OrbitError):
    """The host cannot do it: a caller that is allowed to may fall back."""


class CapacityError(OrbitError):
    """No room now: skip the write or fail this restore; data stays valid."""


class IoError(OrbitError):
    """A device or file failed: this operation fails, others go on."""


class CorruptionError(OrbitError):
    """Bytes are not what was published: a miss, and that generation is hidden."""


class ProtocolError(OrbitError):
    """A peer sent something the protocol forbids, or asked for something that is not there."""


class CancelledError(OrbitError):
    """The caller took its interest back, or its time ran out."""


class ClosedError(OrbitError):
    """The Manager, or the session, has gone."""


class InvariantError(OrbitError):
    """A bug of the Manager."""


ERROR_CODES: dict[str, int] = {
    "ok": 0,
    "invariant": 1,
    "config_unknown_flag": 10,
    "config_bad_value": 11,
    "config_conflict": 12,
    "config_pool_too_large": 13,
    "config_descriptors": 15,
    "uring_unavailable": 20,
    "direct_io_unsupported": 21,
    "native_addon_missing": 22,
    "cuda_unavailable": 23,
    "cufile_unavailable": 24,
    "codec_unavailable": 25,
    "capacity_pool": 30,
    "capacity_sessions": 33,
    "capacity_slots": 34,
    "capacity_queue": 35,
    "capacity_disk": 36,
    "capacity_codec": 37,
    "io_read_failed": 40,
    "io_write_failed": 41,
    "io_short": 42,
    "io_open_failed": 43,
    "io_copy_failed": 44,
    "io_disk_full": 45,
    "checksum_mismatch": 50,
    "codec_damaged": 51,
    "frame_malformed": 60,
    "frame_too_large": 61,
    "version_mismatch": 62,
    "peer_uid_refused": 63,
    "unknown_message": 64,
    "not_greeted": 65,
    "already_greeted": 66,
    "missing_descriptor": 67,
    "instance_unknown": 70,
    "instance_not_sealed": 71,
    "instance_conflict": 72,
    "rank_taken": 73,
    "memory_not_sealed": 74,
    "region_out_of_bounds": 75,
    "region_overlap": 76,
    "geometry_invalid": 77,
    "geometry_conflict": 78,
    "namespace_mismatch": 79,
    "canary_mismatch": 80,
    "group_unsupported": 81,
    "device_unsupported": 82,
    "memory_not_local": 83,
    "device_unknown": 84,
    "memory_not_importable": 85,
    "memory_not_exportable": 86,
    "lease_unknown": 90,
    "lease_wrong_instance": 91,
    "lease_already_redeemed": 92,
    "lease_expired": 93,
    "ticket_unknown": 94,
    "slot_out_of_range": 95,
    "slot_stale_generation": 96,
    "slot_busy": 97,
    "page_out_of_range": 98,
    "page_duplicate": 99,
    "source_out_of_range": 100,
    "group_unknown": 101,
    "layers_missing": 102,
    "query_empty": 104,
    "ticket_mismatch": 105,
    "cancelled": 110,
    "session_closed": 111,
    "draining": 112,
    "manager_gone": 113,
    "already_running": 114,
    "path_refused": 115,
    "timed_out": 116,
}

_NAMES = {number: name for name, number in ERROR_CODES.items()}

_BELOW: tuple[tuple[int, type[OrbitError]], ...] = (
    (20, ConfigError),
    (30, CapabilityError),
    (40, CapacityError),
    (50, IoError),
    (60, CorruptionError),
    (110, ProtocolError),
)

_ENDINGS: dict[str, type[OrbitError]] = {
    "invariant": InvariantError,
    "cancelled": CancelledError,
    "timed_out": CancelledError,
    "already_running": ConfigError,
    "path_refused": ConfigError,
}


def error_code_name(number: int) -> str:
    """The name of a code number from the wire, or ``invariant`` when no such number exists."""
    return _NAMES.get(number, "invariant")


def error_of(code: str, message: str, values: Values | None = None) -> OrbitError:
    """The typed error of a code."""
    number = ERROR_CODES[code]
    by_number = next((of for below, of in _BELOW if number < below), ClosedError)
    return _ENDINGS.get(code, by_number)(code, message, values)
