#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cuda/code_hold.h"
#include "cuda/cuda_device.h"
#include "cuda/cuda_event.h"
#include "cuda/device_sums.h"
#include "cuda/direct_copies.h"
#include "cuda/fences.h"
#include "cuda/item_codes.h"
#include "cuda/kernel_copies.h"
#include "cuda/run_sums.h"
#include "cuda/runs.h"
#include "cuda/tile_arena.h"
#include "device/stream.h"

namespace orbitkv::cuda {

/// Work that another library puts on the stream (cuFile), with what goes before and after it. One
/// completion for all: `result`, asked when the stream has passed everything.
struct ForeignJob {
  int32_t tag = 0;
  /// Gathered or zeroed first; inside the device.
  std::vector<Tile> before;
  /// Queues on the stream; not 0: nothing was queued, and the job ends with this as its result.
  std::function<int(StreamPointer)> enqueue;
  std::function<int32_t()> result;
  /// Then checksummed, of device memory; to results[result_base + i].
  std::vector<ChecksumStep> after;
  size_t result_base = 0;
  std::vector<std::shared_ptr<const void>> holds;
  uint64_t bytes = 0;
};

/// A stream of a CUDA device. No thread of its own, and no call of the driver that waits: jobs are
/// queued on the device as far as room for their descriptors goes, and the port's thread polls.
///
///   job        what the port queued: one completion
///   piece      what went to the device at once, with a fence behind it (Fences)
///
/// Copies go by the copy engine or by a kernel over mapped memory, as Choose() says. Checksums of a
/// pool of the host are computed by the port's thread, a MiB a poll, when everything before has
/// ended; copies behind them do not wait for that, but end after it: they may not write what it
/// reads. Checksums of device memory go by a kernel.
///
/// A sticky error of the driver ends the device: what is in flight here ends with -ENODEV, and
/// nothing more is accepted. Another error ends its job with -EIO, when what was queued of it has
/// ended.
///
/// What is accepted needs no more memory: polling allocates nothing and throws nothing.
class CudaStream : public Stream {
 public:
  /// The device is entered. Throws SystemError.
  CudaStream(CudaDevice& device, StreamContext context, const StreamOptions& options);
  ~CudaStream() override;

  int Copy(int32_t tag, CopyDirection direction, std::span<const double> descriptors) override;
  int Checksum(int32_t tag, std::span<const double> descriptors, size_t result_base) override;
  int Move(int32_t tag, std::span<const double> descriptors) override;
  int ChecksumMapped(int32_t tag, std::span<const double> descriptors, size_t result_base) override;
  int Encode(int32_t tag, std::span<const double> descriptors, size_t result_base) override;
  int Decode(int32_t tag, std::span<const double> descriptors, size_t result_base) override;
  int EncodeHeld(int32_t tag, std::span<const double> descriptors, size_t result_base) override;
  std::shared_ptr<const HeldCodes> held_codes() const override { return hold_->codes(); }
  int ReleaseCodes() override { return hold_->Release(); }
  bool codes_lent() const override { return hold_->lent(); }
  CodecWorkspace codec_workspace() const override;
  int ReleaseCodecWorkspace() override;
  /// As the six above; nothing follows a refusal.
  int Submit(ForeignJob job);

  StreamReport report() const override;
  size_t in_flight() const override { return jobs_.size(); }
  void Poll() noexcept override;
  int64_t NextEndUs() const override;
  void WakeAtEnds() noexcept override { fences_->WakeAtEnds(); }
  bool Drain(int64_t deadline_us) override;
  int Record(Event& event) override;
  int Wait(const Event& event) override;
  void Cancel() override;
  void Detach() override { context_.results = {}; }

  CudaDevice& device() const { return device_; }
  /// For libraries that register streams; only Submit() may queue on it.
  StreamPointer pointer() const { return stream_.get(); }
  const std::shared_ptr<Pool>& pool() const { return context_.pool; }

 private:
  enum class Kind { kWork, kHostChecksum, kRecord, kWait };

