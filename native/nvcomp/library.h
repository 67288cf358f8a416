#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "nvcomp/abi.h"

namespace orbitkv::nvcomp {

/// As NvcompReport in src/binding/codecs.ts.
struct OpenReport {
  const char* reason = "ok";
  int32_t version = 0;
  std::string path;
  bool available() const { return std::string_view(reason) == "ok"; }
};

/// The functions of the library that are called. Resolved all at once, before the first call. The
/// two that tell sizes answer at once and touch no device; the two that code queue on a stream, and
/// every array they are given lies where the device can read it.
struct Functions {
  abi::Status (*get_properties)(abi::Properties*);
  abi::Status (*compress_temp_bytes)(size_t chunks, size_t chunk_bytes_max, abi::CompressOptions,
                                     size_t* temp_bytes, size_t total_bytes_max);
  abi::Status (*compress_output_bytes_max)(size_t chunk_bytes_max, abi::CompressOptions,
                                           size_t* output_bytes_max);
  abi::Status (*compress)(const void* const* chunks, const size_t* chunk_bytes,
                          size_t chunk_bytes_max, size_t count, void* temp, size_t temp_bytes,
                          void* const* coded, size_t* coded_bytes, abi::CompressOptions,
                          abi::Status* statuses, abi::Stream);
  abi::Status (*decompress_temp_bytes)(size_t chunks, size_t chunk_bytes_max,
                                       abi::DecompressOptions, size_t* temp_bytes,
                                       size_t total_bytes_max);
  abi::Status (*decompress)(const void* const* coded, const size_t* coded_bytes,
                            const size_t* room_bytes, size_t* chunk_bytes, size_t count, void* temp,
                            size_t temp_bytes, void* const* chunks, abi::DecompressOptions,
                            abi::Status* statuses, abi::Stream);
};

/// nvCOMP in this process. Opened by the main thread, used by any; never unloaded, for it may leave
/// work behind for the end of the process.
class Library {
 public:
  static Library& Instance();

  /// Opens the file `path`, or what the loader finds as libnvcomp.so.5 when it is empty. What
  /// failed may be tried again; what is open stays as it is, whatever `path` says.
  OpenReport Open(const std::string& path);
  /// Null until Open() has succeeded.
  const Functions* functions() const;

 private:
  mutable std::mutex mutex_;
  Functions functions_{};
  OpenReport report_;
  bool open_ = false;
};

}  // namespace orbitkv::nvcomp
