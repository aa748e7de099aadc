/* The walk over the records of one batch, format v2 (KIP-98, "Message format"), and the key table
 * of the log cleaner.
 *
 * Plain C, no Python.h, no allocation, no state: it reads data[start .. end) and nothing else,
 * whatever stands there. records/pure.py is the same walk in Python, records/keys.py has the same
 * key table; the tests hold the two to the same verdict on any bytes. Change both, and VERSION.
 */
#include "reader.h"

enum { VERSION = 10 };

/* What sharegroup_walk writes into facts. */
enum { WALKED, POSITION, EARLIEST, LATEST, KEYLESS };

static void headers(Reader *reader)
{
    const int64_t count = number(reader, 5);
    if (reader->verdict)
        return;
    /* A header takes at least two bytes: the lengths of its key and of its value. */
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
 * dense: the offset delta of each record is its index; otherwise the deltas ascend and no delta is
 * over last_delta. starts, key_starts and key_lengths may each be NULL; otherwise each has room for
 * `count` numbers: positions in data, and the lengths of keys in bytes (-1: null).
 *
 * Returns the verdict. facts, in the order of the enum: how many records are good, the position
 * where the walk ended, the earliest and the latest timestamp, how many records have no key. A
 * timestamp of -1 means "none" and is left out. If no record has a timestamp, the earliest is the
 * largest number, and the latest the smallest.
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
        reader.end = body_end; /* for the record's size; all that follows ends with the record */
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
        /* Unsigned, so that the sum of hostile numbers wraps, as in Java. */
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

/* Walk many batches in one buffer, in order, as sharegroup_walk does. `starts` gets the starts
 * of all their records, one after the other. Returns GOOD, or the first other verdict plus eight
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

/* The last offset of each key, for the log cleaner (records/keys.py).
 *
 * A table of `size` slots, a power of two, all zero at first; open addressing. Keys are known by
 * 128 bits of a keyed hash (SipHash-2-4-128), so that nobody can make two keys with the same hash.
 */
typedef struct {
    uint64_t high, low;
    int64_t end; /* offset + 1; 0: the slot is empty */
} Slot;

#define ROTATE(x, b) ((x) << (b) | (x) >> (64 - (b)))

static void sip_rounds(uint64_t *v, int rounds)
{
    while (rounds--) {
        v[0] += v[1];
        v[1] = ROTATE(v[1], 13) ^ v[0];
        v[0] = ROTATE(v[0], 32);
        v[2] += v[3];
        v[3] = ROTATE(v[3], 16) ^ v[2];
        v[0] += v[3];
        v[3] = ROTATE(v[3], 21) ^ v[0];
        v[2] += v[1];
        v[1] = ROTATE(v[1], 17) ^ v[2];
        v[2] = ROTATE(v[2], 32);
    }
}

static uint64_t little_endian(const uint8_t *at, int64_t bytes)
{
    uint64_t value = 0;
    for (int64_t i = bytes; i-- > 0;)
        value = value << 8 | at[i];
    return value;
}

EXPORT void sharegroup_hash(
    const uint8_t *secret, const uint8_t *key, int64_t length, uint64_t *hash)
{
    const uint64_t k0 = little_endian(secret, 8), k1 = little_endian(secret + 8, 8);
    uint64_t v[4] = {
        k0 ^ 0x736f6d6570736575u, k1 ^ 0x646f72616e646f6du ^ 0xee,
        k0 ^ 0x6c7967656e657261u, k1 ^ 0x7465646279746573u};
    for (int64_t at = 0; at <= length; at += 8) {
        const int64_t left = length - at;
        uint64_t word = little_endian(key + at, left < 8 ? left : 8);
        if (left < 8)
            word |= (uint64_t)length << 56;
        v[3] ^= word;
        sip_rounds(v, 2);
        v[0] ^= word;
    }
    v[2] ^= 0xee;
    sip_rounds(v, 4);
    hash[0] = v[0] ^ v[1] ^ v[2] ^ v[3];
    v[1] ^= 0xdd;
    sip_rounds(v, 4);
    hash[1] = v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* The slot of a key, or the empty slot where the key belongs. The table must have an empty slot:
 * the search ends there. */
static Slot *slot_of(Slot *slots, int64_t size, const uint64_t *hash)
{
    uint64_t at = hash[0] & (uint64_t)(size - 1);
    while (slots[at].end && (slots[at].low != hash[0] || slots[at].high != hash[1]))
        at = (at + 1) & (uint64_t)(size - 1);
    return &slots[at];
}

/* Put all keys of one table into another, which is empty and larger. */
EXPORT void sharegroup_keys_move(Slot *from, int64_t from_size, Slot *to, int64_t to_size)
{
    for (int64_t i = 0; i < from_size; i++) {
        if (from[i].end) {
            const uint64_t hash[2] = {from[i].low, from[i].high};
            *slot_of(to, to_size, hash) = from[i];
        }
    }
}

typedef struct {
    const uint8_t *start, *after_time, *end, *key;
    int64_t time, delta, key_length, value_length;
} Record;

/* The record at the reader. Nothing is checked: the batch was walked and is good. */
static Record record_at(Reader *reader)
{
    Record record;
    record.start = reader->at;
    const int64_t size = number(reader, 5);
    record.end = reader->at + size;
    reader->at++;
    record.time = number(reader, 10);
    record.after_time = reader->at;
    record.delta = number(reader, 5);
    record.key_length = number(reader, 5);
    record.key = reader->at;
    reader->at += record.key_length > 0 ? record.key_length : 0;
    record.value_length = number(reader, 5);
    reader->at = record.end;
    return record;
}

/* Note the keys of one batch in data[start .. end). Returns the number of new keys, or minus the
 * verdict if the batch is not good; then no key was noted. */
EXPORT int64_t sharegroup_keys_note(
    Slot *slots, int64_t size, const uint8_t *secret, const uint8_t *data, int64_t start,
    int64_t end, int64_t count, int64_t last_delta, int64_t base_offset)
{
    int64_t facts[5], added = 0;
    const int32_t verdict =
        sharegroup_walk(data, start, end, count, last_delta, 0, 0, facts, 0, 0, 0);
    if (verdict)
        return -verdict;
    Reader reader = {data + start, data + end, GOOD};
    for (int64_t i = 0; i < count; i++) {
        const Record record = record_at(&reader);
        if (record.key_length < 0)
            continue;
        uint64_t hash[2];
        sharegroup_hash(secret, record.key, record.key_length, hash);
        Slot *const slot = slot_of(slots, size, hash);
        added += !slot->end;
        slot->low = hash[0];
        slot->high = hash[1];
        slot->end = base_offset + record.delta + 1;
    }
    return added;
}

static uint8_t *put_record(uint8_t *out, const Record *record, int64_t shift)
{
    if (!shift) {
        for (const uint8_t *at = record->start; at < record->end;)
            *out++ = *at++;
        return out;
    }
    const int64_t time = (int64_t)((uint64_t)record->time + (uint64_t)shift);
    out = put_number(out, 1 + bytes_of_number(time) + (record->end - record->after_time));
    *out++ = 0;
    out = put_number(out, time);
    for (const uint8_t *at = record->after_time; at < record->end;)
        *out++ = *at++;
    return out;
}

/* What sharegroup_keys_filter writes into facts. */
enum { KEPT, BYTES, TOMBSTONES, KEPT_LATEST };

/* Copy the records of one batch that stay to `out`, which has room for 16 bytes more for each
 * record. A record from `end_offset` on stays. Below end_offset a record goes if it has no key,
 * if the table has a later offset for its key, or, with drop_tombstones, if it has no value.
 * Timestamp deltas grow by `shift`. Returns the verdict. KEPT_LATEST: the largest timestamp of
 * the records that stay, -1 if no record stays or has a timestamp. */
EXPORT int32_t sharegroup_keys_filter(
    Slot *slots, int64_t size, const uint8_t *secret, const uint8_t *data, int64_t start,
    int64_t end, int64_t count, int64_t last_delta, int64_t base_offset, int64_t end_offset,
    int32_t drop_tombstones, int64_t base_timestamp, int64_t shift, uint8_t *out, int64_t *facts)
{
    int64_t walked[5];
    const int32_t verdict =
        sharegroup_walk(data, start, end, count, last_delta, 0, 0, walked, 0, 0, 0);
    if (verdict)
        return verdict;
    Reader reader = {data + start, data + end, GOOD};
    const uint8_t *const begin = out;
    facts[KEPT] = facts[TOMBSTONES] = 0;
    facts[KEPT_LATEST] = -1;
    for (int64_t i = 0; i < count; i++) {
        const Record record = record_at(&reader);
        const int64_t offset = base_offset + record.delta;
        if (offset < end_offset) {
            if (record.key_length < 0 || (record.value_length < 0 && drop_tombstones))
                continue;
            uint64_t hash[2];
            sharegroup_hash(secret, record.key, record.key_length, hash);
            if (offset + 1 < slot_of(slots, size, hash)->end)
                continue;
        }
        const int64_t time = (int64_t)((uint64_t)base_timestamp + (uint64_t)record.time);
        facts[KEPT]++;
        facts[TOMBSTONES] += record.value_length < 0;
        facts[KEPT_LATEST] = time > facts[KEPT_LATEST] ? time : facts[KEPT_LATEST];
        out = put_record(out, &record, shift);
    }
    facts[BYTES] = out - begin;
    return GOOD;
}
