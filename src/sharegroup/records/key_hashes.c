/* Key hashes, tenants and priorities of the records of one batch, and the records whose hash falls
 * into ranges (KIP-X).
 *
 * The rules of walk.c hold here: plain C, no allocation, no state, and hostile bytes are read
 * within their bounds. records/key_hashes.py does the same in Python. Change both, and VERSION.
 */
#include "reader.h"

int32_t sharegroup_walk(
    const uint8_t *data, int64_t start, int64_t end, int64_t count, int64_t last_delta,
    int32_t dense, int64_t base_timestamp, int64_t *facts,
    int64_t *starts, int64_t *key_starts, int64_t *key_lengths);

/* The last step of SplitMix64: each bit of the result depends on each bit of x. */
static int64_t mixed(uint64_t x)
{
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return (int64_t)((x ^ x >> 31) >> 1);
}

/* MurmurHash2 of the key under two seeds in one pass, mixed to 63 bits. */
static int64_t hash_of_key(const uint8_t *key, int64_t length)
{
    const uint32_t m = 0x5BD1E995;
    uint32_t high = 0x9747B28Cu ^ (uint32_t)length, low = 0x3C6EF372u ^ (uint32_t)length;
    for (; length >= 4; key += 4, length -= 4) {
        uint32_t k = key[0] | (uint32_t)key[1] << 8 | (uint32_t)key[2] << 16
            | (uint32_t)key[3] << 24;
        k *= m;
        k = (k ^ k >> 24) * m;
        high = high * m ^ k;
        low = low * m ^ k;
    }
    if (length) {
        uint32_t rest = 0;
        while (length-- > 0)
            rest = rest << 8 | key[length];
        high = (high ^ rest) * m;
        low = (low ^ rest) * m;
    }
    high = (high ^ high >> 13) * m;
    low = (low ^ low >> 13) * m;
    return mixed((uint64_t)(high ^ high >> 15) << 32 | (low ^ low >> 15));
}

static int64_t hash_of_offset(int64_t offset)
{
    return mixed((uint64_t)offset + 0x9E3779B97F4A7C15u);
}

/* The offset delta of a record that was walked: after its size, attributes and timestamp delta. */
static int64_t delta_at(const uint8_t *record, const uint8_t *end)
{
    Reader reader = {record, end, GOOD};
    number(&reader, 5);
    reader.at++;
    number(&reader, 10);
    return number(&reader, 5);
}

/* What last_header finds in the record at `record`, which was walked. */
static const uint8_t *header_in(
    const uint8_t *record, const uint8_t *end, const uint8_t *name, int64_t name_length,
    int64_t *length)
{
    Reader reader = {record, end, GOOD};
    number(&reader, 5);
    reader.at++;
    number(&reader, 10);
    number(&reader, 5);
    field_at(&reader, length); /* the key */
    field_at(&reader, length); /* the value */
    return last_header(&reader, name, name_length, length);
}

/* The number of bytes before the first byte `separator`; `length` if it is not there, or is -1. */
static int64_t until(const uint8_t *bytes, int64_t length, int64_t separator)
{
    if (!length || separator < 0)
        return length;
    const uint8_t *const at = memchr(bytes, (int)separator, (size_t)length);
    return at ? at - bytes : length;
}

/* The hash of each of `count` records in data[start .. end). `hashes` and `starts` have room for
 * `count` numbers each, `room` for twice as many. Returns the verdict of the walk. */
EXPORT int32_t sharegroup_key_hashes(
    const uint8_t *data, int64_t start, int64_t end, int64_t count, int64_t last_delta,
    int64_t base_offset, int64_t *hashes, int64_t *starts, int64_t *room)
{
    int64_t facts[5], *const key_lengths = room + count;
    const int32_t verdict = sharegroup_walk(
        data, start, end, count, last_delta, 0, 0, facts, starts, room, key_lengths);
    if (verdict)
        return verdict;
    for (int64_t i = 0; i < count; i++)
        hashes[i] = key_lengths[i] >= 0
            ? hash_of_key(data + room[i], key_lengths[i])
            : hash_of_offset(base_offset + delta_at(data + starts[i], data + end));
    return GOOD;
}

/* The hash of the tenant of each of `count` records: of the key up to the first byte `separator`, or
 * of the whole key if the byte is not in it. No byte is -1. Records without a key are one tenant, as
 * if their key were empty. Otherwise as above. */
