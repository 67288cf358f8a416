// Stands in for libcuda.so.1 on a machine without a GPU. Device memory is shared memory of the host, a stream is a queue
// with a thread, kernels are their C twins. Held strictly: every call that needs a context fails without one, every
// version that is asked for must be the pinned one, and no pointer outside an allocation is copied.
//
// Faults (comma separated): those of the environment variable ORBITKV_SHIM at the first call, until the file that
// ORBITKV_SHIM_FAULTS names says others: it has 16 slots of 256 bytes, and its first byte is the one that holds.
//   no-device         cuDeviceGetCount answers 100
//   old-driver        cuGetProcAddress finds nothing
//   no-memops         cuStreamWriteValue32 answers 801
//   no-batch          cuMemcpyBatchAsync answers 801
//   launch=N          cuLaunchKernel answers N and queues nothing
//   copy=N            asynchronous copies answer N and queue nothing
//   sticky=N          the next kernel that a stream runs ends the context: every later answer is N
//   hang              kernels never end; `release` (another value) lets them go
//   register=N        cuMemHostRegister answers N
//   event=N           cuEventCreate answers N
//   record=N          cuEventRecord answers N and queues nothing
//   write=N           cuStreamWriteValue32 answers N and queues nothing
//   uuid=N            cuDeviceGetUuid answers N
//   alloc=N           cuMemAlloc answers N
//   vmm               no memory can be exported
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef int Result;
typedef uint64_t Address;
#define API __attribute__((visibility("default")))
#define VERSION 13000

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static Result sticky;
static __thread int current;
static int context_record;

static pthread_once_t faults_once = PTHREAD_ONCE_INIT;
static const char *faults_first;
static const char *faults_map;
static void open_faults(void) {
  const char *first = getenv("ORBITKV_SHIM");
  const char *path = getenv("ORBITKV_SHIM_FAULTS");
  faults_first = first == NULL ? "" : strdup(first);
  if (path == NULL) return;
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  void *map = fd < 0 ? MAP_FAILED : mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED) abort();
  close(fd);
  faults_map = map;
}

static const char *fault(const char *name) {
  pthread_once(&faults_once, open_faults);
  const int slot = faults_map == NULL ? 0 : __atomic_load_n(faults_map, __ATOMIC_ACQUIRE);
  const char *list = slot == 0 ? faults_first : faults_map + 256 * slot;
  size_t length = strlen(name);
  while (*list) {
    if (strncmp(list, name, length) == 0) {
      if (list[length] == '=') return list + length + 1;
      if (list[length] == ',' || list[length] == 0) return list + length;
    }
    list = strchr(list, ',');
    if (list == NULL) return NULL;
    ++list;
  }
  return NULL;
}
static Result fault_number(const char *name) {
  const char *value = fault(name);
  return value == NULL ? 0 : atoi(value);
}

#define ENTER()                                            \
  do {                                                     \
    if (!current) return 201;                              \
    Result dead = __atomic_load_n(&sticky, __ATOMIC_ACQUIRE); \
    if (dead) return dead;                                 \
  } while (0)

// ---- memory

typedef struct Block {
  char *base;
  size_t bytes;
  int fd_named;  // exported name, 0 when none
  int exporter;  // process that exported it, 0 when it is ours
  char name[64];
  int host;
  struct Block *next;
} Block;
static Block *blocks;

static Block *find(Address address, size_t bytes) {
  for (Block *b = blocks; b; b = b->next)
    if (address >= (Address)b->base && address + bytes <= (Address)b->base + b->bytes) return b;
  return NULL;
}
static int reaches(Address address, size_t bytes) {
  pthread_mutex_lock(&lock);
  int yes = find(address, bytes) != NULL;
  pthread_mutex_unlock(&lock);
  return yes;
}
static Block *add(char *base, size_t bytes) {
  Block *b = calloc(1, sizeof *b);
  b->base = base;
  b->bytes = bytes;
  pthread_mutex_lock(&lock);
  b->next = blocks;
  blocks = b;
  pthread_mutex_unlock(&lock);
  return b;
}
static int drop(char *base, Block *out) {
  pthread_mutex_lock(&lock);
  for (Block **at = &blocks; *at; at = &(*at)->next) {
    if ((*at)->base != base) continue;
    Block *b = *at;
    *at = b->next;
    *out = *b;
    free(b);
    pthread_mutex_unlock(&lock);
    return 1;
  }
  pthread_mutex_unlock(&lock);
  return 0;
}

