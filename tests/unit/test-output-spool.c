// SPDX-License-Identifier: Apache-2.0
#include "base/units.h"
#include "sandbox/exec/output_spool.h"
#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[64];
static int dir_fd;

static void set_up(void)
{
	(void)snprintf(dir, sizeof(dir), "/tmp/cloche-spool-XXXXXX");
	CHECK(mkdtemp(dir) != NULL);
	dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	CHECK(dir_fd >= 0);
}

static void tear_down(void)
{
	(void)unlinkat(dir_fd, "s", 0);
	(void)close(dir_fd);
	CHECK_INT(rmdir(dir), 0);
}

static struct spool *make(uint64_t bytes_max)
{
	struct spool *sp = NULL;

	CHECK_INT(spool_new(dir_fd, "s", bytes_max, &sp, NULL), 0);
	return sp;
}

static struct spool *reopen(uint64_t *ret_offset)
{
	struct spool *sp = NULL;
	struct err err = {0};

	if (spool_reopen(dir_fd, "s", MIB, &sp, ret_offset, &err) < 0)
		CHECK_STR(err.message, "");
	return sp;
}

static void put(struct spool *sp, uint8_t kind, const char *text)
{
	CHECK_INT(spool_put(sp, kind, text, strlen(text), NULL), 0);
}

static off_t file_size(void)
{
	struct stat st;

	return fstatat(dir_fd, "s", &st, 0) == 0 ? st.st_size : -1;
}

static void check_event(struct spool *sp, uint64_t after, uint64_t seq, uint8_t kind,
                        const char *text)
{
	struct spool_event ev;

	CHECK_INT(spool_next(sp, after, &ev, NULL), 1);
	CHECK_INT(ev.seq, seq);
	CHECK_INT(ev.kind, kind);
	CHECK_MEM(ev.data, ev.len, text, strlen(text));
}

TEST(events_are_read_as_they_were_put)
{
	struct spool_event ev;
	struct spool *sp;

	set_up();
	sp = make(MIB);
	CHECK_INT(spool_next(sp, 0, &ev, NULL), 0);
	put(sp, SPOOL_STDOUT, "hello");
	put(sp, SPOOL_STDERR, "oh");
	put(sp, SPOOL_STDOUT, "world");
	check_event(sp, 0, 1, SPOOL_STDOUT, "hello");
	check_event(sp, 1, 2, SPOOL_STDERR, "oh");
	check_event(sp, 2, 3, SPOOL_STDOUT, "world");
	check_event(sp, 1, 2, SPOOL_STDERR, "oh");
	CHECK_INT(spool_next(sp, 3, &ev, NULL), 0);
	CHECK_INT(spool_next(sp, 99, &ev, NULL), 0);
	CHECK_INT(spool_last_seq(sp), 3);
	CHECK_INT(spool_bytes(sp, SPOOL_STDOUT), 10);
	CHECK_INT(spool_bytes(sp, SPOOL_STDERR), 2);
	spool_free(sp, true);
	tear_down();
}

TEST(a_spool_without_events_has_no_file)
{
	struct spool *sp;
	uint64_t offset;

	set_up();
	spool_free(make(MIB), true);
	CHECK_INT(file_size(), -1);
	sp = reopen(&offset);
	CHECK_INT(offset, 0);
	put(sp, SPOOL_STDOUT, "late");
	check_event(sp, 0, 1, SPOOL_STDOUT, "late");
	spool_free(sp, true);
	CHECK_INT(file_size(), -1);
	tear_down();
}

TEST(past_the_bound_the_oldest_go_and_a_gap_says_how_much)
{
	struct spool_event ev;
	uint64_t seen = 0, after = 0;
	char block[1000];
	struct spool *sp;

	set_up();
	sp = make(64 * 1024);
	for (int i = 0; i < 1000; i++) {
		memset(block, 'a' + i % 26, sizeof(block));
		CHECK_INT(spool_put(sp, SPOOL_STDOUT, block, sizeof(block), NULL), 0);
	}
	CHECK(file_size() <= 64 * 1024 + 64);
	CHECK_INT(spool_next(sp, 0, &ev, NULL), 1);
	CHECK_INT(ev.kind, SPOOL_GAP);
	CHECK_INT(ev.lost_bytes, ev.lost_events * 1000);
	CHECK_INT(ev.seq, ev.lost_events);
	CHECK(ev.lost_events > 900 && ev.lost_events < 960);
	seen = ev.lost_bytes;
	after = ev.seq;
	while (spool_next(sp, after, &ev, NULL) == 1) {
		CHECK_INT(ev.seq, after + 1);
		CHECK_INT(ev.data[0], 'a' + (int)((ev.seq - 1) % 26));
		CHECK_INT(ev.data[999], ev.data[0]);
		seen += ev.len;
		after = ev.seq;
	}
	CHECK_INT(after, 1000);
	CHECK_INT(seen, 1000 * 1000);
	spool_free(sp, true);
	tear_down();
}

