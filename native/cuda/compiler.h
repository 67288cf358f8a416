#pragma once

#include <string>
#include <vector>

namespace orbitkv::cuda {

/// NVRTC, opened at run time.
struct CompilerState {
  bool available = false;
  std::string reason;
  std::string library;
  /// major * 1000 + minor * 10.
  int version = 0;
};

/// Loaded at the first call, kept for ever. `driver_version` as cuDriverGetVersion: what a newer
/// compiler emits, an older driver may refuse, so its own major version is tried first; 0 for none.
const CompilerState& TheCompiler(int driver_version = 0);

/// One program: its name stands in its text.
struct KernelSource {
  std::string name;
  std::string text;
};

/// All programs of this build.
const std::vector<KernelSource>& KernelSources();

struct CompiledKernel {
  std::string image;
  /// It came from the cache.
  bool cached = false;
  /// Where it is kept; empty when there is no cache to keep it in.
  std::string cache_path;
};

/// Compiles for an architecture (90 for 9.0), or takes what the cache has for this source, options,
/// compiler and architecture. Throws SystemError: ENODEV without a compiler, EINVAL with its log.
CompiledKernel Compile(const KernelSource& kernel, int architecture);

/// An absolute path in this variable is opened in the place of libnvrtc.
inline constexpr const char* kCompilerOverride = "ORBITKV_LIBNVRTC";

}  // namespace orbitkv::cuda
