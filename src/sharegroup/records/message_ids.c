/* The message ids of the records of one batch, and the table of the ids that a partition has
 * (deduplication at enqueue).
 *
 * The rules of walk.c hold here: plain C, no allocation, no state of its own, and hostile bytes
 * are read within their bounds. records/message_ids.py and records/id_table.py do the same in
 * Python. Change both, and VERSION.
 */
#include <string.h>

#include "reader.h"

int32_t sharegroup_walk(
    const uint8_t *data, int64_t start, int64_t end, int64_t count, int64_t last_delta,
    int32_t dense, int64_t base_timestamp, int64_t *facts,
    int64_t *starts, int64_t *key_starts, int64_t *key_lengths);

void sharegroup_hash(
    const uint8_t *secret, const uint8_t *key, int64_t length, uint64_t *hash);

static const char NAME[] = "sharegroup.message.id";
static const char REDRIVEN[] = "sharegroup.redriven";
static const char LETTER[] = "__dlq.errors.";
enum {
    NAME_LENGTH = sizeof NAME - 1,
    REDRIVEN_LENGTH = sizeof REDRIVEN - 1,
    LETTER_LENGTH = sizeof LETTER - 1
};

/* The id in the headers of a record that was walked; the last header of the name counts, as in
 * Kafka's Headers.lastHeader. Returns its length; 0: the record has no id. Dead letters have
 * none, nor have records that are sent back from there: each is a message of its own, whatever
 * headers it has copied. */
static int64_t id_at(Reader *reader, const uint8_t **id)
{
    int64_t found = 0;
    int letter = 0;
    for (int64_t left = number(reader, 5); left > 0; left--) {
        const int64_t name_length = number(reader, 5);
        const uint8_t *const name = reader->at;
        reader->at += name_length;
        const int64_t length = number(reader, 5);
        if (name_length == NAME_LENGTH && !memcmp(name, NAME, NAME_LENGTH)) {
            found = length > 0 ? length : 0;
            *id = reader->at;
        }
        letter |= name_length == REDRIVEN_LENGTH && !memcmp(name, REDRIVEN, REDRIVEN_LENGTH);
        letter |= name_length >= LETTER_LENGTH && !memcmp(name, LETTER, LETTER_LENGTH);
        reader->at += length > 0 ? length : 0;
    }
    return letter ? 0 : found;
}

/* Find the id of each of `count` records in data[start .. end): two numbers of `hashes` and one of
 * `has` (1: there is an id), `starts` and `deltas` for each record. Returns how many records have
 * an id, or minus the verdict of the walk. */
EXPORT int64_t sharegroup_ids_find(
    const uint8_t *data, int64_t start, int64_t end, int64_t count, int64_t last_delta,
    const uint8_t *secret, uint64_t *hashes, uint8_t *has, int64_t *starts, int64_t *deltas)
{
    int64_t facts[5], found = 0;
    const int32_t verdict =
        sharegroup_walk(data, start, end, count, last_delta, 0, 0, facts, starts, 0, 0);
    if (verdict)
        return -verdict;
    for (int64_t i = 0; i < count; i++) {
        Reader reader = {data + starts[i], data + end, GOOD};
        number(&reader, 5);
        reader.at++;
        number(&reader, 10);
        deltas[i] = number(&reader, 5);
        for (int field = 0; field < 2; field++) {
            const int64_t length = number(&reader, 5);
            reader.at += length > 0 ? length : 0;
        }
        const uint8_t *id = 0;
        const int64_t length = id_at(&reader, &id);
        has[i] = length > 0;
        found += has[i];
        if (has[i])
            sharegroup_hash(secret, id, length, hashes + 2 * i);
    }
    return found;
}

/* One id. `owner`: the producer whose open transaction its record is in, or SETTLED; FREE: the
 * transaction was aborted. */
typedef struct {
    uint64_t low, high;
    int64_t offset, time_ms, owner;
} Entry;

enum { SETTLED = -1, FREE = -2 };

/* A ring of entries in the order of their records, and an index of 2 * capacity slots with open
 * addressing. A slot is the position of an entry plus one; 0: empty. An entry that is not in the
 * index has been freed, or a later entry has its id. Entry `n` is at position n & (capacity - 1);
 * the ring has the entries tail .. head - 1. */
