/* A library to preload that makes system calls fail, or writes down what they did to files.
 *
 * It watches files whose path contains one of up to eight words. Two modes, which may be on at once:
 *
 * - faults: the k-th watched call of chosen kinds fails, with ENOSPC, EIO or a short write, once or from then on;
 * - journal: every watched call that changes a file is appended to a journal, with its data, so that a program can
 *   build the states of the disk that a power failure may leave (shim.py describes the entries).
 *
 * Both are set by calls (`shim_fail`, `shim_journal`) from the process itself, or from its environment when it starts:
 * SHIM_PATHS=word:word SHIM_KINDS=mask SHIM_AT=k SHIM_ERROR=errno SHIM_STICKY=0|1 SHIM_JOURNAL=file.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE = 1, SYNC = 2, TRUNCATE = 4, RENAME = 8, UNLINK = 16, OPEN = 32 }; /* kinds, as a mask */
enum { SHORT_WRITE = -1 };                                                     /* in place of an errno */

static struct {
  char words[8][256];
  int count;
  unsigned kinds;
  long at;    /* which call fails, from 1; 0: none */
  int error;  /* errno, or SHORT_WRITE */
  int sticky; /* all later ones fail too */
} plan;
static long calls; /* watched calls of the chosen kinds so far */
static long *shared_calls;
static long fired;
static long *shared_fired;
static int journal = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name, type)                                                                                      \
  static __typeof__(type) real;                                                                               \
  if (!real) real = (__typeof__(type))dlsym(RTLD_NEXT, name)

static ssize_t raw_write(int fd, const void *data, size_t size) {
  REAL("write", ssize_t (*)(int, const void *, size_t));
  return real(fd, data, size);
}

/* ------------------------------------------------------------------ which calls */
static int watched(const char *path) {
  for (int i = 0; i < plan.count; i++)
    if (strstr(path, plan.words[i])) return 1;
  return 0;
}

static int path_of(int fd, char *path, size_t size) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, size - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return watched(path);
}

/* Returns 0, or what this call shall fail with. */
static int fault(unsigned kind) {
  if (!(plan.kinds & kind)) return 0;
  long now = __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
  if (shared_calls) *shared_calls = now;
  if (!plan.at || now < plan.at || (now > plan.at && !plan.sticky)) return 0;
  fired++;
  if (shared_fired) *shared_fired = fired;
  return plan.error;
}

/* ------------------------------------------------------------------ the journal */
/* An entry: u8 operation, u32 length of the path, i64 offset or size, u64 length of the data, path, data. */
static void note(char operation, const char *path, int64_t offset, const void *data, uint64_t size) {
  if (journal < 0) return;
  uint32_t length = (uint32_t)strlen(path);
  char head[21];
  head[0] = operation;
  memcpy(head + 1, &length, 4);
  memcpy(head + 5, &offset, 8);
  memcpy(head + 13, &size, 8);
  pthread_mutex_lock(&lock);
  raw_write(journal, head, sizeof head);
  raw_write(journal, path, length);
  if (size) raw_write(journal, data, size);
  pthread_mutex_unlock(&lock);
}

static void note_write(const char *path, int64_t offset, const void *data, ssize_t done) {
  if (done > 0) note('W', path, offset, data, (uint64_t)done);
}

/* ------------------------------------------------------------------ calls from outside */
void shim_watch(const char *words) {
  plan.count = 0;
  char copy[2048];
  snprintf(copy, sizeof copy, "%s", words);
  for (char *word = strtok(copy, ":"); word && plan.count < 8; word = strtok(NULL, ":"))
    snprintf(plan.words[plan.count++], sizeof plan.words[0], "%s", word);
}

void shim_fail(unsigned kinds, long at, int error, int sticky) {
  calls = fired = 0;
  plan.kinds = kinds, plan.at = at, plan.error = error, plan.sticky = sticky;
}

/* Where to count, too: memory that a parent shares with this process. */
void shim_share(long *counts) { shared_calls = counts, shared_fired = counts + 1; }

long shim_calls(void) { return calls; }
long shim_fired(void) { return fired; }

int shim_journal(const char *path) {
  if (journal >= 0) close(journal);
  journal = path && *path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
  return journal >= 0 || !path || !*path;
}

/* A mark in the journal: what was told to somebody at this moment. */
void shim_mark(const char *text) { note('M', "", 0, text, strlen(text)); }

__attribute__((constructor)) static void from_environment(void) {
  const char *words = getenv("SHIM_PATHS");
  if (!words) return;
  shim_watch(words);
  const char *kinds = getenv("SHIM_KINDS"), *at = getenv("SHIM_AT"), *error = getenv("SHIM_ERROR");
  const char *sticky = getenv("SHIM_STICKY"), *file = getenv("SHIM_JOURNAL");
  shim_fail(kinds ? (unsigned)atoi(kinds) : 0, at ? atol(at) : 0, error ? atoi(error) : EIO, sticky && *sticky == '1');
  if (file) shim_journal(file);
}

/* ------------------------------------------------------------------ the calls that are watched */
static ssize_t cut_write(int why, int fd, const void *data, size_t size) {
  if (why != SHORT_WRITE) {
    errno = why;
    return -1;
  }
  return raw_write(fd, data, size > 1 ? size / 2 : size); /* the caller has to go on */
}

