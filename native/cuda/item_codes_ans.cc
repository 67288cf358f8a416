// The half of ItemCodes that codes by nvCOMP, whose codings have a length when they are made:
//
//   encode   arrays go there | nvCOMP | lengths come home | what is kept is summed, and moved
//   decode   arrays go there | nvCOMP, which tells the host
#include <cstring>

#include "cuda/crc32_runs.h"
#include "cuda/item_codes.h"

namespace orbitkv::cuda {

static_assert(AnsArrays::Bytes(AnsCodes::kChunksMax) <= CodeBatch::kHeadBytes);

Result ItemCodes::LaunchAns(StreamPointer stream, std::span<std::byte> room, const CodeWork& work,
                            const CodeBatch& batch) {
  const DeviceAddress space = workspace(work.direction).address();
  const bool encodes = work.direction == CodeDirection::kEncode;
  size_t chunks = 0;
  for (size_t i = 0; i < batch.count; ++i) {
    const CodeItem& item = batch.items[i];
    if (item.stored == 0) continue;
    const bool in_place = !encodes && DecodesInPlace(work.steps[batch.first + i], work.inside);
    const DeviceAddress coded = in_place ? item.coded : space + item.coded;
    chunks_[chunks++] = {item.page, item.bytes, coded, item.stored};
  }
  arena_.Commit(room.size());
  const AnsArrays arrays{room.data(), chunks};
  const std::span<const AnsChunk> here = std::span(chunks_).first(chunks);
  arrays.Fill(here);
  // They are in the place of items, which nvCOMP has none of. What it says of codings is copied
  // home; what it says of pages it writes to the host itself: each was measured to be the faster.
  DeviceAddress read = 0;
  if (const Result fed = BringHead(stream, room, space, &read); fed != kSuccess) return fed;
  const DeviceAddress written = encodes ? read : arena_.AddressOf(room.data());
  const auto code = encodes ? &AnsCodes::Encode : &AnsCodes::Decode;
  const nvcomp::abi::Status status = ((*ans_).*code)(
      stream, *batch.ans, here, arrays, read, written, batch.TempAt(space), batch.temp_bytes);
  Result home = kSuccess;
  if (status == nvcomp::abi::kOk && encodes) {
    const size_t said = arrays.Offset(AnsArrays::kSaid);
    home = driver_.cuMemcpyDtoHAsync(arrays.at + said, read + said, AnsArrays::Bytes(chunks) - said,
                                     stream);
  }
  if (feed_) feed_->Used(stream, read);
  if (status == nvcomp::abi::kOk) return home;
  // It has its own words for what the driver told it; a lost device says so itself.
  const Result told = driver_.cuStreamQuery(stream);
  return told == kSuccess || told == kNotReady ? kInvalidValue : told;
}

void ItemCodes::ExpectSizes(uint32_t fence, std::span<const std::byte> room, CodeWork& work,
                            size_t batch) {
  CodeBatch& expected = work.batches[batch];
  pending_.push_back({fence, nullptr, AnsArrays::In(room, expected.units), &work, &expected});
  workspace(work.direction).Lend(expected.arena_bytes);
}

void ItemCodes::CollectSizes(const Pending& pending) {
  CodeBatch& batch = *pending.batch;
  size_t chunk = 0;
  for (size_t i = 0; i < batch.count; ++i) {
    CodeItem& item = batch.items[i];
    if (item.stored == 0) continue;
    const uint64_t done = pending.arrays.Done(chunk++);
    const uint64_t room = pending.work->steps[batch.first + i].stored;
    const bool kept = done > 0 && AlignCoded(done) <= room && SavesEnough(done, item.bytes);
    item.stored = kept ? static_cast<uint32_t>(done) : 0;
  }
  batch.sized = true;
}

void ItemCodes::CollectAnsDecoded(const Pending& pending, std::span<uint32_t> results) {
  if (results.empty()) return;
  const CodeBatch& batch = *pending.batch;
  size_t chunk = 0;
  for (size_t i = 0; i < batch.count; ++i) {
    const CodeItem& item = batch.items[i];
    const bool whole = item.stored != 0 && pending.arrays.Done(chunk++) == item.bytes;
    results[pending.work->result_base + batch.first + i] = whole ? 0 : 1;
  }
}

void ItemCodes::PlanRuns(const CodeWork& work, CodeBatch& batch) const {
  const DeviceAddress space = workspace(work.direction).address();
  for (size_t i = 0; i < batch.count; ++i) {
    const CodeItem& item = batch.items[i];
    if (item.stored == 0) continue;
    const auto to = reinterpret_cast<uint64_t>(work.steps[batch.first + i].coded);
    batch.runs.push_back({to, space + item.coded, item.stored});
    const uint64_t zeroes = AlignCoded(item.stored) - item.stored;
    if (work.inside && zeroes > 0) batch.runs.push_back({to + item.stored, 0, zeroes});
  }
}

std::span<std::byte> ItemCodes::ReserveSums(const CodeBatch& batch) {
  const size_t bytes = batch.count * (2 * sizeof(uint32_t) + sizeof(Crc32Run));
  return arena_.Reserve(bytes, bytes);
}

Result ItemCodes::LaunchSums(StreamPointer stream, std::span<std::byte> room, const CodeWork& work,
                             CodeBatch& batch) {
  const DeviceAddress space = workspace(work.direction).address();
  uint64_t runs = 0, summed = 0;
  for (const CodeItem& item : batch.items) {
    runs += item.stored > 0;
    summed += item.stored;
  }
  // As in the head of a batch, from its flags on.
  const size_t words = batch.count * 2 * sizeof(uint32_t);
  std::memset(room.data(), 0, words);
  Crc32Runs sums(reinterpret_cast<Crc32Run*>(room.data() + words), runs, summed, sums_->warps());
  for (size_t i = 0; i < batch.count; ++i) {
    const CodeItem& item = batch.items[i];
    if (item.stored == 0) continue;
    sums.Add(WholeOf(space + item.coded, item.stored), static_cast<uint32_t>(i));
  }
  const size_t bytes = words + sums.count() * sizeof(Crc32Run);
  arena_.Commit(bytes);
  DeviceAddress from_flags = 0;
  const DeviceAddress own = space + batch.count * sizeof(CodeItem);
  Result result = BringHead(stream, room.first(bytes), own, &from_flags);
  if (result != kSuccess) return result;
  batch.head = from_flags - batch.count * sizeof(CodeItem);
  if (sums.count() > 0) result = sums_->Launch(stream, batch.runs_at(), sums, batch.sums_at());
  if (feed_) feed_->Used(stream, from_flags);
  return result;
}

}  // namespace orbitkv::cuda
