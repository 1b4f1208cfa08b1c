/* SPDX-License-Identifier: MIT */
/*
 * Searches short texts: settings, files of the system, names. libc's functions for that would
 * be faster, but are seldom called, and the dynamic linker would look each of them up, and
 * choose its variant for the processor, in every process (D0.8).
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* The first @c among @n bytes; NULL: there is none. */
static inline const char *text_find_in(const char *s, char c, size_t n)
{
	for (; n; s++, n--)
		if (*s == c)
			return s;
	return NULL;
}

/* The last @c among @n bytes; NULL: there is none. */
static inline const char *text_find_last_in(const char *s, char c, size_t n)
{
	while (n--)
		if (s[n] == c)
			return s + n;
	return NULL;
}

/* The first, the last @c of a text; NULL: there is none. @c is not 0. */
static inline const char *text_find(const char *s, char c)
{
	return text_find_in(s, c, strlen(s));
}

static inline const char *text_find_last(const char *s, char c)
{
	return text_find_last_in(s, c, strlen(s));
}

/* The part of a path behind its last slash. */
static inline const char *text_last_part(const char *path)
{
	const char *slash = text_find_last(path, '/');

	return slash ? slash + 1 : path;
}

/* The number of bytes in front of the first one that is among @stops, or of the end. */
static inline size_t text_until(const char *s, const char *stops)
{
	size_t n = 0;

	while (s[n] && !text_find(stops, s[n]))
		n++;
	return n;
}

/* Whether the first @n bytes of two texts, or all up to an end, are the same. */
static inline bool text_same(const char *a, const char *b, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (a[i] != b[i])
			return false;
		if (!a[i])
			break;
	}
	return true;
}

static inline bool text_is(const char *a, const char *b)
{
	return text_same(a, b, (size_t)-1);
}

/* The first place of @word in @s; NULL: there is none. */
static inline const char *text_find_word(const char *s, const char *word)
{
	size_t n = strlen(word);

	for (; *s; s++)
		if (text_same(s, word, n))
			return s;
	return NULL;
}

/* The length of a text in @max bytes; @max: it does not end there. */
static inline size_t text_length(const char *s, size_t max)
{
	const char *end = text_find_in(s, '\0', max);

	return end ? (size_t)(end - s) : max;
}

/* Copies @s without its end. Result: the place behind it. */
static inline char *text_append(char *to, const char *s)
{
	while (*s)
		*to++ = *s++;
	return to;
}

/* Copies as much of @s as fits, with a terminating zero. */
static inline void text_copy(char *to, const char *s, size_t size)
{
	size_t n = 0;

	for (; n < size - 1 && s[n]; n++)
		to[n] = s[n];
	to[n] = '\0';
}

#endif