  struct Job {
    Kind kind = Kind::kWork;
    int32_t tag = 0;
    Way way = Way::kInside;
    bool kernel = false;
    KernelCopies::Plan plan;
    RunCursor runs;
    std::function<int(StreamPointer)> enqueue;
    std::function<int32_t()> result;
    std::unique_ptr<CodeWork> codes;
    std::vector<ChecksumStep> sums;
    size_t sum_next = 0;
    uint64_t sum_offset = 0;  // of the next checksum of the host: bytes that are in sum_crc
    uint32_t sum_crc = 0;
    size_t result_base = 0;
    uint64_t bytes = 0;
    std::vector<std::shared_ptr<const void>> holds;
    /// Handed to the device in full, or given up with `error`.
    bool launched = false;
    bool begun = false;
    int32_t error = 0;
    uint32_t last_fence = 0;
    EventPointer started = nullptr;
    EventPointer ended = nullptr;
    int64_t cost_us = 0;  // what is expected of it once it is the first
    std::shared_ptr<CudaEvent::Mark> mark;

    std::span<const ChecksumStep> sums_left() const {
      return std::span<const ChecksumStep>(sums).subspan(sum_next);
    }
  };

  /// The driver's stream; destroyed after what is queued on it.
  struct DestroyStream {
    const CudaDevice* device;
    void operator()(StreamPointer stream) const;
  };
  using OwnedStream = std::unique_ptr<StreamRecord, DestroyStream>;

  std::span<const double> Snapshot(std::span<const double> descriptors);
  /// 0 or -errno: whether a job may be taken at all.
  int Admit() const;
  int Accept(Job job);
  bool ResultsFit(size_t base, size_t count) const;

  /// Hands jobs to the device in order, as far as there is room.
  void Launch() noexcept;
  /// The seven below: false when there is no room now.
  bool LaunchWork(Job& job);
  bool LaunchRuns(Job& job);
  bool LaunchCodes(Job& job);
  bool LaunchBatch(Job& job, CodeWork& work, CodeBatch& batch);
  bool CodeOnDevice(Job& job, CodeWork& work, CodeBatch& batch);
  bool SumOnDevice(Job& job, const CodeWork& work, CodeBatch& batch);
  bool LaunchSums(Job& job);
  void Begin(Job& job);
  /// The mark of the end, and the last fence.
  void End(Job& job);
  /// A call for a job failed: the device is lost, or the job is.
  void Refused(Job& job, Result result);

  int Code(int32_t tag, CodeDirection direction, std::span<const double> descriptors,
           size_t result_base, bool held);
  /// Runs that go as the job's next; whether one end of them is the pool.
  void PlanRuns(Job& job, std::vector<Tile> runs, bool pool);
  void SealBatch(Job& job, CodeWork& work, std::span<const std::byte> room);

  void Finish();
  bool FinishChecksum(Job& job);
  /// Items that have no coding follow those that have one. True when none is left.
  bool FinishCodes(Job& job);
  /// The device is lost: everything ends with -ENODEV.
  void FailAll();
  int32_t DeviceTime(Job& job);
  void Post(Job& job, int32_t result);

  CudaDevice& device_;
  const Driver& driver_;
  StreamContext context_;
  const StreamOptions options_;
  std::shared_ptr<PoolRegistration> registration_;
  const Kernels* kernels_ = nullptr;
  std::string kernels_reason_;

  std::unique_ptr<TileArena> arena_;
  OwnedStream stream_;
  std::unique_ptr<Fences> fences_;
  DirectCopies direct_;
  std::optional<KernelCopies> kernel_copies_;
  std::optional<RunSums> run_sums_;
  std::optional<DeviceSums> device_sums_;
  std::optional<ItemCodes> codes_;
  std::optional<CodeHold> hold_;
  int64_t front_since_us_ = 0;  // since when the first of jobs_ is the first

  std::vector<double> snapshot_;
  std::deque<Job> jobs_;
  size_t launch_next_ = 0;  // the first of jobs_ that is not launched
  uint64_t direct_jobs_ = 0;
  uint64_t kernel_jobs_ = 0;
};

}  // namespace orbitkv::cuda
