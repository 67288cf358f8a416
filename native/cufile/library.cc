#include "cufile/library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <utility>

#include "base/unique_fd.h"

namespace orbitkv::cufile {

namespace {

constexpr const char* kSoname = "libcufile.so.0";
/// 1.14: the first whose parameters can be set by a program.
constexpr int32_t kParametersVersion = 1140;

/// A failing open of some versions closes descriptor 0, and the next open of anybody reuses it.
class StdinGuard {
 public:
  StdinGuard() : copy_(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)) {}
  StdinGuard(const StdinGuard&) = delete;
  StdinGuard& operator=(const StdinGuard&) = delete;
  ~StdinGuard() {
    struct stat status {};
    if (copy_.valid() && fstat(STDIN_FILENO, &status) != 0 && errno == EBADF)
      dup2(copy_.get(), STDIN_FILENO);
  }

 private:
  UniqueFd copy_;
};

/// nvidia-fs knows devices, but no node leads to it (a container without them): an open would fail,
/// and some versions then close descriptor 0.
bool LacksNode() {
  FILE* count = std::fopen("/proc/driver/nvidia-fs/devcount", "re");
  if (count == nullptr) return false;
  int devices = 0;
  const bool read = std::fscanf(count, "%d", &devices) == 1;
  std::fclose(count);
  return read && devices > 0 && access("/dev/nvidia-fs0", F_OK) != 0;
}

template <class Function>
bool Resolve(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

bool ResolveAll(void* library, Functions* f) {
  // The macro of the header names the second version of closing.
  if (!Resolve(library, "cuFileDriverClose_v2", &f->driver_close) &&
      !Resolve(library, "cuFileDriverClose", &f->driver_close))
    return false;
  Resolve(library, "cuFileSetParameterBool", &f->set_bool);
  Resolve(library, "cuFileGetParameterBool", &f->get_bool);
  Resolve(library, "cuFileSetParameterString", &f->set_string);
  return Resolve(library, "cuFileDriverOpen", &f->driver_open) &&
         Resolve(library, "cuFileUseCount", &f->use_count) &&
         Resolve(library, "cuFileDriverGetProperties", &f->get_properties) &&
         Resolve(library, "cuFileGetVersion", &f->get_version) &&
         Resolve(library, "cuFileHandleRegister", &f->handle_register) &&
         Resolve(library, "cuFileHandleDeregister", &f->handle_deregister) &&
         Resolve(library, "cuFileBufRegister", &f->buffer_register) &&
         Resolve(library, "cuFileBufDeregister", &f->buffer_deregister) &&
         Resolve(library, "cuFileStreamRegister", &f->stream_register) &&
         Resolve(library, "cuFileStreamDeregister", &f->stream_deregister) &&
         Resolve(library, "cuFileRead", &f->read) && Resolve(library, "cuFileWrite", &f->write) &&
         Resolve(library, "cuFileReadAsync", &f->read_async) &&
         Resolve(library, "cuFileWriteAsync", &f->write_async);
}

std::string PathOf(const void* symbol) {
  Dl_info found{};
  if (dladdr(symbol, &found) == 0 || found.dli_fname == nullptr) return {};
  char whole[PATH_MAX];
  return realpath(found.dli_fname, whole) != nullptr ? whole : found.dli_fname;
}

OpenReport Refused(OpenReport report, const char* reason, int32_t code = 0) {
  report.reason = reason;
  report.code = code;
  return report;
}

}  // namespace

int CodeOf(abi::Error error) {
  if (error.err == 0) return 0;
  const int32_t code = error.err < 0 ? -error.err : error.err;
  return -code;
}

int32_t ResultOf(ssize_t done, int error) {
  if (done >= 0)
    return done > std::numeric_limits<int32_t>::max() ? -EOVERFLOW : static_cast<int32_t>(done);
  // -1 with a status or an errno beside it, or the negative status itself.
  if (done == -1 && error > 0) return -error;
  return done < std::numeric_limits<int32_t>::min() ? -EIO : static_cast<int32_t>(done);
}

RegisteredFile::~RegisteredFile() {
  if (handle_ != nullptr) Library::Instance().functions().handle_deregister(handle_);
}

Library& Library::Instance() {
  static Library& library = *std::make_unique<Library>().release();  // used until the process ends
  return library;
}

bool Library::open() const {
  const std::lock_guard lock(mutex_);
  return open_;
}

OpenReport Library::Open(const OpenOptions& options) {
  const std::lock_guard lock(mutex_);
  if (open_) {
    // The mode is fixed with the first open: native-only is not had by asking later.
    if (options.native_only && report_.compatible) return Refused(report_, "already-open");
    return report_;
  }
  OpenReport report = Load(options);
  if (report.available()) report = OpenDriver(options, std::move(report));
  if (report.available()) {
    report_ = report;
    open_ = true;
  }
  return report;
}

OpenReport Library::Load(const OpenOptions& options) {
  OpenReport report;
  if (library_ == nullptr) {
    const char* name = options.library.empty() ? kSoname : options.library.c_str();
    void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      const char* error = dlerror();
      report.path = error == nullptr ? name : error;
      return Refused(std::move(report), "no-library");
    }
    report.path = name;
    Functions functions{};
    if (!ResolveAll(library, &functions)) return Refused(std::move(report), "no-symbol");
    functions_ = functions;
    library_ = library;
  }
  report.path = PathOf(reinterpret_cast<const void*>(functions_.driver_open));
  int version = 0;
  if (functions_.get_version(&version).err == 0) report.version = version;
  return report;
}

