// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A thin layer over cmocka: a test's name is its promise, it has one reason to fail, and a failure
 * prints both values.
 *
 *	TEST(a_buf_refuses_what_passes_its_cap) { CHECK_INT(buf_append(&b, "x", 1), -E2BIG); }
 *	TEST_FORKED(a_mount_is_refused, 5) { … }
 *
 * The second form runs in a child of its own, which is killed after 5 s. It may unshare, load
 * seccomp or crash, and what it leaves running is ended.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct test_case {
	const char *name;
	void (*fn)(void **state);
	void (*body)(void);
	unsigned seconds; /* 0 = in this process */
};

#define TEST_ROW(name_, seconds_)                                                                  \
	static void name_##_body(void);                                                            \
	static void name_##_run(void **state)                                                      \
	{                                                                                          \
		(void)state;                                                                       \
		test_run(name_##_body, seconds_);                                                  \
	}                                                                                          \
	static const struct test_case name_##_row                                                  \
		__attribute__((section("test_cases"), used, aligned(8))) = {                       \
			#name_, name_##_run, name_##_body, seconds_};                              \
	static void name_##_body(void)

#define TEST(name)                 TEST_ROW(name, 0)
#define TEST_FORKED(name, seconds) TEST_ROW(name, seconds)

/* Each says what was and what should have been. Work in forked tests too. */
#define CHECK(condition) test_check(!!(condition), #condition, __FILE__, __LINE__)
#define CHECK_INT(got, wanted)                                                                     \
	test_check_int((int64_t)(got), (int64_t)(wanted), #got, __FILE__, __LINE__)
#define CHECK_STR(got, wanted) test_check_str((got), (wanted), #got, __FILE__, __LINE__)
#define CHECK_MEM(got, got_len, wanted, wanted_len)                                                \
	test_check_mem((got), (got_len), (wanted), (wanted_len), #got, __FILE__, __LINE__)
/* For what the host lacks, never for what is broken. */
#define SKIP(reason) test_skip(reason)

/* How many times longer than on an ordinary host all may take: CLOCHE_PATIENCE, as the suites in
 * Python have it, else 1. Every deadline of a test is so many times its own. */
unsigned test_patience(void);
void test_run(void (*body)(void), unsigned seconds);
void test_check(int ok, const char *text, const char *file, int line);
void test_check_int(int64_t got, int64_t wanted, const char *text, const char *file, int line);
void test_check_str(const char *got, const char *wanted, const char *text, const char *file,
                    int line);
void test_check_mem(const void *got, size_t got_len, const void *wanted, size_t wanted_len,
                    const char *text, const char *file, int line);
void test_skip(const char *reason) __attribute__((noreturn));