typedef struct {
    Entry *entries;
    uint32_t *index;
    int64_t capacity; /* a power of two */
    int64_t tail, head;
    int64_t early; /* how many ids were forgotten within the window, for lack of room */
} Table;

typedef struct {
    uint64_t low, high;
    int64_t offset, time_ms;
} Row;

/* The slot of an id, or the empty slot where the id belongs. */
static uint32_t *slot_of(const Table *table, uint64_t low, uint64_t high)
{
    const uint64_t mask = (uint64_t)(2 * table->capacity - 1);
    uint64_t at = low & mask;
    while (table->index[at]) {
        const Entry *const entry = &table->entries[table->index[at] - 1];
        if (entry->low == low && entry->high == high)
            break;
        at = (at + 1) & mask;
    }
    return &table->index[at];
}

/* Empty a slot; what belongs before it moves up. */
static void clear(Table *table, const uint32_t *slot)
{
    const uint64_t mask = (uint64_t)(2 * table->capacity - 1);
    uint64_t hole = (uint64_t)(slot - table->index), at = hole;
    for (;;) {
        at = (at + 1) & mask;
        if (!table->index[at])
            break;
        const uint64_t home = table->entries[table->index[at] - 1].low & mask;
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            table->index[hole] = table->index[at];
            hole = at;
        }
    }
    table->index[hole] = 0;
}

static Entry *entry_of(const Table *table, int64_t n)
{
    return &table->entries[n & (table->capacity - 1)];
}

/* Take an entry out of the index; whether it was there. */
static int unlink_entry(Table *table, int64_t n)
{
    const Entry *const entry = entry_of(table, n);
    uint32_t *const slot = slot_of(table, entry->low, entry->high);
    if (*slot != (uint32_t)(n & (table->capacity - 1)) + 1)
        return 0;
    clear(table, slot);
    return 1;
}

static void insert(
    Table *table, uint64_t low, uint64_t high, int64_t offset, int64_t time_ms, int64_t owner,
    int64_t expired_ms)
{
    if (table->head - table->tail == table->capacity) {
        const int linked = unlink_entry(table, table->tail);
        table->early += linked && entry_of(table, table->tail)->time_ms > expired_ms;
        table->tail++;
    }
    uint32_t *const slot = slot_of(table, low, high);
    const Entry entry = {low, high, offset, time_ms, owner};
    *entry_of(table, table->head) = entry;
    *slot = (uint32_t)(table->head & (table->capacity - 1)) + 1;
    table->head++;
}

static const Entry *living(const Table *table, const uint64_t *hash, int64_t expired_ms)
{
    const uint32_t slot = *slot_of(table, hash[0], hash[1]);
    if (!slot || table->entries[slot - 1].time_ms <= expired_ms)
        return 0;
    return &table->entries[slot - 1];
}

/* Forget entries whose time is `expired_ms` or earlier, at most `most`. */
EXPORT void sharegroup_ids_expire(Table *table, int64_t expired_ms, int64_t most)
{
    for (; most > 0 && table->tail < table->head; most--) {
        if (entry_of(table, table->tail)->time_ms > expired_ms)
            break;
        unlink_entry(table, table->tail);
        table->tail++;
    }
}

/* Decide on the records of a batch that is to be appended at `base_offset`, and note the new ids.
 * `firsts` gets, for each record, the offset of the first record of its id, or -1: the record is
 * to be appended. Returns how many records have been there; -1: an id is in another producer's
 * open transaction, and nothing was noted. */
EXPORT int64_t sharegroup_ids_decide(
    Table *table, const uint64_t *hashes, const uint8_t *has, const int64_t *deltas, int64_t count,
    int64_t base_offset, int64_t now_ms, int64_t expired_ms, int64_t owner, int64_t *firsts)
{
    int64_t repeated = 0;
    for (int64_t i = 0; i < count; i++) {
        const Entry *const entry = has[i] ? living(table, hashes + 2 * i, expired_ms) : 0;
        if (entry && entry->owner >= 0 && entry->owner != owner)
            return -1;
    }
    for (int64_t i = 0; i < count; i++) {
        firsts[i] = -1;
        if (!has[i])
            continue;
        const Entry *const entry = living(table, hashes + 2 * i, expired_ms);
        if (entry) {
            firsts[i] = entry->offset;
            repeated++;
        } else {
            insert(table, hashes[2 * i], hashes[2 * i + 1], base_offset + deltas[i], now_ms,
                owner, expired_ms);
        }
    }
    return repeated;
}

