#include <cerrno>
#include <utility>

#include "base/keep_for_ever.h"
#include "cuda/cuda_device.h"
#include "cuda/cuda_stream.h"
#include "cufile/staging.h"
#include "device/jobs.h"

namespace orbitkv::cufile {

namespace {

/// What the library reads when the stream reaches the transfer, and where it leaves the count.
struct Words {
  size_t size;
  off_t file_offset;
  off_t staging_offset;
  ssize_t done;
};

/// Memory of a CUDA device that cuFile has registered, and a stream that it has registered too:
/// gather, transfer and checksum are queued at once and end behind one fence.
class CudaStaging : public Staging {
 public:
  CudaStaging(const CudaStaging&) = delete;
  CudaStaging& operator=(const CudaStaging&) = delete;
  CudaStaging(std::shared_ptr<Pool> memory, std::unique_ptr<cuda::CudaStream> stream)
      : memory_(std::move(memory)), words_(std::make_shared<Words>()), stream_(std::move(stream)) {}

  ~CudaStaging() override {
    if (Deregister() == 0) return;
    // Memory that the library will not let go of may not be freed under it, nor the stream.
    KeepForEver(std::shared_ptr<cuda::CudaStream>(std::move(stream_)));
    KeepForEver(memory_);
  }

  int Register() {
    const int code = buffer_.Register(memory_->base(), memory_->bytes());
    if (code != 0) return code;
    const Functions& f = Library::Instance().functions();
    const int of_stream =
        CodeOf(f.stream_register(stream_->pointer(), abi::kStreamAllFixedAndAligned));
    stream_registered_ = of_stream == 0;
    return of_stream;
  }

  /// The stream first: it is what the library may still use the buffer on.
  int Deregister() override {
    if (!buffer_.registered()) return 0;
    stream_->device().MakeCurrent();
    if (stream_registered_) {
      const int of_stream =
          CodeOf(Library::Instance().functions().stream_deregister(stream_->pointer()));
      if (of_stream != 0) return of_stream;
      stream_registered_ = false;
    }
    return buffer_.Deregister();
  }

  int Read(int32_t tag, std::shared_ptr<RegisteredFile> file, const Extent& extent,
           std::span<const double> checks, size_t result_base) override {
    if (!IsWhole(extent, file->file().bytes, memory_->bytes())) return -EINVAL;
    cuda::ForeignJob job = Transfer(tag, std::move(file), extent, false);
    if (!checks.empty()) {
      const std::vector<double> copy(checks.begin(), checks.end());
      ChecksumJob sums;
      const int decoded = DecodeChecksums(copy, memory_, &sums);
      if (decoded != 0) return decoded;
      job.after = std::move(sums.steps);
      job.result_base = result_base;
    }
    return Submit(std::move(job));
  }

  int Write(int32_t tag, std::shared_ptr<RegisteredFile> file, const Extent& extent,
            uint64_t zero_from, std::span<const double> copies, const HeldWrite& codes) override {
    const uint64_t end = extent.staging_offset + extent.bytes;
    if (!IsWhole(extent, file->file().bytes, memory_->bytes()) || zero_from > end) return -EINVAL;
    cuda::ForeignJob job = Transfer(tag, std::move(file), extent, true);
    if (!copies.empty()) {
      const std::vector<double> copy(copies.begin(), copies.end());
      CopyJob gather;
      const int decoded = DecodeCopies(copy, memory_, stream_->device().ordinal(), &gather);
      if (decoded != 0) return decoded;
      job.before = cuda::PlanCopy(gather, CopyDirection::kPagesToPool);
      job.bytes += gather.bytes;
      job.holds.insert(job.holds.end(), gather.templates.begin(), gather.templates.end());
    }
    if (!codes.triples.empty())
      if (const int refused = Gather(codes, &job); refused != 0) return refused;
    if (zero_from < end)
      job.before.push_back(
          {reinterpret_cast<uint64_t>(memory_->base()) + zero_from, 0, end - zero_from});
    return Submit(std::move(job));
  }