ssize_t write(int fd, const void *data, size_t size) {
  char path[4096];
  if (!plan.count || fd <= 2 || fd == journal || !path_of(fd, path, sizeof path)) return raw_write(fd, data, size);
  int64_t offset = lseek(fd, 0, SEEK_CUR);
  if (fcntl(fd, F_GETFL) & O_APPEND) offset = lseek(fd, 0, SEEK_END);
  int why = fault(WRITE);
  ssize_t done = why ? cut_write(why, fd, data, size) : raw_write(fd, data, size);
  int kept = errno;
  note_write(path, offset, data, done);
  errno = kept;
  return done;
}

#define PWRITE(name, type)                                                                                    \
  ssize_t name(int fd, const void *data, size_t size, type offset) {                                          \
    REAL(#name, ssize_t(*)(int, const void *, size_t, type));                                                 \
    char path[4096];                                                                                          \
    if (!plan.count || !path_of(fd, path, sizeof path)) return real(fd, data, size, offset);                  \
    int why = fault(WRITE);                                                                                   \
    if (why && why != SHORT_WRITE) return errno = why, -1;                                                    \
    ssize_t done = real(fd, data, why && size > 1 ? size / 2 : size, offset);                                 \
    int kept = errno;                                                                                         \
    note_write(path, (int64_t)offset, data, done);                                                            \
    errno = kept;                                                                                             \
    return done;                                                                                              \
  }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

ssize_t writev(int fd, const struct iovec *parts, int count) {
  REAL("writev", ssize_t(*)(int, const struct iovec *, int));
  char path[4096];
  if (!plan.count || fd <= 2 || !path_of(fd, path, sizeof path)) return real(fd, parts, count);
  return count ? write(fd, parts[0].iov_base, parts[0].iov_len) : 0; /* a short write is allowed */
}

#define SYNCS(name)                                                                                           \
  int name(int fd) {                                                                                          \
    REAL(#name, int (*)(int));                                                                                \
    char path[4096];                                                                                          \
    if (!plan.count || !path_of(fd, path, sizeof path)) return real(fd);                                      \
    int why = fault(SYNC);                                                                                    \
    if (why) return errno = why == SHORT_WRITE ? EIO : why, -1;                                               \
    int done = real(fd);                                                                                      \
    if (!done) note('S', path, 0, NULL, 0);                                                                   \
    return done;                                                                                              \
  }
SYNCS(fsync)
SYNCS(fdatasync)

#define TRUNCATES(name, type)                                                                                 \
  int name(int fd, type size) {                                                                               \
    REAL(#name, int (*)(int, type));                                                                          \
    char path[4096];                                                                                          \
    if (!plan.count || !path_of(fd, path, sizeof path)) return real(fd, size);                                \
    int why = fault(TRUNCATE);                                                                                \
    if (why) return errno = why == SHORT_WRITE ? EIO : why, -1;                                               \
    int done = real(fd, size);                                                                                \
    if (!done) note('T', path, (int64_t)size, NULL, 0);                                                       \
    return done;                                                                                              \
  }
TRUNCATES(ftruncate, off_t)
TRUNCATES(ftruncate64, off64_t)

static const char *whole(const char *path, char *out, size_t size) {
  char folder[4096];
  if (*path == '/' || !getcwd(folder, sizeof folder)) return path;
  snprintf(out, size, "%s/%s", folder, path);
  return out;
}

int rename(const char *from, const char *to) {
  REAL("rename", int (*)(const char *, const char *));
  char a[8192], b[8192];
  const char *source = whole(from, a, sizeof a), *target = whole(to, b, sizeof b);
  if (!plan.count || !(watched(source) || watched(target))) return real(from, to);
  int why = fault(RENAME);
  if (why) return errno = why == SHORT_WRITE ? EIO : why, -1;
  int done = real(from, to);
  if (!done) note('R', source, 0, target, strlen(target));
  return done;
}

int unlink(const char *path) {
  REAL("unlink", int (*)(const char *));
  char a[8192];
  const char *name = whole(path, a, sizeof a);
  if (!plan.count || !watched(name)) return real(path);
  int why = fault(UNLINK);
  if (why) return errno = why == SHORT_WRITE ? EIO : why, -1;
  int done = real(path);
  if (!done) note('U', name, 0, NULL, 0);
  return done;
}

/* Opening matters for what it makes and empties. */
#define OPENS(name)                                                                                           \
  int name(const char *path, int flags, ...) {                                                                \
    REAL(#name, int (*)(const char *, int, ...));                                                             \
    mode_t mode = 0;                                                                                          \
    if (flags & (O_CREAT | O_TMPFILE)) {                                                                      \
      va_list more;                                                                                           \
      va_start(more, flags);                                                                                  \
      mode = va_arg(more, mode_t);                                                                            \
      va_end(more);                                                                                           \
    }                                                                                                         \
    char a[8192];                                                                                             \
    const char *full = plan.count ? whole(path, a, sizeof a) : path;                                          \
    if (!plan.count || !watched(full) || !(flags & (O_CREAT | O_TRUNC))) return real(path, flags, mode);      \
    int why = fault(OPEN);                                                                                    \
    if (why) return errno = why == SHORT_WRITE ? EIO : why, -1;                                               \
    int fd = real(path, flags, mode);                                                                         \
    int kept = errno;                                                                                         \
    if (fd >= 0) note(flags & O_TRUNC ? 'C' : 'O', full, 0, NULL, 0);                                         \
    errno = kept;                                                                                             \
    return fd;                                                                                                \
  }
OPENS(open)
OPENS(open64)
