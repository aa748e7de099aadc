/* What the C files of this folder share: verdicts, and the numbers and fields in records. */
#ifndef SHAREGROUP_READER_H
#define SHAREGROUP_READER_H

#include <stdint.h>
#include <string.h>

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

/* Verdicts; records/walk_result.py names them. */
enum { GOOD, CUT, NUMBER, LENGTH, END, DELTA, FEWER, MORE };

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
        /* The last byte has only the bits that are left of 32 or 64, and ends the number. */
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

/* Step over a field, which begins with its length. Returns the length, -1 for null. */
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

/* The bytes of the field at the reader, and their number, -1 for null. Steps over the field, which
 * was walked before. */
static inline const uint8_t *field_at(Reader *reader, int64_t *length)
{
    *length = number(reader, 5);
    const uint8_t *const bytes = reader->at;
    reader->at += *length > 0 ? *length : 0;
    return bytes;
}

/* The value of the last header of this name, as in Kafka's Headers.lastHeader, and its length, -1
 * for null; NULL if there is no such header. The reader stands before the number of headers of a
 * record that was walked before. */
static inline const uint8_t *last_header(
    Reader *reader, const uint8_t *name, int64_t name_length, int64_t *length)
{
    const uint8_t *found = 0;
    for (int64_t left = number(reader, 5); left > 0; left--) {
        int64_t size;
        const uint8_t *const key = field_at(reader, &size);
        const int same = size == name_length && !memcmp(key, name, (size_t)name_length);
        const uint8_t *const value = field_at(reader, &size);
        if (same) {
            found = value;
            *length = size;
        }
    }
    return found;
}

/* The number that a header's value says in decimal digits; -1 if it says none. A length of -1
 * stands for null. 18 digits fit into 63 bits. */
static inline int64_t decimal(const uint8_t *value, int64_t length)
{
    int64_t said = 0;
    if (length < 1 || length > 18)
        return -1;
    for (int64_t i = 0; i < length; i++) {
        if (value[i] < '0' || value[i] > '9')
            return -1;
        said = said * 10 + (value[i] - '0');
    }
    return said;
}

static inline uint64_t zigzag(int64_t number)
{
    return (uint64_t)number << 1 ^ (uint64_t)-(int64_t)((uint64_t)number >> 63);
}

static inline uint8_t *put_number(uint8_t *out, int64_t number)
{
    uint64_t value = zigzag(number);
    for (; value > 0x7F; value >>= 7)
        *out++ = (uint8_t)(value | 0x80);
    *out++ = (uint8_t)value;
    return out;
}

static inline int bytes_of_number(int64_t number)
{
    uint64_t value = zigzag(number);
    int bytes = 1;
    while (value >>= 7)
        bytes++;
    return bytes;
}

#endif
