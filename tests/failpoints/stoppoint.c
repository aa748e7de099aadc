/* Stops its process (SIGSTOP) at the n-th Produce request that it sends to a port: loaded by
 * LD_PRELOAD, so that the program itself is the one that users run. Somebody else lets it go on.
 *
 *   STOPPOINT="before 37"   moments: before, after, answered (its answer is read, and the program
 *                           does not know yet)
 *   STOPPOINT_PORT=9092     only connections to this port count
 *   STOPPOINT_SAID=FILE     where the topic is written before the stop
 *   STOPPOINT_COUNT=FILE    stop nothing; write the topic of each request, a line each
 *
 * Only topics of brokers in front of a cluster are named; "records" is any other one. Connections
 * belong to one thread, as those of asyncio do.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define FDS_MAX 4096
#define PRODUCE 0
enum { ANSWER_HEAD = 8, REQUEST_HEAD = 12 }; /* size, (api, version,) correlation id */

struct stream {
    unsigned char head[REQUEST_HEAD];
    unsigned have;
    uint64_t left; /* of the frame, behind its head */
};

static struct {
    int watched;
    struct stream out, in;
    int awaited; /* the answer with this correlation id */
    unsigned char correlation[4];
} fds[FDS_MAX];

static char moment[16], topic[64];
static long wanted, produced;
static int port, count_file = -1, said_file = -1;

static int file_of(const char *name) {
    const char *path = getenv(name);
    return path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
}

__attribute__((constructor)) static void begin(void) {
    const char *text = getenv("STOPPOINT"), *number = getenv("STOPPOINT_PORT");
    if (text && sscanf(text, "%15s %ld", moment, &wanted) != 2)
        abort();
    port = number ? atoi(number) : 0;
    count_file = file_of("STOPPOINT_COUNT");
    said_file = file_of("STOPPOINT_SAID");
}

static void stop(void) {
    wanted = 0;
    if (said_file >= 0)
        dprintf(said_file, "%s\n", topic);
    raise(SIGSTOP);
}

static int watched(int fd) { return fd >= 0 && fd < FDS_MAX && fds[fd].watched; }

static int now(const char *when) { return wanted && !strcmp(moment, when); }

/* Goes on to the next head of a frame, if the bytes have the rest of it. */
static int next_frame(struct stream *at, const unsigned char **data, size_t *size, unsigned head) {
    while (*size) {
        if (at->left) {
            size_t step = at->left < *size ? at->left : *size;
            at->left -= step, *data += step, *size -= step;
            continue;
        }
        at->head[at->have++] = *(*data)++, --*size;
        if (at->have == head) {
            uint32_t length;
            memcpy(&length, at->head, sizeof length);
            at->left = (uint64_t)ntohl(length) + 4 - head;
            at->have = 0;
            return 1;
        }
    }
    return 0;
}

static void name_topic(const unsigned char *data, size_t size) {
    static const char prefix[] = "__sharegroup_fleet_";
    const char *at = memmem(data, size, prefix, sizeof prefix - 1);
    size_t length = 0;
    strcpy(topic, "records");
    if (!at)
        return;
    at += sizeof prefix - 1;
    while (at + length < (const char *)data + size && length < sizeof topic - 1 &&
           (at[length] == '_' || (at[length] >= 'a' && at[length] <= 'z')))
        length++;
    memcpy(topic, at, length);
    topic[length] = 0;
}

/* Walks over what is sent; returns whether the wanted request begins there. */
static int sends(struct stream *at, long *number, const struct iovec *parts, int many, size_t size,
                 unsigned char *correlation, int counting) {
    int is_it = 0;
    for (int part = 0; part < many && size; part++) {
        const unsigned char *data = parts[part].iov_base;
        size_t rest = parts[part].iov_len < size ? parts[part].iov_len : size;
        size -= rest;
        while (next_frame(at, &data, &rest, REQUEST_HEAD)) {
            if (at->head[4] || at->head[5] != PRODUCE)
                continue;
            ++*number;
            if (counting || *number == wanted)
                name_topic(data, rest);
            if (counting)
                dprintf(count_file, "%s\n", topic);
            if (*number == wanted) {
                is_it = 1;
                memcpy(correlation, at->head + 8, 4);
            }
        }
    }
    return is_it;
}

static int about_to_send(int fd, const struct iovec *parts, int many) {
    struct stream copy = fds[fd].out;
    long number = produced;
    unsigned char correlation[4];
    return sends(&copy, &number, parts, many, SIZE_MAX, correlation, 0);
}

static void before(int fd, const struct iovec *parts, int many) {
    if (now("before") && about_to_send(fd, parts, many))
        stop();
}

static void sent(int fd, const struct iovec *parts, int many, ssize_t done) {
    if (done <= 0)
        return;
    if (!sends(&fds[fd].out, &produced, parts, many, done, fds[fd].correlation, count_file >= 0))
        return;
    if (now("after"))
        stop();
    fds[fd].awaited = now("answered");
}

static void came(int fd, const void *buffer, ssize_t done) {
    const unsigned char *data = buffer;
    size_t size = done > 0 ? done : 0;
    int is_it = 0;
    while (next_frame(&fds[fd].in, &data, &size, ANSWER_HEAD))
        is_it |= fds[fd].awaited && !memcmp(fds[fd].in.head + 4, fds[fd].correlation, 4);
    if (is_it) {
        fds[fd].awaited = 0;
        stop();
    }
}

#define NEXT(name, result, ...) \
    static result (*next)(__VA_ARGS__); \
    if (!next) \
        next = (result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

int connect(int fd, const struct sockaddr *address, socklen_t length) {
    NEXT(connect, int, int, const struct sockaddr *, socklen_t);
    if (fd >= 0 && fd < FDS_MAX && address->sa_family == AF_INET) {
        memset(&fds[fd], 0, sizeof fds[fd]);
        fds[fd].watched = port && ntohs(((const struct sockaddr_in *)address)->sin_port) == port;
    }
    return next(fd, address, length);
}

int close(int fd) {
    NEXT(close, int, int);
    if (watched(fd))
        fds[fd].watched = 0;
    return next(fd);
}

#define SENDS(parts, many, call) \
    if (!watched(fd)) \
        return call; \
    before(fd, parts, many); \
    ssize_t done = call; \
    sent(fd, parts, many, done); \
    return done

ssize_t write(int fd, const void *data, size_t size) {
    NEXT(write, ssize_t, int, const void *, size_t);
    struct iovec one = {(void *)data, size};
    SENDS(&one, 1, next(fd, data, size));
}

ssize_t send(int fd, const void *data, size_t size, int flags) {
    NEXT(send, ssize_t, int, const void *, size_t, int);
    struct iovec one = {(void *)data, size};
    SENDS(&one, 1, next(fd, data, size, flags));
}

ssize_t writev(int fd, const struct iovec *parts, int many) {
    NEXT(writev, ssize_t, int, const struct iovec *, int);
    SENDS(parts, many, next(fd, parts, many));
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    NEXT(sendmsg, ssize_t, int, const struct msghdr *, int);
    SENDS(message->msg_iov, message->msg_iovlen, next(fd, message, flags));
}

ssize_t read(int fd, void *data, size_t size) {
    NEXT(read, ssize_t, int, void *, size_t);
    ssize_t done = next(fd, data, size);
    if (watched(fd))
        came(fd, data, done);
    return done;
}

ssize_t recv(int fd, void *data, size_t size, int flags) {
    NEXT(recv, ssize_t, int, void *, size_t, int);
    ssize_t done = next(fd, data, size, flags);
    if (watched(fd))
        came(fd, data, done);
    return done;
}
