/* The walk over the records of one batch, format v2 (KIP-98, "Message format").
 *
 * Plain C, no Python.h, no allocation, no state: it reads data[start .. end) and nothing else,
 * whatever stands there. records/pure.py is the same walk in Python; the tests hold the two to the
 * same verdict on any bytes. Change both, and VERSION in both.
 */
#include <stdint.h>

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

enum { VERSION = 2 };

/* Verdicts; records/verdict.py names them. */
enum { GOOD, CUT, NUMBER, LENGTH, END, DELTA, FEWER, MORE };

/* What sharegroup_walk writes into facts. */
enum { WALKED, POSITION, EARLIEST, LATEST, KEYLESS };

typedef struct {
    const uint8_t *at;
    const uint8_t *end;
    int verdict;
} Reader;

/* A zig-zag number of at most `width` bytes (5: 32 bits, 10: 64 bits). */
static int64_t long_number(Reader *reader, int width)
{
    uint64_t value = 0;
    const uint64_t last = width == 5 ? 0x0F : 0x01;
    for (int i = 0; i < width; i++) {
        if (reader->at >= reader->end) {
            reader->verdict = CUT;
            return 0;
        }
        const uint8_t byte = *reader->at++;
        if (i == width - 1 && byte > last)
            break;
        value |= (uint64_t)(byte & 0x7F) << (7 * i);
        if (byte < 0x80)
            return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
    }
    reader->verdict = NUMBER;
    return 0;
}

/* As long_number; most numbers are one byte, many are two. */
static inline int64_t number(Reader *reader, int width)
{
    const uint8_t *at = reader->at;
    if (reader->end - at >= 2) {
        uint32_t value = at[0];
        if (value < 0x80) {
            reader->at = at + 1;
            return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
        }
        if (at[1] < 0x80) {
            value = (value & 0x7F) | (uint32_t)at[1] << 7;
            reader->at = at + 2;
            return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
        }
    }
    return long_number(reader, width);
}

/* Step over a field with its length before it; the length, -1 for null. */
static inline int64_t field(Reader *reader, int64_t shortest)
{
    const int64_t length = number(reader, 5);
    if (reader->verdict)
        return 0;
    if (length < shortest)
        reader->verdict = LENGTH;
    else if (length > reader->end - reader->at)
        reader->verdict = CUT;
    else if (length > 0)
        reader->at += length;
    return length;
}

static void headers(Reader *reader)
{
    const int64_t count = number(reader, 5);
    if (reader->verdict)
        return;
    if (count < 0 || count > (reader->end - reader->at) / 2) {
        reader->verdict = LENGTH;
        return;
    }
    for (int64_t i = 0; i < count && !reader->verdict; i++) {
        field(reader, 0);
        if (!reader->verdict)
            field(reader, -1);
    }
}

EXPORT int32_t sharegroup_walk_version(void)
{
    return VERSION;
}

/* Walk `count` records in data[start .. end).
 *
 * dense: the offset delta of each record is its index; otherwise the deltas ascend and none is over
 * last_delta. starts, key_starts and key_lengths may each be NULL; otherwise they take `count`
 * numbers: positions in data, and the key's bytes (-1: null).
 *
 * Returns the verdict. facts, in the order of the enum: records found good, the position where the
 * walk ended, the earliest and the latest timestamp (-1, "none", left out; no record has one: the
 * largest and the smallest number), records without a key.
 */
