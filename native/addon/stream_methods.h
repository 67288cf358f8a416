#pragma once

#include "addon/functions.h"

/// The methods of `Port` in src/binding/surface.ts that queue work on a device. Bound to an
/// OpenedPort.
namespace orbitkv::addon {

ORBITKV_FUNCTION(OpenStream);
ORBITKV_FUNCTION(Copy);
ORBITKV_FUNCTION(Checksum);

}  // namespace orbitkv::addon
