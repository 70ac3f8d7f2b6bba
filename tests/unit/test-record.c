// SPDX-License-Identifier: Apache-2.0
/*
 * Records of every version that is read are kept in tests/upgrade/records, v4 and so on, written by
 * the program of their time. A new version is kept by
 *
 *	CLOCHE_KEEP_RECORD=FILE CLOCHE_RECORDS=tests/upgrade/records build/tests/unit/test-record
 *
 * and then stays as it is.
 */
#include "test.h"

#include "base/fd.h"
#include "engine/guest/guest_record.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAGIC 0x636c6a72U

static struct guest_record sample(uint32_t version)
{
	struct guest_record r = {
		.magic = MAGIC, .version = version, .pid = 4242, .start_ticks = 987654321};
	struct guest_spec *s = &r.spec;

	(void)snprintf(s->id, sizeof(s->id), "sb_0123456789abcdefghjkmnpqrs");
	(void)snprintf(s->hostname, sizeof(s->hostname), "kept");
	s->slot = 7;
	s->is_resumed = 1;
	s->shows = SHOWS_IMAGE;
	s->engine = 1;
	s->is_kvm = 1;
	s->with_memory = 1;
	memset(&s->image, 0xab, sizeof(s->image));
	s->limits = (struct guest_limits){.memory_bytes = UINT64_C(512) << 20,
	                                  .disk_bytes = UINT64_C(1) << 30,
	                                  .inodes = 100000,
	                                  .cpu_milli = 1500,
	                                  .pids = 64,
	                                  .open_files = 1024};
	s->keeper = UINT64_C(0x1122334455667788);
	(void)snprintf(s->snapshot, sizeof(s->snapshot), "sn_0123456789abcdefghjkmnpqrs");
	if (version >= 5)
		(void)snprintf(s->shown[1], sizeof(s->shown[1]), "sn_shown");
	if (version >= 6) {
		(void)snprintf(s->volumes[0].id, sizeof(s->volumes[0].id), "vo_kept");
		(void)snprintf(s->volumes[0].path, sizeof(s->volumes[0].path), "/data");
		s->volumes[0].is_read_only = 1;
	}
	(void)snprintf(r.boot_id, sizeof(r.boot_id), "00000000-1111-2222-3333-444444444444");
	return r;
}

static size_t read_kept(uint32_t version, unsigned char bytes[GUEST_RECORD_SIZE_MAX])
{
	char path[512];
	auto_fd int fd = -1;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "%s/v%u", getenv("CLOCHE_RECORDS"), version);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		print_error("no record of version %u is kept: see the top of test-record.c\n",
		            version);
	CHECK(fd >= 0);
	n = read(fd, bytes, GUEST_RECORD_SIZE_MAX);
	CHECK(n > 0);
	return (size_t)n;
}

TEST(a_record_of_each_version_that_was_written_is_read)
{
	unsigned char bytes[GUEST_RECORD_SIZE_MAX];

	for (uint32_t v = GUEST_RECORD_OLDEST; v <= GUEST_RECORD_VERSION; v++) {
		const struct guest_record wanted = sample(v);
		struct guest_record got;

		CHECK_INT(guest_record_from_bytes(bytes, read_kept(v, bytes), &got), 0);
		CHECK_MEM(&got, sizeof(got), &wanted, sizeof(wanted));
	}
}

TEST(a_change_of_the_layout_is_a_new_version)
{
	const struct guest_record now = sample(GUEST_RECORD_VERSION);
	unsigned char bytes[GUEST_RECORD_SIZE_MAX], kept[GUEST_RECORD_SIZE_MAX];
	size_t len = guest_record_to_bytes(&now, bytes);
	const char *path = getenv("CLOCHE_KEEP_RECORD");

	if (path)
		CHECK_INT(fd_replace_file(AT_FDCWD, path, bytes, len, 0644, /* sync= */ false), 0);
	CHECK_MEM(bytes, len, kept, read_kept(GUEST_RECORD_VERSION, kept));
}

TEST(no_field_of_a_guest_is_left_out_of_its_record)
{
	unsigned char bytes[GUEST_RECORD_SIZE_MAX];
	struct guest_record full, got;

	memset(&full, 0x5a, sizeof(full));
	full.magic = MAGIC;
	full.version = GUEST_RECORD_VERSION;
	CHECK_INT(guest_record_from_bytes(bytes, guest_record_to_bytes(&full, bytes), &got), 0);
	CHECK_MEM(&got, sizeof(got), &full, sizeof(full));
}

TEST(a_record_of_a_later_version_is_told_as_that)
{
	struct guest_record later = sample(GUEST_RECORD_VERSION), got;
	unsigned char bytes[GUEST_RECORD_SIZE_MAX];
	size_t len;

	later.version = GUEST_RECORD_VERSION + 1;
	len = guest_record_to_bytes(&later, bytes);
	CHECK_INT(guest_record_from_bytes(bytes, len, &got), -EPROTONOSUPPORT);
	CHECK_INT(got.version, GUEST_RECORD_VERSION + 1);
	/* However long it is. */
	CHECK_INT(guest_record_from_bytes(bytes, 8, &got), -EPROTONOSUPPORT);
}

TEST(an_early_layout_that_shares_a_number_is_not_taken_for_another)
{
	struct guest_record old = sample(GUEST_RECORD_OLDEST), got;
	unsigned char bytes[GUEST_RECORD_SIZE_MAX];

	(void)guest_record_to_bytes(&old, bytes);
	CHECK_INT(guest_record_from_bytes(bytes, guest_record_size(GUEST_RECORD_OLDEST) - 16, &got),
	          -EPROTONOSUPPORT);
}

TEST(what_is_no_record_is_refused_at_any_length)
{
	const struct guest_record now = sample(GUEST_RECORD_VERSION);
	unsigned char bytes[GUEST_RECORD_SIZE_MAX];
	size_t len = guest_record_to_bytes(&now, bytes);
	struct guest_record got;

	for (size_t n = 0; n < len; n++)
		CHECK_INT(guest_record_from_bytes(bytes, n, &got), -EPROTO);
	bytes[0] ^= 1;
	CHECK_INT(guest_record_from_bytes(bytes, len, &got), -EPROTO);
}
