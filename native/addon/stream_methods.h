#pragma once

#include "addon/functions.h"

/// The methods of `Port` that queue work on a device, in the order of src/binding/streams.ts,
/// codecs.ts and cufile.ts. Bound to an OpenedPort.
namespace orbitkv::addon {

ORBITKV_FUNCTION(OpenStream);
ORBITKV_FUNCTION(ReportStream);
ORBITKV_FUNCTION(Copy);
ORBITKV_FUNCTION(Checksum);
ORBITKV_FUNCTION(Move);
ORBITKV_FUNCTION(ChecksumMapped);
ORBITKV_FUNCTION(CloseStream);

ORBITKV_FUNCTION(ReportCodecWorkspace);
ORBITKV_FUNCTION(ReleaseCodecWorkspace);
ORBITKV_FUNCTION(Encode);
ORBITKV_FUNCTION(EncodeHeld);
ORBITKV_FUNCTION(ReleaseCodes);
ORBITKV_FUNCTION(Decode);

ORBITKV_FUNCTION(OpenStaging);
ORBITKV_FUNCTION(StagingRead);
ORBITKV_FUNCTION(StagingWrite);

}  // namespace orbitkv::addon