static void name_of(char *out, size_t size, int pid, unsigned long number) {
  snprintf(out, size, "/orbitkv-shim-%d-%lu", pid, number);
}
static unsigned long next_number = 1;

API Result cuMemAlloc(Address *address, size_t bytes) {
  ENTER();
  Result injected = fault_number("alloc");
  if (injected) return injected;
  unsigned long number = __atomic_fetch_add(&next_number, 1, __ATOMIC_RELAXED);
  char name[64];
  name_of(name, sizeof name, getpid(), number);
  int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
  if (fd < 0) return 2;
  // The name goes when the memory does, or when this process has not been asked to export it.
  if (ftruncate(fd, (off_t)bytes) != 0) return 2;
  char *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (base == MAP_FAILED) return 2;
  Block *b = add(base, bytes);
  b->fd_named = (int)number;
  *address = (Address)base;
  return 0;
}
API Result cuMemFree(Address address) {
  ENTER();
  Block b;
  if (!drop((char *)address, &b)) return 1;
  char name[64];
  name_of(name, sizeof name, getpid(), (unsigned long)b.fd_named);
  shm_unlink(name);
  munmap(b.base, b.bytes);
  return 0;
}
API Result cuMemGetAddressRange(Address *base, size_t *bytes, Address address) {
  ENTER();
  pthread_mutex_lock(&lock);
  Block *b = find(address, 1);
  if (b && base) *base = (Address)b->base;
  if (b && bytes) *bytes = b->bytes;
  pthread_mutex_unlock(&lock);
  return b ? 0 : 1;
}
API Result cuPointerGetAttribute(void *out, int attribute, Address address) {
  ENTER();
  pthread_mutex_lock(&lock);
  Block *b = find(address, 1);
  int host = b ? b->host : 0;
  pthread_mutex_unlock(&lock);
  if (!b) return 1;
  if (attribute == 2) *(unsigned *)out = host ? 1 : 2;
  else if (attribute == 9) *(int *)out = 0;
  else if (attribute == 10) *(int *)out = fault("vmm") == NULL;
  else return 1;
  return 0;
}
API Result cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
  ENTER();
  if (flags != 3) return 1;
  char *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return 2;
  add(base, bytes)->host = 1;
  *memory = base;
  return 0;
}
API Result cuMemFreeHost(void *memory) {
  Block b;
  if (!drop(memory, &b)) return 1;
  munmap(b.base, b.bytes);
  return 0;
}
API Result cuMemHostRegister(void *memory, size_t bytes, unsigned flags) {
  ENTER();
  Result injected = fault_number("register");
  if (injected) return injected;
  if (flags != 3) return 1;
  if (reaches((Address)memory, 1)) return 712;
  add(memory, bytes)->host = 1;
  return 0;
}
API Result cuMemHostUnregister(void *memory) {
  ENTER();
  Block b;
  return drop(memory, &b) ? 0 : 713;
}
API Result cuMemHostGetDevicePointer(Address *address, void *memory, unsigned flags) {
  ENTER();
  if (flags != 0 || !reaches((Address)memory, 1)) return 1;
  *address = (Address)memory;
  return 0;
}

