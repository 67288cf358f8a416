#pragma once

#include <optional>
#include <string>

namespace orbitkv::cuda {

/// Compiled kernels on disk, in a folder of this user alone: what is read here runs on the device.
/// Every file is whole or not there, and is checked again when it is read. A folder that cannot be
/// used, or that others could write, is not used: then nothing is kept.
class KernelCache {
 public:
  /// ORBITKV_KERNEL_CACHE (an absolute path), or orbitkv/kernels under XDG_CACHE_HOME or
  /// HOME/.cache.
  static KernelCache Open();

  /// Nothing when it is not there or not whole (then it is removed).
  std::optional<std::string> Read(const std::string& name) const;
  /// Best effort: a cache that cannot be written is none.
  void Write(const std::string& name, const std::string& image) const;
  void Remove(const std::string& name) const { RemoveFile(PathOf(name)); }
  /// A path of PathOf().
  static void RemoveFile(const std::string& path);
  /// Empty without a cache.
  std::string PathOf(const std::string& name) const;

 private:
  explicit KernelCache(std::string folder) : folder_(std::move(folder)) {}
  std::string folder_;  // empty: none
};

}  // namespace orbitkv::cuda