/* As sharegroup_ids_decide, but notes nothing: `firsts` gets the offset of the record that has
 * each id, or -1. */
EXPORT void sharegroup_ids_look(
    const Table *table, const uint64_t *hashes, const uint8_t *has, int64_t count,
    int64_t expired_ms, int64_t *firsts)
{
    for (int64_t i = 0; i < count; i++) {
        const Entry *const entry = has[i] ? living(table, hashes + 2 * i, expired_ms) : 0;
        firsts[i] = entry ? entry->offset : -1;
    }
}

/* Note the ids of a batch that is in the log; an id that is there already belongs to the batch's
 * record from now on. */
EXPORT void sharegroup_ids_note(
    Table *table, const uint64_t *hashes, const uint8_t *has, const int64_t *deltas, int64_t count,
    int64_t base_offset, int64_t time_ms, int64_t expired_ms, int64_t owner)
{
    for (int64_t i = 0; i < count; i++)
        if (has[i])
            insert(table, hashes[2 * i], hashes[2 * i + 1], base_offset + deltas[i], time_ms,
                owner, expired_ms);
}

/* Take back the newest entries, from entry `head` on. */
EXPORT void sharegroup_ids_undo(Table *table, int64_t head)
{
    while (table->head > head && table->head > table->tail) {
        table->head--;
        unlink_entry(table, table->head);
    }
}

/* The first entry with an offset of `offset` or more. */
static int64_t first_from(const Table *table, int64_t offset)
{
    int64_t low = table->tail, high = table->head;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (entry_of(table, middle)->offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* A producer's transaction, whose first id has an offset of `offset` or more, has ended. */
EXPORT void sharegroup_ids_settle(
    Table *table, int64_t owner, int64_t offset, int32_t committed)
{
    for (int64_t n = first_from(table, offset); n < table->head; n++) {
        Entry *const entry = entry_of(table, n);
        if (entry->owner != owner)
            continue;
        if (!committed)
            unlink_entry(table, n);
        entry->owner = committed ? SETTLED : FREE;
    }
}

/* Write the settled ids with offsets from `offset` to `end - 1` to `rows`, their times later by
 * `shift_ms`. Returns their number; rows may be NULL. */
EXPORT int64_t sharegroup_ids_export(
    const Table *table, int64_t offset, int64_t end, int64_t shift_ms, Row *rows)
{
    int64_t found = 0;
    for (int64_t n = first_from(table, offset); n < table->head; n++) {
        const Entry *const entry = entry_of(table, n);
        if (entry->offset >= end)
            break;
        if (entry->owner != SETTLED)
            continue;
        if (rows) {
            const Row row = {entry->low, entry->high, entry->offset, entry->time_ms + shift_ms};
            rows[found] = row;
        }
        found++;
    }
    return found;
}

/* Note `count` settled ids, which sharegroup_ids_export has written. */
EXPORT void sharegroup_ids_import(
    Table *table, const Row *rows, int64_t count, int64_t shift_ms, int64_t now_ms,
    int64_t expired_ms)
{
    for (int64_t i = 0; i < count; i++) {
        const int64_t time_ms = rows[i].time_ms + shift_ms;
        if (time_ms > expired_ms)
            insert(table, rows[i].low, rows[i].high, rows[i].offset,
                time_ms < now_ms ? time_ms : now_ms, SETTLED, expired_ms);
    }
}

/* Note all ids of one table in another, which is empty and has room for them. */
EXPORT void sharegroup_ids_move(const Table *from, Table *to, int64_t expired_ms)
{
    for (int64_t n = from->tail; n < from->head; n++) {
        const Entry *const entry = entry_of(from, n);
        const uint32_t slot = *slot_of(from, entry->low, entry->high);
        if (entry->time_ms > expired_ms
            && slot == (uint32_t)(n & (from->capacity - 1)) + 1)
            insert(to, entry->low, entry->high, entry->offset, entry->time_ms, entry->owner,
                expired_ms);
    }
}
