/* What the C files of this folder share: verdicts, and the numbers and fields in records. */
#ifndef SHAREGROUP_READER_H
#define SHAREGROUP_READER_H

#include <stdint.h>

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
