// What bench/codec measures on a GPU: one codec, one direction, on the product's own stream, beside
// a copy of as many bytes by the driver and beside nvCOMP called bare. Every time is the device's
// own, between two events.
//
// Arguments: ordinal, items, bytes of an item, budget of the codec, "device" or "host": where the
// stream's pool is, "idle" or "busy": whether the stream has nothing to do when a sample is queued,
// or copies that last longer than the processor takes to write down what the sample needs. Reads
// samples from standard input, one a line:
//
//   copy encode|decode             the driver's copy of all items: from pages to the pool, and back
//   crc encode                     checksums of all items, by kernel
//   FORMAT encode|decode           fp8, turboquant-4, turboquant-3 or ans, through the stream
//   bare encode|decode             nvCOMP's own calls, arrays and codings already on the device
//
// Answers each with "nanoseconds stored_bytes"; "nan 0" for ANS without nvCOMP. A decoding follows
// an encoding of its format, and the first of each is compared with what it must be.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "codec/crc32.h"
#include "cuda/ans_codes.h"
#include "cuda/cuda_device.h"
#include "cuda/cuda_stream.h"
#include "cuda/devices.h"
#include "memory/engine_memory.h"
#include "memory/pool.h"
#include "nvcomp/library.h"

using namespace orbitkv;

namespace {

constexpr uint64_t kSector = 512;
/// Descriptors of a job, as lanes queue them.
constexpr size_t kJobItems = 256;
constexpr uint32_t kHeadDim = 128;
constexpr size_t kContentBytesMax = size_t{16} << 20;

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "device_codes: %s\n", what.c_str());
  std::exit(1);
}

void Must(bool held, const char* what) {
  if (!held) Die(what);
}

