// Reads and writes as a lane submits them: a port over a real file.
#include <cerrno>

#include "files/shard_file.h"
#include "port/port.h"
#include "target.h"

namespace orbitkv::fuzz {

namespace {

constexpr size_t kFields = kSubmissionDoubles;
/// Spans that the input of one submission has behind its fields; the rest of its memory is zeroes.
constexpr size_t kSpansFed = 3;
constexpr size_t kFed = kFields + kSpansFed * kSpanDoubles;
constexpr uint32_t kDepth = 8;
constexpr uint64_t kFileBytes = 1 << 16;
constexpr size_t kPoolBytes = size_t{2} << 20;
constexpr int kWaitUs = 100'000;
constexpr int kWaitsMax = 100;

struct Bench {
  std::vector<double> submissions = std::vector<double>(kDepth * kFields);
  std::vector<Completion> completions = std::vector<Completion>(2 * kDepth);
  std::vector<uint32_t> results = std::vector<uint32_t>(1);
  std::vector<double> spans = std::vector<double>(kDepth * kWriteSpansMax * kSpanDoubles);
  std::atomic<int32_t> park_word{0};
  std::shared_ptr<Pool> pool = Pool::Open(kPoolBytes, PoolPages::kOrdinary);
  Port port{
      {IoKind::kPosix, kDepth, pool, false, submissions, completions, results, &park_word, spans}};
  int32_t file;

  explicit Bench(const std::string& folder)
      : file(Files().Add(OpenShardFile(folder + "/fuzzed", kFileBytes, false))) {}
};

/// Whether the spans of a write are whole sectors of the pool, and as many bytes as it says.
bool ModelSpans(std::span<const double> fields) {
  const auto pool = static_cast<Wide>(kPoolBytes);
  const Wide count = WideOf(fields[4]);
  // Those that were not fed have no bytes.
  if (count < 1 || count > static_cast<Wide>(kSpansFed)) return false;
  Wide sum = 0;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    const double offset = fields[kFields + 2 * i];
    const double bytes = fields[kFields + 2 * i + 1];
    if (!IsWhole(offset) || !IsWhole(bytes) || WideOf(bytes) == 0) return false;
    if (WideOf(offset) % 512 != 0 || WideOf(bytes) % 512 != 0) return false;
    if (WideOf(offset) + WideOf(bytes) > pool) return false;
    sum += WideOf(bytes);
  }
  return sum == WideOf(fields[5]);
}

/// What a submission must end with: -errno when it is refused, 0 when it runs.
int Model(std::span<const double> fields, int32_t file) {
  const auto below = [&](size_t field, Wide end) {
    return IsWhole(fields[field]) && WideOf(fields[field]) < end;
  };
  if (!below(0, 65536) || !below(2, INT32_MAX) || !IsWhole(fields[3]) || !IsWhole(fields[4]) ||
      !below(5, 0x7ffff001))
    return -EINVAL;
  const Wide op = WideOf(fields[0]) % 256;
  const Wide flags = WideOf(fields[0]) / 256;
  const Wide bytes = WideOf(fields[5]);
  if (op > 2 || flags > 1 || (op != 0 && flags == 1) || bytes == 0 ||
      (op != 2 && WideOf(fields[4]) + bytes > static_cast<Wide>(kPoolBytes)))
    return -EINVAL;
  if (fields[2] != file) return -EBADF;
  if (op != 0 && WideOf(fields[3]) + bytes > static_cast<Wide>(kFileBytes)) return -EINVAL;
  if (op == 2) return ModelSpans(fields) ? 0 : -EINVAL;
  if (flags == 0) return 0;
  const bool shaped = below(6, bytes + 1) && below(7, bytes + 1) && below(8, Wide{1} << 32) &&
                      fields[6] > 0 && fields[6] <= fields[7] && bytes % WideOf(fields[7]) == 0;
  return shaped ? 0 : -EINVAL;
}

Breach Check(Bench& bench, std::span<const std::byte> input, bool weak) {
  const std::vector<double> list = DoublesOf(input);
  const size_t count = std::min<size_t>(list.size() / kFed, kDepth);
  for (size_t i = 0; i < count; ++i) {
    const auto fed = std::span(list).subspan(i * kFed, kFed);
    std::copy_n(fed.begin(), kFields, bench.submissions.begin() + i * kFields);
    std::copy_n(fed.begin() + kFields, kSpansFed * kSpanDoubles,
                bench.spans.begin() + i * kWriteSpansMax * kSpanDoubles);
    bench.submissions[i * kFields + 1] = static_cast<double>(i);
    // The weakness: flags that nobody knows are dropped.
    double& op = bench.submissions[i * kFields];
    if (weak && IsWhole(op) && op >= 512) op = std::fmod(op, 256);
  }
  std::vector<int> ended(count, 0);
  std::vector<int32_t> results(count, 0);
  size_t left = count;
  int got = bench.port.Pump(static_cast<int32_t>(count), 0, 0);
  for (int waits = 0; waits < kWaitsMax; ++waits) {
    if (got < 0) return "the port answered " + std::to_string(got);
    for (int i = 0; i < got; ++i) {
      const Completion& completion = bench.completions[static_cast<size_t>(i)];
      const auto tag = static_cast<size_t>(completion.tag);
      if (tag >= count || ++ended[tag] > 1) return "a completion of nothing";
      results[tag] = completion.result;
      --left;
    }
    if (left == 0) break;
    got = bench.port.Pump(0, 1, kWaitUs);
  }
  if (left > 0) return "a submission never ended";
  for (size_t i = 0; i < count; ++i) {
    const auto fields = std::span(list).subspan(i * kFed, kFed);
    const int expected = Model(fields, bench.file);
    const int32_t result = results[i];
    const bool ran = result >= 0 || result == -EBADMSG;
    // The kernel itself refuses an offset that with the length passes 2^63, and none below 2^53
    // does.
    if (expected == 0 ? !ran : result != expected)
      return "ended with " + std::to_string(result) + ", not " + std::to_string(expected);
  }
  return std::nullopt;
}

}  // namespace

Target Submissions(bool weak, const std::string& folder) {
  const auto bench = std::make_shared<Bench>(folder);
  const double file = bench->file;
  return {"submissions",
          {InputOf({1,   0, file, 0,   8192, 4096, 0,   0,   0, 0, 0, 0, 0, 0, 0, 0,
                    256, 0, file, 512, 8192, 1024, 512, 512, 7, 0, 0, 0, 0, 0, 0, 0}),
           InputOf({0, 0, file, 65000, 2096640, 512, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}),
           InputOf({2, 0, file, 1024, 3, 4608, 0, 0, 0, 0, 8192, 512, 0, 3584, 2096640, 512}),
           InputOf({256, 0, file, 0, 0, 3000, 1000, 1000, 4294967295.0, 0, 0, 0, 0, 0, 0, 0})},
          true,
          [bench, weak](std::span<const std::byte> input) { return Check(*bench, input, weak); }};
}

}  // namespace orbitkv::fuzz
