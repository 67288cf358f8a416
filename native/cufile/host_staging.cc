#include <cerrno>
#include <cstring>
#include <utility>

#include "base/keep_for_ever.h"
#include "cufile/staging.h"
#include "host/host_stream.h"

namespace orbitkv::cufile {

namespace {

constexpr uint64_t kPageBytes = 4096;

/// The stream's own thread makes the library's blocking calls, in the order of the stream.
class HostStaging : public Staging {
 public:
  HostStaging(StreamContext context, std::shared_ptr<Pool> memory)
      : memory_(std::move(memory)),
        stream_(StreamContext{std::move(context.sink), memory_, context.results}) {}

  int Read(int32_t tag, std::shared_ptr<RegisteredFile> file, const Extent& extent,
           std::span<const double> checks, size_t result_base) override {
    if (!IsWhole(extent, file->file().bytes, memory_->bytes())) return -EINVAL;
    return stream_.Transfer(
        tag, {}, checks, result_base, [file = std::move(file), extent, memory = memory_] {
          errno = 0;
          const ssize_t done = Library::Instance().functions().read(
              file->handle(), memory->base(), extent.bytes, static_cast<off_t>(extent.file_offset),
              static_cast<off_t>(extent.staging_offset));
          return ResultOf(done, errno);
        });
  }

  int Write(int32_t tag, std::shared_ptr<RegisteredFile> file, const Extent& extent,
            uint64_t zero_from, std::span<const double> copies, const HeldWrite& codes) override {
    if (!codes.triples.empty()) return -EOPNOTSUPP;
    const uint64_t end = extent.staging_offset + extent.bytes;
    if (!IsWhole(extent, file->file().bytes, memory_->bytes()) || zero_from > end) return -EINVAL;
    return stream_.Transfer(
        tag, copies, {}, 0, [file = std::move(file), extent, zero_from, end, memory = memory_] {
          std::memset(memory->base() + zero_from, 0, end - zero_from);
          errno = 0;
          const ssize_t done = Library::Instance().functions().write(
              file->handle(), memory->base(), extent.bytes, static_cast<off_t>(extent.file_offset),
              static_cast<off_t>(extent.staging_offset));
          return ResultOf(done, errno);
        });
  }

  HostStaging(const HostStaging&) = delete;
  HostStaging& operator=(const HostStaging&) = delete;
  ~HostStaging() override {
    // Memory that the library will not let go of may not be unmapped under it.
    if (Deregister() != 0) KeepForEver(memory_);
  }

  int Register() { return buffer_.Register(memory_->base(), memory_->bytes()); }
  int Deregister() override { return buffer_.Deregister(); }

  int Copy(int32_t tag, CopyDirection direction, std::span<const double> descriptors) override {
    return stream_.Copy(tag, direction, descriptors);
  }
  int Checksum(int32_t tag, std::span<const double> descriptors, size_t result_base) override {
    return stream_.Checksum(tag, descriptors, result_base);
  }
  int Encode(int32_t tag, std::span<const double> descriptors, size_t result_base) override {
    return stream_.Encode(tag, descriptors, result_base);
  }
  int Decode(int32_t tag, std::span<const double> descriptors, size_t result_base) override {
    return stream_.Decode(tag, descriptors, result_base);
  }
  int Record(Event& event) override { return stream_.Record(event); }
  int Wait(const Event& event) override { return stream_.Wait(event); }
  void Cancel() override { stream_.Cancel(); }
  void Detach() override { stream_.Detach(); }
  size_t in_flight() const override { return stream_.in_flight(); }
  bool Drain(int64_t deadline_us) override { return stream_.Drain(deadline_us); }

 private:
  std::shared_ptr<Pool> memory_;
  RegisteredBuffer buffer_;
  HostStream stream_;  // after what its jobs name
};

}  // namespace

bool IsWhole(const Extent& extent, uint64_t file_bytes, uint64_t slot_bytes) {
  const auto whole = [](uint64_t number) { return number % kPageBytes == 0; };
  return extent.bytes > 0 && whole(extent.bytes) && whole(extent.file_offset) &&
         whole(extent.staging_offset) && extent.bytes <= slot_bytes &&
         extent.staging_offset <= slot_bytes - extent.bytes && extent.bytes <= file_bytes &&
         extent.file_offset <= file_bytes - extent.bytes;
}

std::unique_ptr<Staging> OpenHostStaging(StreamContext context, uint64_t bytes, int* code) {
  if (!Library::Instance().open()) {
    *code = -ENOTCONN;
    return nullptr;
  }
  auto memory = Pool::Open(bytes, PoolPages::kOrdinary);
  auto staging = std::make_unique<HostStaging>(std::move(context), std::move(memory));
  *code = staging->Register();
  if (*code != 0) return nullptr;
  return staging;
}

}  // namespace orbitkv::cufile
