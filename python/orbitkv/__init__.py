"""Client of the OrbitKV cache Manager. Python 3.10 or later, standard library only.

    import orbitkv

    memory = orbitkv.EngineMemory(64 << 20)
    with orbitkv.connect("/run/orbitkv/manager.sock", engine="mine", engine_version="1.0") as client:
        client.register(instance_id=..., namespace_inputs={"model": b"..."}, memory=[memory], groups=[...], regions=[...])
        client.publish([orbitkv.PublishGroup(0, keys, pages)])
        found = client.query(1, [orbitkv.QueryGroup(0, keys)])
        if isinstance(found, orbitkv.Ready):
            client.restore(found.lease, {0: [(0, 17), (1, 18)]})
"""

from .client import Client, PublishGroup, connect
from .errors import (
    CancelledError,
    CapabilityError,
    CapacityError,
    ClosedError,
    ConfigError,
    CorruptionError,
    InvariantError,
    IoError,
    OrbitError,
    ProtocolError,
)
from .memory import EngineMemory
from .operations import Operation, OperationResult, PublishCounts
from .queries import Busy, Loading, Miss, Prepared, QueryGroup, Ready, Warming
from .registration import Canary, Group, Region

__all__ = [
    "Busy",
    "Canary",
    "CancelledError",
    "CapabilityError",
    "CapacityError",
    "Client",
    "ClosedError",
    "ConfigError",
    "CorruptionError",
    "EngineMemory",
    "Group",
    "InvariantError",
    "IoError",
    "Loading",
    "Miss",
    "Operation",
    "OperationResult",
    "OrbitError",
    "Prepared",
    "ProtocolError",
    "PublishCounts",
    "PublishGroup",
    "QueryGroup",
    "Ready",
    "Region",
    "Warming",
    "connect",
]
