#pragma once

#include <node_api.h>

/// Every function of the surface, in the order of src/binding/surface.ts. Each is defined in the
/// file of its noun.
namespace orbitkv::addon {

#define ORBITKV_FUNCTION(name) napi_value name(napi_env env, napi_callback_info call)

ORBITKV_FUNCTION(ProbeHost);

ORBITKV_FUNCTION(OpenPool);
ORBITKV_FUNCTION(ClosePool);
ORBITKV_FUNCTION(PoolView);

ORBITKV_FUNCTION(OpenShard);
ORBITKV_FUNCTION(ReserveShard);
ORBITKV_FUNCTION(LockPath);
ORBITKV_FUNCTION(UnlockPath);
ORBITKV_FUNCTION(CloseShard);

ORBITKV_FUNCTION(OpenCuFile);
ORBITKV_FUNCTION(RegisterCuFileShard);
ORBITKV_FUNCTION(CloseCuFile);

ORBITKV_FUNCTION(CudaProbe);
ORBITKV_FUNCTION(CompileKernels);

ORBITKV_FUNCTION(CreateSharedMemory);
ORBITKV_FUNCTION(ImportMemory);
ORBITKV_FUNCTION(ShareBuffer);
ORBITKV_FUNCTION(BorrowMapping);
ORBITKV_FUNCTION(ImportDeviceMemory);
ORBITKV_FUNCTION(AdoptDeviceMemory);
ORBITKV_FUNCTION(AllocateDeviceMemory);
ORBITKV_FUNCTION(ExportDeviceMemory);
ORBITKV_FUNCTION(ReadMapping);
ORBITKV_FUNCTION(WriteMapping);
ORBITKV_FUNCTION(MappingView);
ORBITKV_FUNCTION(ReleaseMapping);
ORBITKV_FUNCTION(MappingsAlive);

ORBITKV_FUNCTION(DefineTemplate);
ORBITKV_FUNCTION(ReleaseTemplate);

ORBITKV_FUNCTION(CreateSlots);
ORBITKV_FUNCTION(SlotClientWord);
ORBITKV_FUNCTION(SlotFence);
ORBITKV_FUNCTION(SlotManagerWord);
ORBITKV_FUNCTION(SlotState);
ORBITKV_FUNCTION(SlotFinish);
ORBITKV_FUNCTION(ReleaseSlots);

ORBITKV_FUNCTION(OpenSlots);
ORBITKV_FUNCTION(SlotSubmit);
ORBITKV_FUNCTION(SlotRaiseFence);
ORBITKV_FUNCTION(SlotFree);
ORBITKV_FUNCTION(SlotPoll);
ORBITKV_FUNCTION(CloseSlots);

ORBITKV_FUNCTION(Crc32);
ORBITKV_FUNCTION(Crc32Variants);

ORBITKV_FUNCTION(EncodeFp8);
ORBITKV_FUNCTION(DecodeFp8);
ORBITKV_FUNCTION(Fp8Variants);
ORBITKV_FUNCTION(EncodeTurboquant);
ORBITKV_FUNCTION(DecodeTurboquant);
ORBITKV_FUNCTION(TurboquantVariants);

ORBITKV_FUNCTION(OpenNvcomp);

ORBITKV_FUNCTION(SocketPair);
ORBITKV_FUNCTION(OpenPort);
ORBITKV_FUNCTION(WakePort);
ORBITKV_FUNCTION(WakeAll);
ORBITKV_FUNCTION(Shutdown);

ORBITKV_FUNCTION(CloseFd);
ORBITKV_FUNCTION(ReadMonotonicUs);

}  // namespace orbitkv::addon
