#include "cuda/kernel_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>

#include "base/unique_fd.h"
#include "codec/crc32.h"

namespace orbitkv::cuda {
namespace {

/// First bytes of a file; the image follows.
struct Header {
  char magic[8];
  uint64_t bytes;
  uint32_t crc;
  uint32_t unused;
};
static_assert(sizeof(Header) == 24);
constexpr char kMagic[] = "ORBKERN1";
/// More is no kernel of ours.
constexpr uint64_t kImageBytesMax = 64 << 20;

uint32_t ChecksumOf(const std::string& image) { return crc32(0, image.data(), image.size()); }

bool ReadAll(int fd, void* into, size_t bytes) {
  auto* at = static_cast<char*>(into);
  while (bytes > 0) {
    const ssize_t count = ::read(fd, at, bytes);
    if (count <= 0) return false;
    at += count;
    bytes -= static_cast<size_t>(count);
  }
  return true;
}

bool WriteAll(int fd, const void* from, size_t bytes) {
  auto* at = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t count = ::write(fd, at, bytes);
    if (count <= 0) return false;
    at += count;
    bytes -= static_cast<size_t>(count);
  }
  return true;
}

std::string Wanted() {
  const auto absolute = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value != nullptr && *value == '/' ? value : "";
  };
  if (const auto given = absolute("ORBITKV_KERNEL_CACHE"); !given.empty()) return given;
  if (const auto cache = absolute("XDG_CACHE_HOME"); !cache.empty())
    return cache + "/orbitkv/kernels";
  if (const auto home = absolute("HOME"); !home.empty()) return home + "/.cache/orbitkv/kernels";
  return "";
}

/// Makes every missing folder of a path, for this user alone.
void MakeFolders(const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != path.npos; slash = path.find('/', slash + 1))
    mkdir(path.substr(0, slash).c_str(), 0700);
  mkdir(path.c_str(), 0700);
}

/// A real folder that nobody else can write.
bool IsPrivate(const std::string& folder) {
  struct stat found;
  return lstat(folder.c_str(), &found) == 0 && S_ISDIR(found.st_mode) &&
         found.st_uid == geteuid() && (found.st_mode & 022) == 0;
}

}  // namespace

KernelCache KernelCache::Open() {
  const std::string folder = Wanted();
  if (folder.empty()) return KernelCache("");
  MakeFolders(folder);
  return KernelCache(IsPrivate(folder) ? folder : "");
}

std::string KernelCache::PathOf(const std::string& name) const {
  return folder_.empty() ? "" : folder_ + "/" + name + ".kernel";
}

std::optional<std::string> KernelCache::Read(const std::string& name) const {
  if (folder_.empty()) return std::nullopt;
  const UniqueFd file(::open(PathOf(name).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file.valid()) return std::nullopt;
  Header header;
  std::string image;
  const bool sound = ReadAll(file.get(), &header, sizeof header) &&
                     std::memcmp(header.magic, kMagic, sizeof header.magic) == 0 &&
                     header.bytes > 0 && header.bytes <= kImageBytesMax;
  if (sound) image.resize(header.bytes);
  if (sound && ReadAll(file.get(), image.data(), image.size()) && ChecksumOf(image) == header.crc)
    return image;
  Remove(name);
  return std::nullopt;
}

void KernelCache::Write(const std::string& name, const std::string& image) const {
  if (folder_.empty() || image.empty()) return;
  std::string temporary = folder_ + "/.new-XXXXXX";
  const UniqueFd file(::mkostemp(temporary.data(), O_CLOEXEC));  // 0600
  if (!file.valid()) return;
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof header.magic);
  header.bytes = image.size();
  header.crc = ChecksumOf(image);
  const bool whole = WriteAll(file.get(), &header, sizeof header) &&
                     WriteAll(file.get(), image.data(), image.size());
  if (!whole || ::rename(temporary.c_str(), PathOf(name).c_str()) != 0) ::unlink(temporary.c_str());
}

void KernelCache::RemoveFile(const std::string& path) {
  if (!path.empty()) ::unlink(path.c_str());
}

}  // namespace orbitkv::cuda