EXPORT int32_t sharegroup_walk(
    const uint8_t *data, int64_t start, int64_t end, int64_t count, int64_t last_delta,
    int32_t dense, int64_t base_timestamp, int64_t *facts,
    int64_t *starts, int64_t *key_starts, int64_t *key_lengths)
{
    Reader reader = {data + start, data + end, GOOD};
    const uint8_t *const body_end = data + end;
    int64_t earliest = INT64_MAX, latest = INT64_MIN, keyless = 0, before = -1, i = 0;

    for (; i < count; i++) {
        if (reader.at == body_end) {
            reader.verdict = FEWER;
            break;
        }
        if (starts)
            starts[i] = reader.at - data;
        reader.end = body_end;
        const int64_t size = number(&reader, 5);
        if (reader.verdict)
            break;
        if (size < 0) {
            reader.verdict = LENGTH;
            break;
        }
        if (size > body_end - reader.at) {
            reader.verdict = CUT;
            break;
        }
        reader.end = reader.at + size;
        if (size < 1) {
            reader.verdict = CUT;
            break;
        }
        reader.at++; /* attributes: none is in use */
        const int64_t timestamp_delta = number(&reader, 10);
        if (reader.verdict)
            break;
        const int64_t delta = number(&reader, 5);
        if (reader.verdict)
            break;
        if (dense ? delta != i : delta <= before || delta > last_delta) {
            reader.verdict = DELTA;
            break;
        }
        before = delta;
        const int64_t key = field(&reader, -1);
        if (reader.verdict)
            break;
        if (key_starts)
            key_starts[i] = reader.at - data - (key > 0 ? key : 0);
        if (key_lengths)
            key_lengths[i] = key;
        field(&reader, -1);
        if (reader.verdict)
            break;
        headers(&reader);
        if (reader.verdict)
            break;
        if (reader.at != reader.end) {
            reader.verdict = END;
            break;
        }
        keyless += key < 0;
        const int64_t timestamp = (int64_t)((uint64_t)base_timestamp + (uint64_t)timestamp_delta);
        if (timestamp != -1) {
            earliest = timestamp < earliest ? timestamp : earliest;
            latest = timestamp > latest ? timestamp : latest;
        }
    }
    if (!reader.verdict && reader.at != body_end)
        reader.verdict = MORE;
    facts[WALKED] = i;
    facts[POSITION] = reader.at - data;
    facts[EARLIEST] = earliest;
    facts[LATEST] = latest;
    facts[KEYLESS] = keyless;
    return reader.verdict;
}

/* Walk many batches in one buffer, in order, as sharegroup_walk with starts and nothing else; their
 * records' starts stand one after the other. Returns the first verdict that is not GOOD, plus eight
 * times the index of its batch. */
EXPORT int64_t sharegroup_walk_batches(
    const uint8_t *data, int64_t batches, const int64_t *batch_starts, const int64_t *batch_ends,
    const int64_t *counts, const int64_t *last_deltas, int64_t *starts)
{
    int64_t facts[5];
    for (int64_t i = 0; i < batches; i++) {
        const int32_t verdict = sharegroup_walk(
            data, batch_starts[i], batch_ends[i], counts[i], last_deltas[i], 0, 0, facts, starts,
            0, 0);
        if (verdict)
            return i * 8 + verdict;
        starts += counts[i];
    }
    return GOOD;
}

static uint64_t big_endian(const uint8_t *at, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value = value << 8 | at[i];
    return value;
}

/* Is data[0 .. size) a run of good batches that are not compressed and whose offsets ascend, apart
 * from one at the end that is cut off? Checksums are not looked at. 1: it is, 0: look closer. */
EXPORT int32_t sharegroup_run_is_plain(const uint8_t *data, int64_t size)
{
    const int64_t header = 61, length_end = 12;
    int64_t facts[5], position = 0, offset = 0;
    while (size - position >= header) {
        const uint8_t *const batch = data + position;
        const int64_t base = (int64_t)big_endian(batch, 8);
        const int64_t length = (int32_t)big_endian(batch + 8, 4);
        const int64_t last_delta = (int32_t)big_endian(batch + 23, 4);
        const int64_t count = (int32_t)big_endian(batch + 57, 4);
        if (length < header - length_end)
            return 0;
        const int64_t end = position + length_end + length;
        if (end > size)
            return 1;
        if (batch[16] != 2 || batch[22] & 7 || base < offset || last_delta < 0
            || base > INT64_MAX - last_delta - 1 || count < 0 || count > last_delta + 1)
            return 0;
        if (sharegroup_walk(data, position + header, end, count, last_delta, 0, 0, facts, 0, 0, 0))
            return 0;
        position = end;
        offset = base + last_delta + 1;
    }
    return 1;
}
