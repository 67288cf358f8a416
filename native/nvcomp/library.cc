#include "nvcomp/library.h"

#include <dlfcn.h>

#include <climits>
#include <cstdlib>
#include <memory>
#include <utility>

namespace orbitkv::nvcomp {

namespace {

constexpr const char* kSoname = "libnvcomp.so.5";
/// 5.3 and its patches. What another version writes need not be what this one reads, and the
/// storage namespace names 5.3.
constexpr uint32_t kVersionMin = 5300;
constexpr uint32_t kVersionMax = 5399;

template <class Function>
bool Resolve(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

bool ResolveAll(void* library, Functions* f) {
  return Resolve(library, "nvcompBatchedANSCompressGetTempSizeAsync", &f->compress_temp_bytes) &&
         Resolve(library, "nvcompBatchedANSCompressGetMaxOutputChunkSize",
                 &f->compress_output_bytes_max) &&
         Resolve(library, "nvcompBatchedANSCompressAsync", &f->compress) &&
         Resolve(library, "nvcompBatchedANSDecompressGetTempSizeAsync",
                 &f->decompress_temp_bytes) &&
         Resolve(library, "nvcompBatchedANSDecompressAsync", &f->decompress);
}

std::string PathOf(const void* symbol) {
  Dl_info found{};
  if (dladdr(symbol, &found) == 0 || found.dli_fname == nullptr) return {};
  char whole[PATH_MAX];
  return realpath(found.dli_fname, whole) != nullptr ? whole : found.dli_fname;
}

OpenReport Refused(OpenReport report, const char* reason) {
  report.reason = reason;
  return report;
}

/// Asks for the version before anything else: a library of another version lacks, or has with
/// other arguments, what is called of this one.
OpenReport Load(const std::string& path, Functions* functions) {
  OpenReport report;
  const char* name = path.empty() ? kSoname : path.c_str();
  report.path = name;
  void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    if (const char* error = dlerror(); error != nullptr) report.path = error;
    return Refused(std::move(report), "no-library");
  }
  if (!Resolve(library, "nvcompGetProperties", &functions->get_properties))
    return Refused(std::move(report), "no-symbol");
  report.path = PathOf(reinterpret_cast<const void*>(functions->get_properties));
  abi::Properties properties{};
  if (functions->get_properties(&properties) == abi::kOk)
    report.version = static_cast<int32_t>(properties.version);
  if (properties.version < kVersionMin || properties.version > kVersionMax)
    return Refused(std::move(report), "wrong-version");
  if (!ResolveAll(library, functions)) return Refused(std::move(report), "no-symbol");
  return report;
}

}  // namespace

Library& Library::Instance() {
  static Library& library = *std::make_unique<Library>().release();  // used until the process ends
  return library;
}

OpenReport Library::Open(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (open_) return report_;
  OpenReport report = Load(path, &functions_);
  if (report.available()) {
    report_ = report;
    open_ = true;
  }
  return report;
}

const Functions* Library::functions() const {
  const std::lock_guard lock(mutex_);
  return open_ ? &functions_ : nullptr;
}

}  // namespace orbitkv::nvcomp
