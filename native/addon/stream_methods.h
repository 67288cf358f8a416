#pragma once

#include "addon/functions.h"

/// The methods of `Port` in src/binding/surface.ts that queue work on a device. Bound to an
/// OpenedPort.
namespace orbitkv::addon {

ORBITKV_FUNCTION(OpenStream);
ORBITKV_FUNCTION(ReportStream);
ORBITKV_FUNCTION(ReportCodecWorkspace);
ORBITKV_FUNCTION(Copy);
ORBITKV_FUNCTION(Encode);
ORBITKV_FUNCTION(Decode);
ORBITKV_FUNCTION(Checksum);
ORBITKV_FUNCTION(Move);
ORBITKV_FUNCTION(ChecksumMapped);
ORBITKV_FUNCTION(OpenStaging);
ORBITKV_FUNCTION(StagingRead);
ORBITKV_FUNCTION(StagingWrite);
ORBITKV_FUNCTION(CloseStream);

}  // namespace orbitkv::addon
