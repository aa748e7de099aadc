/* Kills its process at the n-th write, sync or change in a folder: loaded by LD_PRELOAD, so that
 * the program itself is the one that users run.
 *
 *   FAILPOINT="write before 37"   kinds: write, sync, change, any; moments: before, after, torn
 *   FAILPOINT_FOLDER=/absolute    only files in it count
 *   FAILPOINT_POWER=1             as a power loss: what was not synced is gone first
 *   FAILPOINT_COUNT=FILE          kill nothing; write at the end how many there were of each kind
 *
 * A power loss keeps each file up to the size that it had when it was last synced, and takes what
 * was never synced. Names that were changed stay changed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE, SYNC, CHANGE, KINDS };
static const char *const names[] = {"write", "sync", "change"};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *folder;
static size_t folder_length;
static int wanted_kind = -2; /* -2: none, -1: any */
static char moment[16];
static long wanted, counted[KINDS];
static int power;

#define FILES_MAX 4096
static struct {
    dev_t device;
    ino_t inode;
    off_t size;
} durable[FILES_MAX];
static int files;

static void note_durable(const struct stat *facts) {
    for (int at = 0; at < files; at++)
        if (durable[at].inode == facts->st_ino && durable[at].device == facts->st_dev) {
            durable[at].size = facts->st_size;
            return;
        }
    if (files < FILES_MAX) {
        durable[files].device = facts->st_dev;
        durable[files].inode = facts->st_ino;
        durable[files++].size = facts->st_size;
    }
}

static int there_before(const char *path, const struct stat *facts, int type, struct FTW *where) {
    (void)path, (void)where;
    if (type == FTW_F)
        note_durable(facts);
    return 0;
}

static int lose(const char *path, const struct stat *facts, int type, struct FTW *where) {
    (void)where;
    if (type != FTW_F)
        return 0;
    for (int at = 0; at < files; at++)
        if (durable[at].inode == facts->st_ino && durable[at].device == facts->st_dev) {
            if (facts->st_size > durable[at].size && truncate(path, durable[at].size))
                perror(path);
            return 0;
        }
    if (unlink(path))
        perror(path);
    return 0;
}

static void die(void) {
    wanted_kind = -2; /* what is done now does not count */
    if (power)
        nftw(folder, lose, 16, FTW_PHYS);
    kill(getpid(), SIGKILL);
    pause();
}

__attribute__((constructor)) static void begin(void) {
    const char *text = getenv("FAILPOINT");
    char kind[16] = "";
    folder = getenv("FAILPOINT_FOLDER");
    if (!folder)
        return;
    folder_length = strlen(folder);
    power = getenv("FAILPOINT_POWER") != NULL;
    nftw(folder, there_before, 16, FTW_PHYS);
    if (text && sscanf(text, "%15s %15s %ld", kind, moment, &wanted) == 3) {
        wanted_kind = -1;
        for (int one = 0; one < KINDS; one++)
            if (!strcmp(kind, names[one]))
                wanted_kind = one;
    }
}

__attribute__((destructor)) static void end(void) {
    const char *path = getenv("FAILPOINT_COUNT");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (file) {
        for (int one = 0; one < KINDS; one++)
            fprintf(file, "%s %ld\n", names[one], counted[one]);
        fclose(file);
    }
}

static int inside(const char *path) {
    return folder && !strncmp(path, folder, folder_length) &&
           (path[folder_length] == '/' || !path[folder_length]);
}

static int of_fd(int fd) {
    char link[64], path[PATH_MAX];
    ssize_t length;
    if (!folder)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    return inside(path);
}

/* Counts; returns whether this is the one. */
static int met(int kind) {
    int is_it = 0;
    pthread_mutex_lock(&lock);
    counted[kind]++;
    if (wanted_kind == kind)
        is_it = counted[kind] == wanted;
    else if (wanted_kind == -1)
        is_it = counted[WRITE] + counted[SYNC] + counted[CHANGE] == wanted;
    pthread_mutex_unlock(&lock);
    return is_it;
}

static int now(int is_it, const char *when) { return is_it && !strcmp(moment, when); }

#define NEXT(name, result, ...) \
    static result (*next)(__VA_ARGS__); \
    if (!next) \
        next = (result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void *data, size_t size) {
    NEXT(write, ssize_t, int, const void *, size_t);
    if (!of_fd(fd))
        return next(fd, data, size);
    int is_it = met(WRITE);
    if (now(is_it, "before"))
        die();
    ssize_t done = next(fd, data, now(is_it, "torn") ? size / 2 : size);
    if (is_it)
        die();
    return done;
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    NEXT(writev, ssize_t, int, const struct iovec *, int);
    if (!of_fd(fd))
        return next(fd, parts, count);
    int is_it = met(WRITE);
    if (now(is_it, "before"))
        die();
    if (now(is_it, "torn")) { /* the first part, and half of the second one */
        struct iovec half = parts[count > 1];
        half.iov_len /= 2;
        if (count > 1)
            next(fd, parts, 1);
        next(fd, &half, 1);
        die();
    }
    ssize_t done = next(fd, parts, count);
    if (is_it)
        die();
    return done;
}

static int synced(int fd, int (*next)(int)) {
    struct stat facts;
    int is_it = met(SYNC), known, done;
    if (is_it && strcmp(moment, "after"))
        die();
    known = !fstat(fd, &facts); /* at least this much will be durable */
    done = next(fd);
    if (!done && known && S_ISREG(facts.st_mode)) {
        pthread_mutex_lock(&lock);
        note_durable(&facts);
        pthread_mutex_unlock(&lock);
    }
    if (is_it)
        die();
    return done;
}

int fsync(int fd) {
    NEXT(fsync, int, int);
    return of_fd(fd) ? synced(fd, next) : next(fd);
}

int fdatasync(int fd) {
    NEXT(fdatasync, int, int);
    return of_fd(fd) ? synced(fd, next) : next(fd);
}

static int full(int at, const char *name, char *path) {
    char link[64];
    ssize_t length;
    if (name[0] == '/' || at == AT_FDCWD)
        return snprintf(path, PATH_MAX, "%s", name) > 0 && inside(path);
    snprintf(link, sizeof link, "/proc/self/fd/%d", at);
    length = readlink(link, path, PATH_MAX - 1);
    if (length < 0)
        return 0;
    snprintf(path + length, PATH_MAX - length, "/%s", name);
    return inside(path);
}

#define CHANGE_OF(counts, call) \
    int is_it = (counts) && met(CHANGE); \
    if (is_it && strcmp(moment, "after")) \
        die(); \
    int done = call; \
    if (is_it) \
        die(); \
    return done

int renameat(int from, const char *old, int to, const char *new) {
    char path[PATH_MAX];
    NEXT(renameat, int, int, const char *, int, const char *);
    CHANGE_OF(full(to, new, path), next(from, old, to, new));
}

int rename(const char *old, const char *new) {
    NEXT(rename, int, const char *, const char *);
    CHANGE_OF(inside(new), next(old, new));
}

int unlinkat(int at, const char *name, int flags) {
    char path[PATH_MAX];
    NEXT(unlinkat, int, int, const char *, int);
    CHANGE_OF(full(at, name, path), next(at, name, flags));
}

int ftruncate64(int fd, off64_t size) {
    NEXT(ftruncate64, int, int, off64_t);
    CHANGE_OF(of_fd(fd), next(fd, size));
}

int ftruncate(int fd, off_t size) {
    NEXT(ftruncate, int, int, off_t);
    CHANGE_OF(of_fd(fd), next(fd, size));
}