typedef struct {
  char bytes[64];
} Handle;
API Result cuIpcGetMemHandle(Handle *handle, Address address) {
  ENTER();
  if (fault("vmm")) return 1;
  pthread_mutex_lock(&lock);
  Block *b = find(address, 1);
  int number = b ? b->fd_named : 0;
  pthread_mutex_unlock(&lock);
  if (!number) return 1;
  memset(handle, 0, sizeof *handle);
  name_of(handle->bytes, sizeof handle->bytes, getpid(), (unsigned long)number);
  return 0;
}
API Result cuIpcOpenMemHandle(Address *address, Handle handle, unsigned flags) {
  ENTER();
  if (flags != 1 || memchr(handle.bytes, 0, 64) == NULL) return 1;
  int pid = 0;
  if (sscanf(handle.bytes, "/orbitkv-shim-%d-", &pid) != 1) return 1;
  if (pid == getpid()) return 201;
  int fd = shm_open(handle.bytes, O_RDWR, 0);
  if (fd < 0) return 1;
  struct stat found;
  fstat(fd, &found);
  char *base = mmap(NULL, (size_t)found.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (base == MAP_FAILED) return 2;
  Block *b = add(base, (size_t)found.st_size);
  b->exporter = pid;
  memcpy(b->name, handle.bytes, sizeof b->name);
  *address = (Address)base;
  return 0;
}
API Result cuIpcCloseMemHandle(Address address) {
  ENTER();
  Block b;
  if (!drop((char *)address, &b)) return 1;
  munmap(b.base, b.bytes);
  if (kill(b.exporter, 0) != 0) shm_unlink(b.name);  // it was killed, and could not
  return 0;
}
__attribute__((destructor)) static void forget(void) {
  for (Block *b = blocks; b; b = b->next) {
    char name[64];
    name_of(name, sizeof name, getpid(), (unsigned long)b->fd_named);
    if (b->fd_named) shm_unlink(name);
  }
}

// ---- streams

typedef struct Event {
  struct Event *older;
  unsigned long recorded, passed;  // recordings queued, and passed
  struct timespec at;
} Event;
// Never freed, because a queued operation may still name one; kept where they can be found.
static Event *all_events;

typedef struct Op {
  enum { COPY, FILL, WRITE, RECORD, WAIT, WAIT_VALUE, HOST, KERNEL } kind;
  Address to, from;
  size_t bytes;
  unsigned value;
  Event *event;
  unsigned long recorded;
  void (*function)(void *);
  void *argument;
  int kernel;
  Address tiles, results, powers;
  uint32_t units, piece_bytes;
  struct Op *next;
} Op;

typedef struct Stream {
  struct Stream *older;
  Op *first, *last;
  int running, closing;
  pthread_t thread;
} Stream;
static Stream *all_streams;

struct Tile {
  uint64_t target, source, bytes;
};
struct Run {
  uint64_t address;
  uint32_t bytes, weight, result, first;
};

static uint32_t times(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (int i = 31; i >= 0; --i) {
    if (a >> i & 1) product ^= b;
    b = b >> 1 ^ (b & 1 ? 0xedb88320u : 0);
  }
  return product;
}

// An item as native/cuda/code_items.h describes it; coded by test/shims/codes.cc, as the processor does.
struct Item {
  uint64_t page, coded;
  uint32_t bytes, stored, padded, first, coding, head_dim, seed, unit;
};
extern int orbitkv_encode_item(const struct Item *item, uint32_t *sum);
extern int orbitkv_decode_item(const struct Item *item);
enum { FP8_ENCODE = 5, FP8_DECODE, TURBOQUANT_ENCODE, TURBOQUANT_DECODE };

static Result run_codes(const Op *op) {
  const struct Item *items = (const struct Item *)op->tiles;
  uint32_t *flags = (uint32_t *)op->results;
  const int encodes = op->kernel == FP8_ENCODE || op->kernel == TURBOQUANT_ENCODE;
  const unsigned format = op->kernel <= FP8_DECODE ? 1 : 2;
  if (op->bytes > 256 || !reaches(op->tiles, op->bytes * sizeof *items) || !reaches(op->results, op->bytes * 8)) return 700;
  for (size_t i = 0; i < op->bytes; ++i) {
    const uint32_t next = i + 1 < op->bytes ? items[i + 1].first : op->units;
    if (next == items[i].first) continue;  // no units
    if ((items[i].coding & 255) != format || next < items[i].first) return 700;
    if (!reaches(items[i].page, items[i].bytes)) return 700;
    if (!reaches(items[i].coded, encodes ? items[i].padded : items[i].stored)) return 700;
    const int sound = encodes ? orbitkv_encode_item(items + i, flags + op->bytes + i) : orbitkv_decode_item(items + i);
    if (!sound) flags[i] = 1;
  }
  return 0;
}

static uint32_t remainder_of(const unsigned char *bytes, uint32_t count) {
  uint32_t crc = 0;
  for (uint32_t at = 0; at < count; ++at) {
    crc ^= bytes[at];
    for (int k = 0; k < 8; ++k) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return crc;
}

// Piece by piece, from the end of each run, as the kernel does.
static Result run_sums(const Op *op) {
  const struct Run *runs = (const struct Run *)op->tiles;
  const uint32_t *powers = (const uint32_t *)op->powers;
  uint32_t *results = (uint32_t *)op->results;
  const uint32_t piece = op->piece_bytes;
  if (piece == 0 || piece % 2048 != 0 || !reaches(op->tiles, op->bytes * sizeof *runs)) return 700;
  uint32_t pieces = 0;
  for (size_t i = 0; i < op->bytes; ++i) {
    const struct Run *run = runs + i;
    if (run->bytes == 0 || run->first != pieces || !reaches(run->address, run->bytes)) return 700;
    if (!reaches((Address)(results + run->result), 4)) return 700;
    uint32_t behind = 0;
    for (uint32_t left = run->bytes; left > 0; ++behind, ++pieces) {
      const uint32_t here = left < piece ? left : piece;
      const Address power = (Address)(powers + behind * (piece / 2048));
      if (!reaches(power, 4)) return 700;
      left -= here;
      const uint32_t crc = remainder_of((const unsigned char *)run->address + left, here);
      results[run->result] ^= times(times(crc, *(const uint32_t *)power), run->weight);
    }
  }
  return pieces == op->units ? 0 : 700;
}

static Result run_kernel(const Op *op) {
  while (fault("hang")) usleep(200);
  Result injected = fault_number("sticky");
  if (injected) return injected;
  if (op->kernel >= FP8_ENCODE) return run_codes(op);
  if (op->kernel != 2) {
    const struct Tile *tiles = (const struct Tile *)op->tiles;
    if (!reaches(op->tiles, op->bytes * sizeof *tiles)) return 700;
    for (size_t i = 0; i < op->bytes; ++i) {
      if (!reaches(tiles[i].target, tiles[i].bytes)) return 700;
      if (tiles[i].source == 0) {
        memset((void *)tiles[i].target, 0, tiles[i].bytes);
        continue;
      }
      if (!reaches(tiles[i].source, tiles[i].bytes)) return 700;
      memcpy((void *)tiles[i].target, (void *)tiles[i].source, tiles[i].bytes);
    }
    return 0;
  }
  return run_sums(op);
}

static void *work(void *passed) {
  Stream *s = passed;
  pthread_mutex_lock(&lock);
  for (;;) {
    while (!s->first && !s->closing) pthread_cond_wait(&moved, &lock);
    if (!s->first) break;
    Op *op = s->first;
    // As last recorded when the wait was queued: what is recorded later does not count.
    if (op->kind == WAIT && op->event->passed < op->recorded && !sticky) {
      pthread_cond_wait(&moved, &lock);
      continue;
    }
    if (op->kind == WAIT_VALUE && !sticky && (int32_t)(*(volatile uint32_t *)op->to - op->value) < 0) {
      pthread_mutex_unlock(&lock);  // whoever writes the word tells nobody
      usleep(500);
      pthread_mutex_lock(&lock);
      continue;
    }
    s->running = 1;
    s->first = op->next;
    if (!s->first) s->last = NULL;
    const Result dead = sticky;
    pthread_mutex_unlock(&lock);
    Result failed = 0;
    if (!dead) {
      if (op->kind == COPY) memmove((void *)op->to, (void *)op->from, op->bytes);
      if (op->kind == FILL) memset((void *)op->to, (int)op->value, op->bytes);
      if (op->kind == WRITE) __atomic_store_n((uint32_t *)op->to, op->value, __ATOMIC_RELEASE);
      if (op->kind == HOST) op->function(op->argument);
      if (op->kind == KERNEL) failed = run_kernel(op);
    }
    pthread_mutex_lock(&lock);
    if (failed) __atomic_store_n(&sticky, failed, __ATOMIC_RELEASE);
    if (op->kind == RECORD && !dead) {
      clock_gettime(CLOCK_MONOTONIC, &op->event->at);
      op->event->passed++;
    }
    s->running = 0;
    free(op);
    pthread_cond_broadcast(&moved);
  }
  pthread_mutex_unlock(&lock);
  return NULL;
}

static Result push(Stream *s, Op op) {
  Op *made = malloc(sizeof *made);
  *made = op;
  made->next = NULL;
  pthread_mutex_lock(&lock);
  if (op.kind == RECORD) op.event->recorded++;
  if (op.kind == WAIT) made->recorded = op.event->recorded;
  if (s->last) s->last->next = made;
  else s->first = made;
  s->last = made;
  pthread_cond_broadcast(&moved);
  pthread_mutex_unlock(&lock);
  return 0;
}

API Result cuStreamCreate(Stream **out, unsigned flags) {
  ENTER();
  if (flags != 1) return 1;
  Stream *s = calloc(1, sizeof *s);
  pthread_mutex_lock(&lock);
  s->older = all_streams;
  all_streams = s;
  pthread_mutex_unlock(&lock);
  pthread_create(&s->thread, NULL, work, s);
  *out = s;
  return 0;
}
API Result cuStreamDestroy(Stream *s) {
  pthread_mutex_lock(&lock);
  s->closing = 1;
  pthread_cond_broadcast(&moved);
  pthread_mutex_unlock(&lock);
  pthread_detach(s->thread);  // runs what is queued, as the driver does
  return 0;
}
static int idle(Stream *s) { return !s->first && !s->running; }
API Result cuStreamQuery(Stream *s) {
  ENTER();
  pthread_mutex_lock(&lock);
  int yes = idle(s);
  pthread_mutex_unlock(&lock);
  return yes ? 0 : 600;
}
API Result cuStreamSynchronize(Stream *s) {
  ENTER();
  pthread_mutex_lock(&lock);
  while (!idle(s)) pthread_cond_wait(&moved, &lock);
  pthread_mutex_unlock(&lock);
  return sticky;
}
API Result cuStreamWaitEvent(Stream *s, Event *event, unsigned flags) {
  ENTER();
  if (flags) return 1;
  return push(s, (Op){.kind = WAIT, .event = event});
}
API Result cuStreamWriteValue32(Stream *s, Address to, uint32_t value, unsigned flags) {
  ENTER();
  if (fault("no-memops")) return 801;
  Result injected = fault_number("write");
  if (injected) return injected;
  if (flags || to % 4 || !reaches(to, 4)) return 1;
  return push(s, (Op){.kind = WRITE, .to = to, .value = value});
}
API Result cuStreamWaitValue32(Stream *s, Address from, uint32_t value, unsigned flags) {
  ENTER();
  if (fault("no-memops")) return 801;
  if (flags || from % 4 || !reaches(from, 4)) return 1;
  return push(s, (Op){.kind = WAIT_VALUE, .to = from, .value = value});
}
API Result cuLaunchHostFunc(Stream *s, void (*function)(void *), void *argument) {
  ENTER();
  return push(s, (Op){.kind = HOST, .function = function, .argument = argument});
}
API Result cuEventCreate(Event **out, unsigned flags) {
  ENTER();
  Result injected = fault_number("event");
  if (injected) return injected;
  if (flags != 0 && flags != 2) return 1;
  *out = calloc(1, sizeof **out);
  pthread_mutex_lock(&lock);
  (*out)->older = all_events;
  all_events = *out;
  pthread_mutex_unlock(&lock);
  return 0;
}
API Result cuEventDestroy(Event *event) {
  (void)event;  // a queued recording may still name it
  return 0;
}
API Result cuEventRecord(Event *event, Stream *s) {
  ENTER();
  Result injected = fault_number("record");
  if (injected) return injected;
  return push(s, (Op){.kind = RECORD, .event = event});
}
API Result cuEventQuery(Event *event) {
  ENTER();
  pthread_mutex_lock(&lock);
  int pending = event->passed < event->recorded;
  pthread_mutex_unlock(&lock);
  return pending ? 600 : 0;
}
API Result cuEventElapsedTime(float *ms, Event *from, Event *to) {
  ENTER();
  *ms = (float)(to->at.tv_sec - from->at.tv_sec) * 1e3f + (float)(to->at.tv_nsec - from->at.tv_nsec) / 1e6f;
  return 0;
}

static Result copy(Stream *s, Address to, Address from, size_t bytes) {
  Result injected = fault_number("copy");
  if (injected) return injected;
  return push(s, (Op){.kind = COPY, .to = to, .from = from, .bytes = bytes});
}
API Result cuMemcpyHtoDAsync(Address to, const void *from, size_t bytes, Stream *s) {
  ENTER();
  return reaches(to, bytes) ? copy(s, to, (Address)from, bytes) : 1;
}
API Result cuMemcpyDtoHAsync(void *to, Address from, size_t bytes, Stream *s) {
  ENTER();
  return reaches(from, bytes) ? copy(s, (Address)to, from, bytes) : 1;
}
API Result cuMemcpyDtoDAsync(Address to, Address from, size_t bytes, Stream *s) {
  ENTER();
  return reaches(to, bytes) && reaches(from, bytes) ? copy(s, to, from, bytes) : 1;
}
API Result cuMemcpyBatchAsync(Address *to, Address *from, size_t *sizes, size_t count, const uint32_t *attributes,
                              size_t *firsts, size_t attribute_count, size_t *failed, Stream *s) {
  ENTER();
  if (fault("no-batch")) return 801;
  if (!s || attribute_count != 1 || attributes[0] != 1 || firsts[0] != 0 || count > 4096) return 1;
  for (size_t i = 0; i < count; ++i) {
    *failed = i;
    if (!reaches(to[i], sizes[i]) || !reaches(from[i], sizes[i])) return 1;
    Result result = copy(s, to[i], from[i], sizes[i]);
    if (result) return result;
  }
  return 0;
}
API Result cuMemsetD8Async(Address to, unsigned char value, size_t bytes, Stream *s) {
  ENTER();
  if (!reaches(to, bytes)) return 1;
  return push(s, (Op){.kind = FILL, .to = to, .value = value, .bytes = bytes});
}

// ---- modules: the image is what libnvrtc's twin makes, "SHIM <name>"

// Loaded modules, as the driver keeps them.
static char *modules[64];
API Result cuModuleLoadData(const char **module, const void *image) {
  ENTER();
  if (memcmp(image, "SHIM ", 5) != 0) return 200;
  pthread_mutex_lock(&lock);
  int at = 0;
  while (at < 64 && modules[at]) ++at;
  if (at < 64) *module = modules[at] = strdup((const char *)image + 5);
  pthread_mutex_unlock(&lock);
  return at < 64 ? 0 : 2;
}
API Result cuModuleGetFunction(intptr_t *function, const char *module, const char *name) {
  ENTER();
  static const struct {
    const char *module, *name;
    intptr_t function;
  } known[] = {{"orbitkv_move", "orbitkv_move", 1},
               {"orbitkv_crc32", "orbitkv_crc32", 2},
               {"orbitkv_move", "orbitkv_gather", 3},
               {"orbitkv_move", "orbitkv_gather_warps", 4},
               {"orbitkv_fp8", "orbitkv_fp8_encode", FP8_ENCODE},
               {"orbitkv_fp8", "orbitkv_fp8_decode", FP8_DECODE},
               {"orbitkv_turboquant_", "orbitkv_turboquant_encode", TURBOQUANT_ENCODE},
               {"orbitkv_turboquant_", "orbitkv_turboquant_decode", TURBOQUANT_DECODE}};
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i) {
    // One program of TurboQuant for each shape.
    const size_t length = strlen(known[i].module);
    const int whole = known[i].module[length - 1] != '_';
    if (strncmp(module, known[i].module, length + whole) != 0 || strcmp(name, known[i].name) != 0) continue;
    *function = known[i].function;
    return 0;
  }
  return 500;
}
API Result cuLaunchKernel(intptr_t function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                          unsigned bz, unsigned shared, Stream *s, void **arguments, void **extra) {
  ENTER();
  Result injected = fault_number("launch");
  if (injected) return injected;
  if (!gx || gy != 1 || gz != 1 || !bx || bx % 32 || bx > 512 || by != 1 || bz != 1 || shared || extra) return 1;
  Op op = {.kind = KERNEL, .kernel = (int)function};
  op.tiles = *(Address *)arguments[0];
  op.bytes = *(uint32_t *)arguments[1];
  if (function == 2) {
    op.units = *(uint32_t *)arguments[2];
    op.piece_bytes = *(uint32_t *)arguments[3];
    op.powers = *(Address *)arguments[4];
    op.results = *(Address *)arguments[5];
    if (bx != 256 || op.units == 0) return 1;
  }
  if (function == 3 || function == 4) {
    const uint32_t slices = *(uint32_t *)arguments[2];
    if ((slices != 1 && slices != 2 && slices != 4) || *(uint32_t *)arguments[3] % 16 || bx != 512) return 1;
  }
  if (function >= FP8_ENCODE) {
    op.units = *(uint32_t *)arguments[2];
    op.results = *(Address *)arguments[3];
    if (bx != 256 || op.units == 0) return 1;
  }
  return push(s, op);
}

// ---- the rest

API Result cuInit(unsigned flags) { return flags ? 1 : 0; }
API Result cuDriverGetVersion(int *version) {
  *version = VERSION;
  return 0;
}
API Result cuGetErrorName(Result result, const char **name) {
  switch (result) {
    case 1: *name = "CUDA_ERROR_INVALID_VALUE"; return 0;
    case 2: *name = "CUDA_ERROR_OUT_OF_MEMORY"; return 0;
    case 700: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; return 0;
    case 701: *name = "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"; return 0;
    case 719: *name = "CUDA_ERROR_LAUNCH_FAILED"; return 0;
    default: *name = NULL; return 1;
  }
}
API Result cuDeviceGetCount(int *count) {
  *count = 1;
  return fault("no-device") ? 100 : 0;
}
API Result cuDeviceGet(int *device, int ordinal) {
  *device = ordinal;
  return ordinal == 0 ? 0 : 101;
}
API Result cuDeviceGetAttribute(int *value, int attribute, int device) {
  (void)device;
  *value = attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 16 ? 4 : 0;
  return 0;
}
API Result cuDeviceGetName(char *name, int bytes, int device) {
  (void)device;
  snprintf(name, (size_t)bytes, "Shim");
  return 0;
}
API Result cuDeviceGetUuid(unsigned char *uuid, int device) {
  (void)device;
  Result injected = fault_number("uuid");
  if (injected) return injected;
  for (int i = 0; i < 16; ++i) uuid[i] = (unsigned char)(i * 17);
  return 0;
}
API Result cuDeviceTotalMem(size_t *bytes, int device) {
  (void)device;
  *bytes = (size_t)1 << 30;
  return 0;
}
API Result cuDevicePrimaryCtxRetain(void **context, int device) {
  (void)device;
  *context = &context_record;
  return 0;
}
API Result cuCtxSetCurrent(void *context) {
  current = context == &context_record;
  return __atomic_load_n(&sticky, __ATOMIC_ACQUIRE) ? sticky : 0;
}

#define FUNCTIONS(X)                                                                                        \
  X(cuInit, 2000) X(cuDriverGetVersion, 2020) X(cuGetErrorName, 6000) X(cuDeviceGetCount, 2000)             \
  X(cuDeviceGet, 2000) X(cuDeviceGetAttribute, 2000) X(cuDeviceGetName, 2000) X(cuDeviceGetUuid, 11040)     \
  X(cuDeviceTotalMem, 3020) X(cuDevicePrimaryCtxRetain, 7000) X(cuCtxSetCurrent, 4000)                      \
  X(cuStreamCreate, 2000) X(cuStreamDestroy, 4000) X(cuStreamQuery, 2000) X(cuStreamSynchronize, 2000)      \
  X(cuStreamWaitEvent, 3020) X(cuStreamWriteValue32, 11070) X(cuStreamWaitValue32, 11070) X(cuLaunchHostFunc, 10000) \
  X(cuEventCreate, 2000) X(cuEventDestroy, 4000) X(cuEventRecord, 2000) X(cuEventQuery, 2000)               \
  X(cuEventElapsedTime, 2000) X(cuMemAlloc, 3020) X(cuMemFree, 3020) X(cuMemGetAddressRange, 3020)          \
  X(cuPointerGetAttribute, 4000) X(cuMemcpyHtoDAsync, 3020) X(cuMemcpyDtoHAsync, 3020)                      \
  X(cuMemcpyDtoDAsync, 3020) X(cuMemcpyBatchAsync, 12080) X(cuMemsetD8Async, 3020) X(cuMemHostAlloc, 2020)  \
  X(cuMemFreeHost, 2000) X(cuMemHostRegister, 6050) X(cuMemHostUnregister, 4000)                            \
  X(cuMemHostGetDevicePointer, 3020) X(cuIpcGetMemHandle, 4010) X(cuIpcOpenMemHandle, 11000)                \
  X(cuIpcCloseMemHandle, 4010) X(cuModuleLoadData, 2000) X(cuModuleGetFunction, 2000) X(cuLaunchKernel, 4000)

API Result cuGetProcAddress_v2(const char *name, void **found, int version, uint64_t flags, int *status) {
  *found = NULL;
  *status = 1;
  if (flags != 0) return 1;
  if (fault("old-driver")) return 0;
#define TRY(function, pinned)                                                   \
  if (strcmp(name, #function) == 0) {                                           \
    *status = version == pinned ? 0 : 2;                                        \
    *found = version == pinned ? (void *)(intptr_t)function : NULL;             \
  }
  FUNCTIONS(TRY)
  return 0;
}
