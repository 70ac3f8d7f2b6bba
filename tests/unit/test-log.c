// SPDX-License-Identifier: Apache-2.0
/* What a program that reads the log gets: each line is parsed as JSON. */
#include "base/fd.h"
#include "base/log.h"
#include "test.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>
#include <sys/mman.h>

static int log_fd, old_stderr;

static void begin(void)
{
	log_fd = memfd_create("log", MFD_CLOEXEC);
	old_stderr = dup(STDERR_FILENO);
	CHECK(log_fd >= 0 && old_stderr >= 0 && dup2(log_fd, STDERR_FILENO) == STDERR_FILENO);
	log_init("test", LOG_INFO);
}

/* The one line that was logged. */
static json_t *end(void)
{
	char text[8192];
	ssize_t n = pread(log_fd, text, sizeof(text), 0);
	json_t *line;

	CHECK(dup2(old_stderr, STDERR_FILENO) == STDERR_FILENO);
	(void)close(old_stderr);
	(void)close(log_fd);
	CHECK(n > 0 && text[n - 1] == '\n' && !memchr(text, '\n', (size_t)n - 1));
	line = json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, NULL);
	CHECK(json_is_object(line));
	return line;
}

static const char *text_of(const json_t *line, const char *name)
{
	return json_string_value(json_object_get(line, name));
}

static long long number_of(const json_t *line, const char *name)
{
	CHECK(json_is_integer(json_object_get(line, name)));
	return json_integer_value(json_object_get(line, name));
}

TEST(each_field_of_a_line_is_a_member_of_its_own)
{
	json_t *line;

	begin();
	log_warn("box.ready",
	         "id=%s took_us=%" PRIu64 " why='%s' slot=%d n=%zu left=%zd u=%u x=%llu", "sb_1",
	         UINT64_C(5000000000), "it can", -7, (size_t)8, (ssize_t)-9, 10U, 11ULL);
	line = end();
	CHECK_STR(text_of(line, "level"), "warn");
	CHECK_STR(text_of(line, "program"), "test");
	CHECK_STR(text_of(line, "event"), "box.ready");
	CHECK_STR(text_of(line, "id"), "sb_1");
	CHECK_INT(number_of(line, "took_us"), 5000000000);
	CHECK_STR(text_of(line, "why"), "it can");
	CHECK_INT(number_of(line, "slot"), -7);
	CHECK_INT(number_of(line, "n"), 8);
	CHECK_INT(number_of(line, "left"), -9);
	CHECK_INT(number_of(line, "u"), 10);
	CHECK_INT(number_of(line, "x"), 11);
	CHECK_INT(json_object_size(line), 12);
	json_decref(line);
}

TEST(what_is_not_one_number_alone_is_text)
{
	json_t *line;

	begin();
	log_info("x", "status=0x%x file='a/%s/b' most='%d' key=%.3s state=%c of=%d/%d word=free",
	         0x8bU, "c", 5, "abcdef", 'T', 1, 2);
	line = end();
	CHECK_STR(text_of(line, "status"), "0x8b");
	CHECK_STR(text_of(line, "file"), "a/c/b");
	CHECK_STR(text_of(line, "most"), "5");
	CHECK_STR(text_of(line, "key"), "abc");
	CHECK_STR(text_of(line, "state"), "T");
	CHECK_STR(text_of(line, "of"), "1/2");
	CHECK_STR(text_of(line, "word"), "free");
	json_decref(line);
}

TEST(no_text_from_elsewhere_becomes_a_field_or_a_line)
{
	const char *evil =
		"a' id='forged' b=1\",\"level\":\"error\"}\n{\"event\":\"forged %s %n\x1b[2J";
	json_t *line;

	begin();
	log_info("x", "name='%s' bare=%s last=%d", evil, "a b=c", 3);
	line = end();
	CHECK_STR(text_of(line, "name"), evil);
	CHECK_STR(text_of(line, "bare"), "a b=c");
	CHECK_INT(number_of(line, "last"), 3);
	CHECK_STR(text_of(line, "level"), "info");
	CHECK_INT(json_object_size(line), 7);
	json_decref(line);
}

TEST(a_line_that_is_too_long_is_cut_and_stays_one_object)
{
	char text[4096];

	/* Of every length, so that each kind of byte and field meets the end. */
	for (size_t n = 200; n < sizeof(text) / 4; n++) {
		json_t *line;

		memset(text, n % 3 ? '"' : '\1', n);
		text[n] = '\0';
		begin();
		log_info("x", "a='%s' n=%d b='%s' c=%s m=%d", text, 12345, text, text, 6789);
		line = end();
		CHECK_INT(strspn(text_of(line, "a"), "\"\1"), strlen(text_of(line, "a")));
		json_decref(line);
	}
}

TEST(a_level_below_the_least_is_not_logged)
{
	json_t *line;

	begin();
	log_debug("x", "a=%d", 1);
	log_error("y", "a=%d", 2);
	line = end();
	CHECK_STR(text_of(line, "event"), "y");
	json_decref(line);
}

static char seen[4096];

static void on_line(enum log_level level, uint64_t at_us, const char *line, size_t len, void *arg)
{
	CHECK(level == LOG_WARN && at_us > 0);
	CHECK_STR(arg, "arg");
	CHECK(len < sizeof(seen));
	memcpy(seen, line, len);
	seen[len] = '\0';
}

TEST(a_sink_gets_the_lines_that_are_logged_while_it_is_set)
{
	char arg[] = "arg";
	json_t *line, *told;

	begin();
	log_set_sink(on_line, arg);
	log_debug("test.unheard", "n=%d", 1);
	log_warn("test.heard", "text='%s' n=%d", "a \"word\"", 3);
	log_set_sink(NULL, NULL);
	line = end();
	told = json_loads(seen, JSON_REJECT_DUPLICATES, NULL);
	CHECK(json_equal(line, told));
	CHECK_STR(text_of(told, "text"), "a \"word\"");
	json_decref(line);
	json_decref(told);
}
