// Stands in for libnvcomp.so.5 beside libcuda.c: batched ANS over device memory that is memory of the host, with a toy
// code of its own in the place of rANS. Its sizes vary with the content, as those of an entropy code do, and content
// that does not compress becomes longer. Held strictly: every argument is what nvcomp/ans.h asks for and leads to memory
// that the driver knows, and whatever is not is a line of `violations` besides an error.
//
// What goes wrong is said by files in the folder $ORBITKV_NVCOMP_SHIM, looked at by every call:
//
//   version                    the version: 5300 without it
//   properties                 the status that asking for the version fails with
//   temp                       bytes of temporary memory that a batch needs, in the place of the real library's
//   decode-temp                the same of a decompression alone
//   compress, decompress       a number: the status that the call fails with; nothing is queued then
//   chunk                      "N S": chunk N of every batch gets status S, and nothing is coded
//   silent                     N: chunk N of every batch gets no status, and nothing is coded
//   short                      N: chunk N of every decompression is said to be a byte shorter than it is
//   hold                       batches wait on the stream until the file goes
//   log                        one line for each batch that ran: compress|decompress chunks temp_bytes
//   violations                 one line for each argument that was wrong
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOLD_FOLDER "ORBITKV_NVCOMP_SHIM"
#include "told.h"

#define API __attribute__((visibility("default")))

typedef int Status;
enum {
  OK = 0,
  INVALID = 10,
  CANNOT_DECOMPRESS = 12,
  TOO_SMALL = 15,
  ALIGNMENT = 17,
  CHUNK_TOO_LARGE = 18,
  INPUT_LENGTH = 20,
  CUDA_ERROR = 1000,
};

typedef struct {
  uint32_t version, cuda_runtime;
} Properties;

/// Both kinds of options have this form; `first` is the type of ANS, or the backend of a decompression.
typedef struct {
  int first, data_type;
  uint8_t sub_chunks_max;
  uint8_t reserved[55];
} Options;

static Status wrong(Status status, const char* what) {
  note("violations", "%s\n", what);
  return status;
}

// ---- the driver

typedef struct {
  int (*launch)(void*, void (*)(void*), void*);
  int (*retain)(void**, int);
  int (*set_current)(void*);
  int (*range)(uint64_t*, size_t*, uint64_t);
} Driver;