OpenReport Library::OpenDriver(const OpenOptions& options, OpenReport report) {
  const Functions& f = functions_;
  const bool parameters = report.version >= kParametersVersion && f.set_bool != nullptr &&
                          f.get_bool != nullptr && f.set_string != nullptr;
  if (options.native_only && !parameters) return Refused(std::move(report), "too-old");
  if (options.native_only && f.use_count() != 0) return Refused(std::move(report), "already-open");
  if (LacksNode()) return Refused(std::move(report), "no-node");

  const StdinGuard guard;
  // Staged, then opened, with no other call in between: a failed open forgets what was staged.
  if (parameters) {
    abi::Error staged{};
    if (options.native_only) {
      staged = f.set_bool(abi::kAllowCompatMode, false);
      if (staged.err == 0) staged = f.set_bool(abi::kForceCompatMode, false);
    }
    if (staged.err == 0 && !options.log_folder.empty())
      staged = f.set_string(abi::kLogFolder, options.log_folder.c_str());
    if (staged.err != 0) return Refused(std::move(report), "parameter-refused", staged.err);
  }
  const abi::Error opened = f.driver_open();
  if (opened.err != 0) return Refused(std::move(report), "open-failed", opened.err);

  const auto refuse = [&](const char* reason, int32_t code) {
    f.driver_close();
    return Refused(std::move(report), reason, code);
  };
  abi::DriverProperties properties{};
  const abi::Error known = f.get_properties(&properties);
  if (known.err != 0) return refuse("open-failed", known.err);
  if ((properties.feature_flags >> abi::kStreamsFeature & 1) == 0) return refuse("no-streams", 0);
  bool allow = (properties.control_flags >> abi::kAllowCompatControl & 1) != 0;
  bool force = false;
  if (parameters) {
    const abi::Error read = f.get_bool(abi::kAllowCompatMode, &allow);
    const abi::Error forced = f.get_bool(abi::kForceCompatMode, &force);
    if (read.err != 0 || forced.err != 0)
      return refuse("parameter-refused", read.err != 0 ? read.err : forced.err);
  }
  report.compatible = allow || force;
  if (options.native_only && report.compatible) return refuse("compatible", 0);
  return report;
}

int Library::Close() {
  std::unordered_map<int32_t, std::shared_ptr<RegisteredFile>> files;
  {
    const std::lock_guard lock(mutex_);
    if (!open_) return 0;
    // A slot that is left is one that could not be given back: the driver stays as it is.
    if (slots_ > 0) return -EBUSY;
    for (const auto& [number, file] : files_)
      if (file.use_count() > 1) return -EBUSY;
    files = std::exchange(files_, {});
    open_ = false;
  }
  files.clear();
  return CodeOf(functions_.driver_close());
}

bool Library::AddSlot() {
  const std::lock_guard lock(mutex_);
  if (open_) ++slots_;
  return open_;
}

void Library::RemoveSlot() {
  const std::lock_guard lock(mutex_);
  --slots_;
}

int RegisteredBuffer::Register(void* base, size_t bytes) {
  Library& library = Library::Instance();
  if (!library.AddSlot()) return -ENOTCONN;
  const int code = CodeOf(library.functions().buffer_register(base, bytes, 0));
  if (code != 0)
    library.RemoveSlot();
  else
    base_ = base;
  return code;
}

int RegisteredBuffer::Deregister() {
  if (base_ == nullptr) return 0;
  Library& library = Library::Instance();
  const int code = CodeOf(library.functions().buffer_deregister(base_));
  if (code != 0) return code;
  base_ = nullptr;
  library.RemoveSlot();
  return 0;
}

int Library::Register(int32_t number) {
  const auto file = Files().Find(number);
  if (file == nullptr) return -EBADF;
  const std::lock_guard lock(mutex_);
  if (!open_) return -ENOTCONN;
  if (files_.contains(number)) return 0;
  abi::Descriptor descriptor{};
  descriptor.type = abi::kPosixDescriptor;
  descriptor.fd = file->fd.get();
  auto registered = std::make_shared<RegisteredFile>(file);
  const auto place = files_.emplace(number, registered).first;
  const abi::Error error = functions_.handle_register(&registered->handle_, &descriptor);
  if (error.err != 0) files_.erase(place);
  return CodeOf(error);
}

std::shared_ptr<RegisteredFile> Library::Find(int32_t number) const {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(number);
  return found == files_.end() ? nullptr : found->second;
}

}  // namespace orbitkv::cufile
