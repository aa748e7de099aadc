/* What the times of one batch's records say: which records are worthless by now, by their age or by
 * a header with a time, and which are not to be delivered yet, by another header.
 *
 * The rules of walk.c hold here: plain C, no allocation, no state, and hostile bytes are read
 * within their bounds. records/expiry.py and records/due_times.py do the same in Python. Change
 * both, and VERSION.
 */
#include "reader.h"

int32_t sharegroup_walk(
    const uint8_t *data, int64_t start, int64_t end, int64_t count, int64_t last_delta,
    int32_t dense, int64_t base_timestamp, int64_t *facts,
    int64_t *starts, int64_t *key_starts, int64_t *key_lengths);

/* The time in the last header of this name; the reader stands before the number of headers.
 * INT64_MAX if there is no such header, or if it says no time, which `unreadable` counts. */
static int64_t header_time(
    Reader *reader, const uint8_t *name, int64_t name_length, int64_t *unreadable)
{
    int64_t length;
    const uint8_t *const value = last_header(reader, name, name_length, &length);
    const int64_t time = value ? decimal(value, length) : INT64_MAX;
    if (time >= 0)
        return time;
    ++*unreadable;
    return INT64_MAX;
}

/* The records among `count` in data[start .. end) that have expired: whose timestamp is from 0 to
 * `born_until`, or whose header `name` says a time up to `now`. A name_length of 0: headers do not
 * matter. `runs` has room for 2 * count numbers; it gets the first and the last offset delta of
 * each run of such records without a gap. Returns how many runs there are, or minus the verdict if
 * the records cannot be read. */
EXPORT int64_t sharegroup_expired(
    const uint8_t *data, int64_t start, int64_t end, int64_t count, int64_t last_delta,
    int64_t base_timestamp, int64_t born_until, const uint8_t *name, int64_t name_length,
    int64_t now, int64_t *runs, int64_t *unreadable)
{
    int64_t facts[5], found = 0, length = 0;
    const int32_t verdict =
        sharegroup_walk(data, start, end, count, last_delta, 0, 0, facts, 0, 0, 0);
    *unreadable = 0;
    if (verdict)
        return -(int64_t)verdict;
    Reader reader = {data + start, data + end, GOOD};
    for (int64_t i = 0; i < count; i++) {
        const int64_t size = number(&reader, 5);
        const uint8_t *const record_end = reader.at + size;
        reader.at++; /* attributes: none is in use */
        /* Unsigned, so that the sum of hostile numbers wraps, as in Java. */
        const uint64_t time_delta = (uint64_t)number(&reader, 10);
        const int64_t timestamp = (int64_t)((uint64_t)base_timestamp + time_delta);
        const int64_t delta = number(&reader, 5);
        int expired = timestamp >= 0 && timestamp <= born_until;
        if (!expired && name_length) {
            field_at(&reader, &length); /* the key */
            field_at(&reader, &length); /* the value */
            expired = header_time(&reader, name, name_length, unreadable) <= now;
        }
        reader.at = record_end;
        if (!expired)
            continue;
        if (found && runs[2 * found - 1] + 1 == delta) {
            runs[2 * found - 1] = delta;
        } else {
            runs[2 * found] = delta;
            runs[2 * found + 1] = delta;
            found++;
        }
    }
    return found;
}

/* The records among `count` in data[start .. end) whose header `name` says a time after `now`.
 * `runs` has room for 3 * count numbers; it gets the first and the last offset delta of each run of
 * such records without a gap that are due at one time, and this time: the header's, made later to a
 * multiple of `step`. A header that says a time after `until` counts as one that says none. Returns
 * how many runs there are, or minus the verdict if the records cannot be read. */
EXPORT int64_t sharegroup_not_due(
    const uint8_t *data, int64_t start, int64_t end, int64_t count, int64_t last_delta,
    const uint8_t *name, int64_t name_length, int64_t now, int64_t until, int64_t step,
    int64_t *runs, int64_t *unreadable)
{
    int64_t facts[5], found = 0, length = 0;
    const int32_t verdict =
        sharegroup_walk(data, start, end, count, last_delta, 0, 0, facts, 0, 0, 0);
    *unreadable = 0;
    if (verdict)
        return -(int64_t)verdict;
    Reader reader = {data + start, data + end, GOOD};
    for (int64_t i = 0; i < count; i++) {
        const int64_t size = number(&reader, 5);
        const uint8_t *const record_end = reader.at + size;
        reader.at++; /* attributes: none is in use */
        number(&reader, 10);
        const int64_t delta = number(&reader, 5);
        field_at(&reader, &length); /* the key */
        field_at(&reader, &length); /* the value */
        const int64_t time = header_time(&reader, name, name_length, unreadable);
        reader.at = record_end;
        if (time <= now || time == INT64_MAX)
            continue;
        if (time > until) {
            ++*unreadable;
            continue;
        }
        const int64_t due = (time + step - 1) / step * step;
        int64_t *const next = runs + 3 * found;
        if (found && next[-2] + 1 == delta && next[-1] == due) {
            next[-2] = delta;
            continue;
        }
        next[0] = delta;
        next[1] = delta;
        next[2] = due;
        found++;
    }
    return found;
}
