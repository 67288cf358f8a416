// The control of bench/restore: one thread, one io_uring by raw syscalls, no actors, no rings
// between threads, no JavaScript. Every read that has landed is checked and copied while the others
// are still in flight.
//
// raw_restore FILE WINDOW_BYTES LAYERS LAYERS_PER_GRANULE SEGMENT_BYTES PAGES [reads-only]
//
// With `reads-only` nothing is copied: the disk's part of a restore to a device, reads and
// checksums.
//
// Reads restores from standard input, one a line: "count (file_offset crc32 granule page) * count".
// Answers each with "microseconds bytes_verified enters". Page sizes are those of the Manager: huge
// pages where reads land, 4 KiB pages of a memfd where the engine's pages are.
#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <vector>

#include "codec/crc32.h"
#include "host/streaming_copy.h"

namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr uint32_t kDepth = 128;
constexpr std::byte kSentinel{0xa5};
// Above this a restore's copies go past the caches, as in the host stream.
constexpr size_t kStreamingBytesMin = 256 << 10;

[[noreturn]] void Die(const char* what) {
  std::fprintf(stderr, "raw_restore: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

std::byte* MapHuge(size_t bytes) {
  void* mapped =
      mmap(nullptr, bytes + 2 * kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) Die("map window");
  const auto first = (reinterpret_cast<uintptr_t>(mapped) + 2 * kMiB - 1) / (2 * kMiB) * (2 * kMiB);
  auto* memory = reinterpret_cast<std::byte*>(first);
  madvise(memory, bytes, MADV_HUGEPAGE);
  std::memset(memory, 0, bytes);
  return memory;
}

std::byte* MapPages(size_t bytes) {
  const int fd = memfd_create("raw-pages", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) Die("create pages");
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) Die("map pages");
  return static_cast<std::byte*>(mapped);
}

template <class T>
T* At(void* base, uint32_t offset) {
  return reinterpret_cast<T*>(static_cast<char*>(base) + offset);
}

class Ring {
 public:
  Ring(int file, std::byte* window, size_t window_bytes) {
    io_uring_params p{};
    p.flags = IORING_SETUP_SUBMIT_ALL | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
    fd_ = static_cast<int>(syscall(__NR_io_uring_setup, kDepth, &p));
    if (fd_ < 0) Die("io_uring_setup");
    const size_t sq_bytes = p.sq_off.array + p.sq_entries * sizeof(uint32_t);
    const size_t cq_bytes = p.cq_off.cqes + p.cq_entries * sizeof(io_uring_cqe);
    void* sq = Map(sq_bytes, IORING_OFF_SQ_RING);
    void* cq = Map(cq_bytes, IORING_OFF_CQ_RING);
    sqes_ = static_cast<io_uring_sqe*>(Map(p.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES));
    sq_tail_ = At<std::atomic<uint32_t>>(sq, p.sq_off.tail);
    cq_head_ = At<std::atomic<uint32_t>>(cq, p.cq_off.head);
    cq_tail_ = At<std::atomic<uint32_t>>(cq, p.cq_off.tail);
    cqes_ = At<io_uring_cqe>(cq, p.cq_off.cqes);
    cq_mask_ = *At<uint32_t>(cq, p.cq_off.ring_mask);
    sq_mask_ = p.sq_entries - 1;
    for (uint32_t i = 0; i < p.sq_entries; ++i) At<uint32_t>(sq, p.sq_off.array)[i] = i;
    // Registered where the memlock limit allows, as the lanes do it.
    const iovec slice{window, window_bytes};
    fixed_ = syscall(__NR_io_uring_register, fd_, IORING_REGISTER_BUFFERS, &slice, 1) == 0;
    if (syscall(__NR_io_uring_register, fd_, IORING_REGISTER_FILES, &file, 1) != 0)
      Die("register file");
  }

  void Read(uint64_t offset, std::byte* to, uint32_t bytes, uint64_t number) {
    io_uring_sqe& sqe = sqes_[tail_++ & sq_mask_];
    std::memset(&sqe, 0, sizeof sqe);
    sqe.opcode = fixed_ ? IORING_OP_READ_FIXED : IORING_OP_READ;
    sqe.flags = IOSQE_FIXED_FILE;
    sqe.off = offset;
    sqe.addr = reinterpret_cast<uint64_t>(to);
    sqe.len = bytes;
    sqe.user_data = number;
    ++pending_;
  }

  /// Submits what is pending, then waits for one completion when `wait`.
  void Enter(bool wait) {
    sq_tail_->store(tail_, std::memory_order_release);
    const long done = syscall(__NR_io_uring_enter, fd_, pending_, wait ? 1 : 0,
                              IORING_ENTER_GETEVENTS, nullptr, 0);
    ++enters;
    if (done < 0 && errno != EINTR) Die("io_uring_enter");
    if (done > 0) pending_ -= static_cast<uint32_t>(done);
  }

  bool Take(uint64_t* number, int32_t* result) {
    const uint32_t head = cq_head_->load(std::memory_order_relaxed);
    if (head == cq_tail_->load(std::memory_order_acquire)) return false;
    *number = cqes_[head & cq_mask_].user_data;
    *result = cqes_[head & cq_mask_].res;
    cq_head_->store(head + 1, std::memory_order_release);
    return true;
  }

  uint32_t pending() const { return pending_; }
  uint64_t enters = 0;

 private:
  void* Map(size_t bytes, off_t offset) {
    void* mapped =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd_, offset);
    if (mapped == MAP_FAILED) Die("map ring");
    return mapped;
  }

  int fd_;
  bool fixed_ = false;
  io_uring_sqe* sqes_;
  io_uring_cqe* cqes_;
  std::atomic<uint32_t>* sq_tail_;
  std::atomic<uint32_t>* cq_head_;
  std::atomic<uint32_t>* cq_tail_;
  uint32_t cq_mask_;
  uint32_t sq_mask_;
  uint32_t tail_ = 0;
  uint32_t pending_ = 0;
};

