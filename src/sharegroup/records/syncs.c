/* fdatasync with its duration, in this thread or in threads that know nothing of Python.
 *
 * Measured in Python, the duration would include the wait for the interpreter's lock after the
 * sync: beside a busy loop a quick disk would look slow. And a Python thread waits for that lock
 * twice for each sync, before and after it, while the loop waits for nothing else.
 */
#define _POSIX_C_SOURCE 200809L
#include "reader.h"

#if defined(__linux__)
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* Sync a descriptor. Returns the nanoseconds that it took, or -errno. */
EXPORT int64_t sharegroup_sync(int32_t fd)
{
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    if (fdatasync(fd))
        return -(int64_t)errno;
    clock_gettime(CLOCK_MONOTONIC, &to);
    return (to.tv_sec - from.tv_sec) * INT64_C(1000000000) + (to.tv_nsec - from.tv_nsec);
}

enum { THREADS_MAX = 64, STACK_BYTES = 128 * 1024 };

typedef struct Job {
    struct Job *next;
    int64_t id, result;
    int32_t fd;
} Job;

typedef struct {
    Job *first, *last;
} Queue;

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t work;
    Queue waiting, done;
    pthread_t threads[THREADS_MAX];
    int running, idle, ending, signal_fd;
} Syncs;

static void put(Queue *queue, Job *job)
{
    job->next = NULL;
    if (queue->last)
        queue->last->next = job;
    else
        queue->first = job;
    queue->last = job;
}

static Job *take(Queue *queue)
{
    Job *job = queue->first;
    if (job && !(queue->first = job->next))
        queue->last = NULL;
    return job;
}

static void *work(void *of)
{
    Syncs *syncs = of;
    pthread_mutex_lock(&syncs->lock);
    for (;;) {
        Job *job = take(&syncs->waiting);
        if (job) {
            pthread_mutex_unlock(&syncs->lock);
            job->result = sharegroup_sync(job->fd);
            pthread_mutex_lock(&syncs->lock);
            const int first = !syncs->done.first;
            put(&syncs->done, job);
            if (first) { /* the signal stays up until sharegroup_syncs_collect has taken all */
                const uint64_t one = 1; /* it fails at 2^64 - 1 only */
                const ssize_t written = write(syncs->signal_fd, &one, sizeof one);
                (void)written;
            }
        } else if (syncs->ending) {
            break;
        } else {
            syncs->idle++;
            pthread_cond_wait(&syncs->work, &syncs->lock);
            syncs->idle--;
        }
    }
    pthread_mutex_unlock(&syncs->lock);
    return NULL;
}

/* Start `threads` threads, or as many as the system allows. `signal_fd` gets a descriptor that can
 * be read when a sync is done. NULL: no thread could be started.
 */
EXPORT void *sharegroup_syncs_start(int32_t threads, int32_t *signal_fd)
{
    Syncs *syncs = calloc(1, sizeof *syncs);
    if (!syncs)
        return NULL;
    syncs->signal_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (syncs->signal_fd < 0) {
        free(syncs);
        return NULL;
    }
    pthread_mutex_init(&syncs->lock, NULL);
    pthread_cond_init(&syncs->work, NULL);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for Python's threads */
    while (syncs->running < threads && syncs->running < THREADS_MAX
           && !pthread_create(&syncs->threads[syncs->running], &attributes, work, syncs))
        syncs->running++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (!syncs->running) {
        close(syncs->signal_fd);
        free(syncs);
        return NULL;
    }
    *signal_fd = syncs->signal_fd;
    return syncs;
}

/* Put a sync in the queue. The caller keeps the descriptor `fd` open until the sync is done.
 * Returns 0, or -errno if the sync was not taken. */
EXPORT int32_t sharegroup_syncs_submit(void *of, int32_t fd, int64_t id)
{
    Syncs *syncs = of;
    Job *job = malloc(sizeof *job);
    if (!job)
        return -ENOMEM;
    job->id = id;
    job->fd = fd;
    pthread_mutex_lock(&syncs->lock);
    put(&syncs->waiting, job);
    const int idle = syncs->idle; /* a busy thread looks at the queue before it waits */
    pthread_mutex_unlock(&syncs->lock);
    if (idle) /* without the lock, or the thread would wake only to wait for it */
        pthread_cond_signal(&syncs->work);
    return 0;
}

/* Take up to `most` syncs that are done: their ids, and their nanoseconds or -errno. Returns how
 * many were taken. */
EXPORT int32_t sharegroup_syncs_collect(void *of, int64_t *ids, int64_t *results, int32_t most)
{
    Syncs *syncs = of;
    int32_t found = 0;
    uint64_t count;
    pthread_mutex_lock(&syncs->lock);
    Job *job;
    while (found < most && (job = take(&syncs->done))) {
        ids[found] = job->id;
        results[found++] = job->result;
        free(job);
    }
    /* A sync that is left keeps the signal up. The signal is taken down under the lock, so that no
     * sync goes unnoticed. */
    if (!syncs->done.first) {
        const ssize_t got = read(syncs->signal_fd, &count, sizeof count);
        (void)got;
    }
    pthread_mutex_unlock(&syncs->lock);
    return found;
}

/* Do the syncs that wait, and end the threads. */
EXPORT void sharegroup_syncs_end(void *of)
{
    Syncs *syncs = of;
    pthread_mutex_lock(&syncs->lock);
    syncs->ending = 1;
    pthread_cond_broadcast(&syncs->work);
    pthread_mutex_unlock(&syncs->lock);
    for (int i = 0; i < syncs->running; i++)
        pthread_join(syncs->threads[i], NULL);
    for (Job *job; (job = take(&syncs->done));)
        free(job);
    pthread_mutex_destroy(&syncs->lock);
    pthread_cond_destroy(&syncs->work);
    close(syncs->signal_fd);
    free(syncs);
}
#endif