EXPORT int32_t sharegroup_tenant_hashes(
    const uint8_t *data, int64_t start, int64_t end, int64_t count, int64_t last_delta,
    int64_t separator, int64_t *hashes, int64_t *starts, int64_t *room)
{
    int64_t facts[5], *const key_lengths = room + count;
    const int32_t verdict = sharegroup_walk(
        data, start, end, count, last_delta, 0, 0, facts, starts, room, key_lengths);
    if (verdict)
        return verdict;
    for (int64_t i = 0; i < count; i++) {
        const int64_t length = key_lengths[i] > 0 ? key_lengths[i] : 0;
        const uint8_t *const key = length ? data + room[i] : data;
        hashes[i] = hash_of_key(key, until(key, length, separator));
    }
    return GOOD;
}

/* As sharegroup_tenant_hashes, but the last header of this name says the tenant in place of the key.
 * Records without the header, or with null in it, are one tenant, as if its value were empty. */
EXPORT int64_t sharegroup_header_tenants(
    const uint8_t *data, int64_t start, int64_t end, int64_t count, int64_t last_delta,
    int64_t separator, const uint8_t *name, int64_t name_length, int64_t *hashes, int64_t *starts)
{
    int64_t facts[5], length;
    const int32_t verdict =
        sharegroup_walk(data, start, end, count, last_delta, 0, 0, facts, starts, 0, 0);
    if (verdict)
        return verdict;
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *const value =
            header_in(data + starts[i], data + end, name, name_length, &length);
        const int64_t bytes = value && length > 0 ? length : 0;
        hashes[i] = hash_of_key(value, until(value, bytes, separator));
    }
    return GOOD;
}

enum { PRIORITY_MAX = 9, PRIORITY_NONE = 4 };

/* The priority of each of `count` records: the number that the last header of this name says, 9 if
 * it is larger; 4 if there is no such header, or if it says no number, which `unreadable` counts.
 * Otherwise as above. */
EXPORT int64_t sharegroup_priorities(
    const uint8_t *data, int64_t start, int64_t end, int64_t count, int64_t last_delta,
    const uint8_t *name, int64_t name_length, int64_t *priorities, int64_t *starts,
    int64_t *unreadable)
{
    int64_t facts[5], length;
    const int32_t verdict =
        sharegroup_walk(data, start, end, count, last_delta, 0, 0, facts, starts, 0, 0);
    *unreadable = 0;
    if (verdict)
        return verdict;
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *const value =
            header_in(data + starts[i], data + end, name, name_length, &length);
        const int64_t said = value ? decimal(value, length) : PRIORITY_NONE;
        *unreadable += said < 0;
        priorities[i] = said < 0 ? PRIORITY_NONE : said > PRIORITY_MAX ? PRIORITY_MAX : said;
    }
    return GOOD;
}

/* Write to `chosen`, for each record, 1 if its hash is in one of the ranges, else 0. `ranges`
 * has the first and the last hash of one range after the other. The last record ends at `end`.
 * Returns how many records are chosen; *size gets the number of their bytes. */
EXPORT int64_t sharegroup_key_choose(
    int64_t end, int64_t count, const int64_t *hashes, const int64_t *starts,
    const int64_t *ranges, int64_t range_count, uint8_t *chosen, int64_t *size)
{
    int64_t kept = 0, bytes = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t inside = 0;
        for (int64_t r = 0; r < range_count; r++)
            inside |= (hashes[i] >= ranges[2 * r]) & (hashes[i] <= ranges[2 * r + 1]);
        chosen[i] = (uint8_t)inside;
        kept += inside;
        bytes += ((i + 1 < count ? starts[i + 1] : end) - starts[i]) & -inside;
    }
    *size = bytes;
    return kept;
}

/* Copy the chosen records to `out`. */
EXPORT void sharegroup_key_copy(
    const uint8_t *data, int64_t end, int64_t count, const int64_t *starts, const uint8_t *chosen,
    uint8_t *out)
{
    for (int64_t i = 0; i < count;) {
        if (!chosen[i]) {
            i++;
            continue;
        }
        const int64_t first = i;
        while (i < count && chosen[i])
            i++;
        const int64_t bytes = (i < count ? starts[i] : end) - starts[first];
        memcpy(out, data + starts[first], (size_t)bytes);
        out += bytes;
    }
}