struct Source {
  uint64_t offset;
  uint32_t crc;
  uint32_t granule;
  uint32_t page;
};

/// 36 layers, or one, each a run of pages: a granule is one segment of each of a few layers.
struct Pages {
  std::byte* base;
  size_t layers_per_granule;
  size_t segment_bytes;
  size_t pages;

  size_t granule_bytes() const { return layers_per_granule * segment_bytes; }
  std::byte* Segment(const Source& source, size_t layer) const {
    const size_t row = source.granule * layers_per_granule + layer;
    return base + (row * pages + source.page) * segment_bytes;
  }
};

class Restorer {
 public:
  Restorer(Ring& ring, std::byte* window, size_t places, const Pages& pages, bool copies)
      : ring_(ring), window_(window), pages_(pages), places_(places), copies_(copies) {}

  void Run(const std::vector<Source>& sources) {
    const size_t bytes = pages_.granule_bytes();
    std::vector<uint32_t> free;
    const uint32_t places = static_cast<uint32_t>(std::min<size_t>(places_, kDepth));
    for (uint32_t place = places; place-- > 0;) free.push_back(place);
    const bool streaming = sources.size() * bytes >= kStreamingBytesMin;
    size_t next = 0;
    for (size_t left = sources.size(); left > 0;) {
      while (next < sources.size() && !free.empty()) {
        const uint32_t place = free.back();
        free.pop_back();
        ring_.Read(sources[next].offset, window_ + place * bytes, static_cast<uint32_t>(bytes),
                   uint64_t{place} << 32 | next);
        ++next;
      }
      ring_.Enter(true);
      uint64_t number;
      int32_t result;
      while (ring_.Take(&number, &result)) {
        const auto place = static_cast<uint32_t>(number >> 32);
        const Source& source = sources[static_cast<uint32_t>(number)];
        const std::byte* granule = window_ + place * bytes;
        if (result != static_cast<int32_t>(bytes)) Die("short read");
        if (orbitkv::crc32(0, granule, bytes) != source.crc) Die("checksum");
        for (size_t layer = 0; copies_ && layer < pages_.layers_per_granule; ++layer) {
          const std::byte* from = granule + layer * pages_.segment_bytes;
          std::byte* to = pages_.Segment(source, layer);
          if (streaming)
            orbitkv::StreamingCopy(to, from, pages_.segment_bytes);
          else
            std::memcpy(to, from, pages_.segment_bytes);
        }
        free.push_back(place);
        --left;
      }
    }
    if (streaming) orbitkv::StreamingFence();
  }

  size_t Verify(const std::vector<Source>& sources) const {
    for (const Source& source : sources) {
      if (!copies_) break;  // Run has checked each granule where it landed.
      uint32_t crc = 0;
      for (size_t layer = 0; layer < pages_.layers_per_granule; ++layer)
        crc = orbitkv::crc32(crc, pages_.Segment(source, layer), pages_.segment_bytes);
      if (crc != source.crc) Die("bytes in pages");
    }
    return sources.size() * pages_.granule_bytes();
  }

 private:
  Ring& ring_;
  std::byte* window_;
  Pages pages_;
  size_t places_;
  bool copies_;
};

}  // namespace

int main(int count, char** words) {
  const bool reads_only = count == 8 && std::strcmp(words[7], "reads-only") == 0;
  if (count != 7 && !reads_only) {
    std::fprintf(stderr,
                 "raw_restore FILE WINDOW_BYTES LAYERS LAYERS_PER_GRANULE SEGMENT_BYTES PAGES "
                 "[reads-only]\n");
    return 2;
  }
  const int file = open(words[1], O_RDONLY | O_DIRECT | O_CLOEXEC);
  if (file < 0) Die("open file");
  const auto number = [&](int word) {
    return static_cast<size_t>(std::strtoull(words[word], nullptr, 10));
  };
  const size_t window_bytes = number(2);
  const size_t pages_bytes = number(3) * number(5) * number(6);
  std::byte* window = MapHuge(window_bytes);
  const Pages pages{MapPages(pages_bytes), number(4), number(5), number(6)};
  Ring ring(file, window, window_bytes);
  Restorer restorer(ring, window, window_bytes / pages.granule_bytes(), pages, !reads_only);

  size_t sources_count;
  while (std::cin >> sources_count) {
    std::vector<Source> sources(sources_count);
    for (Source& source : sources)
      std::cin >> source.offset >> source.crc >> source.granule >> source.page;
    std::memset(pages.base, static_cast<int>(kSentinel), pages_bytes);
    const uint64_t enters = ring.enters;
    const auto start = std::chrono::steady_clock::now();
    restorer.Run(sources);
    const std::chrono::duration<double, std::micro> us = std::chrono::steady_clock::now() - start;
    std::printf("%.1f %zu %llu\n", us.count(), restorer.Verify(sources),
                static_cast<unsigned long long>(ring.enters - enters));
    std::fflush(stdout);
  }
  return 0;
}