static bool find_driver(Driver* driver) {
  const char* path = getenv("ORBITKV_BEHIND_LIBCUDA");
  if (path == NULL) path = getenv("ORBITKV_LIBCUDA");
  void* library = dlopen(path != NULL ? path : "libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == NULL) return false;
  *(void**)&driver->launch = dlsym(library, "cuLaunchHostFunc");
  *(void**)&driver->retain = dlsym(library, "cuDevicePrimaryCtxRetain");
  *(void**)&driver->set_current = dlsym(library, "cuCtxSetCurrent");
  *(void**)&driver->range = dlsym(library, "cuMemGetAddressRange");
  return driver->launch != NULL && driver->retain != NULL && driver->set_current != NULL && driver->range != NULL;
}

static bool reaches(const Driver* driver, const void* memory, size_t bytes) {
  uint64_t base = 0;
  size_t whole = 0;
  const uint64_t address = (uint64_t)(uintptr_t)memory;
  return memory != NULL && driver->range(&base, &whole, address) == 0 && address + bytes <= base + whole;
}

// ---- the toy code: each plane of bytes by the fifteen that are most frequent, four bits each, and the others after them

#define MAGIC 0x59544f41u
#define HEADER 16
#define COMMON 15

static int planes_of(int data_type) { return data_type == 9 ? 2 : 1; }

static size_t encode_plane(const uint8_t* from, size_t count, int step, uint8_t* to) {
  size_t seen[256] = {0}, escapes = 0;
  uint8_t place[256];
  for (size_t i = 0; i < count; i++) seen[from[i * step]]++;
  memset(place, COMMON, sizeof place);
  for (int rank = 0; rank < COMMON; rank++) {
    int best = 0;
    for (int value = 1; value < 256; value++)
      if (seen[value] > seen[best]) best = value;
    to[1 + rank] = (uint8_t)best;
    if (seen[best] > 0) place[best] = (uint8_t)rank;
    seen[best] = 0;
  }
  uint8_t* nibbles = to + 1 + COMMON + 4;
  const size_t nibble_bytes = (count + 1) / 2;
  uint8_t* rest = nibbles + nibble_bytes;
  for (size_t i = 0; i < count; i++) escapes += place[from[i * step]] == COMMON;
  to[0] = nibble_bytes + escapes < count;
  if (!to[0]) {
    for (size_t i = 0; i < count; i++) nibbles[i] = from[i * step];
    return 1 + COMMON + 4 + count;
  }
  memcpy(to + 1 + COMMON, &(uint32_t){(uint32_t)escapes}, 4);
  memset(nibbles, 0, nibble_bytes);
  for (size_t i = 0; i < count; i++) {
    const uint8_t value = from[i * step];
    nibbles[i / 2] |= (uint8_t)(place[value] << (i % 2 * 4));
    if (place[value] == COMMON) *rest++ = value;
  }
  return (size_t)(rest - to);
}

/// Bytes that were read, or 0 for what is no coding.
static size_t decode_plane(const uint8_t* from, size_t left, uint8_t* to, size_t count, int step) {
  const size_t head = 1 + COMMON + 4, nibble_bytes = (count + 1) / 2;
  if (left < head || from[0] > 1) return 0;
  const uint8_t* nibbles = from + head;
  if (from[0] == 0) {
    if (left < head + count) return 0;
    for (size_t i = 0; i < count; i++) to[i * step] = nibbles[i];
    return head + count;
  }
  uint32_t escapes;
  memcpy(&escapes, from + 1 + COMMON, 4);
  if (left < head + nibble_bytes + escapes) return 0;
  const uint8_t *rest = nibbles + nibble_bytes, *end = rest + escapes;
  for (size_t i = 0; i < count; i++) {
    const int place = nibbles[i / 2] >> (i % 2 * 4) & 15;
    if (place < COMMON) to[i * step] = from[1 + place];
    else if (rest == end) return 0;
    else to[i * step] = *rest++;
  }
  return rest == end ? head + nibble_bytes + escapes : 0;
}

static size_t encode(const uint8_t* from, size_t bytes, int data_type, uint8_t* to) {
  const int planes = planes_of(data_type);
  memset(to, 0, HEADER);
  memcpy(to, &(uint32_t){MAGIC}, 4);
  to[4] = (uint8_t)data_type;
  memcpy(to + 8, &(uint64_t){bytes}, 8);
  size_t done = HEADER;
  for (int plane = 0; plane < planes; plane++)
    done += encode_plane(from + plane, bytes / (size_t)planes, planes, to + done);
  return done;
}

static Status decode(const uint8_t* from, size_t coded, int data_type, uint8_t* to, size_t room, size_t* bytes) {
  uint32_t magic = 0;
  uint64_t length = 0;
  if (coded < HEADER) return CANNOT_DECOMPRESS;
  memcpy(&magic, from, 4);
  memcpy(&length, from + 8, 8);
  if (magic != MAGIC || (data_type != 0 && from[4] != data_type)) return CANNOT_DECOMPRESS;
  if (length > room) return TOO_SMALL;
  const int planes = planes_of(from[4]);
  size_t done = HEADER;
  for (int plane = 0; plane < planes; plane++) {
    const size_t here = decode_plane(from + done, coded - done, to + plane, length / (size_t)planes, planes);
    if (here == 0) return CANNOT_DECOMPRESS;
    done += here;
  }
  if (done != coded) return CANNOT_DECOMPRESS;
  *bytes = length;
  return OK;
}

// ---- sizes

static size_t output_max(size_t bytes) { return (bytes * 13 / 10 + 4096 + 7) / 8 * 8; }

/// As the real library on an H200: some for bytes, none for numbers.
static size_t temp_of(bool compress, size_t chunks, int data_type) {
  const long said = number(compress ? "temp" : "decode-temp", number("temp", -1));
  if (said >= 0) return (size_t)said;
  return compress && data_type == 1 ? 4164 * chunks : 0;
}

static Status check(Options options, bool compress) {
  for (size_t i = 0; i < sizeof options.reserved; i++)
    if (options.reserved[i] != 0) return wrong(INVALID, "reserved bytes of the options are not zero");
  if (options.first != 0) return wrong(INVALID, "an algorithm or backend that is not asked for");
  if (options.sub_chunks_max != 0) return wrong(INVALID, "sub-chunks that are not asked for");
  const int type = options.data_type;
  if (type != 1 && type != 9 && type != 10 && (compress || type != 0)) return wrong(INVALID, "no type of ANS");
  return OK;
}

API Status nvcompGetProperties(Properties* properties) {
  const Status status = (Status)number("properties", OK);
  if (status != OK) return status;
  *properties = (Properties){(uint32_t)number("version", 5300), 12090};
  return OK;
}

API Status nvcompBatchedANSCompressGetTempSizeAsync(size_t chunks, size_t chunk_max, Options options, size_t* temp,
                                                    size_t total) {
  const Status status = check(options, true);
  if (status != OK) return status;
  if (chunks == 0 || chunk_max == 0 || total > chunks * chunk_max) return wrong(INVALID, "sizes of a compression");
  *temp = temp_of(true, chunks, options.data_type);
  return OK;
}

API Status nvcompBatchedANSCompressGetMaxOutputChunkSize(size_t chunk_max, Options options, size_t* bytes) {
  const Status status = check(options, true);
  if (status != OK) return status;
  if (chunk_max == 0 || chunk_max > 1 << 24) return CHUNK_TOO_LARGE;
  *bytes = output_max(chunk_max);
  return OK;
}

#ifndef WITHOUT_DECOMPRESSION
API Status nvcompBatchedANSDecompressGetTempSizeAsync(size_t chunks, size_t chunk_max, Options options, size_t* temp,
                                                      size_t total) {
  const Status status = check(options, false);
  if (status != OK) return status;
  if (chunks == 0 || chunk_max == 0 || total > chunks * chunk_max) return wrong(INVALID, "sizes of a decompression");
  *temp = temp_of(false, chunks, options.data_type);
  return OK;
}
#endif

// ---- batches

typedef struct {
  Driver driver;
  void* context;
  bool compress;
  const void* const* from;
  const size_t *from_bytes, *room_bytes;
  void* const* to;
  size_t* to_bytes;
  Status* statuses;
  size_t count, chunk_max, temp_bytes;
  Options options;
} Batch;

static Status run_chunk(const Batch* b, size_t i) {
  const Driver* driver = &b->driver;
  const size_t bytes = b->from_bytes[i], unit = (size_t)planes_of(b->options.data_type);
  if ((uintptr_t)b->from[i] % 8 != 0) return wrong(ALIGNMENT, "a chunk's address");
  if ((uintptr_t)b->to[i] % (b->compress ? 8 : 1) != 0) return wrong(ALIGNMENT, "the address of an output");
  if (bytes == 0 || !reaches(driver, b->from[i], bytes)) return wrong(INVALID, "a chunk outside device memory");
  const size_t room = b->compress ? output_max(b->chunk_max) : b->room_bytes[i];
  if (!reaches(driver, b->to[i], room)) return wrong(INVALID, "an output outside device memory");
  if (!b->compress)
    return decode(b->from[i], bytes, b->options.data_type, b->to[i], room, &b->to_bytes[i]);
  if (bytes > b->chunk_max) return wrong(CHUNK_TOO_LARGE, "a chunk longer than the longest");
  if (bytes % unit != 0) return wrong(INPUT_LENGTH, "a chunk that ends within a number");
  b->to_bytes[i] = encode(b->from[i], bytes, b->options.data_type, b->to[i]);
  return OK;
}

static void run(void* given) {
  Batch* b = given;
  b->driver.set_current(b->context);
  char line[64];
  while (told("hold", line, sizeof line)) usleep(500);
  long failing = -1, failure = 0;
  if (told("chunk", line, sizeof line) && sscanf(line, "%ld %ld", &failing, &failure) != 2) failing = -1;
  const long silent = number("silent", -1), shortened = number("short", -1);
  for (size_t i = 0; i < b->count; i++) {
    if (silent == (long)i) continue;
    b->statuses[i] = failing == (long)i ? (Status)failure : run_chunk(b, i);
    if (shortened == (long)i && !b->compress) b->to_bytes[i]--;
  }
  note("log", "%s %zu %zu\n", b->compress ? "compress" : "decompress", b->count, b->temp_bytes);
  free(b);
}

static Status queue(Batch made, const void* temp, void* stream) {
  const Status told_status = (Status)number(made.compress ? "compress" : "decompress", OK);
  if (told_status != OK) return told_status;
  const Status status = check(made.options, made.compress);
  if (status != OK) return status;
  if (made.count == 0 || (made.compress && made.chunk_max > 1 << 24)) return wrong(INVALID, "the size of a batch");
  const size_t needed = temp_of(made.compress, made.count, made.options.data_type);
  if (made.temp_bytes < needed) return wrong(INVALID, "less temporary memory than was asked for");
  if (!find_driver(&made.driver) || made.driver.retain(&made.context, 0) != 0 ||
      made.driver.set_current(made.context) != 0)
    return CUDA_ERROR;
  if (made.temp_bytes > 0 && needed > 0 &&
      ((uintptr_t)temp % 8 != 0 || !reaches(&made.driver, temp, made.temp_bytes)))
    return wrong(INVALID, "temporary memory");
  const size_t words = made.count * 8;
  if (!reaches(&made.driver, made.from, words) || !reaches(&made.driver, made.from_bytes, words) ||
      !reaches(&made.driver, made.to, words) || !reaches(&made.driver, made.to_bytes, words) ||
      !reaches(&made.driver, made.statuses, made.count * 4) ||
      (!made.compress && !reaches(&made.driver, made.room_bytes, words)))
    return wrong(INVALID, "an array outside device memory");
  Batch* batch = malloc(sizeof *batch);
  *batch = made;
  if (made.driver.launch(stream, run, batch) == 0) return OK;
  free(batch);
  return CUDA_ERROR;
}

API Status nvcompBatchedANSCompressAsync(const void* const* chunks, const size_t* bytes, size_t chunk_max, size_t count,
                                         void* temp, size_t temp_bytes, void* const* to, size_t* to_bytes,
                                         Options options, Status* statuses, void* stream) {
  return queue((Batch){.compress = true,
                       .from = chunks,
                       .from_bytes = bytes,
                       .to = to,
                       .to_bytes = to_bytes,
                       .statuses = statuses,
                       .count = count,
                       .chunk_max = chunk_max,
                       .temp_bytes = temp_bytes,
                       .options = options},
               temp, stream);
}

API Status nvcompBatchedANSDecompressAsync(const void* const* coded, const size_t* coded_bytes, const size_t* room_bytes,
                                           size_t* bytes, size_t count, void* temp, size_t temp_bytes, void* const* to,
                                           Options options, Status* statuses, void* stream) {
  return queue((Batch){.from = coded,
                       .from_bytes = coded_bytes,
                       .room_bytes = room_bytes,
                       .to = to,
                       .to_bytes = bytes,
                       .statuses = statuses,
                       .count = count,
                       .temp_bytes = temp_bytes,
                       .options = options},
               temp, stream);
}
