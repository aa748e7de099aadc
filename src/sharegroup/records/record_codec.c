/* Records as Python objects, and Python objects as records (records/record_codec.py).
 *
 * No Python.h here either: compiled_codec.py hands over the functions of Python that are called,
 * all of them in its stable ABI. So one library serves every version of Python, and it compiles
 * where Python's headers are missing. The functions below become built-in functions, so whoever
 * calls them holds the interpreter's lock. records/pure_codec.py does the same in Python. Change
 * both, and VERSION.
 *
 * Hostile bytes are read within their bounds, in one pass, with the verdicts of walk.c.
 */
#include <stdlib.h>
#include <string.h>

#include "reader.h"

typedef struct Object Object; /* PyObject, which nobody looks into here */

typedef struct {
    void *start;
    Object *owner;
    intptr_t length, item_size;
    int read_only, dimensions;
    char *format;
    intptr_t *shape, *strides, *suboffsets;
    void *internal;
} Buffer; /* Py_buffer */

typedef struct {
    const char *name;
    void (*function)(void);
    int flags;
    const char *documentation;
} Method; /* PyMethodDef */

enum { NO_ARGUMENTS = 0x0004, ONE_ARGUMENT = 0x0008, FAST_CALL = 0x0080 }; /* METH_… */

/* Python's objects and functions, in the order of compiled_codec.py. */
static struct {
    Object *none, *true_object, *false_object, *value_error;
    void (*Py_IncRef)(Object *);
    void (*Py_DecRef)(Object *);
    Object *(*PyErr_Occurred)(void);
    void (*PyErr_SetString)(Object *kind, const char *text);
    Object *(*PyErr_NoMemory)(void);
    Object *(*PyLong_FromLongLong)(long long number);
    long long (*PyLong_AsLongLong)(Object *);
    Object *(*PyBytes_FromStringAndSize)(const char *bytes, intptr_t length);
    int (*PyBytes_AsStringAndSize)(Object *, char **bytes, intptr_t *length);
    Object *(*PyUnicode_DecodeUTF8)(const char *bytes, intptr_t length, const char *errors);
    const char *(*PyUnicode_AsUTF8AndSize)(Object *, intptr_t *length);
    Object *(*PyTuple_New)(intptr_t length);
    int (*PyTuple_SetItem)(Object *, intptr_t at, Object *item); /* takes the item over */
    Object *(*PyTuple_GetItem)(Object *, intptr_t at);           /* the item stays the tuple's */
    void (*PyObject_GC_UnTrack)(Object *);
    Object *(*PyList_New)(intptr_t length);
    intptr_t (*PyList_Size)(Object *);
    int (*PyList_SetItem)(Object *, intptr_t at, Object *item); /* takes the item over */
    Object *(*PyList_GetItem)(Object *, intptr_t at);           /* the item stays the list's */
    int (*PyList_SetSlice)(Object *, intptr_t from, intptr_t to, Object *items);
    int (*PyObject_GetBuffer)(Object *, Buffer *, int flags);
    void (*PyBuffer_Release)(Buffer *);
    Object *(*PyCapsule_New)(void *content, const char *name, void (*end)(Object *));
    void *(*PyCapsule_GetPointer)(Object *, const char *name);
    Object *(*PyCFunction_NewEx)(Method *, Object *self, Object *module);
} python;

static Object *refused(const char *why)
{
    python.PyErr_SetString(python.value_error, why);
    return NULL;
}

static Object *same(Object *object)
{
    python.Py_IncRef(object);
    return object;
}

/* A tuple of `count` items, which it takes over. NULL, with Python's error set: there is no memory,
 * or one of the items is NULL. */
