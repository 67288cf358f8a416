// The module: the names of `Native` in src/binding/surface.ts, in its order.
#include "addon/functions.h"

namespace orbitkv::addon {
namespace {

struct NamedFunction {
  const char* name;
  napi_callback function;
};

constexpr NamedFunction kSurface[] = {
    {"probe", ProbeHost},

    {"openPool", OpenPool},
    {"closePool", ClosePool},
    {"poolView", PoolView},

    {"openShard", OpenShard},
    {"lockPath", LockPath},
    {"unlockPath", UnlockPath},
    {"closeShard", CloseShard},

    {"createMemory", CreateSharedMemory},
    {"importMemory", ImportMemory},
    {"shareBuffer", ShareBuffer},
    {"borrowMapping", BorrowMapping},
    {"mappingView", MappingView},
    {"releaseMapping", ReleaseMapping},
    {"mappingsAlive", MappingsAlive},
    {"defineTemplate", DefineTemplate},
    {"releaseTemplate", ReleaseTemplate},

    {"createSlots", CreateSlots},
    {"slotClientWord", SlotClientWord},
    {"slotFence", SlotFence},
    {"slotManagerWord", SlotManagerWord},
    {"slotState", SlotState},
    {"slotFinish", SlotFinish},
    {"releaseSlots", ReleaseSlots},

    {"openSlots", OpenSlots},
    {"slotSubmit", SlotSubmit},
    {"slotRaiseFence", SlotRaiseFence},
    {"slotFree", SlotFree},
    {"slotPoll", SlotPoll},
    {"closeSlots", CloseSlots},

    {"crc32", Crc32},
    {"crc32Variants", Crc32Variants},
    {"fp8Encode", EncodeFp8},
    {"fp8Decode", DecodeFp8},
    {"fp8Variants", Fp8Variants},

    {"socketPair", SocketPair},
    {"openPort", OpenPort},
    {"wake", WakePort},
    {"wakeAll", WakeAll},
    {"shutdown", Shutdown},

    {"closeFd", CloseFd},
    {"monotonicUs", ReadMonotonicUs},
};

}  // namespace

#ifdef ORBITKV_PLANTED
/// test/sanitize/planted.cc: bugs that the sanitizers of a test build must find.
napi_value Planted(napi_env env, napi_callback_info call);
#endif

}  // namespace orbitkv::addon

NAPI_MODULE_INIT() {
  for (const auto& [name, function] : orbitkv::addon::kSurface) {
    napi_value value;
    if (napi_create_function(env, name, NAPI_AUTO_LENGTH, function, nullptr, &value) != napi_ok)
      return nullptr;
    napi_set_named_property(env, exports, name, value);
  }
#ifdef ORBITKV_PLANTED
  napi_value planted;
  napi_create_function(env, "planted", NAPI_AUTO_LENGTH, orbitkv::addon::Planted, nullptr,
                       &planted);
  napi_set_named_property(env, exports, "planted", planted);
#endif
  return exports;
}
