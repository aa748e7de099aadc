/* What the C files of this folder share: verdicts, and the reader of the numbers in records. */
#ifndef SHAREGROUP_READER_H
#define SHAREGROUP_READER_H

#include <stdint.h>

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

/* Verdicts; records/verdict.py names them. */
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

#endif