TEST(a_reader_that_falls_behind_learns_exactly_what_it_missed)
{
	struct spool_event ev;
	char block[4000] = {0};
	struct spool *sp;
	uint64_t put_bytes = 0;

	set_up();
	sp = make(64 * 1024);
	put(sp, SPOOL_STDOUT, "seven b");
	check_event(sp, 0, 1, SPOOL_STDOUT, "seven b");
	for (size_t i = 1; i <= 100; i++) { /* of uneven sizes: no estimate would hit it */
		CHECK_INT(spool_put(sp, SPOOL_STDOUT, block, i * 39, NULL), 0);
		put_bytes += i * 39;
	}
	CHECK_INT(spool_next(sp, 1, &ev, NULL), 1);
	CHECK_INT(ev.kind, SPOOL_GAP);
	put_bytes -= ev.lost_bytes;
	for (uint64_t after = ev.seq; spool_next(sp, after, &ev, NULL) == 1; after = ev.seq)
		put_bytes -= ev.len;
	CHECK_INT(put_bytes, 0);
	spool_free(sp, true);
	tear_down();
}

TEST(skipped_output_is_a_gap_in_its_place)
{
	struct spool_event ev;
	struct spool *sp;

	set_up();
	sp = make(MIB);
	put(sp, SPOOL_STDOUT, "one");
	spool_skip(sp, SPOOL_STDERR, 500);
	check_event(sp, 0, 1, SPOOL_STDOUT, "one");
	CHECK_INT(spool_next(sp, 1, &ev, NULL), 1); /* nothing behind it yet */
	CHECK_INT(ev.kind, SPOOL_GAP);
	CHECK_INT(ev.lost_bytes, 500);
	CHECK_INT(ev.seq, 2);
	CHECK_INT(spool_next(sp, 2, &ev, NULL), 0);
	put(sp, SPOOL_STDOUT, "two");
	check_event(sp, 2, 3, SPOOL_STDOUT, "two");
	CHECK_INT(spool_next(sp, 1, &ev, NULL), 1);
	CHECK_INT(ev.kind, SPOOL_GAP);
	CHECK_INT(ev.lost_bytes, 500);
	CHECK_INT(spool_bytes(sp, SPOOL_STDERR), 500);
	spool_free(sp, true);
	tear_down();
}

TEST(a_reopened_spool_goes_on_where_it_was)
{
	struct spool *sp;
	uint64_t offset;

	set_up();
	sp = make(MIB);
	put(sp, SPOOL_STDOUT, "before");
	put(sp, SPOOL_STDERR, "err");
	spool_skip(sp, SPOOL_STDOUT, 10);
	put(sp, SPOOL_STDOUT, "x");
	spool_free(sp, false);
	sp = reopen(&offset);
	CHECK_INT(offset, 20);
	CHECK_INT(spool_last_seq(sp), 4);
	CHECK_INT(spool_bytes(sp, SPOOL_STDOUT), 17);
	CHECK_INT(spool_bytes(sp, SPOOL_STDERR), 3);
	put(sp, SPOOL_STDOUT, "after");
	check_event(sp, 0, 1, SPOOL_STDOUT, "before");
	check_event(sp, 1, 2, SPOOL_STDERR, "err");
	check_event(sp, 3, 4, SPOOL_STDOUT, "x");
	check_event(sp, 4, 5, SPOOL_STDOUT, "after");
	spool_free(sp, true);
	tear_down();
}

TEST(a_torn_last_event_is_cut_off_wherever_it_was_torn)
{
	set_up();
	for (off_t lost = 1; lost <= 48 + 5; lost++) {
		struct spool *sp = make(MIB);
		uint64_t offset;
		off_t whole;
		int fd;

		put(sp, SPOOL_STDOUT, "kept");
		whole = file_size();
		put(sp, SPOOL_STDERR, "torn!");
		spool_free(sp, false);
		fd = openat(dir_fd, "s", O_RDWR | O_CLOEXEC);
		CHECK_INT(ftruncate(fd, whole + 48 + 5 - lost), 0);
		(void)close(fd);
		sp = reopen(&offset);
		CHECK_INT(offset, 4);
		CHECK_INT(spool_last_seq(sp), 1);
		put(sp, SPOOL_STDERR, "again");
		check_event(sp, 0, 1, SPOOL_STDOUT, "kept");
		check_event(sp, 1, 2, SPOOL_STDERR, "again");
		spool_free(sp, true);
	}
	tear_down();
}