static Object *tuple(int count, Object *const *items)
{
    Object *made = python.PyTuple_New(count);
    int whole = made != NULL;
    for (int i = 0; i < count; i++) {
        if (made && items[i])
            python.PyTuple_SetItem(made, i, items[i]);
        else if (items[i])
            python.Py_DecRef(items[i]);
        whole = whole && items[i];
    }
    if (made && !whole) {
        python.Py_DecRef(made);
        made = NULL;
    }
    return made;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* The field of `length` bytes that ends at `end`; a length of -1 is None. */
static inline Object *bytes_before(const uint8_t *end, int64_t length)
{
    if (length < 0)
        return same(python.none);
    return python.PyBytes_FromStringAndSize((const char *)end - length, (intptr_t)length);
}

/* The name of a header of the last record that had one in this place. The record owns the object.
 * Records of one topic mostly have the same names: one object each is smaller and sooner made, and
 * Python hashes it once. */
typedef struct {
    const char *bytes;
    int64_t length;
    Object *object;
} Name;

enum { NAMES = 16 };

/* The name of a header. `known` may be NULL. NULL: Python's error is set. */
static Object *name_of(const char *bytes, int64_t length, Name *known)
{
    if (known && known->object && known->length == length
        && !memcmp(known->bytes, bytes, (size_t)length))
        return same(known->object);
    /* As in Java, bytes that are not UTF-8 become replacement characters. */
    Object *const made = python.PyUnicode_DecodeUTF8(bytes, (intptr_t)length, "replace");
    if (known)
        *known = (Name){bytes, length, made};
    return made;
}

/* One header, as (name, value). NULL: the reader has a verdict, or Python's error is set. */
static Object *header(Reader *reader, Name *known)
{
    const int64_t name_length = field(reader, 0);
    if (reader->verdict)
        return NULL;
    const char *const name = (const char *)reader->at - name_length;
    const int64_t length = field(reader, -1);
    if (reader->verdict)
        return NULL;
    Object *const items[2] = {
        name_of(name, name_length, known),
        bytes_before(reader->at, length),
    };
    Object *const made = tuple(2, items);
    if (made) /* text and bytes make no circle: the garbage collector need not look at them */
        python.PyObject_GC_UnTrack(made);
    return made;
}

/* All headers of a record, as a list. NULL: as header. */
static Object *headers(Reader *reader, Name *known)
{
    const int64_t count = number(reader, 5);
    if (reader->verdict)
        return NULL;
    /* A header takes at least two bytes: the lengths of its key and of its value. */
    if (count < 0 || count > (reader->end - reader->at) / 2) {
        reader->verdict = LENGTH;
        return NULL;
    }
    Object *const made = python.PyList_New((intptr_t)count);
    for (int64_t i = 0; made && i < count; i++) {
        Object *const one = header(reader, i < NAMES ? known + i : NULL);
        if (!one || python.PyList_SetItem(made, (intptr_t)i, one)) {
            python.Py_DecRef(made);
            return NULL;
        }
    }
    return made;
}

/* The numbers that read_records takes after the data. */
enum { FROM, TO, COUNT, LAST_DELTA, BASE_OFFSET, TIMESTAMP, APPEND_TIME, NUMBERS };

/* The next record, as (offset, timestamp, key, value, headers). `before` is the last offset delta.
 * NULL: as header, and `known` must not be used again. */
static Object *record(
    Reader *reader, const uint8_t *body_end, const int64_t *given, int64_t *before, Name *known)
{
    if (reader->at == body_end) {
        reader->verdict = FEWER;
        return NULL;
    }
    reader->end = body_end; /* for the record's size; all that follows ends with the record */
    const int64_t size = number(reader, 5);
    if (reader->verdict)
        return NULL;
    if (size < 0 || size > body_end - reader->at || size < 1) {
        reader->verdict = size < 0 ? LENGTH : CUT;
        return NULL;
    }
    reader->end = reader->at + size;
    reader->at++; /* attributes: none is in use */
    const int64_t timestamp_delta = number(reader, 10);
    if (reader->verdict)
        return NULL;
    const int64_t delta = number(reader, 5);
    if (reader->verdict)
        return NULL;
    if (delta <= *before || delta > given[LAST_DELTA]) {
        reader->verdict = DELTA;
        return NULL;
    }
    *before = delta;
    const int64_t key_length = field(reader, -1);
    if (reader->verdict)
        return NULL;
    const uint8_t *const key_end = reader->at;
    const int64_t value_length = field(reader, -1);
    if (reader->verdict)
        return NULL;
    const uint8_t *const value_end = reader->at;
    Object *const all_headers = headers(reader, known);
    if (!all_headers)
        return NULL;
    if (reader->at != reader->end) {
        reader->verdict = END;
        python.Py_DecRef(all_headers);
        return NULL;
    }
    /* Unsigned, so that the sums of hostile numbers wrap, as in Java. */
    const uint64_t shift = given[APPEND_TIME] ? 0 : (uint64_t)timestamp_delta;
    Object *const items[5] = {
        python.PyLong_FromLongLong((int64_t)((uint64_t)given[BASE_OFFSET] + (uint64_t)delta)),
        python.PyLong_FromLongLong((int64_t)((uint64_t)given[TIMESTAMP] + shift)),
        bytes_before(key_end, key_length),
        bytes_before(value_end, value_length),
        all_headers,
    };
    return tuple(5, items);
}

/* The good records in data[from .. to), and the verdict. */
static Object *records(const uint8_t *data, const int64_t *given)
{
    const uint8_t *const body_end = data + given[TO];
    Reader reader = {data + given[FROM], body_end, GOOD};
    /* A record has seven bytes at least, so no count can ask for more room than its data takes. */
    const int64_t most = (given[TO] - given[FROM]) / 7;
    const int64_t count = given[COUNT] < 0 ? 0 : given[COUNT];
    const int64_t room = count < most ? count : most;
    int64_t made = 0, before = -1;
    Name known[NAMES] = {{NULL, 0, NULL}};
    Object *const list = python.PyList_New((intptr_t)room);
    if (!list)
        return NULL;
    for (; made < count; made++) {
        Object *const one = record(&reader, body_end, given, &before, known);
        if (reader.verdict)
            break;
        if (!one || python.PyList_SetItem(list, (intptr_t)made, one)) {
            python.Py_DecRef(list);
            return NULL;
        }
    }
    if (!reader.verdict && reader.at != body_end)
        reader.verdict = MORE;
    if (made < room && python.PyList_SetSlice(list, (intptr_t)made, (intptr_t)room, NULL)) {
        python.Py_DecRef(list);
        return NULL;
    }
    Object *const items[2] = {list, python.PyLong_FromLongLong(reader.verdict)};
    return tuple(2, items);
}

/* read_records(data, *numbers); see pure_codec.py. */
static Object *read_records(Object *self, Object *const *arguments, intptr_t argument_count)
{
    int64_t given[NUMBERS];
    Buffer data;
    (void)self;
    if (argument_count != 1 + NUMBERS)
        return refused("read_records takes the data and seven numbers");
    for (int i = 0; i < NUMBERS; i++) {
        given[i] = python.PyLong_AsLongLong(arguments[1 + i]);
        if (given[i] == -1 && python.PyErr_Occurred())
            return NULL;
    }
    if (python.PyObject_GetBuffer(arguments[0], &data, 0))
        return NULL;
    Object *result;
    if (given[FROM] < 0 || given[TO] < given[FROM] || given[TO] > data.length)
        result = refused("the records are not within the data");
    else
        result = records(data.start, given);
    python.PyBuffer_Release(&data);
    return result;
}

/* --- writing ---------------------------------------------------------------------------------- */

static const char WRITER[] = "sharegroup.records.writer";
enum { HEADER_BYTES = 61, ROOM_MIN = 256, BATCH_BYTES_MAX = INT32_MAX };

/* The records of one batch that is being filled. */
typedef struct {
    uint8_t *bytes;
    int64_t size, room, bytes_max; /* bytes_max: of the batch, with its header */
    int64_t count, base_timestamp, max_timestamp;
} Writer;

typedef struct {
    const char *bytes;
    intptr_t length; /* -1: null */
} Field;

static void end_writer(Object *capsule)
{
    Writer *const writer = python.PyCapsule_GetPointer(capsule, WRITER);
    if (writer) {
        free(writer->bytes);
        free(writer);
    }
}

/* Python's bytes or None as a field. 0: it is neither, and Python's error is set. */
static int field_of(Object *object, Field *found)
{
    char *bytes = NULL;
    found->bytes = NULL;
    found->length = -1;
    if (object == python.none)
        return 1;
    if (python.PyBytes_AsStringAndSize(object, &bytes, &found->length))
        return 0;
    found->bytes = bytes;
    return 1;
}

/* Name and value of a header. 0: as field_of. */
static int header_at(Object *list, intptr_t at, Field *name, Field *value)
{
    Object *const pair = python.PyList_GetItem(list, at);
    Object *const first = pair ? python.PyTuple_GetItem(pair, 0) : NULL;
    Object *const second = first ? python.PyTuple_GetItem(pair, 1) : NULL;
    if (!second)
        return 0;
    name->bytes = python.PyUnicode_AsUTF8AndSize(first, &name->length);
    return name->bytes && field_of(second, value);
}

static inline int64_t bytes_of_field(const Field *field)
{
    if (field->length < 0)
        return 1;
    return bytes_of_number(field->length) + field->length;
}

static inline uint8_t *put_field(uint8_t *out, const Field *field)
{
    out = put_number(out, field->length);
    if (field->length > 0) {
        memcpy(out, field->bytes, (size_t)field->length);
        out += field->length;
    }
    return out;
}

/* 0: there is no memory for `more` bytes. */
static int has_room(Writer *writer, int64_t more)
{
    const int64_t wanted = writer->size + more;
    int64_t room = writer->room ? writer->room : ROOM_MIN;
    if (wanted <= writer->room)
        return 1;
    while (room < wanted)
        room *= 2;
    uint8_t *const bytes = realloc(writer->bytes, (size_t)room);
    if (!bytes)
        return 0;
    writer->bytes = bytes;
    writer->room = room;
    return 1;
}

/* append(timestamp, key, value, headers); see pure_codec.py. Nothing of Python runs between the
 * first look at key, value and headers and the last one, so they stay as they are. */
static Object *append(Object *capsule, Object *const *arguments, intptr_t argument_count)
{
    Writer *const writer = python.PyCapsule_GetPointer(capsule, WRITER);
    Field key, value, name, content;
    if (!writer)
        return NULL;
    if (argument_count != 4)
        return refused("append takes timestamp, key, value and headers");
    const int64_t timestamp = python.PyLong_AsLongLong(arguments[0]);
    if (timestamp == -1 && python.PyErr_Occurred())
        return NULL;
    Object *const list = arguments[3];
    const intptr_t header_count = python.PyList_Size(list);
    if (header_count < 0 || !field_of(arguments[1], &key) || !field_of(arguments[2], &value))
        return NULL;
    const int64_t timestamp_delta =
        writer->count ? (int64_t)((uint64_t)timestamp - (uint64_t)writer->base_timestamp) : 0;
    int64_t body = 1 + bytes_of_number(timestamp_delta) + bytes_of_number(writer->count)
        + bytes_of_field(&key) + bytes_of_field(&value) + bytes_of_number(header_count);
    for (intptr_t i = 0; i < header_count; i++) {
        if (!header_at(list, i, &name, &content))
            return NULL;
        body += bytes_of_field(&name) + bytes_of_field(&content);
    }
    const int64_t size = bytes_of_number(body) + body;
    if (size > BATCH_BYTES_MAX - HEADER_BYTES)
        return refused("a record of 2 GiB fits into no batch");
    if (writer->count && HEADER_BYTES + writer->size + size > writer->bytes_max)
        return same(python.false_object);
    if (!has_room(writer, size))
        return python.PyErr_NoMemory();
    uint8_t *out = put_number(writer->bytes + writer->size, body);
    *out++ = 0; /* attributes: none is in use */
    out = put_number(out, timestamp_delta);
    out = put_number(out, writer->count);
    out = put_field(out, &key);
    out = put_field(out, &value);
    out = put_number(out, header_count);
    for (intptr_t i = 0; i < header_count; i++) {
        if (!header_at(list, i, &name, &content))
            return NULL;
        out = put_field(out, &name);
        out = put_field(out, &content);
    }
    if (!writer->count)
        writer->base_timestamp = writer->max_timestamp = timestamp;
    else if (timestamp > writer->max_timestamp)
        writer->max_timestamp = timestamp;
    writer->size += size;
    writer->count++;
    return same(python.true_object);
}

/* finish(); see pure_codec.py. */
static Object *finish(Object *capsule, Object *nothing)
{
    const Writer *const writer = python.PyCapsule_GetPointer(capsule, WRITER);
    (void)nothing;
    if (!writer)
        return NULL;
    Object *const items[4] = {
        python.PyBytes_FromStringAndSize((const char *)writer->bytes, (intptr_t)writer->size),
        python.PyLong_FromLongLong(writer->count),
        python.PyLong_FromLongLong(writer->base_timestamp),
        python.PyLong_FromLongLong(writer->max_timestamp),
    };
    return tuple(4, items);
}

static Method append_method = {"append", (void (*)(void))append, FAST_CALL, NULL};
static Method finish_method = {"finish", (void (*)(void))finish, NO_ARGUMENTS, NULL};

/* new_writer(bytes_max); see pure_codec.py. */
static Object *new_writer(Object *self, Object *bytes_max)
{
    const int64_t most = python.PyLong_AsLongLong(bytes_max);
    (void)self;
    if (most == -1 && python.PyErr_Occurred())
        return NULL;
    Writer *const writer = calloc(1, sizeof *writer);
    if (!writer)
        return python.PyErr_NoMemory();
    writer->bytes_max = most < BATCH_BYTES_MAX ? most : BATCH_BYTES_MAX;
    Object *const capsule = python.PyCapsule_New(writer, WRITER, end_writer);
    if (!capsule) {
        free(writer);
        return NULL;
    }
    Object *const items[2] = {
        python.PyCFunction_NewEx(&append_method, capsule, NULL),
        python.PyCFunction_NewEx(&finish_method, capsule, NULL),
    };
    python.Py_DecRef(capsule); /* the two functions hold it */
    return tuple(2, items);
}

static Method read_records_method = {
    "read_records", (void (*)(void))read_records, FAST_CALL, NULL};
static Method new_writer_method = {"new_writer", (void (*)(void))new_writer, ONE_ARGUMENT, NULL};

/* (read_records, new_writer) as built-in functions. `table` has the entries of `python`. NULL:
 * their number is not `count`. */
EXPORT Object *sharegroup_record_codec(void *const *table, int64_t count)
{
    if (count != (int64_t)(sizeof python / sizeof(void *)))
        return NULL;
    memcpy(&python, table, sizeof python);
    Object *const items[2] = {
        python.PyCFunction_NewEx(&read_records_method, NULL, NULL),
        python.PyCFunction_NewEx(&new_writer_method, NULL, NULL),
    };
    return tuple(2, items);
}
