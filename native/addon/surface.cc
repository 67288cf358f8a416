// The module: the names of `Native` in src/binding/surface.ts, in its order.
#include "addon/functions.h"
#include "addon/node_api_support.h"

namespace orbitkv::addon {
namespace {

struct NamedFunction {
  const char* name;
  napi_callback function;
};

constexpr NamedFunction kSurface[] = {
    {"probe", Contained<ProbeHost>},

    {"openPool", Contained<OpenPool>},
    {"closePool", Contained<ClosePool>},
    {"poolView", Contained<PoolView>},

    {"openShard", Contained<OpenShard>},
    {"reserveShard", Contained<ReserveShard>},
    {"lockPath", Contained<LockPath>},
    {"unlockPath", Contained<UnlockPath>},
    {"closeShard", Contained<CloseShard>},

    {"openCuFile", Contained<OpenCuFile>},
    {"registerCuFileShard", Contained<RegisterCuFileShard>},
    {"closeCuFile", Contained<CloseCuFile>},

    {"cudaProbe", Contained<CudaProbe>},
    {"compileKernels", Contained<CompileKernels>},

    {"createMemory", Contained<CreateSharedMemory>},
    {"importMemory", Contained<ImportMemory>},
    {"shareBuffer", Contained<ShareBuffer>},
    {"borrowMapping", Contained<BorrowMapping>},
    {"importDeviceMemory", Contained<ImportDeviceMemory>},
    {"adoptDeviceMemory", Contained<AdoptDeviceMemory>},
    {"allocateDeviceMemory", Contained<AllocateDeviceMemory>},
    {"exportDeviceMemory", Contained<ExportDeviceMemory>},
    {"readMapping", Contained<ReadMapping>},
    {"writeMapping", Contained<WriteMapping>},
    {"mappingView", Contained<MappingView>},
    {"releaseMapping", Contained<ReleaseMapping>},
    {"mappingsAlive", Contained<MappingsAlive>},

    {"defineTemplate", Contained<DefineTemplate>},
    {"releaseTemplate", Contained<ReleaseTemplate>},

    {"createSlots", Contained<CreateSlots>},
    {"slotClientWord", Contained<SlotClientWord>},
    {"slotFence", Contained<SlotFence>},
    {"slotManagerWord", Contained<SlotManagerWord>},
    {"slotState", Contained<SlotState>},
    {"slotFinish", Contained<SlotFinish>},
    {"releaseSlots", Contained<ReleaseSlots>},

    {"openSlots", Contained<OpenSlots>},
    {"slotSubmit", Contained<SlotSubmit>},
    {"slotRaiseFence", Contained<SlotRaiseFence>},
    {"slotFree", Contained<SlotFree>},
    {"slotPoll", Counted<SlotPoll>},
    {"closeSlots", Contained<CloseSlots>},

    {"crc32", Contained<Crc32>},
    {"crc32Variants", Contained<Crc32Variants>},

    {"fp8Encode", Contained<EncodeFp8>},
    {"fp8Decode", Contained<DecodeFp8>},
    {"fp8Variants", Contained<Fp8Variants>},
    {"turboquantEncode", Contained<EncodeTurboquant>},
    {"turboquantDecode", Contained<DecodeTurboquant>},
    {"turboquantVariants", Contained<TurboquantVariants>},

    {"openNvcomp", Contained<OpenNvcomp>},

    {"socketPair", Contained<SocketPair>},
    {"openPort", Contained<OpenPort>},
    {"wake", Contained<WakePort>},
    {"wakeAll", Contained<WakeAll>},
    {"shutdown", Contained<Shutdown>},

    {"closeFd", Contained<CloseFd>},
    {"monotonicUs", Contained<ReadMonotonicUs>},
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