uint64_t Up(uint64_t bytes, uint64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// bf16 values of a normal distribution, as keys and values of a model have; the same on every run.
std::vector<uint16_t> Gaussians(size_t count) {
  std::vector<uint16_t> values(count);
  uint32_t state = 0x2545f491;
  const auto uniform = [&state] {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return (static_cast<double>(state) + 1) / 4294967297.0;
  };
  for (uint16_t& value : values) {
    const auto wide =
        static_cast<float>(std::sqrt(-2 * std::log(uniform())) * std::cos(2 * M_PI * uniform()));
    uint32_t bits;
    std::memcpy(&bits, &wide, sizeof bits);
    value = static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
  return values;
}

/// ITEM_CODING: format, scalar, role, bits, headDim, seed.
using Coding = std::array<double, 6>;
const std::map<std::string, Coding> kFormats = {
    {"fp8", {1, 1, 1, 0, 0, 0}},
    {"turboquant-4", {2, 1, 1, 4, kHeadDim, 1379}},
    {"turboquant-3", {2, 1, 1, 3, kHeadDim, 1379}},
    {"ans", {3, 1, 0, 0, 0, 0}},
};

/// Some 65 us of an H200 each.
constexpr uint64_t kBusyBytes = uint64_t{128} << 20;
constexpr int kBusyCopies = 8;

/// A length of time on a stream.
class Stopwatch {
 public:
  explicit Stopwatch(const cuda::Driver& driver) : driver_(driver) {
    driver.Require(driver.cuEventCreate(&from_, cuda::kEventTiming), "Cannot make an event");
    driver.Require(driver.cuEventCreate(&to_, cuda::kEventTiming), "Cannot make an event");
  }
  /// Of `work`, which the stream does after what was queued before.
  template <class Work>
  double Nanoseconds(cuda::StreamPointer stream, Work&& work) {
    driver_.Require(driver_.cuEventRecord(from_, stream), "Cannot record an event");
    work();
    driver_.Require(driver_.cuEventRecord(to_, stream), "Cannot record an event");
    driver_.Require(driver_.cuStreamSynchronize(stream), "Cannot wait for a stream");
    float milliseconds = 0;
    driver_.Require(driver_.cuEventElapsedTime(&milliseconds, from_, to_), "Cannot read a time");
    return static_cast<double>(milliseconds) * 1e6;
  }

 private:
  const cuda::Driver& driver_;
  cuda::EventPointer from_ = nullptr;
  cuda::EventPointer to_ = nullptr;
};

struct Sample {
  double nanoseconds = NAN;
  uint64_t stored = 0;
};

/// Pages with content, pages to decode into, and a pool between them.
class Bench {
 public:
  Bench(int32_t ordinal, size_t count, uint64_t bytes, uint64_t budget, bool device_pool, bool busy)
      : device_(cuda::DeviceAt(ordinal)), count_(count), bytes_(bytes) {
    device_.Enter();
    if (busy) busy_ = cuda::AllocateMemory(device_.uuid(), 2 * kBusyBytes);
    watch_.emplace(device_.driver());
    pages_ = cuda::AllocateMemory(device_.uuid(), count * bytes);
    back_ = cuda::AllocateMemory(device_.uuid(), count * bytes);
    if (device_pool) {
      cuda::DeviceAddress address = 0;
      auto backing = device_.Allocate(count * room(), &address);
      pool_ = Pool::OnDevice(reinterpret_cast<std::byte*>(address), count * room(), ordinal,
                             std::move(backing));
    } else {
      pool_ = Pool::Open(count * room());
    }
    StreamOptions options;
    options.timed = true;
    options.codec_budget_bytes = budget;
    results_.resize(2 * count);
    stream_ = device_.OpenCudaStream({sink_, pool_, results_}, options);
    content_.resize(count * bytes);
    // Items are coded one by one: content that comes again is coded again.
    const auto values = Gaussians(std::min(content_.size(), kContentBytesMax) / sizeof(uint16_t));
    const auto part = std::as_bytes(std::span(values));
    for (size_t at = 0; at < content_.size(); at += part.size())
      std::copy_n(part.begin(), std::min(part.size(), content_.size() - at),
                  content_.begin() + static_cast<ptrdiff_t>(at));
    Require(driver().cuMemcpyHtoDAsync(Address(pages_->base()), content_.data(), content_.size(),
                                       stream()));
    Require(driver().cuStreamSynchronize(stream()));
    page_number_ = EngineMemory::Instance().Add(pages_);
    back_number_ = EngineMemory::Instance().Add(back_);
  }

  Sample Copy(bool encode) {
    const bool inside = pool_->device() != kHostDevice;
    const uint64_t from = Address(encode ? pages_->base() : pool_->base());
    const uint64_t to = Address(encode ? pool_->base() : back_->base());
    const size_t all = count_ * bytes_;
    if (encode) last_.clear();
    Before();
    const double ns = watch_->Nanoseconds(stream(), [&] {
      if (inside)
        Require(driver().cuMemcpyDtoDAsync(to, from, all, stream()));
      else if (encode)
        Require(driver().cuMemcpyDtoHAsync(reinterpret_cast<void*>(to), from, all, stream()));
      else
        Require(driver().cuMemcpyHtoDAsync(to, reinterpret_cast<const void*>(from), all, stream()));
    });
    return {ns, all};
  }

  Sample Checksums() {
    std::vector<double> list;
    for (size_t i = 0; i < count_; ++i)
      list.insert(list.end(), {static_cast<double>(page_number_), static_cast<double>(i * bytes_),
                               static_cast<double>(bytes_), static_cast<double>(bytes_),
                               static_cast<double>(bytes_)});
    Before();
    Must(stream_->ChecksumMapped(0, list, 0) == 0, "checksums were refused");
    const double ns = Await(1);
    Must(results_[0] == Crc32Strided(0, content_.data(), bytes_, bytes_, bytes_),
         "a checksum is wrong");
    return {ns, count_ * bytes_};
  }

  Sample Encode(const std::string& format) {
    Encoded& encoded = Of(format);
    std::vector<double> list;
    for (size_t i = 0; i < count_; ++i) Append(list, encoded.from, i, encoded.room);
    const double ns = Run(list, true);
    last_ = format;
    uint64_t sum = 0;
    encoded.stored.resize(count_);
    for (size_t i = 0; i < count_; ++i) {
      encoded.stored[i] = results_[2 * i];
      sum += encoded.stored[i];
      Must(encoded.stored[i] > 0 && encoded.stored[i] < bytes_, "an item was not encoded");
    }
    return {ns, sum};
  }

  Sample Decode(const std::string& format) {
    Encoded& encoded = Of(format);
    Must(!encoded.stored.empty(), "a decoding follows an encoding");
    if (last_ != format) Encode(format);
    std::vector<double> list;
    uint64_t sum = 0;
    for (size_t i = 0; i < count_; ++i) {
      Append(list, encoded.to, i, encoded.stored[i]);
      sum += encoded.stored[i];
    }
    const double ns = Run(list, false);
    for (size_t i = 0; i < count_; ++i) Must(results_[i] == 0, "a coding was refused");
    if (!encoded.checked && format == "ans") Must(BackIsContent(), "ANS gave other bytes back");
    encoded.checked = true;
    return {ns, sum};
  }

  Sample Bare(bool encode) {
    const nvcomp::Functions* functions = nvcomp::Library::Instance().functions();
    if (functions == nullptr) return {};
    if (bare_ == nullptr) bare_ = std::make_unique<BareAns>(*this, *functions);
    return encode ? bare_->Encode() : bare_->Decode();
  }

 private:
  struct Encoded {
    int32_t from = 0, to = 0;
    uint64_t room = 0;
    std::vector<uint64_t> stored;
    bool checked = false;
  };

  /// nvCOMP with nothing around it: the same items, arrays on the device.
  class BareAns {
   public:
    BareAns(Bench& bench, const nvcomp::Functions& functions)
        : bench_(bench), functions_(functions) {
      const size_t n = bench.count_;
      size_t room = 0;
      Check(functions.compress_output_bytes_max(bench.bytes_, options_, &room));
      room_ = Up(room, 16);
      Check(
          functions.compress_temp_bytes(n, bench.bytes_, options_, &temp_bytes_, n * bench.bytes_));
      size_t decode_temp = 0;
      Check(functions.decompress_temp_bytes(n, bench.bytes_, back_options_, &decode_temp,
                                            n * bench.bytes_));
      temp_bytes_ = std::max<size_t>({temp_bytes_, decode_temp, 16});
      codes_memory_ = bench.device_.Allocate(n * room_, &codes_);
      temp_memory_ = bench.device_.Allocate(temp_bytes_, &temp_);
      arrays_memory_ = bench.device_.Allocate(n * 7 * 8, &arrays_);
      std::vector<uint64_t> words(7 * n);
      for (size_t i = 0; i < n; ++i) {
        words[i] = Address(bench.pages_->base()) + i * bench.bytes_;
        words[n + i] = bench.bytes_;
        words[2 * n + i] = codes_ + i * room_;
        words[4 * n + i] = Address(bench.back_->base()) + i * bench.bytes_;
      }
      bench.Require(bench.driver().cuMemcpyHtoDAsync(arrays_, words.data(), words.size() * 8,
                                                     bench.stream()));
      bench.Require(bench.driver().cuStreamSynchronize(bench.stream()));
    }

    Sample Encode() {
      bench_.Before();
      const double ns = bench_.watch_->Nanoseconds(bench_.stream(), [&] {
        Check(functions_.compress(At<const void* const>(0), At<const size_t>(1), bench_.bytes_,
                                  bench_.count_, reinterpret_cast<void*>(temp_), temp_bytes_,
                                  At<void* const>(2), At<size_t>(3), options_, At<int32_t>(6),
                                  bench_.stream()));
      });
      encoded_ = true;
      return {ns, Sum(3)};
    }

    Sample Decode() {
      if (!encoded_) Encode();
      bench_.Before();
      const double ns = bench_.watch_->Nanoseconds(bench_.stream(), [&] {
        Check(functions_.decompress(At<const void* const>(2), At<const size_t>(3),
                                    At<const size_t>(1), At<size_t>(5), bench_.count_,
                                    reinterpret_cast<void*>(temp_), temp_bytes_, At<void* const>(4),
                                    back_options_, At<int32_t>(6), bench_.stream()));
      });
      Must(Sum(5) == bench_.count_ * bench_.bytes_, "nvCOMP gave other lengths back");
      if (!checked_) Must(bench_.BackIsContent(), "nvCOMP gave other bytes back");
      checked_ = true;
      return {ns, Sum(3)};
    }

   private:
    static void Check(nvcomp::abi::Status status) {
      if (status != nvcomp::abi::kOk) Die("nvCOMP answers " + std::to_string(status));
    }
    template <class T>
    T* At(size_t array) const {
      return reinterpret_cast<T*>(arrays_ + array * bench_.count_ * 8);
    }
    uint64_t Sum(size_t array) {
      std::vector<uint64_t> words(bench_.count_);
      bench_.Require(bench_.driver().cuMemcpyDtoHAsync(
          words.data(), arrays_ + array * bench_.count_ * 8, words.size() * 8, bench_.stream()));
      bench_.Require(bench_.driver().cuStreamSynchronize(bench_.stream()));
      uint64_t sum = 0;
      for (const uint64_t word : words) sum += word;
      return sum;
    }

    Bench& bench_;
    const nvcomp::Functions& functions_;
    nvcomp::abi::CompressOptions options_{0, nvcomp::abi::DataType::kFloat16, 0, {}};
    nvcomp::abi::DecompressOptions back_options_{0, nvcomp::abi::DataType::kFloat16, 0, {}};
    uint64_t room_ = 0;
    size_t temp_bytes_ = 0;
    cuda::DeviceAddress codes_ = 0, temp_ = 0, arrays_ = 0;
    std::shared_ptr<const void> codes_memory_, temp_memory_, arrays_memory_;
    bool encoded_ = false;
    bool checked_ = false;
  };

  static uint64_t Address(const void* memory) { return reinterpret_cast<uint64_t>(memory); }
  const cuda::Driver& driver() const { return device_.driver(); }
  cuda::StreamPointer stream() const { return stream_->pointer(); }
  void Require(cuda::Result result) const {
    driver().Require(result, "A call of the bench failed");
  }
  /// What the stream does before a sample.
  void Before() {
    Require(driver().cuStreamSynchronize(stream()));
    if (busy_ == nullptr) return;
    const uint64_t from = Address(busy_->base());
    for (int copy = 0; copy < kBusyCopies; ++copy)
      Require(driver().cuMemcpyDtoDAsync(from + kBusyBytes, from, kBusyBytes, stream()));
  }
  /// Of an item that is as long as the engine's.
  uint64_t room() const { return Up(bytes_, kSector); }

  Encoded& Of(const std::string& format) {
    const auto [found, made] = formats_.try_emplace(format);
    Encoded& encoded = found->second;
    if (!made) return encoded;
    const Coding& coding = kFormats.at(format);
    const double stride = static_cast<double>(bytes_), pages = static_cast<double>(count_);
    const double padded = static_cast<double>(room());
    const double firsts[] = {0, 1};
    const auto define = [&](int32_t mapping) {
      const double item[] = {static_cast<double>(mapping), 0, stride, pages, 0, stride, padded};
      return EngineMemory::Instance().DefineTemplate(item, firsts, coding);
    };
    encoded.from = define(page_number_);
    encoded.to = define(back_number_);
    const double vector_bytes = std::ceil(kHeadDim * coding[3] / 8) + 2;
    const auto vectors = static_cast<double>(bytes_ / (2 * kHeadDim));
    const double stored = coding[0] == 1   ? stride / 2
                          : coding[0] == 2 ? vectors * vector_bytes
                                           : stride;
    encoded.room = Up(static_cast<uint64_t>(stored), kSector);
    return encoded;
  }

  /// One COPY descriptor: template, granule, page, pool offset, first item, items, stored bytes.
  void Append(std::vector<double>& list, int32_t number, size_t item, uint64_t stored) const {
    list.insert(list.end(),
                {static_cast<double>(number), 0, static_cast<double>(item),
                 static_cast<double>(item * room()), 0, 1, static_cast<double>(stored)});
  }

  /// The sum of the device's times of the jobs that a list takes.
  double Run(const std::vector<double>& list, bool encode) {
    double ns = 0;
    for (size_t first = 0; first < count_; first += kJobItems) {
      const size_t here = std::min(kJobItems, count_ - first);
      const std::span<const double> part(list.data() + first * 7, here * 7);
      Before();
      const int refused =
          encode ? stream_->Encode(0, part, 2 * first) : stream_->Decode(0, part, first);
      if (refused != 0) Die("a job was refused: " + std::to_string(refused));
      ns += Await(1);
    }
    return ns;
  }

  double Await(size_t count) {
    std::vector<Completion> taken;
    while (stream_->in_flight() > 0) stream_->Poll();
    sink_->Take(taken);
    Must(taken.size() == count, "completions are missing");
    double ns = 0;
    for (const Completion& completion : taken) {
      if (completion.result != 0) Die("a job ended with " + std::to_string(completion.result));
      ns += completion.aux;
    }
    return ns;
  }

  bool BackIsContent() {
    std::vector<std::byte> back(content_.size());
    Require(driver().cuMemcpyDtoHAsync(back.data(), Address(back_->base()), back.size(), stream()));
    Require(driver().cuStreamSynchronize(stream()));
    return back == content_;
  }

  cuda::CudaDevice& device_;
  const size_t count_;
  const uint64_t bytes_;
  std::shared_ptr<Mapping> pages_, back_;
  std::shared_ptr<Mapping> busy_;  // null: samples begin on an idle stream
  std::shared_ptr<Pool> pool_;
  std::shared_ptr<CompletionSink> sink_ = std::make_shared<CompletionSink>();
  std::vector<uint32_t> results_;
  std::unique_ptr<cuda::CudaStream> stream_;
  std::optional<Stopwatch> watch_;
  std::vector<std::byte> content_;
  int32_t page_number_ = 0, back_number_ = 0;
  std::map<std::string, Encoded> formats_;
  std::string last_;  // whose codings the pool has
  std::unique_ptr<BareAns> bare_;
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 7) Die("ordinal, items, bytes, budget, device or host, idle or busy");
  if (const char* path = std::getenv("ORBITKV_NVCOMP_LIBRARY"); path != nullptr && *path != '\0') {
    const auto report = nvcomp::Library::Instance().Open(path);
    if (!report.available()) Die(std::string("nvCOMP: ") + report.reason + ": " + report.path);
  }
  const bool ans = nvcomp::Library::Instance().functions() != nullptr;
  Bench bench(std::atoi(argv[1]), std::strtoull(argv[2], nullptr, 10),
              std::strtoull(argv[3], nullptr, 10), std::strtoull(argv[4], nullptr, 10),
              std::string(argv[5]) == "device", std::string(argv[6]) == "busy");
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string what, direction;
    words >> what >> direction;
    const bool encode = direction == "encode";
    Sample sample;
    if (what == "copy")
      sample = bench.Copy(encode);
    else if (what == "crc")
      sample = bench.Checksums();
    else if (what == "bare")
      sample = bench.Bare(encode);
    else if (!kFormats.contains(what))
      Die("no such codec: " + what);
    else if (what != "ans" || ans)
      sample = encode ? bench.Encode(what) : bench.Decode(what);
    std::printf("%.0f %llu\n", sample.nanoseconds, static_cast<unsigned long long>(sample.stored));
    std::fflush(stdout);
  }
  return 0;
} catch (const std::exception& error) {
  Die(error.what());
}