TEST(a_last_event_with_wrong_bytes_is_cut_off)
{
	struct spool *sp;
	uint64_t offset;
	int fd;

	set_up();
	sp = make(MIB);
	put(sp, SPOOL_STDOUT, "kept");
	put(sp, SPOOL_STDOUT, "spoiled");
	spool_free(sp, false);
	fd = openat(dir_fd, "s", O_RDWR | O_CLOEXEC);
	CHECK_INT(pwrite(fd, "X", 1, file_size() - 3), 1);
	(void)close(fd);
	sp = reopen(&offset);
	CHECK_INT(offset, 4);
	CHECK_INT(spool_last_seq(sp), 1);
	spool_free(sp, true);
	tear_down();
}

TEST(a_full_ring_reopens_at_every_turn_of_it)
{
	struct spool *sp;
	char block[300];
	uint64_t total = 0;

	set_up();
	sp = make(8192);
	for (size_t i = 1; i <= 400; i++) {
		struct spool_event ev;
		uint64_t offset;

		memset(block, (int)(i & 0xff), sizeof(block));
		CHECK_INT(spool_put(sp, SPOOL_STDOUT, block, 1 + i * 7 % 300, NULL), 0);
		total += 1 + i * 7 % 300;
		spool_free(sp, false);
		sp = reopen(&offset);
		CHECK_INT(offset, total);
		CHECK_INT(spool_last_seq(sp), i);
		CHECK_INT(spool_next(sp, i - 1, &ev, NULL), 1);
		CHECK_INT(ev.len, 1 + i * 7 % 300);
		CHECK_INT((unsigned char)ev.data[ev.len - 1], i & 0xff);
	}
	CHECK(file_size() <= 8192 + 64);
	spool_free(sp, true);
	tear_down();
}

TEST(a_hundred_thousand_events_stay_in_order_for_two_readers)
{
	uint64_t after[2] = {0, 0}, bytes[2] = {0, 0};
	struct spool *sp;

	set_up();
	sp = make(32 * MIB);
	for (uint64_t i = 1; i <= 100000; i++) {
		char text[24];
		int len = snprintf(text, sizeof(text), "line %lu\n", (unsigned long)i);

		CHECK_INT(spool_put(sp, SPOOL_STDOUT, text, (size_t)len, NULL), 0);
	}
	for (int i = 0; i < 200000; i++) {
		struct spool_event ev;
		int who = i % 2;

		CHECK_INT(spool_next(sp, after[who], &ev, NULL), 1);
		CHECK_INT(ev.seq, after[who] + 1);
		after[who] = ev.seq;
		bytes[who] += ev.len;
	}
	CHECK_INT(bytes[0], spool_bytes(sp, SPOOL_STDOUT));
	CHECK_INT(bytes[1], bytes[0]);
	for (uint64_t i = 0; i < 1000; i++) { /* and for those who come from anywhere */
		struct spool_event ev;

		CHECK_INT(spool_next(sp, i * 7919 % 100000, &ev, NULL), 1);
		CHECK_INT(ev.seq, i * 7919 % 100000 + 1);
	}
	spool_free(sp, true);
	tear_down();
}

TEST(an_event_larger_than_a_record_is_split_and_whole)
{
	auto_free char *block = malloc(300000);
	struct spool_event ev;
	struct spool *sp;
	size_t seen = 0;

	set_up();
	sp = make(4 * MIB);
	for (size_t i = 0; i < 300000; i++)
		block[i] = (char)(i * 31);
	CHECK_INT(spool_put(sp, SPOOL_STDOUT, block, 300000, NULL), 0);
	for (uint64_t after = 0; spool_next(sp, after, &ev, NULL) == 1; after = ev.seq) {
		CHECK_MEM(ev.data, ev.len, block + seen, ev.len);
		seen += ev.len;
	}
	CHECK_INT(seen, 300000);
	spool_free(sp, true);
	tear_down();
}

TEST_FORKED(a_full_disk_is_an_error_and_the_spool_stays_readable, 20)
{
	struct rlimit limit = {.rlim_cur = 3000, .rlim_max = 3000};
	char block[1000] = "block";
	struct spool_event ev;
	struct spool *sp;
	struct err err = {0};
	int r = 0;

	set_up();
	(void)signal(SIGXFSZ, SIG_IGN);
	CHECK_INT(setrlimit(RLIMIT_FSIZE, &limit), 0);
	sp = make(MIB);
	for (int i = 0; i < 10 && r == 0; i++)
		r = spool_put(sp, SPOOL_STDOUT, block, sizeof(block), &err);
	CHECK_INT(r, -EFBIG);
	CHECK_INT(spool_last_seq(sp), 2);
	spool_skip(sp, SPOOL_STDOUT, sizeof(block));
	CHECK_INT(spool_next(sp, 1, &ev, NULL), 1);
	CHECK_STR(ev.data, "block");
	CHECK_INT(spool_next(sp, 2, &ev, NULL), 1);
	CHECK_INT(ev.kind, SPOOL_GAP);
	CHECK_INT(ev.lost_bytes, 1000);
	spool_free(sp, true);
	tear_down();
}

