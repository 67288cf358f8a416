#pragma once

#include <cstddef>
#include <cstdint>

/// The part of nvCOMP 5.3's C ABI that is called: batched ANS (its nvcomp/ans.h and
/// nvcomp/shared_types.h). Declared here, because the library is opened at run time and a build
/// machine has no header of it. 4.x has other signatures, 6.x writes other streams.
namespace orbitkv::nvcomp::abi {

/// nvcompStatus_t; every function answers one, and each chunk of a batch gets one.
using Status = int32_t;
inline constexpr Status kOk = 0;

/// nvcompType_t: what a chunk's bytes are.
enum class DataType : int32_t {
  kBytes = 1,
  kFloat16 = 9,  // bf16 as well
  kFloat8E4m3 = 10,
};

/// nvcompProperties_t.
struct Properties {
  uint32_t version;  // 1000 * major + 100 * minor + patch
  uint32_t cuda_runtime;
};

/// nvcompBatchedANSCompressOpts_t; passed by value, reserved bytes zero.
struct CompressOptions {
  int32_t type = 0;  // rANS
  DataType data_type = DataType::kBytes;
  uint8_t sub_chunks_max = 0;  // by the library's own choice
  uint8_t reserved[55] = {};
};

/// nvcompBatchedANSDecompressOpts_t; passed by value.
struct DecompressOptions {
  int32_t backend = 0;  // the library's choice
  DataType data_type = DataType::kBytes;
  uint8_t sub_chunks_max = 0;
  uint8_t reserved[55] = {};
};

static_assert(sizeof(Properties) == 8);
static_assert(sizeof(CompressOptions) == 64 && offsetof(CompressOptions, data_type) == 4);
static_assert(offsetof(CompressOptions, reserved) == 9);
static_assert(sizeof(DecompressOptions) == 64 && offsetof(DecompressOptions, data_type) == 4);

/// cudaStream_t, which is the driver's CUstream.
using Stream = void*;

/// Chunks, pages and codings, begin on multiples of this.
inline constexpr uint64_t kAlignmentBytes = 8;
/// The largest chunk that may be compressed.
inline constexpr uint64_t kChunkBytesMax = 1 << 24;

}  // namespace orbitkv::nvcomp::abi
