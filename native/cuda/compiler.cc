#include "cuda/compiler.h"

#include <dlfcn.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>

#include "base/sha256.h"
#include "base/system_error.h"
#include "cuda/devices.h"
#include "cuda/kernel_cache.h"
#include "kernels/code_source.h"
#include "kernels/crc32_source.h"
#include "kernels/crc32_tables_source.h"
#include "kernels/fp8_source.h"
#include "kernels/move_source.h"
#include "kernels/turboquant_source.h"
#include "shim/library.h"

namespace orbitkv::cuda {
namespace {

using NvrtcResult = int;
struct ProgramRecord;
using Program = ProgramRecord*;

#define ORBITKV_NVRTC_FUNCTIONS(X)                                                     \
  X(nvrtcVersion, (int*, int*))                                                        \
  X(nvrtcGetNumSupportedArchs, (int*))                                                 \
  X(nvrtcGetSupportedArchs, (int*))                                                    \
  X(nvrtcCreateProgram,                                                                \
    (Program*, const char*, const char*, int, const char* const*, const char* const*)) \
  X(nvrtcCompileProgram, (Program, int, const char* const*))                           \
  X(nvrtcGetProgramLogSize, (Program, size_t*))                                        \
  X(nvrtcGetProgramLog, (Program, char*))                                              \
  X(nvrtcGetCUBINSize, (Program, size_t*))                                             \
  X(nvrtcGetCUBIN, (Program, char*))                                                   \
  X(nvrtcGetPTXSize, (Program, size_t*))                                               \
  X(nvrtcGetPTX, (Program, char*))                                                     \
  X(nvrtcDestroyProgram, (Program*))

struct Compiler : CompilerState {
#define ORBITKV_DECLARE(name, arguments) NvrtcResult(*name) arguments = nullptr;
  ORBITKV_NVRTC_FUNCTIONS(ORBITKV_DECLARE)
#undef ORBITKV_DECLARE
  std::vector<int> architectures;
};

/// Names and places of libnvrtc, the driver's own major version first.
std::vector<std::string> Candidates(int driver_version) {
  std::vector<std::string> majors = {"13", "12"};
  if (driver_version > 0 && driver_version < 13000) std::swap(majors[0], majors[1]);
  std::vector<std::string> roots = {"/usr/local/cuda", "/usr/local/cuda-*", "/opt/cuda"};
  for (const char* name : {"CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX"})
    if (const char* root = std::getenv(name); root != nullptr && *root == '/')
      roots.insert(roots.begin(), root);
  std::vector<std::string> paths;
  for (const std::string& major : majors) {
    const std::string file = "libnvrtc.so." + major;
    paths.push_back(file);
    for (const std::string& root : roots)
      for (const char* folder : {"/lib64/", "/targets/x86_64-linux/lib/", "/lib/"})
        for (const std::string& path : shim::Matches(root + folder + file)) paths.push_back(path);
  }
  return paths;
}

/// libnvrtc finds its builtins by name and has no path of its own: one that was opened by path
/// fails every compilation unless the builtins beside it are open already.
void OpenBuiltins(const std::string& library) {
  const size_t slash = library.rfind('/');
  if (slash == library.npos) return;
  for (const std::string& path :
       shim::Matches(library.substr(0, slash) + "/libnvrtc-builtins.so.[0-9]*"))
    if (path.find(".alt.") == path.npos) dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
}

Compiler* MakeCompiler(int driver_version) {
  auto compiler = std::make_unique<Compiler>();
  const shim::Library library = shim::OpenLibrary(kCompilerOverride, Candidates(driver_version));
  if (library.handle == nullptr) {
    compiler->reason = "Cannot open the run-time compiler: " + library.reason;
    return compiler.release();
  }
  compiler->library = library.path;
#define ORBITKV_FIND(name, arguments)                                                 \
  compiler->name = reinterpret_cast<decltype(compiler->name)>(library.Symbol(#name)); \
  if (compiler->name == nullptr) {                                                    \
    compiler->reason = library.path + " has no " #name;                               \
    return compiler.release();                                                        \
  }
  ORBITKV_NVRTC_FUNCTIONS(ORBITKV_FIND)
#undef ORBITKV_FIND
  OpenBuiltins(library.path);
  int major = 0, minor = 0, count = 0;
  // The version is part of a kernel's name in the cache: without it nothing may be kept.
  if (compiler->nvrtcVersion(&major, &minor) != 0) {
    compiler->reason = library.path + " does not say its version";
    return compiler.release();
  }
  compiler->version = major * 1000 + minor * 10;
  if (compiler->nvrtcGetNumSupportedArchs(&count) != 0 || count < 0) count = 0;
  compiler->architectures.resize(static_cast<size_t>(count));
  compiler->available =
      count > 0 && compiler->nvrtcGetSupportedArchs(compiler->architectures.data()) == 0;
  if (!compiler->available) compiler->reason = library.path + " names no architecture";
  return compiler.release();
}

const Compiler& Instance(int driver_version) {
  static const Compiler& compiler = *MakeCompiler(driver_version);  // used until the process ends
  return compiler;
}

/// Machine code for an architecture that the compiler knows; for a later one, code that the driver
/// translates.
std::string ArchitectureOption(const Compiler& compiler, int architecture) {
  const auto& known = compiler.architectures;
  if (std::find(known.begin(), known.end(), architecture) != known.end())
    return "--gpu-architecture=sm_" + std::to_string(architecture);
  int best = 0;
  for (const int each : known)
    if (each <= architecture) best = std::max(best, each);
  if (best == 0)
    throw SystemError(ENODEV, "Cannot compile kernels for architecture " +
                                  std::to_string(architecture) + ": " + compiler.library +
                                  " knows none so old");
  return "--gpu-architecture=compute_" + std::to_string(best);
}

std::vector<KernelSource> MakeSources() {
  const std::string common = kernels::kCodeSource;
  std::vector<KernelSource> sources = {
      {"orbitkv_move", kernels::kMoveSource},
      {"orbitkv_crc32", std::string(kernels::kCrc32TablesSource) + kernels::kCrc32Source},
      {"orbitkv_fp8", kernels::kCrc32TablesSource + common + kernels::kFp8Source},
  };
  for (const char* head_dim : {"32", "64", "128", "256"}) {
    for (const char* bits : {"3", "4"}) {
      std::string name = "orbitkv_turboquant_";
      name.append(head_dim).append("_").append(bits);
      std::string text = "// ";
      text.append(name).append("\n#define HEAD_DIM ").append(head_dim);
      text.append("\n#define BITS ").append(bits).append("\n").append(common);
      sources.push_back({std::move(name), text.append(kernels::kTurboquantSource)});
    }
  }
  return sources;
}

std::string Run(const Compiler& compiler, const KernelSource& kernel,
                const std::vector<const char*>& options, bool translated) {
  Program program = nullptr;
  if (compiler.nvrtcCreateProgram(&program, kernel.text.c_str(), kernel.name.c_str(), 0, nullptr,
                                  nullptr) != 0)
    throw SystemError(EINVAL, "Cannot begin to compile kernel " + kernel.name);
  const auto destroy = [&compiler](Program* made) { compiler.nvrtcDestroyProgram(made); };
  const std::unique_ptr<Program, decltype(destroy)> ends(&program, destroy);
  const NvrtcResult result =
      compiler.nvrtcCompileProgram(program, static_cast<int>(options.size()), options.data());
  if (result != 0) {
    size_t size = 0;
    compiler.nvrtcGetProgramLogSize(program, &size);
    std::string log(size, '\0');
    if (size > 0) compiler.nvrtcGetProgramLog(program, log.data());
    throw SystemError(EINVAL, "Cannot compile kernel " + kernel.name + " (result " +
                                  std::to_string(result) + "): " + log.c_str());
  }
  size_t size = 0;
  NvrtcResult given =
      (translated ? compiler.nvrtcGetPTXSize : compiler.nvrtcGetCUBINSize)(program, &size);
  std::string image(given == 0 ? size : 0, '\0');
  if (!image.empty())
    given = (translated ? compiler.nvrtcGetPTX : compiler.nvrtcGetCUBIN)(program, image.data());
  if (given != 0 || image.empty())
    throw SystemError(EIO, "Cannot take the code of kernel " + kernel.name +
                               " from the compiler (result " + std::to_string(given) + ")");
  return image;
}

}  // namespace

const CompilerState& TheCompiler(int driver_version) { return Instance(driver_version); }

const std::vector<KernelSource>& KernelSources() {
  static const std::vector<KernelSource>& sources =
      *std::make_unique<std::vector<KernelSource>>(MakeSources()).release();
  return sources;
}

std::vector<KernelReport> CompileKernels(int32_t architecture) {
  std::vector<KernelReport> reports;
  for (const KernelSource& kernel : KernelSources()) {
    const CompiledKernel compiled = Compile(kernel, architecture);
    reports.push_back({kernel.name, compiled.image.size(), compiled.cached});
  }
  return reports;
}

CompiledKernel Compile(const KernelSource& kernel, int architecture) {
  const Compiler& compiler = Instance(0);
  if (!compiler.available) throw SystemError(ENODEV, compiler.reason);
  const std::string target = ArchitectureOption(compiler, architecture);
  const std::vector<const char*> options = {target.c_str(), "--std=c++17"};
  std::string key = kernel.text + '\n' + std::to_string(compiler.version);
  for (const char* option : options) key += std::string("\n") + option;
  const std::string name = Sha256Hex(key);

  CompiledKernel compiled;
  const KernelCache cache = KernelCache::Open();
  compiled.cache_path = cache.PathOf(name);
  if (auto kept = cache.Read(name)) {
    compiled.image = std::move(*kept);
    compiled.cached = true;
    return compiled;
  }
  compiled.image = Run(compiler, kernel, options, target.find("compute_") != std::string::npos);
  cache.Write(name, compiled.image);
  return compiled;
}

}  // namespace orbitkv::cuda