TEST(a_resting_spool_is_read_and_written_as_any)
{
	struct spool_event ev;
	struct spool *sp;

	set_up();
	sp = make(MIB);
	put(sp, SPOOL_STDOUT, "a");
	spool_rest(sp);
	check_event(sp, 0, 1, SPOOL_STDOUT, "a");
	CHECK_INT(spool_next(sp, 1, &ev, NULL), 0);
	put(sp, SPOOL_STDOUT, "b");
	check_event(sp, 1, 2, SPOOL_STDOUT, "b");
	spool_free(sp, true);
	tear_down();
}

static off_t blocks_of_file(void)
{
	struct stat st;

	return fstatat(dir_fd, "s", &st, 0) == 0 ? st.st_blocks * 512 : -1;
}

TEST(a_spool_sheds_its_oldest_events_and_gives_their_disk_back)
{
	struct spool *sp;
	struct spool_event ev;
	char text[4001] = "";
	uint64_t offset, kept;
	off_t before;

	set_up();
	sp = make(MIB);
	memset(text, 'x', sizeof(text) - 1);
	for (int i = 0; i < 100; i++)
		put(sp, SPOOL_STDOUT, text);
	kept = spool_kept(sp);
	before = blocks_of_file();
	CHECK(kept > 400000 && kept < 410000);
	CHECK_INT(spool_estimate(100, 400000), kept);
	spool_shed(sp, 200000);
	CHECK(spool_kept(sp) <= kept - 200000 && spool_kept(sp) > kept - 210000);
	CHECK(blocks_of_file() <= before - 180000);
	CHECK_INT(spool_next(sp, 0, &ev, NULL), 1);
	CHECK_INT(ev.kind, SPOOL_GAP);
	CHECK_INT(ev.lost_bytes, ev.lost_events * 4000);
	CHECK_INT(ev.lost_events, 50);
	check_event(sp, ev.seq, 51, SPOOL_STDOUT, text);
	/* All but the last: that one knows how much there ever was. */
	spool_shed(sp, UINT64_MAX);
	CHECK_INT(spool_last_seq(sp), 100);
	spool_free(sp, false);
	sp = reopen(&offset);
	CHECK_INT(offset, 400000);
	check_event(sp, 99, 100, SPOOL_STDOUT, text);
	put(sp, SPOOL_STDOUT, "on");
	check_event(sp, 100, 101, SPOOL_STDOUT, "on");
	spool_free(sp, true);
	tear_down();
}

TEST(a_dropped_spool_has_no_file_and_a_gap_instead_of_its_events)
{
	struct spool *sp;
	struct spool_event ev;
	uint64_t offset;

	set_up();
	sp = make(MIB);
	put(sp, SPOOL_STDOUT, "four");
	put(sp, SPOOL_STDERR, "three");
	check_event(sp, 0, 1, SPOOL_STDOUT, "four");
	spool_drop(sp);
	CHECK_INT(file_size(), -1);
	CHECK_INT(spool_kept(sp), 0);
	CHECK_INT(spool_next(sp, 1, &ev, NULL), 1);
	CHECK_INT(ev.kind, SPOOL_GAP);
	CHECK_INT(ev.lost_bytes, 5);
	CHECK_INT(spool_next(sp, ev.seq, &ev, NULL), 0);
	spool_free(sp, false);
	/* After a restart, by the figures of its row. */
	sp = reopen(&offset);
	CHECK_INT(offset, 0);
	spool_raise(sp, 2, 4, 5);
	CHECK_INT(spool_next(sp, 0, &ev, NULL), 1);
	CHECK_INT(ev.kind, SPOOL_GAP);
	CHECK_INT(ev.lost_bytes, 9);
	CHECK_INT(ev.lost_events, 2);
	spool_free(sp, true);
	tear_down();
}

TEST(a_file_that_is_no_spool_is_refused)
{
	char junk[200] = "junk";
	struct spool *sp = NULL;
	struct err err = {0};
	uint64_t offset;
	int fd;

	set_up();
	fd = openat(dir_fd, "s", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK_INT(write(fd, junk, sizeof(junk)), sizeof(junk));
	(void)close(fd);
	CHECK(spool_reopen(dir_fd, "s", MIB, &sp, &offset, &err) < 0);
	tear_down();
}