  int Copy(int32_t tag, CopyDirection direction, std::span<const double> descriptors) override {
    return stream_->Copy(tag, direction, descriptors);
  }
  int Checksum(int32_t tag, std::span<const double> descriptors, size_t result_base) override {
    return stream_->Checksum(tag, descriptors, result_base);
  }
  int Encode(int32_t tag, std::span<const double> descriptors, size_t result_base) override {
    return stream_->Encode(tag, descriptors, result_base);
  }
  int Decode(int32_t tag, std::span<const double> descriptors, size_t result_base) override {
    return stream_->Decode(tag, descriptors, result_base);
  }
  CodecWorkspace codec_workspace() const override { return stream_->codec_workspace(); }
  int ReleaseCodecWorkspace() override { return stream_->ReleaseCodecWorkspace(); }
  StreamReport report() const override { return stream_->report(); }
  size_t in_flight() const override { return stream_->in_flight(); }
  bool Drain(int64_t deadline_us) override { return stream_->Drain(deadline_us); }
  int Record(Event& event) override { return stream_->Record(event); }
  int Wait(const Event& event) override { return stream_->Wait(event); }
  void Poll() override { stream_->Poll(); }
  int64_t NextEndUs() const override { return stream_->NextEndUs(); }
  void WakeAtEnds() override { stream_->WakeAtEnds(); }
  void Cancel() override { stream_->Cancel(); }
  void Detach() override { stream_->Detach(); }

 private:
  /// Codings go to their places in the slot, zeroes behind them up to the next sector. The job
  /// holds them until it has ended.
  int Gather(const HeldWrite& codes, cuda::ForeignJob* job) {
    if (codes.held == nullptr) return -EINVAL;
    if (codes.held->device != stream_->device().ordinal()) return -EXDEV;
    const std::vector<double> copy(codes.triples.begin(), codes.triples.end());
    std::vector<HeldStep> steps;
    const int decoded = DecodeHeld(copy, *codes.held, memory_->bytes(), &steps);
    if (decoded != 0) return decoded;
    for (const HeldStep& step : steps) {
      const uint64_t to = reinterpret_cast<uint64_t>(memory_->base()) + step.slot_offset;
      const uint64_t bytes = step.code.bytes;
      job->before.push_back({to, step.code.address, bytes});
      if (const uint64_t zeroes = AlignCoded(bytes) - bytes; zeroes > 0)
        job->before.push_back({to + bytes, 0, zeroes});
      job->bytes += bytes;
    }
    job->holds.push_back(codes.held);
    return 0;
  }

  cuda::ForeignJob Transfer(int32_t tag, std::shared_ptr<RegisteredFile> file, const Extent& extent,
                            bool write) {
    cuda::ForeignJob job;
    job.tag = tag;
    job.bytes = extent.bytes;
    job.holds = {file, words_, memory_};
    job.enqueue = [words = words_, memory = memory_, file, extent,
                   write](cuda::StreamPointer stream) {
      *words = {extent.bytes, static_cast<off_t>(extent.file_offset),
                static_cast<off_t>(extent.staging_offset), 0};
      const Functions& f = Library::Instance().functions();
      const auto transfer = write ? f.write_async : f.read_async;
      return CodeOf(transfer(file->handle(), memory->base(), &words->size, &words->file_offset,
                             &words->staging_offset, &words->done, stream));
    };
    // Nothing says which errno a -1 in the word stands for.
    job.result = [words = words_] { return ResultOf(words->done, 0); };
    return job;
  }

  /// The words are those of one transfer: the next waits until it has ended.
  int Submit(cuda::ForeignJob job) {
    if (stream_->in_flight() > 0) return -EBUSY;
    return stream_->Submit(std::move(job));
  }

  std::shared_ptr<Pool> memory_;
  std::shared_ptr<Words> words_;
  RegisteredBuffer buffer_;
  bool stream_registered_ = false;
  std::unique_ptr<cuda::CudaStream> stream_;  // after what its jobs name
};

}  // namespace

std::unique_ptr<Staging> OpenCudaStaging(int32_t ordinal, StreamContext context, uint64_t bytes,
                                         const StreamOptions& options, int* code) {
  if (!Library::Instance().open()) {
    *code = -ENOTCONN;
    return nullptr;
  }
  cuda::CudaDevice& device = cuda::DeviceAt(ordinal);
  device.Enter();
  cuda::DeviceAddress address = 0;
  auto backing = device.Allocate(bytes, &address);
  context.pool =
      Pool::OnDevice(reinterpret_cast<std::byte*>(address), bytes, ordinal, std::move(backing));
  auto memory = context.pool;
  auto staging = std::make_unique<CudaStaging>(std::move(memory),
                                               device.OpenCudaStream(std::move(context), options));
  *code = staging->Register();
  if (*code != 0) return nullptr;
  return staging;
}

}  // namespace orbitkv::cufile
