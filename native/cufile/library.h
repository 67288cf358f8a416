#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "cufile/abi.h"
#include "files/shard_file.h"

namespace orbitkv::cufile {

/// As CuFileOptions in src/binding/cufile.ts.
struct OpenOptions {
  std::string library;
  bool native_only;
  std::string log_folder;
};

/// As CuFileReport in src/binding/cufile.ts.
struct OpenReport {
  const char* reason = "ok";
  int32_t code = 0;
  int32_t version = 0;
  std::string path;
  bool compatible = false;
  bool available() const { return std::string_view(reason) == "ok"; }
};

/// The functions of the library that are called. Resolved all at once, before the first call.
struct Functions {
  abi::Error (*driver_open)();
  abi::Error (*driver_close)();
  long (*use_count)();
  abi::Error (*get_properties)(abi::DriverProperties*);
  abi::Error (*get_version)(int*);
  abi::Error (*handle_register)(abi::Handle*, abi::Descriptor*);
  void (*handle_deregister)(abi::Handle);
  abi::Error (*buffer_register)(const void*, size_t, int);
  abi::Error (*buffer_deregister)(const void*);
  abi::Error (*stream_register)(abi::StreamHandle, unsigned);
  abi::Error (*stream_deregister)(abi::StreamHandle);
  ssize_t (*read)(abi::Handle, void*, size_t, off_t, off_t);
  ssize_t (*write)(abi::Handle, const void*, size_t, off_t, off_t);
  abi::Error (*read_async)(abi::Handle, void*, size_t*, off_t*, off_t*, ssize_t*,
                           abi::StreamHandle);
  abi::Error (*write_async)(abi::Handle, void*, size_t*, off_t*, off_t*, ssize_t*,
                            abi::StreamHandle);
  // Since 1.14; null before.
  abi::Error (*set_bool)(int32_t, bool);
  abi::Error (*get_bool)(int32_t, bool*);
  abi::Error (*set_string)(int32_t, const char*);
};

/// One shard as cuFile knows it. Whoever has I/O of it in flight holds this; deregistered when the
/// last lets go, before the descriptor closes.
class RegisteredFile {
 public:
  explicit RegisteredFile(std::shared_ptr<ShardFile> file) : file_(std::move(file)) {}
  RegisteredFile(const RegisteredFile&) = delete;
  RegisteredFile& operator=(const RegisteredFile&) = delete;
  ~RegisteredFile();

  abi::Handle handle() const { return handle_; }
  const ShardFile& file() const { return *file_; }

 private:
  friend class Library;
  abi::Handle handle_ = nullptr;  // until the library has taken the file
  std::shared_ptr<ShardFile> file_;
};

/// cuFile in this process: one library, one driver. Opened and closed by the main thread, used by
/// any. The library is never unloaded: it leaves work behind for the end of the process.
class Library {
 public:
  static Library& Instance();

  /// Loads the library and opens its driver. What failed may be tried again; what is open stays as
  /// it is.
  OpenReport Open(const OpenOptions& options);
  /// Forgets the files, then closes the driver. 0, -EBUSY while I/O holds a file or a slot is
  /// registered, or minus a cuFile status.
  int Close();
  bool open() const;
  /// Only while open.
  const Functions& functions() const { return functions_; }

  /// A slot that is about to be registered keeps the driver open. False when it is not open.
  bool AddSlot();
  void RemoveSlot();

  /// 0, -EBADF, -ENOTCONN (cuFile is not open) or minus a cuFile status.
  int Register(int32_t file);
  /// Null when the file is not registered.
  std::shared_ptr<RegisteredFile> Find(int32_t file) const;

 private:
  OpenReport Load(const OpenOptions& options);
  OpenReport OpenDriver(const OpenOptions& options, OpenReport report);

  mutable std::mutex mutex_;
  Functions functions_{};
  void* library_ = nullptr;
  OpenReport report_;
  bool open_ = false;
  size_t slots_ = 0;
  std::unordered_map<int32_t, std::shared_ptr<RegisteredFile>> files_;
};

/// Memory that the library knows; as long as it does, the driver stays open. Whoever has one
/// deregisters it before the memory goes.
class RegisteredBuffer {
 public:
  RegisteredBuffer() = default;
  RegisteredBuffer(const RegisteredBuffer&) = delete;
  RegisteredBuffer& operator=(const RegisteredBuffer&) = delete;

  bool registered() const { return base_ != nullptr; }
  /// 0, -ENOTCONN (cuFile is not open) or minus a cuFile status.
  int Register(void* base, size_t bytes);
  /// 0, also when it is not registered, or minus a cuFile status.
  int Deregister();

 private:
  void* base_ = nullptr;
};

/// Minus the status, or minus an errno that hides in it; 0 for success.
int CodeOf(abi::Error error);
/// What an operation left in its result word: bytes, -errno or minus a cuFile status.
int32_t ResultOf(ssize_t done, int error);

}  // namespace orbitkv::cufile
