/* fdatasync with its duration. In Python the time would include the wait for the interpreter's lock
 * after it: beside a busy loop a quick disk would look slow.
 */
#define _POSIX_C_SOURCE 200809L
#include "reader.h"

#if defined(__linux__)
#include <errno.h>
#include <time.h>
#include <unistd.h>

/* Nanoseconds that it took, or -errno. */
EXPORT int64_t sharegroup_sync(int32_t fd)
{
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    if (fdatasync(fd))
        return -(int64_t)errno;
    clock_gettime(CLOCK_MONOTONIC, &to);
    return (to.tv_sec - from.tv_sec) * INT64_C(1000000000) + (to.tv_nsec - from.tv_nsec);
}
#endif
