/* Loaded before libc: counts the calls that change files below a folder, and from the n-th on does what it was told to.

   A process arms it for itself with faults_arm(). Calls on anything else go through as they are. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KILL_BEFORE = -1, KILL_MIDWAY = -2 }; /* any other number is the errno that calls which need room end with */

static char folder[PATH_MAX];
static int nth, what, counted;

void faults_arm(const char *path, int at, int how) {
    snprintf(folder, sizeof folder, "%s", path);
    nth = at, what = how, counted = 0;
}

int faults_counted(void) { return counted; }

static int below(const char *path) { return folder[0] && path && !strncmp(path, folder, strlen(folder)); }

static int open_below(int file) {
    char name[64], path[PATH_MAX];
    if (!folder[0]) return 0;
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    ssize_t length = readlink(name, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return below(path);
}

static int at_below(int file, const char *path) { return path[0] == '/' ? below(path) : open_below(file); }

/* Whether the call is the one: 1 if it is to end midway (or in the error), 0 if it goes through. */
static int due(int inside, int needs_room) {
    if (!inside) return 0;
    counted++;
    if (what > 0) return needs_room && counted >= nth;
    if (counted == nth && what == KILL_BEFORE) kill(getpid(), SIGKILL);
    return counted == nth && what == KILL_MIDWAY;
}

static int ended(int result, int midway) {
    if (midway && what == KILL_MIDWAY) kill(getpid(), SIGKILL);
    return result;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define FAIL_IF(midway) if ((midway) && what > 0) return errno = what, -1

/* The first write that fails has written half, as on a disk that fills. */
#define WRITE(name, parameters, half, whole) \
    ssize_t name parameters { \
        int midway = due(open_below(file), 1); \
        FAIL_IF(midway && (counted > nth || count < 2)); \
        return midway ? ended(half, midway) : whole; \
    }
WRITE(write, (int file, const void *data, size_t count), REAL(write)(file, data, count / 2), REAL(write)(file, data, count))
WRITE(pwrite, (int file, const void *data, size_t count, off_t at), REAL(pwrite)(file, data, count / 2, at), REAL(pwrite)(file, data, count, at))
WRITE(pwrite64, (int file, const void *data, size_t count, off64_t at), REAL(pwrite64)(file, data, count / 2, at), REAL(pwrite64)(file, data, count, at))

#define SIMPLE(name, parameters, arguments, inside, needs_room) \
    int name parameters { \
        int midway = due(inside, needs_room); \
        FAIL_IF(midway); \
        return ended(REAL(name) arguments, midway); \
    }
SIMPLE(fsync, (int file), (file), open_below(file), 1)
SIMPLE(ftruncate, (int file, off_t length), (file, length), open_below(file), 0)
SIMPLE(ftruncate64, (int file, off64_t length), (file, length), open_below(file), 0)
SIMPLE(rename, (const char *from, const char *to), (from, to), below(from) || below(to), 0)
SIMPLE(renameat, (int a, const char *from, int b, const char *to), (a, from, b, to), at_below(a, from), 0)
SIMPLE(unlink, (const char *path), (path), below(path), 0)
SIMPLE(unlinkat, (int file, const char *path, int flags), (file, path, flags), at_below(file, path), 0)
SIMPLE(rmdir, (const char *path), (path), below(path), 0)
SIMPLE(mkdir, (const char *path, mode_t mode), (path, mode), below(path), 1)

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0; \
        va_end(rest); \
        int made = flags & O_CREAT && access(path, F_OK); \
        int midway = due((made || flags & O_TRUNC) && below(path), made); \
        FAIL_IF(midway); \
        return ended(REAL(name)(path, flags, mode), midway); \
    }
OPEN(open)
OPEN(open64)
