#pragma once

#include "addon/functions.h"

/// The methods of `Port` that speak to peers, in the order of src/binding/sockets.ts.
namespace orbitkv::addon {

ORBITKV_FUNCTION(Listen);
ORBITKV_FUNCTION(CloseListener);
ORBITKV_FUNCTION(Connect);
ORBITKV_FUNCTION(Adopt);
ORBITKV_FUNCTION(Peer);
ORBITKV_FUNCTION(TakeFrame);
ORBITKV_FUNCTION(TakeFds);
ORBITKV_FUNCTION(Send);
ORBITKV_FUNCTION(CloseConnection);

}  // namespace orbitkv::addon
